#include "container/dsse.h"

#include <string.h>

/* What is signed: type and payload, each after its length. */
static sw_status write_pae(const char *type, const swi_buf *payload, swi_buf *out, sw_error *err)
{
    sw_status status =
        swi_buf_printf(out, err, "DSSEv1 %zu %s %zu ", strlen(type), type, payload->size);
    if (status == SW_OK)
        status = swi_buf_append(out, payload->data, payload->size, err);
    return status;
}

static sw_status write_base64(const char *key, const swi_buf *bytes, swi_json_writer *w,
                              sw_error *err)
{
    swi_buf text = {0};
    sw_status status = swi_base64_write(bytes->data, bytes->size, &text, err);
    if (status == SW_OK) {
        swi_json_key_str(w, key);
        swi_json_text(w, (const char *)text.data, text.size);
    }
    swi_buf_free(&text);
    return status;
}

sw_status swi_dsse_write(const swi_key *key, const char *keyid, const char *type,
                         const swi_buf *payload, swi_json_writer *w, sw_error *err)
{
    swi_buf pae = {0}, signature = {0};
    sw_status status = write_pae(type, payload, &pae, err);
    if (status == SW_OK)
        status = swi_sign(key, pae.data, pae.size, &signature, err);
    swi_buf_free(&pae);
    swi_json_begin_object(w);
    if (status == SW_OK)
        status = write_base64("payload", payload, w, err);
    swi_json_key_str(w, "payloadType");
    swi_json_str(w, type);
    swi_json_key_str(w, "signatures");
    swi_json_begin_array(w);
    swi_json_begin_object(w);
    if (status == SW_OK)
        status = write_base64("sig", &signature, w, err);
    swi_json_key_str(w, "keyid");
    swi_json_str(w, keyid);
    swi_json_end(w);
    swi_json_end(w);
    swi_json_end(w);
    swi_buf_free(&signature);
    return status;
}

static sw_status read_base64(const swi_fields *f, const char *key, swi_buf *out, sw_error *err)
{
    swi_field_text text = {0};
    sw_status status = swi_fields_text(f, key, &text, err);
    if (status != SW_OK)
        return status;
    status = swi_base64_read(text.data, text.size, out, err);
    return status == SW_OK ? SW_OK : swi_error_prefix(err, "%s: \"%s\"", f->what, key);
}

static sw_status read_signatures(const swi_fields *object, swi_envelope *out, sw_error *err)
{
    static const char *const known[] = {"sig", "keyid", NULL};
    sw_value list, item;
    sw_status status = swi_fields_list(object, "signatures", &list, err);
    if (status != SW_OK)
        return status;
    size_t count = sw_value_size(object->graph, list);
    if (count == 0)
        return swi_fail(err, SW_ERR_FORMAT, "%s: no signature", object->what);
    if (count > SWI_DSSE_SIGNATURES_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "%s: %zu signatures, at most %u are read", object->what,
                        count, SWI_DSSE_SIGNATURES_MAX);
    for (size_t i = 0; i < count && status == SW_OK; i++) {
        swi_fields f;
        (void)sw_value_item(object->graph, list, i, &item);
        status = swi_fields_open(object->graph, item, "a signature", known, &f, err);
        if (status == SW_OK)
            status = read_base64(&f, "sig", &out->signatures[out->count++], err);
    }
    return status;
}

sw_status swi_dsse_read(const swi_fields *object, const char *type, swi_envelope *out,
                        sw_error *err)
{
    swi_envelope envelope = {.type = type};
    sw_status status = swi_fields_expect(object, "payloadType", type, err);
    if (status == SW_OK)
        status = read_base64(object, "payload", &envelope.payload, err);
    if (status == SW_OK)
        status = read_signatures(object, &envelope, err);
    if (status != SW_OK)
        swi_envelope_free(&envelope);
    else
        *out = envelope;
    return status;
}

void swi_envelope_free(swi_envelope *envelope)
{
    swi_buf_free(&envelope->payload);
    for (size_t i = 0; i < envelope->count; i++)
        swi_buf_free(&envelope->signatures[i]);
    *envelope = (swi_envelope){0};
}

sw_status swi_dsse_check(const swi_envelope *envelope, const swi_key *key, bool *good,
                         sw_error *err)
{
    swi_buf pae = {0};
    bool found = false;
    sw_status status = write_pae(envelope->type, &envelope->payload, &pae, err);
    for (size_t i = 0; i < envelope->count && status == SW_OK && !found; i++)
        status = swi_sign_check(key, pae.data, pae.size, envelope->signatures[i].data,
                                envelope->signatures[i].size, &found, err);
    swi_buf_free(&pae);
    if (status == SW_OK)
        *good = found;
    return status;
}
