/* Random maps, held against the definitions of their operations, element by element. */
#include "convert/fixture.h"

static const swi_buf *shown; /* the map that is tried */
#define MODEL_SHOW(buf) (shown = (buf))
#define MODEL_FAIL(text) fail_msg("%s\n%.*s", (text), (int)shown->size, (const char *)shown->data)
#include "convert/map/map_round.h"
#include "map_fixture.h"
#include "source/identity.h"

#define ROUNDS 600

static uint64_t draw(void *ctx, uint64_t below)
{
    return harness_random_below(ctx, below);
}

static sw_checkpoint *any_checkpoint(const char *dir)
{
    write_st_one(harness_path(dir, "model.safetensors"), "x", 1, 1, 0);
    return open_good(dir);
}

static void elements_go_where_the_map_says(void **state)
{
    sw_checkpoint *base = any_checkpoint(*state);
    harness_prng prng = {.state = 20};
    for (int i = 0; i < ROUNDS; i++)
        run_program(base, draw, &prng, 2);
    sw_checkpoint_close(base);
}

/* ---- whose partial work is whose ---------------------------------------------------------------
 */

static void identity_of(const sw_checkpoint *base, const char *text, const char *json, size_t from,
                        size_t to, bool dequantise, char out[SWI_IDENTITY_TEXT])
{
    swi_model *of = NULL;
    swi_mapping *mapping = NULL;
    sw_error err = {0};
    swi_identity id;
    assert_ok(make_model(text, json, SIZE_MAX, NULL, &of, &err), &err);
    const swi_mapping_in in = {
        .model = of, .from = from, .to = to, .source = base, .dequantise = dequantise};
    assert_ok(swi_mapping_begin(&in, &mapping, &err), &err);
    swi_identity_begin(&id);
    swi_mapping_identify(mapping, &id);
    swi_identity_end(&id, out);
    swi_mapping_free(mapping);
    swi_model_free(of);
}

/* Another map, configuration or side is another conversion: what is left of it is not taken up. */
static void another_conversion(void **state)
{
    static const char map[] = "map: 1\nname: m\nsides: {a: {}, b: {}, c: {}}\n"
                              "tensors: [{a: x, shape: [config.n], b: y, c: z}]\n";
    static const char other[] = "map: 1\nname: m\nsides: {a: {}, b: {}, c: {}}\n"
                                "tensors: [{a: x, shape: [config.n], b: y, c: w}]\n";
    sw_checkpoint *base = any_checkpoint(*state);
    char ids[7][SWI_IDENTITY_TEXT];
    identity_of(base, map, "{\"n\": 1}", 0, 1, false, ids[0]);
    identity_of(base, map, "{\"n\": 2}", 0, 1, false, ids[1]);
    identity_of(base, other, "{\"n\": 1}", 0, 1, false, ids[2]);
    identity_of(base, map, "{\"n\": 1}", 2, 1, false, ids[3]);
    identity_of(base, map, "{\"n\": 1}", 0, 2, false, ids[4]);
    identity_of(base, map, "{\"n\": 1}", 0, 1, true, ids[5]);
    identity_of(base, map, "{\"n\": 1}", 0, 1, false, ids[6]);
    for (size_t i = 0; i < 6; i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(ids[i], ids[k]);
    assert_string_equal(ids[0], ids[6]);
    sw_checkpoint_close(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(elements_go_where_the_map_says),
        test_in_dir(another_conversion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
