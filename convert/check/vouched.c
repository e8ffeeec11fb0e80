#include "check/vouched.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/names.h"

struct swi_vouched {
    swi_names *paths;
    swi_vouched_file *files; /* by id of the path, which is not kept in them */
    size_t capacity;
};

sw_status swi_vouched_make(swi_vouched **out, sw_error *err)
{
    swi_vouched *v = NULL;
    sw_status st = swi_alloc_array(1, sizeof *v, (void **)&v, err);
    if (st == SW_OK)
        st = swi_names_make(&v->paths, err);
    if (st != SW_OK) {
        swi_vouched_free(v);
        return st;
    }
    *out = v;
    return SW_OK;
}

void swi_vouched_free(swi_vouched *vouched)
{
    if (vouched == NULL)
        return;
    swi_names_free(vouched->paths);
    free(vouched->files);
    free(vouched);
}

sw_status swi_vouched_add(swi_vouched *vouched, const swi_vouched_file *add, sw_error *err)
{
    uint32_t id;
    sw_status st =
        swi_grow_array((void **)&vouched->files, &vouched->capacity,
                       (size_t)swi_names_count(vouched->paths) + 1, sizeof *vouched->files, err);
    if (st == SW_OK)
        st = swi_names_add(vouched->paths, add->path, strlen(add->path), &id, NULL, err);
    if (st != SW_OK)
        return st;
    swi_vouched_file *f = &vouched->files[id];
    if (f->bytes < add->bytes)
        f->bytes = add->bytes;
    f->checked += add->checked;
    f->differing += add->differing;
    f->without += add->without;
    f->left_out += add->left_out;
    return SW_OK;
}

size_t swi_vouched_count(const swi_vouched *vouched)
{
    return swi_names_count(vouched->paths);
}

void swi_vouched_at(const swi_vouched *vouched, size_t i, swi_vouched_file *out)
{
    *out = vouched->files[i];
    out->path = swi_names_at(vouched->paths, (uint32_t)i, NULL);
}
