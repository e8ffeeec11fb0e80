#include "run/step_found.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/report.h"
#include "base/text.h"
#include "run/step_name.h"
#include "run/trainer_state.h"

/* What cannot be read tells nothing, unless it is a matter of this machine. */
static sw_status nothing_told(const sw_error *cause, sw_error *err)
{
    if (cause->status != SW_ERR_NOMEM && cause->status != SW_ERR_IO)
        return SW_OK;
    if (err != NULL)
        *err = *cause;
    return cause->status;
}

/* ---- what is asked -------------------------------------------------------------------------- */

/* trainer_state.json, in the folder that was opened or in the one that was asked for. */
static sw_status ask_trainer(const sw_checkpoint *checkpoint, const char *path, int64_t *out,
                             sw_error *err)
{
    swi_trainer_state state = {.global_step = -1};
    const sw_limits limits = swi_checkpoint_limits(checkpoint);
    swi_store *asked = NULL;
    sw_error cause = {0};
    if (swi_checkpoint_alone(checkpoint))
        return SW_OK;
    sw_status st = swi_trainer_state_read(swi_checkpoint_store(checkpoint), &limits, &state, err);
    *out = state.global_step;
    if (st != SW_OK || *out >= 0 || strcmp(path, sw_checkpoint_root(checkpoint)) == 0)
        return st;
    st = swi_store_open_posix(path, &asked, &cause);
    if (st == SW_OK)
        st = swi_trainer_state_read(asked, &limits, &state, err);
    else
        st = st == SW_ERR_NOMEM ? nothing_told(&cause, err) : SW_OK; /* a file's path */
    swi_store_close(asked);
    *out = state.global_step;
    return st;
}

/* ---- values -------------------------------------------------------------------------------- */

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL ? dot + 1 : name;
}

/* How much a value of this name tells: 0, nothing. Schedulers and loaders count otherwise. */
static int weight_of(const char *name)
{
    static const char *const others[] = {"optim", "sched", "load", "scaler", "rng"};
    static const char *const words[] = {"step", "iteration", "global_step"};
    const char *last = last_part(name);
    if (last > name && (size_t)(last - 1 - name) != strcspn(name, "."))
        return 0; /* deeper than two parts */
    for (size_t i = 0; last > name && i < sizeof others / sizeof others[0]; i++) {
        const char *met = strstr(name, others[i]);
        if (met != NULL && met < last)
            return 0;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(last, words[i]) == 0)
            return (int)i + 1;
    return 0;
}

static sw_status whole_number(const sw_checkpoint *checkpoint, size_t value, int64_t *out,
                              sw_error *err)
{
    sw_value_graph *graph = NULL;
    sw_value root;
    sw_error cause = {0};
    sw_status st = sw_checkpoint_value(checkpoint, value, &graph, &root, &cause);
    if (st == SW_OK && (!sw_value_int(graph, root, out) || *out < 0))
        *out = -1;
    sw_value_graph_free(graph);
    return st == SW_OK ? SW_OK : nothing_told(&cause, err);
}

static sw_status ask_values(const sw_checkpoint *checkpoint, swi_step_found *out, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(checkpoint);
    sw_value_info info;
    int best = 0;
    for (size_t i = 0; sw_catalog_value_at(catalog, i, &info); i++) {
        int weight = weight_of(info.name);
        int64_t number = -1;
        if (weight == 0 || weight < best)
            continue;
        sw_status st = whole_number(checkpoint, i, &number, err);
        if (st != SW_OK)
            return st;
        if (number < 0)
            continue;
        if (weight == best && number != out->number) {
            out->number = -1; /* two that contradict each other tell nothing */
            return SW_OK;
        }
        best = weight;
        out->number = number;
        snprintf(out->where, sizeof out->where, "%s", info.name);
    }
    return SW_OK;
}

sw_status swi_step_find(const sw_checkpoint *checkpoint, const char *path, swi_step_found *out,
                        sw_error *err)
{
    swi_step_found found = {.number = -1};
    sw_status st = ask_trainer(checkpoint, path, &found.number, err);
    if (st == SW_OK && found.number >= 0) {
        found.by_trainer = true;
        snprintf(found.where, sizeof found.where, "%s", SWI_TRAINER_STATE_NAME);
    } else if (st == SW_OK) {
        st = ask_values(checkpoint, &found, err);
    }
    if (st == SW_OK)
        *out = found;
    return st;
}

/* ---- against the name ---------------------------------------------------------------------- */

/* Some frameworks name a folder by the last step done, some by the next one. */
static bool as_good_as(int64_t a, int64_t b)
{
    return a == b || a == b + 1 || b == a + 1;
}

sw_status swi_step_check_name(const char *path, const swi_step_found *found, sw_report *report,
                              sw_error *err)
{
    size_t size = strlen(path);
    char name[256];
    swi_step_name told;
    swi_quoted a, b;
    while (size > 0 && path[size - 1] == '/')
        size--;
    size_t start = size;
    while (start > 0 && path[start - 1] != '/')
        start--;
    if (found->number < 0 || size - start >= sizeof name)
        return SW_OK;
    memcpy(name, path + start, size - start);
    name[size - start] = '\0';
    swi_step_of_name(name, &told);
    if (told.unit != SWI_UNIT_STEP || as_good_as(told.number, found->number) ||
        (!found->by_trainer && !told.counted))
        return SW_OK;
    swi_finding_in in = {.severity = found->by_trainer ? SW_WARNING : SW_NOTE,
                         .code = "step-differs",
                         .file = found->by_trainer ? found->where : NULL,
                         .tensor = found->by_trainer ? NULL : found->where};
    return swi_report_add(
        report, &in, err, "%s is of step %" PRId64 " by its name, and of step %" PRId64 " by %s",
        swi_quote_str(&a, name), told.number, found->number, swi_quote_str(&b, found->where));
}
