#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const char help[] =
    "examples:\n"
    "  shardwright inspect run/step-1000\n"
    "  shardwright inspect run/step-1000 --tensors '*.weight'\n"
    "  shardwright inspect run/step-1000 --values --files\n"
    "\n"
    "usage: shardwright inspect PATH [options]\n"
    "  --tensors GLOB   list tensors by name: type, shape, pieces, bytes\n"
    "  --tree           the names as a tree, with tensors and bytes below each part\n"
    "  --values         everything that is not a tensor\n"
    "  --files          the files that hold it\n"
    "  --emit-layout    which elements each rank holds, as a file for convert --layout\n"
    "  --emit-shapes    names, sizes and order of the model's parameters, as a file for --shapes\n"
    "  --shapes PATH    what flat parameters (FSDP1) are made of: a state dict of torch.save, a\n"
    "                   configuration, or a document as --emit-shapes writes it\n"
    "  --from NAME, --json, --quiet\n"
    "\n"
    "exit codes: 0; 1 a defect shows in the metadata (holes, missing files), or the layout does\n"
    "not tell of all tensors; 2 could not, or no order of parameters is known;\n"
    "5 unsafe content\n";

#define VALUE_CHARS 200

typedef struct run {
    common c;
    const char *tensors;
    bool tree, values, files, emit_layout, emit_shapes;
    sw_checkpoint *checkpoint;
    const sw_catalog *catalog;
    sw_report *report;
    sw_error err;
    uint64_t role_count[3], dtype_count[SW_DTYPE_COUNT], bytes, holes;
    bool unsafe;
    uint64_t untold;  /* tensors of which a layout that was asked for does not tell */
    sw_status undone; /* why a document that was asked for is not there */
} run;

/* Keeps the first value that could not be read, for the exit code. */
static void keep_error(run *r, const sw_error *err)
{
    if (err->status == SW_ERR_UNSAFE)
        r->unsafe = true;
    else if (r->err.status == SW_OK)
        r->err = *err;
}

static void count(run *r)
{
    for (size_t i = 0; i < sw_catalog_tensor_count(r->catalog); i++) {
        sw_tensor_info t;
        sw_catalog_tensor(r->catalog, i, &t);
        r->role_count[t.role]++;
        r->dtype_count[t.dtype]++;
        r->bytes += t.bytes;
        r->holes += t.held_elements < t.elements;
    }
}

static const char *role_name(sw_role role)
{
    return role == SW_ROLE_PARAMETER ? "model" : role == SW_ROLE_OPTIMIZER ? "optimizer" : "other";
}

static uint64_t file_bytes(const run *r)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < sw_catalog_file_count(r->catalog); i++) {
        sw_file_info f;
        if (sw_catalog_file(r->catalog, i, &f))
            bytes += f.bytes;
    }
    return bytes;
}

/* ---- text ---------------------------------------------------------------------------------- */

static void show_summary(const run *r)
{
    const char *key, *value;
    print_name(stdout, sw_checkpoint_root(r->checkpoint));
    printf(": %s\n", sw_checkpoint_title(r->checkpoint));
    for (size_t i = 0; sw_checkpoint_fact(r->checkpoint, i, &key, &value); i++)
        printf("  %-15s %s\n", key, value);
    printf("  %-15s %zu, ", "tensors", sw_catalog_tensor_count(r->catalog));
    print_bytes(stdout, r->bytes);
    printf(": %" PRIu64 " of the model, %" PRIu64 " of the optimizer, %" PRIu64 " other\n",
           r->role_count[SW_ROLE_PARAMETER], r->role_count[SW_ROLE_OPTIMIZER],
           r->role_count[SW_ROLE_OTHER]);
    printf("  %-15s %" PRIu64 " in %zu files, ", "pieces", sw_catalog_piece_count(r->catalog),
           sw_catalog_file_count(r->catalog));
    print_bytes(stdout, file_bytes(r));
    printf("\n  %-15s", "element types");
    const char *comma = "";
    for (int d = 1; d < SW_DTYPE_COUNT; d++) {
        if (r->dtype_count[d] == 0)
            continue;
        printf("%s %s (%" PRIu64 ")", comma, sw_dtype_name((sw_dtype)d), r->dtype_count[d]);
        comma = ",";
    }
    printf("\n  %-15s %zu\n", "values", sw_catalog_value_count(r->catalog));
    printf("  %-15s %s\n", "holes", r->holes ? "yes: see the findings" : "none");
    printf("  %-15s ", "catalog");
    print_bytes(stdout, sw_catalog_memory(r->catalog));
    fputs(" of memory\n", stdout);
}

static bool wanted(const run *r, const char *name)
{
    return r->tensors != NULL && fnmatch(r->tensors, name, 0) == 0;
}

static void show_tensors(const run *r)
{
    for (size_t i = 0; i < sw_catalog_tensor_count(r->catalog); i++) {
        sw_tensor_info t;
        sw_catalog_tensor(r->catalog, i, &t);
        if (!wanted(r, t.name))
            continue;
        print_name(stdout, t.name);
        printf("  %s ", sw_dtype_name(t.dtype));
        print_shape(stdout, t.axes, t.shape);
        printf("  %" PRIu64 " piece%s  ", t.piece_count, t.piece_count == 1 ? "" : "s");
        print_bytes(stdout, t.bytes);
        printf("  %s\n", role_name(t.role));
    }
}

/* The value as text; NULL and *err when it cannot be read. */
static char *value_text(run *r, size_t i, sw_error *err)
{
    sw_value_graph *graph = NULL;
    sw_value root;
    char *text = NULL;
    sw_status st = sw_checkpoint_value(r->checkpoint, i, &graph, &root, err);
    if (st == SW_OK)
        st = sw_value_text(graph, root, VALUE_CHARS, &text, err);
    sw_value_graph_free(graph);
    if (st != SW_OK)
        keep_error(r, err);
    return text;
}

static void show_values(run *r)
{
    for (size_t i = 0; i < sw_catalog_value_count(r->catalog); i++) {
        sw_value_info v;
        sw_error err = {0};
        char *text = value_text(r, i, &err);
        sw_catalog_value_at(r->catalog, i, &v);
        print_name(stdout, v.name);
        if (v.rank >= 0)
            printf(" (rank %" PRId64 ")", v.rank);
        if (text != NULL)
            printf(" = %s\n", text);
        else
            printf(" cannot be read: %s\n", err.text);
        free(text);
    }
}

static void show_files(const run *r)
{
    for (size_t i = 0; i < sw_catalog_file_count(r->catalog); i++) {
        sw_file_info f;
        if (!sw_catalog_file(r->catalog, i, &f))
            continue;
        print_name(stdout, f.path);
        fputs("  ", stdout);
        print_bytes(stdout, f.bytes);
        fputc('\n', stdout);
    }
}

/* ---- the tree ------------------------------------------------------------------------------ */

typedef struct leaf {
    const char *name;
    uint64_t bytes;
} leaf;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const leaf *)a)->name, ((const leaf *)b)->name);
}

/* Length of the first `parts` parts of a name, or 0 when it has no more than those. */
static size_t prefix_size(const char *name, size_t parts)
{
    const char *p = name;
    for (size_t i = 0; i < parts; i++) {
        p = strchr(p, '.');
        if (p == NULL)
            return 0;
        p++;
    }
    return (size_t)(p - name) - 1;
}

static void show_node(const leaf *leaves, size_t i, size_t n, size_t parts)
{
    size_t size = prefix_size(leaves[i].name, parts), end = i;
    uint64_t bytes = 0;
    if (size == 0)
        return;
    if (i > 0 && prefix_size(leaves[i - 1].name, parts) == size &&
        memcmp(leaves[i - 1].name, leaves[i].name, size) == 0)
        return; /* shown with the first below it */
    while (end < n && strncmp(leaves[end].name, leaves[i].name, size) == 0 &&
           leaves[end].name[size] == '.')
        bytes += leaves[end++].bytes;
    printf("%*s", (int)(2 * (parts - 1)), "");
    char part[256];
    size_t from = parts > 1 ? prefix_size(leaves[i].name, parts - 1) + 1 : 0;
    snprintf(part, sizeof part, "%.*s", (int)(size - from), leaves[i].name + from);
    print_name(stdout, part);
    printf("  (%zu tensors, ", end - i);
    print_bytes(stdout, bytes);
    fputs(")\n", stdout);
}

static void show_tree(const run *r)
{
    size_t n = sw_catalog_tensor_count(r->catalog);
    leaf *leaves = calloc(n ? n : 1, sizeof *leaves);
    if (leaves == NULL)
        return;
    for (size_t i = 0; i < n; i++) {
        sw_tensor_info t;
        sw_catalog_tensor(r->catalog, i, &t);
        leaves[i] = (leaf){t.name, t.bytes};
    }
    qsort(leaves, n, sizeof *leaves, by_name);
    for (size_t i = 0; i < n; i++) {
        size_t parts = 1;
        for (; prefix_size(leaves[i].name, parts) > 0; parts++)
            show_node(leaves, i, n, parts);
        const char *last = strrchr(leaves[i].name, '.');
        printf("%*s", (int)(2 * (parts - 1)), "");
        print_name(stdout, last ? last + 1 : leaves[i].name);
        fputs("  ", stdout);
        print_bytes(stdout, leaves[i].bytes);
        fputc('\n', stdout);
    }
    free(leaves);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void json_tensors(const run *r, json *j)
{
    json_array(j, "tensors");
    for (size_t i = 0; i < sw_catalog_tensor_count(r->catalog); i++) {
        sw_tensor_info t;
        const char *section, *name;
        sw_catalog_tensor(r->catalog, i, &t);
        if (r->tensors != NULL && !wanted(r, t.name))
            continue;
        sw_checkpoint_split_name(r->checkpoint, i, &section, &name);
        json_object(j, NULL);
        json_text(j, "name", t.name);
        json_text(j, "section", section);
        json_text(j, "role", role_name(t.role));
        json_text(j, "dtype", sw_dtype_name(t.dtype));
        json_shape(j, "shape", t.axes, t.shape);
        json_number(j, "bytes", t.bytes);
        json_number(j, "pieces", t.piece_count);
        json_number(j, "elements", t.elements);
        json_number(j, "held_elements", t.held_elements);
        json_close_object(j);
    }
    json_close_array(j);
}

static void json_values(run *r, json *j)
{
    json_array(j, "values");
    for (size_t i = 0; i < sw_catalog_value_count(r->catalog); i++) {
        sw_value_info v;
        sw_catalog_value_at(r->catalog, i, &v);
        json_object(j, NULL);
        json_text(j, "name", v.name);
        if (v.rank >= 0)
            json_integer(j, "rank", v.rank);
        if (r->values) {
            sw_error err = {0};
            char *text = value_text(r, i, &err);
            if (text != NULL)
                json_text(j, "text", text);
            else
                json_error(j, &err);
            free(text);
        }
        json_close_object(j);
    }
    json_close_array(j);
}

static void json_catalog(run *r, json *j)
{
    const char *key, *value;
    json_text(j, "framework", sw_checkpoint_framework(r->checkpoint));
    json_text(j, "root", sw_checkpoint_root(r->checkpoint));
    json_object(j, "facts");
    for (size_t i = 0; sw_checkpoint_fact(r->checkpoint, i, &key, &value); i++)
        json_text(j, key, value);
    json_close_object(j);
    json_number(j, "tensor_count", sw_catalog_tensor_count(r->catalog));
    json_number(j, "tensor_bytes", r->bytes);
    json_number(j, "piece_count", sw_catalog_piece_count(r->catalog));
    json_number(j, "value_count", sw_catalog_value_count(r->catalog));
    json_number(j, "catalog_bytes", sw_catalog_memory(r->catalog));
    json_tensors(r, j);
    json_values(r, j);
    json_array(j, "files");
    for (size_t i = 0; i < sw_catalog_file_count(r->catalog); i++) {
        sw_file_info f;
        sw_catalog_file(r->catalog, i, &f);
        json_object(j, NULL);
        json_text(j, "path", f.path);
        json_number(j, "bytes", f.bytes);
        json_close_object(j);
    }
    json_close_array(j);
}

/* A value that is damaged is a defect; one that could not be looked at leaves the work undone. */
static int exit_of_value(sw_status st)
{
    switch (st) {
    case SW_OK:
    case SW_ERR_UNSUPPORTED:
        return EXIT_DONE;
    case SW_ERR_FORMAT:
    case SW_ERR_CORRUPT:
    case SW_ERR_INCOMPLETE:
    case SW_ERR_CONFLICT:
        return EXIT_FOUND;
    default:
        return exit_of(st);
    }
}

static int exit_code(const run *r, sw_status st)
{
    if (st != SW_OK || r->undone != SW_OK)
        return exit_of(st != SW_OK ? st : r->undone);
    if (r->unsafe || sw_report_total(r->report, SW_DANGER) > 0)
        return EXIT_REFUSED;
    int code = exit_of_value(r->err.status);
    if (code != EXIT_DONE && code != EXIT_FOUND)
        return code;
    return r->untold > 0 || sw_report_total(r->report, SW_DEFECT) > 0 ? EXIT_FOUND : code;
}

/* What --emit-layout or --emit-shapes asks for. */
static sw_status make_document(run *r, char **text, sw_error *err)
{
    size_t untold = 0;
    if (r->emit_shapes)
        return sw_checkpoint_shapes(r->checkpoint, &r->c.open, text, err);
    sw_status st = sw_checkpoint_layout(r->checkpoint, text, &untold, err);
    r->untold = st == SW_OK ? untold : 0;
    return st;
}

static void json_document(run *r, json *j)
{
    char *text = NULL;
    sw_error err = {0};
    r->undone = make_document(r, &text, &err);
    if (r->undone != SW_OK) {
        keep_error(r, &err);
        return;
    }
    json_text(j, r->emit_shapes ? "shapes" : "layout", text);
    if (r->emit_layout)
        json_number(j, "layout_lacks", r->untold);
    free(text);
}

static int show_json(run *r, sw_status st)
{
    json j;
    json_begin(&j, stdout);
    json_text(&j, "command", "inspect");
    json_text(&j, "path", r->c.positional[0]);
    if (st == SW_OK)
        json_catalog(r, &j);
    if (st == SW_OK && (r->emit_layout || r->emit_shapes))
        json_document(r, &j);
    if (r->err.status != SW_OK)
        json_error(&j, &r->err);
    json_findings(&j, r->report);
    int code = exit_code(r, st);
    json_integer(&j, "exit", code);
    json_end(&j);
    return code;
}

static int show_text(run *r, sw_status st)
{
    if (st != SW_OK) {
        show_findings(&r->c, r->report, stderr);
        show_error("inspect", &r->err);
        show_advice(&r->c, r->report, &r->err, stderr);
        return exit_code(r, st);
    }
    if (!r->c.quiet)
        show_summary(r);
    if (r->tensors != NULL)
        show_tensors(r);
    if (r->tree)
        show_tree(r);
    if (r->values)
        show_values(r);
    if (r->files)
        show_files(r);
    show_findings(&r->c, r->report, stdout);
    if (r->err.status != SW_OK)
        show_error("inspect", &r->err);
    show_advice(&r->c, r->report, &r->err, stdout);
    return exit_code(r, st);
}

/* The document alone, so that it can go into a file. */
static int show_document(run *r)
{
    char *text = NULL;
    r->undone = make_document(r, &text, &r->err);
    if (r->undone != SW_OK) {
        show_error("inspect", &r->err);
        return exit_of(r->undone);
    }
    fputs(text, stdout);
    free(text);
    show_findings(&r->c, r->report, stderr);
    return exit_code(r, SW_OK);
}

static int show(run *r, sw_status st)
{
    if (r->c.json)
        return show_json(r, st);
    return st == SW_OK && (r->emit_layout || r->emit_shapes) ? show_document(r) : show_text(r, st);
}

int cmd_inspect(int argc, char **argv)
{
    run r = {0};
    const opt options[] = {
        {"--tensors", OPT_TEXT, &r.tensors},         {"--tree", OPT_FLAG, &r.tree},
        {"--values", OPT_FLAG, &r.values},           {"--files", OPT_FLAG, &r.files},
        {"--emit-layout", OPT_FLAG, &r.emit_layout}, {"--emit-shapes", OPT_FLAG, &r.emit_shapes}};
    if (!parse_options(argc, argv, options, sizeof options / sizeof options[0], 1, &r.c))
        return EXIT_USAGE;
    if (r.c.help) {
        fputs(help, stdout);
        return EXIT_DONE;
    }
    if (r.c.positional_count != 1) {
        fputs("shardwright inspect: a path is needed; see shardwright inspect --help\n", stderr);
        return EXIT_USAGE;
    }
    if (r.emit_layout && r.emit_shapes) {
        fputs("shardwright inspect: --emit-layout and --emit-shapes are two files; ask for one\n",
              stderr);
        return EXIT_USAGE;
    }
    sw_verify_options as_run = {.open = r.c.open};
    int run_code;
    if (audit_run("inspect", &r.c, &as_run, false, &run_code))
        return run_code;
    sw_status st = sw_report_make(&r.report, &r.err);
    if (st != SW_OK) {
        show_error("inspect", &r.err);
        return EXIT_FAILED;
    }
    sw_open_options options_open = r.c.open;
    st = sw_checkpoint_open(r.c.positional[0], &options_open, r.report, &r.checkpoint, &r.err);
    if (st == SW_OK) {
        r.catalog = sw_checkpoint_catalog(r.checkpoint);
        count(&r);
    }
    sw_report_sort(r.report);
    int code = show(&r, st);
    sw_checkpoint_close(r.checkpoint);
    sw_report_free(r.report);
    return code;
}
