/* The JSON reader, as events and skipping. First byte: depth limit, and whether Python's NaN
 * passes. */
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "codec/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const swi_json_event *event)
{
    if ((event->kind == SWI_JSON_KEY || event->kind == SWI_JSON_STRING) &&
        !swi_utf8_valid(event->text, event->size))
        __builtin_trap();
}

static void walk(const uint8_t *data, size_t size, const sw_limits *limits, bool nonfinite)
{
    swi_json_reader *reader = NULL;
    sw_error err = {0};
    if (swi_json_reader_make(data, size, limits, &reader, &err) != SW_OK)
        return;
    if (nonfinite)
        swi_json_allow_nonfinite(reader);
    swi_json_event event = {.kind = SWI_JSON_NULL};
    sw_status status = SW_OK;
    /* Skips every other value of a key. */
    for (size_t n = 0; status == SW_OK && event.kind != SWI_JSON_DONE; n++) {
        status = swi_json_next(reader, &event, &err);
        if (status != SW_OK)
            break;
        check_text(&event);
        if (event.kind == SWI_JSON_KEY && n % 2 == 0)
            status = swi_json_skip(reader, &err);
    }
    if (status != SW_OK && (!err.has_offset || err.offset_bytes > size))
        __builtin_trap();
    swi_json_reader_free(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const sw_limits limits = {.depth = data[0] >> 1};
    walk(data + 1, size - 1, &limits, (data[0] & 1) != 0);
    return 0;
}
