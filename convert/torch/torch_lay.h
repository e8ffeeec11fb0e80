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

/* An object that is made anew when its file is written: `out` knows its size and its CRC alone. */
typedef struct swi_torch_lay_object {
    swi_late_fn make; /* as that of a late part */
    void *ctx;
    void (*free_ctx)(void *ctx); /* NULL: not */
    bool given;                  /* set: it is the layout's own, whatever is returned */
} swi_torch_lay_object;

/*
 * Adds the file with all of it that is no tensor's: the object, which is copied unless it is made
 * later (`object` not NULL), records, and the checksums of its storages, which are made when their
 * bytes are known. `data` has for each storage its bytes where they are at hand (copied), NULL for
 * those that pieces of tensors fill.
 */
typedef struct swi_torch_lay_in {
    const char *path;
    const swi_torch_out *out;
    const uint8_t *const *data;
    swi_torch_lay_object *object;
} swi_torch_lay_in;
SW_MUST_USE sw_status swi_torch_lay(swi_layout *layout, const swi_torch_lay_in *in,
                                    swi_torch_laid *laid, sw_error *err);
void swi_torch_laid_free(swi_torch_laid *laid);

#endif
