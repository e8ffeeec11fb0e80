/* Foreign text: valid UTF-8 or not, made fit to print, matched against patterns. */
#include "harness/harness.h"

#include <string.h>

#include "base/text.h"

static void test_utf8(void **state)
{
    (void)state;
    static const char *const good[] = {"",
                                       "plain ascii, long enough for words",
                                       "\xc3\xa4",
                                       "\xe2\x82\xac",
                                       "\xf0\x9f\x92\xa9",
                                       "\xed\x9f\xbf",
                                       "\xf4\x8f\xbf\xbf",
                                       "12345678\xc3\xa4"};
    static const char *const bad[] = {
        "\x80",             /* a lone continuation */
        "\xc3",             /* cut */
        "12345678\xc3",     /* cut after a whole word */
        "\xc0\xaf",         /* longer than needed */
        "\xe0\x80\x80",     /* longer than needed */
        "\xf0\x80\x80\x80", /* longer than needed */
        "\xed\xa0\x80",     /* a surrogate */
        "\xf4\x90\x80\x80", /* beyond U+10FFFF */
        "\xf8\x88\x80\x80\x80",
        "\xe2\x82"
        "a",
        "\xff",
        "1234567\xc3"
        "8",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(swi_utf8_valid(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(swi_utf8_valid(bad[i], strlen(bad[i])));
    assert_true(swi_utf8_valid("a\0b", 3));
}

static void check_quote(const char *text, size_t size, const char *want)
{
    swi_quoted room;
    assert_string_equal(swi_quote(&room, text, size), want);
}

static void test_quote(void **state)
{
    (void)state;
    check_quote("", 0, "");
    check_quote("a.b/c", 5, "a.b/c");
    check_quote("a\n\r\t\"\\", 6, "a\\n\\r\\t\\\"\\\\");
    check_quote("\0\x1b[31m\x7f", 7, "\\x00\\x1b[31m\\x7f");
    check_quote("\xc3\xa4\xff\xc3", 4, "\xc3\xa4\\xff\\xc3");
    check_quote("\xe2\x80\xae"
                "txt",
                6, "\\u202etxt"); /* right-to-left override */
    check_quote("\xc2\x9b"
                "1m",
                4, "\\u009b1m");                                  /* the C1 form of ESC [ */
    check_quote("\xe2\x80\x8b\xef\xbb\xbf", 6, "\\u200b\\ufeff"); /* not seen at all */
    check_quote("\xf3\xa0\x81\x81", 4, "\\U000e0041");            /* a tag character */
    swi_quoted room;
    assert_string_equal(swi_quote_str(&room, NULL), "");
}

static void test_quote_cuts_in_the_middle(void **state)
{
    (void)state;
    char text[5000];
    swi_quoted room;
    memset(text, 'm', sizeof text);
    memcpy(text, "head", 4);
    memcpy(text + sizeof text - 4, "tail", 4);
    const char *out = swi_quote(&room, text, sizeof text);
    assert_int_equal(strlen(out), SWI_QUOTE_MAX - 1);
    assert_memory_equal(out, "headmm", 6);
    assert_non_null(strstr(out, "m...m"));
    assert_string_equal(out + strlen(out) - 5, "mtail");
    /* What just fits is not cut. */
    out = swi_quote(&room, text, SWI_QUOTE_MAX - 1);
    assert_int_equal(strlen(out), SWI_QUOTE_MAX - 1);
    assert_null(strstr(out, "..."));
    /* Escapes and characters are never cut, whatever the bytes. */
    harness_prng prng = {3};
    for (int round = 0; round < 2000; round++) {
        size_t size = (size_t)harness_random_below(&prng, 600);
        harness_random_fill(&prng, text, size);
        for (size_t i = 0; i < size && round % 2; i++)
            text[i] = "\xe2\x82\xac"[i % 3];
        out = swi_quote(&room, text, size);
        assert_true(strlen(out) < SWI_QUOTE_MAX);
        assert_true(swi_utf8_valid(out, strlen(out)));
        for (const char *p = out; *p != '\0'; p++) {
            assert_true((unsigned char)*p >= 0x20);
            if (*p == '\\')
                assert_true(strspn(p + 1, "\\\"nrtxuU") > 0);
            if (*p == '\\' && p[1] == 'x')
                assert_true(strspn(p + 2, "0123456789abcdef") >= 2);
            if (*p == '\\')
                p++;
        }
    }
}

static void test_trim(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},         {"a", "a"},
        {"a\xc3", "a"},   {"a\xe2\x82", "a"},
        {"\xf0\x9f", ""}, {"\xc3\xa4", "\xc3\xa4"},
        {"\x80", "\x80"}, {"b\xf0\x9f\x92", "b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[16];
        memcpy(text, cases[i][0], strlen(cases[i][0]) + 1);
        swi_utf8_trim(text);
        assert_string_equal(text, cases[i][1]);
    }
}

static void test_glob(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool matches;
    } cases[] = {
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "a.b/c", true},
        {"a*c", "abbbc", true},
        {"a*c", "abbb", false},
        {"*.weight", "model.0.weight", true},
        {"*.weight", "model.0.weights", false},
        {"*.weight", ".weight.weight", true},
        {"a?c", "abc", true},
        {"a?c", "ac", false},
        {"?", "\xe2\x82\xac", true}, /* one character, three bytes */
        {"??", "\xff\xff", true},
        {"layers.[0-3].*", "layers.2.w", true},
        {"layers.[0-3].*", "layers.4.w", false},
        {"[!a]", "b", true},
        {"[!a]", "a", false},
        {"[]x]", "]", true},
        {"[a-]", "-", true},
        {"[\xc3\xa0-\xc3\xbf]", "\xc3\xa4", true},
        {"[abc", "[abc", true}, /* not closed: itself */
        {"[*]", "*", true},
        {"[*]", "x", false},
        {"**a**", "xxa", true},
        {"a", "A", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (swi_glob_match(cases[i].pattern, cases[i].text) != cases[i].matches)
            fail_msg("%s against %s", cases[i].pattern, cases[i].text);
}

/* A pattern of many stars over a text that almost matches: exponential in a naive matcher. */
static void test_glob_bomb(void **state)
{
    (void)state;
    char pattern[201], text[5001];
    for (size_t i = 0; i < 200; i++)
        pattern[i] = i % 2 ? '*' : 'a';
    pattern[199] = 'b';
    pattern[200] = '\0';
    memset(text, 'a', 5000);
    text[5000] = '\0';
    assert_false(swi_glob_match(pattern, text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_quote),
        cmocka_unit_test(test_quote_cuts_in_the_middle),
        cmocka_unit_test(test_trim),
        cmocka_unit_test(test_glob),
        cmocka_unit_test(test_glob_bomb),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
