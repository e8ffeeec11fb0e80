/* Tensors of what is saved: where their elements lie, and whose they are. */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "save/save.h"

/* ---- one part ------------------------------------------------------------------------------- */

static sw_status check_kind(const sw_save *s, const sw_tensor_data *t, uint64_t *elements,
                            sw_error *err)
{
    const uint32_t each = sw_dtype_bytes(t->dtype);
    swi_quoted q;
    const char *name = swi_quote_str(&q, t->name);
    if (each == 0 || t->axes > SW_MAX_AXES || !swi_shape_elements(t->axes, t->shape, elements))
        return swi_fail(err, SW_ERR_ARG, "\"%s\": a tensor has a known type and at most %d axes",
                        name, SW_MAX_AXES);
    if (t->rank >= s->ranks && (t->rank > 0 || t->placed != NULL))
        return swi_fail(err, SW_ERR_ARG,
                        "\"%s\": rank %" PRIu32 " is not one of the %" PRIu32
                        " that sw_save_options.ranks says",
                        name, t->rank, s->ranks);
    if (t->part == SW_PART_PLACED && t->placed == NULL)
        return swi_fail(err, SW_ERR_ARG, "\"%s\": its placements are needed", name);
    if (t->part == SW_PART_FLAT && t->placed != NULL)
        return swi_fail(err, SW_ERR_ARG,
                        "\"%s\": placements give boxes, and no interval of its elements", name);
    return SW_OK;
}

/* The box of all, or that of the caller, which is one of the view. */
static sw_status set_box(const sw_tensor_data *t, swi_piece *piece, sw_error *err)
{
    swi_quoted q;
    for (uint32_t k = 0; k < piece->axes; k++) {
        const bool given = t->part == SW_PART_BOX || t->part == SW_PART_FLAT;
        piece->offset[k] = given ? t->offset[k] : 0;
        piece->length[k] = given ? t->length[k] : piece->view[k];
        if (piece->offset[k] < 0 || piece->length[k] < 0 || piece->offset[k] > piece->view[k] ||
            piece->length[k] > piece->view[k] - piece->offset[k])
            return swi_fail(err, SW_ERR_ARG, "\"%s\": the %s leaves the tensor on axis %u",
                            swi_quote_str(&q, t->name),
                            t->part == SW_PART_FLAT ? "interval" : "box", (unsigned)k);
    }
    return SW_OK;
}

/* What the placements give to the rank; a box that the caller says too is that. */
static sw_status set_placed(const swi_saved_layout *l, const sw_tensor_data *t, swi_saved_piece *p,
                            sw_error *err)
{
    int64_t offset[SW_MAX_AXES] = {0}, length[SW_MAX_AXES] = {0};
    const size_t size = t->axes * sizeof offset[0];
    swi_quoted q;
    sw_status st = swi_save_place(l, t, offset, length, &p->term, err);
    if (st != SW_OK || (!l->computed && t->part != SW_PART_PLACED))
        return st;
    if (t->part != SW_PART_PLACED && t->axes > 0 &&
        (memcmp(offset, p->piece.offset, size) != 0 || memcmp(length, p->piece.length, size) != 0))
        return swi_fail(err, SW_ERR_CONFLICT,
                        "\"%s\": the box is not what its placements give to rank %" PRIu32,
                        swi_quote_str(&q, t->name), t->rank);
    if (t->axes > 0) {
        memcpy(p->piece.offset, offset, size);
        memcpy(p->piece.length, length, size);
    }
    return SW_OK;
}

/* `layout` is NULL where it has none. */
static sw_status fill_piece(const sw_tensor_data *t, uint64_t elements,
                            const swi_saved_layout *layout, swi_saved_piece *out, uint64_t *bytes,
                            sw_error *err)
{
    const uint32_t each = sw_dtype_bytes(t->dtype);
    uint64_t held;
    swi_quoted q;
    out->rank = t->rank;
    out->flat = t->part == SW_PART_FLAT;
    out->piece.axes = out->flat ? 1 : t->axes;
    for (uint32_t k = 0; k < t->axes; k++)
        out->piece.view[k] = t->shape[k];
    if (out->flat)
        out->piece.view[0] = (int64_t)elements;
    sw_status st = set_box(t, &out->piece, err);
    if (st == SW_OK && layout != NULL)
        st = set_placed(layout, t, out, err);
    if (st != SW_OK)
        return st;
    if (!swi_shape_elements(out->piece.axes, out->piece.length, &held) ||
        !swi_mul_u64(held, each, bytes) || *bytes > PTRDIFF_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "\"%s\": too large for memory",
                        swi_quote_str(&q, t->name));
    if (t->data == NULL && *bytes > 0)
        return swi_fail(err, SW_ERR_ARG, "\"%s\": its data is needed", swi_quote_str(&q, t->name));
    swi_piece_make_dense(&out->piece, each);
    return SW_OK;
}

/* ---- the tensor ----------------------------------------------------------------------------- */

static sw_status fill_tensor(sw_save *s, const sw_tensor_data *t, const swi_path *path,
                             swi_saved_tensor *out, sw_error *err)
{
    swi_section section = {0};
    sw_status st = swi_section_of(path, out->name, &section, err);
    if (st == SW_OK)
        st = swi_arena_text(&s->arena, (const char *)section.section.data, section.section.size - 1,
                            &out->section, err);
    if (st == SW_OK)
        st = swi_arena_text(&s->arena, (const char *)section.name.data, section.name.size - 1,
                            &out->inner, err);
    out->role = section.role;
    out->dtype = t->dtype;
    out->axes = t->axes;
    for (uint32_t k = 0; k < t->axes; k++)
        out->shape[k] = t->shape[k];
    swi_section_end(&section);
    return st;
}

static bool same_kind(const swi_saved_tensor *a, const sw_tensor_data *b)
{
    return a->dtype == b->dtype && a->axes == b->axes &&
           (a->axes == 0 || memcmp(a->shape, b->shape, a->axes * sizeof a->shape[0]) == 0);
}

/* Whether these keys lead to the tensor. */
static bool leads_to(const sw_save *s, const swi_path *path, uint32_t tensor)
{
    sw_value at;
    uint32_t index;
    return swi_save_get(s, path, &at) && sw_value_tensor(s->graph, at, &index) && index == tensor;
}

/* It was begun before. */
static sw_status check_known(const sw_save *s, const sw_tensor_data *t, const swi_path *path,
                             uint32_t layout, uint32_t id, sw_error *err)
{
    if (!leads_to(s, path, id))
        return swi_save_clash(t->name, "a tensor at another place is called alike", err);
    if (!same_kind(&s->tensors[id], t))
        return swi_save_clash(t->name, "its parts are of different types or shapes", err);
    return s->tensors[id].layout == layout
               ? SW_OK
               : swi_save_clash(t->name, "its parts have different placements or meshes", err);
}

/* The tensor's index; it is a new one unless it was begun before. */
static sw_status find_tensor(sw_save *s, const sw_tensor_data *t, const swi_path *path,
                             uint32_t layout, uint32_t *id, sw_error *err)
{
    swi_saved_tensor fresh = {.layout = layout};
    sw_status st = swi_save_join(s, path, &fresh.name, err);
    if (st != SW_OK)
        return st;
    const int64_t known = swi_names_find(s->names, fresh.name, strlen(fresh.name));
    if (known >= 0) {
        *id = (uint32_t)known;
        return check_known(s, t, path, layout, *id, err);
    }
    *id = swi_names_count(s->names);
    st = swi_grow_array((void **)&s->tensors, &s->tensor_capacity, (size_t)*id + 1,
                        sizeof *s->tensors, err);
    if (st == SW_OK)
        st = fill_tensor(s, t, path, &fresh, err);
    if (st == SW_OK)
        st = swi_save_put(s, t->name, path, swi_value_of_tensor(*id), err);
    if (st == SW_OK)
        st = swi_names_add(s->names, fresh.name, strlen(fresh.name), id, NULL, err);
    if (st == SW_OK)
        s->tensors[*id] = fresh;
    return st;
}

sw_status sw_save_tensor(sw_save *save, const sw_tensor_data *tensor, sw_error *err)
{
    swi_saved_piece p = {0};
    swi_path path;
    uint32_t layout = SWI_SAVED_NO_LAYOUT;
    uint64_t elements = 0, bytes = 0;
    if (save == NULL || tensor == NULL)
        return swi_fail(err, SW_ERR_ARG, "sw_save_tensor: a save and a tensor are needed");
    sw_status st = swi_save_path(save, tensor->name, &path, err);
    if (st == SW_OK)
        st = check_kind(save, tensor, &elements, err);
    if (st == SW_OK)
        st = swi_save_layout(save, tensor, &layout, err);
    if (st == SW_OK)
        st = fill_piece(tensor, elements,
                        layout != SWI_SAVED_NO_LAYOUT ? &save->layouts[layout] : NULL, &p, &bytes,
                        err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&save->pieces, &save->piece_capacity, save->piece_count + 1,
                            sizeof *save->pieces, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&save->memory, &save->memory_capacity, save->piece_count + 1,
                            sizeof *save->memory, err);
    if (st == SW_OK)
        st = find_tensor(save, tensor, &path, layout, &p.tensor, err);
    if (st != SW_OK || bytes == 0)
        return st;
    save->tensors[p.tensor].flat |= p.flat;
    save->tensors[p.tensor].boxes |= !p.flat;
    save->pieces[save->piece_count] = p;
    save->memory[save->piece_count++] = (swi_slice){tensor->data, (size_t)bytes};
    return SW_OK;
}
