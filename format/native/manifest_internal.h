/* What reading and writing a manifest share: shared by manifest*.c alone. */
#ifndef SW_NATIVE_MANIFEST_INTERNAL_H
#define SW_NATIVE_MANIFEST_INTERNAL_H

#include "native/manifest.h"

#define SWI_MANIFEST_CLAUSE "NAT-5"
/* `,"root":"` and 64 digits and `"`: what the root is not over. */
#define SWI_MANIFEST_ROOT_BYTES ((size_t)74)

/* What is wrong with it, or NULL. */
const char *swi_manifest_wrong_mesh(const swi_native_mesh *mesh);
/* Its mesh is one of the manifest's. */
const char *swi_manifest_wrong_layout(const swi_native_layout *layout, uint32_t axes);
const char *swi_manifest_wrong_shards(const swi_native_manifest *manifest);
const char *swi_manifest_wrong_assets(const swi_native_manifest *manifest);

/* SHA-256 over the text without the root, which begins at `root_at` with its comma, and without the
 * line feed at the end. */
SW_MUST_USE sw_status swi_manifest_root(const uint8_t *data, size_t size, size_t root_at,
                                        swi_digest *out, sw_error *err);

/* Room for a placement's text. */
#define SWI_PLACEMENT_TEXT 64
void swi_placement_write(const swi_native_placement *placement, char text[SWI_PLACEMENT_TEXT]);
/* False: it is none. *op, *op_size: of PARTIAL, in the text. */
bool swi_placement_read(const char *text, size_t size, swi_native_placement *out, const char **op,
                        size_t *op_size);

#endif
