/* How the files of ranks lie on disk: what reading and laying them out needs of it. */
#ifndef SW_CONVERT_SHARDED_CONTAINER_H
#define SW_CONVERT_SHARDED_CONTAINER_H

#include "sharded/laying.h"
#include "sharded/reading.h"

/* Visited for each tensor of a file. */
typedef sw_status (*swi_rank_visit_fn)(void *ctx, const swi_rank_tensor_in *tensor, sw_error *err);

typedef struct swi_rank_container {
    const char *name;
    /* Before the first file and after the last one, and the end in any case; NULL: nothing. */
    sw_status (*begin)(swi_sharded_reading *r, sw_error *err);
    sw_status (*finish)(swi_sharded_reading *r, sw_error *err);
    void (*end)(swi_sharded_reading *r);
    /*
     * Shows what file i of the list holds to `visit`, or (visit NULL) puts it into the catalog.
     * *unreadable, *cause: it is no such file or a damaged one; then the call succeeds.
     */
    sw_status (*read)(swi_sharded_reading *r, uint32_t i, swi_rank_visit_fn visit, void *ctx,
                      sw_status *unreadable, sw_error *cause, sw_error *err);
    /* SW_ERR_UNSUPPORTED names what such files cannot hold. NULL: they hold all. */
    sw_status (*check)(const swi_target_in *in, sw_error *err);
    /* Lays out the tensors of a rank from `first` on as the file `path`. */
    sw_status (*lay)(swi_sharded_laying *l, const char *path, const swi_rank_share *shares,
                     size_t count, sw_error *err);
} swi_rank_container;

extern const swi_rank_container swi_rank_container_safetensors;
extern const swi_rank_container swi_rank_container_torch;

#endif
