/*
 * Saving what ranks hold: placements on meshes, boxes, flat spans, terms, values of single ranks.
 * Every tensor holds its own coordinates; what a rank has of it is found here element by element,
 * by another way than the library's.
 */
#include "fixture.h"

#include "model/catalog.h"
#include "native/manifest.h"

#define ELEMENTS_MAX 4096
#define RANKS_MAX 16

static sw_save *begin(uint32_t ranks)
{
    sw_save *s = NULL;
    sw_error err = {0};
    assert_ok(sw_save_begin(&(sw_save_options){.ranks = ranks}, &s, &err), &err);
    return s;
}

static void add(sw_save *s, sw_tensor_data t)
{
    sw_error err = {0};
    assert_ok(sw_save_tensor(s, &t, &err), &err);
}

static void commit(sw_save *s, const char *path, const char *to, outcome *o)
{
    outcome_begin(o);
    o->status = sw_save_commit(s, path, &(sw_convert_options){.to = to, .verify = true}, o->report,
                               &o->converted, &o->err);
}

static void commit_good(sw_save *s, const char *path, const char *to)
{
    outcome o;
    commit(s, path, to, &o);
    assert_fine(&o);
    assert_int_equal(o.converted.verified_tensors, o.converted.tensors);
    outcome_free(&o);
    run_verify(path, &o);
    assert_fine(&o);
    outcome_free(&o);
}

static void commit_fails(sw_save *s, const char *path, const char *to, sw_status status,
                         const char *text)
{
    outcome o;
    commit(s, path, to, &o);
    assert_run_refused(&o, status, text, path);
    outcome_free(&o);
}

/* ---- what a rank holds, element by element --------------------------------------------------- */

/* The indices of a dimension that a rank has. */
typedef struct indices {
    int64_t at[64];
    size_t count;
} indices;

/* torch.chunk: parts of ceil(n / parts). */
static void chunk(indices *of, uint64_t parts, uint64_t i)
{
    const size_t step = (of->count + parts - 1) / parts;
    const size_t from = step * i < of->count ? step * i : of->count;
    const size_t to = from + step < of->count ? from + step : of->count;
    memmove(of->at, of->at + from, (to - from) * sizeof of->at[0]);
    of->count = to - from;
}

/* Plain shards from left to right, then strided ones from right to left. */
static void indices_of(const sw_placed *p, const uint64_t *coordinate, uint32_t dim, int64_t size,
                       indices *out)
{
    const sw_mesh *m = p->mesh;
    out->count = (size_t)size;
    for (int64_t i = 0; i < size; i++)
        out->at[i] = i;
    for (uint32_t a = 0; a < m->axes; a++)
        if (p->at[a].kind == SW_SHARD && p->at[a].dim == dim)
            chunk(out, m->size[a], coordinate[a]);
    for (uint32_t a = m->axes; a-- > 0;)
        if (p->at[a].kind == SW_STRIDED_SHARD && p->at[a].dim == dim)
            chunk(out, m->size[a], coordinate[a]);
}

static void coordinates(const sw_mesh *m, uint64_t number, uint64_t *out)
{
    for (uint32_t a = m->axes; a-- > 0; number /= m->size[a])
        out[a] = number % m->size[a];
}

/* The values of the rank at that place in the mesh, row-major: flat index plus `base`. At most 3
 * axes. */
static size_t local_of(const sw_tensor_data *t, uint64_t number, float base, float *out)
{
    uint64_t coordinate[SW_MESH_AXES_MAX];
    indices by[3];
    int64_t shape[3] = {1, 1, 1};
    size_t count = 0;
    coordinates(t->placed->mesh, number, coordinate);
    for (uint32_t k = 0; k < 3; k++) {
        shape[k] = k < t->axes ? t->shape[k] : 1;
        indices_of(t->placed, coordinate, k < t->axes ? k : UINT32_MAX, shape[k], &by[k]);
    }
    for (size_t i = 0; i < by[0].count; i++)
        for (size_t j = 0; j < by[1].count; j++)
            for (size_t k = 0; k < by[2].count; k++)
                out[count++] =
                    base + (float)((by[0].at[i] * shape[1] + by[1].at[j]) * shape[2] + by[2].at[k]);
    return count;
}

static int64_t count_of(const sw_tensor_data *t)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < t->axes; k++)
        n *= t->shape[k];
    return n;
}

/* ---- reading back ---------------------------------------------------------------------------- */

static void assert_ramp_of(const char *path, const char *name, int64_t count)
{
    sw_checkpoint *c = open_good(path);
    sw_error err = {0};
    float *values = calloc((size_t)count + 1, sizeof *values);
    const int64_t at = sw_catalog_find(sw_checkpoint_catalog(c), name);
    if (at < 0)
        fail_msg("no tensor %s", name);
    assert_ok(sw_checkpoint_read(c, (size_t)at, 0, (uint64_t)count, values, &err), &err);
    for (int64_t i = 0; i < count; i++)
        assert_true(values[i] == (float)i);
    free(values);
    sw_checkpoint_close(c);
}

/* The layout of the tensor in the manifest, as its text. */
static void assert_layout(const char *path, const char *want)
{
    size_t size;
    uint8_t *text = harness_read(harness_path(path, SWI_NATIVE_MANIFEST), &size);
    char *copy = calloc(size + 1, 1);
    memcpy(copy, text, size);
    if (strstr(copy, want) == NULL)
        fail_msg("no %s in %s", want, copy);
    free(copy);
    free(text);
}

/* Every piece lies in the file of a rank that holds its first element. */
static void assert_holders(const char *path, const char *name,
                           bool (*holds)(const void *ctx, uint32_t rank, uint64_t element),
                           const void *ctx)
{
    sw_checkpoint *c = open_good(path);
    const sw_catalog *catalog = sw_checkpoint_catalog(c);
    const int64_t at = sw_catalog_find(catalog, name);
    sw_tensor_info info;
    assert_true(at >= 0 && sw_catalog_tensor(catalog, (size_t)at, &info));
    for (uint64_t i = 0; i < info.piece_count; i++) {
        swi_piece piece;
        swi_blob blob;
        uint32_t rank;
        swi_tensor_piece(catalog, (uint32_t)at, i, &piece);
        swi_catalog_blob(catalog, piece.blob, &blob);
        rank = (uint32_t)strtoul(swi_catalog_path(catalog, blob.file) + strlen("rank-"), NULL, 10);
        assert_true(holds(ctx, rank, swi_piece_first(&piece)));
    }
    sw_checkpoint_close(c);
}

/* ---- placements ------------------------------------------------------------------------------ */

typedef struct placed_case {
    sw_tensor_data tensor;
    sw_placed placed;
    sw_mesh mesh;
    uint32_t ranks[RANKS_MAX];
} placed_case;

static bool holds_placed(const void *ctx, uint32_t rank, uint64_t element)
{
    static float local[ELEMENTS_MAX];
    const placed_case *c = ctx;
    uint64_t number = 0;
    while (c->mesh.ranks != NULL && c->mesh.ranks[number] != rank)
        number++;
    number = c->mesh.ranks != NULL ? number : rank;
    const size_t count = local_of(&c->tensor, number, 0, local);
    for (size_t i = 0; i < count; i++)
        if (local[i] == (float)element)
            return true;
    return false;
}

/* A random mesh of 1 to 3 axes, and placements on it that tell where everything lies. */
static void random_case(harness_prng *prng, placed_case *c, uint32_t world)
{
    static const char *const names[] = {"replicate", "dp", "tp"};
    uint64_t left = 12;
    *c = (placed_case){.tensor = {.name = "model/w", .dtype = SW_F32}};
    c->mesh.axes = 1 + (uint32_t)harness_random_below(prng, 3);
    c->tensor.axes = 1 + (uint32_t)harness_random_below(prng, 3);
    for (uint32_t k = 0; k < c->tensor.axes; k++)
        c->tensor.shape[k] = 1 + (int64_t)harness_random_below(prng, 11);
    uint64_t count = 1;
    for (uint32_t a = 0; a < c->mesh.axes; a++) {
        c->mesh.name[a] = names[a];
        c->mesh.size[a] = 1 + harness_random_below(prng, left < 4 ? left : 4);
        left /= c->mesh.size[a];
        count *= c->mesh.size[a];
        if (harness_random_below(prng, 3) > 0)
            c->placed.at[a] = (sw_placement){
                .kind = SW_SHARD, .dim = (uint32_t)harness_random_below(prng, c->tensor.axes)};
    }
    for (uint32_t a = 0; a + 1 < c->mesh.axes; a++) { /* some divide what later ones leave */
        uint64_t factor = 1;
        for (uint32_t b = a + 1; b < c->mesh.axes; b++)
            if (c->placed.at[b].kind == SW_SHARD && c->placed.at[b].dim == c->placed.at[a].dim)
                factor *= c->mesh.size[b];
        if (c->placed.at[a].kind == SW_SHARD && factor > 1 && harness_random_below(prng, 2) == 0) {
            c->placed.at[a].kind = SW_STRIDED_SHARD;
            c->placed.at[a].split_factor = factor;
            break; /* one alone: what others divide does not count it */
        }
    }
    if (harness_random_below(prng, 2) == 0) { /* the last ranks, from the last one on */
        for (uint32_t i = 0; i < count; i++)
            c->ranks[i] = world - 1 - i;
        c->mesh.ranks = c->ranks;
    }
    c->placed.mesh = &c->mesh;
    c->tensor.placed = &c->placed;
}

static void placement_text(const placed_case *c, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "\"placements\":[");
    for (uint32_t a = 0; a < c->mesh.axes; a++) {
        const sw_placement *p = &c->placed.at[a];
        const char *comma = a > 0 ? "," : "";
        if (p->kind == SW_REPLICATE)
            n += (size_t)snprintf(out + n, size - n, "%s\"R\"", comma);
        else if (p->kind == SW_SHARD)
            n += (size_t)snprintf(out + n, size - n, "%s\"S(%u)\"", comma, p->dim);
        else
            n += (size_t)snprintf(out + n, size - n, "%s\"SS(%u,%u)\"", comma, p->dim,
                                  (unsigned)p->split_factor);
    }
    snprintf(out + n, size - n, "]");
}

static void test_placed(void **state)
{
    static float local[RANKS_MAX][ELEMENTS_MAX];
    harness_prng prng = {7};
    unsigned strided = 0;
    for (unsigned round = 0; round < 60; round++) {
        const char *path = harness_path(*state, "out-%u", round);
        const uint32_t world = 13;
        char text[256];
        placed_case c;
        random_case(&prng, &c, world);
        sw_save *s = begin(world);
        uint64_t count = 1;
        for (uint32_t a = 0; a < c.mesh.axes; a++) {
            strided += c.placed.at[a].kind == SW_STRIDED_SHARD;
            count *= c.mesh.size[a];
        }
        for (uint32_t i = 0; i < count; i++) {
            sw_tensor_data t = c.tensor;
            t.rank = c.mesh.ranks != NULL ? c.ranks[i] : i;
            t.data = local_of(&t, i, 0, local[i]) > 0 ? local[i] : NULL;
            t.part = SW_PART_PLACED;
            add(s, t);
        }
        commit_good(s, path, "native:codec=stored");
        assert_ramp_of(path, "model.w", count_of(&c.tensor));
        assert_holders(path, "model.w", holds_placed, &c);
        placement_text(&c, text, sizeof text);
        assert_layout(path, text);
        assert_layout(path, "-of-00013.sws");
        commit_good(s, harness_path(*state, "dcp-%u", round), "dcp:ranks=2");
        assert_ramp_of(harness_path(*state, "dcp-%u", round), "model.w", count_of(&c.tensor));
        sw_save_free(s);
    }
    assert_true(strided > 5);
}

static float grid[24]; /* 4 x 6, each its place */

static void fill(void)
{
    for (int i = 0; i < 24; i++)
        grid[i] = (float)i;
}

static const sw_mesh pair = {.axes = 1, .name = {"dp"}, .size = {2}};
static const sw_mesh square = {.axes = 2, .name = {"dp", "tp"}, .size = {2, 2}};
static const sw_placed rows = {.mesh = &pair, .at = {{.kind = SW_SHARD}}};
static const sw_placed copies = {.mesh = &pair, .at = {{.kind = SW_REPLICATE}}};

static sw_tensor_data tensor(const char *name, const sw_placed *placed, uint32_t rank)
{
    return (sw_tensor_data){.name = name,
                            .dtype = SW_F32,
                            .axes = 2,
                            .shape = {4, 6},
                            .data = grid,
                            .part = placed != NULL ? SW_PART_PLACED : SW_PART_WHOLE,
                            .rank = rank,
                            .placed = placed};
}

static sw_tensor_data row(const char *name, const sw_placed *placed, uint32_t rank)
{
    sw_tensor_data t = tensor(name, placed, rank);
    t.data = grid + 12 * rank;
    return t;
}

/* Copies are compared, and written by one of the ranks; what is missing or there twice is told. */
static void test_copies(void **state)
{
    static float other[24];
    sw_save *s = begin(2);
    fill();
    memcpy(other, grid, sizeof other);
    other[17] = -1;
    sw_tensor_data t = tensor("model/w", &copies, 1);
    add(s, tensor("model/w", &copies, 0));
    add(s, t);
    commit_good(s, harness_path(*state, "same"), "native");
    assert_ramp_of(harness_path(*state, "same"), "model.w", 24);
    assert_layout(harness_path(*state, "same"), "\"placements\":[\"R\"]");
    add(s, t);
    commit_fails(s, harness_path(*state, "twice"), "native", SW_ERR_CONFLICT,
                 "rank 1 has the same");
    sw_save_free(s);
    s = begin(2);
    t.data = other;
    add(s, tensor("model/w", &copies, 0));
    add(s, t);
    commit_fails(s, harness_path(*state, "differ"), "native", SW_ERR_CONFLICT, "\"model.w\"");
    sw_save_free(s);
    s = begin(2);
    add(s, row("model/w", &rows, 1));
    commit_fails(s, harness_path(*state, "hole"), "native", SW_ERR_INCOMPLETE, "\"model.w\"");
    add(s, row("model/w", &rows, 0));
    commit_good(s, harness_path(*state, "whole"), "native");
    sw_save_free(s);
}

static bool is_of_rank(const void *ctx, uint32_t rank, uint64_t element)
{
    const uint64_t *ends = ctx; /* of each rank's elements */
    return element < ends[rank] && (rank == 0 || element >= ends[rank - 1]);
}

/* Spans of the elements in a row, uneven and empty ones, as FSDP1 and ZeRO have them. */
static void test_flat(void **state)
{
    static const uint64_t ends[] = {7, 7, 20, 24};
    const char *path = harness_path(*state, "out");
    sw_save *s = begin(4);
    fill();
    for (uint32_t r = 0; r < 4; r++) {
        const uint64_t from = r > 0 ? ends[r - 1] : 0;
        sw_tensor_data t = tensor("model/w", NULL, r);
        t.part = SW_PART_FLAT;
        t.offset[0] = (int64_t)from;
        t.length[0] = (int64_t)(ends[r] - from);
        t.data = ends[r] > from ? grid + from : NULL;
        add(s, t);
    }
    commit_good(s, path, "native:codec=zstd");
    assert_ramp_of(path, "model.w", 24);
    assert_layout(path, "{\"kind\":\"flat\"}");
    assert_holders(path, "model.w", is_of_rank, ends);
    commit_good(s, harness_path(*state, "rows"), "native:ranks=2"); /* as it was asked for */
    assert_layout(harness_path(*state, "rows"), "\"placements\":[\"S(0)\"]");
    assert_layout(harness_path(*state, "rows"), "-of-00002.sws");
    commit_good(s, harness_path(*state, "torch"), "torch");
    assert_ramp_of(harness_path(*state, "torch"), "model.w", 24);
    sw_save_free(s);
}

/* Boxes as they come, flat spans beside them. */
static void test_boxes(void **state)
{
    static const uint64_t ends[] = {12, 18, 24};
    const char *path = harness_path(*state, "out");
    sw_save *s = begin(3);
    fill();
    sw_tensor_data t = row("model/w", NULL, 0);
    t.part = SW_PART_BOX;
    t.length[0] = 2;
    t.length[1] = 6;
    add(s, t);
    for (uint32_t r = 1; r < 3; r++) {
        t = tensor("model/w", NULL, r);
        t.part = r == 1 ? SW_PART_BOX : SW_PART_FLAT;
        t.offset[0] = r == 1 ? 2 : 18;
        t.length[0] = r == 1 ? 1 : 6;
        t.length[1] = 6;
        t.data = grid + 6 + 6 * r;
        add(s, t);
    }
    commit_good(s, path, "native");
    assert_ramp_of(path, "model.w", 24);
    assert_layout(path, "{\"kind\":\"boxes\"}");
    assert_holders(path, "model.w", is_of_rank, ends);
    sw_save_free(s);
}

/* A box that is said beside placements is what they give; where they do not tell, it is taken. */
static void test_boxes_of_placements(void **state)
{
    static float part[4][24];
    static const sw_placed odd = {.mesh = &square,
                                  .at = {{SW_STRIDED_SHARD, 0, 4, NULL}, {SW_SHARD, 0, 0, NULL}}};
    const char *path = harness_path(*state, "out");
    sw_error err = {0};
    sw_save *s = begin(4);
    fill();
    sw_tensor_data t = row("model/w", &rows, 0);
    t.part = SW_PART_BOX;
    t.length[0] = 1;
    t.length[1] = 6;
    assert_int_equal(sw_save_tensor(s, &t, &err), SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "what its placements give to rank 0");
    t.length[0] = 2;
    add(s, t);
    add(s, row("model/w", &rows, 1));
    t = tensor("model/odd", &odd, 0);
    assert_int_equal(sw_save_tensor(s, &t, &err), SW_ERR_UNSUPPORTED);
    assert_error(&err, SW_ERR_UNSUPPORTED, "model/odd");
    for (uint32_t r = 0; r < 4; r++) {
        t = tensor("model/odd", &odd, r);
        t.part = SW_PART_BOX;
        t.offset[0] = 3 - r;
        t.length[0] = 1;
        t.length[1] = 6;
        memcpy(part[r], grid + 6 * t.offset[0], 6 * sizeof(float));
        t.data = part[r];
        add(s, t);
    }
    commit_good(s, path, "native");
    assert_ramp_of(path, "model.w", 24);
    assert_ramp_of(path, "model.odd", 24);
    assert_layout(path, "[\"SS(0,4)\",\"S(0)\"]");
    sw_save_free(s);
}

/* ---- terms ----------------------------------------------------------------------------------- */

/* Whether these bytes stand somewhere in the file. */
static bool file_has(const char *path, const void *data, size_t size)
{
    size_t all;
    uint8_t *bytes = harness_read(path, &all);
    bool found = false;
    for (size_t i = 0; !found && i + size <= all; i++)
        found = memcmp(bytes + i, data, size) == 0;
    free(bytes);
    return found;
}

/* Every tensor of 2 x 2 ranks: Partial over dp, divided over tp; a scalar; flat ones beside it. */
static sw_save *with_terms(float local[4][24])
{
    static const sw_placed sums = {
        .mesh = &square, .at = {{.kind = SW_PARTIAL, .op = "sum"}, {.kind = SW_SHARD, .dim = 1}}};
    static const sw_placed scalar = {
        .mesh = &square, .at = {{.kind = SW_REPLICATE}, {.kind = SW_PARTIAL, .op = "avg"}}};
    sw_save *s = begin(4);
    fill();
    for (uint32_t r = 0; r < 4; r++) {
        sw_tensor_data t = tensor("grad/w", &sums, r);
        (void)local_of(&t, r, r / 2 == 0 ? 100 : 200, local[r]);
        t.data = local[r];
        add(s, t);
        t = (sw_tensor_data){.name = "loss",
                             .dtype = SW_F32,
                             .data = r % 2 == 0 ? grid + 3 : grid + 5,
                             .part = SW_PART_PLACED,
                             .rank = r,
                             .placed = &scalar};
        add(s, t);
    }
    add(s, tensor("model/w", NULL, 0));
    return s;
}

static void test_terms(void **state)
{
    static float local[4][24];
    const char *path = harness_path(*state, "out");
    sw_error err = {0};
    outcome o;
    sw_save *s = with_terms(local);
    commit(s, path, "native:codec=stored", &o);
    assert_fine(&o);
    assert_int_equal(o.converted.tensors, 3);
    assert_int_equal(o.converted.verified_tensors, 1); /* terms cannot be read back */
    outcome_free(&o);
    for (unsigned r = 0; r < 4; r++)
        for (unsigned f = 0; f < 4; f++)
            assert_int_equal(file_has(harness_path(path, "rank-%05u-of-00004.sws", f), local[r],
                                      12 * sizeof(float)),
                             r == f);
    assert_layout(path, "[\"P(sum)\",\"S(1)\"]");
    assert_layout(path, "[\"R\",\"P(avg)\"]");
    assert_layout(path, "\"content\":\"\"");
    run_verify(path, &o);
    assert_fine(&o);
    assert_found(&o, SW_WARNING, "partial", NULL, "grad.w", "not added up");
    assert_found(&o, SW_WARNING, "partial", NULL, "loss", "not added up");
    outcome_free(&o);
    sw_checkpoint *c = open_good(path);
    const int64_t at = sw_catalog_find(sw_checkpoint_catalog(c), "grad.w");
    sw_tensor_info info;
    assert_true(at >= 0 && sw_catalog_tensor(sw_checkpoint_catalog(c), (size_t)at, &info));
    assert_int_equal(info.axes, 2);
    assert_int_equal(info.shape[0], 4);
    assert_int_equal(sw_checkpoint_read(c, (size_t)at, 0, 24, local, &err), SW_ERR_UNSUPPORTED);
    assert_error(&err, SW_ERR_UNSUPPORTED, "grad.w");
    const sw_region region = {
        .struct_bytes = sizeof region, .tensor = "loss", .out = local, .out_bytes = sizeof(float)};
    assert_int_equal(sw_load(c, &region, 1, NULL, NULL, NULL, &err), SW_ERR_UNSUPPORTED);
    assert_error(&err, SW_ERR_UNSUPPORTED, "loss");
    sw_checkpoint_close(c);
    assert_ramp_of(path, "model.w", 24);
    sw_save_free(s);
}

/* Fewer files than ranks were asked for: the terms are still all there. */
static void test_terms_elsewhere(void **state)
{
    static float local[4][24];
    const char *path = harness_path(*state, "out");
    sw_error err = {0};
    outcome o;
    sw_save *s = with_terms(local);
    commit(s, path, "native:codec=stored,ranks=2", &o);
    assert_fine(&o);
    outcome_free(&o);
    for (unsigned r = 0; r < 4; r++)
        assert_true(file_has(harness_path(path, "rank-%05u-of-00002.sws", r % 2), local[r],
                             12 * sizeof(float)));
    commit_fails(s, harness_path(*state, "torch"), "torch", SW_ERR_UNSUPPORTED, "\"grad.w\"");
    commit_fails(s, harness_path(*state, "hf"), "hf", SW_ERR_UNSUPPORTED, "\"grad.w\"");
    commit_fails(s, harness_path(*state, "dcp"), "dcp:ranks=2", SW_ERR_UNSUPPORTED, "\"grad.w\"");
    const sw_convert_options options = {.to = "native", .digests = harness_path(*state, "list")};
    assert_int_equal(sw_save_commit(s, harness_path(*state, "native"), &options, NULL, NULL, &err),
                     SW_ERR_UNSUPPORTED);
    assert_error(&err, SW_ERR_UNSUPPORTED, "have no digest");
    sw_save_free(s);
    s = begin(2); /* one of the terms is missing */
    const sw_placed sum = {.mesh = &pair, .at = {{.kind = SW_PARTIAL, .op = "sum"}}};
    add(s, tensor("model/w", &sum, 1));
    commit_fails(s, harness_path(*state, "hole"), "native", SW_ERR_INCOMPLETE, "\"model.w\"");
    sw_save_free(s);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The text of the value of this name and rank; "" where there is none. */
static void assert_value(const char *path, const char *name, int64_t rank, const char *want)
{
    sw_checkpoint *c = open_good(path);
    sw_error err = {0};
    sw_value_info info;
    bool found = false;
    for (size_t i = 0; sw_catalog_value_at(sw_checkpoint_catalog(c), i, &info); i++) {
        sw_value_graph *g = NULL;
        sw_value v;
        char *text = NULL;
        if (strcmp(info.name, name) != 0 || info.rank != rank)
            continue;
        assert_ok(sw_checkpoint_value(c, i, &g, &v, &err), &err);
        assert_ok(sw_value_text(g, v, 200, &text, &err), &err);
        assert_string_equal(text, want);
        found = true;
        free(text);
        sw_value_graph_free(g);
    }
    assert_int_equal(found, want[0] != '\0');
    sw_checkpoint_close(c);
}

static sw_save *with_values(void)
{
    sw_error err = {0};
    sw_save *s = begin(3);
    fill();
    add(s, tensor("model/w", NULL, 0));
    assert_ok(sw_save_int(s, "step", 7, &err), &err);
    for (int64_t r = 2; r >= 0; r--) { /* in any order */
        char seed[2] = {(char)('a' + r), 0};
        assert_ok(sw_save_rank(s, r, &err), &err);
        assert_ok(sw_save_bytes(s, "rng/cpu", seed, 1, &err), &err);
        if (r == 1) {
            assert_ok(sw_save_int(s, "step", 8, &err), &err); /* its own beside that of all */
            assert_ok(sw_save_json(s, "data", "{\"at\": [1, 2], \"epoch\": 3}", &err), &err);
        }
    }
    assert_ok(sw_save_rank(s, -1, &err), &err);
    assert_ok(sw_save_bool(s, "done", false, &err), &err);
    return s;
}

static void assert_values(const char *path)
{
    assert_value(path, "step", -1, "7");
    assert_value(path, "step", 1, "8");
    assert_value(path, "step", 0, "");
    assert_value(path, "rng.cpu", -1, "b\"c\""); /* the one that came first */
    assert_value(path, "rng.cpu", 0, "b\"a\"");
    assert_value(path, "rng.cpu", 1, "b\"b\"");
    assert_value(path, "rng.cpu", 2, "b\"c\"");
    assert_value(path, "data.epoch", 1, "3");
    assert_value(path, "data.at", 1, "[1, 2]");
    assert_value(path, "data.at", -1, "[1, 2]");
    assert_value(path, "done", -1, "False");
}

static void test_rank_values(void **state)
{
    const char *path = harness_path(*state, "out");
    sw_save *s = with_values();
    outcome o;
    commit_good(s, path, "native");
    assert_values(path);
    for (unsigned r = 0; r < 3; r++) {
        char text[64];
        snprintf(text, sizeof text, "[%u,\"rng.cpu\",{\"$bytes\":", r);
        for (unsigned f = 0; f < 3; f++)
            assert_int_equal(
                file_has(harness_path(path, "rank-%05u-of-00003.sws", f), text, strlen(text)),
                r == f);
    }
    run_convert(path, harness_path(*state, "one"), &(sw_convert_options){.to = "native"}, &o);
    assert_fine(&o);
    outcome_free(&o);
    assert_values(harness_path(*state, "one"));
    commit(s, harness_path(*state, "dcp"), "dcp", &o); /* has one place for each */
    assert_int_equal(o.status, SW_OK);
    assert_found(&o, SW_WARNING, "rank-values", NULL, NULL, "6 values differ from rank to rank");
    outcome_free(&o);
    assert_value(harness_path(*state, "dcp"), "step", -1, "7");
    sw_save_free(s);
}

/* What is refused leaves no trace: the name may come again. */
static void test_values_refused(void **state)
{
    sw_error err = {0};
    sw_save *s = with_values();
    assert_int_equal(sw_save_rank(s, 3, &err), SW_ERR_ARG);
    assert_int_equal(sw_save_rank(s, -2, &err), SW_ERR_ARG);
    assert_int_equal(sw_save_int(s, "rng", 1, &err), SW_ERR_CONFLICT);
    assert_ok(sw_save_rank(s, 1, &err), &err);
    assert_int_equal(sw_save_int(s, "step", 9, &err), SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "\"step\": this rank has something");
    assert_int_equal(sw_save_int(s, "model/w", 9, &err), SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "there is a tensor");
    assert_int_equal(sw_save_int(s, "step/deeper", 9, &err), SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "no dict");
    assert_int_equal(sw_save_value(s, "odd", "{\"$dict\":[[\"b\",1],[{\"$tuple\":[]},2]]}", &err),
                     SW_ERR_UNSUPPORTED);
    assert_ok(sw_save_int(s, "odd", 4, &err), &err);
    commit_good(s, harness_path(*state, "out"), "native");
    assert_value(harness_path(*state, "out"), "odd", 1, "4");
    assert_value(harness_path(*state, "out"), "odd.b", 1, "");
    assert_value(harness_path(*state, "out"), "step.deeper", 1, "");
    assert_values(harness_path(*state, "out"));
    sw_save_free(s);
}

static void test_tagged_values(void **state)
{
    const char *path = harness_path(*state, "out");
    sw_error err = {0};
    sw_save *s = begin(0);
    fill();
    add(s, tensor("model/w", NULL, 0));
    assert_ok(sw_save_value(s, "betas", "{ \"$tuple\": [0.5, {\"$float\": \"inf\"}] }", &err),
              &err);
    assert_ok(sw_save_value(s, "big", "{\"$int\":\"000000000000000001\"}", &err), &err);
    assert_int_equal(sw_save_value(s, "no", "{\"$no\":1}", &err), SW_ERR_FORMAT);
    assert_error(&err, SW_ERR_FORMAT, "\"no\"");
    assert_int_equal(sw_save_value(s, "no", "{\"$tensor\":\"model.w\"}", &err), SW_ERR_FORMAT);
    assert_int_equal(sw_save_value(s, "no", "[", &err), SW_ERR_FORMAT);
    assert_int_equal(sw_save_value(s, "no", "{\"$tuple\\u0000\":[]}", &err), SW_ERR_FORMAT);
    assert_error(&err, SW_ERR_FORMAT, "a tag that is none");
    assert_int_equal(sw_save_rank(s, 0, &err), SW_ERR_ARG); /* nothing was said of ranks */
    commit_good(s, path, "native");
    assert_value(path, "betas", -1, "(0.5, inf)");
    assert_value(path, "big", -1, "0x10000000000000000");
    assert_value(path, "no", -1, "");
    sw_save_free(s);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void assert_refused(sw_save *s, sw_tensor_data t, sw_status status, const char *text)
{
    sw_error err = {0};
    assert_int_equal(sw_save_tensor(s, &t, &err), status);
    assert_error(&err, status, text);
}

static void refuse_mesh(sw_save *s, sw_mesh mesh, const char *text)
{
    const sw_placed placed = {.mesh = &mesh};
    assert_refused(s, tensor("model/w", &placed, 0), SW_ERR_ARG, text);
}

static void refuse_placement(sw_save *s, sw_placement p, const char *text)
{
    const sw_placed placed = {.mesh = &pair, .at = {p}};
    assert_refused(s, tensor("model/w", &placed, 0), SW_ERR_ARG, text);
}

static void test_refused(void **state)
{
    static const uint32_t twice[] = {1, 1}, far[] = {0, 4}, second[] = {2, 3};
    sw_error err = {0};
    sw_save *s = NULL;
    (void)state;
    assert_int_equal(sw_save_begin(&(sw_save_options){.ranks = 16385}, &s, &err), SW_ERR_ARG);
    s = begin(4);
    fill();
    refuse_mesh(s, (sw_mesh){.axes = 0}, "a mesh of 1 to 8 axes");
    refuse_mesh(s, (sw_mesh){.axes = 9}, "a mesh of 1 to 8 axes");
    refuse_mesh(s, (sw_mesh){.axes = 1, .size = {2}}, "has no name");
    refuse_mesh(s, (sw_mesh){.axes = 1, .name = {"\xff"}, .size = {2}}, "has no name");
    refuse_mesh(s, (sw_mesh){.axes = 2, .name = {"a", "a"}, .size = {2, 2}}, "the same name");
    refuse_mesh(s, (sw_mesh){.axes = 1, .name = {"a"}, .size = {5}}, "so many ranks");
    refuse_mesh(s, (sw_mesh){.axes = 2, .name = {"a", "b"}, .size = {4, 0}}, "so many ranks");
    refuse_mesh(s, (sw_mesh){.axes = 1, .name = {"a"}, .size = {2}, .ranks = twice},
                "a rank twice");
    refuse_mesh(s, (sw_mesh){.axes = 1, .name = {"a"}, .size = {2}, .ranks = far},
                "a rank that sw_save_options.ranks does not have");
    refuse_mesh(s, (sw_mesh){.axes = 1, .name = {"a"}, .size = {2}, .ranks = second},
                "rank 0 is not in its mesh");
    refuse_placement(s, (sw_placement){.kind = SW_SHARD, .dim = 2}, "does not have");
    refuse_placement(s, (sw_placement){.kind = SW_STRIDED_SHARD}, "a split factor");
    refuse_placement(s, (sw_placement){.kind = SW_PARTIAL}, "the op of a Partial");
    refuse_placement(s, (sw_placement){.kind = SW_PARTIAL, .op = "a-b"}, "the op of a Partial");
    refuse_placement(s, (sw_placement){.kind = SW_PARTIAL, .op = ""}, "the op of a Partial");
    refuse_placement(s, (sw_placement){.kind = (sw_placement_kind)9}, "of no known kind");
    assert_refused(s, row("model/w", &rows, 2), SW_ERR_ARG, "rank 2 is not in its mesh");
    assert_refused(s, tensor("model/w", NULL, 4), SW_ERR_ARG, "rank 4 is not one of the 4");
    sw_tensor_data t = tensor("model/w", NULL, 0);
    t.part = SW_PART_PLACED;
    assert_refused(s, t, SW_ERR_ARG, "its placements are needed");
    t = tensor("model/w", &rows, 0);
    t.part = SW_PART_FLAT;
    assert_refused(s, t, SW_ERR_ARG, "no interval");
    t = tensor("model/w", NULL, 0);
    t.part = SW_PART_FLAT;
    t.offset[0] = 20;
    t.length[0] = 5;
    assert_refused(s, t, SW_ERR_ARG, "the interval leaves the tensor");
    add(s, row("model/w", &rows, 0));
    assert_refused(s, tensor("model/w", &copies, 1), SW_ERR_CONFLICT, "different placements");
    assert_refused(s, tensor("model/w", NULL, 1), SW_ERR_CONFLICT, "different placements");
    sw_save_free(s);
    s = begin(0);
    assert_refused(s, tensor("model/w", &rows, 0), SW_ERR_ARG, "rank 0 is not one of the 0");
    sw_save_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_placed),
        test_in_dir(test_copies),
        test_in_dir(test_flat),
        test_in_dir(test_boxes),
        test_in_dir(test_boxes_of_placements),
        test_in_dir(test_terms),
        test_in_dir(test_terms_elsewhere),
        test_in_dir(test_rank_values),
        test_in_dir(test_values_refused),
        test_in_dir(test_tagged_values),
        test_in_dir(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
