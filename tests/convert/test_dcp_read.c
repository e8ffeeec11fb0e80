/* DCP folders as people meet them: shards that join, and what is missing, stale or doubtful. */
#include "convert/fixture.h"

#include "base/error.h"

static char *out_of(const char *dir)
{
    return harness_path(dir, "../%s-out", strrchr(dir, '/') + 1);
}

/* The rows of a tensor over ranks: rows[r] of rank r, in order. */
static void add_rows(dcp_world *w, dcp_item *it, const int64_t *rows, int ranks)
{
    int64_t at = 0;
    for (int r = 0; r < ranks; r++) {
        int64_t offset[4] = {at}, length[4] = {rows[r]};
        for (uint32_t k = 1; k < it->axes; k++)
            length[k] = it->shape[k];
        dcp_chunk(w, it, r, offset, length);
        at += rows[r];
    }
}

static void expect_hf(const char *dir, const char *name, uint32_t axes, const int64_t *shape)
{
    char *out = out_of(dir);
    sw_convert_options o = {.to = "hf", .verify = true};
    outcome run;
    run_convert(dir, out, &o, &run);
    assert_fine(&run);
    assert_int_equal(run.converted.verified_tensors, run.converted.tensors);
    outcome_free(&run);
    assert_ramp(out, name, axes, shape, 0);
    harness_remove(out);
}

/* A1: one command joins the shards; without the index there is no checkpoint. */
static void test_shards_join(void **state)
{
    char *dir = *state;
    dcp_world *w = dcp_begin();
    add_rows(w, dcp_tensor(w, "model/w", 2, (const int64_t[]){8, 4}, 0),
             (const int64_t[]){2, 2, 2, 2}, 4);
    dcp_end(w, dir);
    assert_ramp(dir, "model.w", 2, (const int64_t[]){8, 4}, 0);
    expect_hf(dir, "w", 2, (const int64_t[]){8, 4});
    harness_remove(harness_path(dir, ".metadata"));
    outcome o;
    run_verify(dir, &o);
    const sw_finding *f = assert_found(&o, SW_DEFECT, "incomplete", NULL, NULL,
                                       ".metadata is missing; 4 payload files of ranks 0-3");
    assert_int_equal(f->status, SW_ERR_INCOMPLETE);
    outcome_free(&o);
    assert_refuses(dir, out_of(dir), NULL, SW_ERR_INCOMPLETE, ".metadata is missing");
}

/* A2: what is sharded says the index, not the look of the values or of the shapes. */
static void test_replicated_and_sharded(void **state)
{
    char *dir = *state;
    dcp_world *w = dcp_begin();
    add_rows(w, dcp_tensor(w, "model/p", 2, (const int64_t[]){16, 3}, 0),
             (const int64_t[]){2, 2, 2, 2, 2, 2, 2, 2}, 8);
    dcp_whole(w, "model/buf", 0, 1, (const int64_t[]){1}, 0);
    dcp_whole(w, "model/step", 3, 0, NULL, 0);
    add_rows(w, dcp_tensor(w, "model/norm", 1, (const int64_t[]){16}, 0),
             (const int64_t[]){2, 2, 2, 2, 2, 2, 2, 2}, 8);
    dcp_end(w, dir);
    expect_hf(dir, "p", 2, (const int64_t[]){16, 3});
    expect_hf(dir, "buf", 1, (const int64_t[]){1});
    expect_hf(dir, "step", 0, NULL);
    expect_hf(dir, "norm", 1, (const int64_t[]){16});
}

/* A4: files are not taken in the order of their names. */
static void test_many_ranks(void **state)
{
    char *dir = *state;
    int64_t rows[101];
    for (int r = 0; r < 101; r++)
        rows[r] = 1;
    dcp_world *w = dcp_begin();
    add_rows(w, dcp_tensor(w, "model/w", 2, (const int64_t[]){12, 2}, 0), rows, 12);
    add_rows(w, dcp_tensor(w, "model/v", 2, (const int64_t[]){101, 3}, 0), rows, 101);
    dcp_end(w, dir);
    expect_hf(dir, "w", 2, (const int64_t[]){12, 2});
    expect_hf(dir, "v", 2, (const int64_t[]){101, 3});
    outcome o;
    run_verify(dir, &o);
    assert_fine(&o);
    assert_int_equal(sw_report_count(o.report), 0);
    assert_int_equal(o.verified.pieces, 113);
    outcome_free(&o);
}

/* A7: uneven tails, ranks that hold nothing, more ranks than rows. */
static void test_uneven_and_empty_shards(void **state)
{
    char *dir = *state;
    int64_t one_each[32] = {1, 1, 1, 1, 1, 1, 1, 1};
    dcp_world *w = dcp_begin();
    add_rows(w, dcp_tensor(w, "model/b", 1, (const int64_t[]){5}, 0), (const int64_t[]){2, 2, 1, 0},
             4);
    add_rows(w, dcp_tensor(w, "model/h", 2, (const int64_t[]){8, 128}, 0), one_each, 32);
    add_rows(w, dcp_tensor(w, "model/e", 2, (const int64_t[]){1256, 2}, 0),
             (const int64_t[]){126, 126, 126, 126, 126, 126, 126, 126, 126, 122}, 10);
    dcp_tensor(w, "model/none", 2, (const int64_t[]){0, 4}, 0);
    dcp_end(w, dir);
    expect_hf(dir, "b", 1, (const int64_t[]){5});
    expect_hf(dir, "h", 2, (const int64_t[]){8, 128});
    expect_hf(dir, "e", 2, (const int64_t[]){1256, 2});
    expect_hf(dir, "none", 2, (const int64_t[]){0, 4});
}

/* A7: parts that do not add up name the tensor, and how much is there. */
static void test_parts_that_do_not_add_up(void **state)
{
    char *dir = *state;
    dcp_world *w = dcp_begin();
    add_rows(w, dcp_tensor(w, "model/b", 1, (const int64_t[]){5}, 0), (const int64_t[]){2, 1}, 2);
    dcp_end(w, dir);
    outcome o;
    run_verify(dir, &o);
    const sw_finding *f = assert_found(&o, SW_DEFECT, "hole", NULL, "model.b",
                                       "shards hold 3 of 5 elements; first missing at [3]");
    assert_int_equal(f->status, SW_ERR_INCOMPLETE);
    outcome_free(&o);
    assert_refuses(dir, out_of(dir), NULL, SW_ERR_INCOMPLETE, "\"model.b\"");
    w = dcp_begin();
    add_rows(w, dcp_tensor(w, "model/b", 1, (const int64_t[]){5}, 0), (const int64_t[]){2, 2, 2},
             3);
    dcp_end(w, dir);
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "outside", NULL, "model.b", "");
    outcome_free(&o);
    assert_refuses(dir, out_of(dir), NULL, SW_ERR_CORRUPT, "\"model.b\"");
}

/* A8: TP and FSDP on one dimension: rows of ranks 0, 2, 1, 3 in order. */
static void test_strided_shards(void **state)
{
    static const int64_t first[] = {0, 4, 2, 6};
    char *dir = *state;
    dcp_world *w = dcp_begin();
    dcp_item *it = dcp_tensor(w, "model/W", 2, (const int64_t[]){8, 2}, 0);
    for (int r = 0; r < 4; r++)
        dcp_chunk(w, it, r, (const int64_t[]){first[r], 0}, (const int64_t[]){2, 2});
    dcp_end(w, dir);
    expect_hf(dir, "W", 2, (const int64_t[]){8, 2});
}

/* Blocks over two dimensions, in no order, and cut unevenly. */
static void test_blocks(void **state)
{
    static const struct {
        int rank;
        int64_t offset[2], length[2];
    } blocks[] = {
        {3, {4, 5}, {3, 4}}, {0, {0, 0}, {4, 5}}, {2, {4, 0}, {3, 5}}, {1, {0, 5}, {4, 4}}};
    char *dir = *state;
    dcp_world *w = dcp_begin();
    dcp_item *it = dcp_tensor(w, "model/W", 2, (const int64_t[]){7, 9}, 0);
    for (size_t i = 0; i < 4; i++)
        dcp_chunk(w, it, blocks[i].rank, blocks[i].offset, blocks[i].length);
    dcp_end(w, dir);
    expect_hf(dir, "W", 2, (const int64_t[]){7, 9});
}

/* A9: in one index a chunk lies once; two that hold the same elements contradict each other. */
static void test_overlapping_chunks(void **state)
{
    char *dir = *state;
    dcp_world *w = dcp_begin();
    dcp_item *it = dcp_tensor(w, "model/w", 2, (const int64_t[]){4, 2}, 0);
    dcp_chunk(w, it, 0, (const int64_t[]){0, 0}, (const int64_t[]){2, 2});
    dcp_chunk(w, it, 1, (const int64_t[]){1, 0}, (const int64_t[]){3, 2});
    dcp_end(w, dir);
    outcome o;
    run_verify(dir, &o);
    const sw_finding *f = assert_found(&o, SW_DEFECT, "overlap", NULL, "model.w", "");
    assert_int_equal(f->status, SW_ERR_CONFLICT);
    outcome_free(&o);
    assert_refuses(dir, out_of(dir), NULL, SW_ERR_CONFLICT, "\"model.w\"");
}

/* ---- an index per rank --------------------------------------------------------------------- */

/* HSDP without collectives: every rank has an index, ranks 2 and 3 hold copies. */
static void make_rank_indexes(const char *dir, float copy_base)
{
    dcp_world *w = dcp_begin();
    dcp_item *it = dcp_tensor(w, "model/w", 2, (const int64_t[]){4, 2}, 0);
    for (int r = 0; r < 4; r++) {
        it->base = r == 2 ? copy_base : 0;
        dcp_chunk(w, it, r, (const int64_t[]){r % 2 * 2, 0}, (const int64_t[]){2, 2});
    }
    int64_t three = 3;
    dcp_object(w, "extra/rank3", 3, emit_int, &three);
    dcp_write_files(w, dir);
    for (int r = 0; r < 4; r++) {
        char name[32];
        snprintf(name, sizeof name, "__%d.metadata", r);
        dcp_write_index(w, dir, name, r);
    }
    dcp_free(w);
}

static void test_index_per_rank(void **state)
{
    char *dir = *state;
    make_rank_indexes(dir, 0);
    outcome o;
    run_verify(dir, &o);
    assert_fine(&o);
    assert_int_equal(sw_report_count(o.report), 0);
    outcome_free(&o);
    expect_hf(dir, "w", 2, (const int64_t[]){4, 2});
    /* B12: the object that one rank has is there, with its rank */
    sw_checkpoint *c = open_good(dir);
    sw_value_info info;
    assert_int_equal(sw_catalog_value_count(sw_checkpoint_catalog(c)), 1);
    assert_true(sw_catalog_value_at(sw_checkpoint_catalog(c), 0, &info));
    assert_string_equal(info.name, "extra.rank3");
    assert_int_equal(info.rank, 3);
    sw_value_graph *graph = NULL;
    sw_value root;
    sw_error err = {0};
    int64_t number;
    assert_ok(sw_checkpoint_value(c, 0, &graph, &root, &err), &err);
    assert_true(sw_value_int(graph, root, &number));
    assert_int_equal(number, 3);
    sw_value_graph_free(graph);
    sw_checkpoint_close(c);
}

static void test_index_of_a_rank_is_missing(void **state)
{
    char *dir = *state;
    make_rank_indexes(dir, 0);
    harness_remove(harness_path(dir, "__1.metadata"));
    outcome o;
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "missing-rank", NULL, NULL, "of ranks 1 are missing");
    assert_found(&o, SW_WARNING, "stale-file", "__1_0.distcp", NULL, "");
    outcome_free(&o);
    assert_refuses(dir, out_of(dir), NULL, SW_ERR_INCOMPLETE, "ranks 1 are missing");
}

/* A9: copies that differ are named, both files, and which is right is not guessed. */
static void test_copies_that_differ(void **state)
{
    char *dir = *state;
    make_rank_indexes(dir, 0.5F);
    outcome o;
    run_verify(dir, &o);
    const sw_finding *f = assert_found(&o, SW_DEFECT, "replicas-differ", NULL, "model.w", "[0, 0]");
    assert_int_equal(f->status, SW_ERR_CONFLICT);
    assert_string_equal(f->file, "__2_0.distcp");
    assert_non_null(strstr(f->message, "differs from the one in __0_0.distcp, first at [0, 0]"));
    outcome_free(&o);
    assert_refuses(dir, out_of(dir), NULL, SW_ERR_CONFLICT, "\"model.w\"");
}

static void test_ranks_that_disagree_about_a_tensor(void **state)
{
    char *dir = *state;
    dcp_world *w = dcp_begin();
    dcp_whole(w, "model/w", 0, 1, (const int64_t[]){4}, 0);
    dcp_write_files(w, dir);
    dcp_write_index(w, dir, "__0.metadata", 0);
    dcp_free(w);
    w = dcp_begin();
    dcp_whole(w, "model/w", 1, 1, (const int64_t[]){5}, 0);
    dcp_write_files(w, dir);
    dcp_write_index(w, dir, "__1.metadata", 1);
    dcp_free(w);
    outcome o;
    run_verify(dir, &o);
    const sw_finding *f = assert_found(&o, SW_DEFECT, "conflict", NULL, NULL, "\"model.w\"");
    assert_non_null(strstr(f->message, "__1.metadata gives it another dtype or shape"));
    outcome_free(&o);
    assert_refuses(dir, out_of(dir), NULL, SW_ERR_CONFLICT, "__1.metadata");
}

/* ---- what lies there and what does not ------------------------------------------------------ */

/* B6: the folder of one node; the ranks that are there are said. */
static void test_folder_of_one_node(void **state)
{
    char *dir = *state;
    for (int r = 2; r < 4; r++)
        harness_write_text(harness_path(dir, "__%d_0.distcp", r), "x");
    outcome o;
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "incomplete", NULL, NULL, "ranks 2-3 are present; look for it on");
    outcome_free(&o);
    harness_write_text(harness_path(dir, ".metadata.tmp"), "x");
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "incomplete", NULL, NULL, "the save was cut before it was");
    outcome_free(&o);
}

/* B3, R3: a payload file of no bytes; B10: files of an earlier, larger run. */
static void test_empty_and_stale_files(void **state)
{
    char *dir = *state;
    dcp_world *w = dcp_begin();
    add_rows(w, dcp_tensor(w, "model/w", 1, (const int64_t[]){6}, 0), (const int64_t[]){3, 3}, 2);
    dcp_end(w, dir);
    harness_write(harness_path(dir, "__2_0.distcp"), "", 0);
    harness_write_text(harness_path(dir, "__3_0.distcp"), "old");
    outcome o;
    run_verify(dir, &o);
    assert_int_equal(o.status, SW_OK);
    assert_int_equal(bad_findings(&o), 0);
    assert_found(&o, SW_WARNING, "stale-file", "__2_0.distcp", NULL, "earlier save");
    assert_found(&o, SW_WARNING, "stale-file", "__3_0.distcp", NULL, "it is not read");
    outcome_free(&o);
    expect_hf(dir, "w", 1, (const int64_t[]){6});
    harness_truncate(harness_path(dir, "__1_0.distcp"), 0);
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "short-file", "__1_0.distcp", NULL, "");
    outcome_free(&o);
    assert_refuses(dir, out_of(dir), NULL, SW_ERR_CORRUPT, "__1_0.distcp");
}

static void test_missing_file(void **state)
{
    char *dir = *state;
    dcp_world *w = dcp_begin();
    add_rows(w, dcp_tensor(w, "model/w", 1, (const int64_t[]){6}, 0), (const int64_t[]){3, 3}, 2);
    dcp_whole(w, "model/v", 0, 1, (const int64_t[]){2}, 0);
    dcp_whole(w, "optim/state.w.exp_avg", 1, 1, (const int64_t[]){6}, 0);
    dcp_end(w, dir);
    harness_remove(harness_path(dir, "__1_0.distcp"));
    outcome o;
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "missing-file", "__1_0.distcp", NULL, "places 2 items in it");
    assert_found(&o, SW_DEFECT, "hole", NULL, "model.w", "");
    assert_null(find_finding(&o, "hole", NULL, "model.v"));
    outcome_free(&o);
    assert_refuses(dir, out_of(dir), NULL, SW_ERR_INCOMPLETE, "__1_0.distcp");
    /* what is whole can be had by name */
    const char *const only[] = {"v", NULL};
    sw_convert_options options = {.to = "hf", .only = only};
    run_convert(dir, out_of(dir), &options, &o);
    assert_int_equal(o.status, SW_OK);
    outcome_free(&o);
    assert_ramp(out_of(dir), "v", 1, (const int64_t[]){2}, 0);
    harness_remove(out_of(dir));
}

/* Damage of the optimizer alone: --drop-role optimizer says that it does not count. */
static void test_damaged_optimizer(void **state)
{
    char *dir = *state;
    dcp_world *w = dcp_begin();
    dcp_whole(w, "model/w", 0, 1, (const int64_t[]){6}, 0);
    dcp_whole(w, "optim/state.w.exp_avg", 1, 1, (const int64_t[]){6}, 0);
    dcp_end(w, dir);
    harness_remove(harness_path(dir, "__1_0.distcp"));
    assert_refuses(dir, out_of(dir), NULL, SW_ERR_INCOMPLETE, "--drop-role optimizer");
    sw_convert_options options = {.to = "hf", .drop_optimizer = true};
    outcome o;
    run_convert(dir, out_of(dir), &options, &o);
    assert_int_equal(o.status, SW_OK);
    assert_int_equal(o.converted.optimizer_tensors, 1);
    outcome_free(&o);
    assert_ramp(out_of(dir), "w", 1, (const int64_t[]){6}, 0);
    harness_remove(out_of(dir));
}

/* B8: state of each rank is kept, counted and said to stay behind. */
static void test_state_of_ranks(void **state)
{
    char *dir = *state;
    dcp_world *w = dcp_begin();
    dcp_whole(w, "model/w", 0, 1, (const int64_t[]){2}, 0);
    for (int r = 0; r < 4; r++) {
        char key[64];
        int64_t number = 40 + r;
        snprintf(key, sizeof key, "dataloader/dp_rank_%d", r);
        dcp_object(w, key, r, emit_int, &number);
    }
    dcp_end(w, dir);
    outcome o;
    run_convert(dir, out_of(dir), NULL, &o);
    assert_fine(&o);
    assert_int_equal(o.converted.values, 4);
    outcome_free(&o);
    harness_remove(out_of(dir));
    sw_checkpoint *c = open_good(dir);
    for (size_t i = 0; i < 4; i++) {
        sw_value_graph *graph = NULL;
        sw_value root;
        sw_error err = {0};
        int64_t number;
        assert_ok(sw_checkpoint_value(c, i, &graph, &root, &err), &err);
        assert_true(sw_value_int(graph, root, &number));
        assert_int_equal(number, 40 + i);
        sw_value_graph_free(graph);
    }
    sw_error err = {0};
    sw_value_graph *graph = NULL;
    sw_value root;
    assert_int_equal(sw_checkpoint_value(c, 4, &graph, &root, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "value 4 is not in the catalog");
    sw_checkpoint_close(c);
}

/* A flipped byte of a tensor: the file and the tensor are named, nothing is published. */
static void test_flipped_byte(void **state)
{
    char *dir = *state, *file = harness_path(dir, "__1_0.distcp");
    dcp_world *w = dcp_begin();
    add_rows(w, dcp_tensor(w, "model/w", 1, (const int64_t[]){600}, 0), (const int64_t[]){300, 300},
             2);
    dcp_end(w, dir);
    size_t size, at = 0;
    float inside = 450;
    uint8_t *data = harness_read(file, &size);
    for (size_t i = 0; i + 4 <= size && at == 0; i++)
        if (memcmp(data + i, &inside, 4) == 0)
            at = i;
    free(data);
    assert_true(at > 0);
    harness_flip_bit(file, 8 * (uint64_t)at + 3);
    outcome o;
    run_verify(dir, &o);
    const sw_finding *f =
        assert_found(&o, SW_DEFECT, "crc-mismatch", "__1_0.distcp", "model.w", "");
    assert_int_equal(f->status, SW_ERR_CORRUPT);
    assert_true(f->has_offset && f->offset_bytes <= at && at - f->offset_bytes < 1200);
    outcome_free(&o);
    run_convert(dir, out_of(dir), NULL, &o);
    assert_run_refused(&o, SW_ERR_CORRUPT, "__1_0.distcp", out_of(dir));
    outcome_free(&o);
    assert_int_equal(count_partials(harness_path(dir, ".."), strrchr(out_of(dir), '/') + 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_shards_join),
        test_in_dir(test_replicated_and_sharded),
        test_in_dir(test_many_ranks),
        test_in_dir(test_uneven_and_empty_shards),
        test_in_dir(test_parts_that_do_not_add_up),
        test_in_dir(test_strided_shards),
        test_in_dir(test_blocks),
        test_in_dir(test_overlapping_chunks),
        test_in_dir(test_index_per_rank),
        test_in_dir(test_index_of_a_rank_is_missing),
        test_in_dir(test_copies_that_differ),
        test_in_dir(test_ranks_that_disagree_about_a_tensor),
        test_in_dir(test_folder_of_one_node),
        test_in_dir(test_empty_and_stale_files),
        test_in_dir(test_missing_file),
        test_in_dir(test_damaged_optimizer),
        test_in_dir(test_state_of_ranks),
        test_in_dir(test_flipped_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
