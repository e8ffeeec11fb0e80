/*
 * Loads what one rank of a job takes, whatever wrote the checkpoint and for however many ranks: its
 * rows of every tensor, all in one call, and only the bytes that hold them are read:
 *
 *     cc -std=c17 load_region.c $(pkg-config --cflags --libs shardwright) -o load_region
 *     ./load_region run/step-1000 2 8      rank 2 of 8
 */
#include <inttypes.h>
#include <shardwright_convert.h>
#include <stdio.h>
#include <stdlib.h>

/* Rows [first, first + count) of so many, for a rank of ranks. */
static void rows_of(int64_t rows, int64_t rank, int64_t ranks, int64_t *first, int64_t *count)
{
    int64_t each = (rows + ranks - 1) / ranks;
    *first = rank * each < rows ? rank * each : rows;
    *count = rows - *first < each ? rows - *first : each;
}

/* A tensor without axes goes to every rank. */
static sw_status add_region(const sw_tensor_info *info, int64_t rank, int64_t ranks,
                            sw_region *region)
{
    *region = (sw_region){.struct_bytes = sizeof *region,
                          .tensor = info->name,
                          .dtype = info->dtype,
                          .axes = info->axes};
    uint64_t bytes = sw_dtype_bytes(info->dtype);
    for (uint32_t k = 0; k < info->axes; k++)
        region->length[k] = info->shape[k];
    if (info->axes > 0)
        rows_of(info->shape[0], rank, ranks, &region->offset[0], &region->length[0]);
    for (uint32_t k = 0; k < info->axes; k++)
        bytes *= (uint64_t)region->length[k];
    region->out = malloc(bytes + 1);
    region->out_bytes = bytes;
    return region->out != NULL ? SW_OK : SW_ERR_NOMEM;
}

static sw_status load(const sw_checkpoint *checkpoint, int64_t rank, int64_t ranks, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(checkpoint);
    size_t count = sw_catalog_tensor_count(catalog), made = 0;
    sw_region *regions = calloc(count + 1, sizeof *regions);
    sw_tally tally = {0};
    uint64_t bytes = 0;
    sw_status status = regions != NULL ? SW_OK : SW_ERR_NOMEM;
    for (; made < count && status == SW_OK; made++) {
        sw_tensor_info info;
        (void)sw_catalog_tensor(catalog, made, &info);
        status = add_region(&info, rank, ranks, &regions[made]);
        bytes += regions[made].out_bytes;
    }
    if (status == SW_OK)
        status = sw_load(checkpoint, regions, count, NULL, NULL, &tally, err);
    else
        err->status = status;
    if (status == SW_OK)
        printf("%zu tensors, %" PRIu64 " bytes, %" PRIu64 " read, %" PRIu64 " of them checked\n",
               count, bytes, tally.read_bytes, tally.checked_bytes);
    for (size_t i = 0; i < made; i++)
        free(regions[i].out);
    free(regions);
    return status;
}

int main(int argc, char **argv)
{
    sw_checkpoint *checkpoint = NULL;
    sw_error err = {0};
    long ranks = argc == 4 ? strtol(argv[3], NULL, 10) : 0;
    if (ranks < 1) {
        fprintf(stderr, "usage: %s PATH RANK RANKS\n", argv[0]);
        return 2;
    }
    sw_status status = sw_checkpoint_open(argv[1], NULL, NULL, &checkpoint, &err);
    if (status == SW_OK)
        status = load(checkpoint, strtol(argv[2], NULL, 10), ranks, &err);
    if (status != SW_OK)
        fprintf(stderr, "%s: %s\n", sw_status_name(status), err.text);
    sw_checkpoint_close(checkpoint);
    return status == SW_OK ? 0 : 1;
}
