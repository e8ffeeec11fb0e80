/* Objects of torch.distributed in pickles: their classes and attributes. Nothing is executed. */
#ifndef SW_CONVERT_TORCH_ATTRIBUTES_H
#define SW_CONVERT_TORCH_ATTRIBUTES_H

#include "shardwright_format.h"

/* In what an object is BUILT with: a dict, or (attributes, slots). */
bool swi_attribute_in(const sw_value_graph *g, sw_value state, const char *name, sw_value *out);
bool swi_attribute(const sw_value_graph *g, sw_value object, const char *name, sw_value *out);

/*
 * The last part of the name of a class in torch.distributed, or of the class of an object made by
 * __new__; NULL: it is of no such class. *module (may be NULL): where that class is.
 */
const char *swi_distributed_class(const sw_value_graph *g, sw_value v, const char **module);

/* A tuple, list or torch.Size of at most `max` whole numbers that are not negative; else false. */
bool swi_sizes(const sw_value_graph *g, sw_value v, uint32_t max, int64_t *out, uint32_t *count);

#endif
