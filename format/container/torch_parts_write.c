/* Clauses TV-n are those of specs/torch_values.md. */
#include "container/torch_parts_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "container/torch_emitting.h"
#include "model/piece.h"

/* Names that come up in each tensor: what they are, by slot. */
typedef struct name {
    const char *module; /* NULL: a text */
    const char *name;
} name;

enum {
    N_REBUILD,
    N_WRAPPER,
    N_DTENSOR,
    N_GET_LAYOUT,
    N_DEVICE,
    N_SIZE_CLASS,
    N_LOCAL_TENSOR,
    N_SPEC,
    N_SPEC_CLASS,
    N_MESH,
    N_MESH_CLASS,
    N_MESH_LAYOUT_CLASS,
    N_FLAT_LAYOUT_CLASS,
    N_PLACEMENTS,
    N_REPLICATE_CLASS,
    N_SHARD_CLASS,
    N_STRIDED_CLASS,
    N_DIM,
    N_SPLIT_FACTOR,
    N_TENSOR_META,
    N_META_CLASS,
    N_SHARD_ORDER,
    N_ORDER_CLASS,
    N_USE_STRIDED,
    N_HASH,
    N_SHARDED,
    N_LOCAL_SHARD_CLASS,
    N_SHARD_META_CLASS,
    N_REMOTE_CLASS,
    N_SHARDED_META_CLASS,
    N_PROPERTIES_CLASS,
    N_FORMAT_CLASS,
    N_GETATTR,
    N_CHUNK_SPEC_CLASS,
    N_OFFSETS,
    N_SIZES,
    N_PLACEMENT,
    N_WORKER,
    N_RANK,
    N_DEVICE_WORD,
    N_COUNT
};

#define DT "torch.distributed.tensor"
#define SHARDED "torch.distributed._shard"
static const name names[N_COUNT] = {
    [N_REBUILD] = {"torch._tensor", "_rebuild_from_type_v2"},
    [N_WRAPPER] = {"torch._utils", "_rebuild_wrapper_subclass"},
    [N_DTENSOR] = {DT, "DTensor"},
    [N_GET_LAYOUT] = {"torch.serialization", "_get_layout"},
    [N_DEVICE] = {"torch", "device"},
    [N_SIZE_CLASS] = {"torch", "Size"},
    [N_LOCAL_TENSOR] = {NULL, "_local_tensor"},
    [N_SPEC] = {NULL, "_spec"},
    [N_SPEC_CLASS] = {DT "._dtensor_spec", "DTensorSpec"},
    [N_MESH] = {NULL, "mesh"},
    [N_MESH_CLASS] = {"torch.distributed.device_mesh", "DeviceMesh"},
    [N_MESH_LAYOUT_CLASS] = {"torch.distributed._mesh_layout", "_MeshLayout"},
    [N_FLAT_LAYOUT_CLASS] = {"torch.distributed._mesh_layout", "_FlatLayout"},
    [N_PLACEMENTS] = {NULL, "placements"},
    [N_REPLICATE_CLASS] = {DT ".placement_types", "Replicate"},
    [N_SHARD_CLASS] = {DT ".placement_types", "Shard"},
    [N_STRIDED_CLASS] = {DT ".placement_types", "_StridedShard"},
    [N_DIM] = {NULL, "dim"},
    [N_SPLIT_FACTOR] = {NULL, "split_factor"},
    [N_TENSOR_META] = {NULL, "tensor_meta"},
    [N_META_CLASS] = {DT "._dtensor_spec", "TensorMeta"},
    [N_SHARD_ORDER] = {NULL, "shard_order"},
    [N_ORDER_CLASS] = {DT "._dtensor_spec", "ShardOrderEntry"},
    [N_USE_STRIDED] = {NULL, "use_strided_shard_as_shard_order"},
    [N_HASH] = {NULL, "_hash"},
    [N_SHARDED] = {SHARDED ".sharded_tensor.api", "ShardedTensor"},
    [N_LOCAL_SHARD_CLASS] = {SHARDED ".sharded_tensor.shard", "Shard"},
    [N_SHARD_META_CLASS] = {SHARDED ".metadata", "ShardMetadata"},
    [N_REMOTE_CLASS] = {"torch.distributed.remote_device", "_remote_device"},
    [N_SHARDED_META_CLASS] = {SHARDED ".sharded_tensor.metadata", "ShardedTensorMetadata"},
    [N_PROPERTIES_CLASS] = {SHARDED ".sharded_tensor.metadata", "TensorProperties"},
    [N_FORMAT_CLASS] = {SHARDED ".sharded_tensor.metadata", "MEM_FORMAT_ENCODING"},
    [N_GETATTR] = {"builtins", "getattr"},
    [N_CHUNK_SPEC_CLASS] = {SHARDED ".sharding_spec.chunk_sharding_spec", "ChunkShardingSpec"},
    [N_OFFSETS] = {NULL, "shard_offsets"},
    [N_SIZES] = {NULL, "shard_sizes"},
    [N_PLACEMENT] = {NULL, "placement"},
    [N_WORKER] = {NULL, "_worker_name"},
    [N_RANK] = {NULL, "_rank"},
    [N_DEVICE_WORD] = {NULL, "_device"},
};

/* Objects that come up again, behind the names. */
enum {
    SLOT_STRIDED_LAYOUT = N_COUNT,
    SLOT_DEVICE,
    SLOT_CPU,
    SLOT_MESHES,
    SLOT_DTYPES = SLOT_MESHES + SWI_TORCH_OUT_MESHES,
    SLOT_END = SLOT_DTYPES + SW_DTYPE_COUNT
};
_Static_assert(SLOT_END <= SWI_TORCH_PARTS_SLOTS, "each has a slot of its own");

typedef struct parts {
    swi_torch_emitting to;
    swi_torch_emitter *plain;
} parts;

static parts begin(swi_torch_parts_emitter *emitter, swi_pickle_writer *w, sw_error *err)
{
    return (parts){
        .to = {.w = w, .memo = emitter->memo, .remembers = emitter->plain.remembers, .err = err},
        .plain = &emitter->plain};
}

static void word(swi_torch_emitting *e, uint32_t which)
{
    const name *n = &names[which];
    if (n->module != NULL)
        swi_te_global(e, which, n->module, n->name);
    else
        swi_te_word(e, which, n->name);
}

/* An object of a class, made without arguments; what follows is its state. */
static void object(swi_torch_emitting *e, uint32_t class)
{
    word(e, class);
    swi_te_ops(e, ")\x81"); /* EMPTY_TUPLE NEWOBJ */
}

static void boolean(swi_torch_emitting *e, bool v)
{
    swi_te_op(e, v ? '\x88' : '\x89');
}

static void named_int(swi_torch_emitting *e, const char *key, int64_t v)
{
    swi_te_text(e, key);
    swi_te_int(e, v);
}

static void plain_tensor(parts *p, const swi_torch_out_tensor *t)
{
    if (p->to.st == SW_OK)
        p->to.st = swi_torch_emit(p->plain, p->to.w, t, p->to.err);
}

static void dtype(swi_torch_emitting *e, sw_dtype d)
{
    swi_te_global(e, SLOT_DTYPES + (uint32_t)d, "torch", swi_torch_dtype_name(d));
}

static void layout(swi_torch_emitting *e)
{
    if (swi_te_recalled(e, SLOT_STRIDED_LAYOUT))
        return;
    word(e, N_GET_LAYOUT);
    swi_te_text(e, "torch.strided");
    swi_te_ops(e, "\x85R"); /* TUPLE1 REDUCE */
    swi_te_remember(e, SLOT_STRIDED_LAYOUT);
}

static void device(swi_torch_emitting *e, uint32_t slot, const char *type)
{
    if (swi_te_recalled(e, slot))
        return;
    word(e, N_DEVICE);
    swi_te_text(e, type);
    swi_te_ops(e, "\x85R");
    swi_te_remember(e, slot);
}

static void size(swi_torch_emitting *e, uint32_t axes, const int64_t *shape)
{
    word(e, N_SIZE_CLASS);
    swi_te_ints(e, axes, shape);
    swi_te_ops(e, "\x85R");
}

static void dense_strides(uint32_t axes, const int64_t *shape, int64_t *out)
{
    swi_piece dense = {.axes = axes};
    if (axes > 0)
        memcpy(dense.length, shape, axes * sizeof *shape);
    swi_piece_make_dense(&dense, 1);
    memcpy(out, dense.stride_bytes, sizeof dense.stride_bytes);
}

/* TV-20: the call, its class and what the whole is; the state of the class follows. */
static void wrap(swi_torch_emitting *e, uint32_t class, const swi_torch_out_tensor *local,
                 const int64_t *shape)
{
    int64_t stride[SW_MAX_AXES];
    dense_strides(local->axes, shape, stride);
    word(e, N_REBUILD);
    swi_te_op(e, '(');
    word(e, N_WRAPPER);
    word(e, class);
    swi_te_op(e, '(');
    word(e, class);
    dtype(e, local->dtype);
    swi_te_ints(e, local->axes, shape);
    swi_te_ints(e, local->axes, stride);
    swi_te_int(e, 0);
    layout(e);
    device(e, SLOT_CPU, "cpu");
    swi_te_ops(e, "\x89t"); /* requires_grad: NEWFALSE TUPLE */
}

/* ---- meshes ------------------------------------------------------------------------------------
 */

void swi_torch_out_mesh_number(swi_torch_out_mesh *m, uint64_t rank)
{
    uint64_t groups = 1;
    m->ranks = 1;
    m->rank = rank;
    for (uint32_t a = m->axes; a-- > 0;) {
        m->stride[a] = m->ranks;
        m->ranks *= m->size[a];
    }
    for (uint32_t a = 0; a < m->axes; a++) {
        const uint64_t above = m->stride[a] * m->size[a];
        m->group[a] = 0;
        if (m->size[a] == m->ranks) /* that of all ranks */
            continue;
        m->group[a] = groups + rank / above * m->stride[a] + rank % m->stride[a];
        groups += m->ranks / m->size[a];
    }
}

static void mesh_layout(swi_torch_emitting *e, const swi_torch_out_mesh *m)
{
    object(e, N_MESH_LAYOUT_CLASS);
    swi_te_ops(e, "}(");
    swi_te_text(e, "axes");
    swi_te_op(e, '(');
    for (uint32_t a = 0; a < m->axes; a++) {
        const int64_t numbers[2] = {(int64_t)m->size[a], (int64_t)m->stride[a]};
        const uint32_t count = m->size[a] > 1; /* an axis of one rank is made of none */
        object(e, N_FLAT_LAYOUT_CLASS);
        swi_te_ops(e, "}(");
        swi_te_text(e, "shape");
        swi_te_ints(e, count, &numbers[0]);
        swi_te_text(e, "stride");
        swi_te_ints(e, count, &numbers[1]);
        swi_te_ops(e, "ub");
    }
    swi_te_ops(e, "tub"); /* TUPLE SETITEMS BUILD */
}

static void mesh_names(swi_torch_emitting *e, const swi_torch_out_mesh *m)
{
    if (m->names[0] == NULL) {
        swi_te_op(e, 'N');
        return;
    }
    swi_te_op(e, '(');
    for (uint32_t a = 0; a < m->axes; a++)
        swi_te_text(e, m->names[a]);
    swi_te_op(e, 't');
}

static void mesh_groups(swi_torch_emitting *e, const swi_torch_out_mesh *m)
{
    char text[24];
    swi_te_ops(e, "](");
    for (uint32_t a = 0; a < m->axes; a++) {
        (void)snprintf(text, sizeof text, "%" PRIu64, m->group[a]);
        swi_te_text(e, text);
    }
    swi_te_op(e, 'e');
}

static void mesh_place(parts *p, const swi_torch_out_mesh *m)
{
    swi_torch_emitting *e = &p->to;
    swi_te_text(e, "_coordinate_on_dim");
    swi_te_op(e, '(');
    for (uint32_t a = 0; a < m->axes; a++)
        swi_te_int(e, (int64_t)(m->rank / m->stride[a] % m->size[a]));
    swi_te_op(e, 't');
}

static void rank_map(parts *p, const swi_torch_out_mesh *m)
{
    const int64_t ranks = (int64_t)m->ranks, one = 1;
    const swi_torch_out_tensor map = {.dtype = SW_I32,
                                      .storage = m->storage,
                                      .storage_elements = m->ranks,
                                      .axes = 1,
                                      .shape = &ranks,
                                      .stride_elements = &one};
    swi_torch_emitting *e = &p->to;
    swi_te_text(e, "_rank_map");
    plain_tensor(p, &map);
    swi_te_text(e, "_flatten_rank_map");
    swi_te_op(e, '(');
    for (uint64_t r = 0; r < m->ranks; r++)
        swi_te_int(e, (int64_t)r);
    swi_te_op(e, 't');
}

/* TV-21. Without what is told before: a mesh, or its root. */
static void mesh_state(parts *p, const swi_torch_out_mesh *m)
{
    swi_torch_emitting *e = &p->to;
    swi_te_text(e, "_device_type");
    swi_te_text(e, m->device);
    swi_te_text(e, "_layout");
    mesh_layout(e, m);
    rank_map(p, m);
    swi_te_text(e, "_mesh_dim_names");
    mesh_names(e, m);
    swi_te_text(e, "_thread_id");
    swi_te_op(e, 'N');
    swi_te_text(e, "_flatten_mapping");
    swi_te_op(e, '}');
    swi_te_text(e, "_dim_group_names");
    mesh_groups(e, m);
    word(e, N_RANK);
    swi_te_int(e, (int64_t)m->rank);
    mesh_place(p, m);
    word(e, N_HASH);
    swi_te_op(e, 'N');
}

static void root_mesh(parts *p, const swi_torch_out_mesh *m)
{
    swi_torch_emitting *e = &p->to;
    if (swi_te_recalled(e, SLOT_MESHES + m->number))
        return;
    object(e, N_MESH_CLASS);
    swi_te_remember(e, SLOT_MESHES + m->number);
    swi_te_ops(e, "}(");
    mesh_state(p, m);
    swi_te_text(e, "_root_mesh");
    swi_te_ops(e, "Nub");
}

static void mesh(parts *p, const swi_torch_out_mesh *m)
{
    swi_torch_emitting *e = &p->to;
    if (m->root == NULL) {
        root_mesh(p, m);
        return;
    }
    if (swi_te_recalled(e, SLOT_MESHES + m->number))
        return;
    object(e, N_MESH_CLASS);
    swi_te_remember(e, SLOT_MESHES + m->number);
    swi_te_ops(e, "}(");
    mesh_state(p, m);
    swi_te_text(e, "_root_mesh");
    root_mesh(p, m->root);
    swi_te_ops(e, "ub");
}

/* ---- DTensor -----------------------------------------------------------------------------------
 */

static void placement(swi_torch_emitting *e, const swi_torch_out_placement *at)
{
    static const uint32_t classes[] = {[SWI_TORCH_REPLICATE] = N_REPLICATE_CLASS,
                                       [SWI_TORCH_SHARD] = N_SHARD_CLASS,
                                       [SWI_TORCH_STRIDED_SHARD] = N_STRIDED_CLASS};
    object(e, classes[at->kind]);
    swi_te_op(e, '}');
    if (at->kind == SWI_TORCH_REPLICATE) {
        swi_te_op(e, 'b');
        return;
    }
    swi_te_op(e, '(');
    word(e, N_DIM);
    swi_te_int(e, at->dim);
    if (at->kind == SWI_TORCH_STRIDED_SHARD) {
        word(e, N_SPLIT_FACTOR);
        swi_te_int(e, (int64_t)at->split_factor);
    }
    swi_te_ops(e, "ub");
}

/* For each dimension that is divided the axes that do it, in order; none with strided ones. */
static void shard_order(swi_torch_emitting *e, const swi_torch_out_dtensor *t, bool strided)
{
    const uint32_t axes = t->mesh->axes;
    if (strided) {
        swi_te_op(e, 'N');
        return;
    }
    swi_te_op(e, '(');
    for (uint32_t d = 0; d < t->local.axes; d++) {
        int64_t by[SWI_TORCH_MESH_AXES];
        uint32_t count = 0;
        for (uint32_t a = 0; a < axes; a++)
            if (t->placements[a].kind == SWI_TORCH_SHARD && t->placements[a].dim == d)
                by[count++] = a;
        if (count == 0)
            continue;
        word(e, N_ORDER_CLASS);
        swi_te_op(e, '(');
        swi_te_int(e, d);
        swi_te_ints(e, count, by);
        swi_te_ops(e, "t\x81");
    }
    swi_te_op(e, 't');
}

static void tensor_meta(swi_torch_emitting *e, const swi_torch_out_dtensor *t)
{
    int64_t stride[SW_MAX_AXES];
    dense_strides(t->local.axes, t->shape, stride);
    word(e, N_META_CLASS);
    swi_te_op(e, '(');
    size(e, t->local.axes, t->shape);
    swi_te_ints(e, t->local.axes, stride);
    dtype(e, t->local.dtype);
    swi_te_ops(e, "t\x81");
}

/* TV-22 */
static void spec(parts *p, const swi_torch_out_dtensor *t)
{
    swi_torch_emitting *e = &p->to;
    bool strided = false;
    object(e, N_SPEC_CLASS);
    swi_te_ops(e, "}(");
    word(e, N_MESH);
    mesh(p, t->mesh);
    word(e, N_PLACEMENTS);
    swi_te_op(e, '(');
    for (uint32_t a = 0; a < t->mesh->axes; a++) {
        placement(e, &t->placements[a]);
        strided = strided || t->placements[a].kind == SWI_TORCH_STRIDED_SHARD;
    }
    swi_te_op(e, 't');
    word(e, N_TENSOR_META);
    tensor_meta(e, t);
    word(e, N_SHARD_ORDER);
    shard_order(e, t, strided);
    word(e, N_USE_STRIDED);
    boolean(e, strided);
    word(e, N_HASH);
    swi_te_ops(e, "Nub");
}

sw_status swi_torch_emit_dtensor(swi_torch_parts_emitter *emitter, swi_pickle_writer *w,
                                 const swi_torch_out_dtensor *t, sw_error *err)
{
    parts p = begin(emitter, w, err);
    swi_torch_emitting *e = &p.to;
    wrap(e, N_DTENSOR, &t->local, t->shape);
    swi_te_ops(e, "N}("); /* no instance dict; the slots */
    word(e, N_LOCAL_TENSOR);
    plain_tensor(&p, &t->local);
    word(e, N_SPEC);
    spec(&p, t);
    swi_te_ops(e, "u\x86tR"); /* SETITEMS TUPLE2 TUPLE REDUCE */
    return e->st;
}

/* ---- ShardedTensor -----------------------------------------------------------------------------
 */

static void remote_device(swi_torch_emitting *e, const swi_torch_out_sharded *t, uint64_t rank)
{
    object(e, N_REMOTE_CLASS);
    swi_te_ops(e, "}(");
    word(e, N_WORKER);
    swi_te_op(e, 'N');
    word(e, N_RANK);
    swi_te_int(e, (int64_t)rank);
    word(e, N_DEVICE_WORD);
    device(e, SLOT_DEVICE, t->device);
    swi_te_ops(e, "ub");
}

static bool is_empty(uint32_t axes, const swi_torch_out_box *box)
{
    for (uint32_t k = 0; k < axes; k++)
        if (box->length[k] == 0)
            return true;
    return false;
}

static void shard_metadata(swi_torch_emitting *e, const swi_torch_out_sharded *t,
                           const swi_torch_out_box *box)
{
    object(e, N_SHARD_META_CLASS);
    swi_te_ops(e, "N}(");
    word(e, N_OFFSETS);
    swi_te_int_list(e, t->local.axes, box->offset);
    word(e, N_SIZES);
    swi_te_int_list(e, t->local.axes, box->length);
    word(e, N_PLACEMENT);
    remote_device(e, t, box->rank);
    swi_te_ops(e, "u\x86"
                  "b"); /* SETITEMS TUPLE2 BUILD */
}

static void local_shards(parts *p, const swi_torch_out_sharded *t)
{
    swi_torch_emitting *e = &p->to;
    swi_torch_out_box box;
    swi_te_op(e, ']');
    t->box(t->ctx, t->own, &box);
    if (is_empty(t->local.axes, &box))
        return;
    object(e, N_LOCAL_SHARD_CLASS);
    swi_te_ops(e, "N}(");
    swi_te_text(e, "tensor");
    plain_tensor(p, &t->local);
    swi_te_text(e, "metadata");
    shard_metadata(e, t, &box);
    swi_te_ops(e, "u\x86"
                  "ba");
}

static void properties(swi_torch_emitting *e, const swi_torch_out_sharded *t)
{
    object(e, N_PROPERTIES_CLASS);
    swi_te_op(e, '(');
    dtype(e, t->local.dtype);
    layout(e);
    boolean(e, false); /* requires_grad */
    word(e, N_FORMAT_CLASS);
    swi_te_int(e, 0); /* contiguous */
    swi_te_ops(e, "\x85R");
    boolean(e, false); /* pin_memory */
    swi_te_ops(e, "tb");
}

static void sharded_metadata(swi_torch_emitting *e, const swi_torch_out_sharded *t)
{
    swi_torch_out_box box;
    object(e, N_SHARDED_META_CLASS);
    swi_te_ops(e, "}(");
    swi_te_text(e, "shards_metadata");
    swi_te_ops(e, "](");
    for (uint64_t i = 0; i < t->boxes; i++) {
        t->box(t->ctx, i, &box);
        if (!is_empty(t->local.axes, &box))
            shard_metadata(e, t, &box);
    }
    swi_te_op(e, 'e');
    swi_te_text(e, "size");
    size(e, t->local.axes, t->shape);
    swi_te_text(e, "tensor_properties");
    properties(e, t);
    swi_te_ops(e, "ub");
}

static void group_state(swi_torch_emitting *e, const swi_torch_out_sharded *t)
{
    word(e, N_GETATTR);
    word(e, N_SHARDED);
    swi_te_text(e, "ProcessGroupState");
    swi_te_ops(e, "\x86R)\x81}("); /* TUPLE2 REDUCE EMPTY_TUPLE NEWOBJ */
    named_int(e, "local_rank", (int64_t)t->own);
    named_int(e, "global_rank", (int64_t)t->rank);
    named_int(e, "local_world_size", (int64_t)t->boxes);
    named_int(e, "global_world_size", (int64_t)t->ranks);
    swi_te_ops(e, "ub");
}

static void chunk_spec(swi_torch_emitting *e, const swi_torch_out_sharded *t)
{
    swi_torch_out_box box;
    object(e, N_CHUNK_SPEC_CLASS);
    swi_te_ops(e, "}(");
    word(e, N_DIM);
    swi_te_int(e, t->dim);
    word(e, N_PLACEMENTS);
    swi_te_ops(e, "](");
    for (uint64_t i = 0; i < t->boxes; i++) {
        t->box(t->ctx, i, &box);
        if (!is_empty(t->local.axes, &box))
            remote_device(e, t, box.rank);
    }
    swi_te_ops(e, "eub");
}

/* TV-23 */
sw_status swi_torch_emit_sharded(swi_torch_parts_emitter *emitter, swi_pickle_writer *w,
                                 const swi_torch_out_sharded *t, sw_error *err)
{
    parts p = begin(emitter, w, err);
    swi_torch_emitting *e = &p.to;
    wrap(e, N_SHARDED, &t->local, t->shape);
    swi_te_op(e, '(');
    local_shards(&p, t);
    sharded_metadata(e, t);
    group_state(e, t);
    chunk_spec(e, t);
    swi_te_ops(e, "\x89ttR"); /* _init_rrefs; the state, the call */
    return e->st;
}
