/* A target of files of ranks while it is laid out; shared by the files of convert/sharded alone. */
#ifndef SW_CONVERT_SHARDED_LAYING_H
#define SW_CONVERT_SHARDED_LAYING_H

#include "layout.h"
#include "map/model.h"
#include "sharded/sharded.h"

/* What a rank has of a tensor. */
typedef struct swi_rank_share {
    const swi_chosen *chosen;
    uint32_t tensor; /* of the layout */
    const swi_cut *cut;
    uint32_t axes;
    int64_t shape[SW_MAX_AXES]; /* of the local tensor */
    uint64_t bytes;
} swi_rank_share;

typedef struct swi_sharded_laying {
    const swi_sharded_kind *kind;
    const swi_target_in *in;
    swi_layout *layout;
    uint64_t rank; /* whose files are laid out now */
} swi_sharded_laying;

/* Its bytes begin there. */
SW_MUST_USE sw_status swi_rank_share_lay(swi_sharded_laying *l, const swi_rank_share *share,
                                         uint32_t file, uint64_t offset_bytes, sw_error *err);

#endif
