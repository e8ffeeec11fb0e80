/* What an open checkpoint answers; another catalog over it; its end. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "source/checkpoint_parts.h"

uint64_t swi_checkpoint_open_memory(const sw_checkpoint *checkpoint)
{
    return checkpoint->open_memory;
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

const void *swi_checkpoint_given(const sw_checkpoint *checkpoint)
{
    return checkpoint->given;
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
