#include "state/state_json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "codec/json.h"
#include "codec/json_write.h"

/* ---- writing --------------------------------------------------------------------------------- */

static sw_status put(swi_buf *out, const char *text, sw_error *err)
{
    return swi_buf_append(out, text, strlen(text), err);
}

sw_status swi_state_json_write(const swi_state *state, sw_value root, swi_tensor_name_fn name_of,
                               const void *ctx, swi_buf *out, sw_error *err)
{
    sw_status st = swi_buf_printf(
        out, err, "{\"format\":1,\"ordered\":%s,\"root\":", state->ordered ? "true" : "false");
    if (st == SW_OK)
        st = swi_value_json_write(state->graph, root, name_of, ctx, out, err);
    return st == SW_OK ? put(out, "}\n", err) : st;
}

/* A million tensors that are all there is need no second list of their names. */
static const char *const tables[2] = {"{\"format\":1,\"ordered\":false}\n",
                                      "{\"format\":1,\"ordered\":true}\n"};

sw_status swi_state_json_write_table(bool ordered, swi_buf *out, sw_error *err)
{
    return put(out, tables[ordered], err);
}

bool swi_state_json_is_table(const uint8_t *data, size_t size, bool *ordered)
{
    for (int i = 0; i < 2; i++) {
        if (size != strlen(tables[i]) || memcmp(data, tables[i], size) != 0)
            continue;
        *ordered = i == 1;
        return true;
    }
    return false;
}

static sw_status write_scoped(const sw_value_graph *g, const swi_state_scoped *s, swi_buf *out,
                              sw_error *err)
{
    swi_quoted q;
    sw_status st = swi_buf_printf(out, err, "[%" PRId64 ",", s->rank);
    if (st == SW_OK)
        st = swi_json_quote(out, s->name, strlen(s->name), err);
    if (st == SW_OK)
        st = put(out, ",", err);
    if (st == SW_OK)
        st = swi_value_json_write(g, s->value, NULL, NULL, out, err);
    if (st != SW_OK)
        return swi_error_prefix(err, "value \"%s\" of rank %" PRId64, swi_quote_str(&q, s->name),
                                s->rank);
    return put(out, "]", err);
}

/* By rank, then by the bytes of the name. */
static int order_of(const swi_state_scoped *a, const swi_state_scoped *b)
{
    int order = (a->rank > b->rank) - (a->rank < b->rank);
    return order != 0 ? order : strcmp(a->name, b->name);
}

static int by_order(const void *left, const void *right)
{
    const swi_state_scoped *const *a = left, *const *b = right;
    return order_of(*a, *b);
}

static sw_status write_ordered(const swi_state *state, const swi_state_scoped *const *own,
                               size_t count, swi_buf *out, sw_error *err)
{
    swi_quoted q;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        if (i > 0 && order_of(own[i - 1], own[i]) == 0)
            return swi_fail(err, SW_ERR_UNSUPPORTED, "rank %" PRId64 " has two values \"%s\"",
                            own[i]->rank, swi_quote_str(&q, own[i]->name));
        st = put(out, i > 0 ? "," : "{\"format\":1,\"values\":[", err);
        if (st == SW_OK)
            st = write_scoped(state->graph, own[i], out, err);
    }
    return st == SW_OK && count > 0 ? put(out, "]}\n", err) : st;
}

sw_status swi_state_json_write_ranks(const swi_state *state, uint32_t rank, uint32_t ranks,
                                     swi_buf *out, sw_error *err)
{
    void *p = NULL;
    size_t count = 0;
    if (state->scoped_count == 0)
        return SW_OK;
    sw_status st = swi_alloc_array(state->scoped_count, sizeof(swi_state_scoped *), &p, err);
    if (st != SW_OK)
        return st;
    const swi_state_scoped **own = p;
    for (size_t i = 0; i < state->scoped_count; i++) {
        const swi_state_scoped *s = &state->scoped[i];
        if (s->rank >= 0 && (uint64_t)s->rank % ranks == rank)
            own[count++] = s;
    }
    if (count > 1)
        qsort(own, count, sizeof *own, by_order);
    st = write_ordered(state, own, count, out, err);
    free(own);
    return st;
}

/* ---- reading --------------------------------------------------------------------------------- */

static sw_status not_canonical(sw_error *err)
{
    return swi_fail(err, SW_ERR_FORMAT, "it is not written as VAL-1 has it");
}

static sw_status parse(const uint8_t *data, size_t size, size_t members, const sw_limits *limits,
                       sw_value_graph **json, sw_value *root, sw_error *err)
{
    sw_value format;
    int64_t version;
    sw_limits own = sw_limits_resolve(limits);
    own.depth = UINT32_MAX; /* values nest as deep as they do: their nodes are counted */
    sw_status st = swi_json_parse(data, size, &own, json, root, err);
    if (st != SW_OK)
        return st;
    if (sw_value_get_kind(*json, *root) != SW_VALUE_DICT ||
        !swi_value_get(*json, *root, "format", &format) || !sw_value_int(*json, format, &version))
        return swi_fail(err, SW_ERR_FORMAT, "it has no \"format\"");
    if (version != 1)
        return swi_fail(err, SW_ERR_UNSUPPORTED, "its format is %" PRId64 ", known is 1", version);
    return sw_value_size(*json, *root) == members ? SW_OK : not_canonical(err);
}

static sw_status check_same(const uint8_t *data, size_t size, const swi_buf *again, sw_error *err)
{
    size_t at = 0;
    if (again->size == size && memcmp(again->data, data, size) == 0)
        return SW_OK;
    while (at < size && at < again->size && data[at] == again->data[at])
        at++;
    return swi_fail_at(err, SW_ERR_FORMAT, "VAL-1", at,
                       "byte %zu is not as a writer of this format puts it", at);
}

typedef struct names {
    swi_tensor_find_fn find;
    const void *ctx;
    swi_arena arena;
    const char **of; /* by index */
    size_t capacity;
    sw_status failed;
} names;

static int64_t find_and_note(const void *ctx, const char *name, size_t size)
{
    names *n = *(names *const *)ctx;
    int64_t index = n->find(n->ctx, name, size);
    if (index < 0)
        return index;
    sw_status st =
        swi_grow_array((void **)&n->of, &n->capacity, (size_t)index + 1, sizeof *n->of, NULL);
    if (st == SW_OK && n->of[index] == NULL)
        st = swi_arena_text(&n->arena, name, size, &n->of[index], NULL);
    if (st != SW_OK)
        n->failed = st;
    return index;
}

static const char *noted_name(const void *ctx, uint32_t index)
{
    const names *n = ctx;
    return index < n->capacity ? n->of[index] : NULL;
}

sw_status swi_state_json_read(const uint8_t *data, size_t size, const sw_limits *limits,
                              swi_tensor_find_fn find, const void *ctx, swi_state *out,
                              sw_error *err)
{
    sw_value_graph *json = NULL;
    sw_value document, root, ordered;
    swi_state made = {0};
    swi_buf again = {0};
    names n = {.find = find, .ctx = ctx}, *pn = &n;
    sw_status st = parse(data, size, 3, limits, &json, &document, err);
    if (st == SW_OK && (!swi_value_get(json, document, "root", &root) ||
                        !swi_value_get(json, document, "ordered", &ordered) ||
                        !sw_value_bool(json, ordered, &made.ordered)))
        st = not_canonical(err);
    if (st == SW_OK)
        st = swi_graph_make(limits, &made.graph, err);
    if (st == SW_OK)
        st = swi_value_json_read(json, root, made.graph, find_and_note, &pn, &made.root, err);
    if (st == SW_OK && n.failed != SW_OK)
        st = swi_fail_nomem(err);
    if (st == SW_OK)
        st = swi_state_json_write(&made, made.root, noted_name, &n, &again, err);
    if (st == SW_OK)
        st = check_same(data, size, &again, err);
    sw_value_graph_free(json);
    swi_buf_free(&again);
    swi_arena_free(&n.arena);
    free(n.of);
    if (st == SW_OK)
        *out = made;
    else
        swi_state_free(&made);
    return st;
}

static sw_status read_scoped(const sw_value_graph *json, sw_value entry, const swi_rank_values *of,
                             swi_arena *arena, sw_value_graph *graph, swi_state_scoped *out,
                             sw_error *err)
{
    sw_value v[3];
    const uint8_t *text;
    size_t size;
    if (sw_value_get_kind(json, entry) != SW_VALUE_LIST || sw_value_size(json, entry) != 3)
        return not_canonical(err);
    for (size_t i = 0; i < 3; i++)
        (void)sw_value_item(json, entry, i, &v[i]);
    if (!sw_value_int(json, v[0], &out->rank) || out->rank < 0 ||
        (uint64_t)out->rank % of->ranks != of->rank ||
        sw_value_get_kind(json, v[1]) != SW_VALUE_STR ||
        !sw_value_bytes(json, v[1], &text, &size) || memchr(text, 0, size) != NULL)
        return swi_fail(err, SW_ERR_FORMAT, "a value that is none of rank %" PRIu32 " of %" PRIu32,
                        of->rank, of->ranks);
    sw_status st = swi_arena_text(arena, (const char *)text, size, &out->name, err);
    return st == SW_OK ? swi_value_json_read(json, v[2], graph, NULL, NULL, &out->value, err) : st;
}

sw_status swi_state_json_read_ranks(const swi_rank_values *text, swi_arena *arena, swi_state *state,
                                    sw_error *err)
{
    sw_value_graph *json = NULL;
    sw_value document, list;
    swi_buf again = {0};
    swi_state own = {.graph = state->graph};
    size_t capacity = 0, count = 0;
    sw_status st = parse(text->data, text->size, 2, text->limits, &json, &document, err);
    if (st == SW_OK && (!swi_value_get(json, document, "values", &list) ||
                        sw_value_get_kind(json, list) != SW_VALUE_LIST))
        st = not_canonical(err);
    if (st == SW_OK)
        count = sw_value_size(json, list);
    if (st == SW_OK)
        st = swi_grow_array((void **)&own.scoped, &capacity, count, sizeof *own.scoped, err);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        sw_value entry;
        (void)sw_value_item(json, list, i, &entry);
        st = read_scoped(json, entry, text, arena, state->graph, &own.scoped[i], err);
        if (st == SW_OK && i > 0 && order_of(&own.scoped[i - 1], &own.scoped[i]) >= 0)
            st = swi_fail(err, SW_ERR_FORMAT,
                          "VAL-1: value %zu is not behind the one before it, by rank and name", i);
        own.scoped_count += st == SW_OK;
    }
    if (st == SW_OK)
        st = swi_state_json_write_ranks(&own, text->rank, text->ranks, &again, err);
    if (st == SW_OK)
        st = check_same(text->data, text->size, &again, err);
    if (st == SW_OK) {
        capacity = state->scoped_count;
        st = swi_grow_array((void **)&state->scoped, &capacity, state->scoped_count + count,
                            sizeof *state->scoped, err);
    }
    for (size_t i = 0; st == SW_OK && i < count; i++)
        state->scoped[state->scoped_count++] = own.scoped[i];
    free(own.scoped);
    sw_value_graph_free(json);
    swi_buf_free(&again);
    return st;
}
