/*
 * Writing `.metadata`: protocol 4 and the class names of torch >= 2.3, so that every such torch
 * loads it (specs/dcp.md, DCP-20). Classes and repeated texts are memoised, nothing else is.
 */
#include "container/dcp_store.h"

#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "container/torch_file.h"

#define META "torch.distributed.checkpoint.metadata"
#define FILES "torch.distributed.checkpoint.filesystem"

/* Memoised classes and keys, as they are first used. */
typedef enum known {
    K_SIZE,
    K_TENSOR,
    K_BYTES,
    K_CHUNK,
    K_PROPERTIES,
    K_ENCODING,
    K_INDEX,
    K_INFO,
    K_LAYOUT,
    K_T_PROPERTIES,
    K_T_SIZE,
    K_T_CHUNKS,
    K_T_OFFSETS,
    K_T_SIZES,
    K_T_FQN,
    K_T_OFFSET,
    K_T_INDEX,
    K_T_PATH,
    K_T_LENGTH,
    K_COUNT
} known;

static const struct {
    const char *module; /* NULL: a text */
    const char *name;
} knowns[K_COUNT] = {
    [K_SIZE] = {"torch", "Size"},
    [K_TENSOR] = {META, "TensorStorageMetadata"},
    [K_BYTES] = {META, "BytesStorageMetadata"},
    [K_CHUNK] = {META, "ChunkStorageMetadata"},
    [K_PROPERTIES] = {META, "TensorProperties"},
    [K_ENCODING] = {META, "_MEM_FORMAT_ENCODING"},
    [K_INDEX] = {META, "MetadataIndex"},
    [K_INFO] = {FILES, "_StorageInfo"},
    [K_LAYOUT] = {"torch.serialization", "_get_layout"},
    [K_T_PROPERTIES] = {NULL, "properties"},
    [K_T_SIZE] = {NULL, "size"},
    [K_T_CHUNKS] = {NULL, "chunks"},
    [K_T_OFFSETS] = {NULL, "offsets"},
    [K_T_SIZES] = {NULL, "sizes"},
    [K_T_FQN] = {NULL, "fqn"},
    [K_T_OFFSET] = {NULL, "offset"},
    [K_T_INDEX] = {NULL, "index"},
    [K_T_PATH] = {NULL, "relative_path"},
    [K_T_LENGTH] = {NULL, "length"},
};

typedef struct writer {
    swi_pickle_writer w;
    uint32_t memo[K_COUNT]; /* number + 1 */
    swi_names *paths;       /* relative paths, by id: */
    uint32_t *path_memo;
    size_t path_capacity;
    sw_status st; /* stays failed, so that the code reads like the pickle */
    sw_error *err;
} writer;

static void op(writer *w, char opcode)
{
    if (w->st == SW_OK)
        w->st = swi_pickle_op(&w->w, opcode, w->err);
}

static void integer(writer *w, int64_t v)
{
    if (w->st == SW_OK)
        w->st = swi_pickle_int(&w->w, v, w->err);
}

static void text(writer *w, const char *s, size_t size)
{
    if (w->st == SW_OK)
        w->st = swi_pickle_str(&w->w, s, size, w->err);
}

/* A class or a key: written once, then by number. */
static void put(writer *w, known k)
{
    uint32_t number;
    if (w->st != SW_OK)
        return;
    if (w->memo[k] != 0) {
        w->st = swi_pickle_get(&w->w, w->memo[k] - 1, w->err);
        return;
    }
    w->st = knowns[k].module != NULL
                ? swi_pickle_global(&w->w, knowns[k].module, knowns[k].name, w->err)
                : swi_pickle_str(&w->w, knowns[k].name, strlen(knowns[k].name), w->err);
    if (w->st == SW_OK)
        w->st = swi_pickle_put(&w->w, &number, w->err);
    if (w->st == SW_OK)
        w->memo[k] = number + 1;
}

/* A relative path: written once, then by number. */
static void put_path(writer *w, const char *path)
{
    uint32_t id, number;
    bool is_new;
    if (w->st == SW_OK)
        w->st = swi_names_add(w->paths, path, strlen(path), &id, &is_new, w->err);
    if (w->st != SW_OK)
        return;
    if (!is_new) {
        w->st = swi_pickle_get(&w->w, w->path_memo[id], w->err);
        return;
    }
    void *room = w->path_memo;
    w->st = swi_grow_array(&room, &w->path_capacity, (size_t)id + 1, sizeof(uint32_t), w->err);
    w->path_memo = room;
    text(w, path, strlen(path));
    if (w->st == SW_OK)
        w->st = swi_pickle_put(&w->w, &number, w->err);
    if (w->st == SW_OK)
        w->path_memo[id] = number;
}

/* Of a plain text as key or value. */
static void word(writer *w, const char *s)
{
    text(w, s, strlen(s));
}

/* NEWOBJ without arguments. */
static void object(writer *w, known class)
{
    put(w, class);
    op(w, ')');
    op(w, (char)0x81);
}

/* torch.Size((..)) */
static void size(writer *w, uint32_t axes, const int64_t *v)
{
    put(w, K_SIZE);
    op(w, '(');
    for (uint32_t k = 0; k < axes; k++)
        integer(w, v[k]);
    op(w, 't');
    op(w, (char)0x85); /* TUPLE1 */
    op(w, 'R');
}

/* (dtype, layout, requires_grad, memory format, pin_memory) */
static void properties(writer *w, const char *dtype)
{
    object(w, K_PROPERTIES);
    op(w, '(');
    if (w->st == SW_OK)
        w->st = swi_pickle_global(&w->w, "torch", dtype, w->err);
    put(w, K_LAYOUT);
    word(w, "torch.strided");
    op(w, (char)0x85);
    op(w, 'R');
    op(w, (char)0x89); /* False */
    put(w, K_ENCODING);
    integer(w, 0);
    op(w, (char)0x85);
    op(w, 'R');
    op(w, (char)0x89);
    op(w, 't');
    op(w, 'b');
}

static void tensor(writer *w, const swi_dcp_write_item *item)
{
    const char *dtype = swi_torch_dtype_name(item->dtype);
    if (w->st == SW_OK && dtype == NULL)
        w->st = swi_fail(w->err, SW_ERR_UNSUPPORTED, "DCP index: no dtype %s",
                         sw_dtype_name(item->dtype));
    if (w->st != SW_OK)
        return;
    object(w, K_TENSOR);
    op(w, '}');
    op(w, '(');
    put(w, K_T_PROPERTIES);
    properties(w, dtype);
    put(w, K_T_SIZE);
    size(w, item->axes, item->shape);
    put(w, K_T_CHUNKS);
    op(w, ']');
    op(w, '(');
    for (size_t i = 0; i < item->chunk_count; i++) {
        object(w, K_CHUNK);
        op(w, '}');
        op(w, '(');
        put(w, K_T_OFFSETS);
        size(w, item->axes, item->chunks[i].offset);
        put(w, K_T_SIZES);
        size(w, item->axes, item->chunks[i].length);
        op(w, 'u');
        op(w, 'b');
    }
    op(w, 'e');
    op(w, 'u');
    op(w, 'b');
}

/* A path of the nested state dict; "#3" is position 3 of a list. */
static void path(writer *w, const swi_dcp_write_item *item)
{
    op(w, '(');
    for (size_t i = 0; i < item->path_count; i++) {
        const char *part = item->path_parts[i];
        size_t digits = part[0] == '#' ? strspn(part + 1, "0123456789") : 0;
        if (digits > 0 && digits < 10 && part[1 + digits] == 0)
            integer(w, strtol(part + 1, NULL, 10));
        else
            word(w, part);
    }
    op(w, 't');
}

/* MetadataIndex of chunk i: _StorageInfo. BYTES have no offset and no index. */
static void place(writer *w, const swi_dcp_write_item *item, size_t i)
{
    const swi_dcp_write_chunk *chunk = &item->chunks[i];
    object(w, K_INDEX);
    op(w, '}');
    op(w, '(');
    put(w, K_T_FQN);
    word(w, item->name);
    put(w, K_T_INDEX);
    if (item->is_object) {
        op(w, 'N');
    } else {
        integer(w, (int64_t)i);
        put(w, K_T_OFFSET);
        size(w, item->axes, chunk->offset);
    }
    op(w, 'u');
    op(w, 'b');
    object(w, K_INFO);
    op(w, '}');
    op(w, '(');
    put(w, K_T_PATH);
    put_path(w, chunk->path);
    put(w, K_T_OFFSET);
    integer(w, (int64_t)chunk->offset_bytes);
    put(w, K_T_LENGTH);
    integer(w, (int64_t)chunk->stored_bytes);
    op(w, 'u');
    op(w, 'b');
}

static void metadata(writer *w, const swi_dcp_write_item *items, size_t count)
{
    if (w->st == SW_OK)
        w->st = swi_pickle_global(&w->w, META, "Metadata", w->err);
    op(w, ')');
    op(w, (char)0x81);
    op(w, '}');
    op(w, '(');
    word(w, "state_dict_metadata");
    op(w, '}');
    op(w, '(');
    for (size_t i = 0; i < count; i++) {
        word(w, items[i].name);
        if (items[i].is_object)
            object(w, K_BYTES);
        else
            tensor(w, &items[i]);
    }
    op(w, 'u');
    word(w, "planner_data");
    op(w, '}');
    op(w, '(');
    for (size_t i = 0; i < count; i++) {
        word(w, items[i].name);
        path(w, &items[i]);
    }
    op(w, 'u');
    word(w, "storage_data");
    op(w, '}');
    op(w, '(');
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < items[i].chunk_count; k++)
            place(w, &items[i], k);
    op(w, 'u');
    word(w, "storage_meta");
    op(w, 'N');
    op(w, 'u');
    op(w, 'b');
    op(w, '.');
}

sw_status swi_dcp_meta_write(swi_buf *out, const swi_dcp_write_item *items, size_t count,
                             sw_error *err)
{
    size_t before = out->size;
    writer w = {.err = err};
    w.st = swi_names_make(&w.paths, err);
    if (w.st == SW_OK)
        w.st = swi_pickle_begin(&w.w, out, 4, err);
    metadata(&w, items, count);
    swi_names_free(w.paths);
    free(w.path_memo);
    if (w.st != SW_OK)
        out->size = before;
    return w.st;
}
