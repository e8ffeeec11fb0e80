/* Storages whose bytes are carried in the graph of a value: sixth parts of their ids. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "codec/crc32.h"
#include "container/torch_internal.h"
#include "model/value.h"

#define ID_PARTS 6

static sw_status read_bytes(const swi_torch_carrier *c, const swi_torch_storage *s,
                            sw_value_graph *to, sw_value *out, sw_error *err)
{
    void *data = NULL;
    size_t size = (size_t)s->bytes; /* within max_bytes */
    sw_status st = swi_alloc_array(size > 0 ? size : 1, 1, &data, err);
    if (st == SW_OK && size > 0)
        st = c->reader->read(c->reader, c->tf->file, s->offset_bytes, data, size, err);
    uint32_t found = st == SW_OK && s->has_crc ? swi_crc32(0, data, size) : s->crc32;
    if (st == SW_OK && s->has_crc && found != s->crc32)
        st = swi_fail_at(err, SW_ERR_CORRUPT, "ZIP-14", s->offset_bytes,
                         "storage %s has CRC-32 %08" PRIx32 ", the archive says %08" PRIx32, s->key,
                         found, s->crc32);
    if (st == SW_OK)
        st = swi_graph_text(to, SW_VALUE_BYTES, data, size, out, err);
    free(data);
    return st;
}

/* Without the key, which is the file's, so that the same value is the same wherever it was. */
static sw_status make_id(const swi_torch_carrier *c, const swi_torch_storage *s, const char *module,
                         const char *class, sw_value_graph *to, sw_value *out, sw_error *err)
{
    sw_value parts[ID_PARTS];
    sw_status st = swi_graph_text(to, SW_VALUE_STR, "storage", 7, &parts[0], err);
    if (st == SW_OK)
        st = swi_graph_global(to, module, class, &parts[1], err);
    if (st == SW_OK)
        st = swi_graph_text(to, SW_VALUE_STR, "", 0, &parts[2], err);
    if (st == SW_OK)
        st = swi_graph_text(to, SW_VALUE_STR, "cpu", 3, &parts[3], err);
    if (st == SW_OK)
        st = swi_graph_int(to, (int64_t)(s->bytes / s->element_bytes), &parts[4], err);
    if (st == SW_OK)
        st = read_bytes(c, s, to, &parts[5], err);
    if (st == SW_OK)
        st = swi_graph_sequence(to, SW_VALUE_TUPLE, parts, ID_PARTS, out, err);
    return st;
}

/* Of quantised ones there are bytes, and larger units that nothing here has a type for. */
static bool can_carry(const swi_torch_carrier *c, const swi_torch_storage *s)
{
    return !c->tf->swapped && s->bytes <= c->left_bytes &&
           (s->dtype != SW_DTYPE_NONE || s->element_bytes == 1);
}

sw_status swi_torch_carry_map(void *ctx, const sw_value_graph *from, sw_value v, sw_value_graph *to,
                              bool *replaced, sw_value *out, sw_error *err)
{
    swi_torch_carrier *c = ctx;
    sw_value id, key, class, fresh;
    const uint8_t *text;
    const char *module, *name;
    size_t size;
    if (!sw_value_persistent(from, v, &id) || !sw_value_item(from, id, 1, &class) ||
        !sw_value_global(from, class, &module, &name) || !sw_value_item(from, id, 2, &key) ||
        !sw_value_bytes(from, key, &text, &size))
        return SW_OK;
    int64_t index = swi_names_find(c->tf->keys, text, size);
    if (index < 0 || (uint64_t)index >= c->tf->storage_count)
        return SW_OK;
    const swi_torch_storage *s = &c->tf->storages[index];
    sw_value *made = &c->made[index];
    sw_status st = SW_OK;
    if (made->bits == 0) {
        if (!can_carry(c, s))
            return SW_OK;
        st = make_id(c, s, module, name, to, &fresh, err);
        if (st == SW_OK)
            st = swi_graph_persistent(to, fresh, made, err);
        c->left_bytes -= s->bytes;
    }
    *replaced = st == SW_OK;
    *out = *made;
    return st;
}

sw_status swi_torch_carry_begin(swi_torch_carrier *carrier, const swi_torch_file *tf,
                                const swi_reader *reader, uint64_t max_bytes, sw_error *err)
{
    swi_torch_carrier c = {.tf = tf, .reader = reader, .left_bytes = max_bytes};
    sw_status st = swi_alloc_array(tf->storage_count, sizeof *c.made, (void **)&c.made, err);
    if (st == SW_OK)
        *carrier = c;
    return st;
}

void swi_torch_carry_end(swi_torch_carrier *carrier)
{
    free(carrier->made);
    *carrier = (swi_torch_carrier){0};
}

/* ---- what is carried ---------------------------------------------------------------------------
 */

bool swi_torch_carried_storage(const sw_value_graph *graph, sw_value v, swi_torch_carried *out)
{
    sw_value id, class, count, bytes;
    swi_torch_carried c = {0};
    size_t size;
    int64_t elements;
    if (!sw_value_persistent(graph, v, &id) || sw_value_size(graph, id) != ID_PARTS ||
        !sw_value_item(graph, id, 5, &bytes) || sw_value_get_kind(graph, bytes) != SW_VALUE_BYTES ||
        !sw_value_bytes(graph, bytes, &c.data, &size) || !sw_value_item(graph, id, 1, &class) ||
        !sw_value_global(graph, class, &c.module, &c.name) ||
        !sw_value_item(graph, id, 4, &count) || !sw_value_int(graph, count, &elements) ||
        elements < 0)
        return false;
    const swi_torch_class *typed = swi_torch_find_class(c.name);
    c.untyped = typed == NULL;
    c.is.dtype = typed != NULL && typed->dtype != SW_DTYPE_NONE ? typed->dtype : SW_U8;
    c.is.elements = (uint64_t)elements;
    if (size % (size_t)sw_dtype_bytes(c.is.dtype) != 0 ||
        size / sw_dtype_bytes(c.is.dtype) != c.is.elements)
        return false;
    *out = c;
    return true;
}
