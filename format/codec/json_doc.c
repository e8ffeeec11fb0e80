/* A whole document as a value graph, made from the events of json.c. */
#include <stdlib.h>

#include "base/arena.h"
#include "base/names.h"
#include "base/text.h"
#include "codec/json.h"

typedef struct frame {
    size_t first_item;
    size_t first_key;
} frame;

typedef struct doc_key {
    uint32_t id; /* in doc.names */
    size_t offset_bytes;
} doc_key;

typedef struct doc {
    sw_value_graph *graph;
    swi_names *names;    /* every key text of the document */
    sw_value *key_nodes; /* by id: one node for all uses of a key */
    size_t key_node_capacity;
    frame *frames; /* the open containers */
    size_t depth, frame_capacity;
    sw_value *items; /* finished values of the open containers; key, value in objects */
    size_t item_count, item_capacity;
    doc_key *keys; /* of the open objects */
    size_t key_count, key_capacity;
} doc;

static sw_status push_item(doc *d, sw_value v, sw_error *err)
{
    void *p = d->items;
    sw_status status =
        swi_grow_array(&p, &d->item_capacity, d->item_count + 1, sizeof *d->items, err);
    d->items = p;
    if (status == SW_OK)
        d->items[d->item_count++] = v;
    return status;
}

static sw_status push_frame(doc *d, sw_error *err)
{
    void *p = d->frames;
    sw_status status = swi_grow_array(&p, &d->frame_capacity, d->depth + 1, sizeof *d->frames, err);
    d->frames = p;
    if (status == SW_OK)
        d->frames[d->depth++] = (frame){.first_item = d->item_count, .first_key = d->key_count};
    return status;
}

static sw_status new_key_node(doc *d, uint32_t id, const swi_json_event *event, sw_error *err)
{
    void *p = d->key_nodes;
    sw_status status =
        swi_grow_array(&p, &d->key_node_capacity, (size_t)id + 1, sizeof *d->key_nodes, err);
    d->key_nodes = p;
    if (status != SW_OK)
        return status;
    return swi_graph_text(d->graph, SW_VALUE_STR, event->text, event->size, &d->key_nodes[id], err);
}

static sw_status push_key(doc *d, const swi_json_event *event, sw_error *err)
{
    uint32_t id;
    bool is_new;
    sw_status status = swi_names_add(d->names, event->text, event->size, &id, &is_new, err);
    if (status == SW_OK && is_new)
        status = new_key_node(d, id, event, err);
    if (status != SW_OK)
        return status;
    void *p = d->keys;
    status = swi_grow_array(&p, &d->key_capacity, d->key_count + 1, sizeof *d->keys, err);
    d->keys = p;
    if (status != SW_OK)
        return status;
    d->keys[d->key_count++] = (doc_key){.id = id, .offset_bytes = event->offset_bytes};
    return push_item(d, d->key_nodes[id], err);
}

static int compare_keys(const void *a, const void *b)
{
    const doc_key *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->offset_bytes < y->offset_bytes ? -1 : x->offset_bytes > y->offset_bytes;
}

/* There may be no array yet, and NULL + 0 is undefined. */
static const sw_value *items_from(const doc *d, size_t first)
{
    return d->items != NULL ? d->items + first : NULL;
}

/* The keys of the innermost object are distinct. Sorts them: they are needed no more. */
static sw_status check_keys(doc *d, const frame *f, sw_error *err)
{
    size_t count = d->key_count - f->first_key;
    if (count < 2)
        return SW_OK;
    doc_key *keys = d->keys + f->first_key;
    qsort(keys, count, sizeof *keys, compare_keys);
    const doc_key *second = NULL;
    for (size_t i = 1; i < count; i++)
        if (keys[i].id == keys[i - 1].id &&
            (second == NULL || keys[i].offset_bytes < second->offset_bytes))
            second = &keys[i];
    if (second == NULL)
        return SW_OK;
    size_t size;
    const char *text = swi_names_at(d->names, second->id, &size);
    swi_quoted room;
    return swi_fail_at(err, SW_ERR_FORMAT, NULL, second->offset_bytes,
                       "JSON: key \"%s\" is there twice in one object",
                       swi_quote(&room, text, size));
}

static sw_status end_object(doc *d, sw_error *err)
{
    const frame f = d->frames[d->depth - 1];
    sw_value v;
    sw_status status = check_keys(d, &f, err);
    if (status == SW_OK)
        status = swi_graph_dict(d->graph, &v, err);
    if (status == SW_OK)
        status = swi_graph_set_items(d->graph, v, items_from(d, f.first_item),
                                     (d->item_count - f.first_item) / 2, err);
    if (status != SW_OK)
        return status;
    d->depth--;
    d->item_count = f.first_item;
    d->key_count = f.first_key;
    return push_item(d, v, err);
}

static sw_status end_array(doc *d, sw_error *err)
{
    const frame f = d->frames[d->depth - 1];
    sw_value v;
    sw_status status = swi_graph_sequence(d->graph, SW_VALUE_LIST, items_from(d, f.first_item),
                                          d->item_count - f.first_item, &v, err);
    if (status != SW_OK)
        return status;
    d->depth--;
    d->item_count = f.first_item;
    return push_item(d, v, err);
}

static sw_status take_scalar(doc *d, const swi_json_event *event, sw_error *err)
{
    sw_value v = swi_value_none();
    sw_status status = SW_OK;
    switch (event->kind) {
    case SWI_JSON_STRING:
        status = swi_graph_text(d->graph, SW_VALUE_STR, event->text, event->size, &v, err);
        break;
    case SWI_JSON_INT:
        status = swi_graph_int(d->graph, event->integer, &v, err);
        break;
    case SWI_JSON_FLOAT:
        status = swi_graph_float(d->graph, event->number, &v, err);
        break;
    case SWI_JSON_TRUE:
    case SWI_JSON_FALSE:
        v = swi_value_of_bool(event->kind == SWI_JSON_TRUE);
        break;
    default: /* NULL: the others never come here */
        break;
    }
    return status == SW_OK ? push_item(d, v, err) : status;
}

static sw_status take_event(doc *d, const swi_json_event *event, sw_error *err)
{
    switch (event->kind) {
    case SWI_JSON_OBJECT_BEGIN:
    case SWI_JSON_ARRAY_BEGIN:
        return push_frame(d, err);
    case SWI_JSON_OBJECT_END:
        return end_object(d, err);
    case SWI_JSON_ARRAY_END:
        return end_array(d, err);
    case SWI_JSON_KEY:
        return push_key(d, event, err);
    default:
        return take_scalar(d, event, err);
    }
}

static sw_status read_all(doc *d, swi_json_reader *reader, sw_error *err)
{
    swi_json_event event;
    do {
        sw_status status = swi_json_next(reader, &event, err);
        if (status == SW_OK && event.kind != SWI_JSON_DONE)
            status = take_event(d, &event, err);
        if (status != SW_OK)
            return status;
    } while (event.kind != SWI_JSON_DONE);
    return SW_OK;
}

sw_status swi_json_parse(const void *data, size_t size, const sw_limits *limits,
                         sw_value_graph **graph, sw_value *root, sw_error *err)
{
    doc d = {0};
    swi_json_reader *reader = NULL;
    sw_status status = swi_json_reader_make(data, size, limits, &reader, err);
    if (status == SW_OK)
        status = swi_graph_make(limits, &d.graph, err);
    if (status == SW_OK)
        status = swi_names_make(&d.names, err);
    if (status != SW_OK)
        goto done;
    swi_json_allow_nonfinite(reader);
    status = read_all(&d, reader, err);
    if (status != SW_OK)
        goto done;
    *root = d.items[0];
    *graph = d.graph;
    d.graph = NULL;
done:
    free(d.keys);
    free(d.items);
    free(d.frames);
    free(d.key_nodes);
    swi_names_free(d.names);
    sw_value_graph_free(d.graph);
    swi_json_reader_free(reader);
    return status;
}
