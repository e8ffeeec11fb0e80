/*
 * Files of torch.save that ranks wrote, read one after the other into one catalog: what folders of
 * ranks share, however it is known which files there are and what of the tensors lies in them.
 */
#ifndef SW_CONVERT_RANK_READING_H
#define SW_CONVERT_RANK_READING_H

#include "base/arena.h"
#include "torch/torch.h"

typedef struct swi_file_of_rank {
    const char *path;
    const char *item; /* the key of the state dict under which its object goes; NULL: the root */
    size_t series;    /* the caller's: which row of files it is of */
    uint64_t rank, bytes;
    bool missing; /* or not readable, which was said */
    bool looked;  /* it was opened before, and what is unsafe about it said */
} swi_file_of_rank;

typedef sw_status (*swi_rank_place_fn)(void *ctx, const swi_torch_met *met, swi_torch_box *out,
                                       sw_error *err);

typedef struct swi_rank_reading {
    swi_opening *o;
    swi_arena arena; /* of paths and items */
    swi_file_of_rank *files;
    size_t count, capacity;
    swi_torch_filling fill;
    swi_torch_ranks ranks;
    swi_rank_place_fn place;
    void *place_ctx;
    const swi_file_of_rank *now; /* the file that is being put in */
} swi_rank_reading;

/* `place` says where tensors belong (torch.h). The reading stays where it is until its end. */
SW_MUST_USE sw_status swi_rank_reading_begin(swi_opening *o, swi_rank_place_fn place, void *ctx,
                                             swi_rank_reading *out, sw_error *err);
void swi_rank_reading_end(swi_rank_reading *r);

/* A file at a path of the folder, both texts copied; *there: it is a file that can be read. */
SW_MUST_USE sw_status swi_rank_reading_add(swi_rank_reading *r, const swi_file_of_rank *file,
                                           bool *there, sw_error *err);

typedef sw_status (*swi_rank_file_fn)(void *ctx, const swi_file_of_rank *file,
                                      const swi_torch_file *tf, swi_torch_object *object,
                                      sw_error *err);
/*
 * Opens each file that is there, in the order in which they were added, and gives its object (under
 * its item), which `fn` may keep by leaving an empty one in its place. A file that is damaged is a
 * finding
 * ("unreadable-file", said once) and the checkpoint incomplete.
 */
SW_MUST_USE sw_status swi_rank_reading_each(swi_rank_reading *r, swi_rank_file_fn fn, void *ctx,
                                            sw_error *err);
/*
 * A swi_rank_file_fn whose ctx is the reading: puts the file into the catalog. Of later ranks only
 * what differs from the first is kept. Findings: "wrong-rank", of a file that another rank saved
 * than the one of its name; "steps-differ", of one that was saved at another step.
 */
SW_MUST_USE sw_status swi_rank_reading_put(void *ctx, const swi_file_of_rank *file,
                                           const swi_torch_file *tf, swi_torch_object *object,
                                           sw_error *err);

#endif
