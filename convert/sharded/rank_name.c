#include "sharded/rank_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A number of `width` digits at least, with leading zeros only to reach those. */
static bool take_number(const char **name, size_t width, uint64_t *out)
{
    const char *p = *name;
    size_t n = 0;
    uint64_t value = 0;
    for (; is_digit(p[n]); n++) {
        if (n == SWI_RANK_DIGITS_MAX)
            return false;
        value = value * 10 + (uint64_t)(p[n] - '0');
    }
    if (n < width || (n > width && p[0] == '0'))
        return false;
    *name = p + n;
    *out = value;
    return true;
}

static uint64_t *number_of(char mark, swi_rank_name *numbers)
{
    return mark == 'p' ? &numbers->part : mark == 's' ? &numbers->stage : &numbers->rank;
}

bool swi_rank_name_parse(const char *pattern, const char *name, swi_rank_name *out)
{
    swi_rank_name found = {0};
    for (; *pattern != '\0'; pattern++) {
        if (*pattern != '%') {
            if (*name++ != *pattern)
                return false;
            continue;
        }
        pattern++;
        if (!take_number(&name, *pattern == 'R' ? 2 : 1, number_of(*pattern, &found)))
            return false;
    }
    if (*name != '\0')
        return false;
    *out = found;
    return true;
}

void swi_rank_name_print(const char *pattern, const swi_rank_name *numbers,
                         char out[SWI_RANK_NAME_BYTES])
{
    swi_rank_name from = *numbers;
    size_t used = 0;
    for (; *pattern != '\0' && used + 1 < SWI_RANK_NAME_BYTES; pattern++) {
        if (*pattern != '%') {
            out[used++] = *pattern;
            continue;
        }
        pattern++;
        int n = snprintf(out + used, SWI_RANK_NAME_BYTES - used, "%0*" PRIu64,
                         *pattern == 'R' ? 2 : 1, *number_of(*pattern, &from));
        used += n > 0 ? (size_t)n : 0;
    }
    out[used < SWI_RANK_NAME_BYTES ? used : SWI_RANK_NAME_BYTES - 1] = '\0';
}
