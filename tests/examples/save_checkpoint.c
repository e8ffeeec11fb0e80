/*
 * Saves what lies in a program's memory as a checkpoint, of any kind that Shardwright writes, and
 * reads it back:
 *
 *     cc -std=c17 save_checkpoint.c $(pkg-config --cflags --libs shardwright) -o save_checkpoint
 *     ./save_checkpoint step-1000 native:codec=planes,ranks=2
 */
#include <inttypes.h>
#include <shardwright_convert.h>
#include <stdio.h>

#define ROWS 4
#define COLUMNS 6

/* A weight that two parts of the program hold by columns, a moment of it, and the step. */
static float left[ROWS][2], right[ROWS][COLUMNS - 2], moment[ROWS][COLUMNS];

static void fill(void)
{
    for (int row = 0; row < ROWS; row++) {
        for (int column = 0; column < COLUMNS; column++) {
            const float value = (float)(row * COLUMNS + column);
            if (column < 2)
                left[row][column] = value;
            else
                right[row][column - 2] = value;
            moment[row][column] = value / 8;
        }
    }
}

/* The names are keys of nested dicts, as in a state dict of PyTorch. */
static sw_status put_together(sw_save *save, sw_error *err)
{
    sw_tensor_data t = {.name = "model/layers.0.weight",
                        .dtype = SW_F32,
                        .axes = 2,
                        .shape = {ROWS, COLUMNS},
                        .data = left,
                        .is_box = true,
                        .offset = {0, 0},
                        .length = {ROWS, 2}};
    sw_status status = sw_save_tensor(save, &t, err);
    t.data = right;
    t.offset[1] = 2;
    t.length[1] = COLUMNS - 2;
    if (status == SW_OK)
        status = sw_save_tensor(save, &t, err);
    t = (sw_tensor_data){.name = "optimizer/state/layers.0.weight/exp_avg",
                         .dtype = SW_F32,
                         .axes = 2,
                         .shape = {ROWS, COLUMNS},
                         .data = moment};
    if (status == SW_OK)
        status = sw_save_tensor(save, &t, err);
    if (status == SW_OK)
        status = sw_save_json(save, "optimizer/param_groups",
                              "[{\"lr\": 0.001, \"params\": [\"layers.0.weight\"]}]", err);
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
    sw_status status = sw_save_begin(NULL, &save, &err);
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
