#include "check/verify_portion.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/report.h"
#include "base/text.h"
#include "select/select.h"

/* ---- what is in it -------------------------------------------------------------------------- */

static bool names_tensor(const sw_checkpoint *c, const char *const *globs, size_t tensor)
{
    const char *section, *inner;
    sw_tensor_info info;
    (void)sw_catalog_tensor(sw_checkpoint_catalog(c), tensor, &info);
    sw_checkpoint_split_name(c, tensor, &section, &inner);
    return swi_select_match(globs, inner, info.name);
}

/* A pattern that meets no tensor is most likely a slip of the pen. */
static sw_status say_unmatched(const swi_verify_portion *s, sw_report *report, sw_error *err)
{
    const size_t count = sw_catalog_tensor_count(sw_checkpoint_catalog(s->checkpoint));
    sw_status st = SW_OK;
    for (const char *const *g = s->options->tensors; st == SW_OK && g != NULL && *g != NULL; g++) {
        const char *const one[] = {*g, NULL};
        const swi_finding_in in = {.severity = SW_WARNING, .code = "unmatched-glob"};
        swi_quoted q;
        size_t i = 0;
        while (i < count && !names_tensor(s->checkpoint, one, i))
            i++;
        if (i == count)
            st = swi_report_add(report, &in, err, "--tensors \"%s\" meets no tensor",
                                swi_quote_str(&q, *g));
    }
    return st;
}

/* By blob: it holds some of a chosen tensor. */
static void mark_blobs(const swi_verify_portion *s, bool *wanted)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(s->checkpoint);
    for (uint32_t i = 0; i < sw_catalog_tensor_count(catalog); i++) {
        sw_tensor_info info;
        (void)sw_catalog_tensor(catalog, i, &info);
        for (uint64_t k = 0; s->chosen[i] && k < info.piece_count; k++) {
            swi_piece piece;
            swi_tensor_piece(catalog, i, k, &piece);
            wanted[piece.blob] = true;
        }
    }
}

static sw_status take_blobs(swi_verify_portion *s, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(s->checkpoint);
    const sw_verify_options *o = s->options;
    swi_portion_in in = {.parts = o->parts, .part = o->parts > 0 ? o->part - 1 : 0};
    bool *wanted = NULL;
    sw_status st = SW_OK;
    if (!s->reads || o->tensors != NULL)
        st = swi_alloc_array(swi_catalog_blob_count(catalog), 1, (void **)&wanted, err);
    if (st == SW_OK && s->reads && o->tensors != NULL)
        mark_blobs(s, wanted);
    in.wanted = wanted;
    if (st == SW_OK)
        st = swi_portion_make(catalog, &in, &s->blobs, err);
    free(wanted);
    return st;
}

/* A tensor that lies in several parts is compared as a whole by that of its first piece. */
static void choose_tensors(swi_verify_portion *s)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(s->checkpoint);
    for (uint32_t i = 0; i < sw_catalog_tensor_count(catalog); i++) {
        sw_tensor_info info;
        swi_piece piece;
        (void)sw_catalog_tensor(catalog, i, &info);
        bool here = s->options->parts == 0 || (info.piece_count == 0 && s->options->part == 1);
        if (!here && info.piece_count > 0) {
            swi_tensor_piece(catalog, i, 0, &piece);
            here = swi_portion_find(s->blobs, piece.blob) != SWI_NOT_IN_PORTION;
        }
        s->tensors[i] = s->chosen[i] && here;
    }
}

static sw_status choose(swi_verify_portion *s, sw_error *err)
{
    const size_t count = sw_catalog_tensor_count(sw_checkpoint_catalog(s->checkpoint));
    sw_status st = swi_alloc_array(count, 1, (void **)&s->chosen, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, 1, (void **)&s->tensors, err);
    for (size_t i = 0; st == SW_OK && i < count; i++)
        s->chosen[i] =
            s->options->tensors == NULL || names_tensor(s->checkpoint, s->options->tensors, i);
    return st;
}

sw_status swi_verify_portion_make(const sw_checkpoint *checkpoint, const sw_verify_options *options,
                                  sw_report *report, swi_verify_portion *out, sw_error *err)
{
    const sw_level level = options->level ? options->level : SW_LEVEL_DIGEST;
    const size_t files = sw_catalog_file_count(sw_checkpoint_catalog(checkpoint));
    swi_verify_portion *s = out;
    *s = (swi_verify_portion){
        .checkpoint = checkpoint, .options = options, .reads = level >= SW_LEVEL_DIGEST};
    s->rest = s->reads && options->tensors == NULL && options->part <= 1;
    if (options->parts > 0 && (options->part == 0 || options->part > options->parts))
        return swi_fail(err, SW_ERR_ARG, "there is no such part of the work: they count from 1");
    sw_status st = choose(s, err);
    if (st == SW_OK)
        st = say_unmatched(s, report, err);
    if (st == SW_OK)
        st = take_blobs(s, err);
    if (st == SW_OK) {
        choose_tensors(s);
        st = swi_alloc_array(files, sizeof *s->files, (void **)&s->files, err);
    }
    if (st == SW_OK)
        st = swi_alloc_array(swi_portion_count(s->blobs), 1, (void **)&s->without, err);
    if (st == SW_OK)
        st = swi_vouched_make(&s->vouched, err);
    return st;
}

void swi_verify_portion_free(swi_verify_portion *portion)
{
    free(portion->chosen);
    free(portion->tensors);
    swi_portion_free(portion->blobs);
    free(portion->files);
    free(portion->without);
    swi_vouched_free(portion->vouched);
    *portion = (swi_verify_portion){0};
}

/* ---- the account ---------------------------------------------------------------------------- */

static void count_blob(const swi_verify_portion *s, uint32_t blob, bool *left_out, bool *without)
{
    const uint32_t record = swi_portion_find(s->blobs, blob);
    if (record == SWI_NOT_IN_PORTION)
        *left_out = true;
    else if (s->without[record])
        *without = true;
}

static void count_one(bool left_out, bool without, uint64_t *left, uint64_t *bare)
{
    *left += left_out;
    *bare += !left_out && without;
}

static void count_tensors(const swi_verify_portion *s, sw_verify_summary *sum)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(s->checkpoint);
    for (uint32_t i = 0; i < sw_catalog_tensor_count(catalog); i++) {
        bool left_out = false, without = false;
        sw_tensor_info info;
        (void)sw_catalog_tensor(catalog, i, &info);
        if (swi_tensor_defect(catalog, i) != SW_OK)
            continue; /* that is said, and more than this */
        for (uint64_t k = 0; k < info.piece_count; k++) {
            swi_piece piece;
            swi_tensor_piece(catalog, i, k, &piece);
            count_blob(s, piece.blob, &left_out, &without);
        }
        count_one(left_out, without, &sum->left_out.tensors, &sum->without.tensors);
        sum->chosen_tensors += s->chosen[i];
    }
    for (size_t i = 0; i < sw_catalog_value_count(catalog); i++) {
        bool left_out = false, without = false;
        count_blob(s, swi_value_blob(catalog, i), &left_out, &without);
        count_one(left_out, without, &sum->left_out.values, &sum->without.values);
    }
}

static sw_status add_files(const swi_verify_portion *s, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(s->checkpoint);
    sw_status st = SW_OK;
    for (uint32_t i = 0; st == SW_OK && i < sw_catalog_file_count(catalog); i++) {
        const uint64_t bytes = swi_catalog_file_bytes(catalog, i);
        const swi_vouched_file f = {
            .path = swi_catalog_path(catalog, i),
            .bytes = bytes == UINT64_MAX ? 0 : bytes,
            .checked = s->files[i].checked_bytes,
            .differing = s->files[i].differing_bytes,
            .without = s->files[i].unchecked_bytes,
            .left_out = swi_portion_left_out(s->blobs, i),
        };
        st = swi_vouched_add(s->vouched, &f, err);
    }
    return st;
}

/* Where nobody has looked through the folder, it is what the listing says. */
static sw_status add_listing(const swi_verify_portion *s, sw_error *err)
{
    const swi_listing *listing = swi_checkpoint_listing(s->checkpoint);
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < swi_listing_count(listing); i++) {
        const swi_listing_entry *e = swi_listing_at(listing, i);
        const swi_vouched_file f = {.path = e->name, .bytes = e->bytes};
        if (e->kind == SWI_ENTRY_FILE && e->bytes > 0)
            st = swi_vouched_add(s->vouched, &f, err);
    }
    return st;
}

static uint64_t at_most(uint64_t bytes, uint64_t *room)
{
    const uint64_t n = bytes < *room ? bytes : *room;
    *room -= n;
    return n;
}

/* Each byte of a file once, even where records share some. */
static sw_verify_file divide(const swi_verify_portion *s, const swi_vouched_file *f)
{
    const uint64_t known = f->checked + f->differing + f->without + f->left_out;
    uint64_t room = f->bytes > 0 ? f->bytes : known;
    sw_verify_file out = {.path = f->path, .bytes = room};
    out.checked = at_most(f->checked, &room);
    out.differing = at_most(f->differing, &room);
    out.without = at_most(f->without, &room);
    out.left_out = at_most(s->rest ? f->left_out : room, &room);
    out.other = room;
    return out;
}

sw_status swi_verify_account(swi_verify_portion *portion, sw_verify_summary *summary, sw_error *err)
{
    const sw_verify_options *o = portion->options;
    sw_status st = add_files(portion, err);
    if (st == SW_OK && !portion->rest && !swi_checkpoint_alone(portion->checkpoint))
        st = add_listing(portion, err);
    if (st != SW_OK)
        return st;
    count_tensors(portion, summary);
    summary->nothing_chosen = o->tensors != NULL && summary->chosen_tensors == 0;
    for (size_t i = 0; i < swi_vouched_count(portion->vouched); i++) {
        swi_vouched_file f;
        swi_vouched_at(portion->vouched, i, &f);
        const sw_verify_file file = divide(portion, &f);
        summary->without.bytes += file.without;
        summary->left_out.bytes += file.left_out;
        summary->other_bytes += file.other;
        summary->other_files += file.other > 0;
        if (o->on_file != NULL)
            o->on_file(o->file_ctx, &file);
    }
    return SW_OK;
}
