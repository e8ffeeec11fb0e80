/* Random maps, held against the definitions of their operations, element by element. */
#include "convert/fixture.h"

static const swi_buf *shown; /* the map that is tried */
#define MODEL_SHOW(buf) (shown = (buf))
#define MODEL_FAIL(text) fail_msg("%s\n%.*s", (text), (int)shown->size, (const char *)shown->data)
#include "convert/map/map_program.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(elements_go_where_the_map_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
