#include "torch/torch_values.h"

#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "model/value.h"
#include "torch/attributes.h"
#include "torch/share_read.h"

#define WRAPPED_MAX 8 /* Parameters around ... */
#define BEFORE_2_5 "torch.distributed._tensor"

/* ---- which calls they are ------------------------------------------------------------------ */

static bool set_kind(const sw_value_graph *g, sw_value class, swi_share_call *out)
{
    const char *module, *name = swi_distributed_class(g, class, &module);
    if (name == NULL)
        return false;
    out->kind = strcmp(name, "DTensor") == 0 ? SWI_SHARE_PLACED : SWI_SHARE_SHARD;
    out->before_2_5 = strncmp(module, BEFORE_2_5, strlen(BEFORE_2_5)) == 0;
    return strcmp(name, "DTensor") == 0 || strcmp(name, "ShardedTensor") == 0;
}

static bool is_parameter(const sw_value_graph *g, sw_value v)
{
    return swi_value_is_call(g, v, "torch._utils", "_rebuild_parameter") ||
           swi_value_is_call(g, v, "torch._utils", "_rebuild_parameter_with_state");
}

/* TV-1: _rebuild_from_type_v2(f, class, arguments, state), or (1.10) an object BUILT with state. */
bool swi_share_find(const sw_value_graph *g, sw_value v, swi_share_call *out)
{
    swi_share_call c = {0};
    sw_value_object o;
    sw_value class;
    for (int i = 0; i < WRAPPED_MAX && is_parameter(g, v); i++)
        if (!sw_value_get_object(g, v, &o) || !sw_value_item(g, o.args, 0, &v))
            return false;
    if (!sw_value_get_object(g, v, &o))
        return false;
    if (swi_value_is_call(g, v, "torch._tensor", "_rebuild_from_type_v2")) {
        if (!sw_value_item(g, o.args, 1, &class) || !set_kind(g, class, &c) ||
            !sw_value_item(g, o.args, 2, &c.args) || !sw_value_item(g, o.args, 3, &c.state))
            return false;
    } else {
        if (!o.is_new || !o.has_state || !set_kind(g, v, &c))
            return false;
        c.args = swi_value_none();
        c.state = o.state;
    }
    *out = c;
    return true;
}

/* The shape in the arguments of the class: (class, dtype, shape, ...). */
static bool shape_in_call(const sw_value_graph *g, const swi_share_call *c, swi_share *s)
{
    sw_value shape;
    return sw_value_item(g, c->args, 2, &shape) &&
           swi_sizes(g, shape, SW_MAX_AXES, s->shape, &s->axes);
}

static bool same_shape(const swi_share *s, uint32_t axes, const int64_t *shape)
{
    return s->axes == axes && memcmp(s->shape, shape, axes * sizeof *shape) == 0;
}

/* ---- DTensor ------------------------------------------------------------------------------- */

/* TV-7: by the name of its class. */
static sw_status read_placement(const sw_value_graph *g, sw_value v, uint32_t axes,
                                swi_placement *out, sw_error *err)
{
    const char *name = swi_distributed_class(g, v, NULL);
    swi_quoted q;
    sw_value dim, factor;
    int64_t d, parts = 0;
    *out = (swi_placement){.kind = SWI_REPLICATE};
    if (name == NULL)
        return swi_fail(err, SW_ERR_UNSUPPORTED, "a DTensor with a placement of no known class");
    if (strcmp(name, "Replicate") == 0)
        return SW_OK;
    const bool strided = strcmp(name, "_StridedShard") == 0;
    if (strstr(name, "Partial") != NULL)
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "a DTensor placed %s: each rank has a summand, and the values are not in "
                        "the files; redistribute it before it is saved",
                        swi_quote_str(&q, name));
    if (!strided && strcmp(name, "Shard") != 0)
        return swi_fail(err, SW_ERR_UNSUPPORTED, "a DTensor placed %s, which is not known here",
                        swi_quote_str(&q, name));
    if (!swi_attribute(g, v, "dim", &dim) || !sw_value_int(g, dim, &d) ||
        (strided && (!swi_attribute(g, v, "split_factor", &factor) ||
                     !sw_value_int(g, factor, &parts) || parts < 1)))
        return swi_fail(err, SW_ERR_CORRUPT, "a DTensor placed %s without saying how", name);
    d = d < 0 && d >= -(int64_t)axes ? d + (int64_t)axes : d;
    if (d < 0 || d >= (int64_t)axes)
        return swi_fail(err, SW_ERR_CORRUPT,
                        "a DTensor of %u axes that is divided along axis %" PRId64, axes, d);
    *out = (swi_placement){.kind = strided ? SWI_STRIDED_SHARD : SWI_SHARD,
                           .dim = (uint32_t)d,
                           .split_factor = (uint64_t)parts};
    return SW_OK;
}

/* TV-7: (Shard(d), Shard(d)) was FSDP over TP too, which divides from right to left. */
static sw_status check_order(const swi_placements *p, sw_error *err)
{
    bool met[SW_MAX_AXES] = {false};
    for (uint32_t a = 0; a < p->axes; a++) {
        const uint32_t d = p->at[a].dim;
        if (p->at[a].kind != SWI_SHARD || p->size[a] < 2)
            continue;
        if (met[d])
            return swi_fail(err, SW_ERR_UNSUPPORTED,
                            "a DTensor of torch before 2.5 with two placements Shard(%u): they "
                            "divide from the left, or as FSDP over TP from the right, and nothing "
                            "in the file tells which; load it with that torch and save it whole",
                            d);
        met[d] = true;
    }
    return SW_OK;
}

static sw_status read_placements(const sw_value_graph *g, sw_value list, const swi_share_call *c,
                                 swi_share *s, sw_error *err)
{
    sw_value v;
    sw_status st = SW_OK;
    if (sw_value_size(g, list) != s->placements.axes)
        return swi_fail(err, SW_ERR_CORRUPT, "a DTensor with %zu placements on a mesh of %u axes",
                        sw_value_size(g, list), s->placements.axes);
    for (uint32_t a = 0; st == SW_OK && a < s->placements.axes; a++)
        st = sw_value_item(g, list, a, &v)
                 ? read_placement(g, v, s->axes, &s->placements.at[a], err)
                 : swi_fail(err, SW_ERR_CORRUPT, "a DTensor without placements");
    return st == SW_OK && c->before_2_5 ? check_order(&s->placements, err) : st;
}

/* TV-2: where the specification has a shape too, it is the same. */
static sw_status check_meta(const sw_value_graph *g, sw_value spec, const swi_share *s,
                            sw_error *err)
{
    sw_value meta, shape;
    sw_value_object o;
    int64_t sizes[SW_MAX_AXES];
    uint32_t axes;
    if (!swi_attribute(g, spec, "tensor_meta", &meta) || !sw_value_get_object(g, meta, &o) ||
        !sw_value_item(g, o.args, 0, &shape))
        return SW_OK;
    if (!swi_sizes(g, shape, SW_MAX_AXES, sizes, &axes) || !same_shape(s, axes, sizes))
        return swi_fail(err, SW_ERR_CORRUPT, "a DTensor that gives its shape in two ways");
    return SW_OK;
}

static sw_status read_placed(swi_mesh_reader *meshes, const swi_share_call *c, swi_share *s,
                             swi_torch_tensor *local, sw_error *err)
{
    const sw_value_graph *g = swi_torch_graph(meshes->tf);
    sw_value tensor, spec, mesh, placements;
    if (!shape_in_call(g, c, s) || !swi_attribute_in(g, c->state, "_local_tensor", &tensor) ||
        !swi_attribute_in(g, c->state, "_spec", &spec) || !swi_attribute(g, spec, "mesh", &mesh) ||
        !swi_attribute(g, spec, "placements", &placements))
        return swi_fail(err, SW_ERR_FORMAT, "a DTensor without a shape, a part or placements");
    sw_status st = swi_mesh_read(meshes, mesh, &s->mesh, err);
    if (st != SW_OK)
        return st;
    const swi_mesh *m = &meshes->out->at[s->mesh];
    s->rank = m->rank;
    s->placements.axes = m->axes;
    memcpy(s->placements.size, m->size, sizeof m->size);
    st = read_placements(g, placements, c, s, err);
    if (st == SW_OK)
        st = check_meta(g, spec, s, err);
    return st == SW_OK ? swi_torch_get_tensor(meshes->tf, tensor, local, err) : st;
}

/* ---- ShardedTensor ------------------------------------------------------------------------- */

/* TV-8: a box inside the tensor. */
static sw_status read_box(const sw_value_graph *g, sw_value metadata, swi_share *s, sw_error *err)
{
    sw_value offsets, sizes;
    uint32_t n, m;
    if (!swi_attribute(g, metadata, "shard_offsets", &offsets) ||
        !swi_attribute(g, metadata, "shard_sizes", &sizes) ||
        !swi_sizes(g, offsets, SW_MAX_AXES, s->offset, &n) ||
        !swi_sizes(g, sizes, SW_MAX_AXES, s->length, &m) || n != s->axes || m != s->axes)
        return swi_fail(err, SW_ERR_CORRUPT, "a shard of a ShardedTensor without its place");
    for (uint32_t k = 0; k < s->axes; k++)
        if (!swi_range_inside((uint64_t)s->offset[k], (uint64_t)s->length[k],
                              (uint64_t)s->shape[k]))
            return swi_fail(err, SW_ERR_CORRUPT,
                            "a shard of a ShardedTensor that reaches beyond it, along axis %u", k);
    return SW_OK;
}

/* TV-10: that of the process group; a shard's placement may count within a smaller group. */
static int64_t rank_of(const sw_value_graph *g, sw_value group, sw_value metadata)
{
    sw_value v;
    int64_t rank;
    if ((swi_attribute(g, group, "global_rank", &v) ||
         (swi_attribute(g, metadata, "placement", &v) && swi_attribute(g, v, "_rank", &v))) &&
        sw_value_int(g, v, &rank) && rank >= 0)
        return rank;
    return -1;
}

/* TV-10: the ranks that the tensor was divided over, and which of them this is. */
static void read_group(const sw_value_graph *g, sw_value group, swi_share *s)
{
    sw_value size, rank;
    int64_t n, number;
    if (!swi_attribute(g, group, "local_world_size", &size) || !sw_value_int(g, size, &n) ||
        !swi_attribute(g, group, "local_rank", &rank) || !sw_value_int(g, rank, &number) ||
        number < 0 || number >= n)
        return;
    s->group = (uint64_t)n;
    s->group_rank = number;
}

/* TV-9: of a tensor of which the rank has nothing. */
static sw_status no_local(const sw_value_graph *g, sw_value metadata, const swi_share *s,
                          swi_torch_tensor *out, sw_error *err)
{
    sw_value_object o;
    sw_value v;
    const char *module, *name;
    swi_torch_tensor t = {.storage = UINT32_MAX, .axes = s->axes, .dense = true};
    if (swi_attribute(g, metadata, "tensor_properties", &v) && sw_value_get_object(g, v, &o) &&
        o.has_state && sw_value_item(g, o.state, 0, &v) && sw_value_global(g, v, &module, &name) &&
        strcmp(module, "torch") == 0)
        t.dtype = swi_torch_dtype(name);
    if (t.dtype == SW_DTYPE_NONE)
        return swi_fail(err, SW_ERR_UNSUPPORTED, "a ShardedTensor of a type that is not known");
    if (s->axes == 0)
        return swi_fail(err, SW_ERR_CORRUPT,
                        "a ShardedTensor of no axes of which there is no part");
    *out = t;
    return SW_OK;
}

static sw_status read_shard(const swi_torch_file *tf, const swi_share_call *c, swi_share *s,
                            swi_torch_tensor *local, sw_error *err)
{
    const sw_value_graph *g = swi_torch_graph(tf);
    sw_value shards, metadata, group, all, size, shard, tensor, place;
    swi_share given = {0};
    if (!sw_value_item(g, c->state, 0, &shards) || !sw_value_item(g, c->state, 1, &metadata) ||
        !sw_value_item(g, c->state, 2, &group) || !swi_attribute(g, metadata, "size", &size) ||
        !swi_sizes(g, size, SW_MAX_AXES, s->shape, &s->axes) ||
        !swi_attribute(g, metadata, "shards_metadata", &all))
        return swi_fail(err, SW_ERR_FORMAT, "a ShardedTensor without a shape or its shards");
    if (shape_in_call(g, c, &given) && !same_shape(s, given.axes, given.shape))
        return swi_fail(err, SW_ERR_CORRUPT, "a ShardedTensor that gives its shape in two ways");
    s->shards = sw_value_size(g, all);
    read_group(g, group, s);
    if (sw_value_size(g, shards) > 1)
        return swi_fail(err, SW_ERR_UNSUPPORTED, "a ShardedTensor of which one rank has %zu shards",
                        sw_value_size(g, shards));
    if (!sw_value_item(g, shards, 0, &shard)) {
        s->rank = rank_of(g, group, swi_value_none());
        return no_local(g, metadata, s, local, err);
    }
    if (!swi_attribute(g, shard, "tensor", &tensor) || !swi_attribute(g, shard, "metadata", &place))
        return swi_fail(err, SW_ERR_FORMAT, "a shard of a ShardedTensor without its place");
    s->rank = rank_of(g, group, place);
    sw_status st = read_box(g, place, s, err);
    return st == SW_OK ? swi_torch_get_tensor(tf, tensor, local, err) : st;
}

sw_status swi_share_read(swi_mesh_reader *meshes, const swi_share_call *call, swi_share *share,
                         swi_torch_tensor *local, sw_error *err)
{
    swi_share s = {.kind = call->kind, .rank = -1, .group_rank = -1};
    swi_torch_tensor t = {0};
    sw_status st = call->kind == SWI_SHARE_PLACED ? read_placed(meshes, call, &s, &t, err)
                                                  : read_shard(meshes->tf, call, &s, &t, err);
    if (st != SW_OK)
        return st;
    *share = s;
    *local = t;
    return SW_OK;
}

const swi_mesh *swi_mesh_of(const swi_meshes *meshes, const swi_share *share)
{
    return share != NULL && share->kind == SWI_SHARE_PLACED && share->mesh < meshes->count
               ? &meshes->at[share->mesh]
               : NULL;
}
