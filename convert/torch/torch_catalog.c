/* From an opened torch.save file to catalog entries. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/checked.h"
#include "base/report.h"
#include "base/text.h"
#include "model/value.h"
#include "select/sections.h"
#include "torch/torch.h"

#define NO_BLOB UINT32_MAX

/* One file on its way into the catalog. */
typedef struct filling {
    swi_torch_filling *all;
    const swi_torch_file *tf;
    const char *path;
    uint32_t file;
    swi_torch_object *object;
    uint32_t object_index;
    uint32_t *blobs; /* of the storages */
    uint32_t value_blob;
    swi_section section;
    swi_buf key;
} filling;

static void free_kept(void *p)
{
    swi_torch_kept *kept = p;
    for (size_t i = 0; i < kept->object_count; i++)
        swi_torch_object_free(&kept->objects[i]);
    free(kept->objects);
    free(kept->values);
    free(kept->own);
    free(kept);
}

sw_status swi_torch_filling_begin(swi_opening *o, swi_torch_filling *f, sw_error *err)
{
    *f = (swi_torch_filling){.o = o};
    sw_status st = swi_alloc_array(1, sizeof *f->kept, (void **)&f->kept, err);
    if (st != SW_OK)
        return st;
    f->kept->limits = o->limits;
    swi_opening_keep(o, f->kept, free_kept);
    st = swi_names_make(&f->names, err);
    if (st == SW_OK)
        st = swi_names_make(&f->views, err);
    return st == SW_OK ? swi_names_make(&f->values, err) : st;
}

sw_status swi_torch_say_checksums(const swi_torch_filling *f, sw_error *err)
{
    const swi_torch_totals *t = &f->totals;
    if (t->bare_storages == 0)
        return swi_opening_fact(f->o, "checksums", err, "CRC-32");
    return swi_opening_fact(f->o, "checksums", err, "none for %" PRIu64 " of %" PRIu64 " storages",
                            t->bare_storages, t->storages);
}

void swi_torch_filling_end(swi_torch_filling *f)
{
    swi_names_free(f->names);
    swi_names_free(f->views);
    swi_names_free(f->values);
    free(f->file_of);
    free(f->owners);
    free(f->id_of);
    free(f->value_of);
    *f = (swi_torch_filling){0};
}

/* ---- storages ----------------------------------------------------------------------------------
 */

/* TS-2: each storage is a blob of its own; the rest of the file is one more, and values another. */
static sw_status add_blobs(filling *f, uint64_t bytes, sw_error *err)
{
    swi_builder *b = f->all->o->builder;
    swi_torch_totals *t = &f->all->totals;
    uint64_t rest = bytes;
    uint32_t ignored;
    bool swapped = swi_torch_swapped(f->tf);
    size_t count = swi_torch_storage_count(f->tf);
    sw_status st = swi_alloc_array(count, sizeof *f->blobs, (void **)&f->blobs, err);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        const swi_torch_storage *s = swi_torch_storage_at(f->tf, i);
        swi_blob blob = {.ops = swapped ? &swi_blob_torch_storage_swapped : &swi_blob_torch_storage,
                         .file = f->file,
                         .aux = s->has_crc ? s->crc32 : 0,
                         .offset_bytes = s->offset_bytes,
                         .stored_bytes = s->bytes,
                         .bytes = s->bytes};
        f->blobs[i] = NO_BLOB;
        t->storages++;
        t->storage_bytes += s->bytes;
        t->bare_storages += s->bytes > 0 && blob.aux == 0;
        if (s->bytes > 0)
            st = swi_builder_blob(b, &blob, &f->blobs[i], err);
        if (st == SW_OK && !swi_sub_u64(rest, s->bytes, &rest))
            rest = 0; /* storages that share bytes: the catalog refuses nothing that verify finds */
    }
    swi_blob blob = {
        .ops = &swi_blob_torch_frame, .file = f->file, .stored_bytes = rest, .bytes = bytes};
    if (st == SW_OK)
        st = swi_builder_blob(b, &blob, &ignored, err);
    blob.ops = &swi_blob_torch_value;
    blob.stored_bytes = 0;
    return st == SW_OK ? swi_builder_blob(b, &blob, &f->value_blob, err) : st;
}

/* ---- tensors -----------------------------------------------------------------------------------
 */

static sw_status finding(const filling *f, sw_severity severity, sw_status status, const char *code,
                         const char *tensor, const char *text, sw_error *err)
{
    swi_finding_in in = {
        .severity = severity, .status = status, .code = code, .file = f->path, .tensor = tensor};
    return swi_report_add(f->all->o->report, &in, err, "%s", text);
}

/* What makes two tensors the same view of the same bytes. */
static sw_status view_key(filling *f, const swi_torch_tensor *t, sw_error *err)
{
    uint64_t head[] = {f->file, t->storage, (uint64_t)t->dtype, t->start_elements, t->axes};
    f->key.size = 0;
    sw_status st = swi_buf_append(&f->key, head, sizeof head, err);
    for (uint32_t k = 0; st == SW_OK && k < t->axes; k++) {
        /* of an axis of length 1 the stride means nothing */
        int64_t axis[] = {t->shape[k], t->shape[k] > 1 ? t->stride_elements[k] : 0};
        st = swi_buf_append(&f->key, axis, sizeof axis, err);
    }
    return st;
}

static swi_piece piece_of(const filling *f, const swi_torch_tensor *t)
{
    int64_t element = sw_dtype_bytes(t->dtype);
    swi_piece piece = {.blob = f->blobs[t->storage],
                       .axes = t->axes,
                       .base_bytes = (int64_t)t->start_elements * element};
    for (uint32_t k = 0; k < t->axes; k++) {
        piece.length[k] = t->shape[k];
        piece.view[k] = t->shape[k];
        piece.stride_bytes[k] = t->shape[k] > 1 ? t->stride_elements[k] * element : 0;
    }
    return piece;
}

/* Of what a rank has, the boxes that it is made of. */
static sw_status add_boxes(filling *f, const swi_torch_tensor *t, const swi_torch_box *place,
                           uint32_t id, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < place->part_count; i++) {
        const swi_block_part *part = &place->parts[i];
        swi_piece piece = piece_of(f, t);
        for (uint32_t k = 0; k < t->axes; k++) {
            piece.view[k] = place->shape[k];
            piece.offset[k] = part->offset[k];
            piece.length[k] = part->length[k];
            piece.base_bytes += part->place[k] * piece.stride_bytes[k];
        }
        st = swi_builder_piece(f->all->o->builder, id, &piece, err);
    }
    return st;
}

/* TS-5: the first name of a view owns it, others are its aliases. */
static sw_status add_bytes(filling *f, const swi_torch_tensor *t, uint32_t id, sw_error *err)
{
    swi_torch_filling *all = f->all;
    uint32_t view;
    bool is_new;
    if (t->elements == 0)
        return SW_OK;
    sw_status st = view_key(f, t, err);
    if (st == SW_OK)
        st = swi_names_add(all->views, f->key.data, f->key.size, &view, &is_new, err);
    if (st == SW_OK && is_new)
        st = swi_grow_array((void **)&all->owners, &all->owner_capacity, (size_t)view + 1,
                            sizeof *all->owners, err);
    if (st != SW_OK)
        return st;
    if (!is_new) {
        swi_builder_alias(all->o->builder, id, all->owners[view]);
        return SW_OK;
    }
    all->owners[view] = id;
    all->totals.used_bytes += t->elements * sw_dtype_bytes(t->dtype);
    const swi_piece piece = piece_of(f, t);
    return swi_builder_piece(all->o->builder, id, &piece, err);
}

/* Whether the name is new; one that another file has is a conflict that is said. */
static sw_status meet_name(filling *f, const char *name, bool *is_new, sw_error *err)
{
    swi_torch_filling *all = f->all;
    uint32_t id;
    sw_status st = swi_names_add(all->names, name, strlen(name), &id, is_new, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&all->file_of, &all->file_capacity, (size_t)id + 1,
                            sizeof *all->file_of, err);
    if (st != SW_OK)
        return st;
    if (*is_new) {
        all->file_of[id] = f->path;
        all->news++;
        return SW_OK;
    }
    swi_quoted q;
    char text[256];
    bool same = strcmp(all->file_of[id], f->path) == 0;
    const char *other = swi_quote_str(&q, all->file_of[id]);
    (void)snprintf(text, sizeof text,
                   same ? "two places in the object have this name"
                        : "it lies here and also in %.200s",
                   other);
    return finding(f, SW_DEFECT, SW_ERR_CONFLICT, "duplicate-tensor", name, text, err);
}

static sw_status find_section(filling *f, const swi_torch_leaf *leaf, sw_error *err)
{
    swi_path path = {.count = leaf->count};
    for (size_t i = 0; i < leaf->count; i++) {
        path.parts[i] = leaf->parts[i];
        path.is_index[i] = leaf->is_index[i];
    }
    return swi_section_of(&path, leaf->name, &f->section, err);
}

/* A new tensor of the catalog; it is where the state dict has this one. */
static sw_status make_tensor(filling *f, const swi_torch_leaf *leaf, uint32_t number, uint32_t axes,
                             const int64_t *shape, uint32_t *id, sw_error *err)
{
    swi_opening *o = f->all->o;
    sw_status st = find_section(f, leaf, err);
    if (st != SW_OK)
        return st;
    swi_tensor_in in = {.name = leaf->name,
                        .name_size = strlen(leaf->name),
                        .dtype = f->object->tensors[number].dtype,
                        .axes = axes,
                        .shape = shape,
                        .role = f->section.role};
    st = swi_builder_tensor(o->builder, &in, id, err);
    if (st == SW_OK)
        st = swi_opening_section(o, *id, (const char *)f->section.section.data,
                                 (const char *)f->section.name.data, err);
    if (st == SW_OK && f->object->catalog_of[number] == UINT32_MAX)
        f->object->catalog_of[number] = *id;
    return st;
}

static sw_status add_tensor(filling *f, const swi_torch_leaf *leaf, uint32_t number, sw_error *err)
{
    const swi_torch_tensor *t = &f->object->tensors[number];
    uint32_t id;
    bool is_new;
    sw_status st = meet_name(f, leaf->name, &is_new, err);
    if (st == SW_OK && is_new)
        st = make_tensor(f, leaf, number, t->axes, t->shape, &id, err);
    return st == SW_OK && is_new ? add_bytes(f, t, id, err) : st;
}

/* ---- tensors of which each rank has a part ------------------------------------------------------
 */

/* Of a later rank: the state dict has it beside what the first one has there. */
static sw_status keep_own(filling *f, const char *name, uint32_t number, sw_error *err)
{
    swi_torch_kept *kept = f->all->kept;
    swi_torch_own own = {.tensor = f->object->catalog_of[number],
                         .rank = (int64_t)f->all->ranks->rank};
    if (own.tensor >= SWI_TORCH_LEFT_OUT)
        return SW_OK;
    sw_status st = swi_grow_array((void **)&kept->own, &kept->own_capacity, kept->own_count + 1,
                                  sizeof own, err);
    if (st == SW_OK)
        st = swi_arena_text(&f->object->arena, name, strlen(name), &own.name, err);
    if (st == SW_OK)
        kept->own[kept->own_count++] = own;
    return st;
}

/* What a rank alone knows of: under the name of the state dict, of later ranks with the rank. */
static sw_status add_own(filling *f, const swi_torch_leaf *leaf, uint32_t number, sw_error *err)
{
    swi_torch_leaf own = *leaf;
    swi_buf name = {0};
    if (swi_names_find(f->all->names, leaf->name, strlen(leaf->name)) < 0)
        return add_tensor(f, leaf, number, err);
    sw_status st = swi_buf_printf(&name, err, "%s.rank%" PRIu64, leaf->name, f->all->ranks->rank);
    if (st == SW_OK)
        st = swi_buf_u8(&name, 0, err);
    own.name = (const char *)name.data;
    if (st == SW_OK)
        st = add_tensor(f, &own, number, err);
    if (st == SW_OK)
        st = keep_own(f, leaf->name, number, err);
    swi_buf_free(&name);
    return st;
}

static sw_status bad_part(filling *f, const swi_torch_leaf *leaf, sw_status status,
                          const char *text, sw_error *err)
{
    swi_opening_incomplete(f->all->o);
    return finding(f, SW_DEFECT, status, "bad-tensor", leaf->name, text, err);
}

/* For the tensor of a name; of those that no part was met of there is none. */
static sw_status make_room(swi_torch_filling *all, uint32_t name, sw_error *err)
{
    const size_t had = all->id_capacity;
    sw_status st = swi_grow_array((void **)&all->id_of, &all->id_capacity, (size_t)name + 1,
                                  sizeof *all->id_of, err);
    if (st == SW_OK && all->id_capacity > had)
        memset(all->id_of + had, 0xff, (all->id_capacity - had) * sizeof *all->id_of);
    return st == SW_OK ? swi_grow_array((void **)&all->file_of, &all->file_capacity,
                                        (size_t)name + 1, sizeof *all->file_of, err)
                       : st;
}

/* The tensor that this is a part of; SWI_TORCH_NO_TENSOR: the name is that of something else. */
static sw_status whole_of(filling *f, const swi_torch_leaf *leaf, uint32_t number,
                          const swi_torch_box *place, uint32_t *id, sw_error *err)
{
    swi_torch_filling *all = f->all;
    uint32_t name;
    bool is_new;
    sw_status st = swi_names_add(all->names, leaf->name, strlen(leaf->name), &name, &is_new, err);
    if (st == SW_OK)
        st = make_room(all, name, err);
    if (st == SW_OK && is_new) {
        all->news++;
        all->file_of[name] = f->path;
        st = make_tensor(f, leaf, number, place->axes, place->shape, &all->id_of[name], err);
    }
    if (st != SW_OK)
        return st;
    *id = all->id_of[name];
    if (*id != SWI_TORCH_NO_TENSOR && f->object->catalog_of[number] == UINT32_MAX)
        f->object->catalog_of[number] = *id;
    return SW_OK;
}

static bool is_box(const swi_torch_tensor *t, const swi_torch_box *place)
{
    return t->axes == place->axes &&
           memcmp(t->shape, place->local, t->axes * sizeof *t->shape) == 0;
}

static sw_status wrong_box(filling *f, const swi_torch_leaf *leaf, const swi_torch_tensor *t,
                           const swi_torch_box *place, sw_error *err)
{
    char found[SWI_SHAPE_TEXT], expected[SWI_SHAPE_TEXT], text[2 * SWI_SHAPE_TEXT + 80];
    swi_shape_text(t->axes, t->shape, found);
    swi_shape_text(place->axes, place->local, expected);
    snprintf(text, sizeof text,
             "this rank's part has not the shape that its placements give it: %s, expected %s",
             found, expected);
    return bad_part(f, leaf, SW_ERR_CORRUPT, text, err);
}

static sw_status add_part(filling *f, const swi_torch_leaf *leaf, uint32_t number, sw_error *err)
{
    const swi_torch_ranks *ranks = f->all->ranks;
    const swi_torch_tensor *t = &f->object->tensors[number];
    swi_builder *builder = f->all->o->builder;
    const swi_share *share = swi_torch_share_of(f->object, number);
    const swi_torch_met met = {leaf, t, share, swi_mesh_of(&f->object->meshes, share)};
    swi_torch_box place = {0};
    sw_error cause = {0};
    uint32_t id = 0;
    sw_status st = ranks->place(ranks->ctx, &met, &place, &cause);
    if (st == SW_ERR_NOMEM)
        return swi_fail_nomem(err);
    if (st != SW_OK)
        return bad_part(f, leaf, st, cause.text, err);
    if (place.left_out) {
        f->object->catalog_of[number] = SWI_TORCH_LEFT_OUT;
        f->object->has_left_out = true;
        return SW_OK;
    }
    if (place.is_own)
        return add_own(f, leaf, number, err);
    st = whole_of(f, leaf, number, &place, &id, err);
    if (st != SW_OK)
        return st;
    if (id == SWI_TORCH_NO_TENSOR)
        return bad_part(f, leaf, SW_ERR_CONFLICT,
                        "a part of a tensor, and another rank has it as a tensor of its own", err);
    if (!swi_builder_same(builder, id, t->dtype, place.axes, place.shape))
        return bad_part(f, leaf, SW_ERR_CONFLICT, "another rank gives it another type or shape",
                        err);
    if (!is_box(t, &place))
        return wrong_box(f, leaf, t, &place, err);
    if (place.replicated)
        swi_builder_allow_replicas(builder, id);
    f->all->totals.used_bytes += t->elements * sw_dtype_bytes(t->dtype);
    return t->elements > 0 ? add_boxes(f, t, &place, id, err) : SW_OK;
}

/* ---- the rest ----------------------------------------------------------------------------------
 */

/* TS-6: said, kept as a value, and no tensor of the catalog: weights without it are a part. */
static sw_status say_opaque(filling *f, const swi_torch_leaf *leaf, const swi_torch_opaque *opaque,
                            sw_error *err)
{
    sw_status st = find_section(f, leaf, err);
    if (st != SW_OK)
        return st;
    if (f->section.role != SW_ROLE_OPTIMIZER)
        swi_opening_opaque(f->all->o);
    bool unknown = opaque->status == SW_ERR_UNSUPPORTED;
    return finding(f, unknown ? SW_WARNING : SW_DEFECT, opaque->status,
                   unknown ? "opaque-tensor" : "bad-tensor", leaf->name, opaque->why, err);
}

static sw_status keep_value(filling *f, const swi_torch_leaf *leaf, int64_t rank, sw_error *err)
{
    swi_torch_kept *kept = f->all->kept;
    swi_value_in in = {
        .name = leaf->name, .name_size = strlen(leaf->name), .rank = rank, .blob = f->value_blob};
    sw_status st = swi_grow_array((void **)&kept->values, &kept->value_capacity,
                                  kept->value_count + 1, sizeof *kept->values, err);
    if (st != SW_OK)
        return st;
    sw_error cause = {0};
    st = swi_builder_value(f->all->o->builder, &in, &cause);
    if (st == SW_ERR_CONFLICT)
        return finding(f, SW_WARNING, st, "duplicate-value", leaf->name,
                       "two values of the object have this name; only the first is shown", err);
    if (st != SW_OK) {
        if (err != NULL)
            *err = cause;
        return st;
    }
    kept->values[kept->value_count++] =
        (swi_torch_value_at){.object = f->object_index, .node = leaf->node, .rank = rank};
    return SW_OK;
}

/* Of what every rank saved the first is kept, and those that differ from it. */
static sw_status add_value(filling *f, const swi_torch_leaf *leaf, sw_error *err)
{
    swi_torch_filling *all = f->all;
    uint32_t name;
    bool is_new, same = false;
    if (all->ranks == NULL)
        return keep_value(f, leaf, -1, err);
    sw_status st = swi_names_add(all->values, leaf->name, strlen(leaf->name), &name, &is_new, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&all->value_of, &all->value_capacity, (size_t)name + 1,
                            sizeof *all->value_of, err);
    if (st != SW_OK)
        return st;
    if (is_new) {
        all->news++;
        all->value_of[name] = (uint32_t)all->kept->value_count;
        return keep_value(f, leaf, -1, err);
    }
    const swi_torch_value_at *first = &all->kept->values[all->value_of[name]];
    if (first->object != f->object_index)
        st = swi_value_same(all->kept->objects[first->object].graph, first->node, f->object->graph,
                            leaf->node, &same, err);
    if (st == SW_OK && !same && all->ranks->differs != NULL)
        st = all->ranks->differs(all->ranks->ctx, leaf, f->object, first, err);
    return st == SW_OK && !same ? keep_value(f, leaf, (int64_t)all->ranks->rank, err) : st;
}

static sw_status on_leaf(void *ctx, const swi_torch_leaf *leaf, sw_error *err)
{
    filling *f = ctx;
    uint32_t number;
    if (sw_value_tensor(f->object->graph, leaf->node, &number))
        return f->all->ranks != NULL ? add_part(f, leaf, number, err)
                                     : add_tensor(f, leaf, number, err);
    const swi_torch_opaque *opaque = swi_torch_opaque_at(f->object, leaf->node);
    sw_status st = opaque != NULL ? say_opaque(f, leaf, opaque, err) : SW_OK;
    return st == SW_OK ? add_value(f, leaf, err) : st;
}

/* TS-7: what comes after the last storage, storages without CRC beside records that have one. */
static sw_status say_of_file(filling *f, uint64_t bytes, sw_error *err)
{
    uint64_t bare = 0, end = swi_torch_end_bytes(f->tf);
    swi_finding_in in = {.severity = SW_DEFECT,
                         .status = SW_ERR_CORRUPT,
                         .code = "long-file",
                         .file = f->path,
                         .has_offset = true,
                         .offset_bytes = end};
    if (swi_torch_is_legacy(f->tf) && end < bytes)
        return swi_report_add(f->all->o->report, &in, err,
                              "%" PRIu64 " bytes follow its last storage: it is not the file that "
                              "was saved",
                              bytes - end);
    for (size_t i = 0; i < swi_torch_storage_count(f->tf); i++) {
        const swi_torch_storage *s = swi_torch_storage_at(f->tf, i);
        bare += s->bytes > 0 && !s->has_crc;
    }
    if (!swi_torch_has_crc(f->tf) || bare == 0)
        return SW_OK;
    in = (swi_finding_in){.severity = SW_WARNING, .code = "crc-missing", .file = f->path};
    return swi_report_add(f->all->o->report, &in, err,
                          "%" PRIu64 " storages have no CRC-32 while other records have: it may "
                          "have been saved without its data (skip_data)",
                          bare);
}

static sw_status keep_object(filling *f, sw_error *err)
{
    swi_torch_kept *kept = f->all->kept;
    size_t capacity = kept->object_count;
    swi_torch_object *taken = f->object;
    sw_status st = swi_grow_array((void **)&kept->objects, &capacity, kept->object_count + 1,
                                  sizeof *kept->objects, err);
    if (st != SW_OK) {
        swi_torch_object_free(taken);
        return st;
    }
    f->object_index = (uint32_t)kept->object_count;
    f->object = &kept->objects[kept->object_count++];
    *f->object = *taken;
    *taken = (swi_torch_object){0};
    return SW_OK;
}

sw_status swi_torch_fill(swi_torch_filling *all, const swi_torch_file *tf, const char *path,
                         uint64_t bytes, swi_torch_object *object, sw_error *err)
{
    filling f = {.all = all, .tf = tf, .path = path, .object = object};
    bool too_deep = false;
    sw_status st = keep_object(&f, err);
    if (st == SW_OK)
        st = swi_builder_file(all->o->builder, path, bytes, &f.file, err);
    if (st == SW_OK)
        st = add_blobs(&f, bytes, err);
    if (st == SW_OK)
        st = swi_torch_walk(f.object, on_leaf, &f, &too_deep, err);
    if (st == SW_OK && f.object->has_left_out)
        st = swi_torch_prune(f.object, err);
    if (st == SW_OK && too_deep)
        st = finding(&f, SW_WARNING, SW_ERR_LIMIT, "too-deep", NULL,
                     "containers lie deeper in each other than 256; what they hold is not named",
                     err);
    if (st == SW_OK)
        st = say_of_file(&f, bytes, err);
    all->totals.files++;
    all->totals.legacy_files += swi_torch_is_legacy(tf);
    all->totals.swapped_files += swi_torch_swapped(tf);
    if (f.object_index < all->kept->object_count && f.object != object) {
        swi_torch_object_forget(f.object); /* the catalog has what is needed of them */
    }
    free(f.blobs);
    swi_section_end(&f.section);
    swi_buf_free(&f.key);
    return st;
}
