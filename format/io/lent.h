/* Memory that others lend, as a store of one file: read without a copy, by many threads. */
#ifndef SW_IO_LENT_H
#define SW_IO_LENT_H

#include "io/store.h"

/*
 * The slices one after another are the file `name`; they and their list are borrowed. When it was
 * last changed is not known. Whatever would write is SW_ERR_UNSUPPORTED. SW_ERR_LIMIT: the sizes
 * overflow.
 */
SW_MUST_USE sw_status swi_store_open_lent(const char *root, const char *name,
                                          const swi_slice *slices, size_t count, swi_store **out,
                                          sw_error *err);

#endif
