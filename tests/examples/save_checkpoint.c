/*
 * Saves what lies in a program's memory as a checkpoint, of any kind that Shardwright writes, and
 * reads it back:
 *
 *     cc -std=c17 save_checkpoint.c $(pkg-config --cflags --libs shardwright) -o save_checkpoint
 *     ./save_checkpoint step-1000 native
 *
 * Here the memory is that of two ranks, each with half of a weight's columns, as a DTensor with the
 * placements [Shard(1)] on a mesh tp=2 has it. "native" keeps that; "native:ranks=4", "dcp:ranks=2"
 * and all others divide it in their way.
 */
#include <inttypes.h>
#include <shardwright_convert.h>
#include <stdio.h>

#define RANKS 2
#define ROWS 4
#define COLUMNS 6
#define HALF (COLUMNS / RANKS)

/* What each rank has of the weight and of a moment of it. */
static float weight[RANKS][ROWS][HALF], moment[RANKS][ROWS][HALF];

static void fill(void)
{
    for (int row = 0; row < ROWS; row++) {
        for (int column = 0; column < COLUMNS; column++) {
            const float value = (float)(row * COLUMNS + column);
            weight[column / HALF][row][column % HALF] = value;
            moment[column / HALF][row][column % HALF] = value / 8;
        }
    }
}

/* What one rank has: its parts of tensors, and the state of its random numbers. */
static sw_status add_rank(sw_save *save, uint32_t rank, sw_error *err)
{
    const sw_mesh mesh = {.axes = 1, .name = {"tp"}, .size = {RANKS}};
    const sw_placed columns = {.mesh = &mesh, .at = {{.kind = SW_SHARD, .dim = 1}}};
    const uint8_t seed = (uint8_t)(17 + rank);
    sw_tensor_data t = {.name = "model/layers.0.weight",
                        .dtype = SW_F32,
                        .axes = 2,
                        .shape = {ROWS, COLUMNS},
                        .data = weight[rank],
                        .part = SW_PART_PLACED,
                        .rank = rank,
                        .placed = &columns};
    sw_status status = sw_save_tensor(save, &t, err);
    t.name = "optimizer/state/layers.0.weight/exp_avg";
    t.data = moment[rank];
    if (status == SW_OK)
        status = sw_save_tensor(save, &t, err);
    if (status == SW_OK)
        status = sw_save_rank(save, rank, err);
    if (status == SW_OK)
        status = sw_save_bytes(save, "rng", &seed, sizeof seed, err);
    return status == SW_OK ? sw_save_rank(save, -1, err) : status;
}

/* The names are keys of nested dicts, as in a state dict of PyTorch. */
static sw_status put_together(sw_save *save, sw_error *err)
{
    sw_status status = SW_OK;
    for (uint32_t rank = 0; status == SW_OK && rank < RANKS; rank++)
        status = add_rank(save, rank, err);
    if (status == SW_OK)
        status = sw_save_json(save, "optimizer/param_groups",
                              "[{\"lr\": 0.001, \"params\": [\"layers.0.weight\"]}]", err);
    if (status == SW_OK)
        status = sw_save_value(save, "betas", "{\"$tuple\":[0.9,0.999]}", err);
    return status == SW_OK ? sw_save_int(save, "step", 1000, err) : status;
}

static sw_status read_back(const char *path, sw_error *err)
{
    sw_checkpoint *checkpoint = NULL;
    float row[COLUMNS];
    sw_status status = sw_checkpoint_open(path, NULL, NULL, &checkpoint, err);
    if (status != SW_OK)
        return status;
    int64_t at = sw_catalog_find(sw_checkpoint_catalog(checkpoint), "model.layers.0.weight");
    if (at >= 0)
        status =
            sw_checkpoint_read(checkpoint, (size_t)at, COLUMNS, (uint64_t)COLUMNS * 2, row, err);
    for (int i = 0; at >= 0 && status == SW_OK && i < COLUMNS; i++)
        printf("%g%c", (double)row[i], i + 1 < COLUMNS ? ' ' : '\n');
    sw_checkpoint_close(checkpoint);
    return status;
}

int main(int argc, char **argv)
{
    sw_save *save = NULL;
    sw_error err = {0};
    sw_convert_summary made;
    if (argc != 3) {
        fprintf(stderr, "usage: %s DEST TARGET\n", argv[0]);
        return 2;
    }
    fill();
    sw_status status = sw_save_begin(&(sw_save_options){.ranks = RANKS}, &save, &err);
    if (status == SW_OK)
        status = put_together(save, &err);
    if (status == SW_OK) /* the arrays above are read now, and not before */
        status =
            sw_save_commit(save, argv[1], &(sw_convert_options){.to = argv[2]}, NULL, &made, &err);
    if (status == SW_OK) {
        printf("%" PRIu64 " tensors in %" PRIu64 " files\n", made.tensors, made.files);
        status = read_back(argv[1], &err);
    }
    if (status != SW_OK)
        fprintf(stderr, "%s: %s\n", sw_status_name(status), err.text);
    sw_save_free(save);
    if (status == SW_ERR_EXISTS)
        return 5; /* as the command has it */
    return status == SW_OK ? 0 : 2;
}
