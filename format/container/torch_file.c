/* Opening a torch.save archive: records, data.pkl, storages. */
#include "container/torch_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/sniff.h"
#include "base/text.h"
#include "container/torch_legacy.h"

#define VERSION_MIN 1
#define VERSION_MAX 10
#define SMALL_RECORD 64u
#define STORAGES_MAX ((size_t)1 << 28)

/* ---- storages: persistent ids ------------------------------------------------------------ */

typedef struct storage_id {
    const char *module, *class_name;
    const uint8_t *key;
    size_t key_size;
    int64_t count;
} storage_id;

static bool parse_storage_id(const sw_value_graph *g, sw_value id, storage_id *out)
{
    sw_value tag, class, key, count;
    size_t size = sw_value_size(g, id);
    return sw_value_get_kind(g, id) == SW_VALUE_TUPLE && (size == 5 || size == 6) &&
           sw_value_item(g, id, 0, &tag) && swi_value_text_is(g, tag, "storage") &&
           sw_value_item(g, id, 1, &class) &&
           sw_value_global(g, class, &out->module, &out->class_name) &&
           sw_value_item(g, id, 2, &key) && sw_value_get_kind(g, key) == SW_VALUE_STR &&
           sw_value_bytes(g, key, &out->key, &out->key_size) && sw_value_item(g, id, 4, &count) &&
           sw_value_int(g, count, &out->count);
}

static bool key_plain(const uint8_t *key, size_t size, size_t room)
{
    if (size == 0 || size >= room)
        return false;
    for (size_t i = 0; i < size; i++)
        if (!(key[i] >= '0' && key[i] <= '9') && !(key[i] >= 'a' && key[i] <= 'z') &&
            !(key[i] >= 'A' && key[i] <= 'Z') && key[i] != '_' && key[i] != '-')
            return false;
    return true;
}

static bool is_untyped(const storage_id *id)
{
    return (strcmp(id->module, "torch.storage") == 0 || strcmp(id->module, "torch") == 0) &&
           (strcmp(id->class_name, "UntypedStorage") == 0 ||
            strcmp(id->class_name, "_UntypedStorage") == 0);
}

/* What the id says of its storage. */
static sw_status describe_storage(const swi_torch_file *tf, const storage_id *id,
                                  swi_torch_storage *out, sw_error *err)
{
    swi_quoted q, q2;
    uint32_t element = 1;
    *out = (swi_torch_storage){.dtype = SW_U8, .untyped = is_untyped(id)};
    if (!out->untyped) {
        bool torch = strcmp(id->module, "torch") == 0 || strcmp(id->module, "torch.cuda") == 0;
        const swi_torch_class *class = torch ? swi_torch_find_class(id->class_name) : NULL;
        if (class == NULL)
            return swi_fail_at(err, SW_ERR_UNSUPPORTED, "TF-5", tf->pickle_offset_bytes,
                               "%s: storage class %s.%s", tf->pickle_name,
                               swi_quote_str(&q, id->module), swi_quote_str(&q2, id->class_name));
        out->dtype = class->dtype;
        element = class->bytes;
    }
    out->element_bytes = element;
    if (!key_plain(id->key, id->key_size, sizeof(out->key)))
        return swi_fail_at(err, SW_ERR_CORRUPT, "TF-5", tf->pickle_offset_bytes,
                           "%s: %s is no storage key", tf->pickle_name,
                           swi_quote(&q, id->key, id->key_size));
    memcpy(out->key, id->key, id->key_size);
    if (id->count < 0 || !swi_mul_u64((uint64_t)id->count, element, &out->bytes))
        return swi_fail_at(err, SW_ERR_CORRUPT, "TF-5", tf->pickle_offset_bytes,
                           "%s: storage %s has %" PRId64 " elements", tf->pickle_name, out->key,
                           id->count);
    return SW_OK;
}

/* ('module', class, source file, source): old files give the source beside a module's class. */
static bool is_class_id(const sw_value_graph *g, sw_value id, sw_value *class)
{
    sw_value tag;
    return sw_value_get_kind(g, id) == SW_VALUE_TUPLE && sw_value_size(g, id) == 4 &&
           sw_value_item(g, id, 0, &tag) && swi_value_text_is(g, tag, "module") &&
           sw_value_item(g, id, 1, class) && sw_value_get_kind(g, *class) == SW_VALUE_GLOBAL;
}

/* Whether the sixth part of an id makes it a view of a storage. */
static bool is_view_id(const sw_value_graph *g, sw_value id)
{
    sw_value view;
    return sw_value_item(g, id, 5, &view) && sw_value_get_kind(g, view) != SW_VALUE_NONE;
}

sw_status swi_torch_on_persistent(void *ctx, sw_value_graph *g, sw_value id, sw_value *out,
                                  sw_error *err)
{
    swi_torch_file *tf = ctx;
    storage_id parsed;
    swi_torch_storage s;
    uint32_t index;
    bool is_new;
    if (is_class_id(g, id, out))
        return SW_OK;
    if (!parse_storage_id(g, id, &parsed))
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "TF-5", tf->pickle_offset_bytes,
                           "%s: a persistent id that names no storage", tf->pickle_name);
    if (is_view_id(g, id))
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "TF-5", tf->pickle_offset_bytes,
                           "%s: a storage that is a view of another (torch before 0.4)",
                           tf->pickle_name);
    sw_status st = describe_storage(tf, &parsed, &s, err);
    if (st == SW_OK)
        st = swi_names_add(tf->keys, s.key, parsed.key_size, &index, &is_new, err);
    if (st != SW_OK)
        return st;
    if (is_new) {
        void *room = tf->storages;
        if (tf->storage_count >= STORAGES_MAX)
            return swi_fail(err, SW_ERR_LIMIT, "%s: more than %zu storages", tf->pickle_name,
                            STORAGES_MAX);
        st = swi_grow_array(&room, &tf->storage_capacity, tf->storage_count + 1, sizeof(s), err);
        tf->storages = room;
        if (st != SW_OK)
            return st;
        tf->storages[tf->storage_count++] = s;
    } else {
        swi_torch_storage *old = &tf->storages[index];
        if (old->dtype == SW_U8 && s.dtype == SW_U8 && old->bytes == s.bytes)
            old->untyped = s.untyped = old->untyped || s.untyped; /* bytes either way */
        if (old->dtype != s.dtype || old->untyped != s.untyped || old->bytes != s.bytes)
            return swi_fail_at(err, SW_ERR_CORRUPT, "TF-5", tf->pickle_offset_bytes,
                               "%s: storage %s is described twice, as %" PRIu64
                               " bytes of %s and %" PRIu64 " bytes of %s",
                               tf->pickle_name, s.key, old->bytes, sw_dtype_name(old->dtype),
                               s.bytes, sw_dtype_name(s.dtype));
    }
    return swi_graph_persistent(g, id, out, err);
}

/* ---- records ----------------------------------------------------------------------------- */

static const swi_zip_entry *find_record(const swi_torch_file *tf, const char *name)
{
    char full[512];
    size_t size = strlen(name);
    if (tf->root_size + size >= sizeof(full))
        return NULL;
    memcpy(full, tf->root, tf->root_size);
    memcpy(full + tf->root_size, name, size + 1);
    return swi_zip_find(tf->zip, full);
}

/* The root is what the first record's name begins with (TF-1). */
static sw_status find_root(swi_torch_file *tf, sw_error *err)
{
    const swi_zip_entry *first = swi_zip_at(tf->zip, 0);
    const char *slash = first != NULL ? strchr(first->name, '/') : NULL;
    void *room;
    if (slash == NULL)
        return swi_fail_at(err, SW_ERR_FORMAT, "TF-1", tf->offset,
                           "a zip archive, but not one of torch.save: %s",
                           first == NULL ? "it is empty" : "its records lie in no folder");
    tf->root_size = (size_t)(slash - first->name) + 1;
    sw_status st = swi_alloc_array(tf->root_size + 1, 1, &room, err);
    if (st != SW_OK)
        return st;
    tf->root = room;
    memcpy(tf->root, first->name, tf->root_size);
    if (find_record(tf, "constants.pkl") != NULL)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "TF-1", tf->offset,
                           "a TorchScript archive (it has constants.pkl)");
    if (find_record(tf, "data.pkl") == NULL)
        return swi_fail_at(err, SW_ERR_FORMAT, "TF-1", tf->offset,
                           "a zip archive, but not one of torch.save: no %sdata.pkl",
                           tf->root_size < 100 ? tf->root : "");
    return SW_OK;
}

static sw_status read_small(const swi_torch_file *tf, const swi_reader *reader,
                            const swi_zip_entry *entry, char *text, sw_error *err)
{
    swi_buf content = {0};
    sw_status st = swi_zip_read(tf->zip, reader, entry, SMALL_RECORD, &content, err);
    if (st == SW_OK && content.size > 0)
        memcpy(text, content.data, content.size);
    if (st == SW_OK)
        text[content.size] = 0;
    swi_buf_free(&content);
    return st;
}

/* version: a decimal number of 1 to 10, with or without a newline (TF-2). */
static sw_status check_version(const swi_torch_file *tf, const swi_reader *reader, sw_error *err)
{
    char text[SMALL_RECORD + 1];
    swi_quoted q;
    const swi_zip_entry *entry = find_record(tf, "version");
    if (entry == NULL)
        entry = find_record(tf, ".data/version");
    if (entry == NULL)
        return swi_fail_at(err, SW_ERR_CORRUPT, "TF-2", tf->offset, "no version record");
    sw_status st = read_small(tf, reader, entry, text, err);
    if (st != SW_OK)
        return st;
    size_t digits = strspn(text, "0123456789");
    long version = digits > 0 && digits <= 3 ? strtol(text, NULL, 10) : 0;
    if (text[digits] != 0 && strcmp(text + digits, "\n") != 0)
        version = 0;
    if (version < VERSION_MIN || version > VERSION_MAX)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "TF-2", tf->offset,
                           "version %s; known are %d to %d", swi_quote_str(&q, text), VERSION_MIN,
                           VERSION_MAX);
    return SW_OK;
}

/* byteorder: little, big, or absent, which is little (TF-3). */
static sw_status read_byteorder(swi_torch_file *tf, const swi_reader *reader, sw_error *err)
{
    char text[SMALL_RECORD + 1];
    swi_quoted q;
    const swi_zip_entry *entry = find_record(tf, "byteorder");
    if (entry == NULL)
        return SW_OK;
    sw_status st = read_small(tf, reader, entry, text, err);
    if (st != SW_OK)
        return st;
    bool big = strcmp(text, "big") == 0;
    if (!big && strcmp(text, "little") != 0)
        return swi_fail_at(err, SW_ERR_CORRUPT, "TF-3", tf->offset,
                           "byteorder is %s; known are little and big", swi_quote_str(&q, text));
    const uint16_t probe = 1;
    bool host_big = *(const uint8_t *)&probe == 0;
    tf->swapped = big != host_big;
    return SW_OK;
}

static sw_status read_pickle(swi_torch_file *tf, const swi_reader *reader, sw_error *err)
{
    swi_buf content = {0};
    const swi_zip_entry *entry = find_record(tf, "data.pkl");
    tf->has_crc = entry->crc32 != 0;
    sw_status st = swi_zip_payload(tf->zip, reader, entry, &tf->pickle_offset_bytes, err);
    if (st == SW_OK)
        st = swi_zip_read(tf->zip, reader, entry, reader->limits.metadata_bytes, &content, err);
    if (st == SW_OK)
        st = swi_names_make(&tf->keys, err);
    if (st == SW_OK)
        st = swi_graph_make(&reader->limits, &tf->graph, err);
    if (st != SW_OK)
        goto done;
    swi_cursor cursor = swi_cursor_make(content.data, content.size);
    const swi_pickle_options options = {.hook_ctx = tf,
                                        .persistent = swi_torch_on_persistent,
                                        .base_offset_bytes = tf->pickle_offset_bytes};
    st = swi_pickle_read(&cursor, &options, tf->graph, &tf->top, &tf->unsafe, err);
    if (st != SW_OK) {
        (void)swi_error_prefix(err, "data.pkl");
        goto done;
    }
    if (swi_cursor_left(&cursor) != 0)
        st = swi_fail_at(err, SW_ERR_CORRUPT, "TF-4", tf->pickle_offset_bytes + cursor.pos,
                         "%s: %zu bytes behind its end", tf->pickle_name, swi_cursor_left(&cursor));
done:
    swi_buf_free(&content);
    return st;
}

/* Each storage has a stored record of exactly its size (TF-6). */
static sw_status resolve_storage(const swi_torch_file *tf, const swi_reader *reader,
                                 swi_torch_storage *s, sw_error *err)
{
    char name[32] = "data/";
    memcpy(name + 5, s->key, sizeof(s->key));
    const swi_zip_entry *entry = find_record(tf, name);
    if (entry == NULL)
        return swi_fail_at(err, SW_ERR_CORRUPT, "TF-6", tf->pickle_offset_bytes,
                           "data.pkl names storage %s, the archive has no record %s", s->key, name);
    if (entry->method != 0)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "TF-6", tf->offset + entry->header_offset_bytes,
                           "record %s is compressed", name);
    if (entry->bytes != s->bytes)
        return swi_fail_at(err, SW_ERR_CORRUPT, "TF-6", tf->offset + entry->header_offset_bytes,
                           "record %s holds %" PRIu64 " bytes, data.pkl says %" PRIu64, name,
                           entry->bytes, s->bytes);
    s->has_crc = entry->crc32 != 0 || entry->bytes == 0;
    s->crc32 = entry->crc32;
    return swi_zip_payload(tf->zip, reader, entry, &s->offset_bytes, err);
}

sw_status swi_torch_open_zip(const swi_reader *reader, uint32_t file, uint64_t offset,
                             uint64_t bytes, swi_zip *zip, swi_pickle_unsafe *keep,
                             swi_torch_file **out, sw_error *err)
{
    void *room;
    sw_status st = swi_alloc_array(1, sizeof(swi_torch_file), &room, err);
    if (st != SW_OK) {
        swi_zip_free(zip);
        return st;
    }
    swi_torch_file *tf = room;
    tf->file = file;
    tf->offset = offset;
    tf->bytes = bytes;
    tf->pickle_name = "data.pkl";
    tf->zip = zip;
    st = find_root(tf, err);
    if (st == SW_OK)
        st = check_version(tf, reader, err);
    if (st == SW_OK)
        st = read_byteorder(tf, reader, err);
    if (st == SW_OK)
        st = read_pickle(tf, reader, err);
    for (size_t i = 0; i < tf->storage_count && st == SW_OK; i++)
        st = resolve_storage(tf, reader, &tf->storages[i], err);
    swi_zip_free(tf->zip);
    tf->zip = NULL;
    if (keep != NULL)
        *keep = tf->unsafe;
    if (st != SW_OK) {
        swi_torch_free(tf);
        return st;
    }
    *out = tf;
    return SW_OK;
}

/* ---- the file ---------------------------------------------------------------------------- */

sw_status swi_torch_is_zip(const swi_reader *reader, uint32_t file, uint64_t offset, uint64_t bytes,
                           bool *is_zip, sw_error *err)
{
    uint8_t head[4], tail[22];
    bool found = false;
    if (bytes >= sizeof(head)) {
        sw_status st = reader->read(reader, file, offset, head, sizeof(head), err);
        if (st != SW_OK)
            return st;
        found = memcmp(head, "PK\003\004", 4) == 0;
    }
    if (!found && bytes >= sizeof(tail)) {
        sw_status st =
            reader->read(reader, file, offset + bytes - sizeof(tail), tail, sizeof(tail), err);
        if (st != SW_OK)
            return st;
        found = memcmp(tail, "PK\005\006", 4) == 0;
    }
    *is_zip = found;
    return SW_OK;
}

/* The first pickle of the form before 1.6 is a magic number. */
static bool looks_legacy(const uint8_t *head, size_t size)
{
    static const uint8_t magic[] = {0x8A, 0x0A, 0x6C, 0xFC, 0x9C, 0x46,
                                    0xF9, 0x20, 0x6A, 0xA8, 0x50, 0x19};
    static const char text[] = "L119547037146038801333356L"; /* protocols 0 and 1 */
    if (size >= sizeof(text) && memcmp(head, text, sizeof(text) - 1) == 0)
        return true;
    /* behind the protocol, and in newer ones a frame's head */
    return (size >= 2 + sizeof(magic) && memcmp(head + 2, magic, sizeof(magic)) == 0) ||
           (size >= 11 + sizeof(magic) && memcmp(head + 11, magic, sizeof(magic)) == 0);
}

/* A tar file whose first member is one of those that torch wrote. */
static bool looks_tar(const uint8_t *head, size_t size)
{
    static const char *const members[] = {"sys_info", "pickle", "tensors", "storages"};
    if (size < 262 || memcmp(head + 257, "ustar", 5) != 0)
        return false;
    const char *name = (const char *)head + (memcmp(head, "./", 2) == 0 ? 2 : 0);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        if (strncmp(name, members[i], 98) == 0)
            return true;
    return false;
}

swi_torch_form swi_torch_looks(const uint8_t *head, size_t size)
{
    if (size >= 4 && memcmp(head, "PK\003\004", 4) == 0) {
        size_t name = size >= 30 ? (size_t)head[26] | (size_t)head[27] << 8 : 0;
        if (name > 0 && size > 30)
            return memchr(head + 30, '/', name < size - 30 ? name : size - 30) != NULL
                       ? SWI_TORCH_ZIP
                       : SWI_TORCH_NONE;
        return SWI_TORCH_NONE;
    }
    if (looks_legacy(head, size))
        return SWI_TORCH_LEGACY;
    return looks_tar(head, size) ? SWI_TORCH_TAR : SWI_TORCH_NONE;
}

/* Says what bytes are that are no zip archive. */
static sw_status not_an_archive(const swi_reader *reader, uint32_t file, uint64_t offset,
                                uint64_t bytes, sw_error *err)
{
    uint8_t head[SWI_TORCH_HEAD];
    size_t size = bytes < sizeof(head) ? (size_t)bytes : sizeof(head);
    sw_error second = {0};
    if (size > 0 && reader->read(reader, file, offset, head, size, &second) != SW_OK)
        return err->status;
    if (size >= 4 && memcmp(head, "PK\003\004", 4) == 0)
        return err->status; /* cut, as was said */
    if (looks_legacy(head, size))
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "TF-1", offset,
                           "a torch.save file in the form before 1.6 (not a zip archive)");
    if (size >= 262 && memcmp(head + 257, "ustar", 5) == 0)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "TF-1", offset,
                           "a tar file (torch.save before 0.2)");
    const char *what = swi_sniff(head, size);
    return swi_fail_at(err, SW_ERR_FORMAT, "TF-1", offset, "not a torch.save archive%s%s",
                       what != NULL ? ": it is " : "", what != NULL ? what : "");
}

static sw_status open_archive(const swi_reader *reader, uint32_t file, uint64_t offset,
                              uint64_t bytes, swi_pickle_unsafe *keep, swi_torch_file **out,
                              sw_error *err)
{
    swi_zip *zip;
    sw_error own = {0};
    if (err == NULL)
        err = &own;
    sw_status st = swi_zip_open(reader, file, offset, bytes, &zip, err);
    if (st == SW_ERR_CORRUPT && strcmp(err->clause, "ZIP-1") == 0)
        return not_an_archive(reader, file, offset, bytes, err);
    if (st != SW_OK)
        return st;
    return swi_torch_open_zip(reader, file, offset, bytes, zip, keep, out, err);
}

sw_status swi_torch_open(const swi_reader *reader, uint32_t file, uint64_t offset, uint64_t bytes,
                         swi_torch_file **out, sw_error *err)
{
    return open_archive(reader, file, offset, bytes, NULL, out, err);
}

sw_status swi_torch_open_file(const swi_reader *reader, uint32_t file, uint64_t bytes,
                              swi_pickle_unsafe *keep, swi_torch_file **out, sw_error *err)
{
    uint8_t head[SWI_TORCH_HEAD];
    size_t size = bytes < sizeof(head) ? (size_t)bytes : sizeof(head);
    sw_status st = size > 0 ? reader->read(reader, file, 0, head, size, err) : SW_OK;
    if (st != SW_OK)
        return st;
    if (looks_legacy(head, size))
        return swi_torch_open_legacy(reader, file, bytes, keep, out, err);
    return open_archive(reader, file, 0, bytes, keep, out, err);
}

void swi_torch_free(swi_torch_file *tf)
{
    if (tf == NULL)
        return;
    swi_zip_free(tf->zip);
    sw_value_graph_free(tf->graph);
    swi_names_free(tf->keys);
    free(tf->storages);
    free(tf->root);
    free(tf);
}

const sw_value_graph *swi_torch_graph(const swi_torch_file *tf)
{
    return tf->graph;
}

sw_value_graph *swi_torch_take_graph(swi_torch_file *tf)
{
    sw_value_graph *g = tf->graph;
    tf->graph = NULL;
    return g;
}

const char *swi_torch_saved_as(const swi_torch_file *tf)
{
    return tf->root;
}

sw_value swi_torch_root(const swi_torch_file *tf)
{
    return tf->top;
}

const swi_pickle_unsafe *swi_torch_unsafe(const swi_torch_file *tf)
{
    return &tf->unsafe;
}

bool swi_torch_has_crc(const swi_torch_file *tf)
{
    return tf->has_crc;
}

bool swi_torch_is_legacy(const swi_torch_file *tf)
{
    return tf->legacy;
}

uint64_t swi_torch_end_bytes(const swi_torch_file *tf)
{
    return tf->end_bytes;
}

bool swi_torch_swapped(const swi_torch_file *tf)
{
    return tf->swapped;
}

size_t swi_torch_storage_count(const swi_torch_file *tf)
{
    return tf->storage_count;
}

const swi_torch_storage *swi_torch_storage_at(const swi_torch_file *tf, size_t i)
{
    return i < tf->storage_count ? &tf->storages[i] : NULL;
}
