/*
 * Verifies a checkpoint and converts its model to Hugging Face safetensors in bfloat16:
 *
 *     cc -std=c17 export_weights.c $(pkg-config --cflags --libs shardwright) -o export_weights
 *     ./export_weights run/step-1000 weights
 */
#include <inttypes.h>
#include <shardwright_convert.h>
#include <stdio.h>

static bool on_progress(void *ctx, const sw_progress *progress)
{
    (void)progress;
    ++*(unsigned *)ctx;
    return true; /* false would stop it; the same call would go on later */
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s SOURCE DEST\n", argv[0]);
        return 2;
    }
    unsigned calls = 0;
    sw_error err = {0};
    sw_report *report = NULL;
    sw_verify_summary found;
    sw_convert_summary made;
    sw_status status = sw_report_make(&report, &err);
    if (status == SW_OK)
        status = sw_verify(argv[1], NULL, report, &found, &err);
    bool sound = sw_report_total(report, SW_DEFECT) + sw_report_total(report, SW_DANGER) == 0;
    if (status == SW_OK && sound) {
        sw_convert_options options = {
            .to = "hf",
            .dtype = SW_BF16,
            .verify = true,
            .work = {.threads = 2, .progress = on_progress, .progress_ctx = &calls},
        };
        status = sw_convert(argv[1], argv[2], &options, NULL, NULL, report, &made, &err);
        if (status == SW_OK)
            printf("%" PRIu64 " tensors, %" PRIu64 " bytes, %" PRIu64 " read back\n", made.tensors,
                   made.bytes, made.verified_tensors);
    }
    if (status != SW_OK)
        fprintf(stderr, "%s: %s\n", sw_status_name(status), err.text);
    else if (!sound)
        fprintf(stderr, "%s is damaged: %s\n", argv[1], sw_report_at(report, 0)->message);
    sw_report_free(report);
    return status == SW_OK && sound && calls > 0 ? 0 : 1;
}
