/* Whether one pattern of names leaves nothing to another: for rules that can never be reached. */
#ifndef SW_CONVERT_NOTATION_PATTERN_COVER_H
#define SW_CONVERT_NOTATION_PATTERN_COVER_H

#include "notation/pattern.h"

/* *out: `by` matches every name that `pattern` matches. May be false where it is too hard to tell.
 */
SW_MUST_USE sw_status swi_pattern_covers(const swi_pattern *by, const swi_pattern *pattern,
                                         bool *out, sw_error *err);

#endif
