/*
 * Values as tagged JSON (specs/values.md): what pickles hold beside tensors, readable by people and
 * by any JSON reader: tuples, sets, NaN, integers of any size, bytes, keys that are no text,
 * globals and objects (named, never called), shared containers and cycles. A tensor is its name.
 */
#ifndef SW_CODEC_VALUE_JSON_H
#define SW_CODEC_VALUE_JSON_H

#include "base/buf.h"
#include "model/value.h"

/* The name of tensor `index`; NULL: it must not occur. */
typedef const char *(*swi_tensor_name_fn)(const void *ctx, uint32_t index);
/*
 * Appends the text of `v`. The order of dicts stays. Lists, dicts, sets and objects that stand in
 * several places are written once (VAL-5); others are written in each. SW_ERR_UNSUPPORTED: records,
 * tensors without a name (`name_of` may be NULL), objects that are inside themselves, dicts with
 * equal keys. SW_ERR_LIMIT: it unfolds into more than any genuine value does.
 */
SW_MUST_USE sw_status swi_value_json_write(const sw_value_graph *graph, sw_value v,
                                           swi_tensor_name_fn name_of, const void *ctx,
                                           swi_buf *out, sw_error *err);

/* The index of the tensor of this name; -1: there is none (SW_ERR_CORRUPT). */
typedef int64_t (*swi_tensor_find_fn)(const void *ctx, const char *name, size_t size);
/*
 * Makes in `graph` the value that node `text` of a JSON document stands for (json.h).
 * SW_ERR_FORMAT: a tag that is none, or not as it is written. `find` NULL: no tensors. Whether the
 * document was canonical is for the caller to tell, by writing it again.
 */
SW_MUST_USE sw_status swi_value_json_read(const sw_value_graph *json, sw_value text,
                                          sw_value_graph *graph, swi_tensor_find_fn find,
                                          const void *ctx, sw_value *out, sw_error *err);

#endif
