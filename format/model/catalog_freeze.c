/*
 * Ending a builder: what can be proven without reading tensor bytes is proven here, and what is
 * wrong becomes a finding and a mark on its tensor (specs/catalog.md).
 *
 *   1. blobs are held against the real sizes of their files
 *   2. pieces are grouped by tensor; ranges of tensors that have one piece each, all of them, are
 *      proven by threads
 *   3. other tensors one by one: pieces that lie outside are taken out, the rest is sorted by first
 *      element, proven disjoint, and its coverage counted
 *   4. other names of a tensor are resolved
 *   5. spare memory is given back
 */
#include "model/catalog_tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "model/catalog_coverage.h"
#include "model/catalog_group.h"

#define NO_TENSOR UINT32_MAX
#define LIST_MAX 300

/* What a file lacks of what its blobs say of it. */
typedef struct short_file {
    uint64_t needed_bytes; /* 0: nothing is lacking */
    uint32_t first_tensor; /* hit by it */
    uint32_t last_tensor;  /* the one counted last */
    uint32_t tensors;
    uint32_t first_value; /* a row of `values` */
    uint32_t values;
} short_file;

typedef struct piece_key {
    uint64_t first;
    uint64_t end;
    uint32_t record;
} piece_key;

/* Tensors of up to so many bytes in all may be repetitions; beyond that so many of each byte. */
#define REPEATED_BYTES_MAX ((uint64_t)1 << 30)
#define REPEATS_MAX 1024

typedef struct freeze {
    sw_catalog *c;
    sw_report *report;
    swi_proven *proven;      /* by range of tensors; NULL: pieces do not lie tensor by tensor */
    short_file *short_files; /* by file; NULL: every blob lies inside its file */
    uint8_t *bad_blobs;      /* a bit each; NULL likewise */
    piece_key *keys;         /* of one tensor */
    size_t key_capacity;
    swi_held_bytes held;
    size_t written; /* entries of `order`, or records that stayed where they were */
    swi_cover_work cover;
} freeze;

static const char *tensor_name(const sw_catalog *c, uint32_t tensor)
{
    return swi_names_at(c->names, tensor, NULL);
}

static const char *path_of_blob(const sw_catalog *c, uint32_t id)
{
    swi_blob blob;
    swi_catalog_blob(c, id, &blob);
    return swi_catalog_path(c, blob.file);
}

/* ---- 1. blobs against files ------------------------------------------------------------------ */

static sw_status note_short_blob(freeze *f, uint32_t id, const swi_blob *blob, sw_error *err)
{
    void *p;
    sw_status status;
    if (f->short_files == NULL) {
        status = swi_alloc_array(swi_names_count(f->c->paths), sizeof(short_file), &p, err);
        if (status != SW_OK)
            return status;
        f->short_files = p;
        status = swi_alloc_array(f->c->blobs.count / 8 + 1, 1, &p, err);
        if (status != SW_OK)
            return status;
        f->bad_blobs = p;
    }
    short_file *s = &f->short_files[blob->file];
    uint64_t needed;
    if (!swi_add_u64(blob->offset_bytes, blob->stored_bytes, &needed))
        needed = UINT64_MAX;
    if (needed > s->needed_bytes)
        s->needed_bytes = needed;
    f->bad_blobs[id / 8] = (uint8_t)(f->bad_blobs[id / 8] | 1U << id % 8);
    return SW_OK;
}

static sw_status check_blobs(freeze *f, size_t from, sw_error *err)
{
    sw_status status = SW_OK;
    swi_blob blob;
    for (size_t i = from; i < f->c->blobs.count && status == SW_OK; i++) {
        swi_catalog_blob(f->c, (uint32_t)i, &blob);
        if (!swi_range_inside(blob.offset_bytes, blob.stored_bytes,
                              swi_catalog_file_bytes(f->c, blob.file)))
            status = note_short_blob(f, (uint32_t)i, &blob, err);
    }
    return status;
}

/* The short file that this blob lies in, or NULL. */
static short_file *short_file_of(const freeze *f, uint32_t id)
{
    swi_blob blob;
    if (f->bad_blobs == NULL || (f->bad_blobs[id / 8] & 1U << id % 8) == 0)
        return NULL;
    swi_catalog_blob(f->c, id, &blob);
    return &f->short_files[blob.file];
}

static void count_tensor_hit(freeze *f, uint32_t tensor, uint32_t blob)
{
    short_file *s = short_file_of(f, blob);
    if (s == NULL)
        return;
    swi_mark(&f->c->tensors[tensor], SW_ERR_CORRUPT);
    if (s->tensors == 0)
        s->first_tensor = tensor;
    if (s->tensors == 0 || s->last_tensor != tensor)
        s->tensors++;
    s->last_tensor = tensor;
}

static void count_values_hit(freeze *f)
{
    for (size_t i = 0; i < f->c->value_count; i++) {
        short_file *s = short_file_of(f, f->c->values[i].blob);
        if (s == NULL)
            continue;
        if (s->values++ == 0)
            s->first_value = (uint32_t)i;
    }
}

/* The first tensor or else value that a short file hits. */
static const char *name_of_hit(const sw_catalog *c, const short_file *s)
{
    if (s->tensors > 0)
        return tensor_name(c, s->first_tensor);
    if (s->values > 0)
        return swi_names_at(c->value_names, c->values[s->first_value].key, NULL);
    return "";
}

static sw_status report_short_files(freeze *f, sw_error *err)
{
    sw_status status = SW_OK;
    uint32_t count = f->short_files == NULL ? 0 : swi_names_count(f->c->paths);
    for (uint32_t i = 0; i < count && status == SW_OK; i++) {
        const short_file *s = &f->short_files[i];
        if (s->needed_bytes == 0)
            continue;
        swi_finding_in in = {.severity = SW_DEFECT,
                             .status = SW_ERR_CORRUPT,
                             .code = "short-file",
                             .file = swi_catalog_path(f->c, i),
                             .tensor = name_of_hit(f->c, s),
                             .has_offset = true,
                             .offset_bytes = f->c->file_bytes[i]};
        status = swi_report_add(f->report, &in, err,
                                "needs %" PRIu64 " bytes, file holds %" PRIu64
                                ": cut, or not fully copied (tensors hit: %" PRIu32
                                ", values: %" PRIu32 ")",
                                s->needed_bytes, f->c->file_bytes[i], s->tensors, s->values);
    }
    return status;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* The coordinates of an element. */
static void list_element(const sw_catalog *c, const swi_tensor_row *t, uint64_t flat,
                         char text[SWI_SHAPE_TEXT])
{
    int64_t at[SW_MAX_AXES];
    const int64_t *shape = swi_shape_of(c, t);
    for (uint32_t k = t->axes; k-- > 0;) {
        at[k] = (int64_t)(flat % (uint64_t)shape[k]);
        flat /= (uint64_t)shape[k];
    }
    swi_shape_text(t->axes, at, text);
}

/* Where a piece is, in the tensor's own terms when it has them. */
static void describe_piece(const sw_catalog *c, const swi_tensor_row *t, const swi_piece *p,
                           char *text, size_t room)
{
    char offset[SWI_SHAPE_TEXT];
    char length[SWI_SHAPE_TEXT];
    if (p->axes != t->axes ||
        (t->axes > 0 && memcmp(p->view, swi_shape_of(c, t), t->axes * sizeof(int64_t)) != 0)) {
        (void)snprintf(text, room, "elements %" PRIu64 " to %" PRIu64, swi_piece_first(p),
                       swi_piece_end(p));
        return;
    }
    swi_shape_text(p->axes, p->offset, offset);
    swi_shape_text(p->axes, p->length, length);
    (void)snprintf(text, room, "offset %.120s sizes %.120s", offset, length);
}

/* ---- 3. tensors ------------------------------------------------------------------------------ */

static size_t record_at(const sw_catalog *c, size_t place)
{
    return c->order != NULL ? c->order[place] : place;
}

static void piece_at(const sw_catalog *c, const swi_tensor_row *t, size_t record, swi_piece *out)
{
    swi_pack_context ctx = swi_context_of(c, t);
    swi_unpack_piece(&ctx, swi_packed_at(&c->pieces, record), out);
}

static sw_status report_outside(freeze *f, uint32_t tensor, const swi_piece *piece,
                                uint32_t outside, const sw_error *cause, sw_error *err)
{
    swi_tensor_row *t = &f->c->tensors[tensor];
    swi_finding_in in = {.severity = SW_DEFECT,
                         .status = SW_ERR_CORRUPT,
                         .code = "outside",
                         .file = path_of_blob(f->c, piece->blob),
                         .tensor = tensor_name(f->c, tensor)};
    swi_mark(t, SW_ERR_CORRUPT);
    return swi_report_add(f->report, &in, err,
                          "%" PRIu32 " of %" PRIu32
                          " pieces lie outside their tensor or their bytes; the first: %.600s",
                          outside, t->piece_count, cause->text);
}

static void count_held(uint64_t *bytes, const swi_piece *piece, uint32_t element_bytes)
{
    uint64_t more;
    if (!swi_mul_u64(swi_piece_elements(piece), element_bytes, &more) ||
        !swi_add_u64(*bytes, more, bytes))
        *bytes = UINT64_MAX;
}

/* Fills keys with the pieces that lie inside; the others are taken out and reported. */
static sw_status load_keys(freeze *f, uint32_t tensor, size_t *kept, sw_error *err)
{
    sw_catalog *c = f->c;
    const swi_tensor_row *t = &c->tensors[tensor];
    sw_error first_cause;
    swi_piece first_bad = {0};
    uint32_t outside = 0;
    uint64_t bytes = 0;
    size_t n = 0;
    sw_status status =
        swi_grow_array((void **)&f->keys, &f->key_capacity, t->piece_count, sizeof *f->keys, err);
    for (uint32_t i = 0; i < t->piece_count && status == SW_OK; i++) {
        size_t record = record_at(c, (size_t)t->first_piece + i);
        swi_piece p;
        swi_blob blob;
        sw_error cause;
        piece_at(c, t, record, &p);
        swi_catalog_blob(c, p.blob, &blob);
        count_tensor_hit(f, tensor, p.blob);
        if (swi_piece_check(&p, t->elements, sw_dtype_bytes((sw_dtype)t->dtype), blob.bytes,
                            &cause) == SW_OK) {
            f->keys[n++] = (piece_key){swi_piece_first(&p), swi_piece_end(&p), (uint32_t)record};
            if (blob.file != SWI_NO_FILE)
                count_held(&bytes, &p, sw_dtype_bytes((sw_dtype)t->dtype));
        } else if (outside++ == 0) {
            first_cause = cause;
            first_bad = p;
        }
    }
    swi_held_bytes_add(&f->held, tensor, bytes);
    if (status == SW_OK && outside > 0)
        status = report_outside(f, tensor, &first_bad, outside, &first_cause, err);
    *kept = n;
    return status;
}

static int compare_piece_keys(const void *x, const void *y)
{
    const piece_key *a = x;
    const piece_key *b = y;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    return a->record < b->record ? -1 : a->record > b->record;
}

/* Puts the sorted pieces of a tensor behind those of the tensor before. */
static sw_status place_pieces(freeze *f, swi_tensor_row *t, size_t kept, sw_error *err)
{
    sw_catalog *c = f->c;
    bool sorted = true;
    bool in_place = c->order == NULL;
    for (size_t i = 0; i < kept; i++) {
        sorted = sorted && (i == 0 || compare_piece_keys(&f->keys[i - 1], &f->keys[i]) <= 0);
        in_place = in_place && f->keys[i].record == f->written + i;
    }
    if (!sorted) {
        qsort(f->keys, kept, sizeof *f->keys, compare_piece_keys);
        in_place = false;
    }
    if (!in_place && c->order == NULL) {
        sw_status status = swi_order_make(c, err);
        if (status != SW_OK)
            return status;
    }
    for (size_t i = 0; i < kept && !in_place; i++)
        c->order[f->written + i] = f->keys[i].record;
    t->first_piece = (uint32_t)f->written;
    t->piece_count = (uint32_t)kept;
    f->written += kept;
    return SW_OK;
}

typedef struct piece_source {
    const sw_catalog *c;
    const swi_tensor_row *t;
} piece_source;

static void get_piece(const void *ctx, size_t i, swi_piece *out)
{
    const piece_source *s = ctx;
    piece_at(s->c, s->t, record_at(s->c, s->t->first_piece + i), out);
}

static sw_status report_overlap(freeze *f, uint32_t tensor, const swi_cover *cover, sw_error *err)
{
    swi_tensor_row *t = &f->c->tensors[tensor];
    piece_source source = {f->c, t};
    swi_finding_in in = {.severity = SW_DEFECT,
                         .status = SW_ERR_CONFLICT,
                         .code = "overlap",
                         .tensor = tensor_name(f->c, tensor)};
    swi_mark(t, SW_ERR_CONFLICT);
    if (cover->disjoint == SWI_OVERLAP_SOME)
        return swi_report_add(f->report, &in, err,
                              "pieces hold the same elements: there is no room for all %" PRIu32,
                              t->piece_count);
    swi_piece a;
    swi_piece b;
    char a_text[LIST_MAX];
    char b_text[LIST_MAX];
    char shared[SWI_SHAPE_TEXT];
    swi_quoted q;
    get_piece(&source, cover->a, &a);
    get_piece(&source, cover->b, &b);
    describe_piece(f->c, t, &a, a_text, sizeof a_text);
    describe_piece(f->c, t, &b, b_text, sizeof b_text);
    list_element(f->c, t, cover->first_shared, shared);
    in.file = path_of_blob(f->c, b.blob);
    return swi_report_add(f->report, &in, err,
                          "two pieces hold the same elements, the first at %s: %s in %s, and %s",
                          shared, a_text, swi_quote_str(&q, path_of_blob(f->c, a.blob)), b_text);
}

static sw_status report_hole(freeze *f, uint32_t tensor, const swi_cover *cover, sw_error *err)
{
    swi_tensor_row *t = &f->c->tensors[tensor];
    char missing[SWI_SHAPE_TEXT];
    swi_finding_in in = {.severity = SW_DEFECT,
                         .status = SW_ERR_INCOMPLETE,
                         .code = "hole",
                         .tensor = tensor_name(f->c, tensor)};
    swi_mark(t, SW_ERR_INCOMPLETE);
    list_element(f->c, t, cover->first_missing, missing);
    return swi_report_add(f->report, &in, err,
                          "shards hold %" PRIu64 " of %" PRIu64 " elements; first missing at %s",
                          cover->held, t->elements, missing);
}

static sw_status report_unproven(freeze *f, uint32_t tensor, sw_error *err)
{
    swi_tensor_row *t = &f->c->tensors[tensor];
    swi_finding_in in = {.severity = SW_DEFECT,
                         .status = SW_ERR_LIMIT,
                         .code = "unproven",
                         .tensor = tensor_name(f->c, tensor)};
    swi_mark(t, SW_ERR_LIMIT);
    return swi_report_add(f->report, &in, err,
                          "its %" PRIu32 " pieces lie too irregularly to prove that they are"
                          " disjoint and complete",
                          t->piece_count);
}

static sw_status cover_pieces(freeze *f, uint32_t tensor, bool outside, sw_error *err)
{
    swi_tensor_row *t = &f->c->tensors[tensor];
    piece_source source = {f->c, t};
    swi_cover cover;
    swi_cover_in in = {.elements = t->elements,
                       .replicas = t->replicas,
                       .count = t->piece_count,
                       .get = get_piece,
                       .ctx = &source};
    sw_status status = swi_cover_tensor(&f->cover, &in, &cover, err);
    if (status != SW_OK)
        return status;
    t->held = cover.held;
    if (cover.disjoint == SWI_UNPROVEN)
        status = report_unproven(f, tensor, err);
    else if (cover.disjoint != SWI_DISJOINT)
        status = report_overlap(f, tensor, &cover, err);
    /* What was taken out is a hole too, but not the one to tell about. */
    if (status == SW_OK && cover.has_missing && !outside)
        status = report_hole(f, tensor, &cover, err);
    return status;
}

/* False: it takes more. */
static bool freeze_whole(freeze *f, uint32_t tensor)
{
    swi_tensor_row *t = &f->c->tensors[tensor];
    uint64_t bytes;
    if (f->bad_blobs != NULL || f->c->order != NULL || t->first_piece != f->written ||
        !swi_has_whole_piece(f->c, t, &bytes))
        return false;
    swi_held_bytes_add(&f->held, tensor, bytes);
    t->held = t->elements;
    f->written++;
    return true;
}

static sw_status freeze_tensor(freeze *f, uint32_t tensor, sw_error *err)
{
    swi_tensor_row *t = &f->c->tensors[tensor];
    uint32_t added = t->piece_count;
    size_t kept = 0;
    if (freeze_whole(f, tensor))
        return SW_OK;
    if (swi_needs_no_piece(t)) {
        t->first_piece = (uint32_t)f->written;
        return SW_OK;
    }
    sw_status status = load_keys(f, tensor, &kept, err);
    if (status == SW_OK)
        status = place_pieces(f, t, kept, err);
    if (status == SW_OK)
        status = cover_pieces(f, tensor, kept < added, err);
    return status;
}

/* Nothing is left to be done when all pieces before it, too, are where they were added. */
static bool pass_range(freeze *f, uint32_t from)
{
    if (f->proven == NULL || f->c->order != NULL)
        return false;
    const swi_proven *p = &f->proven[from / SWI_PROOF_RANGE];
    if (!p->all || p->first_piece != f->written)
        return false;
    f->written += p->piece_count;
    if (!swi_add_u64(f->held.bytes, p->held.bytes, &f->held.bytes))
        f->held.bytes = UINT64_MAX;
    if (p->held.most > f->held.most) {
        f->held.most = p->held.most;
        f->held.most_tensor = p->held.most_tensor;
    }
    return true;
}

static sw_status freeze_tensors(freeze *f, sw_error *err)
{
    const size_t count = f->c->tensor_count;
    sw_status status = SW_OK;
    for (size_t from = 0; from < count && status == SW_OK; from += SWI_PROOF_RANGE) {
        const size_t to = count - from < SWI_PROOF_RANGE ? count : from + SWI_PROOF_RANGE;
        if (pass_range(f, (uint32_t)from))
            continue;
        for (size_t t = from; t < to && status == SW_OK; t++)
            status = freeze_tensor(f, (uint32_t)t, err);
    }
    return status;
}

/* CAT-15: what repeats a few bytes into petabytes would cost as much to read as if it were there.
 */
static sw_status check_repeats(const freeze *f, sw_error *err)
{
    uint64_t stored = 0;
    if (f->held.bytes <= REPEATED_BYTES_MAX)
        return SW_OK;
    for (uint32_t i = 0; i < swi_catalog_blob_count(f->c); i++) {
        swi_blob blob;
        swi_catalog_blob(f->c, i, &blob);
        if (blob.file == SWI_NO_FILE)
            continue;
        if (!swi_add_u64(stored, blob.bytes, &stored) || stored >= f->held.bytes / REPEATS_MAX)
            return SW_OK;
    }
    swi_quoted q;
    return swi_fail(err, SW_ERR_LIMIT,
                    "tensor \"%s\" and others repeat %" PRIu64 " stored bytes into %" PRIu64
                    ": more than any genuine checkpoint does",
                    swi_quote_str(&q, tensor_name(f->c, f->held.most_tensor)), stored,
                    f->held.bytes);
}

/* ---- 4. other names -------------------------------------------------------------------------- */

/* Follows a chain of names to the one that is no alias; NO_TENSOR when it goes round. */
static uint32_t final_owner(const sw_catalog *c, uint32_t tensor)
{
    uint32_t at = tensor;
    for (size_t steps = 0; c->tensors[at].alias_of != SWI_NO_ALIAS; steps++) {
        if (steps == 64)
            return NO_TENSOR;
        at = c->tensors[at].alias_of;
    }
    return at;
}

static sw_status resolve_alias(freeze *f, uint32_t tensor, sw_error *err)
{
    swi_tensor_row *t = &f->c->tensors[tensor];
    if (t->alias_of == SWI_NO_ALIAS)
        return SW_OK;
    uint32_t owner = final_owner(f->c, tensor);
    swi_quoted q;
    swi_finding_in in = {.severity = SW_DEFECT,
                         .status = SW_ERR_CONFLICT,
                         .code = "alias",
                         .tensor = tensor_name(f->c, tensor)};
    const char *of = tensor_name(f->c, owner == NO_TENSOR ? t->alias_of : owner);
    if (owner == NO_TENSOR || f->c->tensors[owner].dtype != t->dtype ||
        f->c->tensors[owner].elements != t->elements) {
        swi_mark(t, SW_ERR_CONFLICT);
        t->alias_of = SWI_NO_ALIAS;
        return swi_report_add(f->report, &in, err, "said to share the storage of \"%s\", which %s",
                              swi_quote_str(&q, of),
                              owner == NO_TENSOR ? "is no owner itself"
                                                 : "has another type or element count");
    }
    t->alias_of = owner;
    if (t->piece_count == 0)
        swi_mark(t, (sw_status)f->c->tensors[owner].defect);
    return SW_OK;
}

/* ---- 5. the end ------------------------------------------------------------------------------ */

static void trim_catalog(sw_catalog *c)
{
    swi_names_trim(c->names);
    swi_names_trim(c->paths);
    swi_names_trim(c->value_names);
    swi_trim_array((void **)&c->tensors, &c->tensor_capacity, c->tensor_count, sizeof *c->tensors);
    swi_trim_array((void **)&c->shapes, &c->shape_capacity, c->shape_count, sizeof *c->shapes);
    swi_packed_trim(&c->pieces);
    swi_packed_trim(&c->blobs);
    swi_packed_trim(&c->wants);
    if (c->order != NULL)
        swi_trim_array((void **)&c->order, &c->order_capacity, c->piece_count, sizeof *c->order);
    swi_trim_array((void **)&c->file_bytes, &c->file_capacity, swi_names_count(c->paths),
                   sizeof *c->file_bytes);
    swi_trim_array((void **)&c->values, &c->value_capacity, c->value_count, sizeof *c->values);
}

static sw_status freeze_all(freeze *f, const swi_builder *builder, sw_error *err)
{
    sw_catalog *c = f->c;
    sw_status status = check_blobs(f, builder->fitting, err);
    if (status == SW_OK)
        status = swi_group_pieces(builder, f->bad_blobs == NULL, &f->proven, err);
    if (status == SW_OK)
        status = freeze_tensors(f, err);
    if (status == SW_OK)
        status = check_repeats(f, err);
    for (size_t t = 0; t < c->tensor_count && builder->has_aliases && status == SW_OK; t++)
        status = resolve_alias(f, (uint32_t)t, err);
    count_values_hit(f);
    if (status == SW_OK)
        status = report_short_files(f, err);
    return status;
}

sw_status swi_builder_freeze(swi_builder *builder, sw_report *report, sw_catalog **out,
                             sw_error *err)
{
    freeze f = {.c = builder->catalog, .report = report};
    swi_cover_budget(&f.cover, builder->catalog->pieces.count);
    sw_status status = freeze_all(&f, builder, err);
    if (status != SW_OK)
        goto done;
    f.c->piece_count = f.written;
    trim_catalog(f.c);
    *out = f.c;
    builder->catalog = NULL;
done:
    free(f.proven);
    free(f.short_files);
    free(f.bad_blobs);
    free(f.keys);
    swi_cover_work_free(&f.cover);
    swi_builder_free(builder);
    return status;
}
