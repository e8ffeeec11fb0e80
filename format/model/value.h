/*
 * Making value graphs. A node is a tagged 64-bit word: small things (none, bool, ints of 59 bits,
 * records, tensors) are immediate, the rest are positions in the graph's arenas. Strings are
 * interned where that pays. The graph counts its nodes against sw_limits.nodes (SW_ERR_LIMIT).
 *
 * Containers may be filled after they were referred to (cycles); a tuple cannot. Not shared by
 * threads until it is finished.
 */
#ifndef SW_MODEL_VALUE_H
#define SW_MODEL_VALUE_H

#include "base/error.h"

SW_MUST_USE sw_status swi_graph_make(const sw_limits *limits, sw_value_graph **out, sw_error *err);

sw_value swi_value_none(void);
sw_value swi_value_of_bool(bool v);
SW_MUST_USE sw_status swi_graph_int(sw_value_graph *g, int64_t v, sw_value *out, sw_error *err);
/* Two's complement, little-endian; becomes an INT when it fits in 64 bits. */
SW_MUST_USE sw_status swi_graph_bigint(sw_value_graph *g, const uint8_t *data, size_t size,
                                       sw_value *out, sw_error *err);
SW_MUST_USE sw_status swi_graph_float(sw_value_graph *g, double v, sw_value *out, sw_error *err);
SW_MUST_USE sw_status swi_graph_complex(sw_value_graph *g, double re, double im, sw_value *out,
                                        sw_error *err);
/* kind: SW_VALUE_STR or SW_VALUE_BYTES. */
SW_MUST_USE sw_status swi_graph_text(sw_value_graph *g, sw_value_kind kind, const void *data,
                                     size_t size, sw_value *out, sw_error *err);
/* kind: LIST, TUPLE, SET, FROZENSET with these elements. */
SW_MUST_USE sw_status swi_graph_sequence(sw_value_graph *g, sw_value_kind kind,
                                         const sw_value *items, size_t count, sw_value *out,
                                         sw_error *err);
/* Adds to a LIST or SET. */
SW_MUST_USE sw_status swi_graph_append(sw_value_graph *g, sw_value list, const sw_value *items,
                                       size_t count, sw_error *err);
/* Replaces element i of a LIST; SW_ERR_ARG when there is none. */
SW_MUST_USE sw_status swi_graph_list_set(sw_value_graph *g, sw_value list, size_t i, sw_value v,
                                         sw_error *err);
SW_MUST_USE sw_status swi_graph_dict(sw_value_graph *g, sw_value *out, sw_error *err);
/* pairs: key, value, key, value ... A key that is there already gets the new value. */
SW_MUST_USE sw_status swi_graph_set_items(sw_value_graph *g, sw_value dict, const sw_value *pairs,
                                          size_t pair_count, sw_error *err);
/* Two DICTs exchange their pairs; each stays where it was referred to. */
void swi_graph_dict_swap(sw_value_graph *g, sw_value a, sw_value b);
/* BYTES that were a bytearray. */
SW_MUST_USE sw_status swi_graph_bytearray(sw_value_graph *g, const void *data, size_t size,
                                          sw_value *out, sw_error *err);
/* The same module and name give the same node. Together they have at most so many bytes: */
#define SWI_GLOBAL_MAX_BYTES 2048
SW_MUST_USE sw_status swi_graph_global(sw_value_graph *g, const char *module, const char *name,
                                       sw_value *out, sw_error *err);
SW_MUST_USE sw_status swi_graph_object(sw_value_graph *g, const sw_value_object *object,
                                       sw_value *out, sw_error *err);
/* Sets state and items of an OBJECT later (BUILD, APPENDS, SETITEMS). */
SW_MUST_USE sw_status swi_graph_object_update(sw_value_graph *g, sw_value v,
                                              const sw_value_object *object, sw_error *err);
SW_MUST_USE sw_status swi_graph_persistent(sw_value_graph *g, sw_value id, sw_value *out,
                                           sw_error *err);
/* A record: what a constructor hook made of an object; 59 bits of the hook's own. */
sw_value swi_value_of_record(uint64_t payload);
bool swi_value_record(sw_value v, uint64_t *payload);
/* A TENSOR: a reference to the tensor of a catalog. */
sw_value swi_value_of_tensor(uint32_t index);
/*
 * Gives the memory of a container or OBJECT back for reuse, its elements stay. For hooks, which
 * know that what they consumed is referred to nowhere else in the graph. A numbered reference to
 * it becomes invalid; a node whose reference was already used is kept.
 */
void swi_graph_drop(sw_value_graph *g, sw_value v);
uint64_t swi_graph_memory(const sw_value_graph *g);
/*
 * How many places a walk may visit that meets what is shared in each place: 64 for each node and
 * 65 536 besides, at most sw_limits.nodes. A few nodes that hold each other many times over unfold
 * into any number of places; what people save shares little.
 */
uint64_t swi_graph_unfold_limit(const sw_value_graph *g);

/*
 * A copy of `v` and of all that it refers to, in another graph (or in the same one). What was
 * shared is shared, cycles are cycles. `map` (NULL: none) is asked once about every container,
 * OBJECT, PERSISTENT, RECORD and TENSOR before it is copied: when it sets *replaced, *out is a node
 * of `to` that takes its place, and what lies below is not looked at. What was copied when it fails
 * stays in `to`, unreachable.
 */
typedef sw_status (*swi_graph_map_fn)(void *ctx, const sw_value_graph *from, sw_value v,
                                      sw_value_graph *to, bool *replaced, sw_value *out,
                                      sw_error *err);
SW_MUST_USE sw_status swi_graph_copy(sw_value_graph *to, const sw_value_graph *from, sw_value v,
                                     swi_graph_map_fn map, void *ctx, sw_value *out, sw_error *err);

/* A copy in a new graph, to be freed by the caller. */
SW_MUST_USE sw_status swi_graph_copy_out(const sw_value_graph *from, sw_value v,
                                         const sw_limits *limits, sw_value_graph **graph,
                                         sw_value *root, sw_error *err);

/*
 * Numbered references to nodes (a pickle's memo), for the time of reading: put sets one (again),
 * replace makes the reference to `old`, if there is one, refer to another node; forget ends it.
 */
SW_MUST_USE sw_status swi_graph_put(sw_value_graph *g, uint64_t number, sw_value v, sw_error *err);
SW_MUST_USE sw_status swi_graph_replace(sw_value_graph *g, sw_value old, sw_value fresh,
                                        sw_error *err);
void swi_graph_forget(sw_value_graph *g);

/* Keys of DICTs that are text of more bytes are equal only when they are one node: what reads or
 * writes keys by their bytes tells them apart by itself. */
#define SWI_DICT_KEY_BYTES 4096
/* The value of this key in a DICT. Keys are equal as in Python; see model/value_dict.c. */
bool swi_dict_find(const sw_value_graph *g, sw_value dict, sw_value key, sw_value *out);
/* The value of a string key in a DICT or in an OBJECT with dict items (linear for small, indexed
 * for large); false: absent. */
bool swi_value_get(const sw_value_graph *g, sw_value dict, const char *key, sw_value *out);
/* The elements of a TUPLE of at most `max` of them, all INT; else false. */
bool swi_value_ints(const sw_value_graph *g, sw_value v, size_t max, int64_t *out, size_t *count);
bool swi_value_text_is(const sw_value_graph *g, sw_value v, const char *text);
/* An OBJECT whose callable is this global. */
bool swi_value_is_call(const sw_value_graph *g, sw_value v, const char *module, const char *name);

#endif
