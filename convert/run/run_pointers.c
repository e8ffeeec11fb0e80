#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/report.h"
#include "base/text.h"
#include "run/run.h"
#include "run/trainer_state.h"

#define TEXT_MAX 4096

/* Files that hold the name or the number of a checkpoint. */
static const struct {
    const char *name;
    bool latest; /* of the newest one; else of any */
} files[] = {{"latest", true},
             {"latest.txt", true},
             {"latest_checkpoint", true},
             {"latest_checkpoint.txt", true},
             {"latest_checkpointed_iteration.txt", true},
             {"latest_iteration.txt", true},
             {"latest_step.txt", true},
             {"latest_universal", false},
             {"last_checkpoint", true},
             {"last_checkpoint.txt", true}};

static int64_t file_of(const char *name)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strcmp(files[i].name, name) == 0)
            return (int64_t)i;
    return -1;
}

/* A link that is called so should lead to the newest one. */
static bool means_latest(const char *name)
{
    return strstr(name, "latest") != NULL || strncmp(name, "last", 4) == 0;
}

bool swi_run_is_pointer(const swi_listing_entry *e)
{
    return e->is_link ? means_latest(e->name)
                      : e->kind == SWI_ENTRY_FILE && file_of(e->name) >= 0 && e->bytes <= TEXT_MAX;
}

/* ---- what they say ------------------------------------------------------------------------- */

/* Without the spaces, line ends and byte order mark around it. */
static void trim(char *text)
{
    char *from = text;
    size_t size = strlen(text);
    if (strncmp(from, "\xEF\xBB\xBF", 3) == 0)
        from += 3;
    while (isspace((unsigned char)*from))
        from++;
    size -= (size_t)(from - text);
    while (size > 0 && isspace((unsigned char)from[size - 1]))
        size--;
    memmove(text, from, size);
    text[size] = '\0';
}

/* `room` holds TEXT_MAX + 1 bytes. Whether something could be read. */
static sw_status read_file(const sw_run *run, const char *name, char *room, sw_error *err)
{
    uint8_t *data = NULL;
    size_t size = 0;
    sw_error cause = {0};
    sw_status st = swi_store_read_all(run->store, name, TEXT_MAX, &data, &size, &cause);
    if (st != SW_OK && swi_error_of_machine(&cause)) {
        if (err != NULL)
            *err = cause;
        return st;
    }
    if (st != SW_OK)
        size = 0;
    if (size > 0)
        memcpy(room, data, size);
    room[size] = '\0';
    free(data);
    return SW_OK;
}

static int64_t find_name(const sw_run *run, const char *name)
{
    for (size_t i = 0; i < run->count; i++)
        if (strcmp(run->items[i].name, name) == 0)
            return (int64_t)i;
    return -1;
}

static bool is_number(const char *text, int64_t *out)
{
    int64_t number = 0;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 18 || text[digits] != '\0')
        return false;
    for (; *text != '\0'; text++)
        number = number * 10 + (*text - '0');
    *out = number;
    return true;
}

/* The checkpoint that a text names: by its name, the end of its path, or its number. */
static int64_t resolve(const sw_run *run, const char *says)
{
    char name[TEXT_MAX + 1];
    int64_t number;
    size_t size = strlen(says);
    while (size > 0 && says[size - 1] == '/')
        size--;
    size_t start = size;
    while (start > 0 && says[start - 1] != '/')
        start--;
    memcpy(name, says + start, size - start);
    name[size - start] = '\0';
    int64_t at = find_name(run, name);
    if (at >= 0 || !is_number(name, &number))
        return at;
    for (size_t i = 0; i < run->count; i++)
        if (run->items[i].told.unit == SWI_UNIT_STEP && run->items[i].told.number == number)
            return (int64_t)i;
    return -1;
}

/* ---- whether it is true --------------------------------------------------------------------- */

static sw_pointer_verdict verdict_of(const sw_run *run, int64_t to, bool latest)
{
    const swi_candidate *c = &run->items[to];
    if (c->found.state == SW_RUN_UNKNOWN)
        return SW_POINTER_UNKNOWN;
    if (c->found.state != SW_RUN_COMPLETE)
        return SW_POINTER_INCOMPLETE;
    if (!latest || run->newest_complete < 0 || c->told.unit == SWI_UNIT_NONE)
        return SW_POINTER_TRUE;
    const swi_candidate *newest = &run->items[run->newest_complete];
    return newest->told.unit == c->told.unit && newest->told.number > c->told.number
               ? SW_POINTER_BEHIND
               : SW_POINTER_TRUE;
}

static const char *newest_name(const sw_run *run, swi_quoted *room)
{
    return run->newest_complete < 0 ? "none"
                                    : swi_quote_str(room, run->items[run->newest_complete].name);
}

static sw_status say(const sw_run *run, const sw_run_pointer *p, bool counts, sw_report *report,
                     sw_error *err)
{
    static const struct {
        const char *code, *text;
        sw_severity severity;
    } words[] = {
        [SW_POINTER_BEHIND] = {"pointer-behind", "and a newer one is complete", SW_DEFECT},
        [SW_POINTER_INCOMPLETE] = {"pointer-incomplete", "which is not complete", SW_DEFECT},
        [SW_POINTER_MISSING] = {"pointer-missing", "which is not there", SW_DEFECT},
        [SW_POINTER_UNKNOWN] = {"pointer-unknown", "which could not be judged", SW_WARNING},
    };
    swi_quoted q;
    if (p->verdict == SW_POINTER_TRUE)
        return SW_OK;
    swi_finding_in in = {.severity = counts ? words[p->verdict].severity : SW_NOTE,
                         .code = words[p->verdict].code,
                         .file = p->name};
    if (p->says[0] == '\0')
        return swi_report_add(report, &in, err,
                              "empty, or cannot be read; the newest complete one is %s",
                              newest_name(run, &q));
    return swi_report_add(report, &in, err, "it names %s, %s; the newest complete one is %s",
                          p->says, words[p->verdict].text, newest_name(run, &q));
}

/* One more pointer; `to`: the item that it leads to, or -1 and then why not. */
static sw_status add(sw_run *run, const char *name, const char *says, int64_t to,
                     sw_pointer_verdict verdict, bool counts, sw_report *report, sw_error *err)
{
    sw_run_pointer p = {.verdict = verdict, .to = to >= 0 ? run->items[to].name : ""};
    swi_quoted q;
    const char *shown = swi_quote_str(&q, says);
    sw_status st = swi_arena_text(&run->arena, name, strlen(name), &p.name, err);
    if (st == SW_OK)
        st = swi_arena_text(&run->arena, shown, strlen(shown), &p.says, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&run->pointers, &run->pointer_capacity, run->pointer_count + 1,
                            sizeof *run->pointers, err);
    if (st != SW_OK)
        return st;
    run->pointers[run->pointer_count++] = p;
    return say(run, &p, counts, report, err);
}

static sw_status add_entry(sw_run *run, const swi_listing_entry *e, bool latest, const char *says,
                           sw_report *report, sw_error *err)
{
    int64_t to = resolve(run, says);
    bool leads_out = e->is_link && e->kind != SWI_ENTRY_OTHER; /* to something, if to none here */
    bool is_there = !e->is_link && swi_listing_find(run->listing, says) != NULL;
    if (e->is_link && !leads_out)
        to = -1; /* whatever its name is, it is not where the link says */
    sw_pointer_verdict verdict = to >= 0                 ? verdict_of(run, to, latest)
                                 : leads_out || is_there ? SW_POINTER_UNKNOWN
                                                         : SW_POINTER_MISSING;
    return add(run, e->name, says, to, verdict, true, report, err);
}

/* Trainer's best one; it may have been removed to save space, so that this is only noted. */
static sw_status add_best(sw_run *run, const char *folder, sw_report *report, sw_error *err)
{
    const sw_limits limits = sw_limits_resolve(NULL);
    swi_trainer_state state = {.global_step = -1};
    swi_store *store = NULL;
    swi_buf path = {0};
    sw_error cause = {0};
    sw_status st = swi_buf_printf(&path, err, "%s/%s", run->root, folder);
    if (st == SW_OK)
        st = swi_buf_u8(&path, 0, err);
    sw_status opened =
        st == SW_OK ? swi_store_open_posix((const char *)path.data, &store, &cause) : SW_ERR_NOMEM;
    if (st == SW_OK && opened == SW_OK)
        st = swi_trainer_state_read(store, &limits, &state, err);
    else if (st == SW_OK && opened == SW_ERR_NOMEM)
        st = swi_fail_nomem(err); /* else it is a file, which has none beside it */
    swi_store_close(store);
    path.size = 0;
    if (st == SW_OK)
        st = swi_buf_printf(&path, err, "%s%s" SWI_TRAINER_STATE_NAME, folder,
                            folder[0] != '\0' ? "/" : "");
    if (st == SW_OK)
        st = swi_buf_u8(&path, 0, err);
    if (st == SW_OK && state.best_model_checkpoint[0] != '\0') {
        int64_t to = resolve(run, state.best_model_checkpoint);
        st = add(run, (const char *)path.data, state.best_model_checkpoint, to,
                 to >= 0 ? verdict_of(run, to, false) : SW_POINTER_MISSING, false, report, err);
    }
    swi_buf_free(&path);
    return st;
}

sw_status swi_run_pointers(sw_run *run, sw_report *report, sw_error *err)
{
    char *says = NULL;
    sw_status st = swi_alloc_array(TEXT_MAX + 1, 1, (void **)&says, err);
    for (size_t i = 0; st == SW_OK && i < swi_listing_count(run->listing); i++) {
        const swi_listing_entry *e = swi_listing_at(run->listing, i);
        bool latest = means_latest(e->name);
        if (e->is_link) {
            st = swi_store_read_link(run->store, e->name, says, TEXT_MAX + 1, err);
            if (st == SW_OK && !latest && resolve(run, says) < 0)
                continue; /* a link to something else */
        } else if (swi_run_is_pointer(e)) {
            latest = files[file_of(e->name)].latest;
            st = read_file(run, e->name, says, err);
            if (st == SW_OK)
                trim(says);
        } else {
            continue;
        }
        if (st == SW_OK)
            st = add_entry(run, e, latest, says, report, err);
    }
    free(says);
    if (st == SW_OK)
        st = add_best(run, "", report, err);
    if (st == SW_OK && run->newest_complete >= 0)
        st = add_best(run, run->items[run->newest_complete].name, report, err);
    return st;
}
