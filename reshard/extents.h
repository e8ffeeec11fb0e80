/* Resolved blobs, kept in a bounded cache: a tensor of a million pieces has a million extents. */
#ifndef SW_RESHARD_EXTENTS_H
#define SW_RESHARD_EXTENTS_H

#include "plan.h"

typedef struct swi_extents swi_extents;

/* Room for about `slots` extents. */
SW_MUST_USE sw_status swi_extents_make(const swi_source *source, uint32_t slots, swi_extents **out,
                                       sw_error *err);
void swi_extents_free(swi_extents *extents);
/*
 * Where the blob's bytes lie; it must hold what is wanted. Thread-safe. An extent whose elements
 * would lie outside its record is SW_ERR_CORRUPT. Errors begin with the file's path.
 */
SW_MUST_USE sw_status swi_extents_get(swi_extents *extents, uint32_t blob_id,
                                      const swi_blob_want *want, swi_blob *blob, swi_extent *out,
                                      sw_error *err);
/* A strided extent as a piece: view and box are its shape. */
void swi_extent_piece(const swi_extent *extent, swi_piece *out);

/* Puts the file's path before an error that does not begin with it yet. */
sw_status swi_prefix_file(const sw_catalog *catalog, uint32_t file, sw_error *err);

#endif
