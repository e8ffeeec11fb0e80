/* The parts of a division, for division.c and cut.c. */
#ifndef SW_CONVERT_NOTATION_DIVISION_PARTS_H
#define SW_CONVERT_NOTATION_DIVISION_PARTS_H

#include "notation/division.h"
#include "notation/rules_parts.h"

typedef struct swi_mesh_sizes {
    uint64_t ranks;
    uint64_t size[SWI_MESH_AXES_MAX], stride[SWI_MESH_AXES_MAX];
} swi_mesh_sizes;

/* The numbers of a rule, all of its first dimension that is split. */
typedef struct swi_rule_numbers {
    int64_t *parts, *units;
    sw_error *failure; /* NULL: they are there */
} swi_rule_numbers;

struct swi_division {
    const swi_rules *rules;
    swi_arena arena;
    swi_mesh_sizes *meshes;
    swi_rule_numbers *numbers; /* by rule */
};

#endif
