/* What a document holds, and errors with a place in it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "codec/yaml_doc.h"

static const swi_yaml_entry *entry_of(const swi_yaml *doc, swi_yaml_node node)
{
    return &doc->entries[node.id - 1];
}

swi_yaml_node swi_yaml_root(const swi_yaml *doc)
{
    return doc->root;
}

bool swi_yaml_is_node(swi_yaml_node node)
{
    return node.id != 0;
}

swi_yaml_kind swi_yaml_kind_of(const swi_yaml *doc, swi_yaml_node node)
{
    return entry_of(doc, node)->kind;
}

const char *swi_yaml_text(const swi_yaml *doc, swi_yaml_node node, size_t *size)
{
    const swi_yaml_entry *entry = entry_of(doc, node);
    bool scalar = entry->kind == SWI_YAML_SCALAR;
    if (size != NULL)
        *size = scalar ? entry->size : 0;
    return scalar ? entry->text : "";
}

bool swi_yaml_is_quoted(const swi_yaml *doc, swi_yaml_node node)
{
    return entry_of(doc, node)->style != SWI_YAML_PLAIN;
}

size_t swi_yaml_count(const swi_yaml *doc, swi_yaml_node node)
{
    const swi_yaml_entry *entry = entry_of(doc, node);
    return entry->kind == SWI_YAML_SCALAR ? 0 : entry->size;
}

swi_yaml_node swi_yaml_item(const swi_yaml *doc, swi_yaml_node node, size_t i)
{
    return entry_of(doc, node)->items[i];
}

void swi_yaml_pair(const swi_yaml *doc, swi_yaml_node node, size_t i, swi_yaml_node *key,
                   swi_yaml_node *value)
{
    const swi_yaml_entry *entry = entry_of(doc, node);
    *key = entry->items[2 * i];
    *value = entry->items[2 * i + 1];
}

/* Where the value of a key is kept among the items of a mapping; NULL: the key is absent. */
static const swi_yaml_node *find_slot(const swi_yaml *doc, swi_yaml_node mapping, const char *key)
{
    const swi_yaml_entry *entry = entry_of(doc, mapping);
    size_t count = entry->kind == SWI_YAML_MAPPING ? entry->size : 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(swi_yaml_text(doc, entry->items[2 * i], NULL), key) == 0)
            return &entry->items[2 * i + 1];
    return NULL;
}

swi_yaml_node swi_yaml_find(const swi_yaml *doc, swi_yaml_node mapping, const char *key)
{
    const swi_yaml_node *slot = find_slot(doc, mapping, key);
    return slot != NULL ? *slot : (swi_yaml_node){0};
}

swi_yaml_list swi_yaml_list_of(const swi_yaml *doc, swi_yaml_node mapping, const char *key)
{
    const swi_yaml_node *slot = find_slot(doc, mapping, key);
    if (slot == NULL)
        return (swi_yaml_list){0};
    const swi_yaml_entry *entry = entry_of(doc, *slot);
    if (entry->kind == SWI_YAML_SEQUENCE)
        return (swi_yaml_list){.items = entry->items, .count = entry->size};
    return (swi_yaml_list){.items = slot, .count = 1};
}

size_t swi_yaml_line(const swi_yaml *doc, swi_yaml_node node)
{
    return entry_of(doc, node)->place.line;
}

size_t swi_yaml_column(const swi_yaml *doc, swi_yaml_node node)
{
    return entry_of(doc, node)->place.column;
}

const char *swi_yaml_file(const swi_yaml *doc)
{
    return doc->file;
}

/* ---- errors ------------------------------------------------------------------------------- */

static sw_status fail_with(const swi_yaml *doc, const swi_yaml_place *place, sw_error *err,
                           sw_status status, const char *clause, const char *fmt, va_list args)
{
    char text[SW_ERROR_TEXT_MAX];
    if (vsnprintf(text, sizeof text, fmt, args) < 0)
        text[0] = '\0';
    swi_utf8_trim(text);
    return swi_fail_at(err, status, clause, place->offset_bytes, "%s:%zu:%zu: %s", doc->file,
                       place->line, place->column, text);
}

sw_status swi_yaml_fail_place(const swi_yaml *doc, const swi_yaml_place *place, sw_error *err,
                              sw_status status, const char *clause, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    status = fail_with(doc, place, err, status, clause, fmt, args);
    va_end(args);
    return status;
}

sw_status swi_yaml_fail(const swi_yaml *doc, swi_yaml_node node, sw_error *err, sw_status status,
                        const char *clause, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    status = fail_with(doc, &entry_of(doc, node)->place, err, status, clause, fmt, args);
    va_end(args);
    return status;
}

/* Bytes of source that make the first `count` bytes of a scalar's text. */
static size_t source_bytes(const swi_yaml *doc, const swi_yaml_entry *entry, size_t count)
{
    if (count > entry->size)
        count = entry->size;
    if (entry->style == SWI_YAML_PLAIN)
        return count;
    const char *source = doc->source + entry->place.offset_bytes;
    char doubled = entry->style == SWI_YAML_SINGLE_QUOTED ? '\'' : '\\';
    size_t used = 1;
    for (size_t i = 0; i < count; i++)
        used += source[used] == doubled ? 2 : 1;
    return used;
}

static size_t count_characters(const char *text, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += ((unsigned char)text[i] & 0xC0U) != 0x80U;
    return count;
}

sw_status swi_yaml_fail_inside(const swi_yaml *doc, swi_yaml_node node, sw_status status,
                               sw_error *err)
{
    if (err == NULL || status == SW_OK)
        return status;
    const swi_yaml_entry *entry = entry_of(doc, node);
    swi_yaml_place place = entry->place;
    if (entry->kind == SWI_YAML_SCALAR && err->has_offset && err->offset_bytes < SIZE_MAX) {
        size_t before = source_bytes(doc, entry, (size_t)err->offset_bytes);
        place.column += count_characters(doc->source + place.offset_bytes, before);
        place.offset_bytes += before;
    }
    err->has_offset = true;
    err->offset_bytes = place.offset_bytes;
    (void)swi_error_prefix(err, "%s:%zu:%zu", doc->file, place.line, place.column);
    return status;
}
