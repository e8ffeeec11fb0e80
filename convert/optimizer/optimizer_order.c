/*
 * The order of parameters in groups that become numbers. FSDP.optim_state_dict lists those of each
 * wrapped module apart, the root's first; an optimizer of a model that is not wrapped has them in
 * the order of registration, and numbers are positions in it. Clause OPT-15.
 */
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "optimizer/optimizer.h"

#define NO_PLACE UINT32_MAX

/* Where the number of a block ends in "model.layers.3.w": its list is all before it; 0: no block.
 */
static size_t block_list(const char *name)
{
    for (const char *part = name; part != NULL; part = strchr(part, '.')) {
        part += *part == '.';
        const size_t size = strcspn(part, ".");
        if (size > 0 && strspn(part, "0123456789") == size && part[size] == '.')
            return (size_t)(part - name);
    }
    return 0;
}

/*
 * All parameters of blocks (model.layers.N) behind all others, of which there are several: the
 * order of FSDP's units. One of registration has some others behind the blocks (a norm, a head).
 */
static bool is_by_units(const swi_optimizer *o, const swi_opt_group *group)
{
    size_t others = 0;
    while (others < group->parameter_count &&
           block_list(o->parameters[group->parameters[others]]) == 0)
        others++;
    for (size_t i = others; i < group->parameter_count; i++)
        if (block_list(o->parameters[group->parameters[i]]) == 0)
            return false;
    return others > 1 && others < group->parameter_count;
}

typedef struct placed {
    uint32_t place, parameter;
} placed;

static int by_place(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    return x->place < y->place ? -1 : x->place > y->place;
}

static sw_status sort_group(const swi_optimizer *o, swi_opt_group *group, const swi_names *order,
                            bool *known, bool *changed, sw_error *err)
{
    placed *items = NULL;
    const size_t n = group->parameter_count;
    sw_status st = swi_alloc_array(n, sizeof *items, (void **)&items, err);
    *known = true;
    for (size_t i = 0; st == SW_OK && i < n; i++) {
        const char *name = o->parameters[group->parameters[i]];
        const int64_t at = swi_names_find(order, name, strlen(name));
        *known = *known && at >= 0;
        items[i] = (placed){at >= 0 ? (uint32_t)at : NO_PLACE, group->parameters[i]};
    }
    if (st == SW_OK && *known) {
        qsort(items, n, sizeof *items, by_place);
        for (size_t i = 0; i < n; i++) {
            *changed = *changed || group->parameters[i] != items[i].parameter;
            group->parameters[i] = items[i].parameter;
        }
    }
    free(items);
    return st;
}

sw_status swi_optimizer_order(swi_optimizer *o, const char *const *names, size_t count,
                              swi_opt_ordered *out, sw_error *err)
{
    swi_names *order = NULL;
    uint32_t id;
    bool known = true, changed = false;
    sw_status st = swi_names_make(&order, err);
    *out = SWI_OPT_ORDER_KEPT;
    for (size_t i = 0; st == SW_OK && i < count; i++)
        st = swi_names_add(order, names[i], strlen(names[i]), &id, NULL, err);
    for (size_t g = 0; st == SW_OK && g < o->group_count; g++) {
        if (!is_by_units(o, &o->groups[g]))
            continue;
        st = sort_group(o, &o->groups[g], order, &known, &changed, err);
        if (!known)
            *out = SWI_OPT_ORDER_UNKNOWN;
    }
    if (*out == SWI_OPT_ORDER_KEPT && changed)
        *out = SWI_OPT_ORDER_CHANGED;
    swi_names_free(order);
    return st;
}
