/* A checkpoint of files of ranks while it is read; shared by the files of convert/sharded alone. */
#ifndef SW_CONVERT_SHARDED_READING_H
#define SW_CONVERT_SHARDED_READING_H

#include "io/filecache.h"
#include "map/model.h"
#include "sharded/rank_list.h"

/* What is known of a tensor of the side. */
typedef struct swi_rank_seen {
    uint32_t id;     /* in the catalog; UINT32_MAX: not put there yet */
    uint32_t file;   /* one more than the file that had it last; 0: none did */
    uint32_t lacked; /* one more than the first rank whose files are all there and lack it */
    bool told;       /* that something is wrong with it */
} swi_rank_seen;

typedef struct swi_sharded_reading {
    const swi_sharded_kind *kind;
    swi_opening *o;
    swi_rank_list list;
    swi_filecache *cache;
    swi_model *model;
    size_t side;
    swi_division *division;
    uint64_t ranks;      /* of the division */
    swi_rank_seen *seen; /* by tensor of the side */
    size_t tensors;      /* of the side */
    uint32_t file;       /* that is read now */
    size_t readable;     /* files that could be read */
    bool cut;            /* a file is missing or damaged: what it held is not known */
    swi_local local;     /* what the place that was told last is made of */
    sw_error last;       /* why a file could not be read */
    void *kept;          /* of the container */
} swi_sharded_reading;

/* What a file says of a tensor. */
typedef struct swi_rank_tensor_in {
    const char *name;
    sw_dtype dtype;
    uint32_t axes;
    const int64_t *shape;
} swi_rank_tensor_in;

/*
 * Finds out how many ranks there were and which of the model's layouts divides them: the one that
 * gives the shapes that a rank's files have. As many ranks as there are files for come first, then
 * more and fewer. Sets division and ranks. SH-4.
 */
SW_MUST_USE sw_status swi_rank_decide(swi_sharded_reading *r, sw_error *err);

/* Where a tensor of the file that is read now belongs. */
typedef struct swi_rank_place {
    bool left_out; /* nowhere; what is wrong with it was said */
    size_t number; /* of the tensor among those of the side */
    uint32_t axes;
    int64_t shape[SW_MAX_AXES]; /* of the whole */
    bool replicated;            /* other ranks have the same elements */
    const swi_local *local;     /* valid until the next call */
} swi_rank_place;
SW_MUST_USE sw_status swi_rank_place_of(swi_sharded_reading *r, const swi_rank_tensor_in *tensor,
                                        swi_rank_place *out, sw_error *err);
/* A finding about a tensor of the file that is read now; the checkpoint lacks something then. */
SW_MUST_USE sw_status swi_rank_say(swi_sharded_reading *r, sw_status status, const char *code,
                                   const char *tensor, sw_error *err, const char *fmt, ...)
    SW_PRINTF(6, 7);

/* All files of `rank` were read: notes which tensors it lacks. */
void swi_rank_note_lacking(swi_sharded_reading *r, uint64_t rank);
/* After all ranks: says what is lacking; tensors that no rank has get a place without pieces. */
SW_MUST_USE sw_status swi_rank_say_lacking(swi_sharded_reading *r, sw_error *err);

#endif
