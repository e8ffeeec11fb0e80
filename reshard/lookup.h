/*
 * Which pieces of a tensor meet a flat interval, without trying all: pieces sorted by first flat
 * index, with a tree of the largest ends over them, so that one long piece in front of a million
 * short ones does not make each query visit them all.
 */
#ifndef SW_RESHARD_LOOKUP_H
#define SW_RESHARD_LOOKUP_H

#include "model/catalog.h"

typedef struct swi_lookup swi_lookup;

SW_MUST_USE sw_status swi_lookup_make(const sw_catalog *catalog, uint32_t tensor, swi_lookup **out,
                                      sw_error *err);
void swi_lookup_free(swi_lookup *lookup);
uint64_t swi_lookup_memory(const swi_lookup *lookup);
/*
 * The first piece from index `from` on whose span [first, end) meets [lo, hi); call again with the
 * last answer + 1; -1: no more.
 */
int64_t swi_lookup_next(const swi_lookup *lookup, uint64_t lo, uint64_t hi, uint64_t from);

#endif
