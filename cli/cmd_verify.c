#include <inttypes.h>
#include <string.h>

#include "cli.h"

static const char help[] =
    "examples:\n"
    "  shardwright verify run/step-1000            every CRC that its files carry\n"
    "  shardwright verify --level coverage BIG     metadata and sizes only, in seconds\n"
    "  shardwright verify --subset 3/7 BIG         the third of seven nights: all of it in a week\n"
    "  shardwright verify --json run/step-1000 && resume\n"
    "  shardwright verify run                      which steps are complete, is `latest` true\n"
    "\n"
    "usage: shardwright verify PATH [options]\n"
    "  --level structure|coverage|digest|values   how deep (default: digest)\n"
    "      structure  the metadata parses, every file it names is there and long enough\n"
    "      coverage   and every element of every tensor is held exactly once\n"
    "      digest     and every CRC that the files carry is right; other files of the folder\n"
    "                 are looked through for pickles that would run code\n"
    "      values     and what the values show: NaN, constants, duplicates, files of two saves\n"
    "  --tensors GLOB   read and compare these tensors alone (repeatable)\n"
    "  --subset N/T     read the N-th of T parts of as good as equal bytes: T machines, or "
    "nights,\n"
    "                   together read every record once\n"
    "  --run            PATH holds many checkpoints, even if it is one itself; each is looked at\n"
    "                   to --level coverage, if no other level is given\n"
    "  --digests FILE   and the tensors are those of a digest list (see shardwright hash)\n"
    "  --signature FILE --key PUB.pem   and it is what was signed with that key: the very files, "
    "or "
    "the\n"
    "                   same content in others (see shardwright sign); OMS bundles (model.sig) "
    "too\n"
    "  --config PATH    and the tensors are those of the model that config.json describes (a "
    "file,\n"
    "                   or the folder it lies in): none missing or unknown, their shapes right,\n"
    "                   tied ones equal. --map NAME|FILE: by another map, or one that the\n"
    "                   configuration does not name\n"
    "  --section NAME   for these two: the part of the saved state dict that is the model\n"
    "  --shapes PATH    what flat parameters (FSDP1) are made of: a state dict of torch.save, a\n"
    "                   configuration, or a document as inspect --emit-shapes writes it\n"
    "  --from NAME, --threads N, --memory SIZE, --json, --quiet\n"
    "\n"
    "exit codes: 0 nothing found; 1 a defect (cut, missing, corrupt, contradictory, not as "
    "listed);\n"
    "2 could not verify, or no known checkpoint; 4 --level digest was asked and nothing carries a\n"
    "CRC, nothing of --digests or --tensors is in it, or no map is for --config; 5 unsafe "
    "content\n";

typedef struct run {
    common c;
    const char *level;
    const char *subset;
    text_list tensors;
    bool always_run; /* --run */
    not_checked left;
    sw_verify_options options;
    sw_report *report;
    sw_verify_summary sum;
    sw_error err;
    sw_status status;
} run;

static bool parse_level(run *r)
{
    static const struct {
        const char *name;
        sw_level level;
    } levels[] = {{"structure", SW_LEVEL_STRUCTURE},
                  {"coverage", SW_LEVEL_COVERAGE},
                  {"digest", SW_LEVEL_DIGEST},
                  {"values", SW_LEVEL_VALUES}};
    if (r->level == NULL)
        return true;
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        if (strcmp(r->level, levels[i].name) == 0) {
            r->options.level = levels[i].level;
            return true;
        }
    }
    fputs("shardwright verify: --level takes structure, coverage, digest or values\n", stderr);
    return false;
}

/* "3/7": two whole numbers, the first from 1 to the second. */
static bool parse_subset(run *r)
{
    static const char digits[] = "0123456789";
    uint64_t numbers[2] = {0};
    const char *p = r->subset;
    if (p == NULL)
        return true;
    for (size_t i = 0; i < 2; i++) {
        size_t n = strspn(p, digits);
        bool ends = i == 0 ? p[n] == '/' : p[n] == '\0';
        if (n == 0 || n > 9 || !ends)
            break;
        for (; n > 0; n--)
            numbers[i] = numbers[i] * 10 + (uint64_t)(*p++ - '0');
        p += i == 0;
    }
    r->options.part = numbers[0];
    r->options.parts = numbers[1];
    if (numbers[0] > 0 && numbers[0] <= numbers[1])
        return true;
    fputs("shardwright verify: --subset takes N/T, part N of T: 1/7 to 7/7\n", stderr);
    return false;
}

/* Whether something is asked of one checkpoint alone. */
static bool is_of_one(const run *r)
{
    return r->options.digests != NULL || r->options.signature != NULL || r->tensors.count > 0 ||
           r->subset != NULL;
}

static int exit_code(const run *r)
{
    if (r->status != SW_OK)
        return exit_of(r->status);
    if (sw_report_total(r->report, SW_DANGER) > 0)
        return EXIT_REFUSED;
    if (sw_report_total(r->report, SW_DEFECT) > 0)
        return EXIT_FOUND;
    if (r->sum.nothing_mapped || r->sum.nothing_listed || r->sum.nothing_chosen)
        return EXIT_NOTHING;
    if (r->options.digests != NULL || r->options.signature != NULL)
        return EXIT_DONE;
    if (r->level != NULL && r->options.level == SW_LEVEL_DIGEST && r->sum.nothing_to_check)
        return EXIT_NOTHING;
    return EXIT_DONE;
}

const char *verdict(int code)
{
    switch (code) {
    case EXIT_DONE:
        return "ok";
    case EXIT_FOUND:
        return "defective";
    case EXIT_NOTHING:
        return "unchecked";
    case EXIT_REFUSED:
        return "unsafe";
    default:
        return "failed";
    }
}

static void json_model(json *j, const sw_verify_summary *s)
{
    json_object(j, "model");
    json_text(j, "map", s->map);
    json_text(j, "side", s->side);
    json_number(j, "known", s->known_tensors);
    json_number(j, "missing", s->missing_tensors);
    json_number(j, "unknown", s->unknown_tensors);
    json_number(j, "misshapen", s->misshapen_tensors);
    json_close_object(j);
}

static void show_model(const sw_verify_summary *s)
{
    const bool fits = s->missing_tensors + s->unknown_tensors + s->misshapen_tensors == 0;
    printf("as the model of the configuration (map %s): %s %s", s->map,
           fits ? "side" : "nearest to side", s->side);
    printf(", %" PRIu64 " tensors known", s->known_tensors);
    if (!fits)
        printf(", %" PRIu64 " missing, %" PRIu64 " unknown, %" PRIu64 " of another shape",
               s->missing_tensors, s->unknown_tensors, s->misshapen_tensors);
    fputc('\n', stdout);
}

static const char *signed_word(sw_signed verdict)
{
    return verdict == SW_SIGNED_FILES ? "files" : verdict == SW_SIGNED_CONTENT ? "content" : "not";
}

static void json_signature(json *j, const run *r)
{
    const sw_signature_summary *s = &r->sum.signature;
    json_object(j, "signature");
    json_text(j, "file", r->options.signature);
    json_text(j, "verdict", signed_word(s->verdict));
    if (s->format != 0) {
        json_text(j, "format", s->format == SW_SIGNATURE_OMS ? "oms" : "shardwright");
        json_text(j, "key", s->key);
        json_text(j, "hint", s->hint);
        json_text(j, "name", s->name);
        json_number(j, "files", s->files);
        json_number(j, "matched_files", s->matched_files);
        json_number(j, "tensors", s->tensors);
        json_number(j, "matched_tensors", s->matched_tensors);
        json_number(j, "hashed_bytes", s->bytes);
    }
    json_close_object(j);
}

static void show_signature(const run *r)
{
    const sw_signature_summary *s = &r->sum.signature;
    if (s->verdict == SW_SIGNED_FILES)
        fputs("signed, and these are the very files", stdout);
    else if (s->verdict == SW_SIGNED_CONTENT)
        fputs("signed, and it holds the same (tensors to the bit, and values), whatever its files",
              stdout);
    else
        fputs("UNTRUSTED: it is not what was signed with that key", stdout);
    if (s->verdict != SW_SIGNED_NOT)
        printf(": \"%s\", %s key %.16s...", s->name, s->key, s->hint);
    fputc('\n', stdout);
}

static void show_json(const run *r, int code)
{
    json j;
    json_begin(&j, stdout);
    json_text(&j, "command", "verify");
    json_text(&j, "path", r->c.positional[0]);
    json_text(&j, "verdict", verdict(code));
    json_integer(&j, "exit", code);
    if (r->status != SW_OK)
        json_error(&j, &r->err);
    if (r->sum.framework[0] != '\0') {
        json_text(&j, "framework", r->sum.framework);
        json_text(&j, "root", r->sum.root);
        json_number(&j, "tensors", r->sum.tensors);
        json_number(&j, "pieces", r->sum.pieces);
        json_number(&j, "values", r->sum.values);
        json_number(&j, "files", r->sum.files);
        json_number(&j, "tensor_bytes", r->sum.tensor_bytes);
        if (r->sum.has_step)
            json_number(&j, "step", r->sum.step);
        if (r->options.parts > 0) {
            json_number(&j, "part", r->options.part);
            json_number(&j, "parts", r->options.parts);
        }
        if (r->options.tensors != NULL)
            json_number(&j, "chosen_tensors", r->sum.chosen_tensors);
        json_tally(&j, &r->sum.tally);
        json_not_checked(&j, &r->sum, &r->left);
        if (r->options.digests != NULL) {
            json_number(&j, "listed_tensors", r->sum.listed_tensors);
            json_number(&j, "matched_tensors", r->sum.matched_tensors);
        }
        if (r->sum.map[0] != '\0')
            json_model(&j, &r->sum);
    }
    if (r->options.signature != NULL && r->status == SW_OK)
        json_signature(&j, r);
    json_findings(&j, r->report);
    json_end(&j);
}

/* What was not all of it says so. */
static void show_ok(const run *r)
{
    fputs("ok", stdout);
    if (r->options.tensors != NULL)
        printf(": %" PRIu64 " tensors that were named", r->sum.chosen_tensors);
    if (r->options.parts > 0)
        printf("%s part %" PRIu64 " of %" PRIu64, r->options.tensors != NULL ? "," : ":",
               r->options.part, r->options.parts);
    fputc('\n', stdout);
}

static void show_text(const run *r, int code)
{
    const sw_verify_summary *s = &r->sum;
    show_findings(&r->c, r->report, stdout);
    if (s->framework[0] != '\0' && !r->c.quiet) {
        print_name(stdout, s->root);
        printf(": %s, %" PRIu64 " tensors in %" PRIu64 " pieces, %" PRIu64 " values, %" PRIu64
               " files, ",
               s->framework, s->tensors, s->pieces, s->values, s->files);
        print_bytes(stdout, s->tensor_bytes);
        fputs("\nchecked by CRC or digest: ", stdout);
        print_bytes(stdout, s->tally.checked_bytes);
        show_not_checked(s);
        if (r->options.digests != NULL)
            printf("as the digest list says: %" PRIu64 " of %" PRIu64 " tensors listed\n",
                   s->matched_tensors, s->listed_tensors);
        if (s->map[0] != '\0')
            show_model(s);
    }
    if (r->options.signature != NULL && (!r->c.quiet || s->signature.verdict == SW_SIGNED_NOT))
        show_signature(r);
    uint64_t defects = sw_report_total(r->report, SW_DEFECT);
    uint64_t dangers = sw_report_total(r->report, SW_DANGER);
    if (code == EXIT_REFUSED)
        printf("UNSAFE: %" PRIu64 " finding%s of danger; do not load it\n", dangers,
               dangers == 1 ? "" : "s");
    else if (code == EXIT_FOUND)
        printf("DEFECTIVE: %" PRIu64 " defect%s\n", defects, defects == 1 ? "" : "s");
    else if (code == EXIT_NOTHING && s->nothing_mapped)
        puts("UNCHECKED: there is no model to hold it against");
    else if (code == EXIT_NOTHING && s->nothing_listed)
        puts("UNCHECKED: no tensor of the digest list is in it");
    else if (code == EXIT_NOTHING && s->nothing_chosen)
        puts("UNCHECKED: no tensor has a name that --tensors names");
    else if (code == EXIT_NOTHING)
        puts("UNCHECKED: nothing in it carries a CRC; structure and coverage are right");
    else if (!r->c.quiet)
        show_ok(r);
    show_advice(&r->c, r->report, NULL, stdout);
}

/* What is of one checkpoint goes with no run; digests and signatures are of all of it. */
static bool fits_together(const run *r)
{
    const bool some = r->tensors.count > 0 || r->subset != NULL;
    const char *wrong = NULL;
    if (some && r->options.digests != NULL)
        wrong = "--digests is of a whole checkpoint; leave --tensors and --subset out";
    else if (some && r->options.signature != NULL)
        wrong = "--signature is of a whole checkpoint; leave --tensors and --subset out";
    else if (r->always_run && r->options.digests != NULL)
        wrong = "--digests is of one checkpoint, not of a --run";
    else if (r->always_run && r->options.signature != NULL)
        wrong = "--signature is of one checkpoint, not of a --run";
    else if (r->always_run && some)
        wrong = "--tensors and --subset are of one checkpoint, not of a --run";
    else if ((r->options.signature == NULL) != (r->options.key == NULL))
        wrong = "--signature and --key go together: a signature says nothing without the public "
                "key that it must be made with";
    if (wrong != NULL)
        fprintf(stderr, "shardwright verify: %s\n", wrong);
    return wrong == NULL;
}

/* One checkpoint, not a run of them. */
static int verify_one(run *r, progress *p)
{
    int code;
    r->options.on_file = not_checked_add;
    r->options.file_ctx = &r->left;
    r->status = sw_report_make(&r->report, &r->err);
    if (r->status != SW_OK) {
        show_error("verify", &r->err);
        return EXIT_FAILED;
    }
    r->status = sw_verify(r->c.positional[0], &r->options, r->report, &r->sum, &r->err);
    work_end(p);
    sw_report_sort(r->report);
    code = exit_code(r);
    if (r->c.json)
        show_json(r, code);
    if (r->status != SW_OK && !r->c.json) {
        show_findings(&r->c, r->report, stdout);
        show_error("verify", &r->err);
        show_advice(&r->c, r->report, &r->err, stderr);
    } else if (!r->c.json) {
        show_text(r, code);
    }
    sw_report_free(r->report);
    not_checked_free(&r->left);
    return code;
}

static int run_verify(run *r)
{
    progress p;
    int code;
    if (r->c.help) {
        fputs(help, stdout);
        return EXIT_DONE;
    }
    if (r->c.positional_count != 1) {
        fputs("shardwright verify: a path is needed; see shardwright verify --help\n", stderr);
        return EXIT_USAGE;
    }
    if (!parse_level(r) || !parse_subset(r) || !fits_together(r))
        return EXIT_USAGE;
    r->options.tensors = r->tensors.items;
    r->options.open = r->c.open;
    r->options.work = work_begin(&r->c, &p);
    if (!is_of_one(r) && audit_run("verify", &r->c, &r->options, r->always_run, &code)) {
        work_end(&p);
        return code;
    }
    return verify_one(r, &p);
}

int cmd_verify(int argc, char **argv)
{
    run r = {0};
    int code = EXIT_USAGE;
    const opt options[] = {{"--level", OPT_TEXT, &r.level},
                           {"--digests", OPT_TEXT, &r.options.digests},
                           {"--signature", OPT_TEXT, &r.options.signature},
                           {"--key", OPT_TEXT, &r.options.key},
                           {"--section", OPT_TEXT, &r.options.section},
                           {"--tensors", OPT_LIST, &r.tensors},
                           {"--subset", OPT_TEXT, &r.subset},
                           {"--run", OPT_FLAG, &r.always_run}};
    if (parse_options(argc, argv, options, sizeof options / sizeof options[0], 1, &r.c))
        code = run_verify(&r);
    text_list_free(&r.tensors);
    return code;
}
