#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static const char convert_help[] =
    "examples:\n"
    "  shardwright convert run/step-1000 weights --to hf --assets base-model\n"
    "  shardwright convert run/step-1000 weights --to hf:shard=2GB --dtype bf16 --verify\n"
    "  shardwright convert checkpoint.pt step-1000 --to dcp:ranks=8\n"
    "  shardwright convert run/step-1000 step-1000.pt --to torch\n"
    "  shardwright plan run/step-1000 weights --to hf\n"
    "\n"
    "usage: shardwright convert SOURCE DEST --to TARGET [options]\n"
    "       shardwright plan SOURCE [DEST] --to TARGET [options]\n"
    "  --to hf[:shard=SIZE]   Hugging Face safetensors (shards of 5GB by default)\n"
    "  --to dcp[:ranks=N][,replicate=R][,tp=T]   a DCP folder, with all (also fsdp2:dp=N)\n"
    "  --to fsdp2:dp=N,files=ranks               a torch.save of DTensors for each rank\n"
    "  --to native[:ranks=N][,codec=planes|zstd|stored]   Shardwright's own format, with all\n"
    "  --to torch[:form=zip|legacy]       one file of torch.save, with the same (also ddp)\n"
    "  --to fsdp1:dp=N,mode=sharded|full|local   FSDP1's state dicts (specs/fsdp1.md)\n"
    "  --to vllm:tp=N[,part=SIZE]         N ranks' files for vLLM's sharded_state, weights\n"
    "  --to meta:tp=N         N consolidated files of torch.save with params.json, weights\n"
    "  --to TARGET:optimizer=FORM   nested or flat (by name), ids (by number; not in DCP), keep\n"
    "  --param-names FILE     names of the model's parameters in order, or a NUMBER before\n"
    "                         each, for optimizers by number\n"
    "  --layout FILE          which elements each rank holds (tp=T needs it); wrapped\n"
    "                         modules (units) for fsdp1\n"
    "  --assets DIR           config.json, tokenizer and the like, copied beside the weights\n"
    "  --to TARGET:names=SIDE   tensors as that side of a map has them: hf, torchtitan, mcore ...\n"
    "  --map NAME|FILE        the map to use (else the one for model_type of config.json)\n"
    "  --config FILE|DIR      config.json, where it is neither in SOURCE nor in --assets\n"
    "  --shapes PATH          what flat parameters (FSDP1) are made of: a state dict of "
    "torch.save,\n"
    "                         a configuration, or a document (see inspect --emit-shapes)\n"
    "  --from-names SIDE      the side that SOURCE's names are of (else found by the names)\n"
    "  --dequant              float8 weights times their block scales, as --dtype or bf16\n"
    "  --dtype NAME           cast floating-point tensors: bf16, f16, f32, f64\n"
    "  --only GLOB, --drop GLOB     tensors by name, in the source or in the module; repeatable\n"
    "  --section NAME         the part of the saved state dict that is the model\n"
    "  --strip-prefix P, --add-prefix P   on every name\n"
    "  --keep-prefix          leave module., _orig_mod. and their kin in names\n"
    "  --untie                write both of a tied pair, and say so in config.json\n"
    "  --digests FILE         write a digest list of what is written (see shardwright hash)\n"
    "  --verify               read the result back and compare it before it is published\n"
    "  --dry-run              plan, prove, and look at DEST; move nothing (the same as plan)\n"
    "  --overwrite            replace DEST\n"
    "  --drop-unsafe          convert although a value beside the tensors is unsafe\n"
    "  --drop-role optimizer  leave the optimizer out, and do not mind its damage\n"
    "  --from NAME, --threads N, --memory SIZE, --json, --quiet\n"
    "\n"
    "DEST, and FILE with it, appears whole or not at all. A run that was killed is taken up by "
    "the\n"
    "same command.\n"
    "\n"
    "exit codes: 0 done; 2 could not (corrupt, incomplete, contradictory, unknown, I/O);\n"
    "3 only in part (something is missing in SOURCE, or was not carried that DEST could hold);\n"
    "5 refused (unsafe, DEST or FILE exists, over a limit); 128+N ended by signal N\n"
    "Any defect of SOURCE refuses it, unless --only, --drop or --drop-role leave the damaged "
    "out.\n";

typedef struct run {
    common c;
    const char *verb;
    sw_convert_options options;
    const char *dtype, *drop_role;
    text_list only, drop;
    sw_report *report;
    sw_convert_summary sum;
    sw_error err;
    sw_status status;
    json j;
    bool has_rules; /* all of them are written */
    bool listing;   /* the plan is shown tensor by tensor */
} run;

static void end_rules(run *r);

static void on_plan(void *ctx, const sw_plan_tensor *t)
{
    run *r = ctx;
    if (r->c.json) {
        json *j = &r->j;
        end_rules(r);
        json_object(j, NULL);
        json_text(j, "name", t->name);
        json_text(j, "source", t->source);
        json_text(j, "file", t->file);
        json_text(j, "dtype", sw_dtype_name(t->to));
        if (t->from != t->to)
            json_text(j, "cast_from", sw_dtype_name(t->from));
        json_shape(j, "shape", t->axes, t->shape);
        json_number(j, "bytes", t->bytes);
        json_number(j, "pieces", t->pieces);
        json_close_object(j);
        return;
    }
    print_name(stdout, t->file);
    fputs("  ", stdout);
    print_name(stdout, t->name);
    printf("  %s ", sw_dtype_name(t->to));
    print_shape(stdout, t->axes, t->shape);
    fputs("  ", stdout);
    print_bytes(stdout, t->bytes);
    printf(" from %" PRIu64 " piece%s", t->pieces, t->pieces == 1 ? "" : "s");
    if (t->from != t->to)
        printf(", cast from %s (lossy)", sw_dtype_name(t->from));
    if (strcmp(t->name, t->source) != 0) {
        fputs(", was ", stdout);
        print_name(stdout, t->source);
    }
    fputc('\n', stdout);
}

/* What a rule of the map did; behind them come the tensors. */
static void rule_to_json(json *j, const sw_plan_rule *rule)
{
    json_object(j, NULL);
    json_text(j, "map", rule->map);
    json_number(j, "line", rule->line);
    json_text(j, "from", rule->from);
    json_text(j, "to", rule->to);
    json_text(j, "what", rule->what);
    json_number(j, "tensors", rule->tensors);
    json_number(j, "bytes", rule->bytes);
    json_number(j, "lost_elements", rule->lost);
    json_bool(j, "lossy", rule->lossy);
    json_close_object(j);
}

static void on_rule(void *ctx, const sw_plan_rule *rule)
{
    run *r = ctx;
    if (r->c.json) {
        rule_to_json(&r->j, rule);
        return;
    }
    printf("map %s:%" PRIu64 "  ", rule->map, rule->line);
    print_name(stdout, rule->from[0] ? rule->from : "(constant)");
    fputs(" -> ", stdout);
    print_name(stdout, rule->to[0] ? rule->to : "(left behind)");
    printf("  %s%s%" PRIu64 " tensors, ", rule->what, rule->what[0] ? "; " : "", rule->tensors);
    print_bytes(stdout, rule->bytes);
    if (rule->lost > 0)
        printf("; %" PRIu64 " elements are lost", rule->lost);
    puts(rule->lossy ? " (lossy)" : "");
}

/* In JSON the rules end where the tensors begin. */
static void end_rules(run *r)
{
    if (!r->c.json || r->has_rules)
        return;
    r->has_rules = true;
    json_close_array(&r->j);
    json_array(&r->j, "tensors");
}

static void show_left_out(const sw_convert_summary *s)
{
    if (s->incomplete)
        puts("in part: of the source something is missing, so it may have had more tensors");
    if (s->optimizer_tensors + s->other_tensors + s->values + s->dropped_tensors +
            s->dropped_values ==
        0)
        return;
    fputs("not carried:", stdout);
    const char *comma = "";
    const struct {
        uint64_t count;
        const char *what;
    } rows[] = {{s->optimizer_tensors, "optimizer tensors"},
                {s->other_tensors, "tensors outside the model"},
                {s->values, "values"},
                {s->dropped_tensors, "tensors dropped as asked"},
                {s->dropped_values, "values dropped as asked"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].count == 0)
            continue;
        printf("%s %" PRIu64 " %s", comma, rows[i].count, rows[i].what);
        comma = ",";
    }
    fputc('\n', stdout);
}

static void show_text(const run *r)
{
    const sw_convert_summary *s = &r->sum;
    show_findings(&r->c, r->report, stdout);
    if (r->c.quiet)
        return;
    printf("%s -> %s: %" PRIu64 " tensors, %" PRIu64 " files, ", s->framework, s->target,
           s->tensors, s->files);
    print_bytes(stdout, s->bytes);
    fputs(r->options.dry_run ? " (planned and proven; nothing was moved)\n" : "\n", stdout);
    show_left_out(s);
    if (r->options.dry_run) {
        fputs("memory: about ", stdout);
        print_bytes(stdout, s->peak_memory_bytes);
        fputc('\n', stdout);
        return;
    }
    fputs("checked by CRC or digest on the way: ", stdout);
    print_bytes(stdout, s->tally.checked_bytes);
    if (s->tally.unchecked_bytes > 0) {
        fputs("; not checked, since it carries none: ", stdout);
        print_bytes(stdout, s->tally.unchecked_bytes);
    }
    fputc('\n', stdout);
    if (s->tally.cast_elements > 0)
        printf("cast: %" PRIu64 " elements, %" PRIu64 " overflowed to infinity, %" PRIu64
               " became zero\n",
               s->tally.cast_elements, s->tally.cast_overflows, s->tally.cast_underflows);
    if (s->resumed_files > 0)
        printf("taken up from an earlier run: %" PRIu64 " files\n", s->resumed_files);
    if (s->verified_tensors > 0)
        printf("read back and equal: %" PRIu64 " tensors\n", s->verified_tensors);
    if (s->digests_root[0] != '\0') {
        printf("digests: root %s in ", s->digests_root);
        print_name(stdout, r->options.digests);
        fputc('\n', stdout);
    }
    fputs("done: ", stdout);
    print_name(stdout, r->c.positional[1]);
    fputc('\n', stdout);
}

static void end_json(run *r, int code)
{
    const sw_convert_summary *s = &r->sum;
    json *j = &r->j;
    end_rules(r);
    json_close_array(j);
    json_integer(j, "exit", code);
    if (r->status != SW_OK)
        json_error(j, &r->err);
    json_text(j, "framework", s->framework);
    json_text(j, "target", s->target);
    json_number(j, "tensor_count", s->tensors);
    json_number(j, "files", s->files);
    json_number(j, "total_bytes", s->bytes);
    json_number(j, "dropped_tensors", s->dropped_tensors);
    json_number(j, "dropped_values", s->dropped_values);
    json_number(j, "optimizer_tensors", s->optimizer_tensors);
    json_number(j, "other_tensors", s->other_tensors);
    json_number(j, "tied_tensors", s->tied_tensors);
    json_number(j, "values", s->values);
    json_number(j, "resumed_files", s->resumed_files);
    json_number(j, "verified_tensors", s->verified_tensors);
    if (s->digests_root[0] != '\0') {
        json_text(j, "digests", r->options.digests);
        json_text(j, "root", s->digests_root);
    }
    json_number(j, "peak_memory_bytes", s->peak_memory_bytes);
    json_tally(j, &s->tally);
    json_cast(j, &s->tally);
    json_findings(j, r->report);
    json_end(j);
}

static bool complain(const run *r, const char *text)
{
    fprintf(stderr, "shardwright %s: %s; see shardwright %s --help\n", r->verb, text, r->verb);
    return false;
}

static bool complete(run *r)
{
    size_t need = r->options.dry_run ? 1 : 2;
    if (r->c.positional_count < need)
        return complain(r, need == 1 ? "a source is needed" : "SOURCE and DEST are needed");
    if (r->options.to == NULL)
        return complain(r, "--to TARGET is needed");
    if (r->dtype != NULL) {
        r->options.dtype = sw_dtype_from_name(r->dtype);
        if (!sw_dtype_is_float(r->options.dtype))
            return complain(r, "--dtype takes bf16, f16, f32 or f64");
    }
    if (r->drop_role != NULL && strcmp(r->drop_role, "optimizer") != 0)
        return complain(r, "--drop-role takes optimizer");
    r->options.drop_optimizer = r->drop_role != NULL;
    r->options.only = r->only.items;
    r->options.drop = r->drop.items;
    r->options.open = r->c.open;
    return true;
}

static bool parse(run *r, int argc, char **argv)
{
    sw_convert_options *o = &r->options;
    const opt options[] = {
        {"--to", OPT_TEXT, &o->to},
        {"--assets", OPT_TEXT, &o->assets},
        {"--from-names", OPT_TEXT, &o->from_names},
        {"--dequant", OPT_FLAG, &o->dequantise},
        {"--param-names", OPT_TEXT, &o->param_names},
        {"--layout", OPT_TEXT, &o->layout},
        {"--dtype", OPT_TEXT, &r->dtype},
        {"--only", OPT_LIST, &r->only},
        {"--drop", OPT_LIST, &r->drop},
        {"--drop-role", OPT_TEXT, &r->drop_role},
        {"--section", OPT_TEXT, &o->section},
        {"--strip-prefix", OPT_TEXT, &o->strip_prefix},
        {"--add-prefix", OPT_TEXT, &o->add_prefix},
        {"--keep-prefix", OPT_FLAG, &o->keep_prefixes},
        {"--untie", OPT_FLAG, &o->untie},
        {"--digests", OPT_TEXT, &o->digests},
        {"--verify", OPT_FLAG, &o->verify},
        {"--dry-run", OPT_FLAG, &o->dry_run},
        {"--overwrite", OPT_FLAG, &o->overwrite},
        {"--drop-unsafe", OPT_FLAG, &o->drop_unsafe},
    };
    return parse_options(argc, argv, options, sizeof options / sizeof options[0], 2, &r->c) &&
           (r->c.help || complete(r));
}

static int finish(run *r)
{
    int code = r->status != SW_OK                                              ? exit_of(r->status)
               : r->sum.incomplete || (r->sum.partial && r->drop_role == NULL) ? EXIT_PARTIAL
                                                                               : EXIT_DONE;
    sw_report_sort(r->report);
    if (r->c.json)
        end_json(r, code);
    if (r->status != SW_OK && !r->c.json) {
        show_findings(&r->c, r->report, stderr);
        show_error(r->verb, &r->err);
        if (r->status == SW_ERR_EXISTS && !r->options.overwrite &&
            access(r->c.positional[1], F_OK) == 0)
            fputs("--overwrite replaces it in one step\n", stderr);
        show_advice(&r->c, r->report, &r->err, stderr);
    } else if (!r->c.json) {
        show_text(r);
    }
    return code;
}

static int work(run *r)
{
    progress p;
    r->status = sw_report_make(&r->report, &r->err);
    if (r->status != SW_OK) {
        show_error(r->verb, &r->err);
        return EXIT_FAILED;
    }
    if (r->c.json) {
        json_begin(&r->j, stdout);
        json_text(&r->j, "command", r->verb);
        json_text(&r->j, "source", r->c.positional[0]);
        json_array(&r->j, "rules");
    }
    bool list = r->c.json || r->listing;
    r->options.work = work_begin(&r->c, &p);
    if (list) {
        r->options.on_rule = on_rule;
        r->options.rule_ctx = r;
    }
    r->status = sw_convert(r->c.positional[0], r->c.positional[1], &r->options,
                           list ? on_plan : NULL, r, r->report, &r->sum, &r->err);
    work_end(&p);
    int code = finish(r);
    sw_report_free(r->report);
    return code;
}

static int run_verb(run *r, int argc, char **argv)
{
    int code = EXIT_USAGE;
    if (parse(r, argc, argv)) {
        if (r->c.help) {
            fputs(convert_help, stdout);
            code = EXIT_DONE;
        } else {
            r->listing = r->options.dry_run && !r->c.quiet;
            code = work(r);
        }
    }
    text_list_free(&r->only);
    text_list_free(&r->drop);
    return code;
}

int cmd_convert(int argc, char **argv)
{
    run r = {.verb = "convert"};
    return run_verb(&r, argc, argv);
}

int cmd_plan(int argc, char **argv)
{
    run r = {.verb = "plan", .options.dry_run = true};
    return run_verb(&r, argc, argv);
}
