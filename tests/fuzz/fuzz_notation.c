/*
 * The texts inside layouts and maps. First byte: what it is. What parses must also run, agree with
 * itself, and every error must lie inside the text.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "codec/json.h"
#include "notation/einops.h"
#include "notation/expr.h"
#include "notation/pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        __builtin_trap();
}

static void check_error(const sw_error *err, size_t size)
{
    check(err->status == SW_ERR_NOMEM || (err->has_offset && err->offset_bytes <= size));
}

/* ---- names that have values ---------------------------------------------------------------- */

static const char config_text[] =
    "{\"a\":{\"b\":2.5},\"l\":[1,\"x\",null,[2]],\"t\":\"x\",\"z\":null}";

typedef struct world {
    sw_value_graph *graph;
    swi_expr_var items[4];
    swi_expr_vars vars;
    swi_expr_scope scope;
} world;

static bool open_world(world *w)
{
    sw_value root;
    sw_error err = {0};
    *w = (world){0};
    if (swi_json_parse(config_text, strlen(config_text), NULL, &w->graph, &root, &err) != SW_OK)
        return false;
    w->items[0] = (swi_expr_var){"config", swi_expr_of_json(w->graph, root)};
    w->items[1] = (swi_expr_var){"a", swi_expr_of_int(3)};
    w->items[2] = (swi_expr_var){"b", swi_expr_of_int(-2)};
    w->items[3] = (swi_expr_var){"two", swi_expr_of_int(2)};
    w->vars = (swi_expr_vars){.items = w->items, .count = 4};
    w->scope = (swi_expr_scope){.find = swi_expr_find_var, .ctx = &w->vars};
    return true;
}

/* ---- expressions ---------------------------------------------------------------------------- */

static void fuzz_expr(const char *text, size_t size)
{
    swi_expr *e = NULL;
    sw_error err = {0};
    world w;
    if (swi_expr_compile(text, size, &e, &err) != SW_OK) {
        check_error(&err, size);
        return;
    }
    for (size_t i = 0; i < swi_expr_use_count(e); i++) {
        swi_expr_use use = swi_expr_use_at(e, i);
        size_t length = strlen(use.name);
        check(use.offset_bytes + length <= size);
        check(memcmp(text + use.offset_bytes, use.name, length) == 0);
        check(use.path != NULL);
    }
    if (open_world(&w)) {
        swi_expr_value v;
        int64_t n;
        bool truth;
        if (swi_expr_eval(e, &w.scope, &v, &err) != SW_OK)
            check_error(&err, size);
        else if (v.kind == SWI_EXPR_LIST && v.count > 0)
            check(swi_expr_item(&v, v.count - 1).kind <= SWI_EXPR_OBJECT);
        if (swi_expr_eval_int(e, &w.scope, &n, &err) != SW_OK)
            check_error(&err, size);
        if (swi_expr_eval_truth(e, &w.scope, &truth, &err) != SW_OK)
            check_error(&err, size);
    }
    sw_value_graph_free(w.graph);
    swi_expr_free(e);
}

/* ---- patterns: a pattern, a line end, another pattern, a line end, a name ---------------------
 */

static swi_pattern *read_pattern(const char *text, size_t size)
{
    swi_pattern *p = NULL;
    sw_error err = {0};
    if (swi_pattern_parse(text, size, &p, &err) != SW_OK)
        check_error(&err, size);
    return p;
}

/* Bindings of a name of an invertible pattern make the name again. */
static void check_bindings(const swi_pattern *p, const char *name, size_t size)
{
    swi_bindings b;
    swi_buf buf = {0};
    sw_error err = {0};
    bool is = swi_pattern_match(p, name, size, &b);
    check(is == swi_pattern_match(p, name, size, NULL));
    if (is)
        check(b.count == swi_pattern_var_count(p) && b.part < swi_pattern_part_count(p));
    if (is && swi_pattern_is_invertible(p) && swi_pattern_instantiate(p, &b, &buf, &err) == SW_OK) {
        check(buf.size == size && (size == 0 || memcmp(buf.data, name, size) == 0));
    }
    swi_buf_free(&buf);
}

static void check_overlap(const swi_pattern *a, const swi_pattern *b, const char *name, size_t size)
{
    bool found = true;
    swi_buf witness = {0};
    sw_error err = {0};
    if (swi_pattern_overlap(a, b, &found, &witness, &err) == SW_OK) {
        check(found || !swi_pattern_match(a, name, size, NULL) ||
              !swi_pattern_match(b, name, size, NULL));
        check(found || witness.size == 0);
    }
    swi_buf_free(&witness);
}

static void fuzz_pattern(const char *text, size_t size)
{
    const char *line = size > 0 ? memchr(text, '\n', size) : NULL;
    if (line == NULL)
        return;
    size_t first = (size_t)(line - text), rest = size - first - 1;
    const char *second = line + 1;
    line = rest > 0 ? memchr(second, '\n', rest) : NULL;
    size_t second_size = line != NULL ? (size_t)(line - second) : rest;
    const char *name = line != NULL ? line + 1 : second + rest;
    size_t name_size = line != NULL ? rest - second_size - 1 : 0;
    swi_pattern *a = read_pattern(text, first), *b = read_pattern(second, second_size);
    if (a != NULL)
        check_bindings(a, name, name_size);
    if (b != NULL)
        check_bindings(b, name, name_size);
    if (a != NULL && b != NULL)
        check_overlap(a, b, name, name_size);
    swi_pattern_free(a);
    swi_pattern_free(b);
}

/* ---- rearrangements: four bytes of shape, a text ------------------------------------------------
 */

static bool same(const swi_rearrange *a, const swi_rearrange *b)
{
    bool equal = a->factors == b->factors && a->in_axes == b->in_axes && a->out_axes == b->out_axes;
    for (uint32_t i = 0; equal && i < a->factors; i++)
        equal = a->size[i] == b->size[i] && a->order[i] == b->order[i];
    return equal;
}

static void check_numbers(const swi_einops *e, const int64_t *shape, const swi_expr_scope *scope,
                          size_t size)
{
    swi_rearrange r, back, twice;
    sw_error err = {0};
    uint32_t axes = swi_einops_axes(e, false), factor = 0;
    if (swi_einops_solve(e, false, shape, axes, scope, &r, &err) != SW_OK) {
        check_error(&err, size);
        return;
    }
    check(r.factors == swi_einops_name_count(e) && r.in_axes == axes);
    for (uint32_t d = 0; d < axes; d++) {
        int64_t product = 1;
        for (uint32_t i = 0; i < r.in_count[d]; i++)
            product *= r.size[factor++];
        check(product == shape[d]);
    }
    check(factor == r.factors);
    swi_rearrange_inverse(&r, &back);
    swi_rearrange_inverse(&back, &twice);
    check(same(&r, &twice));
}

static void fuzz_einops(const char *text, size_t size)
{
    int64_t shape[SW_MAX_AXES];
    swi_einops *e = NULL;
    sw_error err = {0};
    world w;
    if (size < 4)
        return;
    for (size_t i = 0; i < SW_MAX_AXES; i++)
        shape[i] = (uint8_t)text[i % 4];
    text += 4;
    size -= 4;
    if (swi_einops_parse(text, size, &e, &err) != SW_OK) {
        check_error(&err, size);
        return;
    }
    if (open_world(&w)) {
        swi_rearrange r;
        check_numbers(e, shape, &w.scope, size);
        check_numbers(e, shape, NULL, size);
        if (swi_einops_solve(e, true, shape, swi_einops_axes(e, true), &w.scope, &r, &err) != SW_OK)
            check_error(&err, size);
    }
    sw_value_graph_free(w.graph);
    swi_einops_free(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    switch (data[0] % 3) {
    case 0:
        fuzz_expr(text, size - 1);
        break;
    case 1:
        fuzz_pattern(text, size - 1);
        break;
    default:
        fuzz_einops(text, size - 1);
        break;
    }
    return 0;
}
