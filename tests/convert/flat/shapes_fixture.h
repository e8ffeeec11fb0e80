/* Shapes as lines of text, and a module to take them from. */
#ifndef TESTS_CONVERT_FLAT_SHAPES_FIXTURE_H
#define TESTS_CONVERT_FLAT_SHAPES_FIXTURE_H

#include "convert/torch_fixture.h"

#include "flat/shapes_parts.h"

static inline char *in(void **state, const char *name)
{
    return harness_path(*state, "%s", name);
}

/* "NAME [2,3] buffer maybe = OWNER", a line each; what is said of all of them at the end. */
static inline char *show(const swi_shapes *s)
{
    swi_buf out = {0};
    sw_error err = {0};
    for (size_t i = 0; i < s->count; i++) {
        const swi_shape *t = &s->items[i];
        assert_int_equal(swi_shapes_find(s, t->name), i);
        assert_ok(swi_buf_printf(&out, &err, "%s [", t->name), &err);
        for (uint32_t k = 0; k < t->axes; k++)
            assert_ok(
                swi_buf_printf(&out, &err, "%s%lld", k > 0 ? "," : "", (long long)t->shape[k]),
                &err);
        assert_ok(swi_buf_printf(&out, &err, "]%s%s%s%s\n", t->buffer ? " buffer" : "",
                                 t->may_be ? " maybe" : "", t->tied_to >= 0 ? " = " : "",
                                 t->tied_to >= 0 ? s->items[t->tied_to].name : ""),
                  &err);
        assert_true(t->tied_to < (int64_t)i);
    }
    if (!s->ordered)
        assert_ok(swi_buf_printf(&out, &err, "unordered: %s\n", s->unordered), &err);
    if (s->has_units)
        assert_ok(swi_buf_append_str(&out, "units:", &err), &err);
    for (size_t i = 0; i < s->unit_count; i++)
        assert_ok(swi_buf_printf(&out, &err, " %s", swi_pattern_text(s->units[i])), &err);
    if (s->has_units)
        assert_ok(swi_buf_append_str(&out, "\n", &err), &err);
    if (s->use_orig_params >= 0)
        assert_ok(swi_buf_printf(&out, &err, "original: %d\n", s->use_orig_params), &err);
    if (s->align > 0)
        assert_ok(swi_buf_printf(&out, &err, "align: %u\n", s->align), &err);
    assert_ok(swi_buf_u8(&out, 0, &err), &err);
    return (char *)out.data;
}

static inline void assert_shows(swi_shapes *s, const char *expected)
{
    char *shown = show(s);
    assert_string_equal(shown, expected);
    assert_int_equal(swi_shapes_find(s, "no such name"), -1);
    free(shown);
    swi_shapes_free(s);
}

static inline void assert_reads(const char *path, const char *map, const char *expected)
{
    swi_shapes *s = NULL;
    sw_error err = {0};
    assert_ok(swi_shapes_read(path, map, NULL, &s, &err), &err);
    assert_shows(s, expected);
}

static inline void assert_no_read(const char *path, const char *map, sw_status status,
                                  const char *says)
{
    swi_shapes *s = NULL;
    sw_error err = {0};
    assert_int_equal(swi_shapes_read(path, map, NULL, &s, &err), status);
    assert_error(&err, status, says);
    assert_contains(err.text, "--shapes: ");
    assert_null(s);
}

static inline sw_status parse(const char *text, swi_shapes **out, sw_error *err)
{
    const swi_shapes_ask ask = {.alone = true};
    return swi_shapes_parse(text, strlen(text), "s.yaml", &ask, out, err);
}

static const int64_t two_three[] = {2, 3}, three[] = {3}, one[] = {1};

/* In an order that is not that of names; a tie, a slice, an integer and a second view. */
static inline void say_module(torch_world *w, const char *prefix)
{
    static const float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const int64_t step[] = {5};
    static const int64_t row[] = {3, 1};
    char key[64];
    size_t s = torch_storage(w, "FloatStorage", 4, data, sizeof data);
    snprintf(key, sizeof key, "%sz.w", prefix);
    torch_key(w, key);
    torch_view(w, s, 0, 2, two_three, row);
    snprintf(key, sizeof key, "%sa.w", prefix);
    torch_ramp(w, key, 2, two_three, 7);
    snprintf(key, sizeof key, "%sa.count", prefix);
    torch_key(w, key);
    torch_view(w, torch_storage(w, "LongStorage", 8, step, 8), 0, 1, one, one);
    snprintf(key, sizeof key, "%spart", prefix);
    torch_key(w, key);
    torch_view(w, s, 0, 1, three, one);
    snprintf(key, sizeof key, "%shead.w", prefix);
    torch_key(w, key);
    torch_view(w, s, 0, 2, two_three, row);
}

static inline void write_module(const char *path, const char *prefix)
{
    torch_world *w = torch_begin(false);
    torch_say(w, "} (");
    say_module(w, prefix);
    torch_say(w, "u");
    torch_write_zip(w, path, NULL);
    torch_free(w);
}

#define MODULE                                                                                     \
    "z.w [2,3] maybe\na.w [2,3] maybe\na.count [1] buffer\npart [3] maybe\n"                       \
    "head.w [2,3] maybe = z.w\n"

#endif
