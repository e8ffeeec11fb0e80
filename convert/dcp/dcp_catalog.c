/* From a DCP index to catalog entries. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/names.h"
#include "base/report.h"
#include "base/text.h"
#include "dcp/dcp.h"
#include "dcp/dcp_paths.h"
#include "ranges.h"
#include "select/sections.h"

#define NO_FILE UINT32_MAX

/* A payload file that an index names. */
typedef struct payload {
    uint32_t id;         /* in the catalog; NO_FILE: missing */
    bool irregular;      /* something is there, and it is no regular file */
    uint64_t lost_items; /* items that lay in it */
} payload;

/* How far the items of a file reach. */
typedef struct extent {
    const char *path; /* in its index */
    uint64_t end, bytes;
} extent;

typedef struct filling {
    swi_opening *o;
    const swi_dcp_part *part;
    payload *files;   /* of this part */
    swi_names *names; /* tensors of all parts: union of ranks */
    uint32_t *tensor_of_name;
    size_t tensor_capacity;
    swi_section section;
    swi_dcp_paths *paths; /* the checkpoint's */
    size_t value_count;
    extent *extents; /* by file of the catalog */
    size_t extent_count, extent_capacity;
    uint64_t *ranks; /* of payload files met */
    size_t rank_count, rank_capacity;
} filling;

static sw_status note_rank(filling *f, const char *path, sw_error *err)
{
    const char *slash = strrchr(path, '/');
    int64_t rank = swi_dcp_file_rank(slash ? slash + 1 : path, ".distcp");
    if (rank < 0)
        return SW_OK;
    sw_status st = swi_grow_array((void **)&f->ranks, &f->rank_capacity, f->rank_count + 1,
                                  sizeof *f->ranks, err);
    if (st == SW_OK)
        f->ranks[f->rank_count++] = (uint64_t)rank;
    return st;
}

static sw_status add_file(filling *f, const char *path, uint64_t bytes, uint32_t *id, sw_error *err)
{
    sw_status st = swi_builder_file(f->o->builder, path, bytes, id, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&f->extents, &f->extent_capacity, (size_t)*id + 1,
                            sizeof *f->extents, err);
    if (st == SW_OK && *id >= f->extent_count) {
        f->extents[*id] = (extent){.path = path, .bytes = bytes};
        f->extent_count = (size_t)*id + 1;
    }
    return st;
}

/* Every byte up to the end of this item is accounted for. */
static void reach(filling *f, const swi_dcp_place *place)
{
    extent *e = &f->extents[f->files[place->file].id];
    uint64_t end;
    if (!swi_add_u64(place->offset_bytes, place->stored_bytes, &end))
        end = UINT64_MAX; /* the catalog refuses it */
    if (end > e->end)
        e->end = end;
}

/* DCP-6: payload files are those that the index names, wherever else files lie. */
static sw_status find_file(filling *f, const char *path, payload *out, sw_error *err)
{
    swi_opening *o = f->o;
    sw_error cause = {0};
    sw_status st = swi_path_check(path, &cause);
    if (st != SW_OK)
        return swi_fail_at(err, st, "DCP-6", 0, "%s names a payload file: %s", f->part->path,
                           cause.text);
    st = note_rank(f, path, err);
    if (st != SW_OK)
        return st;
    const swi_listing_entry *known = swi_listing_find(o->listing, path);
    swi_entry entry = {0};
    sw_error found = {0};
    if (known != NULL) {
        entry.kind = known->kind;
        entry.is_link = known->is_link;
        entry.bytes = known->bytes;
    } else {
        st = swi_store_stat(o->store, path, &entry, &found);
    }
    if (st == SW_OK && entry.kind == SWI_ENTRY_FILE)
        return add_file(f, path, entry.bytes, &out->id, err);
    if (st != SW_OK && st != SW_ERR_NOTFOUND) {
        if (err != NULL)
            *err = found;
        return st;
    }
    out->id = NO_FILE;
    out->irregular = st == SW_OK && !entry.is_link; /* a link leads nowhere */
    return SW_OK;
}

static sw_status find_files(filling *f, sw_error *err)
{
    size_t count = swi_dcp_file_count(f->part->meta);
    sw_status st = swi_alloc_array(count, sizeof *f->files, (void **)&f->files, err);
    for (size_t i = 0; st == SW_OK && i < count; i++)
        st = find_file(f, swi_dcp_file_at(f->part->meta, i), &f->files[i], err);
    return st;
}

static sw_status say_missing_files(filling *f, sw_error *err)
{
    for (size_t i = 0; i < swi_dcp_file_count(f->part->meta); i++) {
        if (f->files[i].id != NO_FILE)
            continue;
        const char *path = swi_dcp_file_at(f->part->meta, i);
        swi_finding_in in = {.severity = SW_DEFECT,
                             .status = SW_ERR_INCOMPLETE,
                             .code = "missing-file",
                             .file = path};
        swi_quoted q;
        sw_status st = swi_report_add(
            f->o->report, &in, err,
            "%s is %s: %s places %" PRIu64
            " items in it; look for it where that rank wrote, or take an earlier checkpoint",
            swi_quote_str(&q, path), f->files[i].irregular ? "no regular file" : "missing",
            f->part->path, f->files[i].lost_items);
        if (st != SW_OK)
            return st;
    }
    return SW_OK;
}

/* The kind of blob for a list of transforms; false: one that is not known. */
static bool blob_kind(const swi_dcp_meta *meta, uint32_t transforms, uint32_t *aux,
                      const char **unknown)
{
    const char *first = transforms ? swi_dcp_transform_at(meta, transforms, 0) : NULL;
    *aux = SWI_DCP_PLAIN;
    if (first == NULL)
        return true;
    const char *second = swi_dcp_transform_at(meta, transforms, 1);
    *unknown = second != NULL ? second : first;
    if (second != NULL || strncmp(first, "stream.zstd/", 12) != 0)
        return false;
    *aux = SWI_DCP_ZSTD;
    return true;
}

/* Makes the blob of an item; *why says why it cannot be had. */
static sw_status item_blob(filling *f, const swi_dcp_place *place, uint64_t bytes, const char *name,
                           uint32_t *blob, sw_status *why, sw_error *err)
{
    swi_finding_in in = {.severity = SW_DEFECT, .file = f->part->path, .tensor = name};
    *why = SW_OK;
    if (!place->found) {
        *why = in.status = SW_ERR_INCOMPLETE;
        in.code = "missing-item";
        return swi_report_add(f->o->report, &in, err,
                              "the index has no place for this item: a rank's part was lost");
    }
    payload *file = &f->files[place->file];
    if (file->id == NO_FILE) {
        file->lost_items++;
        *why = SW_ERR_INCOMPLETE;
        return SW_OK; /* said once a file */
    }
    reach(f, place);
    const char *unknown = NULL;
    swi_blob b = {
        .ops = &swi_blob_dcp_item,
        .file = file->id,
        .offset_bytes = place->offset_bytes,
        .stored_bytes = place->stored_bytes,
        .bytes = bytes,
    };
    if (!blob_kind(f->part->meta, place->transforms, &b.aux, &unknown)) {
        swi_quoted q;
        *why = in.status = SW_ERR_UNSUPPORTED;
        in.code = "unknown-transform";
        return swi_report_add(f->o->report, &in, err,
                              "stored through the transform \"%s\", which is not known here",
                              swi_quote_str(&q, unknown));
    }
    return swi_builder_blob(f->o->builder, &b, blob, err);
}

/* DCP-9: zero-volume chunks hold nothing; every other is a dense box in its item. */
static sw_status add_chunk(filling *f, uint32_t id, const swi_dcp_tensor *t, uint64_t index,
                           sw_error *err)
{
    swi_dcp_chunk chunk;
    swi_dcp_chunk_at(f->part->meta, index, t->axes, &chunk);
    uint64_t elements, bytes;
    uint32_t size = sw_dtype_bytes(t->dtype);
    if (!swi_shape_elements(t->axes, chunk.length, &elements) ||
        !swi_mul_u64(elements, size, &bytes))
        return swi_fail_at(err, SW_ERR_CORRUPT, "DCP-9", 0,
                           "%s: a chunk of tensor has a size "
                           "that is negative or too large",
                           f->part->path);
    swi_piece piece = {.axes = t->axes};
    sw_status why, st = item_blob(f, &chunk.place, bytes, t->name, &piece.blob, &why, err);
    if (st != SW_OK)
        return st;
    if (why != SW_OK) {
        if (elements > 0)
            swi_builder_mark(f->o->builder, id, why);
        return SW_OK;
    }
    if (elements == 0)
        return SW_OK;
    memcpy(piece.view, t->shape, sizeof piece.view);
    memcpy(piece.offset, chunk.offset, sizeof piece.offset);
    memcpy(piece.length, chunk.length, sizeof piece.length);
    swi_piece_make_dense(&piece, size);
    return swi_builder_piece(f->o->builder, id, &piece, err);
}

/* DCP-12: the path of a key in the nested state dict, where the index keeps it. */
static void path_of(const swi_dcp_meta *meta, const char *key, swi_path *out)
{
    out->count = 0;
    while (out->count < SWI_PATH_PARTS_MAX &&
           swi_dcp_path_part(meta, key, out->count, &out->parts[out->count],
                             &out->is_index[out->count]))
        out->count++;
}

/* A tensor that an earlier rank's index has too must be the same tensor. */
static sw_status join_tensor(filling *f, const swi_dcp_tensor *t, uint32_t name, bool is_new,
                             uint32_t *id, sw_error *err)
{
    sw_status st;
    if (!is_new) {
        *id = f->tensor_of_name[name];
        if (!swi_builder_same(f->o->builder, *id, t->dtype, t->axes, t->shape))
            return swi_fail_at(err, SW_ERR_CONFLICT, "DCP-4", 0,
                               "%s gives it another dtype or shape than the index of an earlier "
                               "rank",
                               f->part->path);
        swi_builder_allow_replicas(f->o->builder, *id);
        return SW_OK;
    }
    swi_path path;
    path_of(f->part->meta, t->name, &path);
    st = swi_section_of(&path, t->name, &f->section, err);
    if (st != SW_OK)
        return st;
    swi_tensor_in in = {.name = t->name,
                        .name_size = t->name_size,
                        .dtype = t->dtype,
                        .axes = t->axes,
                        .shape = t->shape,
                        .role = f->section.role};
    st = swi_builder_tensor(f->o->builder, &in, id, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&f->tensor_of_name, &f->tensor_capacity, (size_t)name + 1,
                            sizeof *f->tensor_of_name, err);
    if (st != SW_OK)
        return st;
    f->tensor_of_name[name] = *id;
    st = swi_dcp_paths_add(f->paths, f->part->meta, SWI_DCP_TENSORS, *id, t->name, err);
    if (st != SW_OK)
        return st;
    return swi_opening_section(f->o, *id, (const char *)f->section.section.data,
                               (const char *)f->section.name.data, err);
}

static sw_status leave_out(filling *f, const swi_dcp_tensor *t, sw_error *err)
{
    for (uint64_t i = 0; i < t->chunk_count; i++) {
        swi_dcp_chunk chunk;
        swi_dcp_chunk_at(f->part->meta, t->chunk_first + i, t->axes, &chunk);
        if (chunk.place.found && f->files[chunk.place.file].id != NO_FILE)
            reach(f, &chunk.place);
    }
    swi_quoted q;
    swi_opening_incomplete(f->o);
    swi_finding_in in = {.severity = SW_WARNING,
                         .status = SW_ERR_UNSUPPORTED,
                         .code = "unknown-dtype",
                         .file = f->part->path,
                         .tensor = t->name};
    return swi_report_add(f->o->report, &in, err,
                          "its element type %s is not known here; it is left out",
                          swi_quote_str(&q, t->dtype_name));
}

static sw_status add_tensor(filling *f, const swi_dcp_tensor *t, sw_error *err)
{
    uint32_t name, id = 0;
    bool is_new;
    if (t->dtype == SW_DTYPE_NONE)
        return leave_out(f, t, err);
    sw_status st = swi_names_add(f->names, t->name, t->name_size, &name, &is_new, err);
    if (st == SW_OK)
        st = join_tensor(f, t, name, is_new, &id, err);
    for (uint64_t i = 0; st == SW_OK && i < t->chunk_count; i++)
        st = add_chunk(f, id, t, t->chunk_first + i, err);
    return st;
}

static sw_status add_object(filling *f, size_t i, sw_error *err)
{
    swi_dcp_object object;
    swi_dcp_object_at(f->part->meta, i, &object);
    swi_value_in in = {.name = object.name, .name_size = object.name_size, .rank = f->part->rank};
    sw_status why, st = item_blob(f, &object.place, UINT64_MAX, object.name, &in.blob, &why, err);
    if (st != SW_OK || why != SW_OK)
        return st;
    st = swi_dcp_paths_add(f->paths, f->part->meta, SWI_DCP_VALUES, f->value_count, object.name,
                           err);
    if (st == SW_OK)
        st = swi_builder_value(f->o->builder, &in, err);
    f->value_count += st == SW_OK;
    return st;
}

static sw_status fill_part(filling *f, sw_error *err)
{
    const swi_dcp_meta *meta = f->part->meta;
    sw_status st = find_files(f, err);
    for (size_t i = 0; st == SW_OK && i < swi_dcp_tensor_count(meta); i++) {
        swi_dcp_tensor t;
        swi_dcp_tensor_at(meta, i, &t);
        st = add_tensor(f, &t, err);
        if (st != SW_OK) {
            swi_quoted q;
            swi_error_prefix(err, "tensor \"%s\"", swi_quote(&q, t.name, t.name_size));
        }
    }
    for (size_t i = 0; st == SW_OK && i < swi_dcp_object_count(meta); i++)
        st = add_object(f, i, err);
    if (st == SW_OK)
        st = say_missing_files(f, err);
    const char *first;
    uint64_t orphans = st == SW_OK ? swi_dcp_orphans(meta, &first) : 0;
    if (orphans > 0) {
        swi_quoted q;
        swi_finding_in in = {.severity = SW_DEFECT,
                             .status = SW_ERR_CONFLICT,
                             .code = "orphan-item",
                             .file = f->part->path,
                             .tensor = first};
        st = swi_report_add(f->o->report, &in, err,
                            "%" PRIu64 " stored items belong to no chunk of any tensor, the first "
                            "to \"%s\": the index contradicts itself",
                            orphans, swi_quote_str(&q, first));
    }
    free(f->files);
    f->files = NULL;
    return st;
}

/* DCP-7: payload files that no index names are left over from an earlier, larger save. */
static sw_status say_stale(swi_opening *o, const swi_dcp_part *parts, size_t count, sw_error *err)
{
    swi_names *used = NULL;
    sw_status st = swi_names_make(&used, err);
    for (size_t p = 0; st == SW_OK && p < count; p++) {
        for (size_t i = 0; st == SW_OK && i < swi_dcp_file_count(parts[p].meta); i++) {
            const char *path = swi_dcp_file_at(parts[p].meta, i);
            uint32_t id;
            st = swi_names_add(used, path, strlen(path), &id, NULL, err);
        }
    }
    for (size_t i = 0; st == SW_OK && i < swi_listing_count(o->listing); i++) {
        const swi_listing_entry *e = swi_listing_at(o->listing, i);
        if (!swi_has_suffix(e->name, ".distcp") ||
            swi_names_find(used, e->name, strlen(e->name)) >= 0)
            continue;
        swi_finding_in in = {.severity = SW_WARNING, .code = "stale-file", .file = e->name};
        st = swi_report_add(o->report, &in, err,
                            "the index does not name it: left over from an earlier save into "
                            "this folder; it is not read");
    }
    swi_names_free(used);
    return st;
}

/* Items lie back to back, so nothing may follow the last one. */
static sw_status say_long(filling *f, sw_error *err)
{
    for (size_t i = 0; i < f->extent_count; i++) {
        const extent *e = &f->extents[i];
        if (e->bytes <= e->end)
            continue;
        swi_finding_in in = {.severity = SW_DEFECT,
                             .status = SW_ERR_CORRUPT,
                             .code = "long-file",
                             .file = e->path,
                             .has_offset = true,
                             .offset_bytes = e->end};
        sw_status st = swi_report_add(f->o->report, &in, err,
                                      "%" PRIu64 " bytes follow the last item that the index "
                                      "places in it: it is not the file that was saved",
                                      e->bytes - e->end);
        if (st != SW_OK)
            return st;
    }
    return SW_OK;
}

static sw_status add_facts(filling *f, const swi_dcp_part *parts, size_t count, sw_error *err)
{
    swi_ranges text = {0};
    swi_ranges_add_all(&text, f->ranks, f->rank_count);
    sw_status st = swi_opening_fact(f->o, "writer ranks", err, "%s", swi_ranges_text(&text));
    const char *version = count ? swi_dcp_version(parts[0].meta) : "";
    if (st == SW_OK && version[0] != '\0')
        st = swi_opening_fact(f->o, "format version", err, "%s", version);
    if (st == SW_OK && count > 0 && parts[0].rank >= 0)
        st = swi_opening_fact(f->o, "indexes", err, "one per rank, %zu", count);
    return st;
}

sw_status swi_dcp_fill(swi_opening *o, const swi_dcp_part *parts, size_t count, sw_error *err)
{
    filling f = {.o = o};
    sw_status st = swi_dcp_paths_make(&f.paths, err);
    if (st == SW_OK)
        swi_opening_keep(o, f.paths, swi_dcp_paths_free);
    if (st == SW_OK)
        st = swi_names_make(&f.names, err);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        f.part = &parts[i];
        st = fill_part(&f, err);
    }
    if (st == SW_OK)
        st = say_long(&f, err);
    if (st == SW_OK)
        st = say_stale(o, parts, count, err);
    if (st == SW_OK)
        st = add_facts(&f, parts, count, err);
    swi_names_free(f.names);
    free(f.tensor_of_name);
    free(f.files);
    free(f.extents);
    free(f.ranks);
    swi_section_end(&f.section);
    return st;
}
