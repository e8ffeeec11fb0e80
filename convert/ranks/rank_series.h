/*
 * Series of files that ranks wrote, known by their names alone: `model_world_size_4_rank_0.pt`,
 * `optim_world_size_4_rank_0.pt` (verl), `pytorch_model_fsdp_0_rank3.bin` (accelerate), any name of
 * torch.save's with "rank" and a number. Clauses RS-n are those of specs/rank_files.md.
 */
#ifndef SW_CONVERT_RANK_SERIES_H
#define SW_CONVERT_RANK_SERIES_H

#include "base/arena.h"
#include "framework.h"

#define SWI_RANK_CONFIG "fsdp_config.json"

/* Where the numbers of a name are. */
typedef struct swi_series_name {
    uint64_t rank, world;        /* world 0: the name does not tell */
    size_t rank_at, rank_digits; /* in the name */
    size_t cut_at, cut_size;     /* what tells rank and world: the rest names the series */
} swi_series_name;

/* RS-1; false: no file of a rank. */
bool swi_series_name_parse(const char *name, swi_series_name *out);
/*
 * The rank of the file of the same series that this one was saved as (swi_torch_saved_as: its name
 * then, without the suffix and with a '/'); -1: nothing tells.
 */
int64_t swi_series_saved_rank(const char *name, const char *saved_as);
/* Whether such files are there, and no model beside them that is whole: that is what counts. */
bool swi_rank_series_any(const swi_listing *listing);

typedef struct swi_series_file {
    const char *name; /* in the listing */
    uint64_t rank;
} swi_series_file;

typedef struct swi_rank_series {
    const char *pattern; /* "model_world_size_4_rank_{R}.pt" */
    const char *item;    /* under which its objects go in the state dict; NULL: they are the root */
    sw_role role;        /* OTHER: what ranks have for themselves; PARAMETER: the root too */
    uint64_t world;      /* that its names tell; 0: none */
    swi_series_file *files; /* by rank, each once */
    size_t count, capacity;
} swi_rank_series;

typedef struct swi_rank_folder {
    swi_rank_series *series; /* models first, then optimizers, then others */
    size_t count, capacity;
    uint64_t world;
    int64_t fsdp_version; /* of fsdp_config.json; -1: not told */
    swi_arena arena;
} swi_rank_folder;

/*
 * The series of the opening's folder, and their world size. Findings: "missing-file" (of ranks),
 * "duplicate-rank", "stale-file", "other-world". SW_ERR_CONFLICT: files of several world sizes lie
 * there and nothing tells which are meant; SW_ERR_INCOMPLETE: there is no such file.
 */
SW_MUST_USE sw_status swi_rank_folder_find(swi_opening *o, swi_rank_folder *out, sw_error *err);
void swi_rank_folder_free(swi_rank_folder *folder);

#endif
