/* Plans of random checkpoints: accepted as they are, refused with any single thing changed. */
#include "mutant.h"
#include "ranks.h"

#include "cover.h"

static void test_plans_and_mutants(void **state)
{
    uint32_t tried[KINDS] = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= 120; seed++) {
        world w = {.strided = seed % 3 == 0};
        sw_error err = {0};
        swi_plan *plan = NULL;
        world_make(&w, seed + 5000);
        swi_layout *layout = world_layout(&w);
        uint64_t bytes = world_below(&w, 3) == 0 ? 1 << 20 : 1 + world_below(&w, 700);
        assert_ok(swi_plan_make(w.catalog, layout, bytes, NULL, NULL, &plan, &err), &err);
        assert_ok(swi_plan_check(plan, w.catalog, layout, NULL, &err), &err);
        try_mutants(&w, plan, layout, tried);
        swi_plan_free(plan);
        swi_layout_free(layout);
        world_free(&w);
    }
    for (int kind = 0; kind < KINDS; kind++)
        assert_true(tried[kind] > 20);
}

/* The same of rank files: of arrays of many parts, copies and scaled tensors. */
static void test_rank_files_and_mutants(void **state)
{
    static ranks r;
    uint32_t tried[KINDS] = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= 120; seed++) {
        world w = {.strided = seed % 3 == 0};
        sw_error err = {0};
        swi_plan *plan = NULL;
        ranks_scaled_world(&w, seed + 5500);
        ranks_begin(&r, &w, seed % 2 == 0);
        ranks_scale(&r);
        ranks_make(&r);
        uint64_t bytes = world_below(&w, 3) == 0 ? 1 << 20 : 1 + world_below(&w, 700);
        assert_ok(swi_plan_make(w.catalog, r.layout, bytes, NULL, NULL, &plan, &err), &err);
        assert_ok(swi_plan_check(plan, w.catalog, r.layout, NULL, &err), &err);
        try_mutants(&w, plan, r.layout, tried);
        swi_plan_free(plan);
        ranks_free(&r);
        world_free(&w);
    }
    for (int kind = 0; kind < KINDS; kind++)
        assert_true(tried[kind] > 20);
}

static void test_replicas_are_read_once(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        world w = {.replicas = true};
        sw_error err = {0};
        swi_plan *plan = NULL;
        world_make(&w, seed + 6000);
        swi_layout *layout = world_layout(&w);
        assert_ok(swi_plan_make(w.catalog, layout, 100, NULL, NULL, &plan, &err), &err);
        assert_ok(swi_plan_check(plan, w.catalog, layout, NULL, &err), &err);
        swi_plan_free(plan);
        swi_layout_free(layout);
        world_free(&w);
    }
}

static bool skip_first(const void *ctx, uint32_t file)
{
    (void)ctx;
    return file == 0;
}

static bool skip_none(const void *ctx, uint32_t file)
{
    (void)ctx;
    (void)file;
    return false;
}

static bool view_next(const void *ctx, swi_plan_cursor *cursor, swi_window *out)
{
    return swi_plan_next(ctx, cursor, out);
}

static sw_status view_reads(const void *ctx, const swi_window *w, swi_moves *moves, sw_error *err)
{
    return swi_plan_reads(ctx, w, moves, err);
}

static sw_status view_writes(const void *ctx, const swi_window *w, swi_moves *moves, sw_error *err)
{
    return swi_plan_writes(ctx, w, moves, err);
}

static sw_status view_scales(const void *ctx, const swi_window *w, swi_moves *moves, sw_error *err)
{
    return swi_plan_scales(ctx, w, moves, err);
}

/* Finished files are left out, and only they: a check that does not know of them complains. */
static void test_finished_files(void **state)
{
    uint32_t refused = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        world w = {0};
        sw_error err = {0};
        swi_plan *plan = NULL;
        world_make(&w, seed + 7000);
        swi_layout *layout = world_layout(&w);
        assert_ok(swi_plan_make(w.catalog, layout, 64, skip_first, NULL, &plan, &err), &err);
        assert_true(swi_plan_skips(plan, 0));
        assert_false(swi_plan_skips(plan, 1));
        assert_ok(swi_plan_check(plan, w.catalog, layout, NULL, &err), &err);
        const swi_plan_view view = {plan,        view_next, view_reads,
                                    view_writes, skip_none, view_scales};
        refused += swi_plan_check_view(&view, w.catalog, layout, NULL, &err) == SW_ERR_CONFLICT;
        swi_plan_free(plan);
        swi_layout_free(layout);
        world_free(&w);
    }
    assert_true(refused > 30);
}

/* ---- faults that make up for one another
 * ---------------------------------------------------------- */

/* Rows 0 and 1 lie in one blob, 2 and 3 in another: the first move takes a row of the second. */
static sw_status greedy_reads(const void *ctx, const swi_window *w, swi_moves *moves, sw_error *err)
{
    sw_status status = swi_plan_reads(ctx, w, moves, err);
    assert_int_equal(moves->count, 2);
    assert_int_equal(moves->items[0].axes, 1);
    moves->items[0].length[0] += 3;
    moves->items[1].length[0] -= 3;
    moves->items[1].blob_base += moves->items[1].blob_stride[0] * 3;
    moves->items[1].window_base += moves->items[1].window_stride[0] * 3;
    return status;
}

static void test_a_move_past_its_piece(void **state)
{
    static const int64_t two[] = {2, 1};
    world w = {.count = 1, .plain = true, .fixed_parts = two, .prng = {.state = 2}};
    sw_error err = {0};
    swi_plan *plan = NULL;
    (void)state;
    w.tensors[0] =
        (world_tensor){.name = "t0", .dtype = SW_F32, .axes = 2, .shape = {4, 3}, .elements = 12};
    world_build(&w);
    swi_layout *layout = world_layout(&w);
    assert_ok(swi_plan_make(w.catalog, layout, 4096, NULL, NULL, &plan, &err), &err);
    const swi_plan_view sound = {plan, view_next, view_reads, view_writes, skip_none, view_scales};
    const swi_plan_view greedy = {plan,        view_next, greedy_reads,
                                  view_writes, skip_none, view_scales};
    assert_ok(swi_plan_check_view(&sound, w.catalog, layout, NULL, &err), &err);
    assert_int_equal(swi_plan_check_view(&greedy, w.catalog, layout, NULL, &err), SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "element 0: is not read from where it lies");
    swi_plan_free(plan);
    swi_layout_free(layout);
    world_free(&w);
}

static sw_status twice_reads(const void *ctx, const swi_window *w, swi_moves *moves, sw_error *err)
{
    sw_status status = swi_plan_reads(ctx, w, moves, err);
    assert_int_equal(moves->count, 2);
    moves->items[1] = moves->items[0];
    return status;
}

/* As many elements as the window has, but half of them twice: of a few and of many whole words. */
static void test_a_move_in_place_of_another(void **state)
{
    static const int64_t parts[] = {2, 1};
    static const int64_t columns[] = {3, 32, 64, 4096};
    (void)state;
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        world w = {.count = 1, .plain = true, .fixed_parts = parts, .prng = {.state = 2}};
        sw_error err = {0};
        swi_plan *plan = NULL;
        w.tensors[0] = (world_tensor){.name = "t0",
                                      .dtype = SW_F32,
                                      .axes = 2,
                                      .shape = {4, columns[i]},
                                      .elements = (uint64_t)(4 * columns[i])};
        world_build(&w);
        swi_layout *layout = world_layout(&w);
        assert_ok(swi_plan_make(w.catalog, layout, 1 << 20, NULL, NULL, &plan, &err), &err);
        const swi_plan_view sound = {plan,        view_next, view_reads,
                                     view_writes, skip_none, view_scales};
        const swi_plan_view twice = {plan,        view_next, twice_reads,
                                     view_writes, skip_none, view_scales};
        assert_ok(swi_plan_check_view(&sound, w.catalog, layout, NULL, &err), &err);
        assert_int_equal(swi_plan_check_view(&twice, w.catalog, layout, NULL, &err),
                         SW_ERR_CONFLICT);
        assert_error(&err, SW_ERR_CONFLICT, "element 0: ");
        swi_plan_free(plan);
        swi_layout_free(layout);
        world_free(&w);
    }
}

/* The first of two moves of one piece in place of the second, where there are such. */
static sw_status twice_writes(const void *ctx, const swi_window *w, swi_moves *moves, sw_error *err)
{
    sw_status status = swi_plan_writes(ctx, w, moves, err);
    if (w->lo == 4) {
        assert_int_equal(moves->count, 2);
        assert_int_equal(moves->items[0].length[0], moves->items[1].length[0]);
        moves->items[1] = moves->items[0];
    }
    return status;
}

/* As many elements are written of the piece as it has, but some of them twice. */
static void test_a_write_in_place_of_another(void **state)
{
    static const int64_t shape[] = {24};
    (void)state;
    for (int copies = 0; copies < 2; copies++) {
        world w = {.count = 1, .plain = true, .prng = {.state = 2}};
        swi_layout *layout = NULL;
        swi_plan *plan = NULL;
        sw_error err = {0};
        uint32_t file, tensor;
        swi_tensor_in in = {"t0", 2, SW_U8, 1, shape, SW_ROLE_PARAMETER};
        /* Columns first: of a window of four elements two lie in each of two rows of three. */
        swi_piece p = {.axes = 2, .view = {8, 3}, .length = {8, 3}, .stride_bytes = {1, 8}};
        w.tensors[0] = (world_tensor){"t0", SW_U8, 1, {24}, 24, {0}};
        world_build(&w);
        assert_ok(swi_layout_make(NULL, &layout, &err), &err);
        assert_ok(swi_layout_file(layout, "out", 24, &file, &err), &err);
        assert_ok(swi_layout_tensor(layout, &in, 0, &tensor, &err), &err);
        if (copies == 1)
            assert_ok(swi_layout_replicas(layout, tensor, &err), &err);
        assert_ok(swi_layout_piece(layout, tensor, file, 0, 24, &p, &err), &err);
        assert_ok(swi_layout_freeze(layout, &err), &err);
        assert_ok(swi_plan_make(w.catalog, layout, 4, NULL, NULL, &plan, &err), &err);
        const swi_plan_view sound = {plan, view_next, view_reads, view_writes, skip_none, NULL};
        const swi_plan_view twice = {plan, view_next, view_reads, twice_writes, skip_none, NULL};
        assert_ok(swi_plan_check_view(&sound, w.catalog, layout, NULL, &err), &err);
        assert_int_equal(swi_plan_check_view(&twice, w.catalog, layout, NULL, &err),
                         SW_ERR_CONFLICT);
        assert_error(&err, SW_ERR_CONFLICT, "element 4: is written twice");
        swi_plan_free(plan);
        swi_layout_free(layout);
        world_free(&w);
    }
}

/* One tensor of a plan is read from the byte behind. Any thread may ask. */
typedef struct wrong_tensor {
    const swi_plan *plan;
    uint32_t tensor;
} wrong_tensor;

static bool wrong_next(const void *ctx, swi_plan_cursor *cursor, swi_window *out)
{
    return swi_plan_next(((const wrong_tensor *)ctx)->plan, cursor, out);
}

static sw_status wrong_reads(const void *ctx, const swi_window *w, swi_moves *moves, sw_error *err)
{
    const wrong_tensor *wrong = ctx;
    sw_status status = swi_plan_reads(wrong->plan, w, moves, err);
    if (w->tensor == wrong->tensor)
        moves->items[moves->count - 1].blob_base++;
    return status;
}

static sw_status wrong_writes(const void *ctx, const swi_window *w, swi_moves *moves, sw_error *err)
{
    return swi_plan_writes(((const wrong_tensor *)ctx)->plan, w, moves, err);
}

/* ---- large plans
 * ------------------------------------------------------------------------------------ */

/* Six tensors of 4000 rows, each a piece: several threads share the proof. */
static void test_large_plans(void **state)
{
    static const int64_t rows[] = {4000, 1}, one[] = {1, 1};
    world w = {.count = 6, .plain = true, .fixed_parts = rows, .prng = {.state = 2}};
    sw_error err = {0};
    swi_plan *plan = NULL;
    const sw_work_options work = {.threads = 4};
    (void)state;
    for (uint32_t id = 0; id < 6; id++) {
        w.tensors[id] =
            (world_tensor){.dtype = SW_BF16, .axes = 2, .shape = {4000, 2}, .elements = 8000};
        (void)snprintf(w.tensors[id].name, sizeof w.tensors[id].name, "t%u", id);
    }
    world_build(&w);
    w.fixed_parts = one;
    swi_layout *layout = world_layout(&w);
    assert_ok(swi_plan_make(w.catalog, layout, 4096, NULL, NULL, &plan, &err), &err);
    assert_ok(swi_plan_check(plan, w.catalog, layout, &work, &err), &err);
    for (uint64_t window = 0; window < 24; window++) {
        /* Several threads walk the mutant, so it must not change while they do. */
        mutant m = {.plan = plan, .prng = &w.prng, .kind = BLOB_BASE, .window = window};
        const sw_work_options alone = {.threads = 1};
        const swi_plan_view view = mutant_view(&m);
        assert_int_equal(swi_plan_check_view(&view, w.catalog, layout, &alone, &err),
                         SW_ERR_CONFLICT);
    }
    for (uint32_t id = 0; id < 6; id++) {
        const wrong_tensor wrong = {.plan = plan, .tensor = id};
        const swi_plan_view view = {&wrong, wrong_next, wrong_reads, wrong_writes, NULL, NULL};
        char name[16];
        (void)snprintf(name, sizeof name, "tensor \"t%u\"", id);
        assert_int_equal(swi_plan_check_view(&view, w.catalog, layout, &work, &err),
                         SW_ERR_CONFLICT);
        assert_error(&err, SW_ERR_CONFLICT, name);
    }
    swi_plan_free(plan);
    swi_layout_free(layout);
    world_free(&w);
}

/* ---- the shape of windows ----------------------------------------------------------------------
 */

static void one_tensor(world *w, sw_dtype dtype, uint32_t axes, const int64_t *shape)
{
    *w = (world){.count = 1};
    world_tensor *t = &w->tensors[0];
    (void)snprintf(t->name, sizeof t->name, "t0");
    t->dtype = dtype;
    t->axes = axes;
    t->elements = 1;
    for (uint32_t k = 0; k < axes; k++) {
        t->shape[k] = shape[k];
        t->elements *= (uint64_t)shape[k];
    }
    world_build(w);
}

static void test_windows_are_whole_rows(void **state)
{
    const int64_t shape[] = {3, 10, 7};
    sw_error err = {0};
    world w;
    swi_plan *plan = NULL;
    swi_plan_cursor cursor = {0};
    swi_window window;
    uint64_t at = 0;
    (void)state;
    one_tensor(&w, SW_F32, 3, shape);
    swi_layout *layout = world_layout(&w);
    /* Room for 4 rows of 7: ten rows go as 4 + 4 + 2 would, in equal parts, never over a matrix. */
    assert_ok(swi_plan_make(w.catalog, layout, 4 * 7 * 4, NULL, NULL, &plan, &err), &err);
    assert_int_equal(swi_plan_bytes(plan), 3 * 10 * 7 * 4);
    while (swi_plan_next(plan, &cursor, &window)) {
        assert_int_equal(window.lo, at);
        assert_int_equal(window.lo % 7, 0);
        assert_true(window.hi - window.lo <= 28);
        assert_int_equal(window.lo / 70, (window.hi - 1) / 70);
        at = window.hi;
    }
    assert_int_equal(at, 210);
    swi_plan_free(plan);
    swi_layout_free(layout);
    world_free(&w);
}

/* ---- what is refused ---------------------------------------------------------------------------
 */

static swi_layout *layout_of(sw_dtype dtype, uint32_t axes, const int64_t *shape, uint32_t source)
{
    sw_error err = {0};
    swi_layout *layout = NULL;
    swi_piece p = {.axes = axes};
    uint32_t file, tensor;
    uint64_t bytes = sw_dtype_bytes(dtype);
    swi_tensor_in in = {"out", 3, dtype, axes, shape, SW_ROLE_PARAMETER};
    for (uint32_t k = 0; k < axes; k++) {
        p.view[k] = p.length[k] = shape[k];
        bytes *= (uint64_t)shape[k];
    }
    swi_piece_make_dense(&p, sw_dtype_bytes(dtype));
    assert_ok(swi_layout_make(NULL, &layout, &err), &err);
    assert_ok(swi_layout_file(layout, "out", bytes, &file, &err), &err);
    assert_ok(swi_layout_tensor(layout, &in, source, &tensor, &err), &err);
    assert_ok(swi_layout_piece(layout, tensor, file, 0, bytes, &p, &err), &err);
    assert_ok(swi_layout_freeze(layout, &err), &err);
    return layout;
}

static void refuse(const world *w, swi_layout *layout, sw_status status, const char *text)
{
    sw_error err = {0};
    swi_plan *plan = NULL;
    assert_int_equal(swi_plan_make(w->catalog, layout, 4096, NULL, NULL, &plan, &err), status);
    assert_error(&err, status, text);
    assert_null(plan);
    swi_layout_free(layout);
}

static void test_refusals(void **state)
{
    const int64_t shape[] = {4, 6}, turned[] = {6, 4};
    world w;
    (void)state;
    one_tensor(&w, SW_I32, 2, shape);
    refuse(&w, layout_of(SW_I32, 2, turned, 0), SW_ERR_CONFLICT, "tensor \"out\": its shape");
    refuse(&w, layout_of(SW_F32, 2, shape, 0), SW_ERR_UNSUPPORTED,
           "int32 cannot be cast to float32");
    refuse(&w, layout_of(SW_I32, 2, shape, 7), SW_ERR_ARG, "the source has no tensor 7");
    world_free(&w);
}

/* What a tensor cannot be scaled by, or be made of its products. */
static void test_refused_scales(void **state)
{
    static const struct {
        sw_dtype from, factor, to;
        int64_t columns; /* of the factors; elements have 6 */
        uint32_t scale;
        sw_status status;
        const char *text;
    } cases[] = {
        {SW_F8_E4M3FN, SW_F32, SW_BF16, 6, 9, SW_ERR_ARG, "the source has no tensor 9"},
        {SW_F8_E4M3FN, SW_F32, SW_BF16, 5, 1, SW_ERR_CONFLICT, "tensor \"t0\": its shape"},
        {SW_F8_E4M3FN, SW_F32, SW_F64, 6, 1, SW_ERR_UNSUPPORTED,
         "tensor \"t0\": float8_e4m3fn times float32 cannot be made to float64"},
        {SW_F8_E4M3FN, SW_I8, SW_BF16, 6, 1, SW_ERR_UNSUPPORTED, "float8_e4m3fn times int8"},
        {SW_I8, SW_F32, SW_BF16, 6, 1, SW_ERR_UNSUPPORTED, "int8 times float32"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static ranks r;
        world w = {.count = 2};
        sw_error err = {0};
        swi_plan *plan = NULL;
        w.tensors[0] = (world_tensor){"t0", cases[i].from, 2, {4, 6}, 24, {0}};
        w.tensors[1] = (world_tensor){
            "t1", cases[i].factor, 2, {4, cases[i].columns}, 4 * (uint64_t)cases[i].columns, {0}};
        world_build(&w);
        ranks_begin(&r, &w, false);
        r.left_out[1] = true;
        r.dtypes[0] = cases[i].to;
        r.scales[0] = cases[i].scale;
        ranks_make(&r);
        assert_int_equal(swi_plan_make(w.catalog, r.layout, 4096, NULL, NULL, &plan, &err),
                         cases[i].status);
        assert_error(&err, cases[i].status, cases[i].text);
        ranks_free(&r);
        world_free(&w);
    }
}

/* A plan whose factors nobody reads is no proof. */
static void test_factors_that_are_not_read(void **state)
{
    static ranks r;
    world w = {0};
    sw_error err = {0};
    swi_plan *plan = NULL;
    (void)state;
    w.count = 2;
    w.tensors[0] = (world_tensor){"t0", SW_F8_E4M3FN, 2, {4, 6}, 24, {0}};
    w.tensors[1] = (world_tensor){"t1", SW_F32, 2, {4, 6}, 24, {2, 3}};
    world_build(&w);
    ranks_begin(&r, &w, false);
    r.left_out[1] = true;
    r.dtypes[0] = SW_BF16;
    r.scales[0] = 1;
    ranks_make(&r);
    assert_ok(swi_plan_make(w.catalog, r.layout, 4096, NULL, NULL, &plan, &err), &err);
    const swi_plan_view sound = {plan, view_next, view_reads, view_writes, skip_none, view_scales};
    const swi_plan_view blind = {plan, view_next, view_reads, view_writes, skip_none, NULL};
    const swi_plan_view wrong = {plan, view_next, view_reads, view_writes, skip_none, view_reads};
    assert_ok(swi_plan_check_view(&sound, w.catalog, r.layout, NULL, &err), &err);
    assert_int_equal(swi_plan_check_view(&blind, w.catalog, r.layout, NULL, &err), SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "its factors are not read");
    assert_int_equal(swi_plan_check_view(&wrong, w.catalog, r.layout, NULL, &err), SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "is not read from where it lies");
    swi_plan_free(plan);
    ranks_free(&r);
    world_free(&w);
}

/* Of two pieces that share elements 3 and 4, less is read. */
static sw_status short_reads(const void *ctx, const swi_window *w, swi_moves *moves, sw_error *err)
{
    sw_status status = swi_plan_reads(ctx, w, moves, err);
    assert_int_equal(moves->count, 2);
    assert_int_equal(moves->items[1].length[0], 5);
    moves->items[1].length[0] = 3; /* as many as the window has, but not all of it */
    return status;
}

/* Copies that overlap in part are read both: each once, and together all. */
static void test_copies_in_part(void **state)
{
    const int64_t shape[] = {8};
    sw_error err = {0};
    swi_builder *builder = NULL;
    sw_catalog *catalog = NULL;
    swi_plan *plan = NULL;
    uint32_t file, tensor;
    swi_tensor_in in = {"part", 4, SW_U8, 1, shape, SW_ROLE_PARAMETER};
    (void)state;
    assert_ok(swi_builder_make(NULL, &builder, &err), &err);
    assert_ok(swi_builder_file(builder, "f", 100, &file, &err), &err);
    assert_ok(swi_builder_tensor(builder, &in, &tensor, &err), &err);
    swi_builder_allow_replicas(builder, tensor);
    for (int64_t i = 0; i < 2; i++) {
        swi_blob blob = {.ops = &swi_blob_slice, .file = file, .stored_bytes = 5, .bytes = 5};
        swi_piece p = {
            .axes = 1, .view = {8}, .offset = {3 * i}, .length = {5}, .stride_bytes = {1}};
        assert_ok(swi_builder_blob(builder, &blob, &p.blob, &err), &err);
        assert_ok(swi_builder_piece(builder, tensor, &p, &err), &err);
    }
    assert_ok(swi_builder_freeze(builder, NULL, &catalog, &err), &err);
    swi_layout *layout = layout_of(SW_U8, 1, shape, 0);
    assert_ok(swi_plan_make(catalog, layout, 4096, NULL, NULL, &plan, &err), &err);
    const swi_plan_view sound = {plan, view_next, view_reads, view_writes, skip_none, NULL};
    const swi_plan_view lacking = {plan, view_next, short_reads, view_writes, skip_none, NULL};
    assert_ok(swi_plan_check_view(&sound, catalog, layout, NULL, &err), &err);
    assert_int_equal(swi_plan_check_view(&lacking, catalog, layout, NULL, &err), SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "a window is not read in some place");
    swi_plan_free(plan);
    swi_layout_free(layout);
    sw_catalog_free(catalog);
}

/* A source with a hole, an overlap. */
static void damaged(bool overlap, sw_status status, const char *text)
{
    const int64_t shape[] = {8};
    sw_error err = {0};
    swi_builder *builder = NULL;
    sw_catalog *catalog = NULL;
    uint32_t file, tensor;
    swi_tensor_in in = {"hurt", 4, SW_U8, 1, shape, SW_ROLE_PARAMETER};
    assert_ok(swi_builder_make(NULL, &builder, &err), &err);
    assert_ok(swi_builder_file(builder, "f", 100, &file, &err), &err);
    assert_ok(swi_builder_tensor(builder, &in, &tensor, &err), &err);
    for (int64_t i = 0; i < 2; i++) {
        swi_blob blob = {.ops = &swi_blob_slice,
                         .file = file,
                         .offset_bytes = 10,
                         .stored_bytes = 4,
                         .bytes = 4};
        int64_t at = overlap ? 3 * i : 4 * i, length = overlap || i == 0 ? 4 : 2;
        swi_piece p = {
            .axes = 1, .view = {8}, .offset = {at}, .length = {length}, .stride_bytes = {1}};
        assert_ok(swi_builder_blob(builder, &blob, &p.blob, &err), &err);
        assert_ok(swi_builder_piece(builder, tensor, &p, &err), &err);
    }
    assert_ok(swi_builder_freeze(builder, NULL, &catalog, &err), &err);
    world w = {.catalog = catalog};
    refuse(&w, layout_of(SW_U8, 1, shape, 0), status, text);
    sw_catalog_free(catalog);
}

static void test_damaged_sources(void **state)
{
    (void)state;
    damaged(false, SW_ERR_INCOMPLETE, "in the source: tensor \"hurt\" is damaged (INCOMPLETE)");
    damaged(true, SW_ERR_CONFLICT, "in the source: tensor \"hurt\" is damaged (CONFLICT)");
}

/* ---- lookup
 * -------------------------------------------------------------------------------------- */

static void test_lookup_against_all_pairs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        sw_error err = {0};
        swi_builder *builder = NULL;
        sw_catalog *catalog = NULL;
        swi_lookup *lookup = NULL;
        harness_prng prng = {.state = seed};
        const int64_t shape[] = {2000};
        uint32_t file, tensor;
        swi_tensor_in in = {"t", 1, SW_U8, 1, shape, SW_ROLE_PARAMETER};
        assert_ok(swi_builder_make(NULL, &builder, &err), &err);
        assert_ok(swi_builder_file(builder, "f", 4000, &file, &err), &err);
        assert_ok(swi_builder_tensor(builder, &in, &tensor, &err), &err);
        swi_builder_allow_replicas(builder, tensor);
        uint64_t count = 1 + harness_random_below(&prng, 600);
        for (uint64_t i = 0; i < count; i++) {
            int64_t at = (int64_t)harness_random_below(&prng, 2000);
            int64_t most = harness_random_below(&prng, 50) == 0 ? 2000 - at : 5;
            int64_t length = 1 + (int64_t)harness_random_below(&prng, (uint64_t)most);
            length = length < 2000 - at ? length : 2000 - at;
            swi_blob blob = {
                .ops = &swi_blob_slice, .file = file, .stored_bytes = 2000, .bytes = 2000};
            swi_piece p = {
                .axes = 1, .view = {2000}, .offset = {at}, .length = {length}, .stride_bytes = {1}};
            assert_ok(swi_builder_blob(builder, &blob, &p.blob, &err), &err);
            assert_ok(swi_builder_piece(builder, tensor, &p, &err), &err);
        }
        assert_ok(swi_builder_freeze(builder, NULL, &catalog, &err), &err);
        assert_ok(swi_lookup_make(catalog, tensor, &lookup, &err), &err);
        for (int q = 0; q < 50; q++) {
            uint64_t lo = harness_random_below(&prng, 2000);
            uint64_t hi = lo + 1 + harness_random_below(&prng, 40);
            int64_t at = -1;
            for (uint64_t i = 0; i < count; i++) {
                swi_piece p;
                swi_tensor_piece(catalog, tensor, i, &p);
                if (swi_piece_first(&p) >= hi || swi_piece_end(&p) <= lo)
                    continue;
                at = swi_lookup_next(lookup, lo, hi, (uint64_t)(at + 1));
                assert_int_equal(at, i);
            }
            assert_int_equal(swi_lookup_next(lookup, lo, hi, (uint64_t)(at + 1)), -1);
        }
        swi_lookup_free(lookup);
        sw_catalog_free(catalog);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans_and_mutants),
        cmocka_unit_test(test_rank_files_and_mutants),
        cmocka_unit_test(test_replicas_are_read_once),
        cmocka_unit_test(test_a_move_past_its_piece),
        cmocka_unit_test(test_a_move_in_place_of_another),
        cmocka_unit_test(test_a_write_in_place_of_another),
        cmocka_unit_test(test_large_plans),
        cmocka_unit_test(test_finished_files),
        cmocka_unit_test(test_windows_are_whole_rows),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_refused_scales),
        cmocka_unit_test(test_factors_that_are_not_read),
        cmocka_unit_test(test_copies_in_part),
        cmocka_unit_test(test_damaged_sources),
        cmocka_unit_test(test_lookup_against_all_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
