#include <inttypes.h>
#include <string.h>

#include "cli.h"

static const char help[] =
    "examples:\n"
    "  openssl genpkey -algorithm ed25519 -out key.pem && openssl pkey -in key.pem -pubout -out "
    "key.pub\n"
    "  shardwright sign run/step-1000 --key key.pem\n"
    "  shardwright verify run/step-1000 --signature run/step-1000/checkpoint.sig --key key.pub\n"
    "  shardwright sign exported --key ec.pem --format oms        # exported/model.sig\n"
    "\n"
    "usage: shardwright sign PATH --key KEY.pem [options]\n"
    "Verify the checkpoint before: what is signed is what is there.\n"
    "  --key FILE      the private key, PEM (PKCS#8 or SEC1): Ed25519, or EC on P-256, P-384, "
    "P-521\n"
    "  --passphrase-file FILE   its first line opens an encrypted key\n"
    "  --format shardwright|oms\n"
    "      shardwright  digests of all tensors and of the values, and the root of a native\n"
    "                   checkpoint: stays right when it is converted without loss (default)\n"
    "      oms          an OpenSSF Model Signing bundle: every file of the folder, whatever it is\n"
    "                   (EC keys); the public model_signing tool verifies it, and the reverse\n"
    "  --out FILE      the signature (PATH/checkpoint.sig, or PATH/model.sig for oms; PATH.sig\n"
    "                  where PATH is a file)\n"
    "  --overwrite     replace the signature that is there\n"
    "  --shapes PATH   what flat parameters (FSDP1) are made of; see shardwright inspect\n"
    "  --from NAME, --threads N, --memory SIZE, --json, --quiet\n"
    "\n"
    "exit codes: 0 done; 2 could not (damaged, unknown, no such key, I/O); 5 FILE exists, or a "
    "link\nis among the files\n";

typedef struct run {
    common c;
    const char *format;
    sw_sign_options options;
    sw_sign_summary sum;
    sw_report *report;
    sw_error err;
    sw_status status;
} run;

static bool parse_format(run *r)
{
    if (r->format == NULL || strcmp(r->format, "shardwright") == 0)
        r->options.format = SW_SIGNATURE_SHARDWRIGHT;
    else if (strcmp(r->format, "oms") == 0)
        r->options.format = SW_SIGNATURE_OMS;
    else
        fputs("shardwright sign: --format takes shardwright or oms\n", stderr);
    return r->options.format != 0;
}

static void do_work(run *r)
{
    progress p;
    r->options.open = r->c.open;
    r->options.work = work_begin(&r->c, &p);
    r->status = sw_report_make(&r->report, &r->err);
    if (r->status == SW_OK)
        r->status = sw_sign(r->c.positional[0], &r->options, r->report, &r->sum, &r->err);
    work_end(&p);
    if (r->report != NULL)
        sw_report_sort(r->report);
}

static void show_json(const run *r)
{
    json j;
    json_begin(&j, stdout);
    json_text(&j, "command", "sign");
    json_text(&j, "path", r->c.positional[0]);
    json_integer(&j, "exit", exit_of(r->status));
    if (r->status != SW_OK) {
        json_error(&j, &r->err);
    } else {
        json_text(&j, "out", r->sum.out);
        json_text(&j, "format", r->options.format == SW_SIGNATURE_OMS ? "oms" : "shardwright");
        json_text(&j, "key", r->sum.key);
        json_text(&j, "hint", r->sum.hint);
        json_text(&j, "root", r->sum.root);
        json_number(&j, "files", r->sum.files);
        json_number(&j, "tensors", r->sum.tensors);
        json_number(&j, "hashed_bytes", r->sum.bytes);
    }
    json_findings(&j, r->report);
    json_end(&j);
}

static void show_text(const run *r)
{
    show_findings(&r->c, r->report, stderr);
    if (r->c.quiet)
        return;
    print_name(stdout, r->sum.out);
    if (r->options.format == SW_SIGNATURE_OMS)
        printf(": %" PRIu64 " files", r->sum.files);
    else
        printf(": %" PRIu64 " tensors", r->sum.tensors);
    printf(", root %s, signed with %s key %.16s...\n", r->sum.root, r->sum.key, r->sum.hint);
}

int cmd_sign(int argc, char **argv)
{
    run r = {0};
    const opt options[] = {{"--key", OPT_TEXT, &r.options.key},
                           {"--passphrase-file", OPT_TEXT, &r.options.passphrase_file},
                           {"--format", OPT_TEXT, &r.format},
                           {"--out", OPT_TEXT, &r.options.out},
                           {"--overwrite", OPT_FLAG, &r.options.overwrite}};
    if (!parse_options(argc, argv, options, sizeof options / sizeof options[0], 1, &r.c))
        return EXIT_USAGE;
    if (r.c.help) {
        fputs(help, stdout);
        return EXIT_DONE;
    }
    if (r.c.positional_count != 1) {
        fputs("shardwright sign: a path is needed; see shardwright sign --help\n", stderr);
        return EXIT_USAGE;
    }
    if (r.options.key == NULL) {
        fputs("shardwright sign: --key is needed; see shardwright sign --help\n", stderr);
        return EXIT_USAGE;
    }
    if (!parse_format(&r))
        return EXIT_USAGE;
    do_work(&r);
    if (r.c.json) {
        show_json(&r);
    } else if (r.status == SW_OK) {
        show_text(&r);
    } else {
        if (r.report != NULL)
            show_findings(&r.c, r.report, stderr);
        show_error("sign", &r.err);
        if (r.report != NULL)
            show_advice(&r.c, r.report, &r.err, stderr);
    }
    sw_report_free(r.report);
    return exit_of(r.status);
}
