#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/report.h"
#include "base/text.h"
#include "flat/notes.h"
#include "flat/unflatten.h"
#include "source/detect.h"
#include "view.h"

typedef struct fact {
    const char *key, *value;
} fact;

typedef struct section {
    const char *section, *name; /* NULL: at the top, under the tensor's own name */
} section;

struct sw_checkpoint {
    swi_detected at;
    swi_filecache *cache;
    sw_catalog *catalog;
    swi_arena arena;
    section *sections;
    size_t section_capacity;
    fact *facts;
    size_t fact_count, fact_capacity;
    sw_limits limits;
    uint64_t open_memory;
    void *kept; /* of the framework */
    void (*free_kept)(void *);
    const char *temp_dir;
    pthread_mutex_t lock; /* of the view */
    bool has_lock;
    swi_source source;
    swi_view view; /* of the tensor read last: reading on costs no second look at its parts */
    bool has_view;
    bool incomplete, opaque;
    swi_row_notes rows;
    bool derived; /* all but catalog, lock and view belong to another */
    uint32_t own; /* derived: tensors of that one */
    /* Of a checkpoint without its rows: what they were undone with, and the one that has them. */
    swi_unflat *unflat;
    sw_checkpoint *rowed; /* owned where owns_rowed */
    bool owns_rowed;
};

sw_status swi_opening_section(swi_opening *o, uint32_t tensor, const char *text, const char *name,
                              sw_error *err)
{
    sw_checkpoint *c = o->checkpoint;
    sw_status st = swi_grow_array((void **)&c->sections, &c->section_capacity, (size_t)tensor + 1,
                                  sizeof *c->sections, err);
    if (st != SW_OK)
        return st;
    section *s = &c->sections[tensor];
    /* neighbours mostly share their section: keep one copy */
    if (tensor > 0 && s[-1].section != NULL && strcmp(s[-1].section, text) == 0)
        s->section = s[-1].section;
    else
        st = swi_arena_text(&c->arena, text, strlen(text), &s->section, err);
    if (st == SW_OK)
        st = swi_arena_text(&c->arena, name, strlen(name), &s->name, err);
    return st;
}

sw_status swi_opening_row(swi_opening *o, uint32_t tensor, const char *unit, uint64_t shards,
                          sw_error *err)
{
    return swi_note_row(&o->checkpoint->rows, tensor, unit, shards, err);
}

sw_status swi_opening_row_slice(swi_opening *o, uint32_t tensor, const char *name, uint64_t at,
                                uint64_t elements, sw_error *err)
{
    return swi_note_slice(&o->checkpoint->rows, tensor, name, at, elements, err);
}

void swi_opening_memory(swi_opening *o, uint64_t bytes)
{
    if (bytes > o->checkpoint->open_memory)
        o->checkpoint->open_memory = bytes;
}

uint64_t swi_checkpoint_open_memory(const sw_checkpoint *checkpoint)
{
    return checkpoint->open_memory;
}

void swi_opening_incomplete(swi_opening *o)
{
    o->checkpoint->incomplete = true;
}

void swi_opening_opaque(swi_opening *o)
{
    o->checkpoint->opaque = true;
}

sw_status swi_opening_fact(swi_opening *o, const char *key, sw_error *err, const char *fmt, ...)
{
    sw_checkpoint *c = o->checkpoint;
    char text[256];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n < 0)
        return swi_fail(err, SW_ERR_ARG, "fact %s cannot be formatted", key);
    swi_quoted q;
    const char *shown = swi_quote_str(&q, text);
    sw_status st = swi_grow_array((void **)&c->facts, &c->fact_capacity, c->fact_count + 1,
                                  sizeof *c->facts, err);
    if (st != SW_OK)
        return st;
    fact *f = &c->facts[c->fact_count];
    st = swi_arena_text(&c->arena, key, strlen(key), &f->key, err);
    if (st == SW_OK)
        st = swi_arena_text(&c->arena, shown, strlen(shown), &f->value, err);
    if (st == SW_OK)
        c->fact_count++;
    return st;
}

void swi_opening_keep(swi_opening *o, void *data, void (*free_data)(void *))
{
    sw_checkpoint *c = o->checkpoint;
    if (c->kept != NULL)
        c->free_kept(c->kept);
    c->kept = data;
    c->free_kept = free_data;
}

/* The reader's work, then the catalog and the files behind it. */
static sw_status read_catalog(sw_checkpoint *c, const sw_open_options *options, sw_report *report,
                              bool *recognised, sw_error *err)
{
    swi_builder *builder = NULL;
    sw_status st = swi_builder_make(&c->limits, &builder, err);
    if (st != SW_OK)
        return st;
    swi_opening o = {
        .store = c->at.store,
        .listing = c->at.listing,
        .limits = c->limits,
        .builder = builder,
        .report = report,
        .checkpoint = c,
        .map = options ? options->map : NULL,
        .config = options ? options->config : NULL,
        .shapes = options ? options->shapes : NULL,
    };
    st = c->at.framework->open(&o, err);
    *recognised = st == SW_OK || !o.ambiguous;
    if (st == SW_OK)
        st = swi_builder_freeze(builder, o.proven ? NULL : report, &c->catalog, err);
    else
        swi_builder_free(builder);
    if (st != SW_OK) {
        swi_quoted q;
        return swi_error_prefix(err, "%s: %s", c->at.framework->name,
                                swi_quote_str(&q, c->at.root));
    }
    st = swi_filecache_make(c->at.store, (uint32_t)sw_catalog_file_count(c->catalog),
                            swi_catalog_path_of, c->catalog, &c->limits, &c->cache, err);
    if (st != SW_OK)
        return st;
    swi_filecache_set_temp_dir(c->cache, c->temp_dir);
    c->source = swi_checkpoint_source(c);
    return SW_OK;
}

static sw_status prepare(sw_checkpoint *c, sw_error *err)
{
    int rc = pthread_mutex_init(&c->lock, NULL);
    if (rc != 0)
        return swi_fail_errno(err, rc, "pthread_mutex_init");
    c->has_lock = true;
    const char *dir = getenv("TMPDIR");
    if (dir == NULL || dir[0] == '\0')
        dir = "/tmp";
    return swi_arena_text(&c->arena, dir, strlen(dir), &c->temp_dir, err);
}

/* Where the tensors lie in the state dict, when they are not those of the base any more. */
static sw_status note_sections(sw_checkpoint *c, sw_error *err)
{
    swi_opening o = {.checkpoint = c};
    sw_status st = SW_OK;
    c->sections = NULL;
    c->section_capacity = 0;
    for (size_t i = 0; st == SW_OK && i < sw_catalog_tensor_count(c->catalog); i++) {
        const char *part, *name;
        swi_unflat_section(c->unflat, (uint32_t)i, &part, &name);
        st = swi_opening_section(&o, (uint32_t)i, part, name, err);
    }
    return st;
}

static sw_status say_unused(const sw_open_options *options, sw_report *report, sw_error *err)
{
    const swi_finding_in in = {.severity = SW_WARNING, .code = "shapes-unused"};
    if (options == NULL || options->shapes == NULL)
        return SW_OK;
    return swi_report_add(report, &in, err,
                          "--shapes is not needed: nothing that was read is a flat parameter");
}

/* What has rows is read without them, if it is known what is in them. */
static sw_status undo_rows(sw_checkpoint **checkpoint, const sw_open_options *options,
                           sw_report *report, sw_error *err)
{
    sw_checkpoint *base = *checkpoint, *c = NULL;
    const swi_unflat_in in = {.base = base,
                              .notes = &base->rows,
                              .options = options,
                              .limits = base->limits,
                              .report = report};
    swi_unflat *unflat = NULL;
    sw_catalog *catalog = NULL;
    sw_status st = swi_note_named_rows(base, &base->rows, err);
    if (st != SW_OK)
        return st;
    if (base->rows.row_count == 0)
        return say_unused(options, report, err);
    st = swi_unflatten(&in, &unflat, &catalog, err);
    if (st != SW_OK || unflat == NULL)
        return st;
    st = swi_checkpoint_derive(base, catalog, &c, err);
    if (st != SW_OK) {
        swi_unflat_free(unflat);
        return st;
    }
    *checkpoint = c;
    c->rowed = base;
    c->owns_rowed = true;
    c->unflat = unflat;
    c->own = (uint32_t)sw_catalog_tensor_count(catalog);
    c->arena = (swi_arena){0};
    return note_sections(c, err);
}

sw_status swi_checkpoint_open(const char *path, const sw_open_options *options, sw_report *report,
                              bool *recognised, sw_checkpoint **out, sw_error *err)
{
    sw_checkpoint *c = NULL;
    *recognised = false;
    sw_status st = swi_alloc_array(1, sizeof *c, (void **)&c, err);
    if (st != SW_OK)
        return st;
    c->limits = sw_limits_resolve(options ? options->limits : NULL);
    st = prepare(c, err);
    if (st == SW_OK)
        st = swi_detect(path, options ? options->from : NULL, &c->limits, report, &c->at, err);
    *recognised = st == SW_OK;
    if (st == SW_OK)
        st = read_catalog(c, options, report, recognised, err);
    if (st == SW_OK)
        st = undo_rows(&c, options, report, err);
    if (st != SW_OK) {
        sw_checkpoint_close(c);
        return st;
    }
    *out = c;
    return SW_OK;
}

sw_status sw_checkpoint_open(const char *path, const sw_open_options *options, sw_report *report,
                             sw_checkpoint **out, sw_error *err)
{
    bool recognised;
    if (path == NULL || out == NULL)
        return swi_fail(err, SW_ERR_ARG, "sw_checkpoint_open: path and out are needed");
    return swi_checkpoint_open(path, options, report, &recognised, out, err);
}

/* ---- parts ------------------------------------------------------------------------------------
 */

sw_status swi_checkpoint_open_part(const swi_opening *o, const char *name, sw_report *report,
                                   sw_checkpoint **out, sw_error *err)
{
    const sw_open_options options = {.map = o->map, .config = o->config, .shapes = o->shapes};
    sw_checkpoint *c = NULL;
    bool recognised;
    sw_status st = swi_alloc_array(1, sizeof *c, (void **)&c, err);
    if (st != SW_OK)
        return st;
    c->limits = o->limits;
    st = prepare(c, err);
    if (st == SW_OK)
        st = swi_detect_part(&o->checkpoint->at, name, &c->limits, &c->at, err);
    if (st == SW_OK)
        st = read_catalog(c, &options, report, &recognised, err);
    if (st == SW_OK)
        *out = c;
    else
        sw_checkpoint_close(c);
    return st;
}

/* "model" and "encoder": "model.encoder". */
static sw_status adopt_section(swi_opening *o, const sw_checkpoint *part, uint32_t i,
                               uint32_t tensor, const char *under, sw_error *err)
{
    const char *own, *name;
    swi_buf text = {0};
    sw_checkpoint_split_name(part, i, &own, &name);
    sw_status st = swi_buf_printf(&text, err, "%s%s%s", under,
                                  under[0] != '\0' && own[0] != '\0' ? "." : "", own);
    if (st == SW_OK)
        st = swi_buf_u8(&text, 0, err);
    if (st == SW_OK)
        st = swi_opening_section(o, tensor, (const char *)text.data, name, err);
    swi_buf_free(&text);
    return st;
}

sw_status swi_opening_adopt(swi_opening *o, const sw_checkpoint *part, uint32_t first_tensor,
                            const char *under, sw_error *err)
{
    const swi_row_notes *notes = &part->rows;
    const uint32_t count = (uint32_t)sw_catalog_tensor_count(part->catalog);
    sw_status st = SW_OK;
    for (uint32_t i = 0; st == SW_OK && i < count; i++)
        st = adopt_section(o, part, i, first_tensor + i, under, err);
    for (size_t i = 0; st == SW_OK && i < notes->row_count; i++) {
        const swi_row_note *r = &notes->rows[i];
        st = swi_opening_row(o, first_tensor + r->tensor, r->unit, r->shards, err);
    }
    for (size_t i = 0; st == SW_OK && i < notes->slice_count; i++) {
        const swi_slice_note *s = &notes->slices[i];
        st = swi_opening_row_slice(o, first_tensor + s->tensor, s->name, s->at, s->elements, err);
    }
    swi_opening_memory(o, part->open_memory);
    if (part->incomplete)
        swi_opening_incomplete(o);
    if (part->opaque)
        swi_opening_opaque(o);
    return st;
}

sw_status swi_checkpoint_derive(const sw_checkpoint *base, sw_catalog *catalog, sw_checkpoint **out,
                                sw_error *err)
{
    sw_checkpoint *c = NULL;
    sw_status st = swi_alloc_array(1, sizeof *c, (void **)&c, err);
    if (st != SW_OK)
        goto done;
    *c = *base;
    c->catalog = NULL;
    c->derived = true;
    c->owns_rowed = false;
    c->own = swi_checkpoint_own_tensors(base);
    c->has_view = c->has_lock = false;
    c->view = (swi_view){0};
    int rc = pthread_mutex_init(&c->lock, NULL);
    if (rc != 0) {
        st = swi_fail_errno(err, rc, "pthread_mutex_init");
        goto done;
    }
    c->has_lock = true;
    c->catalog = catalog;
    catalog = NULL;
    c->source = swi_checkpoint_source(c);
    *out = c;
    c = NULL;
done:
    free(c);
    sw_catalog_free(catalog);
    return st;
}

const swi_unflat *swi_checkpoint_unflat(const sw_checkpoint *checkpoint)
{
    return checkpoint->unflat;
}

swi_rows_left swi_checkpoint_rows_left(const sw_checkpoint *c)
{
    swi_rows_left left = SWI_ROWS_NONE;
    if (c->unflat != NULL)
        return swi_unflat_is_partial(c->unflat) ? SWI_ROWS_OF_OPTIMIZERS : SWI_ROWS_NONE;
    for (size_t i = 0; i < c->rows.row_count; i++) {
        if (c->rows.rows[i].unit != NULL)
            return SWI_ROWS_OF_MODEL;
        left = SWI_ROWS_OF_OPTIMIZERS;
    }
    return left;
}

uint32_t swi_checkpoint_own_tensors(const sw_checkpoint *c)
{
    return c->derived ? c->own : (uint32_t)sw_catalog_tensor_count(c->catalog);
}

static void drop_view(sw_checkpoint *c)
{
    if (c->has_view)
        swi_view_close(&c->view);
    c->has_view = false;
}

static void end_lock(sw_checkpoint *c)
{
    drop_view(c);
    if (c->has_lock)
        (void)pthread_mutex_destroy(&c->lock);
}

/* One that is not derived from another. */
static void close_opened(sw_checkpoint *c)
{
    end_lock(c);
    swi_filecache_free(c->cache);
    sw_catalog_free(c->catalog);
    swi_detected_free(&c->at);
    swi_arena_free(&c->arena);
    swi_row_notes_free(&c->rows);
    if (c->kept != NULL)
        c->free_kept(c->kept);
    free(c->sections);
    free(c->facts);
    free(c);
}

static void close_derived(sw_checkpoint *c)
{
    end_lock(c);
    sw_catalog_free(c->catalog);
    if (c->owns_rowed) {
        swi_unflat_free(c->unflat);
        free(c->sections);
        swi_arena_free(&c->arena);
        close_opened(c->rowed);
    }
    free(c);
}

void sw_checkpoint_close(sw_checkpoint *checkpoint)
{
    if (checkpoint == NULL)
        return;
    if (checkpoint->derived)
        close_derived(checkpoint);
    else
        close_opened(checkpoint);
}

const sw_catalog *sw_checkpoint_catalog(const sw_checkpoint *checkpoint)
{
    return checkpoint->catalog;
}

const char *sw_checkpoint_framework(const sw_checkpoint *checkpoint)
{
    return checkpoint->at.framework->name;
}

const char *sw_checkpoint_title(const sw_checkpoint *checkpoint)
{
    return checkpoint->at.framework->title;
}

const char *sw_checkpoint_root(const sw_checkpoint *checkpoint)
{
    return checkpoint->at.root;
}

bool sw_checkpoint_fact(const sw_checkpoint *checkpoint, size_t i, const char **key,
                        const char **value)
{
    if (i >= checkpoint->fact_count)
        return false;
    *key = checkpoint->facts[i].key;
    *value = checkpoint->facts[i].value;
    return true;
}

sw_status sw_checkpoint_value(const sw_checkpoint *checkpoint, size_t i, sw_value_graph **graph,
                              sw_value *root, sw_error *err)
{
    sw_value_info info;
    if (!sw_catalog_value_at(checkpoint->catalog, i, &info))
        return swi_fail(err, SW_ERR_ARG, "value %zu is not in the catalog", i);
    swi_blob blob;
    swi_catalog_blob(checkpoint->catalog, swi_value_blob(checkpoint->catalog, i), &blob);
    swi_quoted q;
    sw_status st;
    if (checkpoint->at.framework->value != NULL)
        st = checkpoint->at.framework->value(checkpoint, i, graph, root, err);
    else if (blob.ops->load_value == NULL)
        st = swi_fail(err, SW_ERR_UNSUPPORTED, "a %s holds no value", blob.ops->kind);
    else
        st = blob.ops->load_value(&blob, swi_filecache_reader(checkpoint->cache), graph, root, err);
    if (st != SW_OK)
        swi_error_prefix(err, "value \"%s\"", swi_quote_str(&q, info.name));
    return st;
}

sw_status sw_checkpoint_read(const sw_checkpoint *checkpoint, size_t tensor, uint64_t lo,
                             uint64_t hi, void *out, sw_error *err)
{
    if (tensor >= sw_catalog_tensor_count(checkpoint->catalog))
        return swi_fail(err, SW_ERR_ARG, "tensor %zu is not in the catalog", tensor);
    /* the lock guards what changes behind the const: the view */
    sw_checkpoint *c = (sw_checkpoint *)(uintptr_t)checkpoint;
    (void)pthread_mutex_lock(&c->lock);
    sw_status st = SW_OK;
    if (!c->has_view || c->view.tensor != (uint32_t)tensor) {
        drop_view(c);
        st = swi_view_open(&c->source, (uint32_t)tensor, &c->view, err);
        c->has_view = st == SW_OK;
    }
    if (st == SW_OK)
        st = swi_view_read(&c->view, lo, hi, out, err);
    (void)pthread_mutex_unlock(&c->lock);
    return st;
}

void sw_checkpoint_split_name(const sw_checkpoint *checkpoint, size_t tensor,
                              const char **section_name, const char **name)
{
    sw_tensor_info info;
    *section_name = "";
    *name = "";
    if (!sw_catalog_tensor(checkpoint->catalog, tensor, &info))
        return;
    *name = info.name;
    if (tensor < checkpoint->section_capacity && checkpoint->sections[tensor].name != NULL) {
        *section_name = checkpoint->sections[tensor].section;
        *name = checkpoint->sections[tensor].name;
    }
}

swi_source swi_checkpoint_source(const sw_checkpoint *checkpoint)
{
    return (swi_source){
        .catalog = checkpoint->catalog,
        .reader = swi_filecache_reader(checkpoint->cache),
    };
}

void swi_checkpoint_set_scratch(const sw_checkpoint *checkpoint, swi_file *scratch)
{
    sw_checkpoint *c = (sw_checkpoint *)(uintptr_t)checkpoint;
    (void)pthread_mutex_lock(&c->lock);
    drop_view(c); /* it may know places in the scratch file before */
    (void)pthread_mutex_unlock(&c->lock);
    swi_filecache_set_scratch(checkpoint->cache, scratch);
}

const swi_framework *swi_checkpoint_framework(const sw_checkpoint *checkpoint)
{
    return checkpoint->at.framework;
}

void *swi_checkpoint_kept(const sw_checkpoint *checkpoint)
{
    return checkpoint->kept;
}

sw_limits swi_checkpoint_limits(const sw_checkpoint *checkpoint)
{
    return checkpoint->limits;
}

bool swi_checkpoint_incomplete(const sw_checkpoint *checkpoint)
{
    return checkpoint->incomplete;
}

bool swi_checkpoint_opaque(const sw_checkpoint *checkpoint)
{
    return checkpoint->opaque;
}

const swi_store *swi_checkpoint_store(const sw_checkpoint *checkpoint)
{
    return checkpoint->at.store;
}

const swi_listing *swi_checkpoint_listing(const sw_checkpoint *checkpoint)
{
    return checkpoint->at.listing;
}

bool swi_checkpoint_alone(const sw_checkpoint *checkpoint)
{
    return checkpoint->at.alone;
}
