/* One file of torch.save in a target's layout, whatever its object is and whose its storages are.
 */
#ifndef SW_CONVERT_TORCH_LAY_H
#define SW_CONVERT_TORCH_LAY_H

#include "container/torch_file.h"
#include "plan.h"

/* Where the file lies in the layout. */
typedef struct swi_torch_laid {
    uint32_t file;
    uint64_t *storage_at; /* where the bytes of each storage begin in the file */
} swi_torch_laid;

/*
 * Adds the file with all of it that is no tensor's: the object, which is copied, records, and the
 * checksums of its storages, which are made when their bytes are known. `data` has for each storage
 * its bytes where they are at hand (copied), NULL for those that pieces of tensors fill.
 */
SW_MUST_USE sw_status swi_torch_lay(swi_layout *layout, const char *path, const swi_torch_out *out,
                                    const uint8_t *const *data, swi_torch_laid *laid,
                                    sw_error *err);
void swi_torch_laid_free(swi_torch_laid *laid);

#endif
