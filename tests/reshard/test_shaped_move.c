/*
 * Mapped catalogs as sources: tensors of random checkpoints are rearranged, cut, padded, spread and
 * stacked on pieces; then loaded, scanned, and converted to random layouts, element by element.
 */
#include "world.h"

#include "load.h"
#include "scan.h"

#define MODEL_FAIL(text) fail_msg("%s", (text))
#include "shaped_ops.h"

static uint64_t draw(void *ctx, uint64_t below)
{
    return world_below(ctx, below);
}

/* The elements of the source tensors that the mapped ones are made of. */
static array numbered(const world_tensor *t)
{
    array a = array_make(t->axes, t->shape);
    for (size_t i = 0; i < a.count; i++)
        a.v[i] = i;
    return a;
}

typedef struct mapped {
    world source;
    world shapes; /* of the mapped tensors, for a layout of them */
    array expected[WORLD_TENSORS_MAX];
    uint8_t pad[8];
    sw_catalog *catalog;
    swi_source view;
} mapped;

static void replace(tracked *x, sw_status status, swi_shaped *made, const array *a)
{
    assert_int_equal(status, SW_OK);
    tracked_free(x);
    *x = (tracked){*made, *a};
}

static void map_one(model *m, tracked *x, uint32_t constant)
{
    swi_shaped made = {0};
    int64_t shape[SW_MAX_AXES] = {0}, blocks[SW_MAX_AXES], index[SW_MAX_AXES] = {0};
    swi_rearrange r;
    array a;
    switch (model_below(m, x->a.axes == 0 ? 1 : 4)) {
    case 0:
        r = random_rearrange(m, &x->a);
        if (r.out_axes > 4)
            return;
        a = array_rearrange(&x->a, &r);
        replace(x, swi_shaped_rearrange(&x->s, &r, &made, NULL), &made, &a);
        return;
    case 1:
        memcpy(shape, x->a.shape, sizeof shape);
        shape[0] += model_below(m, 9);
        a = array_make(x->a.axes, shape);
        for (size_t e = 0; e < a.count; e++) {
            array_index(&a, e, index);
            a.v[e] = index[0] < x->a.shape[0] ? x->a.v[array_flat(&x->a, index)] : MODEL_PAD;
        }
        replace(x, swi_shaped_pad(&x->s, 0, shape[0], constant, &made, NULL), &made, &a);
        return;
    case 2:
        for (uint32_t k = 0; k < x->a.axes; k++) {
            blocks[k] = 1 + model_below(m, 3);
            shape[k] = x->a.shape[k] * blocks[k];
        }
        if (!fits(shape, x->a.axes))
            return;
        a = array_make(x->a.axes, shape);
        for (size_t e = 0; e < a.count; e++) {
            array_index(&a, e, index);
            for (uint32_t k = 0; k < a.axes; k++)
                index[k] /= blocks[k];
            a.v[e] = x->a.v[array_flat(&x->a, index)];
        }
        replace(x, swi_shaped_spread(&x->s, a.axes, shape, blocks, &made, NULL), &made, &a);
        return;
    default:
        memcpy(shape, x->a.shape, sizeof shape);
        index[0] = model_below(m, shape[0] + 1);
        shape[0] -= index[0];
        a = array_cut(&x->a, index, shape);
        replace(x, swi_shaped_cut(&x->s, index, shape, &made, NULL), &made, &a);
    }
}

/* Some tensors as they are, some mapped; each under its name. */
static void map_make(mapped *t, const world *how, uint64_t seed)
{
    sw_error err = {0};
    swi_builder *builder;
    uint32_t constant, id;
    sw_report *report;
    t->source = *how;
    world_make(&t->source, seed);
    model m = {.choose = draw, .ctx = &t->source};
    for (size_t i = 0; i < sizeof t->pad; i++)
        t->pad[i] = (uint8_t)world_below(&t->source, 256);
    t->shapes = (world){.prng = {.state = seed}, .count = t->source.count};
    assert_ok(swi_builder_from(t->source.catalog, NULL, &builder, &err), &err);
    /* A pattern of one byte fits every type. */
    assert_ok(swi_builder_constant(builder, t->pad, 1, 16, &constant, &err), &err);
    for (uint32_t i = 0; i < t->source.count; i++) {
        const world_tensor *from = &t->source.tensors[i];
        world_tensor *to = &t->shapes.tensors[i];
        const swi_shaped_name name = {from->name, strlen(from->name), SW_ROLE_PARAMETER};
        tracked x = {.a = numbered(from)};
        assert_ok(swi_shaped_take(t->source.catalog, i, &x.s, &err), &err);
        m.dtype = from->dtype;
        for (int64_t n = model_below(&m, 4); n > 0 && x.a.count <= MODEL_ELEMENTS_MAX; n--)
            map_one(&m, &x, constant);
        assert_ok(swi_shaped_put(builder, &name, &x.s, &id, &err), &err);
        assert_int_equal(id, i);
        *to = *from;
        to->axes = x.a.axes;
        to->elements = x.a.count;
        memcpy(to->shape, x.a.shape, sizeof to->shape);
        t->expected[i] = x.a;
        swi_shaped_free(&x.s);
    }
    assert_ok(sw_report_make(&report, &err), &err);
    assert_ok(swi_builder_freeze(builder, report, &t->catalog, &err), &err);
    assert_int_equal(sw_report_count(report), 0);
    sw_report_free(report);
    t->view = (swi_source){.catalog = t->catalog, .reader = t->source.source.reader};
}

static void map_free(mapped *t)
{
    for (uint32_t i = 0; i < t->source.count; i++)
        free(t->expected[i].v);
    sw_catalog_free(t->catalog);
    world_free(&t->source);
}

static void expect_element(const mapped *t, uint32_t id, uint64_t flat, const uint8_t *found)
{
    const world_tensor *from = &t->source.tensors[id];
    uint64_t v = t->expected[id].v[flat];
    uint8_t bytes[16];
    memset(bytes, t->pad[0], sizeof bytes);
    if (v != MODEL_PAD)
        world_put(bytes, from, id, v);
    assert_memory_equal(found, bytes, sw_dtype_bytes(from->dtype));
}

/* ---- loading --------------------------------------------------------------------------------- */

static void test_load(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        const world how = {
            .strided = seed % 3 == 0, .crc = seed % 2 == 0, .replicas = seed % 5 == 0};
        mapped t = {0};
        sw_error err = {0};
        map_make(&t, &how, seed);
        for (uint32_t id = 0; id < t.source.count; id++) {
            size_t unit = sw_dtype_bytes(t.source.tensors[id].dtype), n = t.expected[id].count;
            uint8_t *out = malloc(n * unit + 1);
            assert_non_null(out);
            assert_ok(swi_load_interval(&t.view, id, 0, n, out, &err), &err);
            for (size_t i = 0; i < n; i++)
                expect_element(&t, id, i, out + i * unit);
            free(out);
        }
        map_free(&t);
    }
}

/* ---- converting ------------------------------------------------------------------------------ */

typedef struct looking {
    const mapped *t;
    uint32_t id;
    const uint8_t *bytes;
} looking;

static void look(void *ctx, uint64_t flat, uint64_t byte)
{
    const looking *l = ctx;
    expect_element(l->t, l->id, flat, l->bytes + byte);
}

static void verify_written(const mapped *t, const swi_layout *layout, const swi_store *store)
{
    const sw_catalog *catalog = swi_layout_catalog(layout);
    sw_error err = {0};
    for (uint32_t id = 0; id < t->source.count; id++) {
        sw_tensor_info info;
        assert_true(sw_catalog_tensor(catalog, id, &info));
        for (uint64_t i = 0; i < info.piece_count; i++) {
            swi_piece p;
            swi_blob blob;
            uint8_t *file;
            size_t size;
            swi_tensor_piece(catalog, id, i, &p);
            swi_catalog_blob(catalog, p.blob, &blob);
            assert_ok(swi_store_read_all(store, swi_catalog_path(catalog, blob.file), UINT32_MAX,
                                         &file, &size, &err),
                      &err);
            looking l = {t, id, file + blob.offset_bytes};
            world_each(&p, look, &l);
            free(file);
        }
    }
}

/* The plan is proven, then carried out in small windows. */
static void test_convert(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        const world how = {
            .strided = seed % 3 == 0, .crc = seed % 2 == 0, .replicas = seed % 5 == 0};
        mapped t = {0};
        sw_error err = {0};
        sw_tally tally = {0};
        world_sink sink;
        swi_plan *plan;
        map_make(&t, &how, seed + 5000);
        swi_layout *layout = world_layout(&t.shapes);
        world_sink_make(&sink, layout);
        const swi_budget budget = {
            .threads = 2, .window_bytes = 64 + seed * 16, .bounce_bytes = 512};
        const swi_execute_in in = {
            .source = &t.view, .layout = layout, .sink = &sink.sink, .budget = budget};
        assert_ok(swi_plan_make(t.catalog, layout, budget.window_bytes, NULL, NULL, &plan, &err),
                  &err);
        assert_ok(swi_plan_check(plan, t.catalog, layout, NULL, &err), &err);
        swi_plan_free(plan);
        assert_ok(swi_execute_job(&in, NULL, &tally, &err), &err);
        verify_written(&t, layout, sink.store);
        swi_layout_free(layout);
        swi_store_close(sink.store);
        map_free(&t);
    }
}

/* ---- constants ------------------------------------------------------------------------------- */

/* Nothing is read, nothing is unchecked; a file of it is written. */
static void test_constants_cost_no_read(void **state)
{
    (void)state;
    sw_error err = {0};
    sw_tally tally = {0}, scanned = {0};
    world w = {.count = 1};
    world_sink sink;
    swi_builder *builder;
    sw_catalog *catalog;
    uint32_t constant, id;
    swi_shaped s;
    static const uint8_t one[] = {0, 0, 0x80, 0x3f};
    const swi_shaped_name name = {"ones", 4, SW_ROLE_PARAMETER};
    w.tensors[0] = (world_tensor){
        .name = "ones", .dtype = SW_F32, .axes = 2, .shape = {30, 40}, .elements = 1200};
    assert_ok(swi_builder_make(NULL, &builder, &err), &err);
    assert_ok(swi_builder_constant(builder, one, 4, 4, &constant, &err), &err);
    assert_ok(swi_shaped_fill(SW_F32, 2, w.tensors[0].shape, constant, &s, &err), &err);
    assert_ok(swi_shaped_put(builder, &name, &s, &id, &err), &err);
    swi_shaped_free(&s);
    assert_ok(swi_builder_freeze(builder, NULL, &catalog, &err), &err);
    const swi_source source = {.catalog = catalog, .reader = NULL};
    swi_layout *layout = world_layout(&w);
    world_sink_make(&sink, layout);
    const swi_execute_in in = {
        .source = &source,
        .layout = layout,
        .sink = &sink.sink,
        .budget = {.threads = 2, .window_bytes = 256, .bounce_bytes = 512},
    };
    assert_ok(swi_execute_job(&in, NULL, &tally, &err), &err);
    assert_int_equal(tally.read_bytes, 0);
    assert_int_equal(tally.unchecked_bytes, 0);
    assert_ok(swi_scan(&source, NULL, NULL, &scanned, &err), &err);
    assert_int_equal(scanned.read_bytes, 0);
    const sw_catalog *target = swi_layout_catalog(layout);
    swi_piece p;
    swi_blob blob;
    uint8_t *file;
    size_t size;
    swi_tensor_piece(target, 0, 0, &p);
    swi_catalog_blob(target, p.blob, &blob);
    assert_ok(swi_store_read_all(sink.store, swi_catalog_path(target, blob.file), UINT32_MAX, &file,
                                 &size, &err),
              &err);
    assert_memory_equal(file + blob.offset_bytes, one, 4);
    free(file);
    swi_layout_free(layout);
    swi_store_close(sink.store);
    sw_catalog_free(catalog);
}

/* Patterns that do not fit elements, or are met off their beginning. */
static void test_constants_and_elements(void **state)
{
    (void)state;
    static const uint8_t pattern[] = {1, 2, 3, 4, 5, 6, 7, 8};
    sw_error err = {0};
    swi_builder *builder;
    sw_catalog *catalog;
    uint32_t blob, tensor;
    uint16_t out[3] = {0};
    const int64_t shape[] = {3};
    const swi_tensor_in names[] = {{"turned", 6, SW_U16, 1, shape, SW_ROLE_OTHER},
                                   {"off", 3, SW_U16, 1, shape, SW_ROLE_OTHER},
                                   {"wide", 4, SW_U16, 1, shape, SW_ROLE_OTHER}};
    const int64_t base[] = {1, 0, 0}, stride[] = {2, 1, 0};
    assert_ok(swi_builder_make(NULL, &builder, &err), &err);
    for (uint32_t i = 0; i < 3; i++) {
        swi_piece p = {.axes = 1,
                       .view = {3},
                       .length = {3},
                       .base_bytes = base[i],
                       .stride_bytes = {stride[i]}};
        assert_ok(swi_builder_constant(builder, pattern, i == 2 ? 8 : 2, 16, &blob, &err), &err);
        assert_ok(swi_builder_tensor(builder, &names[i], &tensor, &err), &err);
        p.blob = blob;
        assert_ok(swi_builder_piece(builder, tensor, &p, &err), &err);
    }
    assert_ok(swi_builder_freeze(builder, NULL, &catalog, &err), &err);
    const swi_source source = {.catalog = catalog, .reader = NULL};
    assert_ok(swi_load_interval(&source, 0, 0, 3, out, &err), &err);
    assert_memory_equal(out, "\2\1\2\1\2\1", 6);
    assert_int_equal(swi_load_interval(&source, 1, 0, 3, out, &err), SW_ERR_UNSUPPORTED);
    assert_error(&err, SW_ERR_UNSUPPORTED, "tensor \"off\": part of a constant off its pattern");
    assert_int_equal(swi_load_interval(&source, 2, 0, 3, out, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG,
                 "tensor \"wide\": a constant of 8 bytes does not fill elements of 2");
    sw_catalog_free(catalog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_convert),
        cmocka_unit_test(test_constants_cost_no_read),
        cmocka_unit_test(test_constants_and_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
