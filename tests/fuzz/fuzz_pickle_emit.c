/*
 * Whatever a pickle says is copied to another graph, written under both protocols and read again:
 * the same graph each time.
 */
#include "codec/pickle.h"
#include "format/value_same.h"
#include "hex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void promise(bool kept)
{
    if (!kept)
        __builtin_trap();
}

static sw_status keep_id(void *ctx, swi_pickle_writer *w, const sw_value_graph *graph, sw_value v,
                         sw_error *err)
{
    sw_value id;
    (void)ctx;
    if (!sw_value_persistent(graph, v, &id))
        __builtin_trap();
    /*
     * A container is written by a call of its own, which cannot know what the outer one has in its
     * memo: what the id shares with the rest would come back as a copy.
     */
    sw_value_kind kind = sw_value_get_kind(graph, id);
    if ((kind >= SW_VALUE_LIST && kind != SW_VALUE_GLOBAL) || sw_value_is_bytearray(graph, id))
        return swi_fail(err, SW_ERR_UNSUPPORTED, "an id that is a container");
    sw_status status = swi_pickle_emit(w, graph, id, NULL, NULL, err);
    return status != SW_OK ? status : swi_pickle_op(w, 'Q', err);
}

static void check_copy(const sw_value_graph *graph, sw_value root)
{
    sw_value_graph *to = NULL;
    sw_value copy;
    sw_error err = {0};
    if (swi_graph_make(NULL, &to, &err) != SW_OK)
        return;
    if (swi_graph_copy(to, graph, root, NULL, NULL, &copy, &err) == SW_OK) {
        promise(same_values(graph, root, to, copy));
    } else if (err.status != SW_ERR_LIMIT && err.status != SW_ERR_NOMEM) {
        __builtin_trap();
    }
    sw_value_graph_free(to);
}

static void check_emit(const sw_value_graph *graph, sw_value root, int protocol)
{
    swi_buf out = {0};
    swi_pickle_writer w;
    sw_value_graph *fresh = NULL;
    sw_value back;
    swi_pickle_unsafe unsafe;
    sw_error err = {0};
    sw_status status = swi_pickle_begin(&w, &out, protocol, &err);
    if (status == SW_OK)
        status = swi_pickle_emit(&w, graph, root, keep_id, NULL, &err);
    if (status == SW_OK)
        status = swi_pickle_op(&w, '.', &err);
    promise(status == SW_OK || status == SW_ERR_UNSUPPORTED || status == SW_ERR_NOMEM);
    if (status == SW_OK && swi_graph_make(NULL, &fresh, &err) == SW_OK) {
        swi_cursor cursor = swi_cursor_make(out.data, out.size);
        promise(swi_pickle_read(&cursor, NULL, fresh, &back, &unsafe, &err) == SW_OK &&
                same_values(graph, root, fresh, back));
    }
    sw_value_graph_free(fresh);
    swi_buf_free(&out);
}

static void run(const uint8_t *data, size_t size)
{
    const sw_limits limits = {.nodes = 20000};
    sw_value_graph *graph = NULL;
    sw_value root;
    swi_pickle_unsafe unsafe;
    sw_error err = {0};
    if (swi_graph_make(&limits, &graph, &err) != SW_OK)
        return;
    swi_cursor cursor = swi_cursor_make(data, size);
    if (swi_pickle_read(&cursor, NULL, graph, &root, &unsafe, &err) == SW_OK) {
        check_copy(graph, root);
        check_emit(graph, root, 2);
        check_emit(graph, root, 4);
    }
    sw_value_graph_free(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t count;
    uint8_t *bytes = bytes_of_hex(data, size, &count);
    if (bytes != NULL)
        run(bytes, count);
    else
        run(data, size);
    free(bytes);
    return 0;
}
