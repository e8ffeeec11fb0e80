/*
 * Fixtures as text: a small assembler of pickles, and archives around them.
 *
 * A recipe is words between blanks:
 *   proto:4  M:module/name (GLOBAL)  G:module/name (STACK_GLOBAL)  'text'  12  -3  1.5f
 *   true false new (NEWOBJ) tuple1 tuple2 tuple3 memo (MEMOIZE) put:N get:N
 *   and single characters for the opcode of that letter: ( ) } ] t u e a s R b N Q .
 */
#ifndef TESTS_FORMAT_RECIPE_H
#define TESTS_FORMAT_RECIPE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/crc32.h"
#include "codec/pickle.h"
#include "codec/zip.h"
#include "harness/harness.h"

#define RECIPE_WORD_MAX 512

static inline void recipe_bytes(swi_buf *out, const void *data, size_t size)
{
    sw_error err = {0};
    assert_ok(swi_buf_append(out, data, size, &err), &err);
}

static inline void recipe_text(swi_buf *out, const char *text, size_t size)
{
    uint8_t head[5] = {'X', (uint8_t)size, (uint8_t)(size >> 8), 0, 0};
    recipe_bytes(out, head, 5);
    recipe_bytes(out, text, size);
}

static inline void recipe_global(swi_buf *out, const char *word)
{
    const char *slash = strchr(word + 2, '/');
    if (slash == NULL)
        fail_msg("recipe: %s", word);
    if (word[0] == 'G') {
        recipe_text(out, word + 2, (size_t)(slash - word - 2));
        recipe_text(out, slash + 1, strlen(slash + 1));
        recipe_bytes(out, "\x93", 1);
        return;
    }
    recipe_bytes(out, "c", 1);
    recipe_bytes(out, word + 2, (size_t)(slash - word - 2));
    recipe_bytes(out, "\n", 1);
    recipe_bytes(out, slash + 1, strlen(slash + 1));
    recipe_bytes(out, "\n", 1);
}

static inline void recipe_number(swi_buf *out, const char *word)
{
    sw_error err = {0};
    char *end;
    swi_pickle_writer w = {.out = out, .protocol = 2};
    if (word[strlen(word) - 1] == 'f') {
        assert_ok(swi_pickle_float(&w, strtod(word, &end), &err), &err);
    } else {
        assert_ok(swi_pickle_int(&w, strtoll(word, &end, 10), &err), &err);
        if (*end != 0)
            fail_msg("recipe: %s", word);
    }
}

static inline void recipe_word(swi_buf *out, const char *word)
{
    static const struct {
        const char *word;
        char op;
    } ops[] = {{"true", '\x88'},   {"false", '\x89'},  {"new", '\x81'}, {"tuple1", '\x85'},
               {"tuple2", '\x86'}, {"tuple3", '\x87'}, {"memo", '\x94'}};
    if (word[0] == '\'') {
        recipe_text(out, word + 1, strlen(word) - 2);
        return;
    }
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        if (strcmp(ops[i].word, word) == 0) {
            recipe_bytes(out, &ops[i].op, 1);
            return;
        }
    uint8_t pair[2] = {0, 0};
    const char *colon = strchr(word, ':');
    if (word[1] == 0 && (word[0] < '0' || word[0] > '9')) {
        recipe_bytes(out, word, 1);
    } else if (word[1] == ':' && (word[0] == 'M' || word[0] == 'G')) {
        recipe_global(out, word);
    } else if (colon != NULL) {
        pair[0] = word[0] == 'g' ? 'h' : word[1] == 'r' ? 0x80 : 'q';
        pair[1] = (uint8_t)strtol(colon + 1, NULL, 10);
        recipe_bytes(out, pair, 2);
    } else {
        recipe_number(out, word);
    }
}

static inline void recipe(swi_buf *out, const char *text)
{
    char word[RECIPE_WORD_MAX];
    while (*(text += strspn(text, " \n")) != 0) {
        size_t size = strcspn(text, " \n");
        if (*text == '\'')
            size = strcspn(text + 1, "'") + 2;
        if (size >= sizeof(word))
            fail_msg("recipe: a word of %zu characters", size);
        memcpy(word, text, size);
        word[size] = 0;
        recipe_word(out, word);
        text += size;
    }
}

/* The text with the first occurrence of `from` replaced; free it. */
static inline char *recipe_swap(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    if (at == NULL)
        fail_msg("recipe: no %s to replace", from);
    size_t before = (size_t)(at - text), size = strlen(text) + strlen(to) + 1;
    char *out = malloc(size);
    snprintf(out, size, "%.*s%s%s", (int)before, text, to, at + strlen(from));
    return out;
}

typedef struct recipe_record {
    const char *name; /* NULL ends the list */
    const void *data;
    size_t size;
    bool no_crc;
} recipe_record;

/* An archive of the records, as torch lays it out. */
static inline void recipe_archive(swi_buf *out, const recipe_record *records)
{
    sw_error err = {0};
    swi_zip_writer *w;
    assert_ok(swi_zip_writer_make(64, &w, &err), &err);
    for (const recipe_record *r = records; r->name != NULL; r++) {
        uint32_t crc = r->no_crc ? 0 : swi_crc32(0, r->data, r->size);
        assert_ok(swi_zip_writer_begin(w, r->name, r->size, out, &err), &err);
        assert_ok(swi_buf_append(out, r->data, r->size, &err), &err);
        assert_ok(swi_zip_writer_end(w, crc, out, &err), &err);
    }
    assert_ok(swi_zip_writer_finish(w, out, &err), &err);
    swi_zip_writer_free(w);
}

/*
 * Whether nothing in the archive covers this byte and nobody reads it (specs/torch_zip.md, ZIP-16):
 * version needed, time and date of a local header; made by, needed, time, date and attributes of a
 * directory entry; made by and needed of the zip64 end record; the number of disks of its locator,
 * of which 0 means the same as 1. And a size of a local header that becomes the true one instead
 * of 0, and the letters of its filler, which make an unknown extra field of another.
 */
static inline bool recipe_uncovered(const uint8_t *archive, size_t size, size_t at)
{
    for (size_t pos = 0; pos + 4 <= size && pos <= at; pos++) {
        const uint8_t *p = archive + pos;
        size_t k = at - pos;
        if (p[0] != 'P' || p[1] != 'K')
            continue;
        if (p[2] == 3 && p[3] == 4 && pos + 30 <= size) {
            size_t extra = 30 + p[26] + 256U * p[27];
            if (k == 4 || k == 5 || (k >= 10 && k < 14) || (k >= 18 && k < 26) || k == extra ||
                k == extra + 1)
                return true;
        }
        if (p[2] == 1 && p[3] == 2 &&
            ((k >= 4 && k < 8) || (k >= 12 && k < 16) || (k >= 36 && k < 42)))
            return true;
        if ((p[2] == 6 && p[3] == 6 && k >= 12 && k < 16) || (p[2] == 6 && p[3] == 7 && k == 16))
            return true;
    }
    return false;
}

#endif
