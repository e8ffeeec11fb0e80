/* Comparing values that are not tensors. */
#ifndef SW_CONVERT_DIFF_VALUE_H
#define SW_CONVERT_DIFF_VALUE_H

#include "framework.h"

typedef struct swi_value_difference {
    bool equal;
    char *a, *b; /* the texts around the first difference, shortened; NULL when equal */
} swi_value_difference;

/* By their texts (sw_value_text), which show every part of a value; of tensors only that they are
 * there. */
SW_MUST_USE sw_status swi_diff_value(const sw_checkpoint *a, uint32_t value_a,
                                     const sw_checkpoint *b, uint32_t value_b,
                                     swi_value_difference *out, sw_error *err);
void swi_value_difference_free(swi_value_difference *difference);

#endif
