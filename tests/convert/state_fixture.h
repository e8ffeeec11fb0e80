/* State dicts for tests: from pickles as text (a persistent id N is tensor N), and shown as text.
 */
#ifndef TESTS_CONVERT_STATE_FIXTURE_H
#define TESTS_CONVERT_STATE_FIXTURE_H

#include "convert/fixture.h"
#include "format/codec/pickle_text.h"
#include "state/state.h"

#define must(call) assert_ok((call), &err)

static inline sw_status tensor_of_id(void *ctx, sw_value_graph *g, sw_value id, sw_value *out,
                                     sw_error *err)
{
    int64_t number = 0;
    (void)ctx, (void)err;
    assert_true(sw_value_int(g, id, &number));
    *out = swi_value_of_tensor((uint32_t)number);
    return SW_OK;
}

/* `nodes`: the limit, 0: none to speak of. */
static inline swi_state state_of_text(const char *pickle, uint64_t nodes)
{
    const swi_pickle_options options = {.persistent = tensor_of_id};
    const sw_limits limits = {.nodes = nodes};
    swi_state s = {0};
    swi_buf bytes = {0};
    sw_error err = {0};
    pickle_assemble(pickle, &bytes);
    swi_cursor cursor = swi_cursor_make(bytes.data, bytes.size);
    must(swi_graph_make(&limits, &s.graph, &err));
    must(swi_pickle_read(&cursor, &options, s.graph, &s.root, NULL, &err));
    swi_buf_free(&bytes);
    return s;
}

static inline void check_value(const sw_value_graph *g, sw_value v, const char *expected)
{
    char *text = NULL;
    sw_error err = {0};
    must(sw_value_text(g, v, 65536, &text, &err));
    assert_string_equal(text, expected);
    free(text);
}

/* An object of a DCP folder from a pickle as text, without PROTO and STOP. */
static inline sw_status emit_text(void *ctx, swi_pickle_writer *w, sw_error *err)
{
    (void)err;
    pickle_assemble(ctx, w->out);
    return SW_OK;
}

static inline void dcp_text(dcp_world *w, const char *path, int rank, const char *pickle)
{
    dcp_object(w, path, rank, emit_text, (void *)(uintptr_t)pickle);
}

#endif
