/* Content digests of checkpoints: which tensors, under which names (specs/digest.md, DIG-9). */
#include "check/hash.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "digest.h"
#include "select/select.h"

typedef struct hashing {
    const sw_checkpoint *checkpoint;
    const sw_catalog *catalog;
    const swi_hash_in *in;
    swi_selection selection;
    const char **names; /* by index; NULL: not wanted */
    bool *want, *failed;
    swi_digest *digests;
} hashing;

static bool matches(const char *const *globs, const char *name)
{
    if (globs == NULL)
        return true;
    for (; *globs != NULL; globs++) {
        if (swi_glob_match(*globs, name))
            return true;
    }
    return false;
}

/* Patterns are of the names in the target, so that one choice fits every form. */
static sw_status choose_weights(hashing *h, sw_report *report, sw_error *err)
{
    const sw_convert_options options = {.section = h->in->section};
    sw_status st = swi_select(h->checkpoint, &options, report, &h->selection, err);
    for (size_t i = 0; i < h->selection.count && st == SW_OK; i++) {
        const swi_chosen *item = &h->selection.items[i];
        if (matches(h->in->only, item->name))
            h->names[item->source] = item->name;
    }
    return st;
}

static sw_status choose(hashing *h, sw_report *report, sw_error *err)
{
    size_t chosen = 0, count = sw_catalog_tensor_count(h->catalog);
    sw_status st = h->in->weights ? choose_weights(h, report, err) : SW_OK;
    for (size_t i = 0; i < count && st == SW_OK; i++) {
        sw_tensor_info info;
        sw_catalog_tensor(h->catalog, i, &info);
        if (!h->in->weights && matches(h->in->only, info.name))
            h->names[i] = info.name;
        h->want[i] = h->names[i] != NULL;
        chosen += h->want[i];
    }
    if (st == SW_OK && chosen == 0 && h->in->only != NULL)
        return swi_fail(err, SW_ERR_NOTFOUND, "no tensor has a name that --only names");
    return st;
}

static sw_status make_room(hashing *h, sw_error *err)
{
    size_t count = sw_catalog_tensor_count(h->catalog);
    sw_status st = swi_alloc_array(count, sizeof *h->names, (void **)&h->names, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, sizeof *h->want, (void **)&h->want, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, sizeof *h->failed, (void **)&h->failed, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, sizeof *h->digests, (void **)&h->digests, err);
    return st;
}

static sw_status collect(const hashing *h, swi_digest_list *out, swi_digest_list *damaged,
                         sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; i < sw_catalog_tensor_count(h->catalog) && st == SW_OK; i++) {
        if (h->want[i])
            st = swi_digest_list_add(h->failed[i] ? damaged : out, h->names[i], strlen(h->names[i]),
                                     &h->digests[i], err);
    }
    for (const char *const *g = h->in->only; g != NULL && *g != NULL && st == SW_OK; g++)
        st = swi_digest_list_add_only(out, *g, strlen(*g), err);
    out->weights = h->in->weights;
    out->as = h->in->as;
    if (st == SW_OK)
        st = swi_digest_list_end(out, err);
    if (st == SW_OK && damaged != NULL)
        st = swi_digest_list_end(damaged, err);
    return st;
}

sw_status swi_hash(const sw_checkpoint *checkpoint, const swi_hash_in *in,
                   const sw_work_options *work, sw_report *report, swi_digest_list *out,
                   swi_digest_list *damaged, sw_tally *tally, sw_error *err)
{
    swi_digest_list made = {0}, left = {0};
    hashing h = {.checkpoint = checkpoint, .catalog = sw_checkpoint_catalog(checkpoint), .in = in};
    const swi_source source = swi_checkpoint_source(checkpoint);
    sw_status st = make_room(&h, err);
    if (st == SW_OK)
        st = choose(&h, report, err);
    if (st == SW_OK) {
        const swi_digest_in what = {
            .want = h.want, .as = in->as, .failed = damaged ? h.failed : NULL};
        st = swi_catalog_digests(&source, &what, work, h.digests, tally, err);
    }
    if (st == SW_OK)
        st = collect(&h, &made, damaged ? &left : NULL, err);
    free(h.names);
    free(h.want);
    free(h.failed);
    free(h.digests);
    swi_selection_free(&h.selection);
    if (st != SW_OK) {
        swi_digest_list_free(&made);
        swi_digest_list_free(&left);
        return st;
    }
    *out = made;
    if (damaged != NULL)
        *damaged = left;
    return SW_OK;
}

/* ---- the public list ---------------------------------------------------------------------- */

sw_status sw_hash(const char *path, const sw_hash_options *options, sw_report *report,
                  sw_digests **out, sw_tally *tally, sw_error *err)
{
    static const sw_hash_options defaults = {0};
    const sw_hash_options *o = options ? options : &defaults;
    const swi_hash_in in = {.weights = o->weights || o->section != NULL,
                            .section = o->section,
                            .only = o->only,
                            .as = o->as};
    sw_checkpoint *c = NULL;
    void *room = NULL;
    sw_tally done = {0};
    if (path == NULL || out == NULL)
        return swi_fail(err, SW_ERR_ARG, "sw_hash: path and out are needed");
    sw_status st = sw_checkpoint_open(path, &o->open, report, &c, err);
    if (st == SW_OK)
        st = swi_alloc_array(1, sizeof(sw_digests), &room, err);
    if (st == SW_OK)
        st = swi_hash(c, &in, &o->work, report, &((sw_digests *)room)->list, NULL, &done, err);
    sw_checkpoint_close(c);
    if (st != SW_OK) {
        free(room);
        return st;
    }
    *out = room;
    if (tally != NULL)
        *tally = done;
    return SW_OK;
}

void sw_digests_free(sw_digests *digests)
{
    if (digests == NULL)
        return;
    swi_digest_list_free(&digests->list);
    free(digests);
}

size_t sw_digests_count(const sw_digests *digests)
{
    return digests->list.count;
}

bool sw_digests_at(const sw_digests *digests, size_t i, const char **name,
                   char digest[SW_DIGEST_TEXT])
{
    _Static_assert(SW_DIGEST_TEXT == SWI_DIGEST_TEXT, "one size of digests as text");
    if (i >= digests->list.count)
        return false;
    *name = digests->list.items[i].name;
    swi_digest_text(&digests->list.items[i].digest, digest);
    return true;
}

void sw_digests_root(const sw_digests *digests, char digest[SW_DIGEST_TEXT])
{
    swi_digest_text(&digests->list.root, digest);
}

sw_status sw_digests_text(const sw_digests *digests, char **out, sw_error *err)
{
    swi_buf text = {0};
    sw_status st = swi_digest_list_text(&digests->list, &text, err);
    if (st == SW_OK)
        st = swi_buf_u8(&text, '\0', err);
    if (st != SW_OK) {
        swi_buf_free(&text);
        return st;
    }
    *out = (char *)text.data;
    return SW_OK;
}
