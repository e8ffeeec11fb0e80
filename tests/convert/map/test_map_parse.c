/* What a map may say, and what is told of those that are wrong: status, clause, place (MAP-n). */
#include "map_fixture.h"

/* ---- good --------------------------------------------------------------------------------------
 */

static const char all_of_it[] =
    "map: 1\n"
    "name: all\n"
    "models: [one, two]\n"
    "let: {H: config.h, L: config.layers, E: 3, two: 2, V4: 'ceil(config.v, 4)', tied: true}\n"
    "sides:\n"
    "  a: {config: config.json, ignore: ['**.inv_freq', 'x.{n}']}\n"
    "  b:\n"
    "    when: H > 1\n"
    "    config: params.json\n"
    "    let: {L: config.n, H: L * 4}\n"
    "    write: {n: L, tp: 'tp + 1'}\n"
    "    layouts:\n"
    "      - {when: H > 2, mesh: {tp: 1}, rules: [{tensor: '**', dims: [tp]}]}\n"
    "      - {mesh: {tp: 1, pp: 2}, rules: [{tensor: '**', dims: []}]}\n"
    "  c: {layout: {mesh: {tp: 1}, rules: [{tensor: '**', dims: [tp]}]}}\n"
    "scales: {name: '{name}_s', block: '[2, 2]', when: false}\n"
    "tensors:\n"
    "  - a: embed\n"
    "    shape: [config.v, H]\n"
    "    b: {name: e.w, rearrange: 'v (two i) -> v (i two)'}\n"
    "    c: {name: embed, pad: [V4, _], when: not tied}\n"
    "  - repeat: {n: L}\n"
    "    let: {m: n + 1, odd: n % 2 == 1}\n"
    "    tensors:\n"
    "      - interleave:\n"
    "          - {a: '{n}.{q,k}.w', shape: [[H, H], [2, H]], b: '{m}.w{1,2}',\n"
    "             c: {name: '{n}.qk', join: 0, groups: 2, rearrange: ['a b -> b a', 'a b -> b "
    "a']}}\n"
    "          - {a: '{n}.{q,k}.b', when: odd, shape: [H], b: drop, c: drop}\n"
    "      - repeat: {e: [1, E]}\n"
    "        when: n > 0\n"
    "        tensors:\n"
    "          - {a: '{n}.{e}.x', shape: [H], b: {name: '{n}.x', stack: 0}, c: {name: x, stack: "
    "0,\n"
    "             cast: float16}}\n"
    "  - repeat: {n: 2}\n"
    "    optional: true\n"
    "    tensors:\n"
    "      - {a: 'more.{n}', shape: [], optional: true, buffer: true, b: 'more.{n}', c: drop}\n"
    "  - {c: k, fill: -1.5e1, dtype: float32, shape: [2], buffer: true}\n"
    "  - {a: {name: head, when: not tied}, shape: [config.v, H], tie: {to: embed, when: tied}, b: "
    "h,\n"
    "     c: head}\n";

static void a_map_of_all_that_there_is(void **state)
{
    (void)state;
    swi_map *map = NULL;
    sw_error err = {0};
    assert_ok(parse_map(all_of_it, &map, &err), &err);
    assert_string_equal(map->name, "all");
    assert_int_equal(map->model_count, 2);
    assert_int_equal(map->let_count, 6);
    assert_int_equal(map->side_count, 3);
    assert_int_equal(map->sides[0].ignore_count, 2);
    assert_int_equal(map->sides[1].let_count, 2);
    assert_int_equal(map->sides[1].key_count, 2);
    assert_int_equal(map->sides[1].layout_count, 2);
    assert_int_equal(map->rule_count, 7);
    assert_string_equal(map->scales.suffix, "_s");
    const swi_map_rule *qk = &map->rules[1];
    assert_int_equal(qk->parts, 2);
    assert_int_equal(qk->axes, 2);
    assert_int_equal(qk->canonical, 0);
    assert_true(qk->forms[2].join && qk->forms[2].groups != NULL);
    assert_int_equal(qk->forms[2].join_dim, 0);
    assert_int_equal(map->rules[2].forms[1].has, SWI_MAP_DROP);
    assert_true(map->rules[3].forms[1].stack);
    assert_int_equal(map->rules[3].forms[2].cast, SW_F16);
    assert_true(map->rules[4].optional && map->rules[4].buffer);
    assert_int_equal(map->rules[4].axes, 0);
    assert_int_equal(map->rules[5].canonical, 2);
    assert_true(map->rules[5].fills && map->rules[5].fill == -15.0);
    assert_non_null(map->rules[6].tie);
    /* RULES, BEGIN, RULES, BEGIN, RULES, END, END, BEGIN, RULES, END, RULES, RULES */
    assert_int_equal(map->step_count, 12);
    assert_int_equal(map->steps[1].other, 6);
    assert_int_equal(map->steps[6].other, 1);
    assert_int_equal(map->steps[2].count, 2);
    assert_true(map->steps[7].optional);
    swi_map_free(map);
    swi_map_free(NULL);
}

/* ---- bad ---------------------------------------------------------------------------------------
 */

#define HEAD "map: 1\nname: m\n"
#define SIDES HEAD "sides: {a: {}, b: {}}\n"
#define RULES SIDES "tensors:\n"
#define ONE RULES "  - {a: x, shape: [1], b: y}\n"

typedef struct bad {
    const char *text;
    sw_status status;
    const char *clause, *place, *said;
} bad;

static const bad heads[] = {
    {"map: 2\nname: m\n", SW_ERR_UNSUPPORTED, "MAP-1", "1:1", "a map of version 2; known here: 1"},
    {"name: m\n", SW_ERR_FORMAT, "MAP-1", "1:1", "does not begin with \"map: 1\""},
    {"map: 1\n", SW_ERR_FORMAT, "MAP-1", "1:1", "a map lacks the key name"},
    {"map: one\nname: m\n", SW_ERR_FORMAT, "NT-1", "1:6", ""},
    {HEAD "lets: {a: 1}\n", SW_ERR_FORMAT, "NT-1", "3:1", "did you mean \"let\"?"},
    {HEAD "name: n\n", SW_ERR_FORMAT, "NT-1", "3:1", ""},
    {HEAD "models: {a: b}\n", SW_ERR_FORMAT, "NT-1", "3:9", ""},
    {HEAD "models: [[a]]\n", SW_ERR_FORMAT, "NT-1", "3:10", ""},
    {HEAD "let: [a]\n", SW_ERR_FORMAT, "NT-1", "3:6", "let must be a mapping"},
    {HEAD "let: {a: [1]}\n", SW_ERR_FORMAT, "NT-1", "3:10", "the value of a name of let"},
    {HEAD "let: {config: 1}\n", SW_ERR_FORMAT, "MAP-11", "3:7", "the configuration itself"},
    {HEAD "let: {a: 1 +}\n", SW_ERR_FORMAT, "NT-2", "3:13", ""},
    {HEAD "let: {a: b, b: 1}\n", SW_ERR_FORMAT, "MAP-11", "3:10", "nothing defines \"b\""},
    {HEAD "let: {a: a}\n", SW_ERR_FORMAT, "MAP-11", "3:10", "nothing defines \"a\""},
    {HEAD "let: {heads: 1, b: 2 * headz}\n", SW_ERR_FORMAT, "MAP-11", "3:24",
     "did you mean \"heads\"?"},
    {HEAD "tensors: []\n", SW_ERR_FORMAT, "NT-1", "1:1", "lacks the key \"sides\""},
    {HEAD "sides: [a]\n", SW_ERR_FORMAT, "NT-1", "3:8", "sides must be a mapping"},
    {HEAD "sides: {}\n", SW_ERR_FORMAT, "MAP-2", "3:8", "1 to 16 sides"},
    {HEAD "sides: {a: {}, b: {}, c: {}, d: {}, e: {}, f: {}, g: {}, h: {}, i: {}, j: {}, k: {}, "
          "l: {}, m: {}, n: {}, o: {}, p: {}, q: {}}\n",
     SW_ERR_FORMAT, "MAP-2", "3:8", "1 to 16 sides"},
    {HEAD "sides: {shape: {}}\n", SW_ERR_FORMAT, "MAP-1", "3:9", "cannot be called \"shape\""},
    {HEAD "sides: {interleave: {}}\n", SW_ERR_FORMAT, "MAP-1", "3:9", "cannot be called"},
    {HEAD "sides: {let: {}}\n", SW_ERR_FORMAT, "MAP-1", "3:9", "cannot be called"},
    {HEAD "sides: {a: x}\n", SW_ERR_FORMAT, "NT-1", "3:12", ""},
    {HEAD "sides: {a: {conf: x}}\n", SW_ERR_FORMAT, "NT-1", "3:13", "known: config, when"},
    {HEAD "sides: {a: {ignore: ['{']}}\n", SW_ERR_FORMAT, "NT-3", "3:23", ""},
    {HEAD "sides: {a: {write: [x]}}\n", SW_ERR_FORMAT, "NT-1", "3:20", "write must be a mapping"},
    {HEAD "sides: {a: {write: {k: tp}}}\n", SW_ERR_FORMAT, "MAP-11", "3:24",
     "nothing defines \"tp\""},
    {HEAD "sides: {a: {when: no_such}}\n", SW_ERR_FORMAT, "MAP-11", "3:19", "nothing defines"},
    {HEAD "let: {x: 1}\nsides: {a: {let: {y: x}}}\n", SW_ERR_FORMAT, "MAP-11", "4:22",
     "nothing defines \"x\""},
    {HEAD "sides: {a: {layouts: {mesh: {tp: 1}}}}\n", SW_ERR_FORMAT, "NT-1", "3:22",
     "layouts must be a list"},
    {HEAD "sides: {a: {layout: {mesh: {t: 1}, rules: [{tensor: '**', dims: []}]}, layouts: []}}\n",
     SW_ERR_FORMAT, "MAP-14", "3:81", "not both"},
    {SIDES "scales: {name: '{name}_s', blocks: 2}\ntensors: []\n", SW_ERR_FORMAT, "NT-1", "4:28",
     "did you mean \"block\"?"},
    {SIDES "scales: {name: '{name}_s'}\n", SW_ERR_FORMAT, "NT-1", "4:9", "lacks the key \"block\""},
    {SIDES "scales: {block: 2}\n", SW_ERR_FORMAT, "NT-1", "4:9", "lacks the key \"name\""},
    {SIDES "scales: {block: 2, name: '{name}'}\n", SW_ERR_FORMAT, "MAP-10", "4:26",
     "something behind it"},
    {SIDES "scales: {block: 2, name: 's_{name}'}\n", SW_ERR_FORMAT, "MAP-10", "4:26",
     "something behind it"},
    {SIDES "scales: {block: B, name: '{name}_s'}\n", SW_ERR_FORMAT, "MAP-11", "4:17",
     "nothing defines \"B\""},
    {SIDES, SW_ERR_FORMAT, "NT-1", "1:1", "lacks the key \"tensors\""},
    {SIDES "tensors: {a: x}\n", SW_ERR_FORMAT, "NT-1", "4:10", "tensors must be a list"},
    {SIDES "tensors: []\n", SW_ERR_FORMAT, "MAP-11", "3:9", "no rule has \"a\""},
    {RULES "  - {a: x, shape: [1]}\n", SW_ERR_FORMAT, "MAP-11", "3:16", "no rule has \"b\""},
    {RULES "  - {a: x, shape: [1], b: drop}\n", SW_ERR_FORMAT, "MAP-11", "3:16",
     "no rule has \"b\""},
    {HEAD "let: {x: 1}\nsides: {a: {}}\ntensors: [{a: y, shape: [1]}]\n", SW_ERR_FORMAT, "MAP-11",
     "3:7", "nothing uses \"x\""},
    {HEAD "sides: {a: {let: {x: 1}}}\ntensors: [{a: y, shape: [1]}]\n", SW_ERR_FORMAT, "MAP-11",
     "3:19", "nothing uses \"x\""},
};

static const bad rules[] = {
    {RULES "  - x\n", SW_ERR_FORMAT, "NT-1", "5:5", "a rule must be a mapping"},
    {RULES "  - {c: x, shape: [1]}\n", SW_ERR_FORMAT, "MAP-11", "5:6",
     "neither a key of a rule nor one of the map's sides"},
    {RULES "  - {shape: [1]}\n", SW_ERR_FORMAT, "MAP-1", "5:5", "a rule that no side has"},
    {RULES "  - {a: drop, b: drop, shape: [1]}\n", SW_ERR_FORMAT, "MAP-1", "5:5",
     "a rule that no side has"},
    {RULES "  - {a: {name: x, pad: [2]}, b: y, shape: [1]}\n", SW_ERR_FORMAT, "MAP-1", "5:9",
     "no operations but when"},
    {RULES "  - {a: {name: x, stack: 0}, b: y, shape: [1]}\n", SW_ERR_FORMAT, "MAP-1", "5:9",
     "no operations but when"},
    {RULES "  - {a: {name: x, cast: float32}, b: y, shape: [1]}\n", SW_ERR_FORMAT, "MAP-1", "5:9",
     "no operations but when"},
    {RULES "  - {a: {name: x, rearrange: 'i -> i'}, b: y, shape: [1]}\n", SW_ERR_FORMAT, "MAP-1",
     "5:9", "no operations but when"},
    {RULES "  - {a: {name: x, joins: 1}, shape: [1]}\n", SW_ERR_FORMAT, "NT-1", "5:19",
     "did you mean \"join\"?"},
    {RULES "  - {a: {when: true}, shape: [1]}\n", SW_ERR_FORMAT, "NT-1", "5:9",
     "lacks the key \"name\""},
    {RULES "  - {a: [x], shape: [1]}\n", SW_ERR_FORMAT, "NT-1", "5:9", ""},
    {RULES "  - {a: 'x.*', shape: [1]}\n", SW_ERR_FORMAT, "MAP-3", "5:9", "do not say what to"},
    {RULES "  - {a: x, b: '(y|z)', shape: [1]}\n", SW_ERR_FORMAT, "MAP-3", "5:15",
     "do not say what to"},
    {RULES "  - {a: 'x.{n}', shape: [1]}\n", SW_ERR_FORMAT, "MAP-11", "5:13",
     "no repeat around the rule defines \"n\""},
    {RULES "  - {a: x, b: 'y.{n}', shape: [1]}\n", SW_ERR_FORMAT, "MAP-11", "5:19",
     "defines \"n\""},
    {HEAD "let: {n: 1}\nsides: {a: {}}\ntensors: [{a: 'x.{n}', shape: [n]}]\n", SW_ERR_FORMAT,
     "MAP-11", "5:19", "no repeat around the rule defines \"n\""},
    {RULES "  - {a: x, b: y}\n", SW_ERR_FORMAT, "NT-1", "5:5", "lacks the key \"shape\""},
    {RULES "  - {a: x, b: y, shape: 1}\n", SW_ERR_FORMAT, "NT-1", "5:25", "shape must be a list"},
    {RULES "  - {a: x, b: y, shape: [H]}\n", SW_ERR_FORMAT, "MAP-11", "5:26",
     "nothing defines \"H\""},
    {RULES "  - {a: x, b: y, shape: [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}\n", SW_ERR_FORMAT, "MAP-4",
     "5:25", "at most 10 dimensions"},
    {RULES "  - {a: x, b: y, shape: [[1], [2]]}\n", SW_ERR_FORMAT, "MAP-4", "5:25",
     "shape has 2 entries for 1 parts"},
    {RULES "  - {a: '{q,k}', b: '{1,2}', shape: [[1], [2, 2]]}\n", SW_ERR_FORMAT, "MAP-4", "5:43",
     "differ in their number of dimensions"},
    {RULES "  - {a: '{q,k}', b: '{1,2}', shape: [[1], 2]}\n", SW_ERR_FORMAT, "NT-1", "5:43",
     "the shape of a part"},
    {RULES "  - {a: '{q,k}', b: y, shape: [1]}\n", SW_ERR_FORMAT, "MAP-3", "5:21",
     "not as long as that of the rule's first name"},
    {RULES "  - {a: '{q,k}', b: 'y{1,2,3}', shape: [1]}\n", SW_ERR_FORMAT, "MAP-3", "5:21",
     "not as long as"},
    {RULES "  - {a: '{q,k}', b: {name: 'y{1,2}', join: 0}, shape: [1]}\n", SW_ERR_FORMAT, "MAP-3",
     "5:21", "join is for a rule with {a,b}"},
    {RULES "  - {a: x, b: {name: y, join: 0}, shape: [1]}\n", SW_ERR_FORMAT, "MAP-3", "5:15",
     "join is for a rule with {a,b}"},
    {RULES "  - {a: '{q,k}', b: {name: 'y{1,2}', groups: 2}, shape: [1]}\n", SW_ERR_FORMAT, "MAP-3",
     "5:21", "groups without join"},
    {RULES "  - {a: '{q,k}', b: {name: y, join: 10}, shape: [1]}\n", SW_ERR_FORMAT, "MAP-3", "5:37",
     "dimensions are 0 to 9"},
    {RULES "  - {a: x, b: {name: y, stack: -1}, shape: [1]}\n", SW_ERR_FORMAT, "NT-1", "5:32", ""},
    {RULES "  - {a: '{q,k}', b: {name: y, join: 0, rearrange: [_]}, shape: [1]}\n", SW_ERR_FORMAT,
     "MAP-3", "5:51", "rearrange has 1 entries for 2 parts"},
    {RULES "  - {a: x, b: {name: y, rearrange: 'i -> j'}, shape: [1]}\n", SW_ERR_FORMAT, "NT-4",
     "5:42", ""},
    {RULES "  - {a: x, b: {name: y, pad: 2}, shape: [1]}\n", SW_ERR_FORMAT, "NT-1", "5:30",
     "pad must be a list"},
    {RULES "  - {a: x, b: {name: y, pad: [1,1,1,1,1,1,1,1,1,1,1]}, shape: [1]}\n", SW_ERR_FORMAT,
     "MAP-3", "5:30", "at most 10 dimensions"},
    {RULES "  - {a: x, b: {name: y, cast: float99}, shape: [1]}\n", SW_ERR_FORMAT, "MAP-7", "5:31",
     "no element type is called so"},
    {RULES "  - {a: x, b: y, shape: [1], optional: maybe}\n", SW_ERR_FORMAT, "NT-1", "5:40", ""},
    {RULES "  - {a: x, b: y, shape: [1], buffer: 1}\n", SW_ERR_FORMAT, "NT-1", "5:38", ""},
    {RULES "  - {a: x, b: y, shape: [1], tie: z}\n", SW_ERR_FORMAT, "NT-1", "5:35", ""},
    {RULES "  - {a: x, b: y, shape: [1], tie: {when: true}}\n", SW_ERR_FORMAT, "NT-1", "5:35",
     "lacks the key \"to\""},
    {RULES "  - {a: x, b: y, shape: [1], tie: {to: 'z{1,2}'}}\n", SW_ERR_FORMAT, "MAP-6", "5:35",
     "a tie is of one atom to one"},
    {RULES "  - {a: 'x{1,2}', b: 'y{1,2}', shape: [1], tie: {to: z}}\n", SW_ERR_FORMAT, "MAP-6",
     "5:49", "a tie is of one atom to one"},
    {RULES "  - {a: x, b: y, shape: [1], tie: {to: 'z.{n}'}}\n", SW_ERR_FORMAT, "MAP-11", "5:44",
     "no repeat around the rule"},
};

static const bad fills[] = {
    {RULES "  - {a: x, b: y, shape: [1], fill: 1.0}\n", SW_ERR_FORMAT, "MAP-7", "5:5",
     "needs dtype"},
    {RULES "  - {a: x, b: y, shape: [1], fill: 1.0, dtype: int8}\n", SW_ERR_FORMAT, "MAP-7", "5:5",
     "needs dtype"},
    {RULES "  - {a: x, b: y, shape: [1], fill: one, dtype: float32}\n", SW_ERR_FORMAT, "MAP-7",
     "5:36", "not a finite number"},
    {RULES "  - {a: x, b: y, shape: [1], fill: nan, dtype: float32}\n", SW_ERR_FORMAT, "MAP-7",
     "5:36", "not a finite number"},
    {RULES "  - {a: x, b: y, shape: [1], fill: inf, dtype: float32}\n", SW_ERR_FORMAT, "MAP-7",
     "5:36", "not a finite number"},
    {RULES "  - {a: x, b: y, shape: [1], fill: 1e999, dtype: float64}\n", SW_ERR_FORMAT, "MAP-7",
     "5:36", "not a finite number"},
    {RULES "  - {a: x, b: y, shape: [1], fill: 0x10, dtype: float32}\n", SW_ERR_FORMAT, "MAP-7",
     "5:36", "not a finite number"},
    {RULES "  - {a: x, b: y, shape: [1], fill: 1.0f, dtype: float32}\n", SW_ERR_FORMAT, "MAP-7",
     "5:36", "not a finite number"},
    {RULES "  - {a: x, b: y, shape: [1], fill: 65505, dtype: float16}\n", SW_ERR_FORMAT, "MAP-7",
     "5:36", "the type cannot hold it"},
    {RULES "  - {a: x, b: y, shape: [1], fill: -1e39, dtype: float32}\n", SW_ERR_FORMAT, "MAP-7",
     "5:36", "the type cannot hold it"},
    {RULES "  - {a: x, b: y, shape: [1], fill: 1e39, dtype: bfloat16}\n", SW_ERR_FORMAT, "MAP-7",
     "5:36", "the type cannot hold it"},
};

static const bad blocks[] = {
    {ONE "  - {repeat: {n: 2}, a: 'x.{n}', shape: [1]}\n", SW_ERR_FORMAT, "MAP-9", "6:6",
     "which has its rules in tensors"},
    {ONE "  - {let: {n: 2}, a: x, shape: [1]}\n", SW_ERR_FORMAT, "MAP-9", "6:6",
     "a block of rules"},
    {ONE "  - {repeat: {n: 2}, a: x, tensors: []}\n", SW_ERR_FORMAT, "NT-1", "6:22", "unknown key"},
    {ONE "  - {repeat: 2, tensors: []}\n", SW_ERR_FORMAT, "NT-1", "6:14",
     "repeat must be a mapping"},
    {ONE "  - {repeat: {n: 2, m: 2}, tensors: []}\n", SW_ERR_FORMAT, "MAP-9", "6:14",
     "repeat has one variable"},
    {ONE "  - {repeat: {}, tensors: []}\n", SW_ERR_FORMAT, "MAP-9", "6:14",
     "repeat has one variable"},
    {ONE "  - {repeat: {n: [1]}, tensors: []}\n", SW_ERR_FORMAT, "MAP-9", "6:18",
     "a count or a list of two"},
    {ONE "  - {repeat: {n: {a: 1}}, tensors: []}\n", SW_ERR_FORMAT, "MAP-9", "6:18",
     "a count or a list of two"},
    {ONE "  - {repeat: {n: n}, tensors: []}\n", SW_ERR_FORMAT, "MAP-11", "6:18",
     "nothing defines \"n\""},
    {ONE "  - {repeat: {n: 2}, when: n > 0, tensors: []}\n", SW_ERR_FORMAT, "MAP-11", "6:28",
     "nothing defines \"n\""},
    {ONE "  - {repeat: {config: 2}, tensors: []}\n", SW_ERR_FORMAT, "MAP-11", "6:15",
     "the configuration itself"},
    {HEAD "let: {n: 1}\nsides: {a: {}}\ntensors: [{repeat: {n: n}, tensors: []}]\n", SW_ERR_FORMAT,
     "MAP-11", "5:21", "\"n\" hides a name"},
    {ONE "  - {repeat: {n: 2}, tensors: [{repeat: {n: 3}, tensors: []}]}\n", SW_ERR_FORMAT,
     "MAP-11", "6:42", "\"n\" hides a name"},
    {ONE "  - {repeat: {n: 2}, let: {n: 3}, tensors: []}\n", SW_ERR_FORMAT, "MAP-11", "6:28",
     "\"n\" hides a name"},
    {ONE "  - {repeat: {n: 2}, let: {m: 3}, tensors: [{a: 'z.{n}', shape: [1]}]}\n", SW_ERR_FORMAT,
     "MAP-11", "6:28", "nothing uses \"m\""},
    /* a name is seen in its own block alone */
    {ONE "  - {repeat: {n: 2}, tensors: [{a: 'z.{n}', shape: [1]}]}\n"
         "  - {a: w, shape: [n]}\n",
     SW_ERR_FORMAT, "MAP-11", "7:20", "nothing defines \"n\""},
    {ONE "  - {repeat: {n: 2}, optional: true, tensors: [{repeat: {m: 3}, optional: true, tensors: "
         "[]}]}\n",
     SW_ERR_FORMAT, "MAP-9", "6:48", "optional inside of what is optional"},
    {ONE "  - {repeat: {n: 2}, optional: true, tensors: [{repeat: {m: 3}, tensors: [{repeat: {l: "
         "1}, optional: true, tensors: []}]}]}\n",
     SW_ERR_FORMAT, "MAP-9", "6:75", "optional inside of what is optional"},
    {ONE "  - {repeat: {n: 2}, tensors: x}\n", SW_ERR_FORMAT, "NT-1", "6:31",
     "tensors must be a list"},
    {ONE "  - {interleave: []}\n", SW_ERR_FORMAT, "MAP-15", "6:18", "interleave without rules"},
    {ONE "  - {interleave: x}\n", SW_ERR_FORMAT, "NT-1", "6:18", "interleave must be a list"},
    {ONE "  - {interleave: [x]}\n", SW_ERR_FORMAT, "NT-1", "6:19", "a rule must be a mapping"},
    {ONE "  - {interleave: [], when: true}\n", SW_ERR_FORMAT, "NT-1", "6:22", "unknown key"},
    {ONE
     "  - interleave:\n      - {a: 'p{1,2}', shape: [1]}\n      - {a: 'q{1,2,3}', shape: [1]}\n",
     SW_ERR_FORMAT, "MAP-15", "8:9", "differ in their number of parts"},
    {ONE "  - {a: "
         "'{a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q}',"
         " shape: [1]}\n",
     SW_ERR_LIMIT, "MAP-3", "6:5", "at most 16 parts"},
};

static void check_all(const bad *list, size_t count)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        swi_map *map = NULL;
        sw_error err = {0};
        if (parse_map(list[i].text, &map, &err) == SW_OK)
            print_error("taken, though wrong:\n%s", list[i].text);
        wrong += !complains(list[i].text, &err, list[i].status, list[i].clause, list[i].place,
                            list[i].said);
        swi_map_free(map);
    }
    assert_int_equal(wrong, 0);
}

static void wrong_heads(void **state)
{
    (void)state;
    check_all(heads, sizeof heads / sizeof heads[0]);
}

static void wrong_rules(void **state)
{
    (void)state;
    check_all(rules, sizeof rules / sizeof rules[0]);
    check_all(fills, sizeof fills / sizeof fills[0]);
}

static void wrong_blocks(void **state)
{
    (void)state;
    check_all(blocks, sizeof blocks / sizeof blocks[0]);
}

/* Names that are too many are told of, not looked through one by one for each use. */
static void too_many_names(void **state)
{
    (void)state;
    swi_buf text = {0};
    swi_map *map = NULL;
    sw_error err = {0};
    assert_ok(swi_buf_append_str(&text, HEAD "let:\n", &err), &err);
    for (int i = 0; i < 1025; i++)
        assert_ok(swi_buf_printf(&text, &err, "  a%d: 1\n", i), &err);
    assert_int_equal(swi_map_parse(text.data, text.size, "m.yaml", NULL, &map, &err), SW_ERR_LIMIT);
    assert_true(complains("names", &err, SW_ERR_LIMIT, "MAP-11", "1028:3", "more than 1024 names"));
    swi_buf_free(&text);
}

/* Cut anywhere, it is taken or refused with a place, and no memory is lost. */
static void every_length(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof all_of_it - 1; n++) {
        swi_map *map = NULL;
        sw_error err = {0};
        sw_status st = swi_map_parse(all_of_it, n, "m.yaml", NULL, &map, &err);
        if (st != SW_OK && strncmp(err.text, "m.yaml", 6) != 0)
            fail_msg("%zu bytes: %s", n, err.text);
        swi_map_free(map);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_map_of_all_that_there_is),
        cmocka_unit_test(wrong_heads),
        cmocka_unit_test(wrong_rules),
        cmocka_unit_test(wrong_blocks),
        cmocka_unit_test(too_many_names),
        cmocka_unit_test(every_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
