/* Documents made from the events of libyaml. What is refused is refused here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/names.h"
#include "base/text.h"
#include "codec/yaml_doc.h"

typedef struct frame {
    swi_yaml_node node;
    size_t first; /* where its items begin among the pending ones */
} frame;

typedef struct build {
    swi_yaml *doc;
    size_t size;
    size_t most_nodes, most_depth;
    yaml_parser_t parser;
    size_t documents;
    frame frames[SWI_YAML_MAX_DEPTH]; /* the open containers */
    size_t depth;
    swi_yaml_node *pending; /* nodes whose container is still open */
    size_t pending_count, pending_capacity;
    size_t seen_characters, seen_bytes; /* libyaml counts characters: how far they are bytes */
} build;

/* ---- places ------------------------------------------------------------------------------- */

static bool is_start(const swi_yaml *doc, size_t byte)
{
    return ((unsigned char)doc->source[byte] & 0xC0U) != 0x80U;
}

/* The byte where character `index` of the file begins. Marks come in order: no byte twice. */
static size_t byte_of_character(build *b, size_t index)
{
    if (index < b->seen_characters)
        b->seen_characters = b->seen_bytes = 0;
    while (b->seen_characters < index && b->seen_bytes < b->size) {
        do
            b->seen_bytes++;
        while (b->seen_bytes < b->size && !is_start(b->doc, b->seen_bytes));
        b->seen_characters++;
    }
    return b->seen_bytes;
}

static swi_yaml_place place_of_mark(build *b, const yaml_mark_t *mark)
{
    return (swi_yaml_place){.offset_bytes = byte_of_character(b, mark->index),
                            .line = mark->line + 1,
                            .column = mark->column + 1};
}

static swi_yaml_place place_of_byte(const build *b, size_t offset)
{
    swi_yaml_place place = {.offset_bytes = offset, .line = 1, .column = 1};
    for (size_t i = 0; i < offset && i < b->size; i++) {
        if (b->doc->source[i] == '\n') {
            place.line++;
            place.column = 1;
        } else if (is_start(b->doc, i)) {
            place.column++;
        }
    }
    return place;
}

static sw_status refuse(build *b, const yaml_event_t *event, sw_error *err, const char *what)
{
    const swi_yaml_place place = place_of_mark(b, &event->start_mark);
    return swi_yaml_fail_place(b->doc, &place, err, SW_ERR_UNSUPPORTED, "NT-1.2",
                               "%s not allowed here", what);
}

/* ---- bytes that no YAML library should see ----------------------------------------------------
 */

/* What is wrong with the character at `p`, of `left` bytes; NULL: nothing. */
static const char *wrong_character(const unsigned char *p, size_t left)
{
    if (p[0] == '\0')
        return "a NUL byte";
    if (p[0] == '\r' && (left < 2 || p[1] != '\n'))
        return "a line end other than LF or CRLF";
    if ((p[0] < ' ' && strchr("\t\r\n", p[0]) == NULL) || p[0] == 0x7F)
        return "a control character";
    if (left >= 2 && p[0] == 0xC2 && p[1] <= 0x9F)
        return "a control character";
    if (left >= 3 && p[0] == 0xE2 && p[1] == 0x80 && (p[2] == 0xA8 || p[2] == 0xA9))
        return "a line end other than LF or CRLF";
    if (left >= 3 && memcmp(p, "\xEF\xBB\xBF", 3) == 0)
        return "a byte order mark";
    return NULL;
}

static sw_status check_characters(const build *b, sw_error *err)
{
    const unsigned char *p = (const unsigned char *)b->doc->source;
    size_t valid = swi_utf8_prefix(p, b->size), at = 0;
    const char *wrong = NULL;
    while (at < valid && (wrong = wrong_character(p + at, valid - at)) == NULL)
        at++;
    if (wrong == NULL && valid < b->size)
        wrong = "no UTF-8";
    if (wrong == NULL)
        return SW_OK;
    const swi_yaml_place place = place_of_byte(b, at);
    return swi_yaml_fail_place(b->doc, &place, err, SW_ERR_FORMAT, "NT-1.1",
                               "%s; save the file as plain UTF-8", wrong);
}

/* ---- nodes ------------------------------------------------------------------------------------
 */

static bool is_key_next(const build *b)
{
    if (b->depth == 0)
        return false;
    const frame *f = &b->frames[b->depth - 1];
    return b->doc->entries[f->node.id - 1].kind == SWI_YAML_MAPPING &&
           (b->pending_count - f->first) % 2 == 0;
}

static sw_status add_node(build *b, const yaml_event_t *event, const swi_yaml_entry *entry,
                          sw_error *err)
{
    swi_yaml *doc = b->doc;
    const swi_yaml_place place = place_of_mark(b, &event->start_mark);
    if (doc->count >= b->most_nodes)
        return swi_yaml_fail_place(doc, &place, err, SW_ERR_LIMIT, "NT-1.1",
                                   "more than %zu nodes; split the file", b->most_nodes);
    void *p = doc->entries;
    sw_status status =
        swi_grow_array(&p, &doc->capacity, doc->count + 1, sizeof *doc->entries, err);
    doc->entries = p;
    if (status != SW_OK)
        return status;
    p = b->pending;
    status =
        swi_grow_array(&p, &b->pending_capacity, b->pending_count + 1, sizeof *b->pending, err);
    b->pending = p;
    if (status != SW_OK)
        return status;
    doc->entries[doc->count] = *entry;
    doc->entries[doc->count++].place = place;
    b->pending[b->pending_count++] = (swi_yaml_node){.id = (uint32_t)doc->count};
    return SW_OK;
}

static const char *refused_scalar(build *b, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    yaml_scalar_style_t style = event->data.scalar.style;
    if (style == YAML_LITERAL_SCALAR_STYLE || style == YAML_FOLDED_SCALAR_STYLE)
        return "a block scalar (| or >) is";
    if (event->start_mark.line != event->end_mark.line)
        return "a text over several lines is";
    if (style == YAML_PLAIN_SCALAR_STYLE && is_key_next(b) && strcmp(text, "<<") == 0)
        return "a merge key (<<) is";
    if (style != YAML_DOUBLE_QUOTED_SCALAR_STYLE)
        return NULL;
    const char *p = b->doc->source + byte_of_character(b, event->start_mark.index) + 1;
    for (; *p != '"'; p++) {
        if (*p == '\\' && *++p != '"' && *p != '\\')
            return "an escape other than \\\" and \\\\ is";
    }
    return NULL;
}

static sw_status take_scalar(build *b, const yaml_event_t *event, sw_error *err)
{
    const char *refused = refused_scalar(b, event);
    if (refused != NULL)
        return refuse(b, event, err, refused);
    swi_yaml_entry entry = {.kind = SWI_YAML_SCALAR, .size = event->data.scalar.length};
    if (event->data.scalar.style == YAML_SINGLE_QUOTED_SCALAR_STYLE)
        entry.style = SWI_YAML_SINGLE_QUOTED;
    else if (event->data.scalar.style == YAML_DOUBLE_QUOTED_SCALAR_STYLE)
        entry.style = SWI_YAML_DOUBLE_QUOTED;
    sw_status status = swi_arena_text(&b->doc->arena, (const char *)event->data.scalar.value,
                                      entry.size, &entry.text, err);
    return status == SW_OK ? add_node(b, event, &entry, err) : status;
}

static sw_status begin_container(build *b, const yaml_event_t *event, swi_yaml_kind kind,
                                 sw_error *err)
{
    if (is_key_next(b))
        return refuse(b, event, err, "a key that is a list or mapping is");
    if (b->depth >= b->most_depth) {
        const swi_yaml_place place = place_of_mark(b, &event->start_mark);
        return swi_yaml_fail_place(b->doc, &place, err, SW_ERR_LIMIT, "NT-1.1",
                                   "more than %zu levels", b->most_depth);
    }
    const swi_yaml_entry entry = {.kind = kind};
    sw_status status = add_node(b, event, &entry, err);
    if (status != SW_OK)
        return status;
    b->frames[b->depth++] =
        (frame){.node = b->pending[b->pending_count - 1], .first = b->pending_count};
    return SW_OK;
}

/* The first key of a mapping that was there before, or no node. */
static sw_status find_duplicate(const swi_yaml *doc, const swi_yaml_entry *mapping,
                                swi_yaml_node *out, sw_error *err)
{
    swi_names *keys = NULL;
    sw_status status = swi_names_make(&keys, err);
    for (size_t i = 0; status == SW_OK && i < mapping->size; i++) {
        const swi_yaml_entry *key = &doc->entries[mapping->items[2 * i].id - 1];
        uint32_t id;
        bool is_new = true;
        status = swi_names_add(keys, key->text, key->size, &id, &is_new, err);
        if (is_new)
            continue;
        *out = mapping->items[2 * i];
        break;
    }
    swi_names_free(keys);
    return status;
}

static sw_status check_keys(const swi_yaml *doc, const swi_yaml_entry *mapping, sw_error *err)
{
    swi_yaml_node second = {0};
    sw_status status = mapping->size < 2 ? SW_OK : find_duplicate(doc, mapping, &second, err);
    if (status != SW_OK || !swi_yaml_is_node(second))
        return status;
    swi_quoted room;
    return swi_yaml_fail(doc, second, err, SW_ERR_FORMAT, "NT-1.3",
                         "key \"%s\" is there twice in one mapping",
                         swi_quote_str(&room, swi_yaml_text(doc, second, NULL)));
}

static sw_status end_container(build *b, sw_error *err)
{
    const frame f = b->frames[b->depth - 1];
    swi_yaml_entry *entry = &b->doc->entries[f.node.id - 1];
    size_t count = b->pending_count - f.first;
    void *p;
    sw_status status = swi_arena_alloc(&b->doc->arena, count * sizeof(swi_yaml_node), &p, err);
    if (status != SW_OK)
        return status;
    if (count > 0)
        memcpy(p, b->pending + f.first, count * sizeof(swi_yaml_node));
    entry->items = p;
    entry->size = entry->kind == SWI_YAML_MAPPING ? count / 2 : count;
    b->pending_count = f.first;
    b->depth--;
    return entry->kind == SWI_YAML_MAPPING ? check_keys(b->doc, entry, err) : SW_OK;
}

/* ---- events -----------------------------------------------------------------------------------
 */

static sw_status begin_document(build *b, const yaml_event_t *event, sw_error *err)
{
    if (event->data.document_start.version_directive != NULL ||
        event->data.document_start.tag_directives.start !=
            event->data.document_start.tag_directives.end)
        return refuse(b, event, err, "a directive (%) is");
    if (b->documents++ > 0)
        return refuse(b, event, err, "a second document (---) is");
    return SW_OK;
}

static const char *refused_properties(const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (anchor != NULL)
        return "an anchor (&) is";
    return tag != NULL ? "a tag (!) is" : NULL;
}

/* What of an event is refused whatever it holds; NULL: nothing. */
static const char *refused_event(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return "an alias (a text that begins with * needs quotes) is";
    case YAML_SCALAR_EVENT:
        return refused_properties(event->data.scalar.anchor, event->data.scalar.tag);
    case YAML_SEQUENCE_START_EVENT:
        return refused_properties(event->data.sequence_start.anchor,
                                  event->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT:
        return refused_properties(event->data.mapping_start.anchor, event->data.mapping_start.tag);
    default:
        return NULL;
    }
}

static sw_status take_event(build *b, const yaml_event_t *event, sw_error *err)
{
    const char *refused = refused_event(event);
    if (refused != NULL)
        return refuse(b, event, err, refused);
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return begin_document(b, event, err);
    case YAML_SCALAR_EVENT:
        return take_scalar(b, event, err);
    case YAML_SEQUENCE_START_EVENT:
        return begin_container(b, event, SWI_YAML_SEQUENCE, err);
    case YAML_MAPPING_START_EVENT:
        return begin_container(b, event, SWI_YAML_MAPPING, err);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return end_container(b, err);
    default:
        return SW_OK;
    }
}

/* " while parsing a flow mapping, begun at 3:7"; "" where libyaml says nothing. */
static void describe_context(const yaml_parser_t *p, char *out, size_t capacity)
{
    out[0] = '\0';
    if (p->context == NULL)
        return;
    const char *hint =
        strstr(p->context, "alias") != NULL ? " (a text that begins with * needs quotes)" : "";
    (void)snprintf(out, capacity, " %s, begun at %zu:%zu%s", p->context, p->context_mark.line + 1,
                   p->context_mark.column + 1, hint);
}

static sw_status fail_parser(build *b, sw_error *err)
{
    const yaml_parser_t *p = &b->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return swi_fail_nomem(err);
    size_t offset = p->error == YAML_READER_ERROR ? p->problem_offset
                                                  : byte_of_character(b, p->problem_mark.index);
    char context[160];
    describe_context(p, context, sizeof context);
    const swi_yaml_place place = place_of_byte(b, offset);
    return swi_yaml_fail_place(b->doc, &place, err, SW_ERR_FORMAT, "NT-1.2", "YAML: %s%s",
                               p->problem != NULL ? p->problem : "cannot be read", context);
}

static sw_status read_events(build *b, sw_error *err)
{
    yaml_parser_set_encoding(&b->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&b->parser, (const unsigned char *)b->doc->source, b->size);
    bool ended = false;
    while (!ended) {
        yaml_event_t event;
        if (!yaml_parser_parse(&b->parser, &event))
            return fail_parser(b, err);
        ended = event.type == YAML_STREAM_END_EVENT;
        sw_status status = take_event(b, &event, err);
        yaml_event_delete(&event);
        if (status != SW_OK)
            return status;
    }
    if (b->pending_count > 0) {
        b->doc->root = b->pending[0];
        return SW_OK;
    }
    const swi_yaml_place start = {.line = 1, .column = 1};
    return swi_yaml_fail_place(b->doc, &start, err, SW_ERR_FORMAT, "NT-1.1",
                               "the document is empty");
}

static sw_status start_document(build *b, const void *data, const char *file, sw_error *err)
{
    void *p;
    sw_status status = swi_alloc_array(1, sizeof *b->doc, &p, err);
    if (status != SW_OK)
        return status;
    b->doc = p;
    swi_quoted room;
    const char *shown = swi_quote_str(&room, file);
    status = swi_arena_text(&b->doc->arena, shown, strlen(shown), &b->doc->file, err);
    if (status == SW_OK)
        status = swi_arena_text(&b->doc->arena, data, b->size, &b->doc->source, err);
    return status;
}

static size_t smaller(uint64_t a, size_t b)
{
    return a < b ? (size_t)a : b;
}

sw_status swi_yaml_parse(const void *data, size_t size, const char *file, const sw_limits *limits,
                         swi_yaml **out, sw_error *err)
{
    const sw_limits most = sw_limits_resolve(limits);
    if (size > SWI_YAML_MAX_BYTES) {
        swi_quoted room;
        return swi_fail_at(err, SW_ERR_LIMIT, "NT-1.1", 0, "%s: %zu bytes, at most %u are read",
                           swi_quote_str(&room, file), size, SWI_YAML_MAX_BYTES);
    }
    build b = {.size = size,
               .most_nodes = smaller(most.nodes, SWI_YAML_MAX_NODES),
               .most_depth = smaller(most.depth, SWI_YAML_MAX_DEPTH)};
    bool has_parser = false;
    sw_status status = start_document(&b, size > 0 ? data : "", file, err);
    if (status == SW_OK)
        status = check_characters(&b, err);
    if (status != SW_OK)
        goto done;
    has_parser = yaml_parser_initialize(&b.parser) != 0;
    status = has_parser ? read_events(&b, err) : swi_fail_nomem(err);
    if (status != SW_OK)
        goto done;
    *out = b.doc;
    b.doc = NULL;
done:
    if (has_parser)
        yaml_parser_delete(&b.parser);
    free(b.pending);
    swi_yaml_free(b.doc);
    return status;
}

void swi_yaml_free(swi_yaml *doc)
{
    if (doc == NULL)
        return;
    free(doc->entries);
    swi_arena_free(&doc->arena);
    free(doc);
}
