/* What numbered parameters may be: the model's tensors, or names that are given. Clause OPT-7. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "optimizer/optimizer_parts.h"
#include "select/names.h"

typedef struct finding {
    swi_lifting *l;
    swi_opt_candidate *items;
    size_t count, capacity;
} finding;

sw_status swi_opt_ask(const swi_lifting *l, sw_error *err, sw_status status, const char *clause,
                      const char *text)
{
    return swi_opt_fail(
        l, err, status, clause,
        "its parameters are numbered, and %s; give the names of all parameters in "
        "the order of the module with --param-names, or the model's configuration with --config, "
        "or keep numbers (optimizer=keep)",
        text);
}

/* What torch's own modules register as buffers: no optimizer has them. */
static bool is_buffer(const char *name)
{
    static const char *const buffers[] = {"running_mean", "running_var", "num_batches_tracked"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        if (strcmp(dot != NULL ? dot + 1 : name, buffers[i]) == 0)
            return true;
    }
    return false;
}

/* 2: called "model"; 1: some part; 0: the top. */
static int section_rank(const char *section)
{
    const char *dot = strrchr(section, '.');
    if (section[0] == '\0')
        return 0;
    return strcmp(dot != NULL ? dot + 1 : section, "model") == 0 ? 2 : 1;
}

/* OPT-7: the section of the model; NULL: there are no parameters. */
static sw_status model_section(finding *f, const char **section, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(f->l->checkpoint);
    const char *here, *name, *other = NULL;
    sw_tensor_info info;
    *section = NULL;
    for (size_t i = 0; sw_catalog_tensor(catalog, i, &info); i++) {
        if (info.role != SW_ROLE_PARAMETER)
            continue;
        sw_checkpoint_split_name(f->l->checkpoint, i, &here, &name);
        if (*section != NULL && strcmp(here, *section) == 0)
            continue;
        if (*section == NULL || section_rank(here) > section_rank(*section)) {
            *section = here;
            other = NULL;
        } else if (section_rank(here) == section_rank(*section)) {
            other = here;
        }
    }
    if (other == NULL)
        return SW_OK;
    char text[600];
    swi_quoted a, b;
    (void)snprintf(text, sizeof text, "\"%.200s\" or \"%.200s\" may be its model",
                   swi_quote_str(&a, *section), swi_quote_str(&b, other));
    return swi_opt_ask(f->l, err, SW_ERR_CONFLICT, "OPT-7", text);
}

static sw_status add_candidate(finding *f, const char *name, const sw_tensor_info *info,
                               sw_error *err)
{
    swi_opt_candidate c = {.name = name};
    if (info != NULL) {
        c.has_shape = true;
        c.axes = info->axes;
        memcpy(c.shape, info->shape, sizeof c.shape);
    }
    sw_status st =
        swi_grow_array((void **)&f->items, &f->capacity, f->count + 1, sizeof *f->items, err);
    if (st == SW_OK)
        f->items[f->count++] = c;
    return st;
}

/* The names of the model's tensors, wrappers off, in the arena; in the order of the catalog. */
static sw_status model_names(finding *f, const char *section, swi_names *names, size_t **tensors,
                             sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(f->l->checkpoint);
    const char *here, *name;
    bool drop_module = true;
    size_t capacity = 0;
    sw_tensor_info info;
    swi_buf clean = {0};
    uint64_t removed = 0;
    sw_status st = SW_OK;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; st == SW_OK && sw_catalog_tensor(catalog, i, &info); i++) {
            uint32_t id;
            sw_checkpoint_split_name(f->l->checkpoint, i, &here, &name);
            if (info.role != SW_ROLE_PARAMETER || strcmp(here, section) != 0)
                continue;
            drop_module = drop_module && swi_has_module_prefix(name);
            if (pass == 0)
                continue;
            clean.size = 0;
            st = f->l->naming.keep_prefixes
                     ? swi_buf_append(&clean, name, strlen(name) + 1, err)
                     : swi_clean_name(name, drop_module, &clean, &removed, err);
            if (st == SW_OK)
                st = swi_names_add(names, clean.data, clean.size - 1, &id, NULL, err);
            if (st == SW_OK)
                st = swi_grow_array((void **)tensors, &capacity, (size_t)id + 1, sizeof **tensors,
                                    err);
            if (st == SW_OK)
                (*tensors)[id] = i;
        }
    }
    swi_buf_free(&clean);
    return st;
}

/* OPT-7: floating-point tensors that are no other's alias and no known buffers. */
static bool may_be_parameter(const sw_tensor_info *info, const char *name)
{
    bool complex = info->dtype == SW_C32 || info->dtype == SW_C64 || info->dtype == SW_C128;
    return (sw_dtype_is_float(info->dtype) || complex) && info->alias_of < 0 && !is_buffer(name);
}

static sw_status fill_candidates(finding *f, const swi_names *names, const size_t *tensors,
                                 sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(f->l->checkpoint);
    sw_status st = SW_OK;
    sw_tensor_info info;
    const char *kept;
    for (size_t i = 0; st == SW_OK && i < f->l->naming.name_count; i++) {
        const char *name = f->l->naming.names[i];
        int64_t id = swi_names_find(names, name, strlen(name));
        bool known = id >= 0 && sw_catalog_tensor(catalog, tensors[id], &info);
        st = add_candidate(f, name, known ? &info : NULL, err);
    }
    if (f->l->naming.name_count > 0)
        return st;
    for (uint32_t id = 0; st == SW_OK && id < swi_names_count(names); id++) {
        size_t size;
        const char *name = swi_names_at(names, id, &size);
        if (!sw_catalog_tensor(catalog, tensors[id], &info) || !may_be_parameter(&info, name))
            continue;
        st = swi_arena_text(&f->l->o->arena, name, size, &kept, err);
        if (st == SW_OK)
            st = add_candidate(f, kept, &info, err);
    }
    return st;
}

static sw_status find(finding *f, sw_error *err)
{
    const char *section = NULL;
    swi_names *names = NULL;
    size_t *tensors = NULL;
    sw_status st = model_section(f, &section, err);
    if (st != SW_OK && f->l->naming.name_count > 0 && st == SW_ERR_CONFLICT)
        section = NULL; /* names without shapes, then */
    else if (st != SW_OK)
        return st;
    st = swi_names_make(&names, err);
    if (st == SW_OK && section != NULL)
        st = model_names(f, section, names, &tensors, err);
    if (st == SW_OK)
        st = fill_candidates(f, names, tensors, err);
    swi_names_free(names);
    free(tensors);
    return st;
}

sw_status swi_opt_candidates(swi_lifting *l, swi_opt_candidate **items, size_t *count,
                             sw_error *err)
{
    finding f = {.l = l};
    sw_status st = find(&f, err);
    if (st != SW_OK) {
        free(f.items);
        return st;
    }
    *items = f.items;
    *count = f.count;
    return SW_OK;
}
