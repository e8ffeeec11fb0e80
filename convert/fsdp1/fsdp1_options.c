#include "fsdp1/fsdp1_options.h"

#include <inttypes.h>
#include <string.h>

#include "base/nearest.h"
#include "base/text.h"
#include "target/leaf_division.h"
#include "target/target.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const char *const names[] = {"dp",    "mode",      "use_orig_params",
                                    "files", "replicate", "device"};
enum { DP, MODE, USE_ORIG_PARAMS, FILES, REPLICATE, DEVICE };
static const char *const modes[] = {
    [SWI_FSDP1_SHARDED] = "sharded", [SWI_FSDP1_FULL] = "full", [SWI_FSDP1_LOCAL] = "local"};
static const char *const booleans[] = {"false", "true"};
static const char *const files[] = {"dcp", "ranks"};

typedef struct text {
    const char *at;
    size_t size;
} text;

static bool is(const text *t, const char *word)
{
    return strlen(word) == t->size && memcmp(word, t->at, t->size) == 0;
}

/* The place of the word in the list. */
static sw_status find(const text *t, const char *const *list, size_t count, const char *what,
                      size_t *out, sw_error *err)
{
    char known[128];
    size_t used = 0;
    swi_quoted q;
    swi_nearest nearest = swi_nearest_begin(t->at, t->size);
    for (size_t i = 0; i < count; i++) {
        *out = i;
        if (is(t, list[i]))
            return SW_OK;
        swi_nearest_offer(&nearest, list[i]);
        const size_t n = strlen(list[i]);
        if (used + n + 3 > sizeof known)
            continue;
        memcpy(known + used, i > 0 ? ", " : "", i > 0 ? 2 : 0);
        used += i > 0 ? 2 : 0;
        memcpy(known + used, list[i], n);
        used += n;
    }
    known[used] = '\0';
    return swi_fail_at(
        err, SW_ERR_ARG, "FS-31", 0, "--to fsdp1: \"%s\" is no %s; there are %s%s%s%s",
        swi_quote(&q, t->at, t->size), what, known, nearest.found != NULL ? "; did you mean " : "",
        nearest.found != NULL ? nearest.found : "", nearest.found != NULL ? "?" : "");
}

static sw_status parse_ranks(const text *t, const char *name, uint64_t *out, sw_error *err)
{
    uint64_t n = 0;
    swi_quoted q;
    for (size_t i = 0; i < t->size && n <= SWI_TARGET_RANKS_MAX; i++) {
        if (t->at[i] < '0' || t->at[i] > '9') {
            n = 0;
            break;
        }
        n = n * 10 + (uint64_t)(t->at[i] - '0');
    }
    if (n == 0 || n > SWI_TARGET_RANKS_MAX)
        return swi_fail_at(err, SW_ERR_ARG, "FS-31", 0,
                           "--to fsdp1: %s=%s: a number of ranks from 1 to %u is wanted", name,
                           swi_quote(&q, t->at, t->size), SWI_TARGET_RANKS_MAX);
    *out = n;
    return SW_OK;
}

static sw_status parse_device(const text *t, swi_fsdp1_options *o, sw_error *err)
{
    swi_quoted q;
    if (t->size == 0 || t->size >= sizeof o->device)
        return swi_fail_at(err, SW_ERR_ARG, "FS-31", 0,
                           "--to fsdp1: device=%s: the kind of device that ranks ran on is wanted, "
                           "such as cuda",
                           swi_quote(&q, t->at, t->size));
    memcpy(o->device, t->at, t->size);
    o->device[t->size] = '\0';
    return SW_OK;
}

static sw_status parse_one(const text *whole, swi_fsdp1_options *o, sw_error *err)
{
    const char *equals = memchr(whole->at, '=', whole->size);
    const text name = {whole->at, equals != NULL ? (size_t)(equals - whole->at) : whole->size};
    text value = {.at = equals != NULL ? equals + 1 : whole->at + whole->size};
    value.size = (size_t)(whole->at + whole->size - value.at);
    size_t option, which = 0;
    sw_status st = find(&name, names, COUNT(names), "option", &option, err);
    if (st != SW_OK)
        return st;
    switch (option) {
    case DP:
        return parse_ranks(&value, "dp", &o->ranks, err);
    case DEVICE:
        return parse_device(&value, o, err);
    case REPLICATE:
        return parse_ranks(&value, "replicate", &o->replicate, err);
    case MODE:
        st = find(&value, modes, COUNT(modes), "mode", &which, err);
        o->mode = (swi_fsdp1_mode)which;
        return st;
    case FILES:
        st = find(&value, files, COUNT(files), "kind of files", &which, err);
        o->rank_files = which == 1;
        return st;
    default:
        st = find(&value, booleans, COUNT(booleans), "value of use_orig_params", &which, err);
        o->use_orig_params = which == 1;
        return st;
    }
}

/* FS-32: what torch itself cannot load. */
static sw_status check(const swi_fsdp1_options *o, sw_error *err)
{
    const char *why = NULL;
    if (o->mode == SWI_FSDP1_LOCAL && o->use_orig_params)
        why = "mode=local with use_orig_params=true: torch cannot load LOCAL_STATE_DICT into a "
              "model of use_orig_params=True; use mode=sharded or mode=full";
    else if (o->mode == SWI_FSDP1_LOCAL && o->replicate > 1)
        why = "mode=local with replicate: torch has no LOCAL_STATE_DICT of a model with a mesh; "
              "use mode=sharded or mode=full";
    else if (o->rank_files && o->use_orig_params)
        why = "files=ranks with use_orig_params=true: the optimizer's shards would be those of "
              "single parameters, which are not written; leave files=ranks out: the optimizer goes "
              "by names then";
    else if (o->mode == SWI_FSDP1_FULL && o->rank_files)
        why = "mode=full is one file; leave files=ranks out";
    else if (o->mode == SWI_FSDP1_FULL && o->replicate > 1)
        why = "mode=full is one file for any number of ranks; leave replicate out";
    return why == NULL ? SW_OK : swi_fail_at(err, SW_ERR_ARG, "FS-32", 0, "--to fsdp1: %s", why);
}

bool swi_fsdp1_is_raw(const swi_fsdp1_options *options, const swi_target *target)
{
    return options->rank_files && !target->form_asked;
}

sw_status swi_fsdp1_options_parse(const char *at, swi_fsdp1_options *out, sw_error *err)
{
    swi_fsdp1_options made = {.ranks = 1, .replicate = 1, .device = "cuda"};
    sw_status st = SW_OK;
    while (st == SW_OK && *at != '\0') {
        const text one = {at, strcspn(at, ",")};
        st = parse_one(&one, &made, err);
        at += one.size + (at[one.size] == ',');
    }
    if (st == SW_OK)
        st = check(&made, err);
    if (st == SW_OK)
        *out = made;
    return st;
}
