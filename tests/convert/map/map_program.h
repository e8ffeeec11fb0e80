/*
 * Random maps: what they say in numbers, their texts, and the tensors of each of their sides by the
 * definitions of the operations. The choices come from a function, so that tests draw them and a
 * fuzzer feeds them.
 *
 * The including file defines MODEL_FAIL(text), which does not return.
 */
#ifndef TESTS_CONVERT_MAP_MAP_PROGRAM_H
#define TESTS_CONVERT_MAP_MAP_PROGRAM_H

#include <stdarg.h>

#include "base/buf.h"
#include "reshard/shaped_ops.h"

#define PROGRAM_RULES 3
#define PROGRAM_SIDES 3
#define PROGRAM_PARTS 3
#define PROGRAM_LOOPS 2
#define PROGRAM_TENSORS 256
#define PROGRAM_FILL (UINT64_C(1) << 61)
#define PROGRAM_ELEMENTS 1024

/* ---- what a map says, in numbers -------------------------------------------------------------
 */

typedef struct program_form {
    bool rearranges;
    swi_rearrange how[PROGRAM_PARTS];
    bool given[PROGRAM_PARTS][SW_MAX_AXES]; /* by factor: a name of `let` */
    bool join, stack;
    uint32_t join_dim, stack_dim;
    int64_t groups;
    bool dropped[PROGRAM_LOOPS]; /* the name lacks the variable */
    bool pads;
    int64_t more[SW_MAX_AXES]; /* of the padded tensor */
} program_form;

typedef struct program_rule {
    uint32_t loops;
    int64_t count[PROGRAM_LOOPS];
    uint32_t parts, axes;
    int64_t shape[PROGRAM_PARTS][SW_MAX_AXES];
    bool fills;
    int tie;     /* the rule before whose atom it is tied to, or -1 */
    size_t atom; /* there */
    program_form forms[PROGRAM_SIDES];
    array atoms[PROGRAM_PARTS * 9]; /* by turn, then by part */
    size_t turns;
} program_rule;

typedef struct program_tensor {
    char name[64];
    array a;
    uint32_t rule;
} program_tensor;

typedef struct program {
    model m;
    program_rule rules[PROGRAM_RULES];
    uint32_t count;
    program_tensor tensors[PROGRAM_SIDES][PROGRAM_TENSORS];
    size_t tensor_count[PROGRAM_SIDES];
    swi_buf text;
    bool too_big;
} program;

static const char program_side[] = "cab";

/* ---- choosing --------------------------------------------------------------------------------
 */

static inline void choose_rearrange(program *p, program_rule *r, program_form *f)
{
    const uint32_t varies = r->axes > 0 ? 0 : SW_MAX_AXES;
    const array first = {.axes = r->axes, .count = 1};
    array like = first;
    memcpy(like.shape, r->shape[0], sizeof like.shape);
    f->rearranges = r->axes > 0 && model_below(&p->m, 2) == 1;
    if (!f->rearranges)
        return;
    f->how[0] = random_rearrange(&p->m, &like);
    for (uint32_t i = 0; i < r->parts; i++) {
        f->how[i] = f->how[0];
        if (i > 0 && varies == 0 && r->shape[i][0] != r->shape[0][0]) {
            if (f->how[i].in_count[0] == 0) {
                f->rearranges = false;
                return;
            }
            f->how[i].size[0] *= r->shape[i][0] / r->shape[0][0];
        }
        /* one factor of a group may be left to be solved */
        for (uint32_t d = 0, k = 0; d < f->how[i].in_axes; k += f->how[i].in_count[d++])
            for (uint32_t n = 0; n < f->how[i].in_count[d]; n++)
                f->given[i][k + n] = n > 0 || model_below(&p->m, 2) == 0;
    }
}

/* What each part is before it is joined. */
static inline array part_of(const program_form *f, const array *atom, uint32_t part)
{
    if (f->rearranges)
        return array_rearrange(atom, &f->how[part]);
    array a = array_make(atom->axes, atom->shape);
    memcpy(a.v, atom->v, a.count * sizeof *a.v);
    return a;
}

static inline int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* A dimension along which the parts fit together, if there is one. */
static inline void choose_join(program *p, program_rule *r, program_form *f)
{
    array parts[PROGRAM_PARTS];
    uint32_t good[SW_MAX_AXES], count = 0;
    int64_t common = 0;
    if (r->parts == 1 || model_below(&p->m, 4) == 1)
        return;
    for (uint32_t i = 0; i < r->parts; i++)
        parts[i] = part_of(f, &r->atoms[i], i);
    for (uint32_t d = 0; d < parts[0].axes; d++) {
        bool fit = true;
        for (uint32_t i = 1; i < r->parts; i++)
            for (uint32_t k = 0; k < parts[0].axes; k++)
                fit = fit && (k == d || parts[i].shape[k] == parts[0].shape[k]);
        if (fit)
            good[count++] = d;
    }
    if (count > 0) {
        f->join = true;
        f->join_dim = good[model_below(&p->m, count)];
        for (uint32_t i = 0; i < r->parts; i++)
            common = common_divisor(parts[i].shape[f->join_dim], common);
        f->groups = divisor_of(&p->m, common);
    }
    for (uint32_t i = 0; i < r->parts; i++)
        free(parts[i].v);
}

static inline void choose_form(program *p, program_rule *r, program_form *f)
{
    *f = (program_form){.groups = 1};
    choose_rearrange(p, r, f);
    choose_join(p, r, f);
    for (uint32_t i = 0; i < r->loops; i++) {
        f->dropped[i] = model_below(&p->m, 2) == 1;
        f->stack = f->stack || f->dropped[i];
    }
    const uint32_t axes = f->rearranges ? f->how[0].out_axes : r->axes;
    if (f->stack)
        f->stack_dim = (uint32_t)model_below(&p->m, axes + 1);
    bool equal = true; /* one size is for all tensors of the rule */
    for (uint32_t i = 0; i < r->parts; i++)
        equal = equal && (f->join || r->shape[i][0] == r->shape[0][0]);
    if (equal && axes + f->stack > 0 && model_below(&p->m, 3) == 1) {
        f->pads = true;
        for (uint32_t k = 0; k < axes + f->stack; k++)
            f->more[k] = model_below(&p->m, 3);
    }
}

static inline void choose_shape(program *p, program_rule *r)
{
    r->axes = (uint32_t)model_below(&p->m, 4);
    for (uint32_t k = 0; k < r->axes; k++)
        r->shape[0][k] = 1 + model_below(&p->m, r->axes < 3 ? 6 : 4);
    for (uint32_t i = 1; i < r->parts; i++) {
        memcpy(r->shape[i], r->shape[0], sizeof r->shape[0]);
        if (r->axes > 0 && model_below(&p->m, 2) == 1)
            r->shape[i][0] *= 1 + model_below(&p->m, 2);
    }
}

static inline void choose_rule(program *p, uint32_t n, uint64_t *next)
{
    program_rule *r = &p->rules[n];
    *r = (program_rule){.parts = 1, .tie = -1, .turns = 1};
    const int64_t kind = model_below(&p->m, 8);
    r->fills = kind == 6;
    const program_rule *before = n > 0 ? &p->rules[n - 1] : NULL;
    if (kind == 7 && before != NULL && !before->fills) {
        r->tie = (int)n - 1;
        r->atom = (size_t)model_below(&p->m, (int64_t)(before->turns * before->parts));
        r->axes = before->axes;
        memcpy(r->shape[0], before->shape[r->atom % before->parts], sizeof r->shape[0]);
    } else {
        r->parts = 1 + (uint32_t)model_below(&p->m, PROGRAM_PARTS);
        r->loops = (uint32_t)model_below(&p->m, PROGRAM_LOOPS + 1);
        choose_shape(p, r);
    }
    for (uint32_t i = 0; i < r->loops; i++) {
        r->count[i] = 1 + model_below(&p->m, 3);
        r->turns *= (size_t)r->count[i];
    }
    for (size_t i = 0; i < r->turns * r->parts; i++) {
        r->atoms[i] = array_make(r->axes, r->shape[i % r->parts]);
        for (size_t e = 0; e < r->atoms[i].count; e++)
            r->atoms[i].v[e] = r->fills ? PROGRAM_FILL : (*next)++;
        if (r->tie >= 0)
            memcpy(r->atoms[i].v, before->atoms[r->atom].v,
                   r->atoms[i].count * sizeof *r->atoms[i].v);
    }
    r->forms[0] = (program_form){.groups = 1};
    for (uint32_t s = 1; s < PROGRAM_SIDES; s++)
        choose_form(p, r, &r->forms[s]);
}

/* Names as the map makes them. */
static inline void name_of(const program_rule *r, uint32_t n, uint32_t s, size_t turn,
                           uint32_t part, char out[64])
{
    const program_form *f = &r->forms[s];
    const size_t at[2] = {r->loops == 2 ? turn / (size_t)r->count[1] : turn,
                          r->loops == 2 ? turn % (size_t)r->count[1] : 0};
    int size = snprintf(out, 64, "%c.r%u", program_side[s], n);
    for (uint32_t i = 0; i < r->loops; i++)
        if (!f->dropped[i])
            size += snprintf(out + size, 64 - (size_t)size, ".%zu", at[i]);
    if (r->parts > 1 && !f->join)
        snprintf(out + size, 64 - (size_t)size, ".p%u", part);
}

/* ---- the map as a text -----------------------------------------------------------------------
 */

static inline void say(program *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline void say(program *p, const char *fmt, ...)
{
    char line[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    MODEL_PROMISE(swi_buf_append_str(&p->text, line, NULL) == SW_OK);
}

static inline void say_factor(program *p, uint32_t n, uint32_t s, uint32_t part, uint32_t k)
{
    say(p, "r%us%up%uf%u", n, s, part, k);
}

static inline void say_group(program *p, uint32_t n, uint32_t s, uint32_t part,
                             const uint32_t *factors, uint32_t count)
{
    if (count == 0)
        say(p, "1");
    if (count > 1)
        say(p, "(");
    for (uint32_t k = 0; k < count; k++) {
        say(p, "%s", k > 0 ? " " : "");
        say_factor(p, n, s, part, factors[k]);
    }
    if (count > 1)
        say(p, ")");
}

static inline void say_rearrange(program *p, uint32_t n, uint32_t s, uint32_t part)
{
    const swi_rearrange *how = &p->rules[n].forms[s].how[part];
    uint32_t left[SW_MAX_AXES], at = 0;
    for (uint32_t k = 0; k < how->factors; k++)
        left[k] = k;
    say(p, "\"");
    for (uint32_t d = 0; d < how->in_axes; at += how->in_count[d++]) {
        say(p, "%s", d > 0 ? " " : "");
        say_group(p, n, s, part, &left[at], how->in_count[d]);
    }
    say(p, " ->");
    at = 0;
    for (uint32_t d = 0; d < how->out_axes; at += how->out_count[d++]) {
        say(p, " ");
        say_group(p, n, s, part, &how->order[at], how->out_count[d]);
    }
    say(p, "\"");
}

static inline void say_lets(program *p)
{
    say(p, "let:\n  tied: true\n");
    for (uint32_t n = 0; n < p->count; n++)
        for (uint32_t s = 1; s < PROGRAM_SIDES; s++)
            for (uint32_t i = 0; i < p->rules[n].parts && p->rules[n].forms[s].rearranges; i++) {
                const program_form *f = &p->rules[n].forms[s];
                for (uint32_t k = 0; k < f->how[i].factors; k++) {
                    if (!f->given[i][k])
                        continue;
                    say(p, "  ");
                    say_factor(p, n, s, i, k);
                    say(p, ": %lld\n", (long long)f->how[i].size[k]);
                }
            }
}

static inline void say_name(program *p, uint32_t n, uint32_t s)
{
    const program_rule *r = &p->rules[n];
    const program_form *f = &r->forms[s];
    say(p, "\"%c.r%u", program_side[s], n);
    for (uint32_t i = 0; i < r->loops; i++)
        if (!f->dropped[i])
            say(p, ".{v%u%u}", n, i);
    if (r->parts > 1 && !f->join)
        say(p, r->parts == 2 ? ".{p0,p1}" : ".{p0,p1,p2}");
    say(p, "\"");
}

/* The shape of a tensor of the side; its elements too, if they are wanted. */
static inline array tensor_of(const program_rule *r, uint32_t s, const array *const *turns,
                              size_t count);

static inline void say_form(program *p, uint32_t n, uint32_t s, const array *like)
{
    const program_rule *r = &p->rules[n];
    const program_form *f = &r->forms[s];
    say(p, ", %c: {name: ", program_side[s]);
    say_name(p, n, s);
    for (uint32_t i = 0; i < r->parts && f->rearranges; i++) {
        say(p, i == 0 ? ", rearrange: [" : ", ");
        say_rearrange(p, n, s, i);
        if (i + 1 == r->parts)
            say(p, "]");
    }
    if (f->join)
        say(p, ", join: %u, groups: %lld", f->join_dim, (long long)f->groups);
    if (f->stack)
        say(p, ", stack: %u", f->stack_dim);
    for (uint32_t k = 0; k < like->axes && f->pads; k++)
        say(p, "%s%lld%s", k == 0 ? ", pad: [" : ", ", (long long)like->shape[k],
            k + 1 == like->axes ? "]" : "");
    say(p, "}");
}

static inline void say_rule(program *p, uint32_t n)
{
    const program_rule *r = &p->rules[n];
    for (uint32_t i = 0; i < r->loops; i++)
        say(p, "%*s- repeat: {v%u%u: %lld}\n%*s  tensors:\n", (int)(2 + 4 * i), "", n, i,
            (long long)r->count[i], (int)(2 + 4 * i), "");
    say(p, "%*s- {c: ", (int)(2 + 4 * r->loops), "");
    say_name(p, n, 0);
    say(p, ", shape: [");
    for (uint32_t i = 0; i < r->parts; i++) {
        say(p, "%s[", i > 0 ? ", " : "");
        for (uint32_t k = 0; k < r->axes; k++)
            say(p, "%s%lld", k > 0 ? ", " : "", (long long)r->shape[i][k]);
        say(p, "]");
    }
    say(p, "]");
    if (r->fills)
        say(p, ", fill: 1.5, dtype: float32, buffer: true");
    if (r->tie >= 0) {
        const program_rule *to = &p->rules[r->tie];
        char name[64];
        name_of(to, n - 1, 0, r->atom / to->parts, (uint32_t)(r->atom % to->parts), name);
        say(p, ", tie: {to: %s, when: tied}", name);
    }
    for (uint32_t s = 1; s < PROGRAM_SIDES; s++) {
        const array *like = NULL;
        for (size_t t = 0; t < p->tensor_count[s]; t++)
            if (p->tensors[s][t].rule == n)
                like = &p->tensors[s][t].a;
        MODEL_PROMISE(like != NULL);
        say_form(p, n, s, like);
    }
    say(p, "}\n");
}

static inline void say_map(program *p)
{
    bool tied = false;
    say(p, "map: 1\nname: random\nsides: {c: {}, a: {}, b: {}}\n");
    for (uint32_t n = 0; n < p->count; n++)
        tied = tied || p->rules[n].tie >= 0;
    say_lets(p);
    say(p, "tensors:\n");
    for (uint32_t n = 0; n < p->count; n++)
        say_rule(p, n);
    if (!tied) /* each name of let must be used */
        say(p, "  - {c: c.extra, when: not tied, shape: [1], a: a.extra, b: b.extra}\n");
}

/* ---- what the tensors of a side are ----------------------------------------------------------
 */

static inline array array_stack(const array *items, size_t count, uint32_t dim)
{
    int64_t shape[SW_MAX_AXES], index[SW_MAX_AXES] = {0}, inside[SW_MAX_AXES];
    uint32_t n = 0;
    for (uint32_t k = 0; k < items[0].axes + 1; k++)
        shape[k] = k == dim ? (int64_t)count : items[0].shape[n++];
    array out = array_make(items[0].axes + 1, shape);
    for (size_t e = 0; e < out.count; e++) {
        array_index(&out, e, index);
        n = 0;
        for (uint32_t k = 0; k < out.axes; k++)
            if (k != dim)
                inside[n++] = index[k];
        out.v[e] = items[index[dim]].v[array_flat(&items[index[dim]], inside)];
    }
    return out;
}

static inline array array_padded(const array *a, const int64_t *more)
{
    int64_t shape[SW_MAX_AXES], index[SW_MAX_AXES] = {0};
    for (uint32_t k = 0; k < a->axes; k++)
        shape[k] = a->shape[k] + more[k];
    array out = array_make(a->axes, shape);
    for (size_t e = 0; e < out.count; e++) {
        bool inside = true;
        array_index(&out, e, index);
        for (uint32_t k = 0; k < a->axes; k++)
            inside = inside && index[k] < a->shape[k];
        out.v[e] = inside ? a->v[array_flat(a, index)] : MODEL_PAD;
    }
    return out;
}

/* Of these turns' first atoms (or, without join, of the one part from which they are). */
static inline array tensor_of(const program_rule *r, uint32_t s, const array *const *turns,
                              size_t count)
{
    const program_form *f = &r->forms[s];
    array items[9] = {{0}}, out;
    for (size_t t = 0; t < count; t++) {
        if (!f->join) {
            const uint32_t part = (uint32_t)((size_t)(turns[t] - r->atoms) % r->parts);
            items[t] = part_of(f, turns[t], part);
            continue;
        }
        array parts[PROGRAM_PARTS + 1] = {{0}};
        for (uint32_t i = 0; i < r->parts; i++)
            parts[i] = part_of(f, turns[t] + i, i);
        items[t] = array_join(parts, f->join_dim, f->groups);
        for (uint32_t i = 0; i < r->parts; i++)
            free(parts[i].v);
    }
    if (f->stack) {
        out = array_stack(items, count, f->stack_dim);
        for (size_t t = 0; t < count; t++)
            free(items[t].v);
    } else {
        out = items[0];
    }
    if (!f->pads)
        return out;
    array padded = array_padded(&out, f->more);
    free(out.v);
    return padded;
}

static inline void make_tensors(program *p, uint32_t n, uint32_t s)
{
    const program_rule *r = &p->rules[n];
    const uint32_t names = r->forms[s].join ? 1 : r->parts;
    for (size_t turn = 0; turn < r->turns; turn++) {
        for (uint32_t part = 0; part < names; part++) {
            const array *turns[9];
            char name[64], other[64];
            size_t count = 0;
            bool is_first = true;
            name_of(r, n, s, turn, part, name);
            for (size_t t = 0; t < r->turns; t++) {
                name_of(r, n, s, t, part, other);
                if (strcmp(name, other) != 0)
                    continue;
                is_first = is_first && t >= turn;
                turns[count++] = &r->atoms[t * r->parts + part];
            }
            if (!is_first)
                continue;
            MODEL_PROMISE(p->tensor_count[s] < PROGRAM_TENSORS);
            program_tensor *made = &p->tensors[s][p->tensor_count[s]++];
            memcpy(made->name, name, sizeof name);
            made->rule = n;
            made->a = tensor_of(r, s, turns, count);
            p->too_big = p->too_big || made->a.count > PROGRAM_ELEMENTS;
        }
    }
}

static inline void program_make(program *p, model_choose choose, void *ctx)
{
    uint64_t next = 0;
    *p = (program){.count = 0};
    model_make(&p->m, choose, ctx);
    p->m.dtype = SW_F32;
    p->m.element_bytes = 4;
    p->count = 1 + (uint32_t)model_below(&p->m, PROGRAM_RULES);
    for (uint32_t n = 0; n < p->count; n++)
        choose_rule(p, n, &next);
    for (uint32_t s = 0; s < PROGRAM_SIDES; s++)
        for (uint32_t n = 0; n < p->count; n++)
            make_tensors(p, n, s);
    say_map(p);
}

static inline void program_free(program *p)
{
    for (uint32_t n = 0; n < p->count; n++)
        for (size_t i = 0; i < p->rules[n].turns * p->rules[n].parts; i++)
            free(p->rules[n].atoms[i].v);
    for (uint32_t s = 0; s < PROGRAM_SIDES; s++)
        for (size_t t = 0; t < p->tensor_count[s]; t++)
            free(p->tensors[s][t].a.v);
    swi_buf_free(&p->text);
    model_free(&p->m);
}

#endif
