#include "target/publish.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/report.h"
#include "base/text.h"
#include "compare.h"
#include "execute.h"
#include "io/filecache.h"
#include "io/txn.h"
#include "source/held.h"
#include "target/destination.h"

#define COMPARE_BYTES ((size_t)1 << 20)

typedef struct publishing {
    const swi_publish_in *in;
    const sw_catalog *catalog; /* of the destination */
    swi_txn *txn;
    swi_txn *list; /* of the digest list; NULL: none is wanted */
    swi_digest *digests;
} publishing;

/* ---- before anything is written ----------------------------------------------------------- */

static sw_status compare_space(const char *where, uint64_t need, uint64_t have, sw_error *err)
{
    swi_quoted q;
    if (have >= need)
        return SW_OK;
    return swi_fail_errno(err, ENOSPC,
                          "%s: %" PRIu64 " bytes are needed and %" PRIu64
                          " are free; make room there or choose another destination",
                          swi_quote_str(&q, where), need, have);
}

sw_status swi_publish_check(const swi_publish_in *in, sw_error *err)
{
    const sw_catalog *catalog = swi_layout_catalog(in->layout);
    swi_txn_options options = {.id = in->id, .overwrite = in->options->overwrite};
    uint64_t need = 0, have = 0;
    for (uint32_t i = 0; i < sw_catalog_file_count(catalog); i++)
        need += swi_catalog_file_bytes(catalog, i);
    const sw_convert_options *o = in->options;
    sw_status st = swi_destination_check(in->source, in->dest, in->one_file, o->overwrite, err);
    if (st == SW_OK && o->digests != NULL)
        st = swi_destination_check_list(in->source, in->dest, o->digests, err);
    if (st == SW_OK && o->digests != NULL)
        st = swi_digests_look(o->digests, in->id, o->overwrite, err);
    if (st == SW_OK)
        st = swi_txn_look(in->dest, &options, &have, err);
    return st == SW_OK ? compare_space(in->dest, need, have, err) : st;
}

static sw_status check_space(const publishing *p, sw_error *err)
{
    uint64_t need = 0;
    for (uint32_t i = 0; i < sw_catalog_file_count(p->catalog); i++) {
        uint64_t bytes = swi_catalog_file_bytes(p->catalog, i);
        if (!swi_txn_has(p->txn, swi_catalog_path(p->catalog, i), bytes))
            need += bytes;
    }
    return compare_space(swi_txn_partial(p->txn), need, swi_store_free_bytes(swi_txn_store(p->txn)),
                         err);
}

/* ---- the executor's files ------------------------------------------------------------------ */

static bool skip_file(const void *ctx, uint32_t file)
{
    const publishing *p = ctx;
    return swi_txn_has(p->txn, swi_catalog_path(p->catalog, file),
                       swi_catalog_file_bytes(p->catalog, file));
}

static sw_status open_file(void *ctx, uint32_t file, swi_file **out, sw_error *err)
{
    publishing *p = ctx;
    const char *path = swi_catalog_path(p->catalog, file);
    swi_store *store = swi_txn_store(p->txn);
    sw_error ignored = {0};
    swi_file *f = NULL;
    /* a killed run may have left a part of it */
    sw_status st = swi_store_remove(store, path, &ignored);
    if (st != SW_OK && st != SW_ERR_NOTFOUND) {
        if (err != NULL)
            *err = ignored;
        return st;
    }
    st = swi_store_create(store, path, &f, err);
    if (st != SW_OK)
        return st;
    /* how long a packed file becomes is known when it is */
    if (swi_layout_packing(p->in->layout, file) == NULL)
        st = swi_file_reserve(f, swi_catalog_file_bytes(p->catalog, file), err);
    if (st != SW_OK) {
        swi_file_close(f);
        return swi_error_prefix(err, "%s", path);
    }
    *out = f;
    return SW_OK;
}

static sw_status finish_file(void *ctx, uint32_t file, swi_file *written, sw_error *err)
{
    publishing *p = ctx;
    return swi_txn_finish_file(p->txn, swi_catalog_path(p->catalog, file), written, err);
}

/* ---- the read-back ------------------------------------------------------------------------- */

static sw_status differs(const char *name, uint64_t first, sw_error *err)
{
    swi_quoted q;
    return swi_fail(err, SW_ERR_CORRUPT,
                    "read back, tensor \"%s\" differs from the source at element %" PRIu64
                    "; nothing was published",
                    swi_quote_str(&q, name), first);
}

/* What is compared with the source, when all of it is. */
typedef struct comparing {
    const sw_checkpoint *source;
    const swi_layout *layout;
    bool by_pieces;
    swi_source from, result;
    swi_source written; /* the files, as the layout has them */
    uint8_t *buffer;    /* of COMPARE_BYTES */
    uint64_t verified;
} comparing;

/* Tensor i of the layout, or `source` under another name, as what is compared with it. */
static swi_compare_in compare_with(const comparing *c, uint32_t source, int64_t scale)
{
    return (swi_compare_in){.a = &c->from,
                            .tensor_a = source,
                            .scaled = scale >= 0,
                            .scale = scale >= 0 ? (uint32_t)scale : 0,
                            .buffer = c->buffer,
                            .buffer_bytes = COMPARE_BYTES};
}

/* As whoever opens the result sees it. */
static sw_status compare_seen(const comparing *c, const char *name, swi_compare_in *in,
                              sw_error *err)
{
    bool equal = false;
    uint64_t first = 0;
    int64_t there = sw_catalog_find(c->result.catalog, name);
    if (there < 0)
        return differs(name, 0, err);
    in->b = &c->result;
    in->tensor_b = (uint32_t)there;
    sw_status st = swi_compare(in, &equal, &first, err);
    return st == SW_OK && !equal ? differs(name, first, err) : st;
}

/* As it was laid out: each piece, and each copy, in its file. */
static sw_status compare_laid_out(const comparing *c, uint32_t tensor, swi_compare_in *in,
                                  sw_error *err)
{
    bool equal = false;
    uint64_t first = 0;
    uint32_t blob_id = 0;
    in->b = &c->written;
    in->tensor_b = tensor;
    sw_status st = swi_compare_pieces(in, &equal, &first, &blob_id, err);
    if (st != SW_OK || equal)
        return st;
    sw_tensor_info info;
    swi_blob blob;
    swi_quoted q;
    sw_catalog_tensor(c->written.catalog, tensor, &info);
    swi_catalog_blob(c->written.catalog, blob_id, &blob);
    (void)differs(info.name, first, err);
    return swi_error_prefix(err, "%s",
                            swi_quote_str(&q, swi_catalog_path(c->written.catalog, blob.file)));
}

/* Whether the result shows the tensor as the layout has it. */
static bool is_seen(const comparing *c, const sw_tensor_info *info)
{
    sw_tensor_info seen;
    int64_t there = sw_catalog_find(c->result.catalog, info->name);
    return there >= 0 && sw_catalog_tensor(c->result.catalog, (size_t)there, &seen) &&
           seen.axes == info->axes &&
           memcmp(seen.shape, info->shape, info->axes * sizeof *info->shape) == 0;
}

static sw_status compare_one(comparing *c, uint32_t tensor, sw_error *err)
{
    sw_tensor_info info;
    swi_held held;
    if (swi_held_tensor(c->source, swi_layout_source(c->layout, tensor), &held) && held.partial)
        return SW_OK; /* NAT-7: nobody reads them as a tensor */
    sw_catalog_tensor(c->written.catalog, tensor, &info);
    swi_compare_in in = compare_with(c, swi_layout_source(c->layout, tensor),
                                     swi_layout_scale_of(c->layout, tensor));
    bool by_pieces = c->by_pieces && !is_seen(c, &info);
    sw_status st = by_pieces ? SW_OK : compare_seen(c, info.name, &in, err);
    if (st == SW_OK && (by_pieces || swi_tensor_has_replicas(c->written.catalog, tensor)))
        st = compare_laid_out(c, tensor, &in, err);
    c->verified += st == SW_OK;
    return st;
}

static sw_status compare_all(const publishing *p, comparing *c, sw_error *err)
{
    sw_status st = SW_OK;
    for (uint32_t i = 0; st == SW_OK && i < sw_catalog_tensor_count(p->catalog); i++)
        st = compare_one(c, i, err);
    for (size_t i = 0; st == SW_OK && i < swi_layout_view_count(c->layout); i++) {
        const swi_layout_view *view = swi_layout_view_at(c->layout, i);
        swi_compare_in in = compare_with(c, view->source, -1);
        st = compare_seen(c, view->name, &in, err);
        c->verified += st == SW_OK;
    }
    return st;
}

/* What was written, in the partial folder. */
static sw_status open_result(const publishing *p, sw_checkpoint **out, sw_error *err)
{
    const char *folder = swi_txn_partial(p->txn);
    swi_buf path = {0};
    if (!p->in->one_file)
        return sw_checkpoint_open(folder, &p->in->open, NULL, out, err);
    sw_status st = swi_buf_printf(&path, err, "%s/%s", folder, swi_catalog_path(p->catalog, 0));
    if (st == SW_OK)
        st = swi_buf_u8(&path, 0, err);
    if (st == SW_OK)
        st = sw_checkpoint_open((const char *)path.data, &p->in->open, NULL, out, err);
    swi_buf_free(&path);
    return st;
}

static sw_status read_back(const publishing *p, const sw_checkpoint *result, uint64_t *verified,
                           sw_error *err)
{
    comparing c = {.source = p->in->source,
                   .layout = p->in->layout,
                   .by_pieces = p->in->by_pieces,
                   .from = swi_checkpoint_source(p->in->source),
                   .result = swi_checkpoint_source(result),
                   .written = {.catalog = p->catalog}};
    swi_filecache *files = NULL;
    const sw_limits limits = swi_checkpoint_limits(p->in->source);
    sw_status st = swi_alloc_array(COMPARE_BYTES, 1, (void **)&c.buffer, err);
    if (st == SW_OK)
        st = swi_filecache_make(swi_txn_store(p->txn), (uint32_t)sw_catalog_file_count(p->catalog),
                                swi_catalog_path_of, p->catalog, &limits, &files, err);
    if (st == SW_OK) {
        c.written.reader = swi_filecache_reader(files);
        st = compare_all(p, &c, err);
    }
    if (st == SW_OK)
        *verified = c.verified;
    swi_filecache_free(files);
    free(c.buffer);
    return st;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static sw_status put_list(const publishing *p, const sw_checkpoint *result, sw_convert_summary *sum,
                          sw_error *err)
{
    const swi_publish_in *in = p->in;
    const swi_written written = {.source = in->source,
                                 .result = result,
                                 .layout = in->layout,
                                 .digests = p->digests,
                                 .hashed = in->hashed,
                                 .work = &in->options->work};
    swi_digest_list list = {0};
    sw_status st = swi_digests_of_written(&written, &list, err);
    if (st == SW_OK)
        st = swi_digests_put(p->list, in->options->digests, &list, err);
    if (st == SW_OK)
        swi_digest_text(&list.root, sum->digests_root);
    swi_digest_list_free(&list);
    return st;
}

/* What is done with the whole of what was written, before it gets its name. */
static sw_status look_back(const publishing *p, sw_convert_summary *sum, sw_error *err)
{
    sw_checkpoint *result = NULL;
    if (p->list == NULL && !p->in->options->verify)
        return SW_OK;
    sw_status st = open_result(p, &result, err);
    if (st == SW_OK && p->list != NULL)
        st = put_list(p, result, sum, err);
    if (st == SW_OK && p->in->options->verify)
        st = read_back(p, result, &sum->verified_tensors, err);
    sw_checkpoint_close(result);
    return st;
}

static sw_status move_all(publishing *p, sw_convert_summary *sum, sw_error *err)
{
    swi_file *scratch = NULL;
    swi_source source = swi_checkpoint_source(p->in->source);
    swi_sink sink = {.ctx = p,
                     .open = open_file,
                     .finish = finish_file,
                     .skip = skip_file,
                     .digests = p->digests};
    sw_status st = check_space(p, err);
    if (st == SW_OK)
        st = swi_txn_scratch(p->txn, &scratch, err);
    if (st != SW_OK)
        return st;
    swi_checkpoint_set_scratch(p->in->source, scratch);
    st = swi_execute(&source, p->in->layout, &sink, &p->in->options->work, p->in->report,
                     &sum->tally, err);
    if (st == SW_OK)
        st = look_back(p, sum, err);
    swi_checkpoint_set_scratch(p->in->source, NULL);
    swi_file_close(scratch);
    return st;
}

/* Whether what was finished may serve the next run: not when the source proved wrong. */
static bool worth_keeping(sw_status st)
{
    return st == SW_ERR_CANCELED || st == SW_ERR_IO || st == SW_ERR_NOMEM;
}

/* The destination last: what an earlier run finished of it stays when the list is refused. */
static sw_status begin(publishing *p, sw_error *err)
{
    const swi_publish_in *in = p->in;
    const sw_convert_options *o = in->options;
    const swi_txn_options options = {
        .id = in->id, .overwrite = o->overwrite, .fresh = in->once, .single_file = in->one_file};
    sw_status st = swi_destination_check(in->source, in->dest, in->one_file, o->overwrite, err);
    if (st == SW_OK && o->digests != NULL)
        st = swi_destination_check_list(in->source, in->dest, o->digests, err);
    if (st == SW_OK && o->digests != NULL)
        st = swi_digests_begin(o->digests, in->id, o->overwrite, &p->list, err);
    if (st == SW_OK && (o->digests != NULL || swi_layout_is_packed(in->layout)))
        st = swi_alloc_array(sw_catalog_tensor_count(p->catalog), sizeof *p->digests,
                             (void **)&p->digests, err);
    return st == SW_OK ? swi_txn_begin(in->dest, &options, &p->txn, err) : st;
}

sw_status swi_publish(const swi_publish_in *in, sw_convert_summary *sum, sw_error *err)
{
    publishing p = {.in = in, .catalog = swi_layout_catalog(in->layout)};
    sw_status st = begin(&p, err);
    if (st == SW_OK) {
        sum->resumed_files = swi_layout_is_packed(in->layout) ? 0 : swi_txn_resumed(p.txn);
        st = move_all(&p, sum, err);
    }
    if (st == SW_OK) {
        /* Between the two a kill leaves what the list can be made of again. */
        swi_txn *const txns[] = {p.txn, p.list};
        st = p.list != NULL ? swi_txn_commit_all(txns, 2, err) : swi_txn_commit(p.txn, err);
    }
    swi_txn_end(p.list, false);
    swi_txn_end(p.txn, !in->once && worth_keeping(st));
    free(p.digests);
    return st;
}
