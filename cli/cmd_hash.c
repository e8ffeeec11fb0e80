#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const char help[] =
    "examples:\n"
    "  shardwright hash run/step-1000 --write step-1000.digests\n"
    "  shardwright hash run/step-1000 --weights --as bf16 --write weights.digests\n"
    "  shardwright verify exported --digests weights.digests\n"
    "\n"
    "usage: shardwright hash PATH [options]\n"
    "One SHA-256 per tensor that says what it holds and not how it lies: the same for every\n"
    "sharding and file format. Prints a digest list; the root is one digest over the list.\n"
    "  --write FILE   write the list to the new file FILE, and print the root\n"
    "  --overwrite    replace FILE\n"
    "  --weights      the tensors that convert would write, by their names there\n"
    "  --section NAME the part of the saved state dict that is the model (implies --weights)\n"
    "  --as TYPE      cast floating-point tensors first: bf16, f16, f32, f64\n"
    "  --only GLOB    tensors by name; repeatable\n"
    "  --shapes PATH  what flat parameters (FSDP1) are made of; see shardwright inspect\n"
    "  --from NAME, --threads N, --memory SIZE, --json, --quiet\n"
    "\n"
    "exit codes: 0 done; 2 could not (damaged, unknown, I/O); 5 FILE exists\n"
    "A digest says that nothing has changed since it was taken, not that it was right then.\n";

typedef struct run {
    common c;
    const char *write, *as;
    bool overwrite;
    text_list only;
    sw_hash_options options;
    sw_report *report;
    sw_digests *digests;
    sw_tally tally;
    sw_error err;
    sw_status status;
} run;

static bool parse_as(run *r)
{
    if (r->as == NULL)
        return true;
    r->options.as = sw_dtype_from_name(r->as);
    switch (r->options.as) {
    case SW_BF16:
    case SW_F16:
    case SW_F32:
    case SW_F64:
        return true;
    default:
        fputs("shardwright hash: --as takes bf16, f16, f32 or f64\n", stderr);
        return false;
    }
}

static void do_work(run *r)
{
    progress p;
    r->options.only = r->only.items;
    r->options.weights |= r->options.section != NULL;
    r->options.open = r->c.open;
    r->options.work = work_begin(&r->c, &p);
    r->status = sw_report_make(&r->report, &r->err);
    if (r->status == SW_OK)
        r->status =
            sw_hash(r->c.positional[0], &r->options, r->report, &r->digests, &r->tally, &r->err);
    work_end(&p);
    if (r->status == SW_OK && r->write != NULL)
        r->status = sw_digests_write(r->digests, r->write, r->overwrite, &r->err);
    if (r->report != NULL)
        sw_report_sort(r->report);
}

static void show_json(const run *r)
{
    json j;
    char text[SW_DIGEST_TEXT];
    const char *name;
    json_begin(&j, stdout);
    json_text(&j, "command", "hash");
    json_text(&j, "path", r->c.positional[0]);
    json_integer(&j, "exit", exit_of(r->status));
    if (r->status != SW_OK) {
        json_error(&j, &r->err);
    } else {
        sw_digests_root(r->digests, text);
        json_text(&j, "root", text);
        json_text(&j, "names", r->options.weights ? "weights" : "all");
        if (r->options.as != SW_DTYPE_NONE)
            json_text(&j, "as", sw_dtype_name(r->options.as));
        json_array(&j, "tensors");
        for (size_t i = 0; sw_digests_at(r->digests, i, &name, text); i++) {
            json_object(&j, NULL);
            json_text(&j, "name", name);
            json_text(&j, "digest", text);
            json_close_object(&j);
        }
        json_close_array(&j);
        json_tally(&j, &r->tally);
        json_cast(&j, &r->tally);
    }
    json_findings(&j, r->report);
    json_end(&j);
}

static void show_text(run *r)
{
    char root[SW_DIGEST_TEXT];
    char *text = NULL;
    show_findings(&r->c, r->report, stderr);
    if (r->write != NULL) {
        sw_digests_root(r->digests, root);
        printf("root %s\n", root);
        return;
    }
    r->status = sw_digests_text(r->digests, &text, &r->err);
    if (r->status == SW_OK)
        fputs(text, stdout);
    else
        show_error("hash", &r->err);
    free(text);
}

int cmd_hash(int argc, char **argv)
{
    run r = {0};
    const opt options[] = {{"--write", OPT_TEXT, &r.write},
                           {"--as", OPT_TEXT, &r.as},
                           {"--only", OPT_LIST, &r.only},
                           {"--overwrite", OPT_FLAG, &r.overwrite},
                           {"--section", OPT_TEXT, &r.options.section},
                           {"--weights", OPT_FLAG, &r.options.weights}};
    int code = EXIT_USAGE;
    if (!parse_options(argc, argv, options, sizeof options / sizeof options[0], 1, &r.c))
        goto done;
    if (r.c.help) {
        fputs(help, stdout);
        code = EXIT_DONE;
        goto done;
    }
    if (r.c.positional_count != 1) {
        fputs("shardwright hash: a path is needed; see shardwright hash --help\n", stderr);
        goto done;
    }
    if (!parse_as(&r))
        goto done;
    do_work(&r);
    if (r.c.json) {
        show_json(&r);
    } else if (r.status == SW_OK) {
        show_text(&r);
    } else {
        if (r.report != NULL)
            show_findings(&r.c, r.report, stderr);
        show_error("hash", &r.err);
        if (r.report != NULL)
            show_advice(&r.c, r.report, &r.err, stderr);
    }
    code = exit_of(r.status);
done:
    sw_digests_free(r.digests);
    sw_report_free(r.report);
    text_list_free(&r.only);
    return code;
}
