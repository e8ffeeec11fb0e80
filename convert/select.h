/*
 * What goes into a weights target and under which names: the model's section of the saved state
 * dict, wrapper parts off, filters applied, ties resolved.
 */
#ifndef SW_CONVERT_SELECT_H
#define SW_CONVERT_SELECT_H

#include "base/arena.h"
#include "framework.h"

typedef struct swi_selection {
    swi_chosen *items; /* in natural order of names, distinct */
    size_t count;
    const char *section; /* that was chosen; "" for the top */
    uint64_t dropped, optimizer, other, tied;
    swi_arena arena;
} swi_selection;

/*
 * SW_ERR_CONFLICT: several sections could be the model, or two names become one. The status of a
 * chosen tensor's defect when it is damaged. SW_ERR_ARG when nothing is left.
 */
SW_MUST_USE sw_status swi_select(const sw_checkpoint *checkpoint, const sw_convert_options *options,
                                 sw_report *report, swi_selection *out, sw_error *err);
void swi_selection_free(swi_selection *selection);

#endif
