/*
 * The sums that a layout asks for, and the literals that wait for them: CRC-32 over what is written
 * while it is in cache, in any order; what came in too many parts is read back from the file.
 */
#ifndef SW_RESHARD_SUMS_H
#define SW_RESHARD_SUMS_H

#include "io/store.h"
#include "layout.h"

typedef struct swi_sums swi_sums;

SW_MUST_USE sw_status swi_sums_make(const swi_layout *layout, swi_sums **out, sw_error *err);
void swi_sums_free(swi_sums *sums);
/* The slices were written one after another from `offset` on; each byte once. Thread-safe. */
SW_MUST_USE sw_status swi_sums_add(swi_sums *sums, uint32_t file, uint64_t offset,
                                   const swi_slice *slices, size_t count, sw_error *err);
/* Makes and writes the late literals of a file, all other bytes of which are written. */
SW_MUST_USE sw_status swi_sums_finish(swi_sums *sums, uint32_t file, swi_file *written,
                                      sw_error *err);

#endif
