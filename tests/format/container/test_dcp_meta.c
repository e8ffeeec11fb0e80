/* `.metadata` of every version, as text; clauses are those of specs/dcp.md. */
#include "harness/harness.h"

#include <string.h>

#include "container/dcp_store.h"
#include "format/recipe.h"

/* How a version of torch names things. */
typedef struct release {
    const char *what;
    const char *proto;
    const char *meta;  /* module of Metadata, MetadataIndex ... */
    const char *props; /* module of TensorProperties */
    const char *encoding;
    const char *files; /* module of _StorageInfo */
    const char *tail;  /* storage_meta and version, or nothing */
    const char *newest;
} release;

#define META "torch.distributed.checkpoint.metadata"
#define META_113 "torch.distributed._shard.checkpoint.metadata"
#define SHARDED "torch.distributed._shard.sharded_tensor.metadata"
#define FILES "torch.distributed.checkpoint.filesystem"
#define FILES_113 "torch.distributed._shard.checkpoint.filesystem"
#define STORAGE_META(id)                                                                           \
    "'storage_meta' M:" META "/StorageMeta ) new } ( 'checkpoint_id' " id                          \
    " 'save_id' '81c0f1ee' 'load_id' N 'modules' ] u b "

static const release releases[] = {
    {"1.13", "4", META_113, SHARDED, "MEM_FORMAT_ENCODING", FILES_113, "", ""},
    {"2.0", "4", META, SHARDED, "MEM_FORMAT_ENCODING", FILES, "", ""},
    {"2.2 by Python 3.14", "5", META, SHARDED, "MEM_FORMAT_ENCODING", FILES, "", ""},
    {"2.3", "4", META, META, "_MEM_FORMAT_ENCODING", FILES, "'storage_meta' N ", ""},
    {"2.4", "4", META, META, "_MEM_FORMAT_ENCODING", FILES, STORAGE_META("'/mnt/ckpt'"), ""},
    {"2.6", "4", META, META, "_MEM_FORMAT_ENCODING", FILES,
     STORAGE_META("M:pathlib/PosixPath ( '/' 'mnt' 'ckpt' t R"), ""},
    {"2.13", "4", META, META, "_MEM_FORMAT_ENCODING", FILES,
     STORAGE_META("M:pathlib/PosixPath ( '/' 'mnt' t R") "'version' '1.0.0' ", "1.0.0"},
    {"2.13 by Python 3.13", "4", META, META, "_MEM_FORMAT_ENCODING", FILES,
     STORAGE_META("M:pathlib._local/PosixPath ( '/' t R") "'version' '1.0.0' ", "1.0.0"},
    {"protocol 2", "2", META, META, "_MEM_FORMAT_ENCODING", FILES, "'version' N ", ""},
    {"protocol 3", "3", META, META, "_MEM_FORMAT_ENCODING", FILES, "", ""},
};

#define NEW(module, class) "M:" module "/" class " ) new "
#define SIZE(v) "M:torch/Size ( ( " v " t t R "

/*
 * Two chunks of a (4, 6) float32, a bfloat16 scalar, an object. @meta@ and the like are replaced by
 * what the release says.
 */
#define CHUNK(offsets, sizes)                                                                      \
    "M:@meta@/ChunkStorageMetadata ) new } ( 'offsets' " SIZE(offsets) "'sizes' " SIZE(sizes) "u " \
                                                                                              "b "
#define KEY(name, offset, index)                                                                   \
    "M:@meta@/MetadataIndex ) new } ( 'fqn' '" name "' 'offset' " SIZE(offset) "'index' " index    \
                                                                               " u b "
#define KEY_BYTES(name) "M:@meta@/MetadataIndex ) new } ( 'fqn' '" name "' 'index' N u b "
#define INFO(path, offset, length)                                                                 \
    "M:@files@/_StorageInfo ) new } ( 'relative_path' '" path "' 'offset' " offset                 \
    " 'length' " length " u b "
#define PROPERTIES(dtype)                                                                          \
    "M:@props@/TensorProperties ) new ( M:torch/" dtype " M:torch.serialization/_get_layout ( "    \
    "'torch.strided' t R false M:@props@/@encoding@ ( 0 t R false t b "
#define TENSOR(dtype, size, chunks)                                                                \
    "M:@meta@/TensorStorageMetadata ) new } ( 'properties' " PROPERTIES(dtype) "'size' " SIZE(     \
        size) "'chunks' ] ( " chunks "e u b "

static const char base[] =
    "proto:@proto@ M:@meta@/Metadata ) new } ( "
    "'state_dict_metadata' } ( "
    "'model.w' " TENSOR(
        "float32", "4 6",
        CHUNK("0 0", "2 6") CHUNK(
            "2 0",
            "2 6")) "'model.s' " TENSOR("bfloat16", "",
                                        CHUNK("",
                                              "")) "'opt.0.lr' M:@meta@/BytesStorageMetadata ) new "
                                                   "u "
                                                   "'planner_data' } ( "
                                                   "'model.w' ( 'model' 'w' t "
                                                   "'model.s' ( 'model' 's' t "
                                                   "'opt.0.lr' ( 'opt' 0 'lr' t "
                                                   "u "
                                                   "'storage_data' } ( " KEY("model.w", "0 0", "0")
                                                       INFO("__0_0.distcp", "0",
                                                            "1500") KEY("model.w", "2 0", "1")
                                                           INFO("__1_0.distcp", "64",
                                                                "1501") KEY("model.s", "", "N")
                                                               INFO("__0_0.distcp", "1500", "1400")
                                                                   KEY_BYTES("opt.0.lr")
                                                                       INFO("__0_0.distcp", "2900",
                                                                            "1300") "u "
                                                                                    "@tail@u b .";

static char *expand(const char *text, const release *r)
{
    const char *const pairs[][2] = {{"@meta@", r->meta},   {"@props@", r->props},
                                    {"@files@", r->files}, {"@encoding@", r->encoding},
                                    {"@proto@", r->proto}, {"@tail@", r->tail}};
    char *out = recipe_swap(text, "", "");
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        while (strstr(out, pairs[i][0]) != NULL) {
            char *next = recipe_swap(out, pairs[i][0], pairs[i][1]);
            free(out);
            out = next;
        }
    return out;
}

static void assemble(swi_buf *out, const char *text, const release *r)
{
    char *whole = expand(text, r);
    recipe(out, whole);
    free(whole);
}

#define NEWEST (&releases[6])

static sw_status parse_bytes(const uint8_t *data, size_t size, const sw_limits *limits,
                             swi_pickle_unsafe *unsafe, swi_dcp_meta **out, sw_error *err)
{
    swi_feed feed = swi_feed_of_memory(data, size);
    return swi_dcp_meta_parse(&feed, limits, unsafe, out, err);
}

static sw_status parse(const char *text, swi_dcp_meta **out, sw_error *err)
{
    swi_buf b = {0};
    assemble(&b, text, NEWEST);
    sw_status st = parse_bytes(b.data, b.size, NULL, NULL, out, err);
    swi_buf_free(&b);
    return st;
}

/* The base with one thing changed. */
static swi_dcp_meta *parse_swapped(const char *from, const char *to)
{
    swi_dcp_meta *meta = NULL;
    sw_error err = {0};
    char *text = recipe_swap(base, from, to);
    assert_ok(parse(text, &meta, &err), &err);
    free(text);
    return meta;
}

static void expect_path(const swi_dcp_meta *m, const char *name, const char *want)
{
    char got[256] = "";
    const char *part;
    bool index;
    for (size_t i = 0; swi_dcp_path_part(m, name, i, &part, &index); i++)
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s/", index ? "#" : "", part);
    assert_string_equal(got, want);
}

static void expect_base(const swi_dcp_meta *m)
{
    swi_dcp_tensor t;
    swi_dcp_chunk c;
    swi_dcp_object o;
    const char *orphan;
    assert_int_equal(swi_dcp_tensor_count(m), 2);
    swi_dcp_tensor_at(m, 0, &t);
    assert_string_equal(t.name, "model.w");
    assert_int_equal(t.name_size, 7);
    assert_int_equal(t.dtype, SW_F32);
    assert_int_equal(t.axes, 2);
    assert_int_equal(t.shape[0], 4);
    assert_int_equal(t.shape[1], 6);
    assert_int_equal(t.chunk_count, 2);
    swi_dcp_chunk_at(m, t.chunk_first + 1, t.axes, &c);
    assert_int_equal(c.offset[0], 2);
    assert_int_equal(c.offset[1], 0);
    assert_int_equal(c.length[0], 2);
    assert_int_equal(c.length[1], 6);
    assert_true(c.place.found);
    assert_string_equal(swi_dcp_file_at(m, c.place.file), "__1_0.distcp");
    assert_int_equal(c.place.offset_bytes, 64);
    assert_int_equal(c.place.stored_bytes, 1501);
    assert_int_equal(c.place.transforms, 0);
    swi_dcp_tensor_at(m, 1, &t);
    assert_int_equal(t.dtype, SW_BF16);
    assert_int_equal(t.axes, 0);
    swi_dcp_chunk_at(m, t.chunk_first, t.axes, &c);
    assert_int_equal(c.place.offset_bytes, 1500);
    assert_int_equal(swi_dcp_object_count(m), 1);
    swi_dcp_object_at(m, 0, &o);
    assert_string_equal(o.name, "opt.0.lr");
    assert_true(o.place.found);
    assert_int_equal(o.place.stored_bytes, 1300);
    assert_int_equal(swi_dcp_file_count(m), 2);
    assert_int_equal(swi_dcp_orphans(m, &orphan), 0);
    expect_path(m, "model.w", "model/w/");
    expect_path(m, "opt.0.lr", "opt/#0/lr/");
    expect_path(m, "nothing", "");
    assert_null(swi_dcp_transform_at(m, 0, 0));
    assert_true(swi_dcp_meta_memory(m) > 100);
}

/* ---- good ---------------------------------------------------------------------------------- */

static void good_every_release(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(releases) / sizeof(releases[0]); i++) {
        swi_buf b = {0};
        swi_dcp_meta *m = NULL;
        sw_error err = {0};
        swi_pickle_unsafe unsafe;
        assemble(&b, base, &releases[i]);
        assert_ok(parse_bytes(b.data, b.size, NULL, &unsafe, &m, &err), &err);
        assert_int_equal(unsafe.total, 0);
        expect_base(m);
        assert_string_equal(swi_dcp_version(m), releases[i].newest);
        swi_dcp_meta_free(m);
        swi_buf_free(&b);
    }
}

static void good_variants(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        /* the index is only a hint: none, wrong, beyond all chunks */
        {"'index' 0 u b", "'index' N u b"},
        {"'index' 0 u b", "'index' 1 u b"},
        {"'index' 0 u b", "'index' 99 u b"},
        {"'index' 0 u b", "'index' -1 u b"},
        {"'index' 0 u b", "'index' 'x' u b"},
        {"'index' 0 u b", "u b"},
        /* unknown fields and unknown fields' objects do not matter */
        {"@tail@", "'new_field' M:torch.new/Class ) new } 'a' 1 s b @tail@"},
        {"'index' 0 u b", "'index' 0 'hash' 12 u b"},
        /* enum by name instead of by value */
        {"M:@props@/@encoding@ ( 0 t R",
         "M:builtins/getattr ( M:@props@/@encoding@ 'TORCH_CONTIGUOUS_FORMAT' t R"},
        /* BYTES with an empty state, states of classes with slots */
        {"M:@meta@/BytesStorageMetadata ) new u", "M:@meta@/BytesStorageMetadata ) new } b u"},
        {"} ( 'relative_path' '__0_0.distcp' 'offset' 0 'length' 1500 u b",
         "( N } ( 'relative_path' '__0_0.distcp' 'offset' 0 'length' 1500 u t b"},
        /* properties as a dict, with a layout */
        {PROPERTIES("float32"),
         "M:@props@/TensorProperties ) new } ( 'dtype' M:torch/float32 'requires_grad' true u b "},
        /* no transforms said in so many words */
        {"'length' 1500 u", "'length' 1500 'transform_descriptors' N u"},
        {"'length' 1500 u", "'length' 1500 'transform_descriptors' ] u"},
    };
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        swi_dcp_meta *m = parse_swapped(same[i][0], same[i][1]);
        expect_base(m);
        swi_dcp_meta_free(m);
    }
}

static void good_no_planner_data(void **state)
{
    (void)state;
    swi_dcp_meta *m = parse_swapped("'planner_data' } (", "'planner_data_of_old' } (");
    expect_path(m, "model.w", "");
    swi_dcp_meta_free(m);
    /* A path of something else than texts and numbers is as if it were not there. */
    m = parse_swapped("( 'opt' 0 'lr' t", "( 'opt' 1.5f 'lr' t");
    expect_path(m, "opt.0.lr", "");
    expect_path(m, "model.s", "model/s/");
    swi_dcp_meta_free(m);
}

static void good_no_storage_data(void **state)
{
    (void)state;
    swi_dcp_meta *m = NULL;
    sw_error err = {0};
    swi_dcp_chunk c;
    char *text = recipe_swap(base, "'storage_data' } (", "'storage_data' N 'x' } (");
    assert_ok(parse(text, &m, &err), &err);
    swi_dcp_chunk_at(m, 0, 2, &c);
    assert_false(c.place.found);
    swi_dcp_meta_free(m);
    free(text);
}

static void good_transforms(void **state)
{
    (void)state;
    swi_dcp_chunk c;
    swi_dcp_meta *m = parse_swapped(
        "'length' 1501 u", "'length' 1501 'transform_descriptors' ] ( 'stream.zstd/1' 'b' e u");
    swi_dcp_chunk_at(m, 0, 2, &c);
    assert_int_equal(c.place.transforms, 0);
    swi_dcp_chunk_at(m, 1, 2, &c);
    assert_int_equal(c.place.transforms, 1);
    assert_string_equal(swi_dcp_transform_at(m, 1, 0), "stream.zstd/1");
    assert_string_equal(swi_dcp_transform_at(m, 1, 1), "b");
    assert_null(swi_dcp_transform_at(m, 1, 2));
    assert_null(swi_dcp_transform_at(m, 1, 3));
    assert_null(swi_dcp_transform_at(m, 2, 0));
    swi_dcp_meta_free(m);
}

static void good_one_item_of_two_names(void **state)
{
    (void)state;
    swi_dcp_object o;
    swi_dcp_meta *m =
        parse_swapped(INFO("__0_0.distcp", "2900", "1300"), INFO("__1_0.distcp", "64", "1501"));
    swi_dcp_object_at(m, 0, &o);
    assert_int_equal(o.place.offset_bytes, 64);
    swi_dcp_meta_free(m);
}

static void good_unknown_dtype(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"M:torch/float32", "M:torch/float3_e1m1"},
                                           {"M:torch/float32", "M:other/float32"}};
    static const char *const shown[] = {"float3_e1m1", "other.float32"};
    for (size_t i = 0; i < 2; i++) {
        swi_dcp_tensor t;
        swi_dcp_meta *m = parse_swapped(names[i][0], names[i][1]);
        swi_dcp_tensor_at(m, 0, &t);
        assert_int_equal(t.dtype, SW_DTYPE_NONE);
        assert_string_equal(t.dtype_name, shown[i]);
        swi_dcp_meta_free(m);
    }
}

static void good_large_numbers(void **state)
{
    (void)state;
    swi_dcp_tensor t;
    swi_dcp_chunk c;
    swi_dcp_meta *m =
        parse_swapped(CHUNK("2 0", "2 6"), CHUNK("2 9223372036854775807", "4294967296 4294967295"));
    swi_dcp_tensor_at(m, 0, &t);
    swi_dcp_chunk_at(m, 1, t.axes, &c);
    assert_int_equal(c.offset[0], 2);
    assert_true(c.offset[1] == INT64_MAX);
    assert_true(c.length[0] == (int64_t)1 << 32);
    assert_true(c.length[1] == UINT32_MAX);
    assert_false(c.place.found); /* its key says another offset */
    swi_dcp_meta_free(m);
}

static void good_orphans_and_missing(void **state)
{
    (void)state;
    const char *first = NULL;
    swi_dcp_chunk c;
    /* a key of an item that is not in the index */
    swi_dcp_meta *m = parse_swapped("'fqn' 'model.s'", "'fqn' 'model.gone'");
    assert_int_equal(swi_dcp_orphans(m, &first), 1);
    assert_string_equal(first, "model.gone");
    swi_dcp_chunk_at(m, 2, 0, &c);
    assert_false(c.place.found);
    swi_dcp_meta_free(m);
    /* a key with an offset at which no chunk is */
    m = parse_swapped(KEY("model.w", "2 0", "1"), KEY("model.w", "3 0", "1"));
    assert_int_equal(swi_dcp_orphans(m, &first), 1);
    assert_string_equal(first, "model.w");
    swi_dcp_chunk_at(m, 0, 2, &c);
    assert_true(c.place.found);
    swi_dcp_chunk_at(m, 1, 2, &c);
    assert_false(c.place.found);
    swi_dcp_meta_free(m);
    /* a tensor's key without an offset */
    m = parse_swapped(KEY("model.w", "2 0", "1"), KEY_BYTES("model.w"));
    assert_int_equal(swi_dcp_orphans(m, &first), 1);
    swi_dcp_meta_free(m);
}

/* Zero-volume chunks of an old torch at a real chunk's offset: both find the one place. */
static void good_chunks_of_one_offset(void **state)
{
    (void)state;
    swi_dcp_chunk c;
    const char *first;
    swi_dcp_meta *m = parse_swapped(CHUNK("2 0", "2 6"), CHUNK("2 0", "0 6") CHUNK("2 0", "2 6"));
    for (uint64_t i = 1; i < 3; i++) {
        swi_dcp_chunk_at(m, i, 2, &c);
        assert_true(c.place.found);
        assert_int_equal(c.place.stored_bytes, 1501);
    }
    assert_int_equal(swi_dcp_orphans(m, &first), 0);
    swi_dcp_meta_free(m);
}

/* The chunk list of one tensor is, by a memo, that of another too. */
static void good_shared_chunk_list(void **state)
{
    (void)state;
    swi_dcp_meta *m = NULL;
    sw_error err = {0};
    swi_dcp_tensor t;
    swi_dcp_chunk c;
    char *one = recipe_swap(base, "'chunks' ] ( " CHUNK("0 0", "2 6"),
                            "'chunks' ] put:9 ( " CHUNK("0 0", "2 6"));
    char *two =
        recipe_swap(one, "'model.s' " TENSOR("bfloat16", "", CHUNK("", "")),
                    "'model.s' M:@meta@/TensorStorageMetadata ) new } ( 'properties' " PROPERTIES(
                        "bfloat16") "'size' " SIZE("4 6") "'chunks' get:9 u b ");
    assert_ok(parse(two, &m, &err), &err);
    swi_dcp_tensor_at(m, 1, &t);
    assert_int_equal(t.chunk_count, 2);
    swi_dcp_chunk_at(m, t.chunk_first + 1, 2, &c);
    assert_int_equal(c.offset[0], 2);
    assert_false(c.place.found);
    swi_dcp_tensor_at(m, 0, &t);
    swi_dcp_chunk_at(m, t.chunk_first + 1, 2, &c);
    assert_true(c.place.found);
    swi_dcp_meta_free(m);
    free(two);
    free(one);
}

/* ---- bad ----------------------------------------------------------------------------------- */

typedef struct bad {
    const char *from, *to;
    sw_status status;
    const char *clause, *text;
} bad;

static const bad bads[] = {
    {"@tail@u b .", "@tail@u b . N", SW_ERR_CORRUPT, "DCP-2", "1 bytes behind its end"},
    {"M:@meta@/Metadata", "M:collections/OrderedDict", SW_ERR_FORMAT, "DCP-2",
     "not a DCP index: the pickle holds"},
    {"'state_dict_metadata'", "'state_dict_metadatb'", SW_ERR_FORMAT, "DCP-3",
     "Metadata.state_dict_metadata is missing"},
    {"'state_dict_metadata' } (", "'state_dict_metadata' 5 'x' } (", SW_ERR_FORMAT, "DCP-3",
     "Metadata.state_dict_metadata is an int"},
    {"'storage_data'", "'storage'", SW_ERR_FORMAT, "DCP-3", "Metadata.storage_data is missing"},
    {"'opt.0.lr' M:@meta@/BytesStorageMetadata ) new",
     "'opt.0.lr' M:torch.distributed.checkpoint.metadata/FancyStorageMetadata ) new",
     SW_ERR_UNSUPPORTED, "DCP-3",
     "opt.0.lr is torch.distributed.checkpoint.metadata.FancyStorageMetadata"},
    {"'opt.0.lr' M:@meta@/BytesStorageMetadata ) new", "'opt.0.lr' 7", SW_ERR_UNSUPPORTED, "DCP-3",
     "opt.0.lr is an int"},
    {"'opt.0.lr' M:@meta@/BytesStorageMetadata", "7 M:@meta@/BytesStorageMetadata", SW_ERR_FORMAT,
     "DCP-3", "a name that is no text"},
    {CHUNK("2 0", "2 6"), "M:evil/Chunk ) new ", SW_ERR_UNSUPPORTED, "DCP-3",
     "a chunk that is evil.Chunk"},
    {CHUNK("2 0", "2 6"), "M:@meta@/ChunkStorageMetadata ) new } 'offsets' " SIZE("2 0") "s b ",
     SW_ERR_FORMAT, "DCP-3", "ChunkStorageMetadata.sizes is missing"},
    {CHUNK("2 0", "2 6"), CHUNK("2 0", "2 'x'"), SW_ERR_FORMAT, "DCP-3",
     "a torch.Size of no numbers"},
    {CHUNK("2 0", "2 6"), CHUNK("2 -1", "2 6"), SW_ERR_CORRUPT, "DCP-3", "a torch.Size with -1"},
    {CHUNK("2 0", "2 6"), CHUNK("2", "2 6"), SW_ERR_CORRUPT, "DCP-4",
     "tensor model.w has 2 axes, its chunk 1 has 1 offsets and 2 sizes"},
    {CHUNK("2 0", "2 6"), CHUNK("0 0 0 0 0 0 0 0 0 0 0", "2"), SW_ERR_UNSUPPORTED, "DCP-3",
     "a tensor of 11 axes"},
    {"'size' " SIZE("4 6"), "'size' ( 4 6 t ", SW_ERR_FORMAT, "DCP-3",
     "TensorStorageMetadata.size is a tuple"},
    {"'chunks' ] (", "'chunks' N 'x' ] (", SW_ERR_FORMAT, "DCP-3",
     "TensorStorageMetadata.chunks is None"},
    {"M:torch/float32", "'float32'", SW_ERR_FORMAT, "DCP-3", "TensorProperties.dtype is a str"},
    {"'properties' M:@props@/TensorProperties ) new", "'properties' M:x/TensorProperties ) new",
     SW_ERR_FORMAT, "DCP-3", "TensorStorageMetadata.properties is x.TensorProperties"},
    {"M:@meta@/MetadataIndex ) new } (", "M:x/MetadataIndex ) new } (", SW_ERR_UNSUPPORTED, "DCP-3",
     "a key of storage_data is x.MetadataIndex"},
    {"M:@files@/_StorageInfo ) new } (", "M:x/_StorageInfo ) new } (", SW_ERR_UNSUPPORTED, "DCP-3",
     "a value of storage_data is x._StorageInfo"},
    {"'fqn' 'model.s'", "'fqm' 'model.s'", SW_ERR_FORMAT, "DCP-3", "MetadataIndex.fqn is missing"},
    {"'offset' 64", "'offset' -64", SW_ERR_FORMAT, "DCP-3", "_StorageInfo.offset is an int"},
    {"'length' 1501", "'length' 'x'", SW_ERR_FORMAT, "DCP-3", "_StorageInfo.length"},
    {"'relative_path' '__1_0.distcp'", "'relative_path' N", SW_ERR_FORMAT, "DCP-3",
     "a name that is no text"},
    {"'length' 1501 u", "'length' 1501 'transform_descriptors' ] 5 a u", SW_ERR_FORMAT, "DCP-11",
     "a transform that has no name"},
    {"M:@meta@/MetadataIndex ) new } (", "M:@meta@/MetadataIndex ( 5 t new } (", SW_ERR_UNSUPPORTED,
     "DCP-3", "made with arguments"},
    /* two places for one item */
    {KEY("model.w", "2 0", "1"), KEY("model.w", "0 0", "0"), SW_ERR_CONFLICT, "DCP-5",
     "two places for model.w at (0, 0)"},
    {KEY("model.w", "2 0", "1"), KEY("model.w", "0 0", "1"), SW_ERR_CONFLICT, "DCP-5",
     "two places for model.w at (0, 0)"},
    {KEY("model.s", "", "N"), KEY_BYTES("opt.0.lr"), SW_ERR_CONFLICT, "DCP-5",
     "two places for opt.0.lr at no offset"},
    /* two items in the same bytes */
    {INFO("__1_0.distcp", "64", "1501"), INFO("__0_0.distcp", "0", "1500"), SW_ERR_CONFLICT,
     "DCP-5", "items of model.w and model.w lie in the same bytes of __0_0.distcp, at 0"},
    {INFO("__0_0.distcp", "1500", "1400"), INFO("__0_0.distcp", "1499", "1400"), SW_ERR_CONFLICT,
     "DCP-5", "items of model.w and model.s lie in the same bytes of __0_0.distcp, at 1499"},
    {INFO("__0_0.distcp", "2900", "1300"), INFO("__0_0.distcp", "100", "9"), SW_ERR_CONFLICT,
     "DCP-5", "items of model.w and opt.0.lr lie in the same bytes of __0_0.distcp, at 100"},
    /* what would run */
    {"@tail@", "'x' M:os/system ( 'id' t R @tail@", SW_ERR_UNSAFE, "DCP-2", "os.system"},
    {"M:@meta@/BytesStorageMetadata ) new", "M:builtins/eval ( '1' t R", SW_ERR_UNSAFE, "DCP-2",
     "eval"},
};

static void bad_indexes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
        swi_dcp_meta *m = NULL;
        sw_error err = {0};
        char *text = recipe_swap(base, bads[i].from, bads[i].to);
        (void)!parse(text, &m, &err);
        assert_error(&err, bads[i].status, bads[i].text);
        assert_string_equal(err.clause, bads[i].clause);
        assert_null(m);
        free(text);
    }
}

static void bad_unsafe_is_listed(void **state)
{
    (void)state;
    swi_buf b = {0};
    swi_dcp_meta *m = NULL;
    sw_error err = {0};
    swi_pickle_unsafe unsafe = {0};
    char *text = recipe_swap(base, "@tail@", "'x' M:os/system ( 'id' t R @tail@");
    assemble(&b, text, NEWEST);
    assert_int_equal(parse_bytes(b.data, b.size, NULL, &unsafe, &m, &err), SW_ERR_UNSAFE);
    assert_int_equal(unsafe.total, 1);
    assert_true(memcmp(b.data + unsafe.at[0].offset_bytes, "cos\nsystem\n", 11) == 0);
    assert_int_equal(err.offset_bytes, unsafe.at[0].offset_bytes);
    swi_buf_free(&b);
    free(text);
}

static void bad_not_an_index(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *text;
    } cases[] = {{"", "an empty file"},
                 {"version https://git-lfs.github.com/spec/v1\noid", "Git LFS pointer"},
                 {"<!DOCTYPE html><html></html>", "HTML"},
                 {"PK\003\004xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "a zip archive"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        swi_dcp_meta *m = NULL;
        sw_error err = {0};
        (void)!parse_bytes((const uint8_t *)cases[i].bytes, strlen(cases[i].bytes), NULL, NULL, &m,
                           &err);
        assert_error(&err, SW_ERR_FORMAT, cases[i].text);
        assert_string_equal(err.clause, "DCP-2");
        assert_null(m);
    }
}

static void bad_every_truncation(void **state)
{
    (void)state;
    swi_buf b = {0};
    assemble(&b, base, NEWEST);
    for (size_t size = 0; size < b.size; size++) {
        swi_dcp_meta *m = NULL;
        sw_error err = {0};
        /* An exact copy, so that a read past the end is seen. */
        uint8_t *cut = malloc(size ? size : 1);
        memcpy(cut, b.data, size);
        assert_int_not_equal(parse_bytes(cut, size, NULL, NULL, &m, &err), SW_OK);
        assert_int_not_equal(err.text[0], 0);
        assert_null(m);
        free(cut);
    }
    swi_buf_free(&b);
}

/* The index carries no CRC: a flipped bit must not crash, and what it says must be well formed. */
static void bad_every_flipped_bit(void **state)
{
    (void)state;
    swi_buf b = {0};
    assemble(&b, base, NEWEST);
    for (size_t bit = 0; bit < b.size * 8; bit++) {
        swi_dcp_meta *m = NULL;
        sw_error err = {0};
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (parse_bytes(b.data, b.size, NULL, NULL, &m, &err) == SW_OK) {
            for (size_t i = 0; i < swi_dcp_tensor_count(m); i++) {
                swi_dcp_tensor t;
                swi_dcp_tensor_at(m, i, &t);
                for (uint64_t k = 0; k < t.chunk_count; k++) {
                    swi_dcp_chunk c;
                    swi_dcp_chunk_at(m, t.chunk_first + k, t.axes, &c);
                    if (c.place.found)
                        assert_non_null(swi_dcp_file_at(m, c.place.file));
                }
            }
        } else {
            assert_int_not_equal(err.text[0], 0);
            assert_null(m);
        }
        swi_dcp_meta_free(m);
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    swi_buf_free(&b);
}

static void bad_over_limits(void **state)
{
    (void)state;
    static const struct {
        sw_limits limits;
        const char *text;
    } cases[] = {{{.pieces = 2}, "more than 2 chunks"},
                 {{.tensors = 1}, "more than 1 tensors"},
                 {{.nodes = 20}, ""}};
    swi_buf b = {0};
    assemble(&b, base, NEWEST);
    for (size_t i = 0; i < 3; i++) {
        swi_dcp_meta *m = NULL;
        sw_error err = {0};
        (void)!parse_bytes(b.data, b.size, &cases[i].limits, NULL, &m, &err);
        assert_error(&err, SW_ERR_LIMIT, cases[i].text);
        assert_null(m);
    }
    swi_buf_free(&b);
}

static void expect_limit(const char *from, const char *before, const char *again, int count,
                         const char *after, const char *text)
{
    swi_buf to = {0};
    swi_dcp_meta *m = NULL;
    sw_error err = {0};
    recipe_bytes(&to, before, strlen(before));
    for (int k = 0; k < count; k++)
        assert_ok(swi_buf_printf(&to, &err, "'%s%d' 0 ", again, k), &err);
    recipe_bytes(&to, after, strlen(after) + 1);
    char *whole = recipe_swap(base, from, (const char *)to.data);
    (void)!parse(whole, &m, &err);
    assert_error(&err, SW_ERR_LIMIT, text);
    free(whole);
    swi_buf_free(&to);
}

/* What a memo can repeat for two bytes must not grow or slow down without bound. */
static void bad_bombs(void **state)
{
    (void)state;
    expect_limit("@tail@", "'x' M:@meta@/ChunkStorageMetadata ) new } ( ", "k", 100, "u b @tail@",
                 "an object with 100 fields");
    /* the same through a dict that is there */
    expect_limit("@tail@", "'x' M:@meta@/ChunkStorageMetadata ) new } put:9 ( ", "k", 100,
                 "u memo b @tail@", "an object with 100 fields");
    expect_limit("'length' 1500 u", "'length' 1500 'transform_descriptors' ] ( ", "t", 20, "e u",
                 "an item with 40 transforms");
}

static void bad_repeated_lists(void **state)
{
    (void)state;
    swi_buf b = {0};
    sw_error err = {0};
    swi_dcp_meta *m = NULL;
    /* 200 chunks, then 200 tensors with the same list: 40 000 rows from 20 kB. */
    recipe(&b, "proto:4 M:" META "/Metadata ) new } ( 'state_dict_metadata' } ( 'w' "
               "M:" META "/TensorStorageMetadata put:1 ) new } ( 'properties' M:" META
               "/TensorProperties ) new ( M:torch/float32 t b put:2 'size' M:torch/Size ( ( 9 t t "
               "R put:3 'chunks' ] put:4 ( ");
    for (int i = 0; i < 200; i++)
        recipe(&b, "M:" META "/ChunkStorageMetadata ) new } ( 'offsets' get:3 'sizes' get:3 u b ");
    recipe(&b, "e u b ");
    for (int i = 0; i < 200; i++) {
        char text[128];
        snprintf(text, sizeof(text),
                 "'%d' get:1 ) new } ( 'properties' get:2 'size' get:3 'chunks' get:4 u b ", i);
        recipe(&b, text);
    }
    recipe(&b, "u 'storage_data' N u b .");
    (void)!parse_bytes(b.data, b.size, NULL, NULL, &m, &err);
    assert_error(&err, SW_ERR_LIMIT, "chunks");
    swi_buf_free(&b);
    /* 200 paths that are the same tuple of 200 parts. */
    recipe(&b, "proto:4 M:" META "/Metadata ) new } ( 'state_dict_metadata' } 'storage_data' N "
               "'planner_data' } ( 'w' ( ");
    for (int i = 0; i < 200; i++)
        recipe(&b, "0 ");
    recipe(&b, "t put:1 ");
    for (int i = 0; i < 200; i++) {
        char text[32];
        snprintf(text, sizeof(text), "'%d' get:1 ", i);
        recipe(&b, text);
    }
    recipe(&b, "u u b .");
    (void)!parse_bytes(b.data, b.size, NULL, NULL, &m, &err);
    assert_error(&err, SW_ERR_LIMIT, "parts of paths");
    assert_null(m);
    swi_buf_free(&b);
}

/* ---- the join ------------------------------------------------------------------------------ */

/*
 * Many chunks whose keys come in another order with hints that mislead: each chunk must find its
 * own place. Also many pending objects between the making of a tensor and its BUILD.
 */
static void joins_by_offset(void **state)
{
    (void)state;
    const size_t count = 3000;
    swi_buf b = {0};
    sw_error err = {0};
    swi_dcp_meta *m = NULL;
    char text[512];
    recipe(&b, "proto:4 M:" META "/Metadata ) new } ( 'state_dict_metadata' } ( 'w' "
               "M:" META "/TensorStorageMetadata ) new } ( 'properties' M:" META
               "/TensorProperties ) new ( M:torch/float32 N N N N t b 'size' M:torch/Size ( ( "
               "300000 t t R 'chunks' ] ( ");
    for (size_t i = 0; i < count; i++) {
        snprintf(text, sizeof(text),
                 "M:" META "/ChunkStorageMetadata ) new } ( 'offsets' M:torch/Size ( ( %zu t t R "
                 "'sizes' M:torch/Size ( ( 100 t t R u b ",
                 i * 100);
        recipe(&b, text);
    }
    recipe(&b, "e u b u 'storage_data' } ( ");
    for (size_t k = 0; k < count; k++) {
        size_t i = k * 7 % count; /* 7 and 3000 have no common divisor */
        snprintf(text, sizeof(text),
                 "M:" META "/MetadataIndex ) new } ( 'fqn' 'w' 'offset' M:torch/Size ( ( %zu t t R "
                 "'index' %zu u b M:" FILES "/_StorageInfo ) new } ( 'relative_path' 'f' 'offset' "
                 "%zu 'length' 9 u b ",
                 i * 100, k % 2 ? i : k, i * 9);
        recipe(&b, text);
    }
    recipe(&b, "u u b .");
    assert_ok(parse_bytes(b.data, b.size, NULL, NULL, &m, &err), &err);
    for (size_t i = 0; i < count; i++) {
        swi_dcp_chunk c;
        swi_dcp_chunk_at(m, i, 1, &c);
        assert_true(c.place.found);
        assert_int_equal(c.place.offset_bytes, i * 9);
    }
    swi_dcp_meta_free(m);
    swi_buf_free(&b);
}

/* ---- written by us ------------------------------------------------------------------------- */

static void writes_what_it_reads(void **state)
{
    (void)state;
    static const int64_t shape[2] = {4, 6}, o0[2] = {0, 0}, o1[2] = {2, 0}, len[2] = {2, 6};
    static const char *const path_w[] = {"model", "w"}, *const path_s[] = {"model", "s"},
                             *const path_o[] = {"opt", "#0", "lr"};
    const swi_dcp_write_chunk w[2] = {{o0, len, "__0_0.distcp", 0, 1500},
                                      {o1, len, "__1_0.distcp", 64, 1501}};
    const swi_dcp_write_chunk s = {o0, len, "__0_0.distcp", 1500, 1400};
    const swi_dcp_write_chunk o = {NULL, NULL, "__0_0.distcp", 2900, 1300};
    const swi_dcp_write_item items[3] = {
        {"model.w", path_w, 2, false, SW_F32, 2, shape, w, 2},
        {"model.s", path_s, 2, false, SW_BF16, 0, shape, &s, 1},
        {"opt.0.lr", path_o, 3, true, SW_DTYPE_NONE, 0, NULL, &o, 1},
    };
    swi_buf b = {0};
    sw_error err = {0};
    swi_dcp_meta *m = NULL;
    assert_ok(swi_dcp_meta_write(&b, items, 3, &err), &err);
    assert_ok(parse_bytes(b.data, b.size, NULL, NULL, &m, &err), &err);
    expect_base(m);
    swi_dcp_meta_free(m);
    swi_buf_free(&b);
    swi_dcp_write_item none = items[0];
    none.dtype = SW_DTYPE_NONE;
    (void)!swi_dcp_meta_write(&b, &none, 1, &err);
    assert_error(&err, SW_ERR_UNSUPPORTED, "no dtype none");
    assert_int_equal(b.size, 0);
    swi_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_every_release),       cmocka_unit_test(good_variants),
        cmocka_unit_test(good_no_planner_data),     cmocka_unit_test(good_no_storage_data),
        cmocka_unit_test(good_transforms),          cmocka_unit_test(good_one_item_of_two_names),
        cmocka_unit_test(good_unknown_dtype),       cmocka_unit_test(good_large_numbers),
        cmocka_unit_test(good_orphans_and_missing), cmocka_unit_test(good_chunks_of_one_offset),
        cmocka_unit_test(good_shared_chunk_list),   cmocka_unit_test(bad_indexes),
        cmocka_unit_test(bad_unsafe_is_listed),     cmocka_unit_test(bad_not_an_index),
        cmocka_unit_test(bad_every_truncation),     cmocka_unit_test(bad_every_flipped_bit),
        cmocka_unit_test(bad_over_limits),          cmocka_unit_test(bad_bombs),
        cmocka_unit_test(bad_repeated_lists),       cmocka_unit_test(joins_by_offset),
        cmocka_unit_test(writes_what_it_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
