#include "ranks/rank_series.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/names.h"
#include "base/report.h"
#include "base/text.h"
#include "codec/json.h"
#include "model/value.h"
#include "ranges.h"

#define DIGITS_MAX 9
#define CONFIG_BYTES_MAX 65536U

/* ---- RS-1: names ---------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_separator(char c)
{
    return c == '_' || c == '-' || c == '.';
}

/* The end of the name without the suffix of such files; 0: another suffix. */
static size_t stem_end(const char *name)
{
    static const char *const known[] = {".pt", ".pth", ".bin", ".ckpt"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (swi_has_suffix(name, known[i]))
            return strlen(name) - strlen(known[i]);
    return 0;
}

/* `word`, a separator or none, and a number, at `at`: the end of it, or 0. */
static size_t word_number(const char *name, size_t at, size_t end, const char *word, size_t *digits,
                          uint64_t *number)
{
    size_t n = strlen(word), i = at + n;
    if (i >= end || strncmp(name + at, word, n) != 0)
        return 0;
    i += is_separator(name[i]) && i + 1 < end;
    size_t from = i;
    while (i < end && is_digit(name[i]))
        i++;
    if (i == from || i - from > DIGITS_MAX || (i < end && is_letter(name[i])))
        return 0;
    *digits = i - from;
    *number = strtoull(name + from, NULL, 10);
    return i;
}

/* Ranks of one axis of a parallelism ("mp_rank_00") number something else. */
static bool is_of_axis(const char *name, size_t at)
{
    return at >= 3 && is_separator(name[at - 1]) && name[at - 2] == 'p' &&
           is_letter(name[at - 3]) && (at == 3 || !is_letter(name[at - 4]));
}

static bool begins_word(const char *name, size_t at)
{
    return at == 0 || !is_letter(name[at - 1]);
}

/* "world_size_8", "worldsize8", "world-8", "of_8". */
static size_t world_at(const char *name, size_t at, size_t end, uint64_t *world)
{
    static const char *const words[] = {"world_size", "world-size", "worldsize", "world", "of"};
    size_t digits;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t to = word_number(name, at, end, words[i], &digits, world);
        if (to > 0)
            return to;
    }
    return 0;
}

bool swi_series_name_parse(const char *name, swi_series_name *out)
{
    swi_series_name n = {0};
    size_t end = stem_end(name), from = SIZE_MAX, to = 0;
    bool has_rank = false;
    for (size_t i = 0; i < end; i++) {
        uint64_t number;
        size_t digits, after;
        if (!begins_word(name, i))
            continue;
        after = word_number(name, i, end, "rank", &digits, &number);
        if (after > 0 && (has_rank || is_of_axis(name, i)))
            return false;
        if (after > 0) {
            has_rank = true;
            n.rank = number;
            n.rank_at = after - digits;
            n.rank_digits = digits;
        } else {
            after = world_at(name, i, end, &number);
            n.world = after > 0 ? number : n.world;
        }
        if (after == 0)
            continue;
        from = i < from ? i : from;
        to = after;
        i = after - 1;
    }
    n.cut_at = from;
    n.cut_size = to - from;
    *out = n;
    return has_rank;
}

int64_t swi_series_saved_rank(const char *name, const char *saved_as)
{
    swi_series_name now;
    if (saved_as == NULL || !swi_series_name_parse(name, &now) ||
        strncmp(name, saved_as, now.rank_at) != 0)
        return -1;
    const char *number = saved_as + now.rank_at, *behind = name + now.rank_at + now.rank_digits;
    size_t digits = strspn(number, "0123456789"), rest = stem_end(name) - (size_t)(behind - name);
    if (digits == 0 || digits > DIGITS_MAX || strncmp(number + digits, behind, rest) != 0 ||
        strcmp(number + digits + rest, "/") != 0)
        return -1;
    return strtoll(number, NULL, 10);
}

/* What counts where it lies, whatever ranks have beside it. */
static bool is_whole_model(const char *name)
{
    return swi_has_suffix(name, ".safetensors") || strcmp(name, ".metadata") == 0 ||
           strcmp(name, "pytorch_model.bin") == 0 || swi_has_suffix(name, ".bin.index.json");
}

bool swi_rank_series_any(const swi_listing *listing)
{
    swi_series_name n;
    bool any = false;
    for (size_t i = 0; i < swi_listing_count(listing); i++) {
        const swi_listing_entry *e = swi_listing_at(listing, i);
        if (e->kind != SWI_ENTRY_FILE)
            continue;
        if (is_whole_model(e->name))
            return false;
        any = any || swi_series_name_parse(e->name, &n);
    }
    return any;
}

/* ---- what is there -------------------------------------------------------------------------- */

typedef struct finding_rows {
    swi_opening *o;
    swi_rank_folder *folder;
    swi_names *patterns;
    uint64_t config_world; /* 0: not told */
} finding_rows;

static sw_status pattern_of(const char *name, const swi_series_name *n, swi_buf *out, sw_error *err)
{
    const char *behind = name + n->rank_at + n->rank_digits;
    return swi_buf_printf(out, err, "%.*s{R}%s", (int)n->rank_at, name, behind);
}

static sw_status add_series(finding_rows *f, uint32_t id, const swi_series_name *n, sw_error *err)
{
    swi_rank_folder *folder = f->folder;
    size_t size;
    const char *pattern = swi_names_at(f->patterns, id, &size);
    sw_status st = swi_grow_array((void **)&folder->series, &folder->capacity, (size_t)id + 1,
                                  sizeof *folder->series, err);
    if (st != SW_OK)
        return st;
    swi_rank_series *s = &folder->series[id];
    *s = (swi_rank_series){.world = n->world};
    folder->count++;
    return swi_arena_text(&folder->arena, pattern, size, &s->pattern, err);
}

static sw_status add_file(finding_rows *f, const char *name, const swi_series_name *n,
                          sw_error *err)
{
    swi_buf pattern = {0};
    uint32_t id = 0;
    bool is_new = false;
    sw_status st = pattern_of(name, n, &pattern, err);
    if (st == SW_OK)
        st = swi_names_add(f->patterns, pattern.data, pattern.size, &id, &is_new, err);
    swi_buf_free(&pattern);
    if (st == SW_OK && is_new)
        st = add_series(f, id, n, err);
    if (st != SW_OK)
        return st;
    swi_rank_series *s = &f->folder->series[id];
    st = swi_grow_array((void **)&s->files, &s->capacity, s->count + 1, sizeof *s->files, err);
    if (st == SW_OK)
        s->files[s->count++] = (swi_series_file){.name = name, .rank = n->rank};
    return st;
}

static sw_status add_files(finding_rows *f, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < swi_listing_count(f->o->listing); i++) {
        const swi_listing_entry *e = swi_listing_at(f->o->listing, i);
        swi_series_name n;
        if (e->kind == SWI_ENTRY_FILE && swi_series_name_parse(e->name, &n))
            st = add_file(f, e->name, &n, err);
    }
    return st;
}

/* ---- RS-3: the configuration beside them ---------------------------------------------------- */

/* A configuration that cannot be read says nothing. */
static sw_status read_config(finding_rows *f, sw_error *err)
{
    const swi_listing_entry *e = swi_listing_find(f->o->listing, SWI_RANK_CONFIG);
    uint8_t *data = NULL;
    size_t size = 0;
    sw_value_graph *g = NULL;
    sw_value root, v;
    int64_t n;
    sw_error cause = {0};
    f->folder->fsdp_version = -1;
    if (e == NULL || e->kind != SWI_ENTRY_FILE)
        return SW_OK;
    sw_status st =
        swi_store_read_all(f->o->store, SWI_RANK_CONFIG, CONFIG_BYTES_MAX, &data, &size, &cause);
    if (st == SW_OK)
        st = swi_json_parse(data, size, &f->o->limits, &g, &root, &cause);
    if (st == SW_OK && swi_value_get(g, root, "FSDP_version", &v) && sw_value_int(g, v, &n))
        f->folder->fsdp_version = n;
    if (st == SW_OK && swi_value_get(g, root, "world_size", &v) && sw_value_int(g, v, &n) && n > 0)
        f->config_world = (uint64_t)n;
    free(data);
    sw_value_graph_free(g);
    if (st == SW_OK || st == SW_ERR_NOMEM)
        return st == SW_OK ? SW_OK : swi_fail_nomem(err);
    swi_finding_in in = {
        .severity = SW_WARNING, .status = st, .code = "unreadable-file", .file = SWI_RANK_CONFIG};
    return swi_report_error(f->o->report, &in, &cause, err);
}

/* ---- RS-2: how many ranks there were -------------------------------------------------------- */

static sw_status several_worlds(const finding_rows *f, const swi_rank_series *a,
                                const swi_rank_series *b, sw_error *err)
{
    swi_quoted p, q;
    f->o->ambiguous = true;
    return swi_fail_at(err, SW_ERR_CONFLICT, "RS-2", 0,
                       "files of %" PRIu64 " ranks (%s) and of %" PRIu64
                       " ranks (%s) lie here, and nothing tells which are meant; move those of one "
                       "save elsewhere",
                       a->world, swi_quote_str(&p, a->pattern), b->world,
                       swi_quote_str(&q, b->pattern));
}

/* The world size that the names of the series tell, where they agree; 0: none tells. */
static sw_status named_world(const finding_rows *f, uint64_t *out, bool *has_config, sw_error *err)
{
    const swi_rank_series *first = NULL, *other = NULL;
    *has_config = false;
    for (size_t i = 0; i < f->folder->count; i++) {
        const swi_rank_series *s = &f->folder->series[i];
        if (s->world == 0)
            continue;
        *has_config = *has_config || s->world == f->config_world;
        first = first == NULL ? s : first;
        other = s->world != first->world ? s : other;
    }
    *out = first != NULL ? first->world : 0;
    return other != NULL && !*has_config ? several_worlds(f, first, other, err) : SW_OK;
}

static uint64_t highest_rank(const swi_rank_folder *folder)
{
    uint64_t highest = 0;
    for (size_t i = 0; i < folder->count; i++)
        for (size_t k = 0; k < folder->series[i].count; k++)
            if (folder->series[i].files[k].rank > highest)
                highest = folder->series[i].files[k].rank;
    return highest;
}

static sw_status find_world(finding_rows *f, sw_error *err)
{
    bool has_config;
    uint64_t named = 0;
    sw_status st = named_world(f, &named, &has_config, err);
    if (st != SW_OK)
        return st;
    uint64_t config = f->config_world;
    f->folder->world = has_config   ? config
                       : named > 0  ? named
                       : config > 0 ? config
                                    : highest_rank(f->folder) + 1;
    if (f->folder->world > f->o->limits.files)
        return swi_fail(err, SW_ERR_LIMIT, "files of %" PRIu64 " ranks", f->folder->world);
    if (config == 0 || has_config || named == 0)
        return SW_OK;
    swi_finding_in in = {.severity = SW_DEFECT,
                         .status = SW_ERR_CONFLICT,
                         .code = "other-world",
                         .file = SWI_RANK_CONFIG};
    swi_opening_incomplete(f->o);
    return swi_report_add(f->o->report, &in, err,
                          "it tells of %" PRIu64 " ranks, and the names of the files of %" PRIu64,
                          config, named);
}

/* ---- RS-4: which file is whose -------------------------------------------------------------- */

static int by_rank(const void *a, const void *b)
{
    const swi_series_file *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return strcmp(x->name, y->name);
}

static sw_status stale(const finding_rows *f, const char *name, sw_error *err)
{
    swi_finding_in in = {.severity = SW_WARNING, .code = "stale-file", .file = name};
    return swi_report_add(f->o->report, &in, err,
                          "a file of another save than that of %" PRIu64 " ranks: it is not read",
                          f->folder->world);
}

static sw_status doubled(const finding_rows *f, const swi_series_file *first, const char *name,
                         sw_error *err)
{
    swi_quoted q;
    swi_finding_in in = {
        .severity = SW_DEFECT, .status = SW_ERR_CONFLICT, .code = "duplicate-rank", .file = name};
    swi_opening_incomplete(f->o);
    return swi_report_add(f->o->report, &in, err,
                          "%s is a file of rank %" PRIu64 " too: nothing tells which is right",
                          swi_quote_str(&q, first->name), first->rank);
}

/* Leaves the files that count, each rank once. */
static sw_status settle(const finding_rows *f, swi_rank_series *s, sw_error *err)
{
    uint64_t world = f->folder->world;
    size_t kept = 0;
    sw_status st = SW_OK;
    qsort(s->files, s->count, sizeof *s->files, by_rank);
    for (size_t i = 0; st == SW_OK && i < s->count; i++) {
        const swi_series_file *file = &s->files[i];
        if ((s->world != 0 && s->world != world) || file->rank >= world)
            st = stale(f, file->name, err);
        else if (kept > 0 && s->files[kept - 1].rank == file->rank)
            st = doubled(f, &s->files[kept - 1], file->name, err);
        else
            s->files[kept++] = *file;
    }
    s->count = kept;
    return st;
}

/* The name that the file of a rank would have, as wide a number as those that are there. */
static sw_status name_of_rank(const swi_rank_series *s, uint64_t rank, swi_buf *out, sw_error *err)
{
    swi_series_name n = {0};
    const char *name = s->files[0].name;
    bool is = swi_series_name_parse(name, &n);
    int width = is && name[n.rank_at] == '0' ? (int)n.rank_digits : 1;
    sw_status st = swi_buf_printf(out, err, "%.*s%0*" PRIu64 "%s", (int)n.rank_at, name, width,
                                  rank, name + n.rank_at + n.rank_digits);
    return st == SW_OK ? swi_buf_u8(out, 0, err) : st;
}

/* Of what ranks have for themselves some may have nothing; of all else every rank has a part. */
static sw_status say_missing(const finding_rows *f, const swi_rank_series *s, sw_error *err)
{
    swi_ranges gone = {0};
    swi_buf name = {0};
    uint64_t first = 0;
    size_t at = 0;
    bool own = s->role == SW_ROLE_OTHER;
    for (uint64_t rank = 0; rank < f->folder->world; rank++) {
        if (at < s->count && s->files[at].rank == rank) {
            at++;
            continue;
        }
        first = gone.count == 0 ? rank : first;
        swi_ranges_add(&gone, rank);
    }
    if (gone.count == 0)
        return SW_OK;
    sw_status st = name_of_rank(s, first, &name, err);
    swi_finding_in in = {.severity = own ? SW_WARNING : SW_DEFECT,
                         .status = SW_ERR_INCOMPLETE,
                         .code = "missing-file",
                         .file = (const char *)name.data};
    swi_quoted q;
    if (!own)
        swi_opening_incomplete(f->o);
    if (st == SW_OK)
        st = swi_report_add(f->o->report, &in, err,
                            "of rank%s %s of %" PRIu64 " there is no file (%s)",
                            gone.count > 1 ? "s" : "", swi_ranges_text(&gone), f->folder->world,
                            swi_quote_str(&q, s->pattern));
    swi_buf_free(&name);
    return st;
}

/* ---- RS-5: where they go -------------------------------------------------------------------- */

/* What names a series: the name without rank, world size, suffix and the separators around. */
static sw_status stem_of(const swi_rank_series *s, swi_arena *arena, const char **out,
                         sw_error *err)
{
    const char *name = s->files[0].name;
    swi_series_name n;
    swi_buf stem = {0};
    if (!swi_series_name_parse(name, &n))
        return swi_fail(err, SW_ERR_ARG, "%s is no file of a rank", name);
    size_t end = stem_end(name), cut = n.cut_at, behind = n.cut_at + n.cut_size;
    while (cut > 0 && is_separator(name[cut - 1]))
        cut--;
    while (behind < end && is_separator(name[behind]))
        behind++;
    sw_status st = swi_buf_append(&stem, name, cut, err);
    if (st == SW_OK && cut > 0 && behind < end)
        st = swi_buf_u8(&stem, '_', err);
    if (st == SW_OK)
        st = swi_buf_append(&stem, name + behind, end - behind, err);
    if (st == SW_OK)
        st = swi_arena_text(arena, stem.size > 0 ? (const char *)stem.data : "rank",
                            stem.size > 0 ? stem.size : 4, out, err);
    swi_buf_free(&stem);
    return st;
}

/* Models are looked for under what begins so. */
static const char *own_item(const char *stem)
{
    return strncmp(stem, "pytorch_model", 13) == 0 ? strstr(stem, "model") : stem;
}

static const char *usual_item(const char *stem, sw_role *role)
{
    *role = SW_ROLE_OTHER;
    if (strncmp(stem, "optim", 5) == 0) {
        *role = SW_ROLE_OPTIMIZER;
        return "optimizer";
    }
    if (strncmp(own_item(stem), "model", 5) == 0) {
        *role = SW_ROLE_PARAMETER;
        return "model";
    }
    return stem;
}

/* "fsdp_optim_rank_0.pt": where no name begins with the word, those that have it are meant. */
static void items_by_word(swi_rank_folder *folder, const char *const *stems, const char *word,
                          const char *item, sw_role role)
{
    for (size_t i = 0; i < folder->count; i++)
        if (folder->series[i].role == role)
            return;
    for (size_t i = 0; i < folder->count; i++)
        for (const char *at = stems[i]; (at = strstr(at, word)) != NULL; at++)
            if (folder->series[i].role == SW_ROLE_OTHER &&
                begins_word(stems[i], (size_t)(at - stems[i]))) {
                folder->series[i].item = item;
                folder->series[i].role = role;
            }
}

/* Marks the series that go under the name of another one. */
static sw_status mark_taken(const swi_rank_folder *folder, bool *taken, sw_error *err)
{
    swi_names *items = NULL;
    size_t *first = NULL;
    sw_status st = swi_names_make(&items, err);
    if (st == SW_OK)
        st = swi_alloc_array(folder->count, sizeof *first, (void **)&first, err);
    for (size_t i = 0; st == SW_OK && i < folder->count; i++) {
        const char *item = folder->series[i].item;
        uint32_t id;
        bool is_new = taken[i] = false;
        st = swi_names_add(items, item, strlen(item), &id, &is_new, err);
        if (st == SW_OK && is_new)
            first[id] = i;
        else if (st == SW_OK)
            taken[i] = taken[first[id]] = true;
    }
    free(first);
    swi_names_free(items);
    return st;
}

/* RS-5: "model_rank_0.pt" and "model_rank_0.bin" are not parts of one thing. */
static sw_status same_name(const finding_rows *f, size_t i, sw_error *err)
{
    const swi_rank_series *a = &f->folder->series[i], *b = a + 1;
    swi_quoted p, q;
    while (strcmp(b->item, a->item) != 0)
        b++;
    f->o->ambiguous = true;
    return swi_fail_at(err, SW_ERR_CONFLICT, "RS-5", 0,
                       "%s and %s are both \"%.100s\"; move those that are not meant elsewhere",
                       swi_quote_str(&p, a->pattern), swi_quote_str(&q, b->pattern), a->item);
}

/* Two series of one kind (models of a trainer) go under their own names, models under model*. */
static sw_status tell_apart(const finding_rows *f, const char *const *stems, sw_error *err)
{
    swi_rank_folder *folder = f->folder;
    bool *taken = NULL;
    sw_status st = swi_alloc_array(folder->count, sizeof *taken, (void **)&taken, err);
    for (int round = 0; st == SW_OK && round < 2; round++) {
        st = mark_taken(folder, taken, err);
        for (size_t i = 0; st == SW_OK && i < folder->count; i++)
            if (taken[i] && round == 0)
                folder->series[i].item = own_item(stems[i]);
            else if (taken[i])
                st = same_name(f, i, err);
    }
    free(taken);
    return st;
}

static int by_role(const void *a, const void *b)
{
    const swi_rank_series *x = a, *y = b;
    int i = x->role == SW_ROLE_PARAMETER ? 0 : x->role == SW_ROLE_OPTIMIZER ? 1 : 2;
    int k = y->role == SW_ROLE_PARAMETER ? 0 : y->role == SW_ROLE_OPTIMIZER ? 1 : 2;
    return i != k ? i - k : strcmp(x->pattern, y->pattern);
}

static sw_status find_items(const finding_rows *f, sw_error *err)
{
    swi_rank_folder *folder = f->folder;
    const char **stems = NULL;
    sw_status st = swi_alloc_array(folder->count, sizeof *stems, (void **)&stems, err);
    for (size_t i = 0; st == SW_OK && i < folder->count; i++) {
        swi_rank_series *s = &folder->series[i];
        st = stem_of(s, &folder->arena, &stems[i], err);
        if (st == SW_OK)
            s->item = usual_item(stems[i], &s->role);
    }
    if (st == SW_OK) {
        items_by_word(folder, stems, "optim", "optimizer", SW_ROLE_OPTIMIZER);
        items_by_word(folder, stems, "model", "model", SW_ROLE_PARAMETER);
        st = tell_apart(f, stems, err);
    }
    if (st == SW_OK && folder->count == 1 && folder->series[0].role == SW_ROLE_OTHER) {
        folder->series[0].item = NULL;
        folder->series[0].role = SW_ROLE_PARAMETER;
    }
    if (st == SW_OK)
        qsort(folder->series, folder->count, sizeof *folder->series, by_role);
    free(stems);
    return st;
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* Series of which nothing is left are forgotten. */
static sw_status settle_all(const finding_rows *f, sw_error *err)
{
    swi_rank_folder *folder = f->folder;
    size_t kept = 0;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < folder->count; i++)
        st = settle(f, &folder->series[i], err);
    for (size_t i = 0; i < folder->count; i++) {
        if (st == SW_OK && folder->series[i].count == 0)
            free(folder->series[i].files);
        else
            folder->series[kept++] = folder->series[i];
    }
    folder->count = kept;
    return st;
}

sw_status swi_rank_folder_find(swi_opening *o, swi_rank_folder *out, sw_error *err)
{
    swi_rank_folder folder = {0};
    finding_rows f = {.o = o, .folder = &folder};
    sw_status st = swi_names_make(&f.patterns, err);
    if (st == SW_OK)
        st = add_files(&f, err);
    if (st == SW_OK)
        st = read_config(&f, err);
    if (st == SW_OK && folder.count > 0)
        st = find_world(&f, err);
    if (st == SW_OK)
        st = settle_all(&f, err);
    if (st == SW_OK && folder.count == 0)
        st = swi_fail(err, SW_ERR_INCOMPLETE, "no file of a rank is there");
    if (st == SW_OK)
        st = find_items(&f, err);
    for (size_t i = 0; st == SW_OK && i < folder.count; i++)
        st = say_missing(&f, &folder.series[i], err);
    swi_names_free(f.patterns);
    if (st == SW_OK)
        *out = folder;
    else
        swi_rank_folder_free(&folder);
    return st;
}

void swi_rank_folder_free(swi_rank_folder *folder)
{
    for (size_t i = 0; i < folder->count; i++)
        free(folder->series[i].files);
    free(folder->series);
    swi_arena_free(&folder->arena);
    *folder = (swi_rank_folder){0};
}
