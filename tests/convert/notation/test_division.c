/* How rules divide tensors (LAY-1 to LAY-7), against lists of elements cut by hand. */
#include "harness/harness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "notation/division.h"
#include "torch/placements.h"

#define ELEMENTS_MAX 2048

/* ---- a layout from text ---------------------------------------------------------------------- */

typedef struct laid {
    swi_rules *rules;
    swi_division *division;
} laid;

static laid lay(const char *text)
{
    laid l = {0};
    sw_error err = {0};
    const sw_limits limits = sw_limits_resolve(NULL);
    assert_ok(swi_rules_parse_text(text, strlen(text), "l.yaml", &limits, &l.rules, &err), &err);
    assert_ok(swi_division_make(l.rules, NULL, NULL, 0, &l.division, &err), &err);
    return l;
}

static void put_away(laid *l)
{
    swi_division_free(l->division);
    swi_rules_free(l->rules);
}

static swi_cut divide(const laid *l, const char *name, uint32_t axes, const int64_t *shape)
{
    sw_error err = {0};
    swi_cut cut;
    assert_ok(swi_divide(l->division, name, axes, shape, &cut, &err), &err);
    assert_int_equal(cut.holdings * cut.copies, swi_division_ranks(l->division));
    return cut;
}

/* ---- the elements of a local tensor, row-major ----------------------------------------------- */

static void put_part(const swi_local *l, const swi_block_part *p, int64_t *out)
{
    int64_t at[SW_MAX_AXES] = {0}, count = 1;
    for (uint32_t k = 0; k < l->axes; k++)
        count *= p->length[k];
    for (int64_t n = 0; n < count; n++) {
        int64_t from = 0, to = 0;
        for (uint32_t k = 0; k < l->axes; k++) {
            from = from * l->view[k] + p->offset[k] + at[k];
            to = to * l->shape[k] + p->place[k] + at[k];
        }
        assert_int_equal(out[to], -1);
        out[to] = from;
        for (uint32_t k = l->axes; k-- > 0 && ++at[k] == p->length[k];)
            at[k] = 0;
    }
}

static int64_t elements_of(const swi_local *l, int64_t *out)
{
    int64_t count = 1;
    for (uint32_t k = 0; k < l->axes; k++)
        count *= l->shape[k];
    assert_in_range(count, 0, ELEMENTS_MAX);
    for (int64_t i = 0; i < count; i++)
        out[i] = -1;
    for (size_t p = 0; p < l->count; p++)
        put_part(l, &l->parts[p], out);
    for (int64_t i = 0; i < count; i++)
        assert_true(out[i] >= 0);
    return count;
}

/* ---- arrays, cut by hand -----------------------------------------------------------------------
 */

typedef struct array {
    int64_t shape[3];
    int64_t item[ELEMENTS_MAX];
} array;

/* The array of these indexes along dim. */
static void take(const array *from, size_t dim, const int64_t *index, int64_t count, array *to)
{
    int64_t at[3], n = 0;
    memcpy(to->shape, from->shape, sizeof to->shape);
    to->shape[dim] = count;
    for (at[0] = 0; at[0] < to->shape[0]; at[0]++)
        for (at[1] = 0; at[1] < to->shape[1]; at[1]++)
            for (at[2] = 0; at[2] < to->shape[2]; at[2]++) {
                int64_t i[3] = {at[0], at[1], at[2]};
                i[dim] = index[at[dim]];
                to->item[n++] = from->item[(i[0] * from->shape[1] + i[1]) * from->shape[2] + i[2]];
            }
}

/* torch.chunk: as many of ceil(n / parts) as there are. */
static int64_t chunk_of(int64_t *index, int64_t count, int64_t parts, int64_t part)
{
    int64_t step = (count + parts - 1) / parts, n = 0;
    for (int64_t i = 0; i < count; i++)
        if (step > 0 && i / step == part)
            index[n++] = index[i];
    return n;
}

/* ---- dims ------------------------------------------------------------------------------------ */

typedef struct mesh {
    uint32_t axes;
    uint64_t size[3], ranks;
} mesh;

static const char *const axis_names[] = {"aa", "bb", "cc"};

static mesh random_mesh(harness_prng *prng)
{
    mesh m = {.axes = 1 + (uint32_t)harness_random_below(prng, 3), .ranks = 1};
    for (uint32_t a = 0; a < m.axes; a++) {
        m.size[a] = 1 + harness_random_below(prng, 4);
        m.ranks *= m.size[a];
    }
    return m;
}

static int64_t coordinate(const mesh *m, uint64_t rank, uint32_t axis)
{
    for (uint32_t a = m->axes; a-- > axis + 1;)
        rank /= m->size[a];
    return (int64_t)(rank % m->size[axis]);
}

static char *mesh_text(const mesh *m)
{
    static char text[128];
    size_t n = 0;
    for (uint32_t a = 0; a < m->axes; a++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s: %" PRIu64, a > 0 ? ", " : "",
                              axis_names[a], m->size[a]);
    return text;
}

typedef struct splits {
    uint32_t dim[3], axis[3], count; /* in the order in which they are done */
} splits;

/* Some of the axes, each to a dimension, in any order. */
static splits random_splits(harness_prng *prng, const mesh *m)
{
    splits s = {.count = 0};
    uint32_t order[3] = {0, 1, 2};
    for (uint32_t a = m->axes; a-- > 1;) {
        uint32_t b = (uint32_t)harness_random_below(prng, a + 1), axis = order[a];
        order[a] = order[b];
        order[b] = axis;
    }
    for (uint32_t d = 0; d < 3; d++)
        for (uint32_t a = 0; a < m->axes; a++)
            if (order[a] < 4 && harness_random_below(prng, 3) == 0) {
                s.dim[s.count] = d;
                s.axis[s.count++] = order[a];
                order[a] = 9;
            }
    return s;
}

static char *splits_text(const splits *s)
{
    static char text[64];
    size_t n = 0;
    for (uint32_t d = 0; d < 3; d++) {
        bool any = false;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s", d > 0 ? ", " : "");
        for (uint32_t i = 0; i < s->count; i++)
            if (s->dim[i] == d) {
                n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", any ? ">" : "",
                                      axis_names[s->axis[i]]);
                any = true;
            }
        n += any ? 0 : (size_t)snprintf(text + n, sizeof text - n, "_");
    }
    return text;
}

static void fill(array *a, harness_prng *prng)
{
    for (uint32_t k = 0; k < 3; k++)
        a->shape[k] = (int64_t)harness_random_below(prng, 11);
    for (int64_t i = 0; i < a->shape[0] * a->shape[1] * a->shape[2]; i++)
        a->item[i] = i;
}

static void check_ranks(const swi_cut *cut, uint64_t rank)
{
    uint64_t holding = swi_cut_of_rank(cut, rank);
    uint64_t before = 0;
    bool found = false;
    assert_true(holding < cut->holdings);
    for (uint64_t k = 0; k < cut->copies; k++) {
        uint64_t r = swi_cut_rank(cut, holding, k);
        assert_true(k == 0 || r > before);
        assert_int_equal(swi_cut_of_rank(cut, r), holding);
        found = found || r == rank;
        before = r;
    }
    assert_true(found);
}

static void same_elements(const swi_cut *cut, uint64_t rank, const array *want)
{
    static int64_t got[ELEMENTS_MAX];
    swi_local local;
    check_ranks(cut, rank);
    swi_cut_local(cut, swi_cut_of_rank(cut, rank), &local);
    int64_t count = elements_of(&local, got);
    assert_int_equal(count, want->shape[0] * want->shape[1] * want->shape[2]);
    if (count > 0) {
        assert_memory_equal(local.shape, want->shape, sizeof want->shape);
        assert_memory_equal(got, want->item, (size_t)count * sizeof *got);
    } else {
        assert_int_equal(local.count, 0);
    }
}

/* LAY-1, LAY-2: nested torch.chunk in the order of the entry. */
static void dims_are_nested_chunks(void **state)
{
    (void)state;
    static array whole, cut_down, next;
    harness_prng prng = {11};
    for (int round = 0; round < 1500; round++) {
        const mesh m = random_mesh(&prng);
        const splits s = random_splits(&prng, &m);
        char text[512];
        snprintf(text, sizeof text,
                 "layout: 1\nmesh: {%s}\nrules:\n  - {tensor: \"**\", dims: [%s]}\n", mesh_text(&m),
                 splits_text(&s));
        laid l = lay(text);
        fill(&whole, &prng);
        const swi_cut cut = divide(&l, "a.b", 3, whole.shape);
        for (uint64_t rank = 0; rank < m.ranks; rank++) {
            cut_down = whole;
            for (uint32_t i = 0; i < s.count; i++) {
                int64_t index[16], n = cut_down.shape[s.dim[i]];
                for (int64_t k = 0; k < n; k++)
                    index[k] = k;
                n = chunk_of(index, n, (int64_t)m.size[s.axis[i]], coordinate(&m, rank, s.axis[i]));
                take(&cut_down, s.dim[i], index, n, &next);
                cut_down = next;
            }
            same_elements(&cut, rank, &cut_down);
        }
        put_away(&l);
    }
}

/* The same boxes as the placements of a DTensor: Shard left to right, _StridedShard for `b>a`. */
static void dims_are_placements(void **state)
{
    (void)state;
    harness_prng prng = {12};
    for (int round = 0; round < 1500; round++) {
        const mesh m = random_mesh(&prng);
        const splits s = random_splits(&prng, &m);
        swi_placements p = {.axes = m.axes};
        char text[512];
        int64_t shape[3], offset[3], length[3];
        bool known = true;
        for (uint32_t a = 0; a < m.axes; a++)
            p.size[a] = m.size[a];
        for (uint32_t i = 0; i < s.count; i++) {
            swi_placement *at = &p.at[s.axis[i]];
            *at = (swi_placement){.kind = SWI_SHARD, .dim = s.dim[i], .split_factor = 1};
            for (uint32_t k = 0; k < i; k++)
                if (s.dim[k] == s.dim[i] && s.axis[k] > s.axis[i]) {
                    at->kind = SWI_STRIDED_SHARD;
                    at->split_factor *= m.size[s.axis[k]];
                }
        }
        for (uint32_t k = 0; k < 3; k++)
            shape[k] = (int64_t)harness_random_below(&prng, 30);
        snprintf(text, sizeof text,
                 "layout: 1\nmesh: {%s}\nrules:\n  - {tensor: \"**\", dims: [%s]}\n", mesh_text(&m),
                 splits_text(&s));
        laid l = lay(text);
        const swi_cut cut = divide(&l, "a.b", 3, shape);
        for (uint64_t rank = 0; known && rank < m.ranks; rank++) {
            sw_error err = {0};
            swi_local local;
            known = swi_placed_box(&p, rank, 3, shape, offset, length, &err) == SW_OK;
            if (!known)
                break; /* an order that no placements have */
            swi_cut_local(&cut, swi_cut_of_rank(&cut, rank), &local);
            assert_memory_equal(local.shape, length, sizeof length);
            if (local.count > 0)
                assert_memory_equal(local.parts[0].offset, offset, sizeof offset);
        }
        put_away(&l);
    }
}

/* ---- parts and units ------------------------------------------------------------------------- */

typedef struct fused {
    uint32_t parts;
    int64_t size[4], units[4];
    bool even, copies;
} fused;

static fused random_fused(harness_prng *prng)
{
    fused f = {.parts = 1 + (uint32_t)harness_random_below(prng, 4),
               .even = harness_random_below(prng, 2) == 0};
    f.copies = f.even && harness_random_below(prng, 2) == 0;
    for (uint32_t p = 0; p < f.parts; p++) {
        f.units[p] = 1 + (int64_t)harness_random_below(prng, 6);
        f.size[p] = f.even ? f.units[p] * (int64_t)harness_random_below(prng, 4)
                           : (int64_t)harness_random_below(prng, 12);
    }
    return f;
}

static char *fused_text(const fused *f)
{
    static char text[160];
    size_t n = 0;
    for (uint32_t p = 0; p < f->parts; p++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%" PRId64, p > 0 ? ", " : ", parts: [",
                              f->size[p]);
    n += (size_t)snprintf(text + n, sizeof text - n, "]");
    for (uint32_t p = 0; f->even && p < f->parts; p++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%" PRId64, p > 0 ? ", " : ", units: [",
                              f->units[p]);
    snprintf(text + n, sizeof text - n, "%s%s", f->even ? "]" : "",
             f->copies ? ", copies: true" : "");
    return text;
}

/* Rank `c` of `ranks` of the indexes; false: they cannot be given out. */
static bool cut_part(const fused *f, int64_t *units, int64_t ranks, int64_t c, int64_t *index,
                     int64_t *count)
{
    if (!f->even) {
        *count = chunk_of(index, *count, ranks, c);
        return true;
    }
    int64_t first, n, unit = *count / *units, kept = 0;
    if (*units % ranks == 0) {
        n = *units / ranks;
        first = c * n;
    } else if (f->copies && ranks % *units == 0) {
        n = 1;
        first = c * *units / ranks;
    } else {
        return false;
    }
    for (int64_t i = 0; i < *count; i++)
        if (unit > 0 && i / unit >= first && i / unit < first + n)
            index[kept++] = index[i];
    *count = kept;
    *units = n;
    return true;
}

/* The rank's indexes along the fused dimension. */
static bool cut_fused(const fused *f, const mesh *m, const splits *s, uint64_t rank, int64_t *out,
                      int64_t *count)
{
    int64_t from = 0;
    *count = 0;
    for (uint32_t p = 0; p < f->parts; p++) {
        int64_t index[64], n = f->size[p], units = f->units[p];
        for (int64_t i = 0; i < n; i++)
            index[i] = from + i;
        for (uint32_t i = 0; i < s->count; i++)
            if (!cut_part(f, &units, (int64_t)m->size[s->axis[i]], coordinate(m, rank, s->axis[i]),
                          index, &n))
                return false;
        from += f->size[p];
        memcpy(out + *count, index, (size_t)n * sizeof *index);
        *count += n;
    }
    return true;
}

/* LAY-3, LAY-4: each part is split by itself, and a rank has its slice of each. */
static void parts_are_split_by_themselves(void **state)
{
    (void)state;
    static array whole, want;
    harness_prng prng = {13};
    int refused = 0, overlapping = 0;
    for (int round = 0; round < 3000; round++) {
        const mesh m = random_mesh(&prng);
        const fused f = random_fused(&prng);
        splits s = random_splits(&prng, &m);
        for (uint32_t i = 0; i < s.count; i++)
            s.dim[i] = 1;
        if (s.count == 0)
            continue;
        char text[512];
        snprintf(text, sizeof text,
                 "layout: 1\nmesh: {%s}\nrules:\n  - {tensor: \"**\", dims: [%s]%s}\n",
                 mesh_text(&m), splits_text(&s), fused_text(&f));
        laid l = lay(text);
        fill(&whole, &prng);
        whole.shape[0] = whole.shape[0] % 4;
        whole.shape[2] = whole.shape[2] % 3;
        whole.shape[1] = 0;
        for (uint32_t p = 0; p < f.parts; p++)
            whole.shape[1] += f.size[p];
        for (int64_t i = 0; i < whole.shape[0] * whole.shape[1] * whole.shape[2]; i++)
            whole.item[i] = i;
        int64_t index[256], n;
        if (cut_fused(&f, &m, &s, 0, index, &n)) {
            const swi_cut cut = divide(&l, "a.b", 3, whole.shape);
            overlapping += cut.overlap;
            for (uint64_t rank = 0; rank < m.ranks; rank++) {
                assert_true(cut_fused(&f, &m, &s, rank, index, &n));
                take(&whole, 1, index, n, &want);
                same_elements(&cut, rank, &want);
            }
        } else {
            swi_cut cut;
            sw_error err = {0};
            assert_int_equal(swi_divide(l.division, "a.b", 3, whole.shape, &cut, &err),
                             SW_ERR_CONFLICT);
            assert_contains(err.text, "units cannot be divided evenly among");
            refused++;
        }
        put_away(&l);
    }
    assert_true(refused > 100 && overlapping > 20);
}

/* ---- what ranks hold, by example ---------------------------------------------------------------
 */

static void kv_heads_are_copied(void **state)
{
    (void)state;
    laid l = lay("layout: 1\n"
                 "let: {A: 8, K: 2, D: 4}\n"
                 "mesh: {tp: 4}\n"
                 "rules:\n"
                 "  - {tensor: qkv, dims: [tp], parts: [A*D, K*D, K*D], units: [A, K, K], "
                 "copies: true}\n"
                 "  - {tensor: k, dims: [tp], units: K, copies: true}\n");
    swi_local local;
    const int64_t qkv[1] = {48}, k[1] = {8};
    swi_cut cut = divide(&l, "qkv", 1, qkv);
    assert_int_equal(cut.holdings, 4);
    assert_true(cut.overlap);
    swi_cut_local(&cut, swi_cut_of_rank(&cut, 3), &local);
    assert_int_equal(local.shape[0], 8 + 4 + 4);
    assert_int_equal(local.count, 3);
    assert_int_equal(local.parts[0].offset[0], 24);
    assert_int_equal(local.parts[1].offset[0], 32 + 4);
    assert_int_equal(local.parts[1].place[0], 8);
    assert_int_equal(local.parts[2].offset[0], 40 + 4);
    assert_int_equal(local.parts[2].length[0], 4);
    cut = divide(&l, "k", 1, k);
    assert_int_equal(cut.holdings, 2);
    assert_int_equal(cut.copies, 2);
    assert_false(cut.overlap);
    assert_int_equal(swi_cut_rank(&cut, 1, 0), 2);
    assert_int_equal(swi_cut_rank(&cut, 1, 1), 3);
    put_away(&l);
}

static void flat_is_one_row(void **state)
{
    (void)state;
    laid l = lay("layout: 1\nmesh: {dp: 4}\nrules: [{tensor: '**', flat: dp}]\n");
    const int64_t shape[2] = {3, 3};
    const int64_t offsets[4] = {0, 3, 6, 9}, lengths[4] = {3, 3, 3, 0};
    const swi_cut cut = divide(&l, "w", 2, shape);
    for (uint64_t r = 0; r < 4; r++) {
        swi_local local;
        swi_cut_local(&cut, swi_cut_of_rank(&cut, r), &local);
        assert_int_equal(local.axes, 1);
        assert_int_equal(local.view[0], 9);
        assert_int_equal(local.shape[0], lengths[r]);
        assert_int_equal(local.count, lengths[r] > 0);
        if (local.count > 0)
            assert_int_equal(local.parts[0].offset[0], offsets[r]);
    }
    put_away(&l);
}

static void other_meshes_are_of_the_same_ranks(void **state)
{
    (void)state;
    laid l = lay("layout: 1\n"
                 "mesh: {dp: 2, tp: 2}\n"
                 "meshes: {experts: {ep: dp * tp}}\n"
                 "rules:\n"
                 "  - {tensor: '**.experts.**', mesh: experts, dims: [ep]}\n"
                 "  - {tensor: 'layers.{n}.w', dims: [_, tp]}\n"
                 "  - {tensor: '**', dims: []}\n");
    const int64_t shape[2] = {8, 8};
    swi_local local;
    swi_cut cut = divide(&l, "a.experts.b", 2, shape);
    assert_int_equal(cut.holdings, 4);
    swi_cut_local(&cut, swi_cut_of_rank(&cut, 2), &local);
    assert_int_equal(local.parts[0].offset[0], 4);
    cut = divide(&l, "layers.10.w", 2, shape);
    assert_int_equal(cut.holdings, 2);
    assert_int_equal(swi_cut_rank(&cut, 1, 0), 1);
    assert_int_equal(swi_cut_rank(&cut, 1, 1), 3);
    cut = divide(&l, "b", 0, NULL);
    assert_int_equal(cut.copies, 4);
    swi_cut_local(&cut, 0, &local);
    assert_int_equal(local.count, 1);
    put_away(&l);
}

/* LAY-1: a single number is whole, whatever the rule splits. */
static void scalars_are_whole(void **state)
{
    (void)state;
    laid l = lay("layout: 1\nmesh: {dp: 4}\nrules: [{tensor: '**', dims: [dp]}]\n");
    const swi_cut cut = divide(&l, "w", 0, NULL);
    swi_local local;
    swi_cut_local(&cut, 0, &local);
    assert_int_equal(cut.holdings, 1);
    assert_int_equal(local.count, 1);
    assert_int_equal(local.axes, 0);
    put_away(&l);
}

/* ---- sizes that are given (LAY-7) ---------------------------------------------------------------
 */

static void sizes_are_given(void **state)
{
    (void)state;
    static const char text[] = "layout: 1\nmesh: {dp: 2, tp: 2}\nmeshes: {x: {ep: dp * tp}}\n"
                               "rules: [{tensor: '**', dims: [dp]}]\n";
    const sw_limits limits = sw_limits_resolve(NULL);
    const swi_axis_size sizes[] = {{"tp", 3}, {"dp", 5}}, none[] = {{"pp", 2}}, ep[] = {{"ep", 5}};
    swi_rules *rules = NULL;
    swi_division *d = NULL;
    sw_error err = {0};
    assert_ok(swi_rules_parse_text(text, strlen(text), "l.yaml", &limits, &rules, &err), &err);
    assert_ok(swi_division_make(rules, NULL, sizes, 2, &d, &err), &err);
    assert_int_equal(swi_division_ranks(d), 15);
    assert_int_equal(swi_division_axis_count(d), 2);
    assert_string_equal(swi_division_axis(d, 1).name, "tp");
    assert_int_equal(swi_division_axis(d, 1).size, 3);
    swi_division_free(d);
    d = NULL;
    assert_int_equal(swi_division_make(rules, NULL, none, 1, &d, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "the layout l.yaml has no axis \"pp\"");
    assert_int_equal(swi_division_make(rules, NULL, ep, 1, &d, &err), SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "l.yaml:3:13: mesh x has 5 ranks, and the first mesh 4");
    assert_null(d);
    swi_rules_free(rules);
}

/* ---- refused ----------------------------------------------------------------------------------
 */

typedef struct refusal {
    const char *rules;
    uint32_t axes;
    int64_t shape[2];
    sw_status status;
    const char *text;
} refusal;

static void misfits_are_refused(void **state)
{
    (void)state;
    static const refusal cases[] = {
        {"{tensor: w, dims: [tp]}",
         1,
         {8},
         SW_ERR_NOTFOUND,
         "no rule of the layout l.yaml matches tensor \"x\""},
        {"{tensor: x, dims: [tp], split: even}",
         1,
         {9},
         SW_ERR_CONFLICT,
         "l.yaml:4:5: tensor \"x\" dimension 0: 9 elements cannot be divided evenly among 4 ranks "
         "(axis tp); choose"},
        {"{tensor: x, dims: [_, tp]}",
         1,
         {8},
         SW_ERR_CONFLICT,
         "has 1 dimensions, and this rule splits number 1 (from 0)"},
        {"{tensor: x, dims: [tp], parts: [3, 4]}",
         1,
         {8},
         SW_ERR_CONFLICT,
         "the parts are not together its size of 8"},
        {"{tensor: x, dims: [tp], parts: [3, 9223372036854775807]}",
         1,
         {8},
         SW_ERR_CONFLICT,
         "the parts are not together its size of 8"},
        {"{tensor: x, dims: [tp], units: 3}",
         1,
         {8},
         SW_ERR_CONFLICT,
         "a part of 8 elements is not made of 3 equal units"},
        {"{tensor: x, dims: [tp], units: 2}",
         1,
         {8},
         SW_ERR_CONFLICT,
         "2 units cannot be divided evenly among 4 ranks (axis tp); with copies: true"},
        {"{tensor: x, dims: [tp], units: 3, copies: true}",
         1,
         {9},
         SW_ERR_CONFLICT,
         "3 units cannot be divided evenly among 4 ranks"},
        {"{tensor: x, dims: [tp], parts: [B, 4]}",
         1,
         {8},
         SW_ERR_FORMAT,
         "tensor \"x\": l.yaml:4:"},
        {"{tensor: x, dims: [tp], parts: [0 - 1, 9]}",
         1,
         {8},
         SW_ERR_CONFLICT,
         "is -1, and must be at least 0"},
        {"{tensor: x, dims: [tp], units: 0}", 1, {8}, SW_ERR_CONFLICT, "must be at least 1"},
        {"{tensor: x, flat: tp}", 2, {INT64_MAX, 2}, SW_ERR_CONFLICT, "has too many elements"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        swi_cut cut;
        sw_error err = {0};
        snprintf(text, sizeof text, "layout: 1\nmesh: {tp: 4}\nrules:\n  - %s\n", cases[i].rules);
        laid l = lay(text);
        assert_int_equal(swi_divide(l.division, "x", cases[i].axes, cases[i].shape, &cut, &err),
                         cases[i].status);
        assert_error(&err, cases[i].status, cases[i].text);
        put_away(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dims_are_nested_chunks),
        cmocka_unit_test(dims_are_placements),
        cmocka_unit_test(parts_are_split_by_themselves),
        cmocka_unit_test(kv_heads_are_copied),
        cmocka_unit_test(flat_is_one_row),
        cmocka_unit_test(other_meshes_are_of_the_same_ranks),
        cmocka_unit_test(scalars_are_whole),
        cmocka_unit_test(sizes_are_given),
        cmocka_unit_test(misfits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
