/*
 * A state dict as text (specs/values.md): that of all ranks, and the values of which ranks saved
 * different ones.
 */
#ifndef SW_CONVERT_STATE_JSON_H
#define SW_CONVERT_STATE_JSON_H

#include "base/arena.h"
#include "codec/value_json.h"
#include "state/state.h"

/* {"format":1,"ordered":true,"root":VALUE} and a line feed, appended. `root`: in the state's graph.
 */
SW_MUST_USE sw_status swi_state_json_write(const swi_state *state, sw_value root,
                                           swi_tensor_name_fn name_of, const void *ctx,
                                           swi_buf *out, sw_error *err);
/* Without a root: a DICT from the names of all tensors of the table to them, in its order. And
 * whether a text is that. */
SW_MUST_USE sw_status swi_state_json_write_table(bool ordered, swi_buf *out, sw_error *err);
bool swi_state_json_is_table(const uint8_t *data, size_t size, bool *ordered);
/*
 * {"format":1,"values":[[RANK,NAME,VALUE],...]} and a line feed, appended: the values of ranks r
 * with r % ranks == rank, by rank and name whatever their order in `state`; nothing where there are
 * none. Tensors of one rank alone, and two values of a rank with one name: SW_ERR_UNSUPPORTED.
 */
SW_MUST_USE sw_status swi_state_json_write_ranks(const swi_state *state, uint32_t rank,
                                                 uint32_t ranks, swi_buf *out, sw_error *err);
/* Makes the state's graph. SW_ERR_FORMAT with the position. */
SW_MUST_USE sw_status swi_state_json_read(const uint8_t *data, size_t size, const sw_limits *limits,
                                          swi_tensor_find_fn find, const void *ctx, swi_state *out,
                                          sw_error *err);
/* The values section of the file of `rank` of `ranks`. */
typedef struct swi_rank_values {
    const uint8_t *data;
    size_t size;
    uint32_t rank, ranks;
    const sw_limits *limits; /* of the text; NULL: defaults */
} swi_rank_values;
/* Adds to the state's scoped values; their names are kept in `names`. */
SW_MUST_USE sw_status swi_state_json_read_ranks(const swi_rank_values *text, swi_arena *names,
                                                swi_state *state, sw_error *err);

#endif
