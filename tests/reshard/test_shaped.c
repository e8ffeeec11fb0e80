/* Operations on shaped tensors against arrays, element by element. */
#include "harness/harness.h"

#define MODEL_FAIL(text) fail_msg("%s", (text))
#include "shaped_ops.h"

static uint64_t draw(void *ctx, uint64_t below)
{
    return harness_random_below(ctx, below);
}

/* None of these views needs more axes than a piece has: nothing is refused. */
static void run_programs(uint64_t seed, int64_t steps)
{
    size_t done = 0, refused = 0, most = 0;
    for (uint64_t n = 1; n <= 6000; n++) {
        harness_prng prng = {.state = seed + n};
        model m = model_program(draw, &prng, steps);
        done += m.done;
        refused += m.refused;
        most = m.most_pieces > most ? m.most_pieces : most;
    }
    print_message("%zu done, %zu refused, at most %zu pieces\n", done, refused, most);
    assert_true(done > 4000);
    assert_int_equal(refused, 0);
}

static void every_operation_alone(void **state)
{
    (void)state;
    run_programs(0, 1);
}

static void programs_of_six(void **state)
{
    (void)state;
    run_programs(UINT64_C(1) << 20, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_alone),
        cmocka_unit_test(programs_of_six),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
