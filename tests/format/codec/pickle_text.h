/*
 * A pickle assembler for tests: opcodes by name with their arguments, so that fixtures are text.
 *
 *   PROTO 4 ; EMPTY_LIST ; MEMOIZE ; MARK ; BININT1 7 ; SHORT_BINUNICODE 'abc' ; APPENDS ; STOP
 *
 * Numbers take as many bytes as the opcode says; counted text gets its count; lines their '\n'.
 * In quotes \xNN is a byte and \n, \\, \' as in C. `raw 80 04` puts bytes as they are.
 */
#ifndef TESTS_PICKLE_TEXT_H
#define TESTS_PICKLE_TEXT_H

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* What follows an opcode: nothing, a number of n bytes, a float, text with a count of n bytes, one
 * or two lines. */
enum { ARG_NONE = 0, ARG_NUMBER, ARG_FLOAT, ARG_COUNTED, ARG_LINE, ARG_LINES };

static const struct pickle_mnemonic {
    const char *name;
    uint8_t code;
    uint8_t arg;
    uint8_t bytes;
} pickle_mnemonics[] = {
    {"MARK", '(', 0, 0},
    {"STOP", '.', 0, 0},
    {"POP", '0', 0, 0},
    {"POP_MARK", '1', 0, 0},
    {"DUP", '2', 0, 0},
    {"FLOAT", 'F', ARG_LINE, 0},
    {"INT", 'I', ARG_LINE, 0},
    {"BININT", 'J', ARG_NUMBER, 4},
    {"BININT1", 'K', ARG_NUMBER, 1},
    {"LONG", 'L', ARG_LINE, 0},
    {"BININT2", 'M', ARG_NUMBER, 2},
    {"NONE", 'N', 0, 0},
    {"PERSID", 'P', ARG_LINE, 0},
    {"BINPERSID", 'Q', 0, 0},
    {"REDUCE", 'R', 0, 0},
    {"STRING", 'S', ARG_LINE, 0},
    {"BINSTRING", 'T', ARG_COUNTED, 4},
    {"SHORT_BINSTRING", 'U', ARG_COUNTED, 1},
    {"UNICODE", 'V', ARG_LINE, 0},
    {"BINUNICODE", 'X', ARG_COUNTED, 4},
    {"APPEND", 'a', 0, 0},
    {"BUILD", 'b', 0, 0},
    {"GLOBAL", 'c', ARG_LINES, 0},
    {"DICT", 'd', 0, 0},
    {"EMPTY_DICT", '}', 0, 0},
    {"APPENDS", 'e', 0, 0},
    {"GET", 'g', ARG_LINE, 0},
    {"BINGET", 'h', ARG_NUMBER, 1},
    {"INST", 'i', ARG_LINES, 0},
    {"LONG_BINGET", 'j', ARG_NUMBER, 4},
    {"LIST", 'l', 0, 0},
    {"EMPTY_LIST", ']', 0, 0},
    {"OBJ", 'o', 0, 0},
    {"PUT", 'p', ARG_LINE, 0},
    {"BINPUT", 'q', ARG_NUMBER, 1},
    {"LONG_BINPUT", 'r', ARG_NUMBER, 4},
    {"SETITEM", 's', 0, 0},
    {"TUPLE", 't', 0, 0},
    {"EMPTY_TUPLE", ')', 0, 0},
    {"SETITEMS", 'u', 0, 0},
    {"BINFLOAT", 'G', ARG_FLOAT, 8},
    {"BINBYTES", 'B', ARG_COUNTED, 4},
    {"SHORT_BINBYTES", 'C', ARG_COUNTED, 1},
    {"PROTO", 0x80, ARG_NUMBER, 1},
    {"NEWOBJ", 0x81, 0, 0},
    {"EXT1", 0x82, ARG_NUMBER, 1},
    {"EXT2", 0x83, ARG_NUMBER, 2},
    {"EXT4", 0x84, ARG_NUMBER, 4},
    {"TUPLE1", 0x85, 0, 0},
    {"TUPLE2", 0x86, 0, 0},
    {"TUPLE3", 0x87, 0, 0},
    {"NEWTRUE", 0x88, 0, 0},
    {"NEWFALSE", 0x89, 0, 0},
    {"LONG1", 0x8a, ARG_COUNTED, 1},
    {"LONG4", 0x8b, ARG_COUNTED, 4},
    {"SHORT_BINUNICODE", 0x8c, ARG_COUNTED, 1},
    {"BINUNICODE8", 0x8d, ARG_COUNTED, 8},
    {"BINBYTES8", 0x8e, ARG_COUNTED, 8},
    {"EMPTY_SET", 0x8f, 0, 0},
    {"ADDITEMS", 0x90, 0, 0},
    {"FROZENSET", 0x91, 0, 0},
    {"NEWOBJ_EX", 0x92, 0, 0},
    {"STACK_GLOBAL", 0x93, 0, 0},
    {"MEMOIZE", 0x94, 0, 0},
    {"FRAME", 0x95, ARG_NUMBER, 8},
    {"BYTEARRAY8", 0x96, ARG_COUNTED, 8},
    {"NEXT_BUFFER", 0x97, 0, 0},
    {"READONLY_BUFFER", 0x98, 0, 0},
};

#define PICKLE_MNEMONICS (sizeof pickle_mnemonics / sizeof pickle_mnemonics[0])

static inline void pickle_put(swi_buf *out, const void *data, size_t size)
{
    sw_error err;
    if (swi_buf_append(out, data, size, &err) != SW_OK)
        abort();
}

static inline void pickle_number(swi_buf *out, long long v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        uint8_t byte = (uint8_t)((unsigned long long)v >> 8 * i);
        pickle_put(out, &byte, 1);
    }
}

/* A word, or what stands in single quotes, with escapes undone. */
static inline void pickle_word(const char **text, swi_buf *out)
{
    const char *p = *text + strspn(*text, " ");
    bool quoted = *p == '\'';
    p += quoted;
    while (*p != '\0' && (quoted ? *p != '\'' : !isspace((unsigned char)*p) && *p != ';')) {
        char c = *p++;
        if (quoted && c == '\\') {
            c = *p++;
            if (c == 'x') {
                char hex[3] = {p[0], p[1], 0};
                c = (char)strtoul(hex, NULL, 16);
                p += 2;
            } else if (c == 'n') {
                c = '\n';
            }
        }
        pickle_put(out, &c, 1);
    }
    *text = p + quoted;
}

static inline void pickle_argument(const char **text, const struct pickle_mnemonic *op,
                                   swi_buf *out)
{
    swi_buf word = {0};
    if (op->arg == ARG_NONE)
        return;
    pickle_word(text, &word);
    if (op->arg == ARG_COUNTED) {
        pickle_number(out, (long long)word.size, op->bytes);
    } else if (op->arg == ARG_NUMBER || op->arg == ARG_FLOAT) {
        pickle_put(&word, "", 1);
        long long v = strtoll((const char *)word.data, NULL, 0);
        double real = strtod((const char *)word.data, NULL);
        if (op->arg == ARG_FLOAT)
            memcpy(&v, &real, sizeof v);
        pickle_number(out, op->arg == ARG_FLOAT ? (long long)__builtin_bswap64((uint64_t)v) : v,
                      op->bytes);
        word.size = 0;
    }
    pickle_put(out, word.data, word.size);
    if (op->arg == ARG_LINE || op->arg == ARG_LINES)
        pickle_put(out, "\n", 1);
    if (op->arg == ARG_LINES) {
        word.size = 0;
        pickle_word(text, &word);
        pickle_put(out, word.data, word.size);
        pickle_put(out, "\n", 1);
    }
    swi_buf_free(&word);
}

/* Appends the pickle that the text describes. An unknown mnemonic aborts the test. */
static inline void pickle_assemble(const char *text, swi_buf *out)
{
    for (;;) {
        text += strspn(text, " ;\n");
        if (*text == '\0')
            return;
        size_t size = strcspn(text, " ;\n");
        if (size == 3 && memcmp(text, "raw", 3) == 0) {
            text += 3 + strspn(text + 3, " ");
            for (char *end; isxdigit((unsigned char)*text); text = end + strspn(end, " "))
                pickle_number(out, strtol(text, &end, 16), 1);
            continue;
        }
        const struct pickle_mnemonic *op = NULL;
        for (size_t i = 0; i < PICKLE_MNEMONICS; i++) {
            if (strlen(pickle_mnemonics[i].name) == size &&
                memcmp(pickle_mnemonics[i].name, text, size) == 0)
                op = &pickle_mnemonics[i];
        }
        if (op == NULL)
            abort();
        text += size;
        pickle_put(out, &op->code, 1);
        pickle_argument(&text, op, out);
    }
}

#endif
