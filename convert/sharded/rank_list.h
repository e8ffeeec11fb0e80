/* The files of a folder that are those of ranks. */
#ifndef SW_CONVERT_RANK_LIST_H
#define SW_CONVERT_RANK_LIST_H

#include "sharded/rank_name.h"
#include "sharded/sharded.h"

#define SWI_RANKS_MAX 65536U

typedef struct swi_rank_file {
    const char *path; /* in the listing */
    uint64_t bytes;
    swi_rank_name is;
} swi_rank_file;

/* By rank, stage and part, in the order of numbers. */
typedef struct swi_rank_list {
    swi_rank_file *items;
    size_t count, capacity;
    uint64_t ranks; /* the highest one plus one */
} swi_rank_list;

/* SW_ERR_INCOMPLETE: there is none. SW_ERR_LIMIT: a rank beyond SWI_RANKS_MAX. */
SW_MUST_USE sw_status swi_rank_list_find(const swi_sharded_kind *kind, const swi_listing *listing,
                                         swi_rank_list *out, sw_error *err);
void swi_rank_list_free(swi_rank_list *list);
/* Index of the first file of the rank or of a later one. */
size_t swi_rank_list_first(const swi_rank_list *list, uint64_t rank);
/* As a path_of function for io/filecache. */
const char *swi_rank_list_path(const void *list, uint32_t i);

#endif
