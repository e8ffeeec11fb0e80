#include "notation/lex.h"

#include <inttypes.h>
#include <string.h>

sw_status swi_lex_check(const swi_lex_kind *kind, const char *text, size_t size, sw_error *err)
{
    if (size > kind->max_bytes)
        return swi_fail_at(err, SW_ERR_LIMIT, kind->limits, kind->max_bytes,
                           "%s of more than %" PRIu32 " bytes", kind->what, kind->max_bytes);
    const char *nul = size > 0 ? memchr(text, '\0', size) : NULL;
    if (nul != NULL)
        return swi_fail_at(err, SW_ERR_FORMAT, kind->syntax, (uint64_t)(nul - text), "a NUL byte");
    return SW_OK;
}

bool swi_is_decimal(char ch)
{
    return ch >= '0' && ch <= '9';
}

static bool is_letter(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_';
}

size_t swi_lex_name(const char *text)
{
    size_t size = 0;
    while (is_letter(text[size]) || (size > 0 && swi_is_decimal(text[size])))
        size++;
    return size;
}

size_t swi_lex_blanks(const char *text)
{
    return strspn(text, " \t");
}
