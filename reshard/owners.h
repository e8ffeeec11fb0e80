/* Whose bytes a blob holds: the names that findings about it carry. */
#ifndef SW_RESHARD_OWNERS_H
#define SW_RESHARD_OWNERS_H

#include "model/catalog.h"

typedef struct swi_owners swi_owners;

SW_MUST_USE sw_status swi_owners_make(const sw_catalog *catalog, swi_owners **out, sw_error *err);
void swi_owners_free(swi_owners *owners);
/* The file, and the first tensor (or else value) with a piece in the blob; "" when there is none.
 */
swi_blob_label swi_owner_label(const swi_owners *owners, uint32_t blob);

#endif
