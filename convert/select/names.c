#include "select/names.h"

#include <string.h>

static const char *const wrapper_parts[] = {
    "_orig_mod",                  /* torch.compile */
    "_fsdp_wrapped_module",       /* FSDP1 */
    "_checkpoint_wrapped_module", /* activation checkpointing */
    "_fpw_module",                /* fairscale and the first FSDP */
};

static bool is_wrapper(const char *part, size_t size)
{
    for (size_t i = 0; i < sizeof wrapper_parts / sizeof wrapper_parts[0]; i++) {
        if (strlen(wrapper_parts[i]) == size && memcmp(wrapper_parts[i], part, size) == 0)
            return true;
    }
    return false;
}

static size_t part_size(const char *text)
{
    const char *dot = strchr(text, '.');
    return dot ? (size_t)(dot - text) : strlen(text);
}

bool swi_has_module_prefix(const char *name)
{
    size_t n = part_size(name);
    while (name[n] == '.' && is_wrapper(name, n)) {
        name += n + 1;
        n = part_size(name);
    }
    return name[n] == '.' && n == strlen("module") && memcmp(name, "module", n) == 0;
}

sw_status swi_clean_name(const char *name, bool drop_module, swi_buf *out, uint64_t *removed,
                         sw_error *err)
{
    bool at_front = true; /* nothing but wrappers so far, none of which is written */
    for (;;) {
        size_t n = part_size(name);
        bool last = name[n] == '\0';
        bool module =
            drop_module && at_front && n == strlen("module") && memcmp(name, "module", n) == 0;
        if (!last && (is_wrapper(name, n) || module)) {
            *removed += 1;
            if (module)
                drop_module = false; /* only one: a deeper one is a real submodule */
            name += n + 1;
            continue;
        }
        sw_status st = at_front ? SW_OK : swi_buf_u8(out, '.', err);
        at_front = false;
        if (st == SW_OK)
            st = swi_buf_append(out, name, n, err);
        if (st != SW_OK)
            return st;
        if (last)
            return swi_buf_u8(out, '\0', err);
        name += n + 1;
    }
}

sw_status swi_clean_names(const char **names, size_t count, bool drop_module, swi_arena *arena,
                          uint64_t *removed, sw_error *err)
{
    swi_buf clean = {0};
    sw_status st = SW_OK;
    drop_module = drop_module && count > 0;
    for (size_t i = 0; i < count; i++)
        drop_module = drop_module && swi_has_module_prefix(names[i]);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        clean.size = 0;
        st = swi_clean_name(names[i], drop_module, &clean, removed, err);
        if (st == SW_OK)
            st = swi_arena_text(arena, (const char *)clean.data, clean.size - 1, &names[i], err);
    }
    swi_buf_free(&clean);
    return st;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Compares two runs of digits as numbers and moves behind them. */
static int digits_order(const char **a, const char **b)
{
    while (**a == '0' && is_digit((*a)[1]))
        ++*a;
    while (**b == '0' && is_digit((*b)[1]))
        ++*b;
    size_t n = 0, m = 0;
    while (is_digit((*a)[n]))
        n++;
    while (is_digit((*b)[m]))
        m++;
    int order = n != m ? (n < m ? -1 : 1) : memcmp(*a, *b, n);
    *a += n;
    *b += m;
    return order;
}

int swi_name_order(const char *a, const char *b)
{
    const char *p = a, *q = b;
    while (*p != '\0' && *q != '\0') {
        if (is_digit(*p) && is_digit(*q)) {
            int order = digits_order(&p, &q);
            if (order != 0)
                return order;
            continue;
        }
        if (*p != *q)
            return (unsigned char)*p < (unsigned char)*q ? -1 : 1;
        p++;
        q++;
    }
    if (*p != *q)
        return *p == '\0' ? -1 : 1;
    return strcmp(a, b);
}
