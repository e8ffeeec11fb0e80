/* From a path to an open checkpoint. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/report.h"
#include "base/text.h"
#include "source/checkpoint_parts.h"

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
        .given = c->given,
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
                          "--shapes is not needed to read this: nothing in it is a flat parameter");
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

sw_status swi_checkpoint_open_given(const swi_framework *framework, swi_store *store,
                                    const void *given, const sw_limits *limits, sw_report *report,
                                    sw_checkpoint **out, sw_error *err)
{
    sw_checkpoint *c = NULL;
    bool recognised;
    sw_status st = swi_alloc_array(1, sizeof *c, (void **)&c, err);
    if (st != SW_OK) {
        swi_store_close(store);
        return st;
    }
    c->limits = sw_limits_resolve(limits);
    c->given = given;
    c->at = (swi_detected){
        .framework = framework, .store = store, .alone = true, .claim = SWI_CLAIM_WHOLE};
    c->at.root = strdup(swi_store_root(store));
    st = c->at.root != NULL ? prepare(c, err) : swi_fail_nomem(err);
    if (st == SW_OK)
        st = swi_listing_make(store, NULL, &c->limits, &c->at.listing, err);
    if (st == SW_OK)
        st = read_catalog(c, NULL, report, &recognised, err);
    if (st == SW_OK)
        *out = c;
    else
        sw_checkpoint_close(c);
    return st;
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
