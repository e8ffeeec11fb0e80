#include "check/oms_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "base/text.h"
#include "check/oms_tree.h"
#include "check/signature.h"
#include "file_digests.h"

/* ---- making -------------------------------------------------------------------------------- */

static sw_status refuse_odd(void *ctx, const char *name, bool is_link, sw_error *err)
{
    swi_quoted q;
    (void)ctx;
    return swi_fail_at(err, SW_ERR_UNSAFE, "OMS-9", 0,
                       "%s: is %s, and would not be signed; put a file there, or remove it",
                       swi_quote_str(&q, name),
                       is_link ? "a symbolic link" : "neither a file nor a folder");
}

/* Usual ones; and Shardwright's own signature, which vouches for itself (OMS-8). */
static sw_status ignore_usual(swi_oms *oms, sw_error *err)
{
    static const char *const usual[] = {".git", ".gitattributes", ".github", ".gitignore",
                                        SWI_SIGNATURE_NAME};
    sw_status status = SW_OK;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0] && status == SW_OK; i++)
        status = swi_oms_add_ignored(oms, usual[i], err);
    return status;
}

static sw_status hash_files(const swi_oms_in *in, const swi_oms_tree *tree, swi_digest *digests,
                            uint64_t *bytes, sw_error *err)
{
    void *room;
    sw_status status = swi_alloc_array(tree->count, sizeof(swi_file_part), &room, err);
    if (status != SW_OK)
        return status;
    swi_file_part *parts = room;
    for (size_t i = 0; i < tree->count; i++)
        parts[i] = (swi_file_part){.path = swi_oms_tree_path(tree, &tree->items[i]),
                                   .end = tree->items[i].bytes,
                                   .file_bytes = tree->items[i].bytes};
    status = swi_file_digests(tree->store, parts, tree->count, in->work, digests, bytes, err);
    free(parts);
    return status;
}

static sw_status fill(const swi_oms_in *in, const swi_oms_tree *tree, swi_oms *oms, uint64_t *bytes,
                      sw_error *err)
{
    void *digests = NULL;
    swi_quoted q;
    if (tree->count == 0)
        return swi_fail_at(err, SW_ERR_INCOMPLETE, "OMS-7", 0,
                           "%s: no file is in it that could be signed",
                           swi_quote_str(&q, in->path));
    sw_status status = swi_alloc_array(tree->count, sizeof(swi_digest), &digests, err);
    if (status == SW_OK)
        status = hash_files(in, tree, digests, bytes, err);
    if (status == SW_OK)
        status = swi_arena_text(&oms->arena, tree->base, strlen(tree->base), &oms->subject, err);
    for (size_t i = 0; i < tree->count && status == SW_OK; i++)
        status = swi_oms_add(oms, tree->items[i].name, (const swi_digest *)digests + i, err);
    free(digests);
    return status;
}

sw_status swi_oms_make(const swi_oms_in *in, swi_oms *out, uint64_t *bytes, sw_error *err)
{
    swi_oms oms = {0};
    swi_oms_tree tree = {0};
    swi_buf inside = {0}, partial = {0};
    uint64_t read = 0;
    sw_status status = ignore_usual(&oms, err);
    if (status == SW_OK)
        status = swi_oms_path_inside(in->path, in->signature, &inside, err);
    if (status == SW_OK && inside.size > 0 && !swi_oms_ignores(&oms, (char *)inside.data))
        status = swi_oms_add_ignored(&oms, (char *)inside.data, err);
    if (status == SW_OK && inside.size > 0)
        status = swi_signature_partial((char *)inside.data, &partial, err);
    const swi_oms_walk walk = {.oms = &oms,
                               .skip = (char *)partial.data,
                               .max_files = sw_limits_resolve(in->limits).files,
                               .odd = refuse_odd};
    if (status == SW_OK)
        status = swi_oms_tree_open(in->path, &walk, &tree, err);
    if (status == SW_OK)
        status = fill(in, &tree, &oms, &read, err);
    swi_oms_tree_close(&tree);
    swi_buf_free(&inside);
    swi_buf_free(&partial);
    if (status != SW_OK) {
        swi_oms_free(&oms);
        return status;
    }
    *out = oms;
    *bytes += read;
    return SW_OK;
}

/* ---- checking ------------------------------------------------------------------------------ */

typedef struct checking {
    const swi_oms_in *in;
    const swi_oms *oms;
    swi_oms_tree tree;
    const swi_oms_resource **by_place; /* sorted by name and begin */
    bool *is_here;                     /* by its order there */
    swi_file_part *parts;              /* that are hashed: both signed and there */
    size_t *part_of;                   /* which resource each is, in by_place */
    swi_digest *digests;
    size_t part_count;
    sw_report *report;
    sw_signature_summary *sum;
} checking;

static sw_status say(const checking *k, const char *code, sw_status why, const char *file,
                     const char *message, sw_error *err)
{
    const swi_finding_in in = {.severity = SW_DEFECT, .status = why, .code = code, .file = file};
    return swi_report_add(k->report, &in, err, "%s", message);
}

static sw_status say_odd(void *ctx, const char *name, bool is_link, sw_error *err)
{
    return say(ctx, "signature-unlisted", SW_ERR_UNTRUSTED, name,
               is_link ? "a symbolic link: none is signed"
                       : "neither a file nor a folder: nothing of that kind is signed",
               err);
}

static int compare_place(const char *name_a, uint64_t begin_a, const char *name_b, uint64_t begin_b)
{
    int order = strcmp(name_a, name_b);
    return order != 0 ? order : (begin_a > begin_b) - (begin_a < begin_b);
}

static int by_place(const void *left, const void *right)
{
    const swi_oms_resource *a = *(const swi_oms_resource *const *)left;
    const swi_oms_resource *b = *(const swi_oms_resource *const *)right;
    return compare_place(a->name, a->begin, b->name, b->begin);
}

/* The resource that begins there, in by_place; SIZE_MAX: none. */
static size_t find_resource(const checking *k, const char *name, uint64_t begin)
{
    size_t lo = 0, hi = k->oms->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = compare_place(k->by_place[mid]->name, k->by_place[mid]->begin, name, begin);
        if (order == 0)
            return mid;
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return SIZE_MAX;
}

/* The names that a file may have in the statement: a model of one file has two (OMS-10). */
static const char *signed_name(const checking *k, const swi_oms_file *file)
{
    if (k->tree.single && k->oms->count > 0 && strcmp(k->oms->items[0].name, SWI_OMS_SINGLE) != 0)
        return k->tree.base;
    return file->name;
}

static uint64_t part_end(const checking *k, const swi_oms_file *file, uint64_t begin)
{
    uint64_t left = file->bytes - begin;
    return k->oms->shard_size > 0 && left > k->oms->shard_size ? begin + k->oms->shard_size
                                                               : file->bytes;
}

/* Shards of `size` bytes that a file has. */
static uint64_t part_count(const checking *k, const swi_oms_file *file)
{
    uint64_t size = k->oms->shard_size;
    return size == 0 ? 1 : file->bytes / size + (file->bytes % size != 0);
}

static void add_part(checking *k, const swi_oms_file *file, uint64_t begin, size_t resource)
{
    k->is_here[resource] = true;
    k->part_of[k->part_count] = resource;
    k->parts[k->part_count++] = (swi_file_part){.path = swi_oms_tree_path(&k->tree, file),
                                                .begin = begin,
                                                .end = part_end(k, file, begin),
                                                .file_bytes = file->bytes};
}

/* More need not be said of the shards of this file. */
static void let_pass(checking *k, const char *name)
{
    for (size_t i = find_resource(k, name, 0);
         i < k->oms->count && strcmp(k->by_place[i]->name, name) == 0; i++)
        k->is_here[i] = true;
}

static sw_status say_size(checking *k, const char *name, uint64_t begin, uint64_t end,
                          sw_error *err)
{
    const swi_finding_in in = {.severity = SW_DEFECT,
                               .status = SW_ERR_UNTRUSTED,
                               .code = "signature-mismatch",
                               .file = name,
                               .has_offset = true,
                               .offset_bytes = begin};
    let_pass(k, name);
    return swi_report_add(k->report, &in, err,
                          "its part from byte %" PRIu64 " ends at %" PRIu64
                          ", which is not what was signed: the file had another size",
                          begin, end);
}

/* One finding a file, however many of its shards are not listed. */
static sw_status match_file(checking *k, const swi_oms_file *file, sw_error *err)
{
    const char *name = signed_name(k, file);
    uint64_t parts = part_count(k, file);
    if (parts == 0) {
        const swi_finding_in in = {
            .severity = SW_NOTE, .code = "signature-empty-file", .file = name};
        return swi_report_add(
            k->report, &in, err,
            "no bytes, so no shard of it is signed: anybody may add or remove it");
    }
    for (uint64_t i = 0; i < parts; i++) {
        uint64_t begin = i * k->oms->shard_size;
        size_t found = find_resource(k, name, begin);
        if (found == SIZE_MAX && begin == 0)
            return say(k, "signature-unlisted", SW_ERR_UNTRUSTED, name,
                       "it is here, and was not signed", err);
        const swi_oms_resource *r = found != SIZE_MAX ? k->by_place[found] : NULL;
        if (r == NULL || (k->oms->shard_size > 0 && r->end != part_end(k, file, begin)))
            return say_size(k, name, begin, part_end(k, file, begin), err);
        add_part(k, file, begin, found);
    }
    return SW_OK;
}

static sw_status say_missing(const checking *k, sw_error *err)
{
    const char *said = NULL;
    sw_status status = SW_OK;
    for (size_t i = 0; i < k->oms->count && status == SW_OK; i++) {
        const swi_oms_resource *r = k->by_place[i];
        if (k->is_here[i] || (said != NULL && strcmp(said, r->name) == 0))
            continue;
        said = r->name;
        status = say(k, "signature-missing", SW_ERR_INCOMPLETE, r->name,
                     r->begin == 0 ? "it was signed, and is not here"
                                   : "it is shorter than what was signed",
                     err);
    }
    return status;
}

static sw_status say_mismatch(const checking *k, size_t part, sw_error *err)
{
    const swi_oms_resource *r = k->by_place[k->part_of[part]];
    char want[SWI_DIGEST_TEXT], got[SWI_DIGEST_TEXT];
    const swi_finding_in in = {.severity = SW_DEFECT,
                               .status = SW_ERR_UNTRUSTED,
                               .code = "signature-mismatch",
                               .file = r->name,
                               .has_offset = k->oms->shard_size > 0,
                               .offset_bytes = r->begin};
    swi_digest_text(&r->digest, want);
    swi_digest_text(&k->digests[part], got);
    return swi_report_add(k->report, &in, err,
                          "its bytes are not those that were signed: SHA-256 %s here, %s signed",
                          got, want);
}

static sw_status compare_parts(checking *k, sw_error *err)
{
    sw_status status = SW_OK;
    for (size_t i = 0; i < k->part_count && status == SW_OK; i++) {
        const swi_oms_resource *r = k->by_place[k->part_of[i]];
        if (memcmp(&k->digests[i], &r->digest, sizeof r->digest) == 0)
            k->sum->matched_files++;
        else
            status = say_mismatch(k, i, err);
    }
    return status;
}

/* Whatever is ignored anybody may change: it is said. */
static sw_status note_ignored(const checking *k, const char *own, sw_error *err)
{
    sw_status status = SW_OK;
    for (size_t i = 0; i < k->oms->ignored_count && !k->tree.single && status == SW_OK; i++) {
        const char *path = k->oms->ignored[i];
        const swi_finding_in in = {.severity = SW_NOTE, .code = "signature-ignored", .file = path};
        swi_entry entry;
        if ((own == NULL || strcmp(own, path) != 0) &&
            swi_store_stat(k->tree.store, path, &entry, NULL) == SW_OK)
            status = swi_report_add(k->report, &in, err,
                                    "it is here, and the signature says that it is not signed");
    }
    return status;
}

static sw_status make_room(checking *k, sw_error *err)
{
    size_t count = k->oms->count;
    sw_status status = swi_alloc_array(count, sizeof *k->by_place, (void **)&k->by_place, err);
    if (status == SW_OK)
        status = swi_alloc_array(count, sizeof *k->is_here, (void **)&k->is_here, err);
    if (status == SW_OK)
        status = swi_alloc_array(count, sizeof *k->parts, (void **)&k->parts, err);
    if (status == SW_OK)
        status = swi_alloc_array(count, sizeof *k->part_of, (void **)&k->part_of, err);
    if (status == SW_OK)
        status = swi_alloc_array(count, sizeof *k->digests, (void **)&k->digests, err);
    if (status != SW_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        k->by_place[i] = &k->oms->items[i];
    qsort(k->by_place, count, sizeof *k->by_place, by_place);
    return SW_OK;
}

static sw_status check_all(checking *k, const char *own, sw_error *err)
{
    const swi_oms_walk walk = {.oms = k->oms,
                               .skip = own,
                               .max_files = sw_limits_resolve(k->in->limits).files,
                               .odd = say_odd,
                               .ctx = k};
    sw_status status = make_room(k, err);
    if (status == SW_OK)
        status = swi_oms_tree_open(k->in->path, &walk, &k->tree, err);
    for (size_t i = 0; i < k->tree.count && status == SW_OK; i++)
        status = match_file(k, &k->tree.items[i], err);
    if (status == SW_OK)
        status = say_missing(k, err);
    if (status == SW_OK)
        status = swi_file_digests(k->tree.store, k->parts, k->part_count, k->in->work, k->digests,
                                  &k->sum->bytes, err);
    if (status == SW_OK)
        status = compare_parts(k, err);
    return status == SW_OK ? note_ignored(k, own, err) : status;
}

sw_status swi_oms_check(const swi_oms_in *in, const swi_oms *oms, sw_report *report,
                        sw_signature_summary *summary, sw_error *err)
{
    checking k = {.in = in, .oms = oms, .report = report, .sum = summary};
    swi_buf inside = {0};
    summary->files = oms->count;
    sw_status status = swi_oms_path_inside(in->path, in->signature, &inside, err);
    if (status == SW_OK)
        status = check_all(&k, inside.size > 0 ? (char *)inside.data : NULL, err);
    swi_buf_free(&inside);
    swi_oms_tree_close(&k.tree);
    free(k.by_place);
    free(k.is_here);
    free(k.parts);
    free(k.part_of);
    free(k.digests);
    return status;
}
