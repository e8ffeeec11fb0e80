/*
 * Folders of trainers (accelerate, HF Trainer, Axolotl, Lightning): model, optimizer, schedulers
 * and random states lie beside each other, each a checkpoint by itself, and are parts of one state
 * dict. Each part is read by the framework whose it is. Clauses TR-n are those of specs/trainer.md.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/report.h"
#include "base/text.h"
#include "frameworks.h"
#include "model/value.h"
#include "ranges.h"
#include "state/state.h"
#include "trainer/parts.h"

#define SHOWN_MAX 6
#define GAPS_MAX ((uint64_t)1 << 20)

/* A part that is open. */
typedef struct open_part {
    sw_checkpoint *checkpoint;
    const char *key; /* "": its state dict is part of the root */
    uint32_t first_tensor;
    size_t first_value;
    bool beside;
} open_part;

typedef struct kept {
    open_part *items;
    size_t count;
    size_t values;
    swi_arena arena;
} kept;

static void free_kept(void *data)
{
    kept *k = data;
    for (size_t i = 0; i < k->count; i++)
        sw_checkpoint_close(k->items[i].checkpoint);
    swi_arena_free(&k->arena);
    free(k->items);
    free(k);
}

/* TR-4: a model, and something that goes with it. */
static sw_status claim(const swi_store *store, const swi_listing *listing, swi_claim *out,
                       sw_error *err)
{
    swi_trainer_parts parts = {0};
    (void)store;
    sw_status st = swi_trainer_parts_find(listing, &parts, err);
    if (st != SW_OK)
        return st;
    *out = parts.models > 0 && parts.others > 0 ? SWI_CLAIM_TOGETHER : SWI_CLAIM_NONE;
    swi_trainer_parts_free(&parts);
    return SW_OK;
}

/* ---- opening ----------------------------------------------------------------------------------
 */

typedef struct reading {
    swi_opening *o;
    swi_trainer_parts parts;
    kept *kept;
    swi_buf shown; /* "model from pytorch_model_fsdp_0 (dcp), ..." */
    size_t hidden;
} reading;

static const char *shown_name(const swi_trainer_part *part)
{
    return part->name[0] != '\0' ? part->name : "this folder";
}

/* A6: which of them is meant is not for us to say. */
static sw_status two_of_a_kind(reading *r, const char *what, const swi_trainer_part *a,
                               const swi_trainer_part *b, sw_error *err)
{
    swi_quoted p, q;
    r->o->ambiguous = true;
    return swi_fail_at(err, SW_ERR_CONFLICT, "TR-5", 0,
                       "%s and %s are both %s here; name the one that is meant, or leave it alone "
                       "in the folder",
                       swi_quote_str(&p, shown_name(a)), swi_quote_str(&q, shown_name(b)), what);
}

/* TR-5 */
static sw_status check_parts(reading *r, sw_error *err)
{
    const swi_trainer_part *items = r->parts.items;
    if (r->parts.models == 0)
        return swi_fail(err, SW_ERR_INCOMPLETE, "no part of it holds a model");
    if (r->parts.models > 1)
        return two_of_a_kind(r, "a model", &items[0], &items[1], err);
    for (size_t i = 1; i < r->parts.count; i++)
        for (size_t k = 1; k < i && items[i].kind == SWI_PART_OPTIMIZER; k++)
            if (strcmp(items[i].key, items[k].key) == 0)
                return two_of_a_kind(r, "the same optimizer", &items[k], &items[i], err);
    return SW_OK;
}

/* Findings of a part, with where it lies. */
static sw_status pass_on(reading *r, const sw_report *report, const swi_append *how, sw_error *err)
{
    swi_buf file = {0}, tensor = {0};
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < sw_report_count(report); i++) {
        const sw_finding *f = sw_report_at(report, i);
        file.size = tensor.size = 0;
        st = swi_buf_printf(&file, err, "%s%s%s", how->folder,
                            how->folder[0] != '\0' && f->file[0] != '\0' ? "/" : "", f->file);
        if (st == SW_OK)
            st = swi_buf_u8(&file, 0, err);
        if (st == SW_OK)
            st = swi_buf_printf(&tensor, err, "%s%s", f->tensor[0] != '\0' ? how->prefix : "",
                                f->tensor);
        if (st == SW_OK)
            st = swi_buf_u8(&tensor, 0, err);
        const swi_finding_in in = {.severity = f->severity,
                                   .status = f->status,
                                   .code = f->code,
                                   .file = (const char *)file.data,
                                   .tensor = (const char *)tensor.data,
                                   .has_offset = f->has_offset,
                                   .offset_bytes = f->offset_bytes};
        if (st == SW_OK)
            st = swi_report_add(r->o->report, &in, err, "%s", f->message);
    }
    swi_buf_free(&file);
    swi_buf_free(&tensor);
    return st;
}

/* TR-6: whether all its tensors lie under the key already ("model", "model.encoder"). */
static bool has_key(const sw_checkpoint *part, const char *key)
{
    size_t count = sw_catalog_tensor_count(sw_checkpoint_catalog(part)), size = strlen(key);
    for (size_t i = 0; i < count; i++) {
        const char *section, *name;
        sw_checkpoint_split_name(part, i, &section, &name);
        if (strncmp(section, key, size) != 0 || (section[size] != '\0' && section[size] != '.'))
            return false;
    }
    return count > 0;
}

static sw_status show(reading *r, const swi_trainer_part *part, const sw_checkpoint *c,
                      sw_error *err)
{
    static const char *const what[] = {"model", "optimizer"};
    swi_quoted q, k;
    if (part->kind != SWI_PART_BESIDE) {
        sw_status st = swi_opening_fact(r->o, what[part->kind], err, "%s (%s)", shown_name(part),
                                        sw_checkpoint_framework(c));
        if (st != SW_OK)
            return st;
    }
    if (part->kind == SWI_PART_BESIDE && r->kept->count > SHOWN_MAX) {
        r->hidden++;
        return SW_OK;
    }
    return swi_buf_printf(&r->shown, err, "%s%s from %s (%s)", r->shown.size > 0 ? ", " : "",
                          part->kind == SWI_PART_BESIDE ? swi_quote_str(&k, part->key)
                                                        : what[part->kind],
                          swi_quote_str(&q, shown_name(part)), sw_checkpoint_framework(c));
}

/* What is told of the model by itself is told of the whole. */
static sw_status add_facts(reading *r, const sw_checkpoint *model, sw_error *err)
{
    const char *key, *value;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && sw_checkpoint_fact(model, i, &key, &value); i++)
        st = swi_opening_fact(r->o, key, err, "%s", value);
    return st;
}

/* Takes the open part over. */
static sw_status put_in(reading *r, const swi_trainer_part *part, sw_checkpoint *c,
                        const sw_report *report, sw_error *err)
{
    const swi_listing_entry *e = swi_listing_find(r->o->listing, part->name);
    open_part *p = &r->kept->items[r->kept->count++];
    swi_buf prefix = {0};
    *p = (open_part){.checkpoint = c, .key = "", .beside = part->kind == SWI_PART_BESIDE};
    p->first_value = r->kept->values;
    r->kept->values += sw_catalog_value_count(sw_checkpoint_catalog(c));
    sw_status st = SW_OK;
    if (part->key[0] != '\0' && !has_key(c, part->key))
        st = swi_arena_text(&r->kept->arena, part->key, strlen(part->key), &p->key, err);
    if (st == SW_OK)
        st = swi_buf_printf(&prefix, err, "%s%s", p->key, p->key[0] != '\0' ? "." : "");
    if (st == SW_OK)
        st = swi_buf_u8(&prefix, 0, err);
    const swi_append how = {.folder = e != NULL && e->kind == SWI_ENTRY_DIR ? part->name : "",
                            .prefix = (const char *)prefix.data,
                            .has_role = part->kind != SWI_PART_MODEL,
                            .role = part->kind == SWI_PART_OPTIMIZER ? SW_ROLE_OPTIMIZER
                                                                     : SW_ROLE_OTHER};
    if (st == SW_OK)
        st = pass_on(r, report, &how, err);
    if (st == SW_OK)
        st = swi_builder_append(r->o->builder, sw_checkpoint_catalog(c), &how, &p->first_tensor,
                                err);
    if (st == SW_OK)
        st = swi_opening_adopt(r->o, c, p->first_tensor, p->key, err);
    if (st == SW_OK)
        st = show(r, part, c, err);
    if (st == SW_OK && part->kind == SWI_PART_MODEL)
        st = add_facts(r, c, err);
    swi_buf_free(&prefix);
    return st;
}

/* TR-7: with one that cannot be read the checkpoint is not whole. */
static sw_status read_part(reading *r, const swi_trainer_part *part, sw_error *err)
{
    sw_report *report = NULL;
    sw_checkpoint *c = NULL;
    sw_status st = sw_report_make(&report, err);
    if (st != SW_OK)
        return st;
    st = swi_checkpoint_open_part(r->o, part->name, report, &c, err);
    if (st == SW_OK)
        st = put_in(r, part, c, report, err);
    sw_report_free(report);
    return st;
}

/* TR-8: what else the folder holds a model in is not read, and not passed over in silence. */
static sw_status say_other_models(reading *r, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < swi_listing_count(r->o->listing); i++) {
        const swi_listing_entry *e = swi_listing_at(r->o->listing, i);
        const swi_finding_in in = {.severity = SW_NOTE, .code = "other-model", .file = e->name};
        if (e->kind != SWI_ENTRY_FILE ||
            (!swi_has_suffix(e->name, ".safetensors") && strcmp(e->name, "pytorch_model.bin") != 0))
            continue;
        st = swi_report_add(r->o->report, &in, err,
                            "holds weights too and is not read; name it to take those");
    }
    return st;
}

/* TR-9: a rank that has no random states would go on with another's, or with new ones. */
static sw_status say_gaps(reading *r, sw_error *err)
{
    const swi_finding_in in = {.severity = SW_WARNING, .code = "missing-part"};
    swi_ranges gaps = {0};
    int64_t next = 0;
    for (size_t i = 0; i < r->parts.count; i++) {
        const swi_trainer_part *part = &r->parts.items[i];
        if (part->rank < 0)
            continue;
        for (; next < part->rank && gaps.count < GAPS_MAX; next++)
            swi_ranges_add(&gaps, (uint64_t)next);
        next = part->rank + 1;
    }
    if (gaps.count == 0)
        return SW_OK;
    return swi_report_add(r->o->report, &in, err, "there are no random states of ranks %s",
                          swi_ranges_text(&gaps));
}

static sw_status say_parts(reading *r, sw_error *err)
{
    const swi_finding_in in = {.severity = SW_NOTE, .code = "parts"};
    char more[48] = "";
    if (r->hidden > 0)
        snprintf(more, sizeof more, " and %zu more", r->hidden);
    return swi_report_add(r->o->report, &in, err, "the parts of one checkpoint: %.*s%s",
                          (int)r->shown.size, (const char *)r->shown.data, more);
}

static sw_status open_trainer(swi_opening *o, sw_error *err)
{
    reading r = {.o = o};
    void *p = NULL;
    sw_status st = swi_trainer_parts_find(o->listing, &r.parts, err);
    if (st == SW_OK)
        st = check_parts(&r, err);
    if (st == SW_OK)
        st = swi_alloc_array(1, sizeof *r.kept, &p, err);
    if (st == SW_OK) {
        r.kept = p;
        swi_opening_keep(o, r.kept, free_kept);
        st = swi_alloc_array(r.parts.count, sizeof *r.kept->items, (void **)&r.kept->items, err);
    }
    for (size_t i = 0; st == SW_OK && i < r.parts.count; i++)
        st = read_part(&r, &r.parts.items[i], err);
    if (st == SW_OK)
        st = say_parts(&r, err);
    if (st == SW_OK)
        st = say_other_models(&r, err);
    if (st == SW_OK)
        st = say_gaps(&r, err);
    o->proven = true;
    swi_buf_free(&r.shown);
    swi_trainer_parts_free(&r.parts);
    return st;
}

/* ---- the state dict ---------------------------------------------------------------------------
 */

static sw_status moved(void *ctx, const sw_value_graph *from, sw_value v, sw_value_graph *to,
                       bool *replaced, sw_value *out, sw_error *err)
{
    const open_part *part = ctx;
    uint32_t number;
    (void)to;
    (void)err;
    *replaced = sw_value_tensor(from, v, &number);
    if (*replaced)
        *out = swi_value_of_tensor(part->first_tensor + number);
    return SW_OK;
}

/* The keys of `from` in `to`: none twice. */
static sw_status merge(sw_value_graph *g, sw_value to, sw_value from, sw_error *err)
{
    sw_value dict, pair[2], there;
    sw_status st = SW_OK;
    if (!sw_value_as_dict(g, from, &dict))
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "TR-6", 0,
                           "a part of the state dict that is no dict, and has no key of its own");
    for (size_t i = 0; st == SW_OK && sw_value_pair(g, dict, i, &pair[0], &pair[1]); i++) {
        if (swi_dict_find(g, to, pair[0], &there))
            return swi_fail_at(err, SW_ERR_CONFLICT, "TR-6", 0,
                               "two parts of the state dict have the same key");
        st = swi_graph_set_items(g, to, pair, 1, err);
    }
    return st;
}

static sw_status put_state(const open_part *part, swi_state *state, sw_value copy, sw_error *err)
{
    sw_value pair[2] = {{0}, copy};
    if (part->key[0] == '\0')
        return merge(state->graph, state->root, copy, err);
    sw_status st =
        swi_graph_text(state->graph, SW_VALUE_STR, part->key, strlen(part->key), &pair[0], err);
    return st == SW_OK ? swi_graph_set_items(state->graph, state->root, pair, 1, err) : st;
}

/* The name that this rank's value has in the whole catalog. */
static const char *name_in_whole(const sw_checkpoint *whole, const open_part *part,
                                 const swi_state_scoped *scoped)
{
    const sw_catalog *own = sw_checkpoint_catalog(part->checkpoint);
    sw_value_info info;
    for (size_t i = 0; sw_catalog_value_at(own, i, &info); i++)
        if (info.rank == scoped->rank && strcmp(info.name, scoped->name) == 0 &&
            sw_catalog_value_at(sw_checkpoint_catalog(whole), part->first_value + i, &info))
            return info.name;
    return scoped->name;
}

static sw_status add_scoped(const sw_checkpoint *whole, const open_part *part, const swi_state *own,
                            swi_state *state, size_t *capacity, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < own->scoped_count; i++) {
        swi_state_scoped scoped = own->scoped[i];
        scoped.name = name_in_whole(whole, part, &own->scoped[i]);
        st = swi_grow_array((void **)&state->scoped, capacity, state->scoped_count + 1,
                            sizeof scoped, err);
        if (st == SW_OK)
            st = swi_graph_copy(state->graph, own->graph, own->scoped[i].value, moved,
                                (void *)(uintptr_t)part, &scoped.value, err);
        if (st == SW_OK)
            state->scoped[state->scoped_count++] = scoped;
    }
    return st;
}

static sw_status add_state(const sw_checkpoint *whole, const open_part *part, swi_state *state,
                           size_t *capacity, sw_error *err)
{
    swi_state own = {0};
    sw_value copy;
    sw_status st = swi_checkpoint_state(part->checkpoint, &own, err);
    if (st != SW_OK)
        return st;
    state->ordered = state->ordered && (own.ordered || part->beside);
    st = swi_graph_copy(state->graph, own.graph, own.root, moved, (void *)(uintptr_t)part, &copy,
                        err);
    if (st == SW_OK)
        st = put_state(part, state, copy, err);
    if (st == SW_OK)
        st = add_scoped(whole, part, &own, state, capacity, err);
    swi_state_free(&own);
    return st;
}

static sw_status trainer_state(const sw_checkpoint *checkpoint, swi_state *out, sw_error *err)
{
    const kept *k = swi_checkpoint_kept(checkpoint);
    const sw_limits limits = swi_checkpoint_limits(checkpoint);
    swi_state state = {.ordered = true};
    size_t capacity = 0;
    sw_status st = swi_graph_make(&limits, &state.graph, err);
    if (st == SW_OK)
        st = swi_graph_dict(state.graph, &state.root, err);
    for (size_t i = 0; st == SW_OK && i < k->count; i++)
        st = add_state(checkpoint, &k->items[i], &state, &capacity, err);
    if (st == SW_OK)
        *out = state;
    else
        swi_state_free(&state);
    return st;
}

static sw_status trainer_value(const sw_checkpoint *checkpoint, size_t i, sw_value_graph **graph,
                               sw_value *root, sw_error *err)
{
    const kept *k = swi_checkpoint_kept(checkpoint);
    for (size_t n = k->count; n-- > 0;)
        if (i >= k->items[n].first_value)
            return sw_checkpoint_value(k->items[n].checkpoint, i - k->items[n].first_value, graph,
                                       root, err);
    return swi_fail(err, SW_ERR_ARG, "value %zu is not in the catalog", i);
}

const swi_framework swi_framework_trainer = {
    .name = "trainer",
    .title = "Folder of a trainer (accelerate, HF Trainer, Lightning)",
    .claim = claim,
    .open = open_trainer,
    .state = trainer_state,
    .value = trainer_value,
};
