#include "codec/pickle_machine.h"

#include <string.h>

#include "base/error.h"
#include "base/text.h"

sw_status swi_pickle_begin(swi_pickle_writer *w, swi_buf *out, int protocol, sw_error *err)
{
    if (protocol != 2 && protocol != 4)
        return swi_fail(err, SW_ERR_ARG, "pickle: protocol %d cannot be written, only 2 and 4",
                        protocol);
    *w = (swi_pickle_writer){.out = out, .protocol = protocol};
    const uint8_t proto[2] = {0x80, (uint8_t)protocol};
    return swi_buf_append(out, proto, sizeof proto, err);
}

sw_status swi_pickle_op(swi_pickle_writer *w, char opcode, sw_error *err)
{
    return swi_buf_u8(w->out, (uint8_t)opcode, err);
}

/* An opcode and an argument of `size` bytes, little-endian. */
static sw_status put_number(swi_pickle_writer *w, char opcode, uint64_t v, size_t size,
                            sw_error *err)
{
    uint8_t bytes[9];
    bytes[0] = (uint8_t)opcode;
    for (size_t i = 0; i < size; i++)
        bytes[1 + i] = (uint8_t)(v >> 8 * i);
    return swi_buf_append(w->out, bytes, 1 + size, err);
}

sw_status swi_pickle_int(swi_pickle_writer *w, int64_t v, sw_error *err)
{
    if (v >= 0 && v <= UINT8_MAX)
        return put_number(w, 'K', (uint64_t)v, 1, err);
    if (v >= 0 && v <= UINT16_MAX)
        return put_number(w, 'M', (uint64_t)v, 2, err);
    if (v >= INT32_MIN && v <= INT32_MAX)
        return put_number(w, 'J', (uint64_t)v, 4, err);
    /* LONG1: as few bytes as hold the sign too. */
    size_t size = sizeof v;
    while (size > 1 && v >> (8 * (size - 1) - 1) == (v < 0 ? -1 : 0))
        size--;
    uint8_t bytes[2 + sizeof v] = {0x8a, (uint8_t)size};
    for (size_t i = 0; i < size; i++)
        bytes[2 + i] = (uint8_t)((uint64_t)v >> 8 * i);
    return swi_buf_append(w->out, bytes, 2 + size, err);
}

sw_status swi_pickle_float(swi_pickle_writer *w, double v, sw_error *err)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return put_number(w, 'G', __builtin_bswap64(bits), sizeof bits, err);
}

sw_status swi_pickle_str(swi_pickle_writer *w, const void *text, size_t size, sw_error *err)
{
    if (size > UINT32_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "pickle: a text of %zu bytes cannot be written", size);
    sw_status status = swi_buf_reserve(w->out, 5 + size, err);
    if (status != SW_OK)
        return status;
    bool is_short = w->protocol >= 4 && size <= UINT8_MAX;
    status = put_number(w, is_short ? (char)0x8c : 'X', size, is_short ? 1 : 4, err);
    return status != SW_OK ? status : swi_buf_append(w->out, text, size, err);
}

/* Protocol 2 is Python 2's: these modules had other names there, and Python 3 maps them back. */
static const char *old_module(const char *module)
{
    if (strcmp(module, "builtins") == 0)
        return "__builtin__";
    if (strcmp(module, "copyreg") == 0)
        return "copy_reg";
    return module;
}

sw_status swi_pickle_global(swi_pickle_writer *w, const char *module, const char *name,
                            sw_error *err)
{
    sw_status status;
    if (w->protocol >= 4) {
        status = swi_pickle_str(w, module, strlen(module), err);
        if (status == SW_OK)
            status = swi_pickle_str(w, name, strlen(name), err);
        return status != SW_OK ? status : swi_pickle_op(w, (char)0x93, err);
    }
    if (strchr(module, '\n') != NULL || strchr(name, '\n') != NULL)
        return swi_fail(err, SW_ERR_UNSUPPORTED, "pickle: a global's name with a line break");
    const char *read_module = old_module(module), *read_name = name;
    swi_pm_move_global(&read_module, &read_name);
    if (strcmp(read_module, module) != 0 || strcmp(read_name, name) != 0) {
        swi_quoted quoted_module, quoted_name;
        return swi_fail(err, SW_ERR_UNSUPPORTED, "pickle: protocol 2 has no name for %s.%s",
                        swi_quote_str(&quoted_module, module), swi_quote_str(&quoted_name, name));
    }
    return swi_buf_printf(w->out, err, "c%s\n%s\n", old_module(module), name);
}

sw_status swi_pickle_put(swi_pickle_writer *w, uint32_t *memo, sw_error *err)
{
    uint32_t number = w->memo_count;
    sw_status status = w->protocol >= 4      ? swi_pickle_op(w, (char)0x94, err)
                       : number <= UINT8_MAX ? put_number(w, 'q', number, 1, err)
                                             : put_number(w, 'r', number, 4, err);
    if (status != SW_OK)
        return status;
    w->memo_count++;
    *memo = number;
    return SW_OK;
}

sw_status swi_pickle_get(swi_pickle_writer *w, uint32_t memo, sw_error *err)
{
    if (memo >= w->memo_count)
        return swi_fail(err, SW_ERR_ARG, "pickle: memo %u is not set", memo);
    return memo <= UINT8_MAX ? put_number(w, 'h', memo, 1, err) : put_number(w, 'j', memo, 4, err);
}
