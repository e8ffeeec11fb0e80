/*
 * Opens a checkpoint of any known kind, lists what is in it, and reads a region of a tensor:
 *
 *     cc -std=c17 read_region.c $(pkg-config --cflags --libs shardwright) -o read_region
 *     ./read_region run/step-1000                        lists the tensors
 *     ./read_region run/step-1000 model.norm.weight 0 4  elements 0 to 4 of it
 */
#include <inttypes.h>
#include <shardwright_convert.h>
#include <stdio.h>
#include <stdlib.h>

static void list(const sw_checkpoint *checkpoint)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(checkpoint);
    printf("%s, %zu tensors\n", sw_checkpoint_title(checkpoint), sw_catalog_tensor_count(catalog));
    for (size_t i = 0; i < sw_catalog_tensor_count(catalog); i++) {
        sw_tensor_info info;
        if (!sw_catalog_tensor(catalog, i, &info))
            continue;
        printf("%s %s [", info.name, sw_dtype_name(info.dtype));
        for (uint32_t k = 0; k < info.axes; k++)
            printf("%s%" PRId64, k > 0 ? ", " : "", info.shape[k]);
        printf("] in %" PRIu64 " pieces\n", info.piece_count);
    }
}

/* Elements [lo, hi) of the flattened tensor: only the bytes that hold them are read. */
static sw_status print_floats(const sw_checkpoint *checkpoint, const char *name, uint64_t lo,
                              uint64_t hi, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(checkpoint);
    int64_t at = sw_catalog_find(catalog, name);
    sw_tensor_info info;
    if (at < 0 || !sw_catalog_tensor(catalog, (size_t)at, &info) || info.dtype != SW_F32 ||
        lo > hi || hi > info.elements) {
        snprintf(err->text, sizeof err->text, "no such float32 elements");
        return err->status = SW_ERR_ARG;
    }
    float *data = malloc((size_t)(hi - lo) * sizeof *data + 1);
    if (data == NULL)
        return err->status = SW_ERR_NOMEM;
    sw_status status = sw_checkpoint_read(checkpoint, (size_t)at, lo, hi, data, err);
    for (uint64_t i = 0; status == SW_OK && i < hi - lo; i++)
        printf("%.9g\n", (double)data[i]);
    free(data);
    return status;
}

/* What is suspicious about it, worst first. */
static void print_findings(sw_report *report)
{
    sw_report_sort(report);
    for (size_t i = 0; i < sw_report_count(report); i++) {
        const sw_finding *f = sw_report_at(report, i);
        fprintf(stderr, "%s: %s %s: %s\n", sw_severity_name(f->severity), f->file, f->tensor,
                f->message);
    }
}

int main(int argc, char **argv)
{
    sw_checkpoint *checkpoint = NULL;
    sw_report *report = NULL;
    sw_error err = {0};
    if (argc != 2 && argc != 5) {
        fprintf(stderr, "usage: %s PATH [TENSOR FROM TO]\n", argv[0]);
        return 2;
    }
    sw_status status = sw_report_make(&report, &err);
    if (status == SW_OK)
        status = sw_checkpoint_open(argv[1], NULL, report, &checkpoint, &err);
    if (status == SW_OK && argc == 2)
        list(checkpoint);
    else if (status == SW_OK)
        status = print_floats(checkpoint, argv[2], strtoull(argv[3], NULL, 10),
                              strtoull(argv[4], NULL, 10), &err);
    print_findings(report);
    if (status != SW_OK)
        fprintf(stderr, "%s: %s\n", sw_status_name(status), err.text);
    sw_checkpoint_close(checkpoint);
    sw_report_free(report);
    return status == SW_OK ? 0 : 1;
}
