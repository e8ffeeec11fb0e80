/*
 * A set of distinct strings with small ids, in order of first use. Open addressing over SipHash
 * with a per-table key, so that chosen names cannot make it slow; as long as strings come in
 * ascending order (swi_bytes_order), as those of a sorted table do, none is hashed and they are
 * found by bisecting. Not shared by threads while it grows.
 */
#ifndef SW_BASE_NAMES_H
#define SW_BASE_NAMES_H

#include "base/arena.h"

typedef struct swi_names swi_names;

SW_MUST_USE sw_status swi_names_make(swi_names **out, sw_error *err);
void swi_names_free(swi_names *names);
/* The id of the string; *is_new (may be NULL) says whether it was added now. Bytes are copied. */
SW_MUST_USE sw_status swi_names_add(swi_names *names, const void *text, size_t size, uint32_t *id,
                                    bool *is_new, sw_error *err);

/*
 * Strings one behind the other, each with a 0 behind it: string i and its 0 end at ends[4 i] (32
 * bits, little-endian) of the text.
 */
typedef struct swi_name_list {
    const char *text;
    const uint8_t *ends;
    uint32_t count;
} swi_name_list;
/*
 * A list into an empty set, each with its number as id: it is borrowed and must outlive the set.
 * That it ascends (swi_bytes_order) is what the caller knows. More strings may be added behind it.
 */
SW_MUST_USE sw_status swi_names_borrow(swi_names *names, const swi_name_list *list, sw_error *err);

/* The id, or -1. */
int64_t swi_names_find(const swi_names *names, const void *text, size_t size);
uint32_t swi_names_count(const swi_names *names);
/* Terminated; borrowed. The size without the terminator in *size (may be NULL). */
const char *swi_names_at(const swi_names *names, uint32_t id, size_t *size);
uint64_t swi_names_memory(const swi_names *names);
/* Keeps strings and lookups but gives back spare memory. */
void swi_names_trim(swi_names *names);

#endif
