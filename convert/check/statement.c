#include "check/statement.h"

#include <stdlib.h>
#include <string.h>

#include "check/hash.h"
#include "codec/json.h"
#include "codec/json_write.h"
#include "container/fields.h"
#include "state/state_digest.h"

#define FORMAT 1

void swi_statement_free(swi_statement *statement)
{
    swi_digest_list_free(&statement->tensors);
    swi_arena_free(&statement->arena);
    *statement = (swi_statement){0};
}

/* ---- making -------------------------------------------------------------------------------- */

bool swi_statement_native(const sw_checkpoint *checkpoint, swi_digest *out)
{
    const char *key, *value;
    if (strcmp(sw_checkpoint_framework(checkpoint), "native") != 0)
        return false;
    for (size_t i = 0; sw_checkpoint_fact(checkpoint, i, &key, &value); i++) {
        if (strcmp(key, "root") == 0)
            return swi_digest_parse(value, strlen(value), out);
    }
    return false;
}

sw_status swi_statement_values(const sw_checkpoint *checkpoint, swi_digest *out, sw_error *err)
{
    swi_state state = {0};
    sw_status status = swi_checkpoint_state(checkpoint, &state, err);
    if (status == SW_OK)
        status = swi_state_digest(checkpoint, &state, out, err);
    swi_state_free(&state);
    return status == SW_OK ? SW_OK : swi_error_prefix(err, "the values beside the tensors");
}

sw_status swi_statement_make(const sw_checkpoint *checkpoint, const char *name,
                             const sw_work_options *work, sw_report *report, swi_statement *out,
                             sw_tally *tally, sw_error *err)
{
    const swi_hash_in in = {0};
    swi_statement s = {0};
    sw_status status = swi_arena_text(&s.arena, name, strlen(name), &s.name, err);
    if (status == SW_OK)
        status = swi_hash(checkpoint, &in, work, report, &s.tensors, NULL, tally, err);
    if (status == SW_OK)
        status = swi_statement_values(checkpoint, &s.values, err);
    s.has_native = swi_statement_native(checkpoint, &s.native);
    if (status != SW_OK)
        swi_statement_free(&s);
    else
        *out = s;
    return status;
}

/* ---- writing ------------------------------------------------------------------------------ */

static void write_digest(swi_json_writer *w, const char *key, const swi_digest *digest)
{
    char text[SWI_DIGEST_TEXT];
    swi_digest_text(digest, text);
    swi_json_key_str(w, key);
    swi_json_str(w, text);
}

sw_status swi_statement_write(const swi_statement *statement, swi_buf *out, sw_error *err)
{
    swi_buf list = {0};
    swi_json_writer w;
    sw_status status = swi_digest_list_text(&statement->tensors, &list, err);
    if (status != SW_OK)
        return status;
    swi_json_start(&w, out, SWI_JSON_COMPACT);
    swi_json_begin_object(&w);
    swi_json_key_str(&w, "format");
    swi_json_int(&w, FORMAT);
    swi_json_key_str(&w, "name");
    swi_json_str(&w, statement->name);
    if (statement->has_native)
        write_digest(&w, "native", &statement->native);
    write_digest(&w, "values", &statement->values);
    swi_json_key_str(&w, "tensors");
    swi_json_text(&w, (const char *)list.data, list.size);
    swi_json_end(&w);
    swi_buf_free(&list);
    return swi_json_finish(&w, err);
}

/* ---- reading ------------------------------------------------------------------------------ */

static sw_status check_format(const swi_fields *f, sw_error *err)
{
    sw_value v;
    int64_t format = 0;
    sw_status status = swi_fields_get(f, "format", &v, err);
    if (status == SW_OK && !sw_value_int(f->graph, v, &format))
        status = swi_fail(err, SW_ERR_FORMAT, "the statement: \"format\" is no number");
    if (status == SW_OK && format != FORMAT)
        status = swi_fail_at(err, SW_ERR_UNSUPPORTED, "SIG-6", 0,
                             "the statement: format %lld; known is %d", (long long)format, FORMAT);
    return status;
}

static sw_status read_native(swi_statement *s, const swi_fields *f, sw_error *err)
{
    s->has_native = swi_fields_has(f, "native");
    return s->has_native ? swi_fields_digest(f, "native", &s->native, err) : SW_OK;
}

static sw_status read_tensors(swi_statement *s, const swi_fields *f, sw_error *err)
{
    swi_field_text text = {0};
    sw_status status = swi_fields_text(f, "tensors", &text, err);
    if (status == SW_OK)
        status = swi_digest_list_parse(text.data, text.size, &s->tensors, err);
    if (status == SW_OK &&
        (s->tensors.weights || s->tensors.as != SW_DTYPE_NONE || s->tensors.only_count > 0))
        status = swi_fail_at(err, SW_ERR_FORMAT, "SIG-7", 0,
                             "the statement: its list is not of all tensors as they are");
    return status;
}

static sw_status read_all(swi_statement *s, const sw_value_graph *graph, sw_value root,
                          sw_error *err)
{
    swi_fields f;
    swi_field_text name = {0};
    sw_status status = swi_fields_open(graph, root, "the statement", NULL, &f, err);
    if (status == SW_OK)
        status = check_format(&f, err);
    if (status == SW_OK) {
        static const char *const known[] = {"format", "name", "native", "values", "tensors", NULL};
        status = swi_fields_open(graph, root, "the statement", known, &f, err);
    }
    if (status == SW_OK)
        status = swi_fields_text(&f, "name", &name, err);
    if (status == SW_OK)
        status = swi_arena_text(&s->arena, name.data, name.size, &s->name, err);
    if (status == SW_OK)
        status = read_native(s, &f, err);
    if (status == SW_OK)
        status = swi_fields_digest(&f, "values", &s->values, err);
    return status == SW_OK ? read_tensors(s, &f, err) : status;
}

sw_status swi_statement_read(const void *data, size_t size, const sw_limits *limits,
                             swi_statement *out, sw_error *err)
{
    swi_statement s = {0};
    sw_value_graph *graph = NULL;
    sw_value root;
    sw_status status = swi_json_parse(data, size, limits, &graph, &root, err);
    if (status == SW_OK)
        status = read_all(&s, graph, root, err);
    sw_value_graph_free(graph);
    if (status != SW_OK)
        swi_statement_free(&s);
    else
        *out = s;
    return status;
}
