/* Tensors in the order in which they lie in files. */
#ifndef SW_RESHARD_PLACES_H
#define SW_RESHARD_PLACES_H

#include "model/catalog.h"

/*
 * Sorts tensors of the catalog by the file and offset where they first appear; those without bytes
 * come last.
 */
SW_MUST_USE sw_status swi_sort_by_place(const sw_catalog *catalog, uint32_t *tensors, size_t count,
                                        sw_error *err);

#endif
