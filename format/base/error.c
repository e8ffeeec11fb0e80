#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"

void sw_error_clear(sw_error *err)
{
    if (err != NULL)
        memset(err, 0, sizeof *err);
}

const char *sw_version(void)
{
    return SW_VERSION_STRING;
}

const char *sw_status_name(sw_status status)
{
    static const char *const names[] = {
        [SW_OK] = "OK",
        [SW_ERR_ARG] = "ARG",
        [SW_ERR_NOMEM] = "NOMEM",
        [SW_ERR_LIMIT] = "LIMIT",
        [SW_ERR_IO] = "IO",
        [SW_ERR_NOTFOUND] = "NOTFOUND",
        [SW_ERR_EXISTS] = "EXISTS",
        [SW_ERR_FORMAT] = "FORMAT",
        [SW_ERR_UNSUPPORTED] = "UNSUPPORTED",
        [SW_ERR_CORRUPT] = "CORRUPT",
        [SW_ERR_INCOMPLETE] = "INCOMPLETE",
        [SW_ERR_CONFLICT] = "CONFLICT",
        [SW_ERR_UNSAFE] = "UNSAFE",
        [SW_ERR_UNTRUSTED] = "UNTRUSTED",
        [SW_ERR_CANCELED] = "CANCELED",
    };
    if ((unsigned)status >= sizeof names / sizeof names[0])
        return "UNKNOWN";
    return names[status];
}

/*
 * Arguments may point into err->text (an error that is wrapped), so the text is made beside it and
 * copied last.
 */
static void format_text(char *room, size_t capacity, const char *fmt, va_list args)
{
    int n = vsnprintf(room, capacity, fmt, args);
    if (n < 0)
        room[0] = '\0';
    swi_utf8_trim(room);
}

/* Adds as much of `more` as fits into the room of an error's text. */
static void append_text(char text[SW_ERROR_TEXT_MAX], const char *more)
{
    size_t used = strlen(text);
    size_t size = strlen(more);
    if (size > SW_ERROR_TEXT_MAX - 1 - used)
        size = SW_ERROR_TEXT_MAX - 1 - used;
    memcpy(text + used, more, size);
    text[used + size] = '\0';
}

static void fill(sw_error *err, sw_status status, int sys_errno, const char *text)
{
    sw_error_clear(err);
    err->status = status;
    err->sys_errno = sys_errno;
    append_text(err->text, text);
}

sw_status swi_fail(sw_error *err, sw_status status, const char *fmt, ...)
{
    if (err == NULL)
        return status;
    char text[SW_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    format_text(text, sizeof text, fmt, args);
    va_end(args);
    fill(err, status, 0, text);
    return status;
}

sw_status swi_fail_at(sw_error *err, sw_status status, const char *clause, uint64_t offset_bytes,
                      const char *fmt, ...)
{
    if (err == NULL)
        return status;
    /* Room is kept for the clause, so that a long text cannot push it out. */
    char text[SW_ERROR_TEXT_MAX - sizeof err->clause - 4];
    va_list args;
    va_start(args, fmt);
    format_text(text, sizeof text, fmt, args);
    va_end(args);
    fill(err, status, 0, text);
    err->has_offset = true;
    err->offset_bytes = offset_bytes;
    if (clause != NULL && clause[0] != '\0') {
        (void)snprintf(err->clause, sizeof err->clause, "%s", clause);
        append_text(err->text, " [");
        append_text(err->text, err->clause);
        append_text(err->text, "]");
    }
    return status;
}

/* strerror_r comes in a GNU and a POSIX kind; these two take either. */
__attribute__((unused)) static const char *errno_text_gnu(const char *result, const char *room)
{
    (void)room;
    return result;
}

__attribute__((unused)) static const char *errno_text_posix(int result, const char *room)
{
    return result == 0 ? room : "unknown error";
}

sw_status swi_fail_errno(sw_error *err, int sys_errno, const char *fmt, ...)
{
    if (err == NULL)
        return SW_ERR_IO;
    char why_room[128] = "";
    const char *why = _Generic(strerror_r(sys_errno, why_room, sizeof why_room),
        char *: errno_text_gnu,
        int: errno_text_posix)(strerror_r(sys_errno, why_room, sizeof why_room), why_room);
    /* The reason must survive a long path. */
    char text[SW_ERROR_TEXT_MAX - sizeof why_room - 2];
    va_list args;
    va_start(args, fmt);
    format_text(text, sizeof text, fmt, args);
    va_end(args);
    fill(err, SW_ERR_IO, sys_errno, text);
    append_text(err->text, ": ");
    append_text(err->text, why);
    return SW_ERR_IO;
}

sw_status swi_fail_nomem(sw_error *err)
{
    if (err != NULL)
        fill(err, SW_ERR_NOMEM, ENOMEM, "out of memory");
    return SW_ERR_NOMEM;
}

sw_status swi_error_prefix(sw_error *err, const char *fmt, ...)
{
    if (err == NULL)
        return SW_OK;
    if (err->status == SW_OK)
        return SW_OK;
    char text[SW_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    format_text(text, sizeof text, fmt, args);
    va_end(args);
    append_text(text, ": ");
    append_text(text, err->text);
    swi_utf8_trim(text);
    memcpy(err->text, text, sizeof text);
    return err->status;
}

bool swi_error_of_machine(const sw_error *err)
{
    bool forbidden = err->sys_errno == EACCES || err->sys_errno == EPERM;
    return err->status == SW_ERR_NOMEM || err->status == SW_ERR_CANCELED ||
           (err->status == SW_ERR_IO && !forbidden);
}

bool swi_could_not_work(sw_status status)
{
    return status == SW_ERR_NOMEM || status == SW_ERR_IO || status == SW_ERR_LIMIT;
}

void swi_error_shift(sw_error *err, uint64_t base_offset_bytes)
{
    if (err == NULL || !err->has_offset)
        return;
    if (!swi_add_u64(err->offset_bytes, base_offset_bytes, &err->offset_bytes))
        err->offset_bytes = UINT64_MAX;
}
