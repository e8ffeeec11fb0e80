#include "trainer/parts.h"

#include <stdlib.h>
#include <string.h>

#include "select/names.h"

/* TR-1: names are STEM, or STEM_NUMBER, and SUFFIX. */
typedef struct convention {
    const char *stem, *suffix;
    swi_entry_kind entry;
    swi_part_kind kind;
    const char *key; /* NULL: STEM, with its number */
    bool per_rank;   /* the number is a rank's */
} convention;

static const convention conventions[] = {
    {"pytorch_model_fsdp", "", SWI_ENTRY_DIR, SWI_PART_MODEL, "model", false},
    {"pytorch_model_fsdp", ".bin", SWI_ENTRY_FILE, SWI_PART_MODEL, "model", false},
    {"optimizer", "", SWI_ENTRY_DIR, SWI_PART_OPTIMIZER, "optimizer", false},
    {"optimizer", ".bin", SWI_ENTRY_FILE, SWI_PART_OPTIMIZER, "optimizer", false},
    {"scheduler", ".bin", SWI_ENTRY_FILE, SWI_PART_BESIDE, NULL, false},
    {"scheduler", ".pt", SWI_ENTRY_FILE, SWI_PART_BESIDE, NULL, false},
    {"sampler", ".bin", SWI_ENTRY_FILE, SWI_PART_BESIDE, NULL, false},
    {"dl_state_dict", ".bin", SWI_ENTRY_FILE, SWI_PART_BESIDE, NULL, false},
    {"scaler", ".pt", SWI_ENTRY_FILE, SWI_PART_BESIDE, NULL, false},
    {"random_states", ".pkl", SWI_ENTRY_FILE, SWI_PART_BESIDE, NULL, true},
    {"rng_state", ".pth", SWI_ENTRY_FILE, SWI_PART_BESIDE, NULL, true},
    {"custom_checkpoint", ".pkl", SWI_ENTRY_FILE, SWI_PART_BESIDE, NULL, false},
};

/* TR-2: what a whole DCP folder of Lightning has beside. */
#define META_NAME "meta.pt"
/* Of "_12": longer numbers are no rank's. */
#define RANK_DIGITS_MAX 9

/* "" or "_12"; the length of what stands before the suffix, 0: another name. */
static size_t numbered(const char *name, const convention *c, const char **number)
{
    size_t stem = strlen(c->stem), size = strlen(name), suffix = strlen(c->suffix);
    if (size < stem + suffix || strncmp(name, c->stem, stem) != 0 ||
        strcmp(name + size - suffix, c->suffix) != 0)
        return 0;
    *number = name + stem;
    size_t end = size - suffix, digits = 0;
    for (size_t i = stem + 1; i < end && name[i] >= '0' && name[i] <= '9'; i++)
        digits++;
    bool bare = end == stem;
    return bare || (name[stem] == '_' && digits > 0 && stem + 1 + digits == end) ? end : 0;
}

static sw_status add(swi_trainer_parts *parts, const swi_trainer_part *part, sw_error *err)
{
    sw_status st = swi_grow_array((void **)&parts->items, &parts->capacity, parts->count + 1,
                                  sizeof *parts->items, err);
    if (st != SW_OK)
        return st;
    parts->items[parts->count++] = *part;
    if (part->kind == SWI_PART_MODEL)
        parts->models++;
    else
        parts->others++;
    return SW_OK;
}

/* The first of a kind has no number in its key: "optimizer", "optimizer_1". */
static sw_status key_of(swi_trainer_parts *parts, const convention *c, const char *name, size_t end,
                        const char *number, const char **out, sw_error *err)
{
    char text[256];
    size_t digits = (size_t)(name + end - number), base;
    if (c->key == NULL)
        return swi_arena_text(&parts->arena, name, end, out, err);
    if (digits == 0 || (digits == 2 && number[1] == '0')) {
        *out = c->key;
        return SW_OK;
    }
    base = strlen(c->key);
    if (base + digits >= sizeof text)
        digits = sizeof text - base - 1;
    memcpy(text, c->key, base);
    memcpy(text + base, number, digits);
    return swi_arena_text(&parts->arena, text, base + digits, out, err);
}

static sw_status add_entry(swi_trainer_parts *parts, const swi_listing_entry *e, sw_error *err)
{
    for (size_t i = 0; i < sizeof conventions / sizeof conventions[0]; i++) {
        const convention *c = &conventions[i];
        const char *number;
        swi_trainer_part part = {.kind = c->kind, .name = e->name, .rank = -1};
        size_t end = e->kind == c->entry ? numbered(e->name, c, &number) : 0;
        if (end == 0 || (c->entry == SWI_ENTRY_DIR && number == e->name + end))
            continue;
        if (c->per_rank && number[0] == '_' && e->name + end - number <= RANK_DIGITS_MAX)
            part.rank = strtoll(number + 1, NULL, 10);
        sw_status st = key_of(parts, c, e->name, end, number, &part.key, err);
        return st == SW_OK ? add(parts, &part, err) : st;
    }
    return SW_OK;
}

/* TR-3: "pytorch_model_fsdp_rank3.bin": files of ranks are one part, with their optimizer's. */
static bool is_rank_file(const swi_listing_entry *e)
{
    static const char stem[] = "pytorch_model_fsdp_";
    if (e->kind != SWI_ENTRY_FILE || strncmp(e->name, stem, sizeof stem - 1) != 0)
        return false;
    return strstr(e->name + sizeof stem - 1, "rank") != NULL && swi_has_suffix(e->name, ".bin");
}

static sw_status add_own(swi_trainer_parts *parts, const swi_listing *listing, sw_error *err)
{
    const swi_listing_entry *index = swi_listing_find(listing, ".metadata");
    const swi_listing_entry *meta = swi_listing_find(listing, META_NAME);
    const swi_trainer_part here = {.kind = SWI_PART_MODEL, .name = "", .key = "", .rank = -1};
    const swi_trainer_part rest = {
        .kind = SWI_PART_BESIDE, .name = META_NAME, .key = "", .rank = -1};
    bool own = false;
    for (size_t i = 0; !own && i < swi_listing_count(listing); i++)
        own = is_rank_file(swi_listing_at(listing, i));
    bool dcp = index != NULL && index->kind == SWI_ENTRY_FILE && meta != NULL &&
               meta->kind == SWI_ENTRY_FILE;
    sw_status st = own || dcp ? add(parts, &here, err) : SW_OK;
    return st == SW_OK && dcp ? add(parts, &rest, err) : st;
}

static int by_kind(const void *left, const void *right)
{
    const swi_trainer_part *a = left, *b = right;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return swi_name_order(a->name, b->name);
}

sw_status swi_trainer_parts_find(const swi_listing *listing, swi_trainer_parts *out, sw_error *err)
{
    swi_trainer_parts parts = {0};
    sw_status st = add_own(&parts, listing, err);
    for (size_t i = 0; st == SW_OK && i < swi_listing_count(listing); i++)
        st = add_entry(&parts, swi_listing_at(listing, i), err);
    if (parts.count > 1)
        qsort(parts.items, parts.count, sizeof *parts.items, by_kind);
    if (st == SW_OK)
        *out = parts;
    else
        swi_trainer_parts_free(&parts);
    return st;
}

void swi_trainer_parts_free(swi_trainer_parts *parts)
{
    swi_arena_free(&parts->arena);
    free(parts->items);
    *parts = (swi_trainer_parts){0};
}
