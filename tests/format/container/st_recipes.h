/* A safetensors file from a recipe in text: its header, how many data bytes follow, and what else
 * is done to it. '^' in a header marks the position that an error must name; it is left out. */
#ifndef TESTS_FORMAT_ST_RECIPES_H
#define TESTS_FORMAT_ST_RECIPES_H

#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "container/safetensors.h"
#include "format/mem_reader.h"

typedef struct recipe {
    const char *name;
    const char *header;
    uint64_t data; /* bytes after the header */
    sw_status status;
    const char *clause;
    int64_t at; /* position of the error in the data, where the header has no mark */
    const char *text;
} recipe;

typedef struct made {
    uint8_t *bytes;
    size_t size;
    int64_t mark; /* position of '^' in the file, or -1 */
} made;

static inline void put_length(uint8_t *to, uint64_t n)
{
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(n >> (8 * i));
}

/* Data byte i is i, so that a wrong place shows. An exact allocation. */
static inline made make_st(const char *header, uint64_t data)
{
    made m = {.mark = -1};
    const char *mark = strchr(header, '^');
    size_t n = strlen(header) - (mark != NULL);
    m.size = 8 + n + (size_t)data;
    m.bytes = malloc(m.size);
    assert_non_null(m.bytes);
    put_length(m.bytes, n);
    size_t before = mark != NULL ? (size_t)(mark - header) : n;
    memcpy(m.bytes + 8, header, before);
    if (mark != NULL) {
        m.mark = (int64_t)(8 + before);
        memcpy(m.bytes + 8 + before, mark + 1, n - before);
    }
    for (size_t i = 0; i < data; i++)
        m.bytes[8 + n + i] = (uint8_t)i;
    return m;
}

static inline sw_status open_bytes(const void *bytes, size_t size, const sw_limits *limits,
                                   swi_st **out, sw_error *err)
{
    mem_reader reader;
    mem_reader_init(&reader, bytes, size);
    reader.pub.limits = sw_limits_resolve(limits);
    sw_status status = swi_st_open(&reader.pub, 0, size, out, err);
    mem_reader_end(&reader);
    return status;
}

static inline swi_st *open_good(const char *header, uint64_t data)
{
    made m = make_st(header, data);
    swi_st *st = NULL;
    sw_error err = {0};
    assert_ok(open_bytes(m.bytes, m.size, NULL, &st, &err), &err);
    free(m.bytes);
    return st;
}

static inline void assert_refused(const char *name, const void *bytes, size_t size,
                                  const sw_limits *limits, sw_status status, const char *clause,
                                  int64_t at, const char *text)
{
    swi_st *st = NULL;
    sw_error err = {0};
    sw_status got = open_bytes(bytes, size, limits, &st, &err);
    if (got != status || strcmp(err.clause, clause) != 0 ||
        (at >= 0 && (!err.has_offset || (int64_t)err.offset_bytes != at)))
        print_error("%s: %s \"%s\" at %lld, wanted %s at %lld\n", name, sw_status_name(got),
                    err.text, (long long)err.offset_bytes, clause, (long long)at);
    assert_error(&err, status, text);
    assert_int_equal(got, status);
    assert_string_equal(err.clause, clause);
    assert_null(st);
    if (at >= 0)
        assert_int_equal(err.offset_bytes, at);
}

#endif
