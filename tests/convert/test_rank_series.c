/* Folders of files of ranks that names alone bind together (specs/rank_files.md, RS). */
#include "convert/rank_fixture.h"

#include <unistd.h>

#include "model/value.h"
#include "ranks/rank_series.h"
#include "state/state.h"

/* ---- names ---------------------------------------------------------------------------------- */

static void names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool is;
        uint64_t rank, world;
    } cases[] = {
        {"model_world_size_8_rank_3.pt", true, 3, 8},
        {"optim_world_size_128_rank_100.pt", true, 100, 128},
        {"pytorch_model_fsdp_rank3.bin", true, 3, 0},
        {"pytorch_model_fsdp_0_rank03.bin", true, 3, 0},
        {"model-rank-12.pth", true, 12, 0},
        {"rank_0.ckpt", true, 0, 0},
        {"rank0_of_4.pt", true, 0, 4},
        {"rank_2_model.pt", true, 2, 0},
        {"frank_1.pt", false, 0, 0},
        {"rank_1a.pt", false, 0, 0},
        {"rank_.pt", false, 0, 0},
        {"rank_1234567890.pt", false, 0, 0},
        {"model-rank-0-part-0.safetensors", false, 0, 0},
        /* those of one axis of several are not numbers of ranks */
        {"mp_rank_00_model_states.pt", false, 0, 0},
        {"zero_pp_rank_0_mp_rank_00_optim_states.pt", false, 0, 0},
        {"bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt", false, 0, 0},
        {"random_states_0.pkl", false, 0, 0},
        {"model.pt", false, 0, 0},
        {".pt", false, 0, 0},
        {"", false, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        swi_series_name n = {0};
        bool is = swi_series_name_parse(cases[i].name, &n);
        if (is != cases[i].is || (is && (n.rank != cases[i].rank || n.world != cases[i].world)))
            fail_msg("%s: %d, rank %d of %d", cases[i].name, is, (int)n.rank, (int)n.world);
    }
}

/* The name that a file was saved under tells, where it is of the same series. */
static void saved_ranks(void **state)
{
    (void)state;
    static const struct {
        const char *name, *saved_as;
        int64_t rank;
    } cases[] = {
        {"optim_world_size_4_rank_1.pt", "optim_world_size_4_rank_2/", 2},
        {"optim_world_size_4_rank_1.pt", "optim_world_size_4_rank_01/", 1},
        {"optim_world_size_4_rank_1.pt", "optim_world_size_8_rank_2/", -1},
        {"optim_world_size_4_rank_1.pt", "archive/", -1},
        {"optim_world_size_4_rank_1.pt", "optim_world_size_4_rank_/", -1},
        {"optim_world_size_4_rank_1.pt", "optim_world_size_4_rank_2", -1},
        {"rank3_model.bin", "rank12_model/", 12},
        {"rank3_model.bin", "rank12/", -1},
        {"rank3.pt", "local_rank3/", -1},
        {"rank3.pt", NULL, -1},
        {"model_3.pt", "model_4/", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(swi_series_saved_rank(cases[i].name, cases[i].saved_as), cases[i].rank);
}

/* ---- files ---------------------------------------------------------------------------------- */

static torch_world *begin(void)
{
    torch_world *w = torch_begin(false);
    torch_say(w, "} (");
    return w;
}

static void end(torch_world *w, const char *path)
{
    torch_say(w, "u");
    torch_write_zip(w, path, NULL);
    torch_free(w);
}

/* torch.chunk of `rows` in `world`. */
static void chunk(int64_t rows, int world, int rank, int64_t *first, int64_t *count)
{
    int64_t each = (rows + world - 1) / world;
    *first = each * rank < rows ? each * rank : rows;
    *count = *first + each < rows ? each : rows - *first;
}

static void put_rows(torch_world *w, const char *key, int64_t rows, int64_t columns, int world,
                     int rank)
{
    const rank_mesh mesh = {.size = {world}, .placement = {RANK_ROWS}};
    int64_t first, count;
    chunk(rows, world, rank, &first, &count);
    rank_placed(w, key, rows, columns, first, count, &mesh, rank);
}

/* Files of one DTensor "w" of `rows` x 2, with this pattern of names for the rank. */
static void write_series(const char *dir, const char *pattern, int world, int64_t rows)
{
    for (int r = 0; r < world; r++) {
        char name[128];
        torch_world *w = begin();
        put_rows(w, "w", rows, 2, world, r);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(name, sizeof name, pattern, r);
#pragma GCC diagnostic pop
        end(w, harness_path(dir, "%s", name));
    }
}

static void expect(const char *dir, sw_severity severity, const char *code, const char *file,
                   const char *tensor, const char *text)
{
    outcome o;
    run_verify(dir, &o);
    assert_found(&o, severity, code, file, tensor, text);
    outcome_free(&o);
    if (severity != SW_DEFECT)
        return;
    run_convert(dir, harness_path(dir, "../out"), NULL, &o);
    assert_true(o.status != SW_OK);
    outcome_free(&o);
}

/* A1: the same as ShardedTensors and as DTensors. */
static void whole_from_four(void **state)
{
    char *sharded = harness_path(*state, "st"), *placed = harness_path(*state, "dt");
    for (int r = 0; r < 4; r++) {
        const rank_shard s = {8, 4, 2 * r, 2, r, 4, 4};
        torch_world *w = begin();
        rank_sharded(w, "w", &s, 0);
        end(w, harness_path(sharded, "model_world_size_4_rank_%d.pt", r));
        w = begin();
        put_rows(w, "w", 8, 4, 4, r);
        end(w, harness_path(placed, "model_world_size_4_rank_%d.pt", r));
    }
    for (int i = 0; i < 2; i++) {
        char *dir = i == 0 ? sharded : placed;
        outcome o;
        run_verify(dir, &o);
        assert_fine(&o);
        assert_string_equal(o.verified.framework, "ranks");
        assert_int_equal(o.verified.files, 4);
        outcome_free(&o);
        assert_ramp(dir, "model.w", 2, (const int64_t[]){8, 4}, 0);
    }
}

/* A2: by placements alone; the plain ones are copies. */
static void write_mixed(const char *dir, float buffer_of_3, int64_t length_of_3)
{
    for (int r = 0; r < 8; r++) {
        const rank_mesh mesh = {.size = {8}, .placement = {RANK_ROWS}};
        torch_world *w = begin();
        put_rows(w, "p", 16, 3, 8, r);
        torch_ramp(w, "buf", 1, (const int64_t[]){r == 3 ? length_of_3 : 1},
                   r == 3 ? buffer_of_3 : 5);
        torch_ramp(w, "step", 0, NULL, 7);
        rank_part_begin(w, "norm", 1, (const int64_t[]){16});
        torch_floats(w, NULL, 1, (const int64_t[]){2}, (const float[]){1, 1});
        rank_mesh_end(w, &mesh, r);
        end(w, harness_path(dir, "model_world_size_8_rank_%d.pt", r));
    }
}

static void plain_and_placed(void **state)
{
    char *dir = harness_path(*state, "in");
    outcome o;
    write_mixed(dir, 5, 1);
    run_verify(dir, &o);
    assert_fine(&o);
    outcome_free(&o);
    assert_ramp(dir, "model.p", 2, (const int64_t[]){16, 3}, 0);
    assert_ramp(dir, "model.buf", 1, (const int64_t[]){1}, 5);
    assert_ramp(dir, "model.step", 0, NULL, 7);
    sw_checkpoint *c = open_good(dir);
    sw_tensor_info t;
    float *data = read_floats(c, "model.norm", &t);
    assert_true(t.axes == 1 && t.shape[0] == 16);
    for (int i = 0; i < 16; i++)
        assert_true(data[i] == 1);
    free(data);
    sw_checkpoint_close(c);
    write_mixed(dir, 6, 1);
    expect(dir, SW_DEFECT, "replicas-differ", "model_world_size_8_rank_3.pt", "model.buf",
           "first at [0]");
    write_mixed(dir, 5, 2);
    expect(dir, SW_DEFECT, "bad-tensor", "model_world_size_8_rank_3.pt", "model.buf",
           "another rank gives it another type or shape");
}

/* A4: numbers of ranks are numbers, however they are written. */
static void order_of_ranks(void **state)
{
    char *dir = harness_path(*state, "12");
    write_series(dir, "part_rank_%d.pt", 12, 12);
    assert_ramp(dir, "w", 2, (const int64_t[]){12, 2}, 0);
    dir = harness_path(*state, "101");
    write_series(dir, "model_rank_%02d.pt", 101, 101);
    assert_ramp(dir, "model.w", 2, (const int64_t[]){101, 2}, 0);
    char *a = harness_path(dir, "model_rank_07.pt"), *b = harness_path(dir, "model_rank_70.pt");
    char *aside = harness_path(dir, "aside");
    assert_int_equal(rename(a, aside) | rename(b, a) | rename(aside, b), 0);
    expect(dir, SW_DEFECT, "wrong-rank", "model_rank_07.pt", NULL,
           "it stands for rank 7, and rank 70 saved it");
}

/* A7 */
static void uneven_and_empty(void **state)
{
    char *dir = harness_path(*state, "in");
    for (int r = 0; r < 32; r++) {
        torch_world *w = begin();
        put_rows(w, "h", 8, 16, 32, r);
        put_rows(w, "b", 5, 0, 32, r);
        end(w, harness_path(dir, "model_world_size_32_rank_%d.pt", r));
    }
    assert_ramp(dir, "model.h", 2, (const int64_t[]){8, 16}, 0);
    assert_ramp(dir, "model.b", 1, (const int64_t[]){5}, 0);
    /* the same as ShardedTensors, of which ranks without rows have no shard at all */
    char *st = harness_path(*state, "st");
    for (int r = 0; r < 4; r++) {
        rank_shard s = {5, 3, 0, 0, r, 4, 4};
        torch_world *w = begin();
        chunk(5, 4, r, &s.first, &s.rows);
        s.first = s.rows > 0 ? s.first : 0;
        rank_sharded(w, "w", &s, 0);
        end(w, harness_path(st, "model_world_size_4_rank_%d.pt", r));
    }
    assert_ramp(st, "model.w", 2, (const int64_t[]){5, 3}, 0);
    const rank_mesh mesh = {.size = {32}, .placement = {RANK_ROWS}};
    torch_world *w = begin();
    rank_placed(w, "h", 8, 16, 7, 2, &mesh, 7);
    put_rows(w, "b", 5, 0, 32, 7);
    end(w, harness_path(dir, "model_world_size_32_rank_7.pt"));
    expect(dir, SW_DEFECT, "bad-tensor", "model_world_size_32_rank_7.pt", "model.h",
           "has not the shape");
}

/* A8: rows of dp0tp0 0 1, dp0tp1 4 5, dp1tp0 2 3, dp1tp1 6 7. */
static void strided(void **state)
{
    static const int64_t first[] = {0, 4, 2, 6};
    const rank_mesh mesh = {
        .size = {2, 2},
        .placement = {"_StridedShard ) new } ( 'dim' 0 'split_factor' 2 u", RANK_ROWS}};
    for (int r = 0; r < 4; r++) {
        torch_world *w = begin();
        rank_placed(w, "w", 8, 2, first[r], 2, &mesh, r);
        end(w, harness_path(*state, "model_world_size_4_rank_%d.pt", r));
    }
    assert_ramp(*state, "model.w", 2, (const int64_t[]){8, 2}, 0);
}

/* A9 */
static void hybrid(void **state)
{
    const rank_mesh mesh = {.size = {2, 2}, .placement = {RANK_REPLICA, RANK_ROWS}};
    char *dir = harness_path(*state, "in");
    for (int r = 0; r < 4; r++) {
        torch_world *w = begin();
        rank_placed(w, "w", 4, 2, r % 2 * 2, 2, &mesh, r);
        end(w, harness_path(dir, "model_world_size_4_rank_%d.pt", r));
    }
    outcome o;
    run_verify(dir, &o);
    assert_fine(&o);
    outcome_free(&o);
    assert_ramp(dir, "model.w", 2, (const int64_t[]){4, 2}, 0);
    torch_world *w = begin();
    rank_part_begin(w, "w", 2, (const int64_t[]){4, 2});
    torch_floats(w, NULL, 2, (const int64_t[]){2, 2}, (const float[]){0, 1, 2, 9});
    rank_mesh_end(w, &mesh, 2);
    end(w, harness_path(dir, "model_world_size_4_rank_2.pt"));
    expect(dir, SW_DEFECT, "replicas-differ", "model_world_size_4_rank_2.pt", "model.w",
           "model_world_size_4_rank_0.pt, first at [1, 1]");
}

/* ---- FSDP1 ---------------------------------------------------------------------------------- */

/* A raw optimizer state of this rank: parameter `id` has these elements of a ramp from base on. */
static void put_state(torch_world *w, int id, int64_t elements, float base)
{
    char text[64];
    snprintf(text, sizeof text, "%d } (", id);
    torch_say(w, text);
    torch_ramp(w, "step", 0, NULL, 7);
    torch_ramp(w, "exp_avg", 1, (const int64_t[]){elements}, base);
    torch_say(w, "u");
}

static torch_world *begin_states(void)
{
    torch_world *w = begin();
    torch_say(w, "'state' } (");
    return w;
}

static void end_states(torch_world *w, const char *params, const char *path)
{
    torch_say(w, "u 'param_groups' ] } ( 'lr' 1.5f 'params' ] (");
    torch_say(w, params);
    torch_say(w, "e u a");
    end(w, path);
}

/* M1: 22 values in shards of 11; in two replicas, whose copies must be equal. */
static void flat_states(void **state)
{
    for (int groups = 1; groups <= 2; groups++) {
        char *dir = harness_path(*state, "%d", groups);
        int world = 2 * groups;
        for (int r = 0; r < world; r++) {
            const rank_shard s = {22, 0, 11 * (r % 2), 11, r, world, 2};
            torch_world *w = begin();
            rank_sharded(w, "_flat_param", &s, 0);
            end(w, harness_path(dir, "model_world_size_%d_rank_%d.pt", world, r));
            w = begin_states();
            put_state(w, 0, 11, (float)(100 + 11 * (r % 2)));
            end_states(w, "0", harness_path(dir, "optim_world_size_%d_rank_%d.pt", world, r));
        }
        assert_ramp(dir, "model._flat_param", 1, (const int64_t[]){22}, 0);
        assert_ramp(dir, "optimizer.state.0.exp_avg", 1, (const int64_t[]){22}, 100);
        assert_ramp(dir, "optimizer.state.0.step", 0, NULL, 7);
    }
    char *dir = harness_path(*state, "2");
    torch_world *w = begin_states();
    put_state(w, 0, 10, 100);
    end_states(w, "0", harness_path(dir, "optim_world_size_4_rank_2.pt"));
    expect(dir, SW_DEFECT, "bad-tensor", "optim_world_size_4_rank_2.pt",
           "optimizer.state.0.exp_avg", "it has 10 elements, and the replica of this shard");
}

/* Counters of one axis are copies in FSDP1's optimizers too. */
static void flat_states_with_steps(void **state)
{
    char *dir = harness_path(*state, "in");
    for (int r = 0; r < 2; r++) {
        const rank_shard s = {22, 0, 11 * r, 11, r, 2, 2};
        torch_world *w = begin();
        rank_sharded(w, "_flat_param", &s, 0);
        end(w, harness_path(dir, "model_world_size_2_rank_%d.pt", r));
        w = begin_states();
        torch_say(w, "0 } (");
        torch_ramp(w, "step", 1, (const int64_t[]){1}, 7);
        torch_ramp(w, "exp_avg", 1, (const int64_t[]){11}, (float)(100 + 11 * r));
        torch_say(w, "u");
        end_states(w, "0", harness_path(dir, "optim_world_size_2_rank_%d.pt", r));
    }
    assert_ramp(dir, "optimizer.state.0.step", 1, (const int64_t[]){1}, 7);
    assert_ramp(dir, "optimizer.state.0.exp_avg", 1, (const int64_t[]){22}, 100);
}

/* FSDP1 with a mesh saves DTensors: those tell the groups, and that states are flat their lengths.
 */
static void flat_states_by_mesh(void **state)
{
    const rank_mesh mesh = {.size = {2, 2}, .placement = {RANK_REPLICA, RANK_ROWS}};
    char *dir = *state;
    for (int r = 0; r < 4; r++) {
        torch_world *w = begin();
        rank_placed(w, "w", 4, 3, 2 * (r % 2), 2, &mesh, r);
        end(w, harness_path(dir, "model_world_size_4_rank_%d.pt", r));
        w = begin_states();
        put_state(w, 0, 7 - r % 2, r % 2 == 0 ? 0 : 7);
        end_states(w, "0", harness_path(dir, "optim_world_size_4_rank_%d.pt", r));
    }
    outcome o;
    run_verify(dir, &o);
    assert_int_equal(bad_findings(&o), 0);
    outcome_free(&o);
    assert_ramp(dir, "optimizer.state.0.exp_avg", 1, (const int64_t[]){13}, 0);
    /* FSDP2 keeps nothing flat: there they are copies, which must have one shape */
    harness_write_text(harness_path(dir, "fsdp_config.json"), "{\"FSDP_version\": 2}");
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "bad-tensor", "optim_world_size_4_rank_1.pt",
                 "optimizer.state.0.exp_avg", "another type or shape");
    outcome_free(&o);
}

/* "a" of 2 x 2, "b" of 2 and "c" of 3 in a flat parameter of 10 in two shards of 5, as
 * use_orig_params=True has them: slices under clean names, states of what a rank has elements of.
 */
static void write_views(const char *dir)
{
    static const struct {
        const char *name;
        int64_t start, elements; /* in the shard */
    } views[2][3] = {{{"m.a", 0, 4}, {"m.b", 4, 1}, {"m.c", 0, 0}},
                     {{"m.a", 0, 0}, {"m.b", 0, 1}, {"m.c", 1, 3}}};
    static const int64_t one = 1;
    for (int r = 0; r < 2; r++) {
        const rank_shard s = {10, 0, 5 * r, 5, r, 2, 2};
        float flat[5];
        for (int i = 0; i < 5; i++)
            flat[i] = (float)(5 * r + i);
        torch_world *w = begin(), *states = begin_states();
        size_t storage = torch_storage(w, "FloatStorage", 4, flat, sizeof flat);
        for (int i = 0; i < 3; i++) {
            int64_t start = views[r][i].start, n = views[r][i].elements;
            torch_key(w, views[r][i].name);
            if (n > 0)
                torch_view(w, storage, start, 1, &n, &one);
            else
                torch_floats(w, NULL, 1, &n, flat);
            if (n > 0)
                put_state(states, i, n, (float)(100 + 5 * r + start));
        }
        torch_ramp(w, "m.buf", 1, (const int64_t[]){2}, 3);
        rank_sharded_view(w, "m._flat_param", &s, storage, 0);
        end(w, harness_path(dir, "model_world_size_2_rank_%d.pt", r));
        end_states(states, "0 1 2", harness_path(dir, "optim_world_size_2_rank_%d.pt", r));
    }
}

/* With shapes the notes of rows and of the views in them make the parameters. */
static void shaped_views(const char *dir)
{
    static const struct {
        const char *name;
        uint32_t axes;
        int64_t shape[2];
        float base;
    } want[] = {{"model.m.a", 2, {2, 2}, 0},
                {"model.m.b", 1, {2}, 4},
                {"model.m.c", 1, {3}, 6},
                {"model.m.buf", 1, {2}, 3}};
    char *shapes = harness_path(dir, "../shapes.yaml");
    harness_write_text(shapes, "shapes: 1\nparameters: [{m.a: [2, 2]}, {m.b: [2]}, {m.c: [3]}]\n");
    const sw_open_options options = {.shapes = shapes};
    sw_checkpoint *c = NULL;
    sw_error err = {0};
    assert_ok(sw_checkpoint_open(dir, &options, NULL, &c, &err), &err);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        sw_tensor_info t;
        float *data = read_floats(c, want[i].name, &t);
        assert_int_equal(t.axes, want[i].axes);
        for (uint32_t k = 0; k < t.axes; k++)
            assert_int_equal(t.shape[k], want[i].shape[k]);
        for (uint64_t k = 0; k < t.elements; k++)
            assert_true(data[k] == want[i].base + (float)k);
        free(data);
    }
    sw_checkpoint_close(c);
}

static void views_of_a_row(void **state)
{
    char *dir = harness_path(*state, "in");
    write_views(dir);
    shaped_views(dir);
    assert_ramp(dir, "model.m._flat_param", 1, (const int64_t[]){10}, 0);
    assert_ramp(dir, "model.m.buf", 1, (const int64_t[]){2}, 3);
    assert_ramp(dir, "optimizer.state.0.exp_avg", 1, (const int64_t[]){4}, 100);
    assert_ramp(dir, "optimizer.state.1.exp_avg", 1, (const int64_t[]){2}, 104);
    assert_ramp(dir, "optimizer.state.2.exp_avg", 1, (const int64_t[]){3}, 106);
    sw_checkpoint *c = open_good(dir);
    assert_true(sw_catalog_find(sw_checkpoint_catalog(c), "model.m.a") < 0);
    assert_true(sw_catalog_find(sw_checkpoint_catalog(c), "model.m.b") < 0);
    /* the state dict has what any rank has, and no views */
    swi_state saved = {0};
    sw_error err = {0};
    sw_value model, states, v, key;
    assert_ok(swi_checkpoint_state(c, &saved, &err), &err);
    assert_true(swi_state_find(&saved, (const char *const[]){"model"}, 1, &model));
    assert_true(swi_value_get(saved.graph, model, "m._flat_param", &v));
    assert_true(swi_value_get(saved.graph, model, "m.buf", &v));
    assert_false(swi_value_get(saved.graph, model, "m.a", &v));
    assert_false(swi_value_get(saved.graph, model, "m.b", &v));
    assert_true(swi_state_find(&saved, (const char *const[]){"optimizer", "state"}, 2, &states));
    assert_int_equal(sw_value_size(saved.graph, states), 3);
    for (int64_t i = 0; i < 3; i++) {
        assert_ok(swi_graph_int(saved.graph, i, &key, &err), &err);
        assert_true(swi_dict_find(saved.graph, states, key, &v));
        assert_int_equal(sw_value_size(saved.graph, v), 2);
    }
    swi_state_free(&saved);
    sw_checkpoint_close(c);
}

/* ---- what ranks have for themselves --------------------------------------------------------- */

static void write_extra(const char *dir, int rank, int step)
{
    char text[64];
    torch_world *w = begin();
    torch_say(w, "'rng' } (");
    torch_ramp(w, "cpu", 1, (const int64_t[]){4}, (float)(10 * rank));
    snprintf(text, sizeof text, "u 'lr_scheduler' } ( 'last_epoch' %d u", step);
    torch_say(w, text);
    end(w, harness_path(dir, "extra_state_world_size_4_rank_%d.pt", rank));
}

/* U1: all are there, with their ranks, and it is said that a target has one place for them. */
static void random_states(void **state)
{
    char *dir = harness_path(*state, "in");
    write_series(dir, "model_world_size_4_rank_%d.pt", 4, 8);
    for (int r = 0; r < 4; r++)
        write_extra(dir, r, 7);
    assert_ramp(dir, "extra_state.rng.cpu", 1, (const int64_t[]){4}, 0);
    assert_ramp(dir, "extra_state.rng.cpu.rank3", 1, (const int64_t[]){4}, 30);
    outcome o;
    run_convert(dir, harness_path(*state, "out"), &(sw_convert_options){.to = "dcp:ranks=2"}, &o);
    assert_fine(&o);
    assert_found(&o, SW_WARNING, "rank-values", NULL, NULL, "3 values");
    outcome_free(&o);
    /* one that is not there is named, and no reason to refuse the rest */
    unlink(harness_path(dir, "extra_state_world_size_4_rank_2.pt"));
    expect(dir, SW_WARNING, "missing-file", "extra_state_world_size_4_rank_2.pt", NULL,
           "of rank 2 of 4");
    run_verify(dir, &o);
    assert_int_equal(bad_findings(&o), 0);
    outcome_free(&o);
    write_extra(dir, 2, 8);
    expect(dir, SW_DEFECT, "steps-differ", "extra_state_world_size_4_rank_2.pt",
           "extra_state.lr_scheduler.last_epoch", "rank 2 was at 8, and the first rank at 7");
}

/* Its counters are copies of those of the other ranks, and differ. */
static void another_step(void **state)
{
    char *dir = harness_path(*state, "in");
    write_series(dir, "model_world_size_2_rank_%d.pt", 2, 4);
    for (int r = 0; r < 2; r++) {
        torch_world *w = begin_states();
        torch_say(w, "0 } (");
        torch_ramp(w, "step", 0, NULL, r == 0 ? 7 : 8);
        put_rows(w, "exp_avg", 4, 2, 2, r);
        torch_say(w, "u");
        end_states(w, "0", harness_path(dir, "optim_world_size_2_rank_%d.pt", r));
    }
    expect(dir, SW_DEFECT, "replicas-differ", "optim_world_size_2_rank_1.pt",
           "optimizer.state.0.step", "differs from the one in optim_world_size_2_rank_0.pt");
    /* who leaves the optimizer out has decided */
    static const char *const optimizer[] = {"optimizer*", NULL};
    outcome o;
    run_convert(dir, harness_path(*state, "out"),
                &(sw_convert_options){.to = "hf", .drop = optimizer}, &o);
    assert_fine(&o);
    outcome_free(&o);
}

/* ---- which files ---------------------------------------------------------------------------- */

static void config(const char *dir, const char *text)
{
    harness_write_text(harness_path(dir, "fsdp_config.json"), text);
}

static void wrong_files(void **state)
{
    char *dir = harness_path(*state, "missing/in");
    write_series(dir, "model_world_size_8_rank_%d.pt", 8, 16);
    unlink(harness_path(dir, "model_world_size_8_rank_2.pt"));
    unlink(harness_path(dir, "model_world_size_8_rank_5.pt"));
    unlink(harness_path(dir, "model_world_size_8_rank_6.pt"));
    expect(dir, SW_DEFECT, "missing-file", "model_world_size_8_rank_2.pt", NULL,
           "of ranks 2, 5-6 of 8 there is no file (model_world_size_8_rank_{R}.pt)");
    expect(dir, SW_DEFECT, "hole", NULL, "model.w", "20 of 32");
    dir = harness_path(*state, "double/in");
    write_series(dir, "model_rank_%d.pt", 2, 4);
    harness_write_text(harness_path(dir, "model_rank_01.pt"), "x");
    expect(dir, SW_DEFECT, "duplicate-rank", "model_rank_1.pt", NULL,
           "model_rank_01.pt is a file of rank 1 too");
    /* two saves: refused, unless something tells which is meant */
    dir = harness_path(*state, "two/in");
    write_series(dir, "model_world_size_2_rank_%d.pt", 2, 4);
    write_series(dir, "model_world_size_4_rank_%d.pt", 4, 8);
    sw_checkpoint *c = NULL;
    sw_error err = {0};
    assert_int_equal(sw_checkpoint_open(dir, NULL, NULL, &c, &err), SW_ERR_CONFLICT);
    assert_non_null(strstr(err.text, "files of 2 ranks (model_world_size_2_rank_{R}.pt) and of 4"));
    config(dir, "{\"FSDP_version\": 2, \"world_size\": 4}");
    expect(dir, SW_WARNING, "stale-file", "model_world_size_2_rank_1.pt", NULL, "another save");
    assert_ramp(dir, "model.w", 2, (const int64_t[]){8, 2}, 0);
    config(dir, "{\"world_size\": 8}");
    assert_int_equal(sw_checkpoint_open(dir, NULL, NULL, &c, &err), SW_ERR_CONFLICT);
    dir = harness_path(*state, "config/in");
    write_series(dir, "model_world_size_2_rank_%d.pt", 2, 4);
    config(dir, "{\"world_size\": 8}");
    expect(dir, SW_DEFECT, "other-world", "fsdp_config.json", NULL,
           "it tells of 8 ranks, and the names of the files of 2");
    config(dir, "{");
    expect(dir, SW_WARNING, "unreadable-file", "fsdp_config.json", NULL, "");
    /* names that tell no world: the configuration does */
    dir = harness_path(*state, "tail/in");
    write_series(dir, "model_rank_%d.pt", 2, 4);
    config(dir, "{\"world_size\": 3}");
    expect(dir, SW_DEFECT, "missing-file", "model_rank_2.pt", NULL, "of rank 2 of 3");
    harness_truncate(harness_path(dir, "model_rank_1.pt"), 300);
    expect(dir, SW_DEFECT, "unreadable-file", "model_rank_1.pt", NULL, "zip");
}

/* Nothing tells which of two series of one name is the model. */
static void one_name_twice(void **state)
{
    char *dir = harness_path(*state, "in");
    sw_checkpoint *c = NULL;
    sw_error err = {0};
    write_series(dir, "model_rank_%d.pt", 2, 4);
    write_series(dir, "model_rank_%d.bin", 2, 4);
    assert_int_equal(sw_checkpoint_open(dir, NULL, NULL, &c, &err), SW_ERR_CONFLICT);
    assert_non_null(strstr(err.text, "model_rank_{R}.bin and model_rank_{R}.pt are both"));
}

/* What one rank has whole for itself, and others a part of, is no part of some other tensor. */
static void own_and_part(void **state)
{
    char *dir = harness_path(*state, "in");
    write_series(dir, "model_world_size_2_rank_%d.pt", 2, 4);
    torch_world *w = begin();
    torch_ramp(w, "x", 1, (const int64_t[]){3}, 0);
    end(w, harness_path(dir, "more_world_size_2_rank_0.pt"));
    w = begin();
    put_rows(w, "x", 4, 2, 2, 1); /* as "model.w", the first tensor of all */
    end(w, harness_path(dir, "more_world_size_2_rank_1.pt"));
    expect(dir, SW_DEFECT, "bad-tensor", "more_world_size_2_rank_1.pt", "more.x",
           "another rank has it as a tensor of its own");
    assert_ramp(dir, "model.w", 2, (const int64_t[]){4, 2}, 0);
}

/* FSDP2 has DTensors for states; a step of one axis beside them is a copy, and no row. */
static void steps_of_one_axis(void **state)
{
    char *dir = harness_path(*state, "in");
    write_series(dir, "model_world_size_2_rank_%d.pt", 2, 4);
    for (int r = 0; r < 2; r++) {
        torch_world *w = begin_states();
        torch_say(w, "0 } (");
        torch_ramp(w, "step", 1, (const int64_t[]){1}, 7);
        put_rows(w, "exp_avg", 4, 2, 2, r);
        torch_say(w, "u");
        end_states(w, "0", harness_path(dir, "optim_world_size_2_rank_%d.pt", r));
    }
    assert_ramp(dir, "optimizer.state.0.step", 1, (const int64_t[]){1}, 7);
    assert_ramp(dir, "optimizer.state.0.exp_avg", 2, (const int64_t[]){4, 2}, 0);
}

/* "model" and "rng_state" in one object: what lies beside the model is each rank's own. */
static void beside_the_model(void **state)
{
    char *dir = harness_path(*state, "in");
    for (int r = 0; r < 2; r++) {
        torch_world *w = begin();
        torch_say(w, "'model' } (");
        put_rows(w, "w", 4, 2, 2, r);
        torch_say(w, "u");
        torch_ramp(w, "rng_state", 1, (const int64_t[]){3}, (float)(10 * r));
        end(w, harness_path(dir, "ckpt_rank%d.pt", r));
    }
    assert_ramp(dir, "model.w", 2, (const int64_t[]){4, 2}, 0);
    assert_ramp(dir, "rng_state", 1, (const int64_t[]){3}, 0);
    assert_ramp(dir, "rng_state.rank1", 1, (const int64_t[]){3}, 10);
    outcome o;
    run_verify(dir, &o);
    assert_fine(&o);
    outcome_free(&o);
}

/* The words may stand elsewhere in the names. */
static void words_in_names(void **state)
{
    char *dir = harness_path(*state, "in");
    for (int r = 0; r < 2; r++) {
        const rank_shard s = {22, 0, 11 * r, 11, r, 2, 2};
        torch_world *w = begin();
        rank_sharded(w, "_flat_param", &s, 0);
        end(w, harness_path(dir, "fsdp_model_rank_%d.pt", r));
        w = begin_states();
        put_state(w, 0, 11, (float)(100 + 11 * r));
        end_states(w, "0", harness_path(dir, "fsdp_optim_rank_%d.pt", r));
    }
    assert_ramp(dir, "model._flat_param", 1, (const int64_t[]){22}, 0);
    assert_ramp(dir, "optimizer.state.0.exp_avg", 1, (const int64_t[]){22}, 100);
}

/* Two models of a trainer: plain tensors of both are copies. */
static void two_models(void **state)
{
    char *dir = harness_path(*state, "in");
    for (int r = 0; r < 2; r++)
        for (int m = 0; m < 2; m++) {
            torch_world *w = begin();
            torch_ramp(w, "w", 1, (const int64_t[]){3}, (float)m);
            end(w, harness_path(dir,
                                m == 0 ? "pytorch_model_fsdp_rank%d.bin"
                                       : "pytorch_model_fsdp_1_rank%d.bin",
                                r));
        }
    assert_ramp(dir, "model_fsdp.w", 1, (const int64_t[]){3}, 0);
    assert_ramp(dir, "model_fsdp_1.w", 1, (const int64_t[]){3}, 1);
    sw_checkpoint *c = open_good(dir);
    assert_true(sw_catalog_find(sw_checkpoint_catalog(c), "model_fsdp.w.rank1") < 0);
    sw_checkpoint_close(c);
}

/* A file stands for its folder; accelerate's names; a world of one; what is not claimed. */
static void claims(void **state)
{
    char *dir = harness_path(*state, "accelerate");
    outcome o;
    write_series(dir, "pytorch_model_fsdp_0_rank%d.bin", 2, 4);
    write_series(dir, "optimizer_0_rank%d.bin", 2, 4);
    run_verify(harness_path(dir, "pytorch_model_fsdp_0_rank1.bin"), &o);
    assert_fine(&o);
    assert_string_equal(o.verified.framework, "ranks");
    assert_int_equal(o.verified.files, 4);
    outcome_free(&o);
    assert_ramp(dir, "model.w", 2, (const int64_t[]){4, 2}, 0);
    assert_ramp(dir, "optimizer.w", 2, (const int64_t[]){4, 2}, 0);
    char *one = harness_path(*state, "one");
    torch_world *w = begin();
    torch_ramp(w, "w", 2, (const int64_t[]){3, 2}, 0);
    end(w, harness_path(one, "model_world_size_1_rank_0.pt"));
    assert_ramp(one, "model.w", 2, (const int64_t[]){3, 2}, 0);
    assert_ramp(harness_path(one, "model_world_size_1_rank_0.pt"), "model.w", 2,
                (const int64_t[]){3, 2}, 0);
    char *two = harness_path(*state, "two");
    write_series(two, "actor_model_rank_%d.pt", 2, 4);
    write_series(two, "critic_model_rank_%d.pt", 2, 4);
    assert_ramp(two, "critic_model.w", 2, (const int64_t[]){4, 2}, 0);
    char *hf = harness_path(*state, "hf");
    write_series(hf, "rng_rank_%d.pt", 2, 4);
    write_st_one(harness_path(hf, "model.safetensors"), "w", 2, 2, 0);
    run_verify(hf, &o);
    assert_string_equal(o.verified.framework, "hf");
    outcome_free(&o);
    char *bin = harness_path(*state, "bin");
    write_series(bin, "rng_rank_%d.pt", 2, 4);
    w = begin();
    torch_ramp(w, "w", 2, (const int64_t[]){3, 2}, 0);
    end(w, harness_path(bin, "pytorch_model.bin"));
    run_verify(bin, &o);
    assert_string_equal(o.verified.framework, "torch");
    outcome_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),       cmocka_unit_test(saved_ranks),
        test_in_dir(whole_from_four),  test_in_dir(plain_and_placed),
        test_in_dir(order_of_ranks),   test_in_dir(uneven_and_empty),
        test_in_dir(strided),          test_in_dir(hybrid),
        test_in_dir(flat_states),      test_in_dir(flat_states_by_mesh),
        test_in_dir(views_of_a_row),   test_in_dir(random_states),
        test_in_dir(another_step),     test_in_dir(wrong_files),
        test_in_dir(claims),           test_in_dir(one_name_twice),
        test_in_dir(own_and_part),     test_in_dir(steps_of_one_axis),
        test_in_dir(beside_the_model), test_in_dir(two_models),
        test_in_dir(words_in_names),   test_in_dir(flat_states_with_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
