#include "native/native_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "base/text.h"
#include "model/value.h"
#include "native/native.h"
#include "select/sections.h"
#include "state/state_json.h"

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct naming {
    const char **of; /* by tensor of the source */
    size_t count;
} naming;

static const char *name_of(const void *ctx, uint32_t index)
{
    const naming *n = ctx;
    return index < n->count ? n->of[index] : NULL;
}

/* A tensor that stands in several places has the name of the first. */
static sw_status learn_names(const swi_target_in *in, naming *out, sw_error *err)
{
    out->count = sw_catalog_tensor_count(sw_checkpoint_catalog(in->source));
    sw_status st = swi_alloc_array(out->count, sizeof *out->of, (void **)&out->of, err);
    for (size_t i = 0; st == SW_OK && i < in->leaf_count; i++) {
        const swi_chosen *c = in->leaves[i].tensor;
        if (c != NULL && out->of[c->source] == NULL)
            out->of[c->source] = c->name;
    }
    return st;
}

/* Whether it is nothing but the tensors of the table, each under its name, in its order. */
static bool is_table(const swi_target_in *in, sw_value root, const naming *names)
{
    const sw_value_graph *g = in->state->graph;
    size_t count = sw_value_get_kind(g, root) == SW_VALUE_DICT ? sw_value_size(g, root) : 0;
    const char *before = NULL;
    for (size_t i = 0; i < count; i++) {
        sw_value key, value;
        uint32_t tensor;
        if (!sw_value_pair(g, root, i, &key, &value) || !sw_value_tensor(g, value, &tensor))
            return false;
        const char *name = name_of(names, tensor);
        if (name == NULL || !swi_value_text_is(g, key, name) ||
            (before != NULL && strcmp(before, name) >= 0))
            return false;
        before = name;
    }
    return count > 0 && count == in->leaf_count;
}

static bool has_name(const void *ctx, uint32_t index)
{
    return name_of(ctx, index) != NULL;
}

/* Tensors that are not in the table are parts of values: they bring their bytes. */
static sw_status write_carried(const swi_target_in *in, sw_value root, const naming *names,
                               swi_buf *out, sw_error *err)
{
    swi_state own = {.ordered = in->state->ordered};
    sw_status st = swi_graph_make(&in->limits, &own.graph, err);
    if (st == SW_OK)
        st = swi_state_carry_into(in, root, has_name, names, own.graph, &own.root, err);
    if (st == SW_OK)
        st = swi_state_json_write(&own, own.root, name_of, names, out, err);
    swi_state_free(&own);
    return st;
}

sw_status swi_native_write_state(const swi_target_in *in, swi_buf *out, sw_error *err)
{
    naming names = {0};
    sw_value root;
    const size_t before = out->size;
    sw_status st = learn_names(in, &names, err);
    if (st == SW_OK)
        st = swi_state_keep(in->state, in->leaves, in->leaf_count, &root, err);
    if (st == SW_OK && is_table(in, root, &names)) {
        st = swi_state_json_write_table(in->state->ordered, out, err);
    } else if (st == SW_OK) {
        sw_error refusal = {0};
        st = swi_state_json_write(in->state, root, name_of, &names, out, &refusal);
        if (st == SW_ERR_UNSUPPORTED) { /* few values hold tensors: only then they are looked for */
            out->size = before;
            st = write_carried(in, root, &names, out, err);
        } else if (st != SW_OK && err != NULL) {
            *err = refusal;
        }
    }
    free(names.of);
    return st;
}

/* What ranks have of their own; a tensor among it brings its bytes. */
static sw_status carry_scoped(const swi_target_in *in, uint32_t rank, uint32_t ranks,
                              swi_state *own, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < in->state->scoped_count; i++) {
        swi_state_scoped made = in->state->scoped[i];
        if (made.rank < 0 || (uint64_t)made.rank % ranks != rank)
            continue;
        st = swi_state_carry_into(in, in->state->scoped[i].value, NULL, NULL, own->graph,
                                  &made.value, err);
        own->scoped[own->scoped_count++] = made;
    }
    return st;
}

sw_status swi_native_write_rank_values(const swi_target_in *in, uint32_t rank, uint32_t ranks,
                                       swi_buf *out, sw_error *err)
{
    swi_state own = {0};
    if (in->state->scoped_count == 0)
        return SW_OK;
    sw_status st = swi_graph_make(&in->limits, &own.graph, err);
    if (st == SW_OK)
        st =
            swi_alloc_array(in->state->scoped_count, sizeof *own.scoped, (void **)&own.scoped, err);
    if (st == SW_OK)
        st = carry_scoped(in, rank, ranks, &own, err);
    if (st == SW_OK)
        st = swi_state_json_write_ranks(&own, rank, ranks, out, err);
    swi_state_free(&own);
    return st;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int64_t find_tensor(const void *ctx, const char *name, size_t size)
{
    const swi_native_kept *kept = ctx;
    return swi_native_table_find(&kept->table, name, size);
}

typedef struct walking {
    swi_opening *o;
    swi_native_kept *kept;
    uint32_t blob;
    bool *seen; /* by tensor */
    swi_section section;
    swi_buf name;
} walking;

static sw_status note_section(walking *w, const swi_state_leaf *leaf, sw_error *err)
{
    swi_path path = {.count = leaf->parts < SWI_PATH_PARTS_MAX ? leaf->parts : SWI_PATH_PARTS_MAX};
    swi_native_tensor t;
    if (w->seen[leaf->tensor])
        return SW_OK;
    w->seen[leaf->tensor] = true;
    for (size_t i = 0; i < path.count; i++) {
        path.parts[i] = leaf->path[i];
        path.is_index[i] = leaf->is_index[i];
    }
    swi_native_table_at(&w->kept->table, leaf->tensor, &t);
    w->name.size = 0;
    sw_status st = swi_buf_append(&w->name, t.name, t.name_size, err);
    if (st == SW_OK)
        st = swi_buf_u8(&w->name, 0, err);
    if (st == SW_OK)
        st = swi_section_of(&path, (const char *)w->name.data, &w->section, err);
    return st == SW_OK
               ? swi_opening_section(w->o, leaf->tensor, (const char *)w->section.section.data,
                                     (const char *)w->section.name.data, err)
               : st;
}

static sw_status add_value(walking *w, const char *name, size_t size, int64_t rank, sw_value v,
                           sw_error *err)
{
    swi_native_kept *kept = w->kept;
    const swi_value_in in = {.name = name, .name_size = size, .rank = rank, .blob = w->blob};
    sw_status st = swi_grow_array((void **)&kept->values, &kept->value_capacity,
                                  kept->value_count + 1, sizeof *kept->values, err);
    if (st == SW_OK)
        st = swi_builder_value(w->o->builder, &in, err);
    if (st == SW_OK)
        kept->values[kept->value_count++] = (swi_native_value){.node = v, .rank = rank};
    return st;
}

static sw_status see_leaf(void *ctx, const swi_state_leaf *leaf, sw_error *err)
{
    walking *w = ctx;
    sw_status st = SW_OK;
    if (leaf->is_tensor)
        return note_section(w, leaf, err);
    w->name.size = 0;
    for (size_t i = 0; st == SW_OK && i < leaf->parts; i++)
        st = swi_buf_printf(&w->name, err, "%s%s", i > 0 ? "." : "", leaf->path[i]);
    return st == SW_OK ? add_value(w, w->name.size > 0 ? (const char *)w->name.data : "",
                                   w->name.size, -1, leaf->value, err)
                       : st;
}

/* Every tensor of the table is somewhere in the state. */
static sw_status check_seen(const walking *w, sw_error *err)
{
    for (uint32_t i = 0; i < w->kept->table.count; i++) {
        swi_native_tensor t;
        swi_quoted q;
        if (w->seen[i])
            continue;
        swi_native_table_at(&w->kept->table, i, &t);
        return swi_fail(err, SW_ERR_CORRUPT, "%s does not hold tensor \"%s\" of the table",
                        SWI_NATIVE_STATE, swi_quote(&q, t.name, t.name_size));
    }
    return SW_OK;
}

static sw_status values_resolve(const swi_blob *blob, const swi_reader *reader,
                                const swi_blob_want *want, swi_extent *out, sw_error *err)
{
    (void)blob, (void)reader, (void)want, (void)out;
    return swi_fail(err, SW_ERR_ARG, "values are no elements");
}

/* The values are text that opening has read and compared. */
static const swi_blob_ops values_ops = {
    .kind = "native-values", .resolve = values_resolve, .check = swi_blob_check_nothing};

static sw_status add_blob(walking *w, sw_error *err)
{
    uint32_t file;
    const swi_native_file *f = &w->kept->manifest.state;
    sw_status st = swi_builder_file(w->o->builder, f->file, f->bytes, &file, err);
    const swi_blob blob = {
        .ops = &values_ops, .file = file, .stored_bytes = f->bytes, .bytes = UINT64_MAX};
    return st == SW_OK ? swi_builder_blob(w->o->builder, &blob, &w->blob, err) : st;
}

static sw_status read_ranks(swi_native_kept *kept, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t r = 0; st == SW_OK && r < kept->shard_count; r++) {
        const swi_native_shard *shard = &kept->shards[r];
        if (shard->values == NULL)
            continue;
        const swi_rank_values text = {.data = shard->values,
                                      .size = (size_t)shard->values_bytes,
                                      .rank = (uint32_t)r,
                                      .ranks = (uint32_t)kept->shard_count,
                                      .limits = &kept->limits};
        st = swi_state_json_read_ranks(&text, &kept->arena, &kept->state, err);
        if (st != SW_OK)
            return swi_error_prefix(err, "%s: its values", kept->manifest.shards[r].file);
    }
    return st;
}

static sw_status read_root(const swi_opening *o, swi_native_kept *kept, sw_error *err)
{
    uint8_t *data = NULL;
    size_t size = (size_t)kept->manifest.state.bytes;
    sw_status st = swi_native_read_section(o, &kept->manifest.state, &data, err);
    if (st != SW_OK)
        return st;
    kept->is_table = swi_state_json_is_table(data, size, &kept->state.ordered);
    if (kept->is_table)
        st = swi_graph_make(&o->limits, &kept->state.graph, err);
    else
        st = swi_state_json_read(data, size, &o->limits, find_tensor, kept, &kept->state, err);
    free(data);
    return st == SW_OK ? st : swi_error_prefix(err, "%s", SWI_NATIVE_STATE);
}

/* What is at the top of the state dict needs no section. */
static sw_status see_root(walking *w, sw_error *err)
{
    if (w->kept->is_table)
        return SW_OK;
    sw_status st = swi_alloc_array(w->kept->table.count, sizeof *w->seen, (void **)&w->seen, err);
    if (st == SW_OK)
        st = swi_state_walk(&w->kept->state, see_leaf, w, err);
    return st == SW_OK ? check_seen(w, err) : st;
}

sw_status swi_native_read_state(swi_opening *o, swi_native_kept *kept, sw_error *err)
{
    walking w = {.o = o, .kept = kept};
    sw_status st = read_root(o, kept, err);
    if (st == SW_OK)
        st = read_ranks(kept, err);
    if (st == SW_OK)
        st = add_blob(&w, err);
    if (st == SW_OK)
        st = see_root(&w, err);
    for (size_t i = 0; st == SW_OK && i < kept->state.scoped_count; i++) {
        const swi_state_scoped *s = &kept->state.scoped[i];
        st = add_value(&w, s->name, strlen(s->name), s->rank, s->value, err);
    }
    free(w.seen);
    swi_section_end(&w.section);
    swi_buf_free(&w.name);
    return st;
}

sw_status swi_native_state(const sw_checkpoint *checkpoint, swi_state *out, sw_error *err)
{
    const swi_native_kept *kept = swi_checkpoint_kept(checkpoint);
    const swi_state *from = &kept->state;
    swi_state state = {.ordered = from->ordered};
    sw_status st = swi_graph_make(&kept->limits, &state.graph, err);
    if (st == SW_OK && kept->is_table)
        st = swi_state_of_names(checkpoint, &state, err);
    else if (st == SW_OK)
        st = swi_graph_copy(state.graph, from->graph, from->root, NULL, NULL, &state.root, err);
    if (st == SW_OK)
        st = swi_alloc_array(from->scoped_count, sizeof *state.scoped, (void **)&state.scoped, err);
    for (size_t i = 0; st == SW_OK && i < from->scoped_count; i++) {
        swi_state_scoped made = from->scoped[i];
        st = swi_graph_copy(state.graph, from->graph, from->scoped[i].value, NULL, NULL,
                            &made.value, err);
        if (st == SW_OK)
            state.scoped[state.scoped_count++] = made;
    }
    if (st == SW_OK)
        *out = state;
    else
        swi_state_free(&state);
    return st;
}

sw_status swi_native_value_of(const sw_checkpoint *checkpoint, size_t i, sw_value_graph **graph,
                              sw_value *root, sw_error *err)
{
    const swi_native_kept *kept = swi_checkpoint_kept(checkpoint);
    if (i >= kept->value_count)
        return swi_fail(err, SW_ERR_ARG, "value %zu is not in the catalog", i);
    return swi_graph_copy_out(kept->state.graph, kept->values[i].node, &kept->limits, graph, root,
                              err);
}
