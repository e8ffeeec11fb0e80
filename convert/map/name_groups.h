/*
 * Many names as few lines: names that differ in a number alone become one
 * ("layers.{20-23}.norm.weight"), and a numbered part below which all names are chosen stands for
 * them ("layers.{20-23}.**").
 */
#ifndef SW_CONVERT_MAP_NAME_GROUPS_H
#define SW_CONVERT_MAP_NAME_GROUPS_H

#include "base/arena.h"

typedef struct swi_name_in {
    const char *name;
    bool chosen;       /* to be in a group; others only tell that a part is not chosen whole */
    uint32_t kind;     /* names of different kinds share no group */
    uint64_t elements; /* of its tensor */
} swi_name_in;

typedef struct swi_name_group {
    const char *text;
    const char *first; /* of the names; borrowed */
    uint32_t kind;
    uint64_t count, elements;
} swi_name_group;

typedef struct swi_name_groups {
    swi_name_group *items; /* in the order of their first names */
    size_t count;
    swi_arena arena;
} swi_name_groups;

/* The names are distinct. `whole`: parts may stand for all below them. */
SW_MUST_USE sw_status swi_name_groups_make(const swi_name_in *names, size_t count, bool whole,
                                           swi_name_groups *out, sw_error *err);
void swi_name_groups_free(swi_name_groups *groups); /* ends with {0} */

#endif
