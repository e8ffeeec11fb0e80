/*
 * The files that make a model of several: those that an index names, else those of a row of
 * numbered names. What is missing, doubled or left over is said.
 */
#ifndef SW_CONVERT_SHARDS_H
#define SW_CONVERT_SHARDS_H

#include "container/hf_index.h"
#include "framework.h"

/* "model-00002-of-00003.safetensors" -> 2 of 3, stem "model"; false: another name. */
bool swi_shard_numbered(const char *name, const char *suffix, uint64_t *number, uint64_t *of,
                        size_t *stem);

typedef struct swi_shard {
    const char *name; /* in the listing or in the index */
    uint64_t bytes;
    bool missing;
} swi_shard;

typedef struct swi_shards {
    swi_opening *o;
    const char *suffix;       /* ".safetensors" */
    const char *index_suffix; /* ".safetensors.index.json" */
    const char *first_index;  /* of several, the one that is taken */
    bool (*belongs)(const swi_listing_entry *entry);
    swi_hf_index *index; /* NULL: none */
    const char *index_name;
    swi_shard *items;
    size_t count, capacity;
} swi_shards;

/* Fills index and items. Findings: "missing-file", "mixed-files", "stray-file". */
SW_MUST_USE sw_status swi_shards_find(swi_shards *shards, sw_error *err);
/* One file more; its name is borrowed. */
SW_MUST_USE sw_status swi_shards_add(swi_shards *shards, const char *name, uint64_t bytes,
                                     sw_error *err);
/* Numbered files of whole tensors are published with an index: "no-index" when there is none. */
SW_MUST_USE sw_status swi_shards_say_no_index(swi_shards *shards, sw_error *err);
void swi_shards_free(swi_shards *shards);

#endif
