/* A map with a configuration: atoms, the tensors of each side, and what does not fit (MAP-n). */
#include "map_fixture.h"

#define HEAD "map: 1\nname: m\n"
#define RULES                                                                                      \
    HEAD "let: {N: config.n, H: config.h}\nsides: {a: {config: config.json}, b: {}}\ntensors:\n"
/* Uses N and H, so that a rule need not. */
#define BOTH "  - {a: u, shape: [N, H], b: u}\n"

static swi_model *good_model(const char *text, const char *json)
{
    swi_model *m = NULL;
    sw_error err = {0};
    assert_ok(make_model(text, json, SIZE_MAX, NULL, &m, &err), &err);
    return m;
}

/* "NAME [SHAPE] of: ATOM ATOM ...", a line for each tensor of the side. */
static char *show_side(const swi_model *m, size_t side)
{
    const swi_side *s = &m->sides[side];
    swi_buf out = {0};
    sw_error err = {0};
    for (uint32_t t = 0; t < s->own; t++) {
        assert_ok(swi_buf_printf(&out, &err, "%s [", swi_names_at(s->names, t, NULL)), &err);
        for (uint32_t k = 0; k < s->tensors[t].axes; k++)
            assert_ok(swi_buf_printf(&out, &err, "%s%lld", k > 0 ? "," : "",
                                     (long long)s->tensors[t].shape[k]),
                      &err);
        assert_ok(swi_buf_append_str(&out, "]", &err), &err);
        for (uint32_t a = s->tensors[t].first; a != SWI_NO_TENSOR; a = s->next[a])
            assert_ok(swi_buf_printf(&out, &err, " %s", swi_names_at(m->atom_names, a, NULL)),
                      &err);
        assert_ok(swi_buf_append_str(&out, "\n", &err), &err);
    }
    assert_ok(swi_buf_append(&out, "", 1, &err), &err);
    return (char *)out.data;
}

static void assert_side(const swi_model *m, size_t side, const char *expected)
{
    char *shown = show_side(m, side);
    assert_string_equal(shown, expected);
    free(shown);
}

/* ---- good --------------------------------------------------------------------------------------
 */

static void sides_are_made_of_atoms_in_order(void **state)
{
    (void)state;
    static const char text[] =
        RULES "  - repeat: {n: N}\n"
              "    let: {m: 'n + 1', last: 'n == N - 1'}\n"
              "    tensors:\n"
              "      - interleave:\n"
              "          - {a: '{n}.{q,k}.w', shape: [[H, 2], [4, 2]],\n"
              "             b: {name: 'l{m}.w', join: 1, groups: 2, rearrange: 'i j -> j i'}}\n"
              "          - {a: '{n}.{q,k}.b', when: last, shape: [1], b: 'l{m}.b{1,2}'}\n"
              "      - repeat: {e: [1, 3]}\n"
              "        tensors:\n"
              "          - {a: '{n}.{e}.{x,y}', shape: [3],\n"
              "             b: {name: 'l{m}.xy', join: 0, stack: 1}}\n"
              "          - {a: '{n}.{e}.z', shape: [], b: {name: z, stack: 0}}\n"
              "  - {a: {name: h, when: H > 8}, shape: [5, 1], b: {name: h, pad: [_, 4]}}\n";
    swi_model *m = good_model(text, "{\"n\": 2, \"h\": 6}");
    assert_side(m, 0,
                "0.q.w [6,2] 0.q.w\n0.k.w [4,2] 0.k.w\n0.1.x [3] 0.1.x\n0.1.y [3] 0.1.y\n"
                "0.1.z [] 0.1.z\n0.2.x [3] 0.2.x\n0.2.y [3] 0.2.y\n0.2.z [] 0.2.z\n"
                "1.q.w [6,2] 1.q.w\n1.q.b [1] 1.q.b\n1.k.w [4,2] 1.k.w\n1.k.b [1] 1.k.b\n"
                "1.1.x [3] 1.1.x\n1.1.y [3] 1.1.y\n1.1.z [] 1.1.z\n1.2.x [3] 1.2.x\n"
                "1.2.y [3] 1.2.y\n1.2.z [] 1.2.z\n");
    swi_model_free(m);
}

static const char stacked_text[] =
    RULES "  - repeat: {n: N}\n"
          "    let: {m: 'n + 1'}\n"
          "    tensors:\n"
          "      - {a: '{n}.{q,k}.w', shape: [[H, 2], [4, 2]],\n"
          "         b: {name: 'l{m}.w', join: 1, groups: 2, rearrange: 'i j -> j i'}}\n"
          "      - repeat: {e: [1, 3]}\n"
          "        tensors:\n"
          "          - {a: '{n}.{e}.{x,y}', shape: [3], b: {name: 'l{m}.xy', join: 0, stack: 1}}\n"
          "          - {a: '{n}.{e}.z', shape: [], b: {name: z, stack: 0}}\n"
          "  - {a: {name: h, when: H > 8}, shape: [5, 1], b: {name: h, pad: [_, 4]}}\n";

static void operations_make_shapes(void **state)
{
    (void)state;
    swi_model *m = good_model(stacked_text, "{\"n\": 2, \"h\": 6}");
    assert_side(m, 1,
                "l1.w [2,10] 0.q.w 0.k.w\nl1.xy [6,2] 0.1.x 0.1.y 0.2.x 0.2.y\n"
                "z [4] 0.1.z 0.2.z 1.1.z 1.2.z\nl2.w [2,10] 1.q.w 1.k.w\n"
                "l2.xy [6,2] 1.1.x 1.1.y 1.2.x 1.2.y\nh [5,4] h\n");
    swi_model_free(m);
}

/* A side whose configuration is the one at hand has names of its own. */
static void names_of_a_side(void **state)
{
    (void)state;
    static const char text[] = HEAD "let: {N: config.n, D: N * 2}\n"
                                    "sides: {a: {config: config.json}, b: {config: p, let: "
                                    "{N: config.layers}}}\n"
                                    "tensors: [{a: x, shape: [D], b: y}]\n";
    swi_model *m = NULL;
    sw_error err = {0};
    assert_ok(make_model(text, "{\"layers\": 7}", 1, NULL, &m, &err), &err);
    assert_side(m, 0, "x [14] x\n");
    swi_model_free(m);
    assert_ok(make_model(text, "{\"n\": 2, \"layers\": 7}", 0, NULL, &m, &err), &err);
    assert_side(m, 0, "x [4] x\n");
    swi_model_free(m);
}

static void a_side_that_cannot(void **state)
{
    (void)state;
    static const char text[] = HEAD "let: {N: config.n}\nsides: {a: {}, b: {when: N < 3}}\n"
                                    "tensors: [{a: x, shape: [N], b: y}]\n";
    swi_model *m = good_model(text, "{\"n\": 3}");
    assert_true(m->sides[0].able);
    assert_false(m->sides[1].able);
    assert_side(m, 1, "");
    swi_model_free(m);
}

static void layouts_that_hold_come_first(void **state)
{
    (void)state;
    static const char text[] =
        HEAD "let: {N: config.n}\n"
             "sides:\n"
             "  a:\n"
             "    layouts:\n"
             "      - {when: N > 5, mesh: {tp: 1}, rules: [{tensor: x, dims: [tp]}]}\n"
             "      - {mesh: {tp: 1}, rules: [{tensor: y, dims: [tp]}]}\n"
             "tensors: [{a: x, shape: [N]}]\n";
    swi_model *m = good_model(text, "{\"n\": 3}");
    assert_int_equal(swi_model_layout_count(m, 0), 2);
    assert_string_equal(swi_rules_pattern(swi_model_layout(m, 0, 0), 0), "y");
    assert_string_equal(swi_rules_pattern(swi_model_layout(m, 0, 1), 0), "x");
    swi_model_free(m);
    m = good_model(text, "{\"n\": 6}");
    assert_string_equal(swi_rules_pattern(swi_model_layout(m, 0, 0), 0), "x");
    swi_model_free(m);
}

/* ---- ties --------------------------------------------------------------------------------------
 */

#define TIED                                                                                       \
    RULES "  - {a: x, shape: [N, H], b: {name: x, when: false}}\n"                                 \
          "  - {a: y, shape: [N, H], tie: {to: x}, b: y}\n"                                        \
          "  - {a: {name: z, when: false}, shape: [N, H], tie: {to: y, when: N > 1}, b: z}\n"

/* Rules may be tied to those behind them, so that rings of several become one. */
static void rings_become_one(void **state)
{
    (void)state;
    static const char text[] = RULES "  - {a: p, shape: [N, H], tie: {to: s}, b: p}\n"
                                     "  - {a: q, shape: [N, H], b: q}\n"
                                     "  - {a: r, shape: [N, H], tie: {to: q}, b: r}\n"
                                     "  - {a: s, shape: [N, H], tie: {to: r}, b: s}\n"
                                     "  - {a: t, shape: [N, H], b: t}\n";
    swi_model *m = good_model(text, "{\"n\": 2, \"h\": 3}");
    bool seen[5] = {false};
    uint32_t a = 0;
    for (int i = 0; i < 4; i++) {
        assert_false(seen[a]);
        seen[a] = true;
        a = m->atoms[a].ring;
    }
    assert_int_equal(a, 0);
    assert_false(seen[4]);
    assert_int_equal(m->atoms[4].ring, 4);
    swi_model_free(m);
}

static void ties_are_rings(void **state)
{
    (void)state;
    swi_model *m = good_model(TIED, "{\"n\": 2, \"h\": 3}");
    uint32_t a = 0, n = 0;
    do {
        a = m->atoms[a].ring;
        n++;
    } while (a != 0 && n < 10);
    assert_int_equal(n, 3);
    /* a source may have z, x: they stand behind what a target has */
    assert_side(m, 0, "x [2,3] x\ny [2,3] y\n");
    assert_side(m, 1, "y [2,3] y\nz [2,3] z\n");
    assert_int_equal(swi_names_count(m->sides[0].names), 3);
    assert_int_equal(swi_names_count(m->sides[1].names), 3);
    assert_int_equal(swi_model_tensor_count(m, 0), 2);
    assert_int_equal(swi_model_tensor_find(m, 0, "y"), 1);
    assert_int_equal(swi_model_tensor_find(m, 0, "z"), -1);
    swi_model_tensor t;
    assert_true(swi_model_tensor_at(m, 0, 1, &t));
    assert_string_equal(t.tied_to, "x");
    assert_true(swi_model_tensor_at(m, 1, 0, &t));
    assert_null(t.tied_to); /* x is none of its own */
    assert_false(swi_model_tensor_at(m, 1, 2, &t));
    swi_model_free(m);
    m = good_model(TIED, "{\"n\": 1, \"h\": 3}");
    assert_int_equal(m->atoms[2].ring, 2);
    assert_int_equal(m->atoms[0].ring, 1);
    swi_model_free(m);
}

/* ---- bad ---------------------------------------------------------------------------------------
 */

typedef struct bad {
    const char *text;
    sw_status status;
    const char *clause, *place, *said;
} bad;

static const bad wrong[] = {
    {HEAD "let: {N: 1 / config.n, H: 1}\nsides: {a: {}}\ntensors: [{a: x, shape: [N, H]}]\n",
     SW_ERR_CONFLICT, "NT-2", "3:7", "let N: \"1 / config.n\": "},
    {RULES "  - {a: x, shape: [N - H], b: y}\n", SW_ERR_CONFLICT, "MAP-4", "6:5",
     "size \"N - H\" is -1, which is negative"},
    {RULES "  - {a: x, shape: [N, H, config.none], b: y}\n", SW_ERR_CONFLICT, "MAP-4", "6:5",
     "size \"config.none\": "},
    {RULES "  - {a: x, shape: [N, H, 4611686018427387904, 4611686018427387904], b: y}\n",
     SW_ERR_CONFLICT, "MAP-4", "6:5", "too many elements"},
    {RULES "  - {a: x, shape: [N, H], when: N + 1, b: y}\n", SW_ERR_CONFLICT, "MAP-5", "6:5",
     "when \"N + 1\": "},
    {RULES "  - {a: x, shape: [N, H], b: {name: y, when: H}}\n", SW_ERR_CONFLICT, "MAP-5", "6:30",
     "when \"H\": "},
    {HEAD "let: {N: 1}\nsides: {a: {when: N}}\ntensors: [{a: x, shape: [N]}]\n", SW_ERR_CONFLICT,
     "MAP-5", "4:9", "when \"N\": "},
    /* names */
    {RULES BOTH "  - {a: u, shape: [1], b: y}\n", SW_ERR_CONFLICT, "MAP-11", "7:5",
     "\"u\" is made twice"},
    {RULES BOTH "  - {a: x, shape: [1], b: u}\n", SW_ERR_CONFLICT, "MAP-11", "7:27",
     "side b: \"u\" is made twice"},
    {RULES BOTH "  - {repeat: {n: 2}, tensors: [{a: x, shape: [1], b: y}]}\n", SW_ERR_CONFLICT,
     "MAP-11", "7:32", "\"x\" is made twice"},
    {RULES BOTH "  - {repeat: {n: 2}, tensors: [{a: 'x.{n}', shape: [1], b: y}]}\n",
     SW_ERR_CONFLICT, "MAP-11", "7:60", "side b: \"y\" is made twice"},
    {RULES BOTH
     "  - {repeat: {n: 2}, tensors: [{a: 'x.{n}', shape: [1], b: {name: y, stack: 0}}]}\n"
     "  - {a: z, shape: [1], b: {name: y, stack: 0}}\n",
     SW_ERR_CONFLICT, "MAP-11", "8:27", "side b: \"y\" is made twice"},
    /* ties */
    {RULES "  - {a: x, shape: [N, H], tie: {to: y}, b: y}\n", SW_ERR_FORMAT, "MAP-6", "6:5",
     "no other rule makes an atom \"y\""},
    {RULES "  - {a: x, shape: [N, H], tie: {to: x}, b: y}\n", SW_ERR_FORMAT, "MAP-6", "6:5",
     "no other rule makes an atom \"x\""},
    {RULES BOTH "  - {a: x, shape: [H, N], tie: {to: u}, b: y}\n", SW_ERR_CONFLICT, "MAP-6", "7:5",
     "the shapes of the two differ"},
    {RULES BOTH "  - {a: x, shape: [N, H, 1], tie: {to: u}, b: y}\n", SW_ERR_CONFLICT, "MAP-6",
     "7:5", "the shapes of the two differ"},
    {RULES "  - {a: x, shape: [N, H], tie: {to: y}, b: x}\n"
           "  - {a: y, shape: [N, H], tie: {to: x}, b: y}\n",
     SW_ERR_CONFLICT, "MAP-6", "7:5", "tied already"},
    {RULES "  - {a: x, shape: [N, H], tie: {to: y}, b: x}\n"
           "  - {a: y, shape: [N, H], tie: {to: z}, b: y}\n"
           "  - {a: z, shape: [N, H], tie: {to: x}, b: z}\n",
     SW_ERR_CONFLICT, "MAP-6", "8:5", "tied already"},
    {RULES BOTH
     "  - {repeat: {n: 256}, tensors: [{a: '{n}', shape: [N, H], tie: {to: u}, b: '{n}'}]}\n",
     SW_ERR_LIMIT, "MAP-6", "7:34", "more than 256 tensors are one"},
    /* join, groups, stack, pad */
    {RULES "  - {a: '{q,k}', shape: [[N, H], [N, 7]], b: {name: y, join: 0}}\n", SW_ERR_CONFLICT,
     "MAP-4", "6:46", "side b: \"y\": its parts do not fit together"},
    {RULES "  - {a: '{q,k}', shape: [N, H], b: {name: y, join: 2}}\n", SW_ERR_CONFLICT, "MAP-4",
     "6:36", "join: there is no such dimension"},
    {RULES "  - {a: '{q,k}', shape: [[N, H], [N, H]], b: {name: y, join: 0, groups: 4}}\n",
     SW_ERR_CONFLICT, "MAP-4", "6:46", "does not divide into its groups"},
    {RULES "  - {a: '{q,k}', shape: [N, H], b: {name: y, join: 0, groups: H - 3}}\n",
     SW_ERR_CONFLICT, "MAP-3", "6:36", "it must be at least 1"},
    {RULES "  - {a: '{q,k}', shape: [N, H], b: {name: y, join: 0, groups: config.x}}\n",
     SW_ERR_CONFLICT, "MAP-3", "6:36", "groups \"config.x\": "},
    {RULES "  - {a: '{q,k}', shape: [N, H], b: {name: y, join: 0, rearrange: ['i j -> i j', "
           "'i j -> (i j)']}}\n",
     SW_ERR_CONFLICT, "MAP-4", "6:36", "its parts do not fit together"},
    {RULES "  - {a: '{q,k}', shape: [[9223372036854775807], [9223372036854775807]], b: {name: y, "
           "join: 0}}\n" BOTH,
     SW_ERR_CONFLICT, "MAP-4", "6:76", "too large"},
    {RULES "  - {a: x, shape: [N, H], b: {name: y, rearrange: '(i three) j -> i three j'}}\n",
     SW_ERR_FORMAT, "MAP-3", "6:30", "define one of them"},
    {RULES "  - {a: x, shape: [N, H], b: {name: y, rearrange: 'i j k -> k i j'}}\n",
     SW_ERR_CONFLICT, "MAP-3", "6:30", "2 dimensions"},
    {RULES "  - {a: x, shape: [N, H], b: {name: y, rearrange: '(H i) j -> H i j'}}\n",
     SW_ERR_CONFLICT, "MAP-3", "6:30", "has a multiple of"},
    {RULES BOTH
     "  - {repeat: {n: 2}, tensors: [{a: '{n}', shape: [n + 1], b: {name: y, stack: 0}}]}\n",
     SW_ERR_CONFLICT, "MAP-4", "7:62", "what is stacked differs in shape"},
    {RULES BOTH "  - {repeat: {n: 2}, tensors: [{a: '{n}.{q,k}', shape: [[2 - n], [1 + n]], b: "
                "{name: y, join: 0, stack: 0}}]}\n"
                "  - {repeat: {n: 2}, tensors: [{a: 'z{n}.{q,k}', shape: [[2 - n], [1]], b: "
                "{name: z, join: 0, stack: 0}}]}\n",
     SW_ERR_CONFLICT, "MAP-4", "8:76", "what is stacked differs in shape"},
    {RULES BOTH "  - {repeat: {n: 2}, tensors: [{a: '{n}', shape: [1], b: {name: y, stack: 2}}]}\n",
     SW_ERR_CONFLICT, "MAP-4", "7:58", "stack: there is no such dimension"},
    {RULES BOTH "  - {repeat: {n: 2}, tensors: [{a: '{n}', shape: [1,1,1,1,1,1,1,1,1,1], b: {name: "
                "y, stack: 0}}]}\n",
     SW_ERR_CONFLICT, "MAP-4", "7:76", "stack: there is no such dimension"},
    {RULES BOTH "  - {repeat: {n: 2}, tensors: [{a: '{n}.{q,k}', shape: [1], b: {name: y, join: "
                "0}}]}\n",
     SW_ERR_CONFLICT, "MAP-4", "7:64", "not all of its parts are there"},
    {RULES "  - {a: x, shape: [N, H], b: {name: y, pad: [_, _, 2]}}\n", SW_ERR_CONFLICT, "MAP-4",
     "6:30", "pad: there is no such dimension"},
    {RULES "  - {a: x, shape: [N, H], b: {name: y, pad: [_, 2]}}\n", SW_ERR_CONFLICT, "MAP-4",
     "6:30", "pad: shorter than it is"},
    {RULES "  - {a: x, shape: [N, H], b: {name: y, pad: [N - H]}}\n", SW_ERR_CONFLICT, "MAP-4",
     "6:30", "which is negative"},
    {RULES "  - {a: x, shape: [N, H], b: {name: y, pad: [9223372036854775807, 3]}}\n",
     SW_ERR_CONFLICT, "MAP-4", "6:30", "too large"},
    /* repeats */
    {RULES BOTH "  - {repeat: {n: N - H}, tensors: [{a: '{n}', shape: [1]}]}\n", SW_ERR_CONFLICT,
     "MAP-4", "7:5", "the count of a repeat \"N - H\" is -1"},
    {RULES BOTH "  - {repeat: {n: [N - H, 1]}, tensors: [{a: '{n}', shape: [1]}]}\n",
     SW_ERR_CONFLICT, "MAP-4", "7:5", "the begin of a repeat"},
    {RULES BOTH "  - {repeat: {n: 9223372036854775807}, tensors: []}\n", SW_ERR_LIMIT, "MAP-9",
     "7:49", "too many turns"},
    {RULES BOTH "  - {repeat: {n: 4000000000}, tensors: [{a: '{n}', when: false, shape: [1]}]}\n",
     SW_ERR_LIMIT, "MAP-9", "7:41", "too many turns"},
    {RULES BOTH "  - {repeat: {n: 2}, let: {m: n / 2}, tensors: [{a: '{n}', shape: [m]}]}\n",
     SW_ERR_CONFLICT, "NT-2", "7:28", "let m: \"n / 2\": "},
    {RULES BOTH "  - {repeat: {n: 2}, let: {m: n - 1}, tensors: [{a: 'x{m}', shape: [1]}]}\n",
     SW_ERR_FORMAT, "MAP-11", "7:49", "no whole number from 0 on"},
    /* scales */
    {HEAD "let: {N: config.n}\nsides: {a: {}}\nscales: {name: '{name}_s', block: N}\ntensors: [{a: "
          "x, shape: [N]}]\n",
     SW_ERR_CONFLICT, "MAP-10", "5:9", "must be a list"},
    {HEAD "sides: {a: {}}\nscales: {name: '{name}_s', block: '[0, 1]'}\ntensors: [{a: x, shape: "
          "[1]}]\n",
     SW_ERR_CONFLICT, "MAP-10", "4:9", "sizes of at least 1"},
    {HEAD "sides: {a: {}}\nscales: {name: '{name}_s', block: '[1,1,1,1,1,1,1,1,1,1,1]'}\ntensors: "
          "[{a: x, shape: [1]}]\n",
     SW_ERR_CONFLICT, "MAP-10", "4:9", "at most 10 sizes"},
};

static void what_does_not_fit(void **state)
{
    (void)state;
    size_t bad_ones = 0;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const bad *w = &wrong[i];
        swi_model *m = NULL;
        sw_error err = {0};
        if (make_model(w->text, "{\"n\": 2, \"h\": 3}", SIZE_MAX, NULL, &m, &err) == SW_OK)
            print_error("taken, though wrong:\n%s", w->text);
        bad_ones += !complains(w->text, &err, w->status, w->clause, w->place, w->said);
        swi_model_free(m);
    }
    assert_int_equal(bad_ones, 0);
}

static void more_tensors_than_the_limit(void **state)
{
    (void)state;
    static const char text[] = HEAD "let: {N: config.n}\nsides: {a: {}}\n"
                                    "tensors: [{repeat: {n: N}, tensors: [{a: '{n}', shape: []}]}]";
    const sw_limits limits = {.tensors = 100};
    swi_model *m = NULL;
    sw_error err = {0};
    assert_int_equal(make_model(text, "{\"n\": 101}", SIZE_MAX, &limits, &m, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "more than 100 tensors");
    assert_ok(make_model(text, "{\"n\": 100}", SIZE_MAX, &limits, &m, &err), &err);
    swi_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sides_are_made_of_atoms_in_order),
        cmocka_unit_test(operations_make_shapes),
        cmocka_unit_test(names_of_a_side),
        cmocka_unit_test(a_side_that_cannot),
        cmocka_unit_test(layouts_that_hold_come_first),
        cmocka_unit_test(ties_are_rings),
        cmocka_unit_test(rings_become_one),
        cmocka_unit_test(what_does_not_fit),
        cmocka_unit_test(more_tensors_than_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
