/* Whether all states of an optimizer were updated as often: see step_found.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/report.h"
#include "base/text.h"
#include "run/step_found.h"

/* The counters of one file. */
typedef struct counters {
    uint64_t count;
    double least, most;
} counters;

typedef struct survey {
    const sw_checkpoint *checkpoint;
    const sw_catalog *catalog;
    counters *files; /* by file of the catalog */
    counters all;
    const char *least_name, *most_name;
} survey;

static void count_in(counters *c, double step)
{
    c->least = c->count == 0 || step < c->least ? step : c->least;
    c->most = c->count == 0 || step > c->most ? step : c->most;
    c->count++;
}

static void take(survey *s, uint32_t file, const char *name, double step)
{
    if (s->all.count == 0 || step < s->all.least)
        s->least_name = name;
    if (s->all.count == 0 || step > s->all.most)
        s->most_name = name;
    count_in(&s->files[file], step);
    count_in(&s->all, step);
}

/* "state.layers.0.weight.step": below a state, behind a parameter's name. */
static bool is_counter(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && strcmp(dot, ".step") == 0 &&
           (strncmp(name, "state.", 6) == 0 || strstr(name, ".state.") != NULL);
}

static bool as_number(sw_dtype dtype, const uint8_t *data, double *out)
{
    float f;
    int32_t i;
    int64_t l;
    switch (dtype) {
    case SW_F32:
        memcpy(&f, data, sizeof f);
        *out = (double)f;
        return true;
    case SW_F64:
        memcpy(out, data, sizeof *out);
        return true;
    case SW_I32:
        memcpy(&i, data, sizeof i);
        *out = (double)i;
        return true;
    case SW_I64:
        memcpy(&l, data, sizeof l);
        *out = (double)l;
        return true;
    default:
        return false;
    }
}

/* Damaged ones are told of elsewhere. */
static sw_status keep_going(const sw_error *cause, sw_error *err)
{
    if (cause->status != SW_ERR_NOMEM && cause->status != SW_ERR_IO)
        return SW_OK;
    if (err != NULL)
        *err = *cause;
    return cause->status;
}

static sw_status look_at_tensor(survey *s, uint32_t i, sw_error *err)
{
    sw_tensor_info info;
    uint8_t data[16];
    sw_error cause = {0};
    swi_piece piece;
    swi_blob blob;
    double step;
    (void)sw_catalog_tensor(s->catalog, i, &info);
    if (info.role != SW_ROLE_OPTIMIZER || info.elements != 1 || info.piece_count != 1 ||
        !is_counter(info.name) || swi_tensor_defect(s->catalog, i) != SW_OK)
        return SW_OK;
    if (sw_checkpoint_read(s->checkpoint, i, 0, 1, data, &cause) != SW_OK)
        return keep_going(&cause, err);
    swi_tensor_piece(s->catalog, i, 0, &piece);
    swi_catalog_blob(s->catalog, piece.blob, &blob);
    if (as_number(info.dtype, data, &step))
        take(s, blob.file, info.name, step);
    return SW_OK;
}

static sw_status look_at_value(survey *s, size_t i, sw_error *err)
{
    sw_value_info info;
    sw_value_graph *graph = NULL;
    sw_value root;
    sw_error cause = {0};
    swi_blob blob;
    int64_t step;
    (void)sw_catalog_value_at(s->catalog, i, &info);
    if (!is_counter(info.name))
        return SW_OK;
    if (sw_checkpoint_value(s->checkpoint, i, &graph, &root, &cause) != SW_OK)
        return keep_going(&cause, err);
    swi_catalog_blob(s->catalog, swi_value_blob(s->catalog, i), &blob);
    if (sw_value_int(graph, root, &step))
        take(s, blob.file, info.name, (double)step);
    sw_value_graph_free(graph);
    return SW_OK;
}

/* Two files that each hold several equal counters, and not the same. */
static bool of_two_saves(const survey *s, size_t files, uint32_t *a, uint32_t *b)
{
    bool have = false, differ = false;
    for (uint32_t i = 0; i < files; i++) {
        const counters *c = &s->files[i];
        if (c->count == 0)
            continue;
        if (c->count < 2 || c->least < c->most)
            return false;
        if (!have)
            *a = i;
        else if (!differ && c->least != s->files[*a].least)
            *b = i;
        differ = differ || (have && c->least != s->files[*a].least);
        have = true;
    }
    return differ;
}

static sw_status tell(const survey *s, size_t files, sw_report *report, sw_error *err)
{
    uint32_t a = 0, b = 0;
    swi_quoted p, q;
    if (s->all.count < 2 || !(s->all.least < s->all.most))
        return SW_OK;
    if (of_two_saves(s, files, &a, &b)) {
        swi_finding_in in = {.severity = SW_WARNING,
                             .status = SW_ERR_CONFLICT,
                             .code = "mixed-steps",
                             .file = swi_catalog_path(s->catalog, b)};
        return swi_report_add(report, &in, err,
                              "every optimizer step in this file is %.0f, and in %s %.0f: files "
                              "of two saves in one checkpoint",
                              s->files[b].least, swi_quote_str(&p, swi_catalog_path(s->catalog, a)),
                              s->files[a].least);
    }
    swi_finding_in in = {.severity = SW_NOTE, .code = "steps-vary", .tensor = s->least_name};
    return swi_report_add(report, &in, err,
                          "optimizer steps go from %.0f (%s) to %.0f (%s): not every parameter was "
                          "trained in every step",
                          s->all.least, swi_quote_str(&p, s->least_name), s->all.most,
                          swi_quote_str(&q, s->most_name));
}

sw_status swi_steps_check(const sw_checkpoint *checkpoint, sw_report *report, sw_error *err)
{
    survey s = {.checkpoint = checkpoint, .catalog = sw_checkpoint_catalog(checkpoint)};
    size_t files = sw_catalog_file_count(s.catalog);
    sw_status st = swi_alloc_array(files, sizeof *s.files, (void **)&s.files, err);
    for (size_t i = 0; st == SW_OK && i < sw_catalog_tensor_count(s.catalog); i++)
        st = look_at_tensor(&s, (uint32_t)i, err);
    for (size_t i = 0; st == SW_OK && i < sw_catalog_value_count(s.catalog); i++)
        st = look_at_value(&s, i, err);
    if (st == SW_OK)
        st = tell(&s, files, report, err);
    free(s.files);
    return st;
}
