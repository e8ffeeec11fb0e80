/* What tensors in files of torch.save are parts of (specs/torch_values.md). */
#include "convert/torch_fixture.h"
#include "format/mem_reader.h"

#include "torch/torch.h"

/* ---- objects as recipes -------------------------------------------------------------------- */

#define VIEW(class, key, elements, start, shape, stride)                                           \
    "M:torch._utils/_rebuild_tensor_v2 ( ( 'storage' M:torch/" class " '" key "' 'cpu' " elements  \
                                                                     " t Q " start " ( " shape     \
                                                                     " t ( " stride " t false "    \
                                                                     "M:collections/OrderedDict "  \
                                                                     ") R t R "
/* The storages of each file: 24 floats, the ranks 0 .. 7, 10 .. 17 in 64 bits, and bad ones. */
#define FLOATS(start, shape, stride) VIEW("FloatStorage", "0", "24", start, shape, stride)
#define RANKS(n) VIEW("IntStorage", "1", "8", "0", n, "1")
#define RANKS_AT(start, shape, stride) VIEW("IntStorage", "1", "8", start, shape, stride)
#define LONGS(shape, stride) VIEW("LongStorage", "2", "8", "0", shape, stride)
#define BAD_RANKS(start, n) VIEW("IntStorage", "3", "4", start, n, "1")

#define NEW(class, state) "M:torch.distributed." class " ) new } ( " state " u b "
#define BARE(class) "M:torch.distributed." class " ) new "
#define MESH(state) NEW("device_mesh/DeviceMesh", state)
#define AXIS(shape, stride) NEW("_mesh_layout/_FlatLayout", "'shape' " shape " 'stride' " stride)
#define LAYOUT(axes) "'_layout' " NEW("_mesh_layout/_MeshLayout", "'axes' ( " axes " t")
#define PAIR(shape, stride)                                                                        \
    "'_layout' " NEW("_mesh_layout/_MeshLayout", "'shape' " shape " 'stride' " stride)
#define SIZE(n) "M:torch/Size ( " n " t tuple1 R "
/* Of torch 2.13: one axis of n ranks. */
#define LINE(n, rank)                                                                              \
    MESH(LAYOUT(AXIS("( " n " t", "( 1 t")) "'_rank_map' " RANKS(                                  \
        n) "'_mesh_dim_names' ( 'fsdp' t '_root_mesh' N '_rank' " rank)
#define GRID_2X2(rank)                                                                             \
    MESH(LAYOUT(AXIS("( 2 t", "( 2 t") AXIS("( 2 t", "( 1 t")) "'_rank_map' " RANKS(               \
        "4") "'_mesh_dim_names' ( 'dp' 'tp' t '_rank' " rank)

#define SHARD(d) NEW("tensor.placement_types/Shard", "'dim' " d)
#define STRIDED(d, n) NEW("tensor.placement_types/_StridedShard", "'dim' " d " 'split_factor' " n)
#define COPY BARE("tensor.placement_types/Replicate")
#define META(shape)                                                                                \
    "'tensor_meta' M:torch.distributed.tensor._dtensor_spec/TensorMeta ( " SIZE(                   \
        shape) "( 1 t M:torch/float32 t new "
#define DTENSOR_IN(place, shape, local, mesh, placements, more)                                    \
    "M:torch._tensor/_rebuild_from_type_v2 ( M:torch._utils/_rebuild_wrapper_subclass "            \
    "M:torch.distributed." place "/DTensor ( M:torch.distributed." place                           \
    "/DTensor M:torch/float32 ( " shape " t ( t 0 t ( N } ( '_local_tensor' " local                \
    "'_spec' " NEW("tensor._dtensor_spec/DTensorSpec",                                             \
                   "'mesh' " mesh "'placements' ( " placements "t " more) "u t t R "
#define DTENSOR(shape, local, mesh, placements)                                                    \
    DTENSOR_IN("tensor", shape, local, mesh, placements, META(shape))

#define BOX(offsets, sizes, rank)                                                                  \
    "M:torch.distributed._shard.metadata/ShardMetadata ) new N } ( 'shard_offsets' ] ( " offsets   \
    " e 'shard_sizes' ] ( " sizes                                                                  \
    " e 'placement' " NEW("remote_device/_remote_device", "'_rank' " rank) "u tuple2 b "
#define LOCAL(tensor, box)                                                                         \
    "M:torch.distributed._shard.sharded_tensor.shard/Shard ) new N } ( 'tensor' " tensor           \
    "'metadata' " box "u tuple2 b "
#define GROUP(rank)                                                                                \
    "M:__builtin__/getattr M:torch.distributed._shard.sharded_tensor.api/ShardedTensor "           \
    "'ProcessGroupState' tuple2 R ) new } ( 'global_rank' " rank                                   \
    " 'local_rank' 3 'local_world_size' 4 u b "
#define STATE(locals, size, all, dtype, group)                                                     \
    "( ] ( " locals                                                                                \
    "e " NEW("_shard.sharded_tensor.metadata/ShardedTensorMetadata",                               \
             "'shards_metadata' ] ( " all "e 'size' " SIZE(                                        \
                 size) "'tensor_properties' "                                                      \
                       "M:torch.distributed._shard.sharded_tensor.metadata/TensorProperties"       \
                       " ) new ( M:torch/" dtype " N false N false t b ") group "N false t "
#define SHARDED_CLASS "M:torch.distributed._shard.sharded_tensor.api/ShardedTensor "
#define SHARDED(shape, state)                                                                      \
    "M:torch._tensor/_rebuild_from_type_v2 ( "                                                     \
    "M:torch._utils/_rebuild_wrapper_subclass " SHARDED_CLASS "( " SHARDED_CLASS                   \
    "M:torch/float32 ( " shape " t t " state "t R "

typedef struct opened {
    swi_buf bytes;
    mem_reader reader;
    swi_torch_file *tf;
    swi_torch_object object;
    sw_status status; /* of making the object */
    sw_error err;
} opened;

static void storages(torch_world *w)
{
    float floats[24];
    int32_t ranks[8], bad[4] = {0, 1, 1, -3};
    int64_t wide[8];
    for (int i = 0; i < 24; i++)
        floats[i] = (float)i;
    for (int i = 0; i < 8; i++) {
        ranks[i] = i;
        wide[i] = 10 + i;
    }
    torch_storage(w, "FloatStorage", 4, floats, sizeof floats);
    torch_storage(w, "IntStorage", 4, ranks, sizeof ranks);
    torch_storage(w, "LongStorage", 8, wide, sizeof wide);
    torch_storage(w, "IntStorage", 4, bad, sizeof bad);
}

/* A file whose object is a dict: "w" has this value, which more pairs may follow. */
static void open_any(const char *value, const torch_file_options *options, opened *o)
{
    torch_world *w = torch_begin(false);
    *o = (opened){0};
    storages(w);
    torch_say(w, "} ( 'w'");
    torch_say(w, value);
    torch_say(w, "u");
    torch_zip(w, &o->bytes, options);
    torch_free(w);
    mem_reader_init(&o->reader, o->bytes.data, o->bytes.size);
    assert_ok(swi_torch_open(&o->reader.pub, 0, 0, o->bytes.size, &o->tf, &o->err), &o->err);
    o->status = swi_torch_object_make(o->tf, &o->reader.pub, true, &o->object, &o->err);
}

static void close_it(opened *o)
{
    swi_torch_object_free(&o->object);
    swi_torch_free(o->tf);
    mem_reader_end(&o->reader);
    swi_buf_free(&o->bytes);
}

static void open_w(const char *value, opened *o)
{
    open_any(value, NULL, o);
    assert_ok(o->status, &o->err);
}

static const swi_share *only_share(opened *o)
{
    if (o->object.opaque_count > 0)
        fail_msg("opaque: %s", o->object.opaque[0].why);
    assert_int_equal(o->object.tensor_count, 1);
    const swi_share *s = swi_torch_share_of(&o->object, 0);
    assert_non_null(s);
    return s;
}

static void assert_sizes(uint32_t axes, const int64_t *found, uint32_t want_axes,
                         const int64_t *want)
{
    assert_int_equal(axes, want_axes);
    for (uint32_t k = 0; k < axes; k++)
        assert_int_equal(found[k], want[k]);
}

static void assert_refused(const char *value, sw_status status, const char *text)
{
    opened o;
    open_w(value, &o);
    assert_int_equal(o.object.tensor_count, 0);
    assert_int_equal(o.object.opaque_count, 1);
    if (o.object.opaque[0].status != status || strstr(o.object.opaque[0].why, text) == NULL)
        fail_msg("%s: %s, not %s", sw_status_name(o.object.opaque[0].status),
                 o.object.opaque[0].why, text);
    close_it(&o);
}

/* ---- meshes -------------------------------------------------------------------------------- */

typedef struct mesh_case {
    const char *mesh, *placements;
    uint32_t axes;
    int64_t size[3], ranks[8];
    int64_t rank;
} mesh_case;

/* TV-3, TV-4, TV-5: meshes of every version, whole ones and parts. */
static const mesh_case meshes[] = {
    {LINE("4", "2"), SHARD("0"), 1, {4}, {0, 1, 2, 3}, 2},
    {GRID_2X2("1"), SHARD("0") COPY, 2, {2, 2}, {0, 1, 2, 3}, 1},
    /* the columns of a mesh, and one that is flattened out of order */
    {MESH(LAYOUT(AXIS("( 4 t", "( 2 t")) "'_rank_map' " RANKS("8") "'_root_mesh' N '_rank' 3"),
     SHARD("0"),
     1,
     {4},
     {1, 3, 5, 7},
     3},
    {MESH(LAYOUT(AXIS("( 2 2 t", "( 1 4 t")
                     AXIS("( t", "( t")) "'_rank_map' " RANKS("8") "'_rank' 2"),
     SHARD("0") COPY,
     2,
     {4, 1},
     {2, 6, 3, 7},
     2},
    /* 2.9: shapes and strides of all axes, a torch.Size among them, coordinates */
    {MESH(PAIR(SIZE("2 2"),
               "( 2 1 t") "'_rank_map' " RANKS("4") "'_mesh_dim_names' N '_flatten_mesh_list' ( 0 "
                                                    "1 2 3 t '_coordinate_on_dim' ] ( 1 0 e"),
     SHARD("0") SHARD("1"),
     2,
     {2, 2},
     {0, 1, 2, 3},
     2},
    {MESH(PAIR("2", "1") "'_rank_map' " RANKS(
         "8") "'_flatten_mesh_list' ( 4 5 t '_coordinate_on_dim' ] ( 1 e"),
     SHARD("0"),
     1,
     {2},
     {4, 5},
     5},
    {MESH(PAIR("( ( 2 2 t t", "( ( 4 1 t t") "'_rank_map' " RANKS(
         "8") "'_flatten_mesh_list' ( 2 3 6 7 t '_coordinate_on_dim' N"),
     SHARD("0"),
     1,
     {4},
     {2, 3, 6, 7},
     -1},
    /* before 2.9: a tensor, of which strides count */
    {MESH("'mesh' " RANKS_AT("0", "2 2", "1 2") "'mesh_dim_names' ( 'dp' 'tp' t "
                                                "'_coordinate_on_dim' ] ( 1 0 e"),
     SHARD("0") COPY,
     2,
     {2, 2},
     {0, 2, 1, 3},
     1},
    {MESH("'mesh' " LONGS("4", "2") "'_coordinate_on_dim' N"),
     SHARD("0"),
     1,
     {4},
     {10, 12, 14, 16},
     -1},
    {MESH("'mesh' " LONGS("1", "1")), COPY, 1, {1}, {10}, -1},
    {MESH("'mesh' " VIEW("IntStorage", "1", "8", "3", "", "")), "", 0, {0}, {3}, -1},
};

#define IN_LINE(mesh, placements) DTENSOR("8 3", FLOATS("0", "2 3", "3 1"), mesh, placements)

static void dtensor_on(const char *mesh, const char *placements, opened *o)
{
    swi_buf text = {0};
    static const char end[] = "";
    const char *const parts[] = {
        "M:torch._tensor/_rebuild_from_type_v2 ( M:torch._utils/_rebuild_wrapper_subclass "
        "M:torch.distributed.tensor/DTensor ( M:torch.distributed.tensor/DTensor M:torch/float32 ( "
        "8 3 t ( 3 1 t 0 t ( N } ( '_local_tensor' " FLOATS(
            "0", "2 3",
            "3 1") "'_spec' M:torch.distributed.tensor._dtensor_spec/DTensorSpec ) new } ( 'mesh' ",
        mesh,
        "'placements' ( ",
        placements,
        "t u b u t t R ",
        end};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        recipe_bytes(&text, parts[i], strlen(parts[i]) + (parts[i] == end));
    open_w((const char *)text.data, o);
    swi_buf_free(&text);
}

static void meshes_of_all_versions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        const mesh_case *c = &meshes[i];
        opened o;
        dtensor_on(c->mesh, c->placements, &o);
        const swi_share *s = only_share(&o);
        const swi_mesh *m = swi_mesh_of(&o.object.meshes, s);
        uint64_t count = 1;
        assert_non_null(m);
        assert_int_equal(m->axes, c->axes);
        assert_int_equal(s->placements.axes, c->axes);
        for (uint32_t a = 0; a < m->axes; a++) {
            assert_int_equal(m->size[a], c->size[a]);
            assert_int_equal(s->placements.size[a], c->size[a]);
            count *= m->size[a];
        }
        assert_int_equal(m->count, count);
        for (uint64_t r = 0; r < count; r++) {
            assert_int_equal(m->ranks[r], c->ranks[r]);
            assert_int_equal(swi_mesh_number(m, c->ranks[r]), r);
        }
        assert_int_equal(swi_mesh_number(m, 99), -1);
        assert_int_equal(swi_mesh_number(m, -1), -1);
        assert_int_equal(m->rank, c->rank);
        assert_int_equal(s->rank, c->rank);
        assert_int_equal(o.object.rank, c->rank);
        close_it(&o);
    }
}

static void names_of_meshes(void **state)
{
    (void)state;
    opened o;
    dtensor_on(GRID_2X2("1"), COPY COPY, &o);
    assert_string_equal(o.object.meshes.at[0].name[0], "dp");
    assert_string_equal(o.object.meshes.at[0].name[1], "tp");
    close_it(&o);
    dtensor_on(MESH("'mesh' " RANKS("2") "'mesh_dim_names' ( 7 t"), COPY, &o);
    assert_null(o.object.meshes.at[0].name[0]);
    close_it(&o);
}

/* Nodes that say the same are one mesh, and a node that is referred to again is read once. */
static void equal_meshes_are_one(void **state)
{
    (void)state;
    opened o;
    open_w(IN_LINE(LINE("4", "1"), SHARD("0")) "'b' " IN_LINE(LINE("4", "1"), COPY) "'c' " IN_LINE(
               LINE("4", "2") "put:6 ", COPY) "'d' " IN_LINE("get:6 ", COPY),
           &o);
    assert_int_equal(o.object.tensor_count, 4);
    assert_int_equal(o.object.meshes.count, 2);
    static const uint32_t want[] = {0, 0, 1, 1};
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(swi_torch_share_of(&o.object, i)->mesh, want[i]);
    assert_int_equal(o.object.rank, 1); /* the first one's */
    close_it(&o);
}

static void bad_meshes(void **state)
{
    (void)state;
    static const struct {
        const char *mesh;
        sw_status status;
        const char *text;
    } cases[] = {
        {MESH("'mesh' " BAD_RANKS("0", "3")), SW_ERR_CORRUPT, "a mesh that has rank 1 twice"},
        {MESH("'mesh' " BAD_RANKS("3", "1")), SW_ERR_CORRUPT, "a mesh with rank -3"},
        {MESH("'mesh' " RANKS("0")), SW_ERR_CORRUPT, "a mesh of no ranks"},
        {MESH("'mesh' " FLOATS("0", "4", "1")), SW_ERR_UNSUPPORTED, "whose ranks are of float32"},
        {MESH("'mesh' " RANKS("9")), SW_ERR_CORRUPT, "the ranks of its mesh: "},
        {MESH("'mesh' N"), SW_ERR_FORMAT, "the ranks of its mesh: "},
        {MESH("'mesh' " RANKS_AT("0", "1 1 1 1 1 1 1 1 2", "1 1 1 1 1 1 1 1 1")),
         SW_ERR_UNSUPPORTED, "a mesh of 9 axes"},
        {MESH("'_thread_id' N"), SW_ERR_UNSUPPORTED, "a form that is not understood"},
        {"N ", SW_ERR_UNSUPPORTED, "a form that is not understood"},
        {MESH("'_layout' N '_rank_map' " RANKS("4")), SW_ERR_UNSUPPORTED, "whose layout"},
        {MESH(LAYOUT(AXIS("( 4 t", "( 1 t"))), SW_ERR_UNSUPPORTED, "whose layout"},
        {MESH(LAYOUT(AXIS("( 2 2 t", "( 1 t")) "'_rank_map' " RANKS("4")), SW_ERR_UNSUPPORTED,
         "whose layout"},
        {MESH(LAYOUT(AXIS("( 0 t", "( 1 t")) "'_rank_map' " RANKS("4")), SW_ERR_UNSUPPORTED,
         "whose layout"},
        {MESH(LAYOUT(AXIS("( -2 t", "( 1 t")) "'_rank_map' " RANKS("4")), SW_ERR_UNSUPPORTED,
         "whose layout"},
        {MESH(PAIR("( 2 2 t", "( 1 t") "'_rank_map' " RANKS("4")), SW_ERR_UNSUPPORTED,
         "whose layout"},
        {MESH(
             LAYOUT(AXIS("( 1048576 t", "( 0 t") AXIS("( 2 t", "( 0 t")) "'_rank_map' " RANKS("4")),
         SW_ERR_UNSUPPORTED, "whose layout"},
        {MESH(LAYOUT(AXIS("( 4 t", "( 2 t")) "'_rank_map' " RANKS("4")), SW_ERR_CORRUPT,
         "reaches beyond its 4 ranks"},
        {MESH(LAYOUT(AXIS("( 4 t", "( 4611686018427387905 t")) "'_rank_map' " RANKS("4")),
         SW_ERR_CORRUPT, "reaches beyond its 4 ranks"},
        {MESH(LAYOUT(AXIS("( 4 t", "( 0 t")) "'_rank_map' " RANKS("4")), SW_ERR_CORRUPT,
         "rank 0 twice"},
        {MESH(LAYOUT(AXIS("( 2 t", "( 1 t")) "'_rank_map' " RANKS("4")), SW_ERR_UNSUPPORTED,
         "nothing tells which part"},
        {MESH(LAYOUT(AXIS("( 2 t", "( 1 t")) "'_rank_map' " RANKS("4") "'_rank' 7"),
         SW_ERR_UNSUPPORTED, "nothing tells which part"},
        {MESH(LAYOUT(AXIS("( 2 t", "( 1 t")
                         AXIS("( 2 t", "( 1 t")) "'_rank_map' " RANKS("8") "'_rank' 1"),
         SW_ERR_CORRUPT, "axes overlap"},
        {MESH(LAYOUT(AXIS("( 2 t", "( 1 t") AXIS("( 3 t", "( 1 t")) "'_rank_map' " RANKS("6")),
         SW_ERR_CORRUPT, "rank 1 twice"},

    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        opened o;
        dtensor_on(cases[i].mesh, SHARD("0"), &o);
        assert_int_equal(o.object.opaque_count, 1);
        const swi_torch_opaque *q = &o.object.opaque[0];
        if (q->status != cases[i].status || strstr(q->why, cases[i].text) == NULL)
            fail_msg("case %zu: %s: %s", i, sw_status_name(q->status), q->why);
        assert_int_equal(o.object.meshes.count, 0);
        close_it(&o);
    }
}

/* More than a mesh can be is a limit: it fails the file. */
static void many_ranks(void **state)
{
    (void)state;
    opened o;
    open_any(IN_LINE(MESH("'mesh' " RANKS_AT("0", "1048577", "0")), COPY), NULL, &o);
    assert_error(&o.err, SW_ERR_LIMIT, "meshes of more than 1048576 ranks");
    close_it(&o);
}

/* The storage of a mesh is compared with its CRC-32, and only in this byte order read. */
static void damaged_ranks(void **state)
{
    (void)state;
    opened o;
    open_w(IN_LINE(LINE("4", "1"), COPY), &o);
    const uint64_t at = swi_torch_storage_at(o.tf, 1)->offset_bytes;
    swi_torch_object_free(&o.object);
    ((uint8_t *)o.bytes.data)[at] ^= 1;
    assert_ok(swi_torch_object_make(o.tf, &o.reader.pub, true, &o.object, &o.err), &o.err);
    assert_int_equal(o.object.opaque_count, 1);
    assert_int_equal(o.object.opaque[0].status, SW_ERR_CORRUPT);
    assert_non_null(strstr(o.object.opaque[0].why, "storage 1 has CRC-32"));
    close_it(&o);
    open_any(IN_LINE(LINE("4", "1"), COPY), &(torch_file_options){.byteorder = "big"}, &o);
    assert_ok(o.status, &o.err);
    assert_int_equal(o.object.opaque_count, 1);
    assert_int_equal(o.object.opaque[0].status, SW_ERR_UNSUPPORTED);
    assert_non_null(strstr(o.object.opaque[0].why, "a storage that is not read here"));
    close_it(&o);
}

/* ---- DTensor ------------------------------------------------------------------------------- */

static void placements_of_all_kinds(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        swi_placement at[2];
    } cases[] = {
        {IN_LINE(GRID_2X2("1"), SHARD("1") COPY),
         {{SWI_SHARD, 1, 0, NULL}, {SWI_REPLICATE, 0, 0, NULL}}},
        {IN_LINE(GRID_2X2("1"), SHARD("-1") SHARD("-2")),
         {{SWI_SHARD, 1, 0, NULL}, {SWI_SHARD, 0, 0, NULL}}},
        {IN_LINE(GRID_2X2("1"), STRIDED("0", "2") SHARD("0")),
         {{SWI_STRIDED_SHARD, 0, 2, NULL}, {SWI_SHARD, 0, 0, NULL}}},
        {IN_LINE(GRID_2X2("1"), NEW("tensor.placement_types/Replicate", "") SHARD("0")),
         {{SWI_REPLICATE, 0, 0, NULL}, {SWI_SHARD, 0, 0, NULL}}},
        /* torch before 2.5, and Parameters around */
        {DTENSOR_IN("_tensor.api", "8 3", FLOATS("0", "2 3", "3 1"), GRID_2X2("1"),
                    NEW("_tensor.placement_types/Shard", "'dim' 0") SHARD("1"), ""),
         {{SWI_SHARD, 0, 0, NULL}, {SWI_SHARD, 1, 0, NULL}}},
        {"M:torch._utils/_rebuild_parameter ( " IN_LINE(
             GRID_2X2("1"), SHARD("0") COPY) "true M:collections/OrderedDict ) R t R ",
         {{SWI_SHARD, 0, 0, NULL}, {SWI_REPLICATE, 0, 0, NULL}}},
    };
    static const int64_t shape[] = {8, 3}, local[] = {2, 3};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        opened o;
        open_w(cases[i].value, &o);
        const swi_share *s = only_share(&o);
        assert_int_equal(s->kind, SWI_SHARE_PLACED);
        assert_sizes(s->axes, s->shape, 2, shape);
        assert_sizes(o.object.tensors[0].axes, o.object.tensors[0].shape, 2, local);
        for (uint32_t a = 0; a < 2; a++) {
            assert_int_equal(s->placements.at[a].kind, cases[i].at[a].kind);
            assert_int_equal(s->placements.at[a].dim, cases[i].at[a].dim);
            assert_int_equal(s->placements.at[a].split_factor, cases[i].at[a].split_factor);
        }
        close_it(&o);
    }
}

/* Locals of FSDP2 are views of padded storages; empty ones too, and of scalars all is there. */
static void locals(void **state)
{
    (void)state;
    opened o;
    open_w(DTENSOR("3 4", FLOATS("8", "0 4", "4 1"), LINE("4", "3"), SHARD("0")), &o);
    assert_sizes(o.object.tensors[0].axes, o.object.tensors[0].shape, 2, (const int64_t[]){0, 4});
    assert_int_equal(o.object.tensors[0].elements, 0);
    assert_sizes(only_share(&o)->axes, only_share(&o)->shape, 2, (const int64_t[]){3, 4});
    close_it(&o);
    open_w(DTENSOR("", FLOATS("7", "", ""), LINE("2", "0"), COPY), &o);
    assert_int_equal(only_share(&o)->axes, 0);
    assert_int_equal(o.object.tensors[0].start_elements, 7);
    close_it(&o);
}

static void refused_placements(void **state)
{
    (void)state;
#define ONE(placement) IN_LINE(LINE("4", "1"), placement)
#define OLD(placements)                                                                            \
    DTENSOR_IN("_tensor.api", "8 3", FLOATS("0", "2 3", "3 1"), GRID_2X2("1"), placements, "")
    assert_refused(ONE(NEW("tensor.placement_types/Partial", "'reduce_op' 'sum'")),
                   SW_ERR_UNSUPPORTED, "a DTensor placed Partial: each rank has a summand");
    assert_refused(ONE(NEW("_tensor.placement_types/_Partial", "'reduce_op' 0")),
                   SW_ERR_UNSUPPORTED, "a DTensor placed _Partial: ");
    assert_refused(ONE(NEW("tensor._ops._embedding_ops/_MaskPartial", "'offset_dim' 0")),
                   SW_ERR_UNSUPPORTED, "a DTensor placed _MaskPartial: ");
    assert_refused(ONE(BARE("tensor.placement_types/Ragged")), SW_ERR_UNSUPPORTED,
                   "a DTensor placed Ragged, which is not known here");
    assert_refused(ONE("M:mine/Shard ) new } ( 'dim' 0 u b "), SW_ERR_UNSUPPORTED,
                   "a placement of no known class");
    assert_refused(ONE("7 "), SW_ERR_UNSUPPORTED, "a placement of no known class");
    assert_refused(ONE(SHARD("2")), SW_ERR_CORRUPT, "2 axes that is divided along axis 2");
    assert_refused(ONE(SHARD("-3")), SW_ERR_CORRUPT, "2 axes that is divided along axis -3");
    assert_refused(ONE(BARE("tensor.placement_types/Shard")), SW_ERR_CORRUPT,
                   "placed Shard without saying how");
    assert_refused(ONE(STRIDED("0", "0")), SW_ERR_CORRUPT, "placed _StridedShard without saying");
    assert_refused(ONE(SHARD("0") SHARD("0")), SW_ERR_CORRUPT, "2 placements on a mesh of 1 axes");
    assert_refused(ONE(""), SW_ERR_CORRUPT, "0 placements on a mesh of 1 axes");
    assert_refused(DTENSOR_IN("tensor", "8 3", FLOATS("0", "2 3", "3 1"), LINE("4", "1"),
                              SHARD("0"), META("8 4")),
                   SW_ERR_CORRUPT, "gives its shape in two ways");
    assert_refused(DTENSOR("8 -3", FLOATS("0", "2 3", "3 1"), LINE("4", "1"), SHARD("0")),
                   SW_ERR_FORMAT, "without a shape");
    assert_refused(DTENSOR("8 3", FLOATS("0", "9 3", "3 1"), LINE("4", "1"), SHARD("0")),
                   SW_ERR_CORRUPT, "storage 0, which holds 24");
    /* TV-7: an order that torch before 2.5 does not tell, unless one of the axes is of one rank */
    assert_refused(OLD(SHARD("0") SHARD("0")), SW_ERR_UNSUPPORTED, "two placements Shard(0)");
    opened o;
    open_w(DTENSOR_IN("_tensor.api", "8 3", FLOATS("0", "2 3", "3 1"),
                      MESH("'mesh' " RANKS_AT("0", "1 4", "4 1")), SHARD("0") SHARD("0"), ""),
           &o);
    assert_int_equal(only_share(&o)->placements.at[1].kind, SWI_SHARD);
    close_it(&o);
    open_w(OLD(STRIDED("0", "2") SHARD("0")), &o);
    assert_int_equal(only_share(&o)->placements.at[0].kind, SWI_STRIDED_SHARD);
    close_it(&o);
    open_w(IN_LINE(GRID_2X2("1"), SHARD("0") SHARD("0")), &o);
    assert_int_equal(only_share(&o)->placements.at[1].kind, SWI_SHARD);
    close_it(&o);
}

/* ---- ShardedTensor ------------------------------------------------------------------------- */

#define BOXES BOX("0 0", "3 3", "0") BOX("3 0", "2 3", "1")
#define MINE(offsets, sizes, rank) LOCAL(FLOATS("0", "2 3", "3 1"), BOX(offsets, sizes, rank))
#define HAS(locals, group) SHARDED("5 3", STATE(locals, "5 3", BOXES, "float32", group))

static void shards(void **state)
{
    (void)state;
    static const int64_t shape[] = {5, 3}, offset[] = {3, 0}, length[] = {2, 3};
    static const char *const forms[] = {
        HAS(MINE("3 0", "2 3", "1"), GROUP("1")),
        "M:torch._utils/_rebuild_parameter ( " HAS(MINE("3 0", "2 3", "0"),
                                                   GROUP("1")) "true N t R ",
        /* the rank by its placement; and an object of before 1.13 */
        HAS(MINE("3 0", "2 3", "1"), "N "),
        SHARDED_CLASS
        ") new " STATE(MINE("3 0", "2 3", "1"), "5 3", BOXES, "float32", GROUP("1")) "b ",
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        opened o;
        open_w(forms[i], &o);
        const swi_share *s = only_share(&o);
        assert_int_equal(s->kind, SWI_SHARE_SHARD);
        assert_sizes(s->axes, s->shape, 2, shape);
        assert_sizes(s->axes, s->offset, 2, offset);
        assert_sizes(s->axes, s->length, 2, length);
        assert_int_equal(s->shards, 2);
        assert_int_equal(s->rank, 1);
        assert_int_equal(o.object.rank, 1);
        assert_int_equal(o.object.tensors[0].elements, 6);
        assert_int_equal(s->group, i == 2 ? 0 : 4);
        assert_int_equal(s->group_rank, i == 2 ? -1 : 3);
        assert_null(swi_mesh_of(&o.object.meshes, s));
        close_it(&o);
    }
}

/* TV-9: a rank of which no shard is has a tensor without elements, and tells its type. */
static void no_shard(void **state)
{
    (void)state;
    opened o;
    open_w(SHARDED("5 3", STATE("", "5 3", BOXES, "bfloat16", GROUP("7"))), &o);
    const swi_share *s = only_share(&o);
    static const int64_t none[] = {0, 0};
    assert_sizes(s->axes, s->shape, 2, (const int64_t[]){5, 3});
    assert_sizes(s->axes, s->length, 2, none);
    assert_int_equal(s->rank, 7);
    assert_sizes(o.object.tensors[0].axes, o.object.tensors[0].shape, 2, none);
    assert_int_equal(o.object.tensors[0].elements, 0);
    assert_int_equal(o.object.tensors[0].dtype, SW_BF16);
    close_it(&o);
}

static void refused_shards(void **state)
{
    (void)state;
    assert_refused(HAS(MINE("3 0", "2 3", "1") MINE("0 0", "2 3", "1"), GROUP("1")),
                   SW_ERR_UNSUPPORTED, "of which one rank has 2 shards");
    assert_refused(HAS(MINE("4 0", "2 3", "1"), GROUP("1")), SW_ERR_CORRUPT,
                   "reaches beyond it, along axis 0");
    assert_refused(HAS(MINE("3 9223372036854775807", "2 3", "1"), GROUP("1")), SW_ERR_CORRUPT,
                   "reaches beyond it, along axis 1");
    assert_refused(HAS(MINE("-1 0", "2 3", "1"), GROUP("1")), SW_ERR_CORRUPT, "without its place");
    assert_refused(HAS(MINE("3", "2 3", "1"), GROUP("1")), SW_ERR_CORRUPT, "without its place");
    assert_refused(HAS(LOCAL("N ", BOX("3 0", "2 3", "1")), GROUP("1")), SW_ERR_FORMAT,
                   "not a tensor");
    assert_refused(HAS("N ", GROUP("1")), SW_ERR_FORMAT, "without its place");
    assert_refused(SHARDED("6 3", STATE("", "5 3", BOXES, "float32", "N ")), SW_ERR_CORRUPT,
                   "gives its shape in two ways");
    assert_refused(SHARDED("5 3", STATE("", "5 3", BOXES, "qint8", "N ")), SW_ERR_UNSUPPORTED,
                   "of a type that is not known");
    assert_refused(SHARDED("", STATE("", "", "", "float32", "N ")), SW_ERR_CORRUPT, "of no axes");
    assert_refused(SHARDED("5 3", "( ] N N t "), SW_ERR_FORMAT, "without a shape or its shards");
    assert_refused(SHARDED("5 3", "N "), SW_ERR_FORMAT, "without a shape or its shards");
}

/* ---- what is none -------------------------------------------------------------------------- */

/* Without parts nothing is a share, and other classes of these names never are. */
static void no_shares(void **state)
{
    (void)state;
    opened o;
    open_w(IN_LINE(LINE("4", "1"), COPY) "'x' " FLOATS("0", "2", "1"), &o);
    assert_int_equal(o.object.tensor_count, 2);
    assert_non_null(swi_torch_share_of(&o.object, 0));
    assert_null(swi_torch_share_of(&o.object, 1));
    assert_null(swi_mesh_of(&o.object.meshes, NULL));
    swi_torch_object_free(&o.object);
    assert_ok(swi_torch_object_make(o.tf, &o.reader.pub, false, &o.object, &o.err), &o.err);
    assert_int_equal(o.object.tensor_count, 1);
    assert_null(swi_torch_share_of(&o.object, 0));
    assert_int_equal(o.object.opaque_count, 1);
    assert_int_equal(o.object.rank, -1);
    close_it(&o);
    char *other = recipe_swap(IN_LINE(LINE("4", "1"), COPY), "torch.distributed.tensor/DTensor",
                              "mine.distributed.tensor/DTensor");
    assert_refused(other, SW_ERR_UNSUPPORTED, "_rebuild_from_type_v2");
    free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meshes_of_all_versions),
        cmocka_unit_test(names_of_meshes),
        cmocka_unit_test(equal_meshes_are_one),
        cmocka_unit_test(bad_meshes),
        cmocka_unit_test(many_ranks),
        cmocka_unit_test(damaged_ranks),
        cmocka_unit_test(placements_of_all_kinds),
        cmocka_unit_test(locals),
        cmocka_unit_test(refused_placements),
        cmocka_unit_test(shards),
        cmocka_unit_test(no_shard),
        cmocka_unit_test(refused_shards),
        cmocka_unit_test(no_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
