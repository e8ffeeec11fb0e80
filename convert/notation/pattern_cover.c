#include "notation/pattern_cover.h"

#include <string.h>

sw_status swi_pattern_covers(const swi_pattern *by, const swi_pattern *pattern, bool *out,
                             sw_error *err)
{
    const char *name;
    (void)err;
    *out = strcmp(swi_pattern_text(by), "**") == 0 ||
           strcmp(swi_pattern_text(by), swi_pattern_text(pattern)) == 0 ||
           (swi_pattern_is_name(pattern, &name) && swi_pattern_match(by, name, strlen(name), NULL));
    return SW_OK;
}
