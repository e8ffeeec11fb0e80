#include "select/sections.h"

#include <string.h>

#include "framework.h"

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_one_of(const char *text, const char *const *known, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, known[i]) == 0)
            return true;
    }
    return false;
}

/* "optim", "optimizer", "optimizers", "optimizer_0", "optim.state": not "optimus". */
static bool is_optimizer_key(const char *text)
{
    if (!begins(text, "optim"))
        return false;
    text += strlen("optim");
    if (begins(text, "izer"))
        text += strlen("izer");
    if (*text == 's')
        text++;
    return !(*text >= 'a' && *text <= 'z');
}

/* A key under which people keep a module's own state dict. */
static bool is_module_key(const char *part)
{
    static const char *const known[] = {"module", "state_dict", "weights", "params"};
    return begins(part, "model") || is_one_of(part, known, sizeof known / sizeof known[0]);
}

/* "state.NAME.exp_avg": the key of an optimizer that was flattened and saved by itself. */
static bool is_flat_state(const char *key)
{
    static const char *const states[] = {"exp_avg",         "exp_avg_sq", "max_exp_avg_sq",
                                         "momentum_buffer", "step",       "sum",
                                         "square_avg",      "acc_delta",  "prev"};
    const char *dot = strrchr(key, '.');
    return begins(key, "state.") && dot != NULL && dot > key + strlen("state") &&
           is_one_of(dot + 1, states, sizeof states / sizeof states[0]);
}

/* Parts [from, to) joined with dots and terminated. */
static sw_status join_parts(const swi_path *path, size_t from, size_t to, swi_buf *out,
                            sw_error *err)
{
    sw_status st = SW_OK;
    out->size = 0;
    for (size_t i = from; st == SW_OK && i < to; i++) {
        if (i > from)
            st = swi_buf_u8(out, '.', err);
        if (st == SW_OK)
            st = swi_buf_append_str(out, path->parts[i], err);
    }
    return st == SW_OK ? swi_buf_u8(out, '\0', err) : st;
}

/* NAM-2: parts [0, *cut) are the section, the rest is the name in it. */
static sw_role divide(const swi_path *path, size_t *cut)
{
    sw_role role = SW_ROLE_OTHER;
    *cut = 0;
    for (size_t i = 0; i < path->count && role == SW_ROLE_OTHER; i++) {
        if (path->is_index[i])
            continue;
        if (is_optimizer_key(path->parts[i]))
            role = SW_ROLE_OPTIMIZER;
        else if (is_module_key(path->parts[i]))
            role = SW_ROLE_PARAMETER;
        *cut = i + 1;
    }
    if (path->count == 1 && is_flat_state(path->parts[0])) {
        *cut = 0;
        return SW_ROLE_OPTIMIZER;
    }
    if (path->count <= 1 || (role != SW_ROLE_OTHER && *cut >= path->count)) {
        *cut = 0; /* at the top: a module saved by itself */
        return SW_ROLE_PARAMETER;
    }
    if (role == SW_ROLE_OTHER && strcmp(path->parts[0], "state") == 0 && path->count >= 3) {
        *cut = 0; /* an optimizer saved by itself: ("state", parameter, "exp_avg") */
        return SW_ROLE_OPTIMIZER;
    }
    if (role == SW_ROLE_OTHER)
        *cut = path->count - 1;
    return role;
}

void swi_section_end(swi_section *s)
{
    swi_buf_free(&s->section);
    swi_buf_free(&s->name);
}

sw_status swi_section_of(const swi_path *path, const char *key, swi_section *out, sw_error *err)
{
    size_t cut;
    sw_role role = divide(path, &cut);
    sw_status st = join_parts(path, 0, cut, &out->section, err);
    if (st == SW_OK)
        st = join_parts(path, cut, path->count, &out->name, err);
    if (st == SW_OK && path->count == 0) { /* NAM-3: the key is all there is */
        role = is_optimizer_key(key) || is_flat_state(key) ? SW_ROLE_OPTIMIZER : SW_ROLE_PARAMETER;
        out->name.size = 0;
        st = swi_buf_append(&out->name, key, strlen(key) + 1, err);
    }
    if (st == SW_OK)
        out->role = role;
    return st;
}

sw_status swi_section_of_leaf(const swi_state_part *leaf, swi_section *out, sw_error *err)
{
    swi_path path = {0};
    for (; path.count < leaf->parts && path.count < SWI_PATH_PARTS_MAX; path.count++) {
        const char *part = leaf->path[path.count];
        path.is_index[path.count] = part[0] == '#';
        path.parts[path.count] = part + (part[0] == '#');
    }
    return swi_section_of(&path, leaf->name, out, err);
}
