/*
 * Files of torch.save: a training checkpoint, a state dict, a whole module; alone, or the shards
 * `pytorch_model-0000i-of-0000N.bin` of a Hugging Face model with their index.
 */
#include "torch/torch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/report.h"
#include "base/text.h"
#include "frameworks.h"
#include "io/filecache.h"
#include "model/value.h"
#include "ranks/rank_series.h"
#include "source/shards.h"

#define SUFFIX ".bin"
#define INDEX_SUFFIX SUFFIX ".index.json"
#define LISTED_MAX 8
/* Files of one folder that are looked into. */
#define LOOKED_AT_MAX 4096

/* ---- which files -------------------------------------------------------------------------------
 */

/* TS-1: names under which models are published. */
static bool is_shard(const swi_listing_entry *e)
{
    uint64_t number, of;
    size_t stem;
    return e->kind == SWI_ENTRY_FILE &&
           (strcmp(e->name, "pytorch_model" SUFFIX) == 0 ||
            (swi_shard_numbered(e->name, SUFFIX, &number, &of, &stem) &&
             strncmp(e->name, "pytorch_model", strlen("pytorch_model")) == 0));
}

static bool is_index(const swi_listing_entry *e)
{
    return e->kind == SWI_ENTRY_FILE && swi_has_suffix(e->name, INDEX_SUFFIX);
}

/* Names that torch.save's files are usually given: a damaged one is still meant to be one. */
static bool is_usual_name(const char *name)
{
    static const char *const usual[] = {".pt", ".pth", ".ckpt", ".pth.tar", ".pt.tar"};
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        if (swi_has_suffix(name, usual[i]))
            return true;
    return false;
}

/* In a folder only such files are opened to be looked at. */
static bool is_possible_name(const char *name)
{
    static const char *const possible[] = {".bin", ".pkl", ".tar", ".model", ".state", ".th"};
    if (is_usual_name(name))
        return true;
    for (size_t i = 0; i < sizeof possible / sizeof possible[0]; i++)
        if (swi_has_suffix(name, possible[i]))
            return true;
    return false;
}

static sw_status looks_like_one(const swi_store *store, const char *name, bool alone, bool *out,
                                sw_error *err)
{
    uint8_t head[SWI_TORCH_HEAD];
    size_t size = 0;
    sw_error cause = {0};
    sw_status st = swi_store_head(store, name, head, sizeof head, &size, &cause);
    if (st == SW_ERR_NOMEM || (alone && st != SW_OK)) {
        if (err != NULL)
            *err = cause;
        return st;
    }
    *out = st == SW_OK && swi_torch_looks(head, size) != SWI_TORCH_NONE;
    return SW_OK;
}

/* Files of a folder that are torch.save's by content, or (none being so) by name. */
typedef struct loose {
    size_t count;
    const char *first;
    bool by_name;
} loose;

static sw_status find_loose(const swi_store *store, const swi_listing *listing, loose *out,
                            sw_error *err)
{
    loose by_content = {0}, by_name = {.by_name = true};
    size_t looked = 0, count = swi_listing_count(listing);
    for (size_t i = 0; i < count; i++) {
        const swi_listing_entry *e = swi_listing_at(listing, i);
        bool is = false, alone = count == 1;
        if (e->kind != SWI_ENTRY_FILE || swi_has_suffix(e->name, ".distcp") ||
            (!alone && !is_possible_name(e->name)) || looked++ > LOOKED_AT_MAX)
            continue;
        sw_status st = looks_like_one(store, e->name, alone, &is, err);
        if (st != SW_OK)
            return st;
        loose *l = is ? &by_content : is_usual_name(e->name) ? &by_name : NULL;
        if (l == NULL)
            continue;
        if (l->count++ == 0)
            l->first = e->name;
    }
    *out = by_content.count > 0 ? by_content : by_name;
    return SW_OK;
}

/*
 * A model's shards are a checkpoint wherever they lie, but where its safetensors lie beside: those
 * are what loaders take. Any other file is one if it is all there is.
 */
static sw_status claim(const swi_store *store, const swi_listing *listing, swi_claim *out,
                       sw_error *err)
{
    size_t count = swi_listing_count(listing);
    swi_claim shards = SWI_CLAIM_NONE;
    loose l = {0};
    for (size_t i = 0; i < count; i++) {
        const swi_listing_entry *e = swi_listing_at(listing, i);
        uint64_t number, of;
        size_t stem;
        if (e->kind == SWI_ENTRY_FILE && swi_has_suffix(e->name, ".safetensors")) {
            *out = SWI_CLAIM_NONE;
            return SW_OK;
        }
        if (is_index(e) || is_shard(e))
            shards =
                count == 1 && (is_index(e) ||
                               (swi_shard_numbered(e->name, SUFFIX, &number, &of, &stem) && of > 1))
                    ? SWI_CLAIM_PART
                    : SWI_CLAIM_WHOLE;
    }
    *out = shards;
    if (shards != SWI_CLAIM_NONE)
        return SW_OK;
    if (count == 1 && swi_rank_series_any(listing))
        return SW_OK; /* it stands for its folder */
    sw_status st = find_loose(store, listing, &l, err);
    if (st == SW_OK && l.count > 0)
        *out = count == 1 ? SWI_CLAIM_WHOLE : SWI_CLAIM_LOOSE;
    return st;
}

/* ---- opening -----------------------------------------------------------------------------------
 */

typedef struct reading {
    swi_opening *o;
    swi_shards found;
    swi_torch_filling fill;
    sw_error last; /* why the last file could not be read */
    size_t readable;
} reading;

/* TS-1: of several unrelated files none is taken. */
static sw_status several_files(reading *r, const loose *l, sw_error *err)
{
    swi_buf names = {0};
    size_t named = 0;
    sw_status st = SW_OK;
    r->o->ambiguous = true;
    for (size_t i = 0; st == SW_OK && i < swi_listing_count(r->o->listing); i++) {
        const swi_listing_entry *e = swi_listing_at(r->o->listing, i);
        bool is = false;
        swi_quoted q;
        if (e->kind != SWI_ENTRY_FILE || !is_possible_name(e->name) || named == LISTED_MAX)
            continue;
        if (l->by_name)
            is = is_usual_name(e->name);
        else
            st = looks_like_one(r->o->store, e->name, false, &is, err);
        if (st == SW_OK && is)
            st = swi_buf_printf(&names, err, "%s%s", named++ > 0 ? ", " : "",
                                swi_quote_str(&q, e->name));
    }
    if (st == SW_OK)
        st = swi_fail(err, SW_ERR_CONFLICT,
                      "several files of torch.save are here (%.*s%s); name "
                      "one of them",
                      (int)names.size, names.data ? (const char *)names.data : "",
                      l->count > LISTED_MAX ? ", ..." : "");
    swi_buf_free(&names);
    return st;
}

static bool has_shards(const swi_listing *listing)
{
    for (size_t i = 0; i < swi_listing_count(listing); i++)
        if (is_index(swi_listing_at(listing, i)) || is_shard(swi_listing_at(listing, i)))
            return true;
    return false;
}

static sw_status find_files(reading *r, sw_error *err)
{
    loose l = {0};
    r->found = (swi_shards){.o = r->o,
                            .suffix = SUFFIX,
                            .index_suffix = INDEX_SUFFIX,
                            .first_index = "pytorch_model" INDEX_SUFFIX,
                            .belongs = is_shard};
    if (has_shards(r->o->listing))
        return swi_shards_find(&r->found, err);
    sw_status st = find_loose(r->o->store, r->o->listing, &l, err);
    if (st != SW_OK)
        return st;
    if (l.count > 1)
        return several_files(r, &l, err);
    const swi_listing_entry *e = l.count == 1 ? swi_listing_find(r->o->listing, l.first) : NULL;
    if (e == NULL && swi_listing_count(r->o->listing) == 1)
        e = swi_listing_at(r->o->listing, 0); /* asked for by --from: say what it is */
    if (e == NULL || e->kind != SWI_ENTRY_FILE)
        return swi_fail(err, SW_ERR_INCOMPLETE, "no file of torch.save is there");
    return swi_shards_add(&r->found, e->name, e->bytes, err);
}

/* Opens file i and puts it into the catalog; *cause: why it cannot be read. */
static sw_status read_file(reading *r, const swi_reader *reader, uint32_t i, sw_status *unreadable,
                           sw_error *cause, sw_error *err)
{
    const swi_shard *s = &r->found.items[i];
    swi_torch_file *tf = NULL;
    swi_torch_object object = {0};
    swi_pickle_unsafe unsafe = {0};
    *unreadable = swi_torch_open_file(reader, i, s->bytes, &unsafe, &tf, cause);
    sw_status st = swi_pickle_report(&unsafe, s->name, "", r->o->report, err);
    if (st == SW_OK && *unreadable == SW_OK) {
        swi_opening_memory(r->o, 2 * swi_graph_memory(swi_torch_graph(tf)));
        r->fill.kept->unsafe = r->fill.kept->unsafe || unsafe.total > 0;
        st = swi_torch_object_make(tf, reader, false, &object, err);
        if (st == SW_OK)
            st = swi_torch_fill(&r->fill, tf, s->name, s->bytes, &object, err);
        if (st != SW_OK)
            swi_error_prefix(err, "%s", s->name);
    }
    swi_torch_free(tf);
    return st;
}

static sw_status read_or_say(reading *r, const swi_reader *reader, uint32_t i, sw_error *err)
{
    const swi_shard *s = &r->found.items[i];
    sw_status unreadable = SW_OK;
    sw_error cause = {0};
    swi_quoted q;
    const char *shown = swi_quote_str(&q, s->name);
    sw_status st = read_file(r, reader, i, &unreadable, &cause, err);
    if (st != SW_OK)
        return st;
    if (unreadable == SW_OK) {
        r->readable++;
        return SW_OK;
    }
    if (strncmp(cause.text, shown, strlen(shown)) != 0)
        swi_error_prefix(&cause, "%s", shown);
    r->last = cause;
    if (swi_could_not_work(unreadable)) {
        if (err != NULL)
            *err = cause;
        return unreadable;
    }
    if (r->found.count == 1)
        return SW_OK; /* it is the error of all */
    swi_finding_in in = {.severity = SW_DEFECT,
                         .status = unreadable,
                         .code = "unreadable-file",
                         .file = s->name,
                         .has_offset = cause.has_offset,
                         .offset_bytes = cause.offset_bytes};
    return swi_report_error(r->o->report, &in, &cause, err);
}

static const char *shard_path(const void *ctx, uint32_t id)
{
    const reading *r = ctx;
    return r->found.items[id].name;
}

static sw_status read_files(reading *r, sw_error *err)
{
    swi_filecache *cache = NULL;
    sw_status st = swi_filecache_make(r->o->store, (uint32_t)r->found.count, shard_path, r,
                                      &r->o->limits, &cache, err);
    for (uint32_t i = 0; st == SW_OK && i < r->found.count; i++)
        if (!r->found.items[i].missing)
            st = read_or_say(r, swi_filecache_reader(cache), i, err);
    swi_filecache_free(cache);
    if (st != SW_OK || r->readable > 0)
        return st;
    if (r->last.status != SW_OK) {
        if (err != NULL)
            *err = r->last;
        return r->last.status;
    }
    return swi_fail(err, SW_ERR_INCOMPLETE, "none of its files is there");
}

/* ---- the index against the files ---------------------------------------------------------------
 */

static sw_status tensor_finding(reading *r, sw_status status, const char *code, const char *file,
                                const char *tensor, const char *text, sw_error *err)
{
    swi_finding_in in = {
        .severity = SW_DEFECT, .status = status, .code = code, .file = file, .tensor = tensor};
    return swi_report_add(r->o->report, &in, err, "%s", text);
}

static sw_status check_index(reading *r, sw_error *err)
{
    const swi_hf_index *index = r->found.index;
    const swi_torch_filling *f = &r->fill;
    sw_status st = SW_OK;
    if (index == NULL || r->readable < r->found.count)
        return SW_OK;
    for (size_t i = 0; st == SW_OK && i < swi_hf_index_count(index); i++) {
        const char *name;
        uint32_t file;
        if (!swi_hf_index_at(index, i, &name, &file))
            continue;
        int64_t id = swi_names_find(f->names, name, strlen(name));
        if (id < 0 || strcmp(f->file_of[id], swi_hf_index_file(index, file)) != 0)
            st = tensor_finding(
                r, SW_ERR_INCOMPLETE, "missing-tensor", swi_hf_index_file(index, file), name,
                "the index places this tensor in this file and it is not there", err);
    }
    for (uint32_t i = 0; st == SW_OK && i < swi_names_count(f->names); i++) {
        const char *name = swi_names_at(f->names, i, NULL);
        if (swi_hf_index_find(index, name) < 0)
            st = tensor_finding(r, SW_ERR_CONFLICT, "unlisted-tensor", f->file_of[i], name,
                                "the index does not name this tensor: loaders will miss it", err);
    }
    return st;
}

/* ---- facts -------------------------------------------------------------------------------------
 */

static sw_status add_facts(reading *r, sw_error *err)
{
    const swi_torch_totals *t = &r->fill.totals;
    swi_opening *o = r->o;
    sw_status st = swi_opening_fact(o, "form", err, "%s",
                                    t->legacy_files == 0          ? "zip"
                                    : t->legacy_files == t->files ? "stream (before 1.6)"
                                                                  : "zip and stream (before 1.6)");
    if (st == SW_OK && t->files > 1)
        st = swi_opening_fact(o, "shards", err, "%" PRIu64, t->files);
    if (st == SW_OK && t->swapped_files > 0)
        st = swi_opening_fact(o, "byte order", err, "big");
    if (st == SW_OK)
        st = swi_torch_say_checksums(&r->fill, err);
    /* P5: views are saved with the whole storage that they see a part of */
    if (st == SW_OK && t->used_bytes < t->storage_bytes)
        st = swi_opening_fact(o, "stored", err, "%" PRIu64 " bytes, of which tensors use %" PRIu64,
                              t->storage_bytes, t->used_bytes);
    return st;
}

/* ---- the framework -----------------------------------------------------------------------------
 */

static sw_status open_torch(swi_opening *o, sw_error *err)
{
    reading r = {.o = o};
    sw_status st = swi_torch_filling_begin(o, &r.fill, err);
    if (st == SW_OK)
        st = find_files(&r, err);
    if (st == SW_OK)
        st = read_files(&r, err);
    if (st == SW_OK)
        st = check_index(&r, err);
    if (st == SW_OK)
        st = swi_shards_say_no_index(&r.found, err);
    if (st == SW_OK)
        st = add_facts(&r, err);
    swi_torch_filling_end(&r.fill);
    swi_shards_free(&r.found);
    return st;
}

const swi_framework swi_framework_torch = {
    .name = "torch",
    .title = "PyTorch file (torch.save)",
    .alias = "ddp",
    .target = "torch[:form=zip|legacy]",
    .takes = SWI_TAKES_STATE,
    .one_file = true,
    .optimizer_forms = SWI_FORM_BIT(SWI_FORM_KEEP) | SWI_FORM_BIT(SWI_FORM_NESTED) |
                       SWI_FORM_BIT(SWI_FORM_FLAT) | SWI_FORM_BIT(SWI_FORM_IDS),
    .alias_form = SWI_FORM_IDS,
    .claim = claim,
    .open = open_torch,
    .state = swi_torch_state,
    .value = swi_torch_value,
    .layout = swi_torch_layout,
    .holds_optimizer = true,
    .holds_values = true,
};
