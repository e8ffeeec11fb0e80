/* A value written as a pickle of each protocol, and copied, is the same value. */
#ifndef TESTS_PICKLE_ROUNDTRIP_H
#define TESTS_PICKLE_ROUNDTRIP_H

#include "codec/pickle.h"
#include "format/value_same.h"
#include "harness/harness.h"

/* Persistent ids as they were; tensors as persistent ids of their number. */
static inline sw_status roundtrip_leaf(void *ctx, swi_pickle_writer *w, const sw_value_graph *graph,
                                       sw_value v, sw_error *err)
{
    sw_value id;
    uint32_t tensor;
    sw_status status = SW_ERR_ARG;
    (void)ctx;
    if (sw_value_persistent(graph, v, &id))
        status = swi_pickle_emit(w, graph, id, NULL, NULL, err);
    else if (sw_value_tensor(graph, v, &tensor))
        status = swi_pickle_int(w, tensor, err);
    return status != SW_OK ? status : swi_pickle_op(w, 'Q', err);
}

static inline sw_status emit_pickle(swi_buf *out, int protocol, const sw_value_graph *graph,
                                    sw_value v, sw_error *err)
{
    swi_pickle_writer w;
    sw_status status = swi_pickle_begin(&w, out, protocol, err);
    if (status == SW_OK)
        status = swi_pickle_emit(&w, graph, v, roundtrip_leaf, NULL, err);
    return status != SW_OK ? status : swi_pickle_op(&w, '.', err);
}

static inline void check_reads_as(const swi_buf *out, const sw_value_graph *graph, sw_value v,
                                  int protocol)
{
    swi_buf again = {0};
    sw_error err = {0};
    sw_value_graph *fresh = NULL;
    sw_value root;
    swi_pickle_unsafe unsafe;
    swi_cursor cursor = swi_cursor_make(out->data, out->size);
    assert_ok(swi_graph_make(NULL, &fresh, &err), &err);
    assert_ok(swi_pickle_read(&cursor, NULL, fresh, &root, &unsafe, &err), &err);
    assert_int_equal(cursor.pos, out->size);
    assert_true(same_values(graph, v, fresh, root));
    /* what was read is written as the same bytes: nothing depends on the graph's own places */
    assert_ok(emit_pickle(&again, protocol, fresh, root, &err), &err);
    assert_int_equal(again.size, out->size);
    assert_memory_equal(again.data, out->data, out->size);
    sw_value_graph_free(fresh);
    swi_buf_free(&again);
}

/* Protocol 2 may have no name for a global. */
static inline void check_emits(const sw_value_graph *graph, sw_value v, int protocol)
{
    swi_buf out = {0};
    sw_error err = {0};
    sw_status status = emit_pickle(&out, protocol, graph, v, &err);
    if (status == SW_ERR_UNSUPPORTED && protocol == 2 &&
        sw_value_get_kind(graph, v) == SW_VALUE_GLOBAL) {
        assert_error(&err, SW_ERR_UNSUPPORTED, "pickle: protocol 2 has no name for ");
    } else {
        assert_ok(status, &err);
        check_reads_as(&out, graph, v, protocol);
    }
    swi_buf_free(&out);
}

static inline void check_copies(const sw_value_graph *graph, sw_value v)
{
    sw_error err = {0};
    sw_value_graph *fresh = NULL;
    sw_value copy;
    assert_ok(swi_graph_make(NULL, &fresh, &err), &err);
    assert_ok(swi_graph_copy(fresh, graph, v, NULL, NULL, &copy, &err), &err);
    assert_true(same_values(graph, v, fresh, copy));
    sw_value_graph_free(fresh);
}

static inline void check_roundtrip(const sw_value_graph *graph, sw_value v)
{
    check_copies(graph, v);
    check_emits(graph, v, 2);
    check_emits(graph, v, 4);
}

#endif
