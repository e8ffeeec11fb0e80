/* An OMS statement read strictly (specs/signing.md, OMS-2 to OMS-8). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/names.h"
#include "base/text.h"
#include "check/oms.h"
#include "check/oms_words.h"
#include "codec/json.h"
#include "container/fields.h"
#include "io/store.h"

#define ALGORITHM_MAX 64

typedef struct reading {
    swi_oms oms;
    swi_names *names;              /* of all resources, as they stand there */
    char algorithm[ALGORITHM_MAX]; /* the other spelling of shards */
} reading;

static sw_status read_subject(reading *r, const swi_fields *statement, swi_digest *root,
                              sw_error *err)
{
    swi_fields subject, digest;
    swi_field_text name = {0};
    sw_value list, item;
    sw_status status = swi_fields_list(statement, "subject", &list, err);
    if (status != SW_OK)
        return status;
    if (sw_value_size(statement->graph, list) != 1)
        return swi_fail_at(err, SW_ERR_FORMAT, "OMS-3", 0,
                           "the statement: %zu subjects, expected 1",
                           sw_value_size(statement->graph, list));
    (void)sw_value_item(statement->graph, list, 0, &item);
    status = swi_fields_open(statement->graph, item, "the subject", NULL, &subject, err);
    if (status == SW_OK)
        status = swi_fields_text(&subject, "name", &name, err);
    if (status == SW_OK)
        status = swi_arena_text(&r->oms.arena, name.data, name.size, &r->oms.subject, err);
    if (status == SW_OK)
        status = swi_fields_object(&subject, "digest", "the subject's digest", NULL, &digest, err);
    return status == SW_OK ? swi_fields_digest(&digest, "sha256", root, err) : status;
}

/* ---- how it was serialized ---------------------------------------------------------------- */

/* Numbers pass through doubles in other tools: 1000000000.0 is a size. */
static sw_status read_shard_size(reading *r, const swi_fields *f, sw_error *err)
{
    sw_value v;
    int64_t integer = 0;
    double number = 0;
    sw_status status = swi_fields_get(f, "shard_size", &v, err);
    if (status != SW_OK)
        return status;
    if (!sw_value_int(f->graph, v, &integer) && sw_value_float(f->graph, v, &number) &&
        number >= 1 && number <= 9007199254740992.0 && floor(number) >= number)
        integer = (int64_t)number;
    if (integer < 1)
        return swi_fail_at(err, SW_ERR_FORMAT, "OMS-6", 0,
                           "the serialization: \"shard_size\" is no number of bytes");
    r->oms.shard_size = (uint64_t)integer;
    snprintf(r->algorithm, sizeof r->algorithm, "%s-sharded-%" PRIu64, SWI_OMS_HASH,
             r->oms.shard_size);
    return SW_OK;
}

static sw_status read_method(reading *r, const swi_fields *f, sw_error *err)
{
    swi_field_text method = {0};
    swi_quoted q;
    sw_status status = swi_fields_text(f, "method", &method, err);
    if (status != SW_OK)
        return status;
    if (swi_field_is(&method, SWI_OMS_SHARDS))
        return read_shard_size(r, f, err);
    if (!swi_field_is(&method, SWI_OMS_FILES))
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "OMS-5", 0,
                           "the serialization: method \"%s\", known are \"files\" and \"shards\"",
                           swi_quote(&q, method.data, method.size));
    if (swi_fields_has(f, "shard_size"))
        return swi_fail_at(err, SW_ERR_FORMAT, "OMS-5", 0,
                           "the serialization: \"files\" have no \"shard_size\"");
    return SW_OK;
}

/* A path in the model, terminated, in the arena. */
static sw_status take_path(reading *r, const char *text, size_t size, const char **out,
                           sw_error *err)
{
    swi_quoted q;
    if (memchr(text, '\0', size) != NULL)
        return swi_fail_at(err, SW_ERR_UNSAFE, "OMS-4", 0, "\"%s\" is no path in the model",
                           swi_quote(&q, text, size));
    sw_status status = swi_arena_text(&r->oms.arena, text, size, out, err);
    if (status != SW_OK || strcmp(*out, SWI_OMS_SINGLE) == 0)
        return status;
    sw_error cause = {0};
    if (swi_path_check(*out, &cause) != SW_OK)
        return swi_fail_at(err, SW_ERR_UNSAFE, "OMS-4", 0, "\"%s\" is no path in the model",
                           swi_quote(&q, text, size));
    return SW_OK;
}

static sw_status read_ignored(reading *r, const swi_fields *f, sw_error *err)
{
    sw_value list, item;
    if (!swi_fields_has(f, "ignore_paths"))
        return SW_OK;
    sw_status status = swi_fields_list(f, "ignore_paths", &list, err);
    for (size_t i = 0; status == SW_OK && i < sw_value_size(f->graph, list); i++) {
        const uint8_t *text;
        size_t size;
        const char *path;
        (void)sw_value_item(f->graph, list, i, &item);
        if (sw_value_get_kind(f->graph, item) != SW_VALUE_STR ||
            !sw_value_bytes(f->graph, item, &text, &size))
            return swi_fail(err, SW_ERR_FORMAT, "the serialization: an ignored path is no text");
        status = take_path(r, (const char *)text, size, &path, err);
        if (status == SW_OK && strcmp(path, SWI_OMS_SINGLE) == 0)
            return swi_fail_at(
                err, SW_ERR_UNSAFE, "OMS-7", 0,
                "the serialization: the whole model is ignored, so nothing is signed");
        if (status == SW_OK)
            status = swi_oms_add_ignored(&r->oms, path, err);
    }
    return status;
}

static sw_status read_serialization(reading *r, const swi_fields *predicate, sw_error *err)
{
    static const char *const known[] = {"method",         "hash_type",    "shard_size",
                                        "allow_symlinks", "ignore_paths", NULL};
    swi_fields f;
    sw_value links;
    bool follows;
    sw_status status =
        swi_fields_object(predicate, "serialization", "the serialization", known, &f, err);
    if (status == SW_OK)
        status = swi_fields_expect(&f, "hash_type", SWI_OMS_HASH, err);
    if (status == SW_OK)
        status = swi_fields_get(&f, "allow_symlinks", &links, err);
    if (status == SW_OK && !sw_value_bool(f.graph, links, &follows))
        status = swi_fail(err, SW_ERR_FORMAT,
                          "the serialization: \"allow_symlinks\" is neither true nor false");
    if (status == SW_OK)
        status = read_method(r, &f, err);
    return status == SW_OK ? read_ignored(r, &f, err) : status;
}

/* ---- resources ---------------------------------------------------------------------------- */

/* A decimal number without leading zeros, and where it begins: behind the last ':' before `end`. */
static bool number_before(const char *text, size_t end, size_t *colon, uint64_t *out)
{
    uint64_t value = 0;
    size_t at = end;
    while (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9')
        at--;
    if (at == 0 || at == end || text[at - 1] != ':' || (text[at] == '0' && end - at > 1))
        return false;
    for (size_t i = at; i < end; i++) {
        if (!swi_mul_u64(value, 10, &value) ||
            !swi_add_u64(value, (uint64_t)(text[i] - '0'), &value))
            return false;
    }
    *colon = at - 1;
    *out = value;
    return true;
}

/* "NAME:BEGIN:END", cut at its last two numbers; shards begin at multiples of their size. */
static sw_status cut_shard(const reading *r, const swi_field_text *name, size_t *size,
                           swi_oms_resource *out, sw_error *err)
{
    size_t second, first;
    swi_quoted q;
    if (!number_before(name->data, name->size, &second, &out->end) ||
        !number_before(name->data, second, &first, &out->begin) ||
        out->begin % r->oms.shard_size != 0 || out->end <= out->begin ||
        out->end - out->begin > r->oms.shard_size)
        return swi_fail_at(err, SW_ERR_FORMAT, "OMS-6", 0,
                           "resource \"%s\" names no shard of %" PRIu64 " bytes",
                           swi_quote(&q, name->data, name->size), r->oms.shard_size);
    *size = first;
    return SW_OK;
}

static sw_status check_algorithm(const reading *r, const swi_fields *f, sw_error *err)
{
    swi_field_text text = {0};
    swi_quoted q;
    sw_status status = swi_fields_text(f, "algorithm", &text, err);
    if (status != SW_OK || swi_field_is(&text, SWI_OMS_HASH) ||
        (r->oms.shard_size > 0 && swi_field_is(&text, r->algorithm)))
        return status;
    return swi_fail_at(err, SW_ERR_UNSUPPORTED, "OMS-6", 0, "a resource: algorithm \"%s\"",
                       swi_quote(&q, text.data, text.size));
}

static sw_status add_resource(reading *r, const swi_field_text *name,
                              const swi_oms_resource *resource, sw_error *err)
{
    uint32_t id;
    bool is_new;
    swi_quoted q;
    sw_status status = swi_names_add(r->names, name->data, name->size, &id, &is_new, err);
    if (status == SW_OK && !is_new)
        return swi_fail_at(err, SW_ERR_CONFLICT, "OMS-4", 0, "resource \"%s\" is listed twice",
                           swi_quote(&q, name->data, name->size));
    if (status == SW_OK)
        status = swi_grow_array((void **)&r->oms.items, &r->oms.capacity, r->oms.count + 1,
                                sizeof *r->oms.items, err);
    if (status == SW_OK)
        r->oms.items[r->oms.count++] = *resource;
    return status;
}

static sw_status read_resource(reading *r, const sw_value_graph *g, sw_value v, sw_error *err)
{
    swi_fields f;
    swi_field_text name = {0};
    swi_oms_resource resource = {0};
    size_t size = 0;
    sw_status status = swi_fields_open(g, v, "a resource", NULL, &f, err);
    if (status == SW_OK)
        status = swi_fields_text(&f, "name", &name, err);
    if (status == SW_OK)
        status = check_algorithm(r, &f, err);
    if (status == SW_OK)
        status = swi_fields_digest(&f, "digest", &resource.digest, err);
    if (status != SW_OK)
        return status;
    size = name.size;
    if (r->oms.shard_size > 0)
        status = cut_shard(r, &name, &size, &resource, err);
    if (status == SW_OK)
        status = take_path(r, name.data, size, &resource.name, err);
    return status == SW_OK ? add_resource(r, &name, &resource, err) : status;
}

static sw_status read_resources(reading *r, const swi_fields *predicate, sw_error *err)
{
    sw_value list, item;
    sw_status status = swi_fields_list(predicate, "resources", &list, err);
    if (status != SW_OK)
        return status;
    size_t count = sw_value_size(predicate->graph, list);
    if (count == 0)
        return swi_fail_at(err, SW_ERR_INCOMPLETE, "OMS-7", 0,
                           "the statement lists no file, so nothing is signed");
    for (size_t i = 0; status == SW_OK && i < count; i++) {
        (void)sw_value_item(predicate->graph, list, i, &item);
        status = read_resource(r, predicate->graph, item, err);
    }
    return status;
}

/* ---- the statement ------------------------------------------------------------------------- */

static sw_status check_root(const reading *r, const swi_digest *root, sw_error *err)
{
    swi_digest found;
    sw_status status = swi_oms_root(&r->oms, &found, err);
    if (status == SW_OK && memcmp(&found, root, sizeof found) != 0)
        status = swi_fail_at(err, SW_ERR_CORRUPT, "OMS-3", 0,
                             "the subject's digest is not that of the listed resources");
    return status;
}

static sw_status read_statement(reading *r, const sw_value_graph *g, sw_value root, sw_error *err)
{
    static const char *const known[] = {"_type", "subject", "predicateType", "predicate", NULL};
    static const char *const parts[] = {"serialization", "resources", NULL};
    swi_fields statement, predicate;
    swi_digest digest;
    sw_status status = swi_fields_open(g, root, "the statement", known, &statement, err);
    if (status == SW_OK)
        status = swi_fields_expect(&statement, "_type", SWI_OMS_TYPE, err);
    if (status == SW_OK)
        status = swi_fields_expect(&statement, "predicateType", SWI_OMS_PREDICATE, err);
    if (status == SW_OK)
        status = read_subject(r, &statement, &digest, err);
    if (status == SW_OK)
        status =
            swi_fields_object(&statement, "predicate", "the predicate", parts, &predicate, err);
    if (status == SW_OK)
        status = read_serialization(r, &predicate, err);
    if (status == SW_OK)
        status = read_resources(r, &predicate, err);
    return status == SW_OK ? check_root(r, &digest, err) : status;
}

sw_status swi_oms_read(const void *data, size_t size, const sw_limits *limits, swi_oms *out,
                       sw_error *err)
{
    reading r = {0};
    sw_value_graph *graph = NULL;
    sw_value root;
    sw_status status = swi_names_make(&r.names, err);
    if (status == SW_OK)
        status = swi_json_parse(data, size, limits, &graph, &root, err);
    if (status == SW_OK)
        status = read_statement(&r, graph, root, err);
    sw_value_graph_free(graph);
    swi_names_free(r.names);
    if (status != SW_OK)
        swi_oms_free(&r.oms);
    else
        *out = r.oms;
    return status;
}
