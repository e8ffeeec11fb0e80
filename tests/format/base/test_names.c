/* The set of names: ids in order of first use, bytes as they are, keys of their own. */
#include "harness/harness.h"

#include <stdio.h>
#include <string.h>

#include "base/names.h"

enum { MANY = 100000 };

static void make_name(char name[64], int i)
{
    (void)snprintf(name, 64, "model.layers.%d.self_attn.weight", i);
}

static void test_many(void **state)
{
    (void)state;
    sw_error err = {0};
    swi_names *names = NULL;
    char name[64];
    assert_ok(swi_names_make(&names, &err), &err);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            uint32_t id;
            bool is_new = round == 1;
            make_name(name, i);
            assert_ok(swi_names_add(names, name, strlen(name), &id, &is_new, &err), &err);
            assert_int_equal(id, i);
            assert_int_equal(is_new, round == 0);
        }
    }
    swi_names_trim(names);
    assert_int_equal(swi_names_count(names), MANY);
    for (int i = 0; i < MANY; i++) {
        size_t size;
        make_name(name, i);
        assert_string_equal(swi_names_at(names, (uint32_t)i, &size), name);
        assert_int_equal(size, strlen(name));
        assert_int_equal(swi_names_find(names, name, size), i);
    }
    make_name(name, MANY);
    assert_int_equal(swi_names_find(names, name, strlen(name)), -1);
    assert_null(swi_names_at(names, MANY, NULL));
    assert_in_range(swi_names_memory(names), MANY * 40, MANY * 100);
    uint32_t id;
    assert_ok(swi_names_add(names, name, strlen(name), &id, NULL, &err), &err);
    assert_int_equal(id, MANY);
    swi_names_free(names);
}

/* Strings that ascend are not hashed; from the first that does not all are, and nothing else
 * changes. Held against a list. */
static void test_ascending_until_one_is_not(void **state)
{
    (void)state;
    enum { ROUNDS = 200, STRINGS = 60 };
    harness_prng prng = {3};
    for (int round = 0; round < ROUNDS; round++) {
        sw_error err = {0};
        swi_names *names = NULL;
        char list[STRINGS][64];
        uint32_t count = 0;
        int ascending = (int)harness_random_below(&prng, STRINGS);
        assert_ok(swi_names_make(&names, &err), &err);
        for (int i = 0; i < STRINGS; i++) {
            char name[64];
            uint32_t id = 0, want = 0;
            bool is_new = false;
            int number = i < ascending ? 1000 + i : (int)harness_random_below(&prng, 2000);
            (void)snprintf(name, sizeof name, "layer.%d", number);
            while (want < count && strcmp(list[want], name) != 0)
                want++;
            assert_int_equal(swi_names_find(names, name, strlen(name)),
                             want < count ? (int64_t)want : -1);
            assert_ok(swi_names_add(names, name, strlen(name), &id, &is_new, &err), &err);
            assert_int_equal(id, want);
            assert_int_equal(is_new, want == count);
            if (is_new)
                memcpy(list[count++], name, sizeof name);
            for (uint32_t k = 0; k < count; k++)
                assert_int_equal(swi_names_find(names, list[k], strlen(list[k])), k);
        }
        assert_int_equal(swi_names_count(names), count);
        swi_names_free(names);
    }
}

static void test_lists(void **state)
{
    (void)state;
    enum { COUNT = 500 };
    char text[COUNT * 12];
    uint8_t ends[4 * COUNT];
    uint32_t id, end = 0;
    bool is_new = false;
    sw_error err = {0};
    swi_names *names = NULL;
    for (uint32_t i = 0; i < COUNT; i++) {
        end += (uint32_t)snprintf(text + end, 12, "n%u", 100 + i) + 1;
        for (uint32_t k = 0; k < 4; k++)
            ends[4 * i + k] = (uint8_t)(end >> (8 * k));
    }
    const swi_name_list list = {text, ends, COUNT};
    assert_ok(swi_names_make(&names, &err), &err);
    assert_ok(swi_names_borrow(names, &list, &err), &err);
    for (uint32_t round = 0, others = 0; round < 100; round++) {
        assert_int_equal(swi_names_count(names), COUNT + others);
        for (uint32_t i = 0; i < COUNT; i++) {
            char want[12];
            size_t size;
            (void)snprintf(want, sizeof want, "n%u", 100 + i);
            assert_ptr_equal(swi_names_at(names, i, &size), text + 5 * i);
            assert_int_equal(size, strlen(want));
            assert_int_equal(swi_names_find(names, want, size), i);
        }
        char other[12]; /* ascends at first */
        (void)snprintf(other, sizeof other, round < 50 ? "z%02u" : "a%02u", round);
        assert_int_equal(swi_names_find(names, other, 3), -1);
        assert_ok(swi_names_add(names, other, 3, &id, &is_new, &err), &err);
        assert_int_equal(id, COUNT + others++);
        assert_true(is_new);
        assert_int_equal(swi_names_find(names, other, 3), id);
        assert_string_equal(swi_names_at(names, id, NULL), other);
        assert_ok(swi_names_add(names, "n101", 4, &id, &is_new, &err), &err);
        assert_int_equal(id, 1);
        assert_false(is_new);
        swi_names_trim(names);
    }
    assert_int_equal(swi_names_borrow(names, &list, &err), SW_ERR_ARG);
    swi_names_free(names);
}

static void test_bytes_count(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
    } all[] = {{"", 0}, {"\0", 1}, {"\0\0", 2}, {"a", 1}, {"a\0", 2}, {"a\0b", 3}, {"\xff\xfe", 2}};
    sw_error err = {0};
    swi_names *names = NULL;
    assert_ok(swi_names_make(&names, &err), &err);
    assert_int_equal(swi_names_find(names, NULL, 0), -1);
    for (uint32_t i = 0; i < 7; i++) {
        uint32_t id;
        bool is_new = false;
        assert_ok(swi_names_add(names, all[i].text, all[i].size, &id, &is_new, &err), &err);
        assert_int_equal(id, i);
        assert_true(is_new);
    }
    for (uint32_t i = 0; i < 7; i++) {
        size_t size;
        const char *text = swi_names_at(names, i, &size);
        assert_int_equal(size, all[i].size);
        assert_memory_equal(text, all[i].text, size);
        assert_int_equal(text[size], 0);
        assert_int_equal(swi_names_find(names, all[i].text, all[i].size), i);
    }
    swi_names_free(names);
}

/* Every length around the word borders of the hash, each one a prefix of the next. */
static void test_prefixes(void **state)
{
    (void)state;
    sw_error err = {0};
    swi_names *names = NULL;
    char text[100];
    memset(text, 'z', sizeof text);
    assert_ok(swi_names_make(&names, &err), &err);
    for (uint32_t i = 0; i <= 100; i++) {
        uint32_t id;
        assert_ok(swi_names_add(names, text, i, &id, NULL, &err), &err);
        assert_int_equal(id, i);
    }
    for (uint32_t i = 0; i <= 100; i++)
        assert_int_equal(swi_names_find(names, text, i), i);
    swi_names_free(names);
    swi_names_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many),     cmocka_unit_test(test_ascending_until_one_is_not),
        cmocka_unit_test(test_lists),    cmocka_unit_test(test_bytes_count),
        cmocka_unit_test(test_prefixes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
