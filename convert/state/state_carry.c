/* Tensors of the catalog as parts of a value. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/text.h"
#include "container/torch_file.h"
#include "load.h"
#include "model/value.h"
#include "state/state.h"

typedef struct carrying {
    const swi_target_in *in;
    swi_tensor_stays_fn stays; /* NULL: none does */
    const void *ctx;
    uint64_t left_bytes;
    bool any;
} carrying;

static sw_status carry(carrying *c, uint32_t tensor, sw_value_graph *to, sw_value *out,
                       sw_error *err)
{
    const swi_source source = swi_checkpoint_source(c->in->source);
    sw_tensor_info info;
    void *data = NULL;
    sw_catalog_tensor(source.catalog, tensor, &info);
    if (info.bytes > c->left_bytes)
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "its tensors have more than %" PRIu64 " MiB, which is too much for parts "
                        "of a value; --drop leaves it out",
                        SWI_TORCH_CARRIED_MAX >> 20);
    c->left_bytes -= info.bytes;
    c->any = true;
    sw_status st = swi_alloc_array((size_t)info.bytes, 1, &data, err);
    if (st == SW_OK)
        st = swi_load_checked(&source, tensor, data, c->in->report, err);
    const swi_torch_dense dense = {
        .dtype = info.dtype, .axes = info.axes, .shape = info.shape, .data = data};
    if (st == SW_OK)
        st = swi_torch_carry_dense(to, &dense, out, err);
    free(data);
    return st;
}

static sw_status carry_map(void *ctx, const sw_value_graph *from, sw_value v, sw_value_graph *to,
                           bool *replaced, sw_value *out, sw_error *err)
{
    const carrying *c = ctx;
    uint32_t tensor;
    if (!sw_value_tensor(from, v, &tensor) || (c->stays != NULL && c->stays(c->ctx, tensor)))
        return SW_OK;
    sw_status st = carry(ctx, tensor, to, out, err);
    *replaced = st == SW_OK;
    return st;
}

static bool may_hold(sw_value_kind kind)
{
    return kind == SW_VALUE_TUPLE || kind == SW_VALUE_LIST || kind == SW_VALUE_DICT ||
           kind == SW_VALUE_SET || kind == SW_VALUE_FROZENSET || kind == SW_VALUE_OBJECT;
}

sw_status swi_state_carry(const swi_target_in *in, sw_value v, sw_value_graph **graph,
                          sw_value *out, sw_error *err)
{
    const sw_value_graph *from = in->state->graph;
    carrying c = {.in = in, .left_bytes = SWI_TORCH_CARRIED_MAX};
    sw_value_graph *own = NULL;
    sw_value copy;
    *graph = NULL;
    *out = v;
    if (!may_hold(sw_value_get_kind(from, v)))
        return SW_OK;
    sw_status st = swi_graph_make(&in->limits, &own, err);
    if (st == SW_OK)
        st = swi_graph_copy(own, from, v, carry_map, &c, &copy, err);
    if (st == SW_OK && c.any) {
        *graph = own;
        *out = copy;
        own = NULL;
    }
    sw_value_graph_free(own);
    return st;
}

sw_status swi_state_carry_into(const swi_target_in *in, sw_value v, swi_tensor_stays_fn stays,
                               const void *ctx, sw_value_graph *to, sw_value *out, sw_error *err)
{
    carrying c = {.in = in, .stays = stays, .ctx = ctx, .left_bytes = SWI_TORCH_CARRIED_MAX};
    return swi_graph_copy(to, in->state->graph, v, carry_map, &c, out, err);
}
