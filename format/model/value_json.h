/*
 * Values as tagged JSON (specs/values.md): what Python's pickles hold beside tensors, one canonical
 * text for one value, readable by people and by any JSON reader: tuples, sets, NaN, integers of any
 * size, bytes, complex numbers, keys that are no text, globals and objects (never called), shared
 * nodes and cycles. A tensor is its name.
 */
#ifndef SW_MODEL_VALUE_JSON_H
#define SW_MODEL_VALUE_JSON_H

#include "base/buf.h"
#include "model/value.h"

/* The name of tensor `index`; NULL: it must not occur (SW_ERR_UNSUPPORTED). */
typedef const char *(*swi_tensor_name_fn)(const void *ctx, uint32_t index);
/* Appends the text, without a line feed. The order of dicts stays; equal values give equal texts,
 * whatever graph they are in. */
SW_MUST_USE sw_status swi_value_json_write(const sw_value_graph *graph, sw_value v,
                                           swi_tensor_name_fn name_of, const void *ctx,
                                           swi_buf *out, sw_error *err);
/* The index of a tensor of this name; -1: there is none (SW_ERR_CORRUPT). */
typedef int64_t (*swi_tensor_find_fn)(const void *ctx, const char *name, size_t size);
/* SW_ERR_FORMAT with the position; text that `write` would not give is refused. *consumed: bytes of
 * the value (more may follow). */
SW_MUST_USE sw_status swi_value_json_read(const uint8_t *data, size_t size, sw_value_graph *graph,
                                          swi_tensor_find_fn find, const void *ctx, sw_value *out,
                                          size_t *consumed, sw_error *err);

#endif
