/*
 * Rows of flattened parameters and a document of shapes, both from the input: refused in words that
 * fit, or each parameter is a run of elements of its row, in the order of the shapes, none of them
 * another's; where the input's own layout made the rows, at exactly its places.
 *
 * Input: units, parameters; for each: unit, elements; the alignment; bytes that change the rows'
 * sizes.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "shardwright_convert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define UNITS 4U
#define PARAMETERS 12U
#define ELEMENTS_MAX 4096U

static char folder[64];

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void remove_folder(void)
{
    (void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_folder(void)
{
    const bool memory = access("/dev/shm", W_OK) == 0;
    if (folder[0] != '\0')
        return;
    (void)snprintf(folder, sizeof folder, "%s/fuzz_unflatten.XXXXXX", memory ? "/dev/shm" : "/tmp");
    if (mkdtemp(folder) == NULL)
        abort();
    (void)atexit(remove_folder);
}

static void must(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        __builtin_trap();
    }
}

typedef struct reading {
    const uint8_t *data;
    size_t size;
} reading;

static uint32_t next(reading *r)
{
    if (r->size == 0)
        return 0;
    r->size--;
    return *r->data++;
}

/* ---- the world that the input says ------------------------------------------------------------
 */

typedef struct parameter {
    uint32_t unit, elements, at;
} parameter;

typedef struct world {
    parameter items[PARAMETERS];
    uint32_t count, units, align;
    uint32_t rows[UNITS]; /* elements */
    bool changed;         /* the rows are not those of the layout */
    bool says_align;
} world;

static const char *const unit_names[UNITS] = {"", "a.", "a.b.", "c.0."};

static void lay_out(world *w)
{
    static const uint32_t alignments[] = {1, 2, 4, 8, 16};
    w->align = alignments[w->align % 5];
    for (uint32_t i = 0; i < w->count; i++) {
        parameter *p = &w->items[i];
        uint32_t *end = &w->rows[p->unit];
        *end = (*end + w->align - 1) / w->align * w->align;
        p->at = *end;
        *end += p->elements;
    }
}

static world make_world(reading *r)
{
    world w = {.units = 1 + next(r) % UNITS, .count = 1 + next(r) % PARAMETERS};
    for (uint32_t i = 0; i < w.count; i++) {
        w.items[i].unit = next(r) % w.units;
        w.items[i].elements = 1 + next(r) % 40;
    }
    w.align = next(r);
    w.says_align = w.align >= 128;
    lay_out(&w);
    for (uint32_t u = 0; u < w.units && r->size > 0; u++) {
        const uint32_t more = next(r) % 64;
        w.rows[u] += more;
        w.changed = w.changed || more > 0;
    }
    return w;
}

/* ---- its files --------------------------------------------------------------------------------
 */

static void write_file(const char *name, const void *head, size_t head_size, const void *body,
                       size_t size)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(head, 1, head_size, f) != head_size ||
        fwrite(body, 1, size, f) != size || fclose(f) != 0)
        abort();
}

static void printed(swi_buf *out, sw_status st)
{
    (void)out;
    if (st != SW_OK)
        abort();
}

/* Element k of row u is 10000 u + k. */
static void write_rows(const world *w)
{
    swi_buf head = {0}, body = {0};
    uint64_t at = 0;
    for (uint32_t u = 0; u < w->units; u++) {
        if (w->rows[u] == 0)
            continue;
        printed(&head, swi_buf_printf(&head, NULL,
                                      "%s\"%s_flat_param\":{\"dtype\":\"I32\",\"shape\":[%u],"
                                      "\"data_offsets\":[%llu,%llu]}",
                                      at > 0 ? "," : "{", unit_names[u], w->rows[u],
                                      (unsigned long long)at,
                                      (unsigned long long)(at + 4ULL * w->rows[u])));
        at += 4ULL * w->rows[u];
        for (uint32_t k = 0; k < w->rows[u]; k++)
            printed(&body, swi_buf_u32le(&body, 10000 * u + k, NULL));
    }
    printed(&head, swi_buf_append_str(&head, "}", NULL));
    swi_buf file = {0};
    printed(&file, swi_buf_u64le(&file, head.size, NULL));
    printed(&file, swi_buf_append(&file, head.data, head.size, NULL));
    write_file("rows.safetensors", file.data, file.size, body.data, body.size);
    swi_buf_free(&file);
    swi_buf_free(&head);
    swi_buf_free(&body);
}

static void write_shapes(const world *w)
{
    swi_buf text = {0};
    printed(&text, swi_buf_append_str(&text, "shapes: 1\nparameters:\n", NULL));
    for (uint32_t i = 0; i < w->count; i++)
        printed(&text, swi_buf_printf(&text, NULL, "- %sp%u: [%u]\n", unit_names[w->items[i].unit],
                                      i, w->items[i].elements));
    if (w->says_align)
        printed(&text, swi_buf_printf(&text, NULL, "align: %u\n", w->align));
    write_file("shapes.yaml", text.data, text.size, "", 0);
    swi_buf_free(&text);
}

/* ---- what must hold ---------------------------------------------------------------------------
 */

static void check_parameter(const sw_checkpoint *c, const world *w, uint32_t i, bool *used)
{
    const parameter *p = &w->items[i];
    char name[32];
    int32_t data[64];
    sw_tensor_info info;
    (void)snprintf(name, sizeof name, "%sp%u", unit_names[p->unit], i);
    const int64_t id = sw_catalog_find(sw_checkpoint_catalog(c), name);
    must(id >= 0, "a parameter is missing");
    must(sw_catalog_tensor(sw_checkpoint_catalog(c), (size_t)id, &info), "no tensor");
    must(info.elements == p->elements, "another size");
    must(sw_checkpoint_read(c, (size_t)id, 0, info.elements, data, NULL) == SW_OK, "unreadable");
    for (uint32_t k = 0; k < p->elements; k++) {
        const uint32_t at = (uint32_t)data[k] % 10000;
        must((uint32_t)data[k] / 10000 == p->unit, "of another row");
        must(data[k] == data[0] + (int32_t)k, "no run");
        must(w->changed || at == p->at + k, "at another place");
        must(!used[p->unit * ELEMENTS_MAX + at], "another parameter has it too");
        used[p->unit * ELEMENTS_MAX + at] = true;
    }
}

static bool is_refusal(sw_status st)
{
    return st == SW_ERR_CONFLICT || st == SW_ERR_INCOMPLETE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    reading r = {data, size};
    const world w = make_world(&r);
    char path[128], shapes[128];
    sw_checkpoint *c = NULL;
    sw_error err = {0};
    make_folder();
    write_rows(&w);
    write_shapes(&w);
    (void)snprintf(path, sizeof path, "%s/rows.safetensors", folder);
    (void)snprintf(shapes, sizeof shapes, "%s/shapes.yaml", folder);
    const sw_open_options options = {.shapes = shapes};
    const sw_status st = sw_checkpoint_open(path, &options, NULL, &c, &err);
    if (st != SW_OK) {
        must(is_refusal(st), err.text);
        must(w.changed || strstr(err.text, "both fit") != NULL, err.text);
        return 0;
    }
    bool *used = calloc(UNITS * ELEMENTS_MAX, sizeof *used);
    if (used == NULL)
        abort();
    must(sw_catalog_tensor_count(sw_checkpoint_catalog(c)) == w.count, "other tensors");
    for (uint32_t i = 0; i < w.count; i++)
        check_parameter(c, &w, i, used);
    free(used);
    sw_checkpoint_close(c);
    return 0;
}
