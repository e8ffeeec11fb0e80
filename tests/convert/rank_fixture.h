/* Folders of torch_checkpointing from a few words: files of two ranks, and their metadata.pkl. */
#ifndef TESTS_CONVERT_RANK_FIXTURE_H
#define TESTS_CONVERT_RANK_FIXTURE_H

#include "convert/torch_fixture.h"

#define RANK_SHARD "( } ( 'type' 'Shard' 'dim' 0 u t"
#define RANK_COPY "( } ( 'type' 'Replicate' u t"

/* One tensor of the metadata: its path in JSON, its shape, and how two ranks divide it. */
static inline void rank_tensor(swi_buf *out, const char *path, const char *shape,
                               const char *placements)
{
    char text[1024];
    snprintf(text, sizeof text,
             "'%s' ] ( } ( 'sharding_metadata' } ( 'type' 'DTensorShardingMetadata' 'data' } ( "
             "'global_shape' ] ( %s e 'dtype' 'torch.float32' 'mesh_spec' } ( 'mesh_shape' ( 2 t "
             "'mesh_data' ( 0 1 t u 'placements' %s u u 'ranks' ( 0 1 t u e",
             path, shape, placements);
    recipe(out, text);
}

/* An item of the metadata with these tensors. */
static inline void rank_item(swi_buf *out, const char *name, const swi_buf *tensors)
{
    recipe_text(out, name, strlen(name));
    recipe(out, "} ( 'nested_path_to_metadata' } (");
    recipe_bytes(out, tensors->data, tensors->size);
    recipe(out, "u 'rank_to_layout_info' } ( 0 N 1 N u u");
}

/* metadata.pkl of these items. */
static inline void rank_meta_items(const char *dir, const swi_buf *items)
{
    swi_buf out = {0};
    recipe(&out, "proto:2 } ( 'metadata' } (");
    recipe_bytes(&out, items->data, items->size);
    recipe(&out, "u 'world_size' 2 'version' '2.0' u .");
    harness_write(harness_path(dir, "metadata.pkl"), out.data, out.size);
    swi_buf_free(&out);
}

/* metadata.pkl of an item "model" with these tensors, or all of it as a recipe. */
static inline void rank_meta(const char *dir, const swi_buf *tensors, const char *all)
{
    swi_buf out = {0};
    if (all == NULL) {
        rank_item(&out, "model", tensors);
        rank_meta_items(dir, &out);
    } else {
        recipe(&out, "proto:2");
        recipe(&out, all);
        recipe(&out, ".");
        harness_write(harness_path(dir, "metadata.pkl"), out.data, out.size);
    }
    swi_buf_free(&out);
}

/* The storage of the ranks 0 .. count - 1, one of a file. */
static inline size_t rank_storage(torch_world *w, int32_t count)
{
    for (size_t i = 0; i < w->count; i++)
        if (strcmp(w->class_name[i], "IntStorage") == 0 && w->storages[i].size == 4 * (size_t)count)
            return i;
    int32_t *ranks = calloc((size_t)count + 1, sizeof *ranks);
    assert_non_null(ranks);
    for (int32_t r = 0; r < count; r++)
        ranks[r] = r;
    size_t storage = torch_storage(w, "IntStorage", 4, ranks, 4 * (size_t)count);
    free(ranks);
    return storage;
}

/* A DTensor of this shape as torch 2.13 saves it; its part comes next, then rank_part_end. */
static inline void rank_part_begin(torch_world *w, const char *key, uint32_t axes,
                                   const int64_t *shape)
{
    char text[512];
    int n =
        snprintf(text, sizeof text,
                 "M:torch._tensor/_rebuild_from_type_v2 ( M:torch._utils/_rebuild_wrapper_subclass "
                 "M:torch.distributed.tensor/DTensor ( M:torch.distributed.tensor/DTensor "
                 "M:torch/float32 ( ");
    for (uint32_t k = 0; k < axes; k++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%lld ", (long long)shape[k]);
    n += snprintf(text + n, sizeof text - (size_t)n, "t t ( N } ( '_local_tensor'");
    assert_true((size_t)n < sizeof text);
    if (key != NULL)
        torch_key(w, key);
    torch_say(w, text);
}

/* Placed on a mesh of two ranks, of which this one saved the file. */
static inline void rank_part_end(torch_world *w, const char *placement, int rank)
{
    char text[300];
    torch_say(w, "'_spec' M:torch.distributed.tensor._dtensor_spec/DTensorSpec ) new } ( 'mesh' "
                 "M:torch.distributed.device_mesh/DeviceMesh ) new } ( '_layout' "
                 "M:torch.distributed._mesh_layout/_MeshLayout ) new } ( 'axes' "
                 "M:torch.distributed._mesh_layout/_FlatLayout ) new } ( "
                 "'shape' 2 tuple1 'stride' 1 tuple1 u b tuple1 u b '_rank_map'");
    torch_view(w, rank_storage(w, 2), 0, 1, (const int64_t[]){2}, (const int64_t[]){1});
    snprintf(text, sizeof text,
             "'_mesh_dim_names' 'fsdp' tuple1 '_root_mesh' N '_rank' %d u b 'placements' "
             "M:torch.distributed.tensor.placement_types/%s b tuple1 u b u t t R",
             rank, placement);
    torch_say(w, text);
}

/* A DTensor of `all` rows of 2 of which this file has `rows` rows from element `base` on. */
static inline void rank_ramp(torch_world *w, const char *key, int64_t all, int64_t rows, float base,
                             int rank)
{
    rank_part_begin(w, key, 2, (const int64_t[]){all, 2});
    torch_ramp(w, NULL, 2, (const int64_t[]){rows, 2}, base);
    rank_part_end(w, "Shard ) new } ( 'dim' 0 u", rank);
}

/* ---- other meshes, and ShardedTensors ------------------------------------------------------- */

#define RANK_ROWS "Shard ) new } ( 'dim' 0 u"
#define RANK_REPLICA "Replicate ) new }"

/* A mesh of all ranks in their order, and how a tensor is placed on it. */
typedef struct rank_mesh {
    int size[2]; /* of the axes; the second 0: there is one */
    const char *placement[2];
} rank_mesh;

/* As rank_part_end. */
static inline void rank_mesh_end(torch_world *w, const rank_mesh *m, int rank)
{
    char text[600];
    int inner = m->size[1] > 0 ? m->size[1] : 1, all = m->size[0] * inner;
    torch_say(w, "'_spec' M:torch.distributed.tensor._dtensor_spec/DTensorSpec ) new } ( 'mesh' "
                 "M:torch.distributed.device_mesh/DeviceMesh ) new } ( '_layout' "
                 "M:torch.distributed._mesh_layout/_MeshLayout ) new } ( 'axes' (");
    for (int a = 0; a < (m->size[1] > 0 ? 2 : 1); a++) {
        snprintf(text, sizeof text,
                 "M:torch.distributed._mesh_layout/_FlatLayout ) new } ( 'shape' %d tuple1 "
                 "'stride' %d tuple1 u b",
                 m->size[a], a == 0 ? inner : 1);
        torch_say(w, text);
    }
    torch_say(w, "t u b '_rank_map'");
    torch_view(w, rank_storage(w, all), 0, 1, (const int64_t[]){all}, (const int64_t[]){1});
    snprintf(text, sizeof text, "'_mesh_dim_names' N '_root_mesh' N '_rank' %d u b 'placements' ( ",
             rank);
    torch_say(w, text);
    for (int a = 0; a < (m->size[1] > 0 ? 2 : 1); a++) {
        snprintf(text, sizeof text, "M:torch.distributed.tensor.placement_types/%s b",
                 m->placement[a]);
        torch_say(w, text);
    }
    torch_say(w, "t u b u t t R");
}

/* A DTensor of `all` rows (of `columns`; 0: 1-D) whose element i is i; this rank has these rows. */
static inline void rank_placed(torch_world *w, const char *key, int64_t all, int64_t columns,
                               int64_t first, int64_t rows, const rank_mesh *m, int rank)
{
    uint32_t axes = columns > 0 ? 2 : 1;
    rank_part_begin(w, key, axes, (const int64_t[]){all, columns});
    torch_ramp(w, NULL, axes, (const int64_t[]){rows, columns},
               (float)(first * (columns > 0 ? columns : 1)));
    rank_mesh_end(w, m, rank);
}

/* The shard that a rank has of a ShardedTensor of rows; rows 0: it has none. */
typedef struct rank_shard {
    int64_t all, columns, first, rows; /* columns 0: 1-D */
    int rank, world, group;            /* the ranks are divided in groups of so many */
} rank_shard;

/* It, as torch 2.13 saves it, with this view as the shard's tensor. */
static inline void rank_sharded_view(torch_world *w, const char *key, const rank_shard *s,
                                     size_t storage, int64_t start)
{
#define SHARDED "M:torch.distributed._shard.sharded_tensor"
    char shape[64], text[700];
    uint32_t axes = s->columns > 0 ? 2 : 1;
    snprintf(shape, sizeof shape, axes == 2 ? "%lld %lld" : "%lld", (long long)s->all,
             (long long)s->columns);
    torch_key(w, key);
    snprintf(
        text, sizeof text,
        "M:torch._tensor/_rebuild_from_type_v2 ( M:torch._utils/_rebuild_wrapper_subclass " SHARDED
        ".api/ShardedTensor ( " SHARDED ".api/ShardedTensor M:torch/float32 ( %s t t "
        "( ]",
        shape);
    torch_say(w, text);
    if (s->rows > 0) {
        torch_say(w, SHARDED ".shard/Shard ) new ( N } ( 'tensor'");
        torch_view(w, storage, start, axes, (const int64_t[]){s->rows, s->columns},
                   (const int64_t[]){axes == 2 ? s->columns : 1, 1});
        snprintf(text, sizeof text,
                 "'metadata' M:torch.distributed._shard.metadata/ShardMetadata ) new ( N } ( "
                 "'shard_offsets' ] ( %lld %s e 'shard_sizes' ] ( %lld ",
                 (long long)s->first, axes == 2 ? "0" : "", (long long)s->rows);
        torch_say(w, text);
        text[0] = '\0';
        if (axes == 2)
            snprintf(text, sizeof text, "%lld", (long long)s->columns);
        torch_say(w, text);
        torch_say(w, "e u t b u t b a");
    }
    snprintf(text, sizeof text,
             SHARDED ".metadata/ShardedTensorMetadata ) new } ( 'shards_metadata' ] ( N N e 'size' "
                     "( %s t 'tensor_properties' " SHARDED ".metadata/TensorProperties ) new ( "
                     "M:torch/float32 N t b u b " SHARDED
                     ".api/ProcessGroupState ) new } ( 'local_rank' %d "
                     "'global_rank' %d 'local_world_size' %d 'global_world_size' %d u b N ] t t R",
             shape, s->rank % s->group, s->rank, s->group, s->world);
    torch_say(w, text);
#undef SHARDED
}

/* On a storage of its own: element i of the whole is base + i. */
static inline void rank_sharded(torch_world *w, const char *key, const rank_shard *s, float base)
{
    size_t row = s->columns > 0 ? (size_t)s->columns : 1, n = (size_t)s->rows * row;
    float *data = calloc(n + 1, sizeof *data);
    assert_non_null(data);
    for (size_t i = 0; i < n; i++)
        data[i] = base + (float)((size_t)s->first * row + i);
    size_t storage = n > 0 ? torch_storage(w, "FloatStorage", 4, data, 4 * n) : 0;
    free(data);
    rank_sharded_view(w, key, s, storage, 0);
}

/* ---- a checkpoint as files of two ranks ----------------------------------------------------- */

/* The rows of a rank, as torch.chunk divides them in two. */
static inline void rank_rows(int64_t rows, int rank, int64_t *from, int64_t *count)
{
    int64_t first = rows - rows / 2;
    *from = rank == 0 ? 0 : first;
    *count = rank == 0 ? first : rows - first;
}

/* A float32 tensor of the checkpoint as this rank has it, and into the metadata. */
static inline void rank_copy_tensor(const sw_checkpoint *c, const char *name, const char *key,
                                    int rank, torch_world *w, swi_buf *tensors)
{
    sw_tensor_info t;
    float *data = read_floats(c, name, &t);
    char shape[128] = "", path[256];
    int64_t from = 0, part[SW_MAX_AXES] = {0};
    size_t row = 1, n = 0;
    for (uint32_t k = 0; k < t.axes; k++) {
        n += (size_t)snprintf(shape + n, sizeof shape - n, "%lld ", (long long)t.shape[k]);
        part[k] = t.shape[k];
        row *= k > 0 ? (size_t)t.shape[k] : 1;
    }
    snprintf(path, sizeof path, "[\"%s\"]", key);
    rank_tensor(tensors, path, shape, t.axes > 0 ? RANK_SHARD : RANK_COPY);
    if (t.axes == 0) {
        torch_floats(w, key, 0, part, data);
    } else {
        rank_rows(t.shape[0], rank, &from, &part[0]);
        rank_part_begin(w, key, t.axes, t.shape);
        torch_floats(w, NULL, t.axes, part, data + (size_t)from * row);
        rank_part_end(w, "Shard ) new } ( 'dim' 0 u", rank);
    }
    free(data);
}

/* Its tensors, each item (the first part of the name) in a file a rank; no values. `series`: names
 * alone bind the files together. */
static inline void rank_copy(const char *from, const char *dir, bool series)
{
    static const char *const items[] = {"model", "optimizer"};
    sw_checkpoint *c = open_good(from);
    swi_buf metadata = {0};
    for (size_t i = 0; i < 2; i++) {
        swi_buf tensors = {0};
        for (int rank = 0; rank < 2; rank++) {
            torch_world *w = torch_begin(false);
            sw_tensor_info t;
            size_t size = strlen(items[i]);
            tensors.size = 0;
            torch_say(w, "} (");
            for (size_t k = 0; sw_catalog_tensor(sw_checkpoint_catalog(c), k, &t); k++)
                if (strncmp(t.name, items[i], size) == 0 && t.name[size] == '.')
                    rank_copy_tensor(c, t.name, t.name + size + 1, rank, w, &tensors);
            torch_say(w, "u");
            torch_write_zip(w,
                            series ? harness_path(dir, "%s_world_size_2_rank_%d.pt", items[i], rank)
                                   : harness_path(dir, "%s_%d.pt", items[i], rank),
                            NULL);
            torch_free(w);
        }
        rank_item(&metadata, items[i], &tensors);
        swi_buf_free(&tensors);
    }
    if (!series)
        rank_meta_items(dir, &metadata);
    swi_buf_free(&metadata);
    sw_checkpoint_close(c);
}

#endif
