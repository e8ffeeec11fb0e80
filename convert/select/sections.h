/*
 * Where in a saved state dict a tensor lay: its section ("model", "optimizer", "app.model"; "" at
 * the top), its name there, and so its role. Clauses NAM-n are those of specs/names.md.
 */
#ifndef SW_CONVERT_SECTIONS_H
#define SW_CONVERT_SECTIONS_H

#include "base/buf.h"

/* Deeper state dicts are divided by their first parts. */
#define SWI_PATH_PARTS_MAX 64

/* The path of a leaf in nested dicts and lists: keys as text, positions as decimal text. */
typedef struct swi_path {
    const char *parts[SWI_PATH_PARTS_MAX];
    bool is_index[SWI_PATH_PARTS_MAX];
    size_t count; /* 0: no path is known, only the key */
} swi_path;

typedef struct swi_section {
    swi_buf section, name; /* terminated; reused from call to call */
    sw_role role;
} swi_section;

void swi_section_end(swi_section *s);
/* Divides a path; without one the key is the name and alone tells the role. */
SW_MUST_USE sw_status swi_section_of(const swi_path *path, const char *key, swi_section *out,
                                     sw_error *err);

struct swi_state_part;
/* The same of a leaf of a state dict (framework.h). */
SW_MUST_USE sw_status swi_section_of_leaf(const struct swi_state_part *leaf, swi_section *out,
                                          sw_error *err);

#endif
