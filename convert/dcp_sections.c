/*
 * Where a flattened key came from. The index keeps the path of each key in the nested state dict
 * (planner_data); its last part is the name that the module or optimizer itself uses, which may
 * contain dots. Clauses DCP-12 ff. of specs/dcp.md.
 */
#include <string.h>

#include "dcp.h"

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* A key under which people keep a module's own state dict. */
static bool is_module_key(const char *part)
{
    static const char *const known[] = {"module", "state_dict", "weights", "params"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(part, known[i]) == 0)
            return true;
    }
    return begins(part, "model");
}

static sw_status append_part(swi_buf *buf, const char *part, sw_error *err)
{
    sw_status st = buf->size ? swi_buf_u8(buf, '.', err) : SW_OK;
    return st == SW_OK ? swi_buf_append_str(buf, part, err) : st;
}

/* Parts [from, to) joined with dots and terminated. */
static sw_status join_parts(const swi_dcp_meta *meta, const char *key, size_t from, size_t to,
                            swi_buf *out, sw_error *err)
{
    const char *part;
    bool index;
    out->size = 0;
    for (size_t i = from; i < to && swi_dcp_path_part(meta, key, i, &part, &index); i++) {
        sw_status st = append_part(out, part, err);
        if (st != SW_OK)
            return st;
    }
    return swi_buf_u8(out, '\0', err);
}

/* How a key's path divides: parts [0, cut) are the section, the rest is the name in it. */
typedef struct division {
    size_t parts, cut;
    sw_role role;
} division;

static division divide(const swi_dcp_meta *meta, const char *key)
{
    division d = {.role = SW_ROLE_OTHER};
    const char *part;
    bool index, first_is_state = false;
    for (; swi_dcp_path_part(meta, key, d.parts, &part, &index); d.parts++) {
        if (d.parts == 0)
            first_is_state = strcmp(part, "state") == 0;
        if (d.role != SW_ROLE_OTHER || index)
            continue;
        if (begins(part, "optim"))
            d.role = SW_ROLE_OPTIMIZER;
        else if (is_module_key(part))
            d.role = SW_ROLE_PARAMETER;
        d.cut = d.role != SW_ROLE_OTHER ? d.parts + 1 : 0;
    }
    if (d.parts <= 1 || (d.role != SW_ROLE_OTHER && d.cut >= d.parts)) {
        /* at the top: a module saved by itself */
        d.cut = 0;
        d.role = SW_ROLE_PARAMETER;
    } else if (d.role == SW_ROLE_OTHER && first_is_state && d.parts >= 3) {
        /* an optimizer saved by itself: ("state", parameter, "exp_avg") */
        d.role = SW_ROLE_OPTIMIZER;
    } else if (d.role == SW_ROLE_OTHER) {
        d.cut = d.parts - 1;
    }
    return d;
}

sw_status swi_dcp_section(const swi_dcp_meta *meta, const swi_dcp_tensor *tensor, swi_buf *section,
                          swi_buf *name, sw_role *role, sw_error *err)
{
    division d = divide(meta, tensor->name);
    if (d.parts == 0) /* no planner data: the key is all there is */
        d.role = begins(tensor->name, "optim") ? SW_ROLE_OPTIMIZER : SW_ROLE_PARAMETER;
    sw_status st = join_parts(meta, tensor->name, 0, d.cut, section, err);
    if (st == SW_OK && d.parts > 0)
        st = join_parts(meta, tensor->name, d.cut, d.parts, name, err);
    if (st == SW_OK && d.parts == 0) {
        name->size = 0;
        st = swi_buf_append(name, tensor->name, tensor->name_size, err);
        if (st == SW_OK)
            st = swi_buf_u8(name, '\0', err);
    }
    if (st == SW_OK)
        *role = d.role;
    return st;
}
