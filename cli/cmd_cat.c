#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "element.h"

static const char help[] =
    "examples:\n"
    "  shardwright cat run/step-1000 model.norm.weight\n"
    "  shardwright cat run/step-1000 'model.embed.weight[0:2, :8]'\n"
    "  shardwright cat run/step-1000 model.norm.weight --raw > norm.bin\n"
    "\n"
    "usage: shardwright cat PATH TENSOR[REGION] [options]\n"
    "  REGION   one entry per axis, as in Python: 3, 2:5, :4, 10:, :\n"
    "  --raw    the bytes, row-major and little-endian, instead of text\n"
    "  --shapes PATH   what flat parameters (FSDP1) are made of; see shardwright inspect\n"
    "  --from NAME, --json\n"
    "\n"
    "exit codes: 0; 2 could not (no such tensor, a hole in the region, corrupt)\n";

#define CHUNK_ELEMENTS UINT64_C(65536)

typedef struct run {
    common c;
    bool raw;
    sw_checkpoint *checkpoint;
    size_t tensor;
    sw_tensor_info info;
    int64_t lo[SW_MAX_AXES], hi[SW_MAX_AXES];
    uint8_t *buffer;
    sw_error err;
    json j;
    bool printed; /* an element */
} run;

/* Sets the error; a foreign text in it is made fit for a terminal. */
static bool complain(run *r, sw_status status, const char *what, const char *text)
{
    char *shown = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&shown, &size);
    if (to != NULL) {
        print_name(to, text);
        fclose(to);
    }
    r->err = (sw_error){.status = status};
    snprintf(r->err.text, sizeof r->err.text, "%s: %s", what, shown ? shown : "");
    free(shown);
    return false;
}

/* One entry of a region: "3", "2:5", ":4", "10:", ":". */
static bool parse_entry(const char **p, int64_t size, int64_t *lo, int64_t *hi)
{
    char *end;
    bool has_lo = **p >= '0' && **p <= '9';
    *lo = has_lo ? strtoll(*p, &end, 10) : 0;
    if (has_lo)
        *p = end;
    if (**p != ':') {
        *hi = *lo < INT64_MAX ? *lo + 1 : *lo;
        return has_lo && *lo < size;
    }
    ++*p;
    bool has_hi = **p >= '0' && **p <= '9';
    *hi = has_hi ? strtoll(*p, &end, 10) : size;
    if (has_hi)
        *p = end;
    return *lo <= *hi && *hi <= size;
}

static bool parse_region(run *r, const char *text)
{
    const char *p = text;
    for (uint32_t k = 0; k < r->info.axes; k++) {
        r->lo[k] = 0;
        r->hi[k] = r->info.shape[k];
    }
    if (*p == '\0')
        return true;
    p++;
    for (uint32_t k = 0; *p != ']'; k++) {
        while (*p == ' ')
            p++;
        if (k >= r->info.axes || !parse_entry(&p, r->info.shape[k], &r->lo[k], &r->hi[k]))
            return complain(r, SW_ERR_ARG, "not a region of this tensor", text);
        while (*p == ' ')
            p++;
        if (*p == ',')
            p++;
        else if (*p != ']')
            return complain(r, SW_ERR_ARG, "not a region", text);
    }
    return p[1] == '\0' || complain(r, SW_ERR_ARG, "not a region", text);
}

/* The tensor of that name; or the name up to its last '[' and a region behind it. */
static bool find_tensor(run *r, const char *text)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(r->checkpoint);
    int64_t at = sw_catalog_find(catalog, text);
    const char *region = "";
    if (at < 0) {
        region = strrchr(text, '[');
        char *name = region ? strndup(text, (size_t)(region - text)) : NULL;
        at = name ? sw_catalog_find(catalog, name) : -1;
        free(name);
    }
    if (at < 0)
        return complain(r, SW_ERR_NOTFOUND,
                        "no tensor of that name; inspect --tensors '*' lists them", text);
    r->tensor = (size_t)at;
    sw_catalog_tensor(catalog, r->tensor, &r->info);
    return parse_region(r, region);
}

static void print_elements(run *r, uint64_t count, bool first_of_run)
{
    uint32_t size = sw_dtype_bytes(r->info.dtype);
    for (uint64_t i = 0; i < count; i++) {
        if (r->c.json) {
            if (r->printed)
                fputs(first_of_run && i == 0 ? ",\n    " : ", ", stdout);
            print_json_element(stdout, r->info.dtype, r->buffer + i * size);
        } else {
            if (!first_of_run || i > 0)
                fputc(' ', stdout);
            print_element(stdout, r->info.dtype, r->buffer + i * size);
        }
        r->printed = true;
    }
}

static sw_status print_run(run *r, uint64_t first, uint64_t count)
{
    for (uint64_t done = 0; done < count;) {
        uint64_t n = count - done < CHUNK_ELEMENTS ? count - done : CHUNK_ELEMENTS;
        sw_status st = sw_checkpoint_read(r->checkpoint, r->tensor, first + done, first + done + n,
                                          r->buffer, &r->err);
        if (st != SW_OK)
            return st;
        if (r->raw)
            fwrite(r->buffer, sw_dtype_bytes(r->info.dtype), n, stdout);
        else
            print_elements(r, n, done == 0);
        done += n;
        if (ferror(stdout) || stop_signal())
            return SW_OK;
    }
    if (!r->raw && !r->c.json)
        fputc('\n', stdout);
    return SW_OK;
}

/* One run of the last axis after another. */
static sw_status print_region(run *r)
{
    uint32_t axes = r->info.axes;
    int64_t at[SW_MAX_AXES];
    if (axes == 0)
        return print_run(r, 0, 1);
    for (uint32_t k = 0; k < axes; k++) {
        if (r->lo[k] >= r->hi[k])
            return SW_OK;
        at[k] = r->lo[k];
    }
    for (;;) {
        uint64_t first = 0;
        for (uint32_t k = 0; k < axes; k++)
            first = first * (uint64_t)r->info.shape[k] + (uint64_t)at[k];
        sw_status st = print_run(r, first, (uint64_t)(r->hi[axes - 1] - r->lo[axes - 1]));
        if (st != SW_OK || ferror(stdout) || stop_signal())
            return st;
        uint32_t k = axes - 1;
        while (k > 0 && ++at[k - 1] == r->hi[k - 1]) {
            at[k - 1] = r->lo[k - 1];
            k--;
        }
        if (k == 0)
            return SW_OK;
    }
}

static sw_status open_tensor(run *r)
{
    sw_open_options options = r->c.open;
    sw_status st = sw_checkpoint_open(r->c.positional[0], &options, NULL, &r->checkpoint, &r->err);
    if (st != SW_OK)
        return st;
    if (!find_tensor(r, r->c.positional[1]))
        return r->err.status;
    r->buffer = malloc((size_t)CHUNK_ELEMENTS * sw_dtype_bytes(r->info.dtype));
    if (r->buffer == NULL) {
        complain(r, SW_ERR_NOMEM, "no memory", "");
        return SW_ERR_NOMEM;
    }
    return SW_OK;
}

static void begin_json(run *r)
{
    json *j = &r->j;
    json_text(j, "tensor", r->info.name);
    json_text(j, "dtype", sw_dtype_name(r->info.dtype));
    json_shape(j, "shape", r->info.axes, r->info.shape);
    json_shape(j, "begin", r->info.axes, r->lo);
    json_shape(j, "end", r->info.axes, r->hi);
    json_array(j, "values");
}

static int work(run *r)
{
    json *j = &r->j;
    if (r->c.json) {
        json_begin(j, stdout);
        json_text(j, "command", "cat");
        json_text(j, "path", r->c.positional[0]);
    }
    sw_status st = open_tensor(r);
    if (st == SW_OK && r->c.json)
        begin_json(r);
    bool listed = st == SW_OK;
    if (st == SW_OK)
        st = print_region(r);
    int code = exit_of(st);
    if (r->c.json) {
        if (listed)
            json_close_array(j);
        json_integer(j, "exit", code);
        if (st != SW_OK)
            json_error(j, &r->err);
        json_findings(j, NULL);
        json_end(j);
    } else if (st != SW_OK) {
        show_error("cat", &r->err);
    }
    return code;
}

int cmd_cat(int argc, char **argv)
{
    run r = {0};
    const opt options[] = {{"--raw", OPT_FLAG, &r.raw}};
    if (!parse_options(argc, argv, options, 1, 2, &r.c))
        return EXIT_USAGE;
    if (r.c.help) {
        fputs(help, stdout);
        return EXIT_DONE;
    }
    if (r.c.positional_count != 2) {
        fputs("shardwright cat: a path and a tensor are needed; see shardwright cat --help\n",
              stderr);
        return EXIT_USAGE;
    }
    if (r.raw && r.c.json) {
        fputs("shardwright cat: --raw and --json exclude each other\n", stderr);
        return EXIT_USAGE;
    }
    int code = work(&r);
    free(r.buffer);
    sw_checkpoint_close(r.checkpoint);
    return code;
}
