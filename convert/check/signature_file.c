/* The two kinds of signature files (specs/signing.md, SIG-3, OMS-1). */
#include <string.h>

#include "check/signature.h"
#include "codec/json.h"

#define MEDIA_TYPE "application/vnd.dev.sigstore.bundle.v0.3+json"

const char *swi_signature_format_name(sw_signature_format format)
{
    return format == SW_SIGNATURE_OMS ? "oms" : "shardwright";
}

void swi_signature_file_free(swi_signature_file *file)
{
    swi_envelope_free(&file->envelope);
    *file = (swi_signature_file){0};
}

/* ---- reading ------------------------------------------------------------------------------ */

static const char *const envelope_members[] = {"payload", "payloadType", "signatures", NULL};

/* It is unsigned: it words errors and grants nothing. */
static sw_status take_hint(const swi_fields *f, const char *key, swi_signature_file *out,
                           sw_error *err)
{
    swi_digest digest;
    swi_field_text text = {0};
    sw_status status = swi_fields_text(f, key, &text, err);
    if (status != SW_OK || text.size == 0)
        return status;
    status = swi_fields_digest(f, key, &digest, err);
    if (status == SW_OK)
        swi_digest_text(&digest, out->hint);
    return status;
}

/* Bundles of versions before 1.1 hold the key itself, and no hint: it is not looked at. */
static sw_status read_public_key(const swi_fields *material, swi_signature_file *out, sw_error *err)
{
    static const char *const known[] = {"hint", "rawBytes", "keyDetails", NULL};
    swi_fields key;
    sw_status status = swi_fields_object(material, "publicKey", "the public key", known, &key, err);
    if (status == SW_OK && swi_fields_has(&key, "hint"))
        status = take_hint(&key, "hint", out, err);
    return status;
}

static sw_status read_bundle(const swi_fields *top, swi_signature_file *out, sw_error *err)
{
    static const char *const parts[] = {"mediaType", "verificationMaterial", "dsseEnvelope", NULL};
    static const char *const known[] = {"publicKey", "tlogEntries", "timestampVerificationData",
                                        NULL};
    swi_fields bundle, material, envelope;
    sw_status status = swi_fields_open(top->graph, top->object, "the bundle", parts, &bundle, err);
    out->format = SW_SIGNATURE_OMS;
    if (status == SW_OK)
        status = swi_fields_expect(&bundle, "mediaType", MEDIA_TYPE, err);
    if (status == SW_OK)
        status = swi_fields_object(&bundle, "verificationMaterial", "the verification material",
                                   known, &material, err);
    if (status == SW_OK)
        status = read_public_key(&material, out, err);
    if (status == SW_OK)
        status = swi_fields_object(&bundle, "dsseEnvelope", "the envelope", envelope_members,
                                   &envelope, err);
    if (status == SW_OK)
        status = swi_dsse_read(&envelope, SWI_OMS_PAYLOAD_TYPE, &out->envelope, err);
    return status;
}

static sw_status read_own(const swi_fields *top, swi_signature_file *out, sw_error *err)
{
    swi_fields envelope;
    sw_status status =
        swi_fields_open(top->graph, top->object, "the envelope", envelope_members, &envelope, err);
    sw_value list, item;
    swi_fields first;
    out->format = SW_SIGNATURE_SHARDWRIGHT;
    if (status == SW_OK)
        status = swi_dsse_read(&envelope, SWI_SIGNATURE_PAYLOAD_TYPE, &out->envelope, err);
    if (status == SW_OK)
        status = swi_fields_list(&envelope, "signatures", &list, err);
    if (status == SW_OK && sw_value_item(top->graph, list, 0, &item))
        status = swi_fields_open(top->graph, item, "a signature", NULL, &first, err);
    return status == SW_OK ? take_hint(&first, "keyid", out, err) : status;
}

sw_status swi_signature_file_read(const void *data, size_t size, const sw_limits *limits,
                                  swi_signature_file *out, sw_error *err)
{
    swi_signature_file file = {0};
    sw_value_graph *graph = NULL;
    sw_value root;
    swi_fields top;
    sw_status status = swi_json_parse(data, size, limits, &graph, &root, err);
    if (status == SW_OK)
        status = swi_fields_open(graph, root, "the signature file", NULL, &top, err);
    if (status == SW_OK)
        status = swi_fields_has(&top, "payloadType") ? read_own(&top, &file, err)
                                                     : read_bundle(&top, &file, err);
    sw_value_graph_free(graph);
    if (status != SW_OK)
        swi_signature_file_free(&file);
    else
        *out = file;
    return status;
}

/* ---- writing ------------------------------------------------------------------------------ */

static sw_status write_bundle(swi_json_writer *w, const swi_key *key, const char *hint,
                              const swi_buf *payload, sw_error *err)
{
    swi_json_begin_object(w);
    swi_json_key_str(w, "mediaType");
    swi_json_str(w, MEDIA_TYPE);
    swi_json_key_str(w, "verificationMaterial");
    swi_json_begin_object(w);
    swi_json_key_str(w, "publicKey");
    swi_json_begin_object(w);
    swi_json_key_str(w, "hint");
    swi_json_str(w, hint);
    swi_json_end(w);
    swi_json_key_str(w, "tlogEntries");
    swi_json_begin_array(w);
    swi_json_end(w);
    swi_json_end(w);
    swi_json_key_str(w, "dsseEnvelope");
    sw_status status = swi_dsse_write(key, "", SWI_OMS_PAYLOAD_TYPE, payload, w, err);
    swi_json_end(w);
    return status;
}

sw_status swi_signature_file_write(sw_signature_format format, const swi_key *key,
                                   const swi_buf *payload, swi_buf *out, sw_error *err)
{
    char hint[SWI_DIGEST_TEXT];
    swi_json_writer w;
    sw_status status = swi_key_hint(key, hint, err);
    if (status != SW_OK)
        return status;
    swi_json_start(&w, out, SWI_JSON_COMPACT);
    if (format == SW_SIGNATURE_OMS)
        status = write_bundle(&w, key, hint, payload, err);
    else
        status = swi_dsse_write(key, hint, SWI_SIGNATURE_PAYLOAD_TYPE, payload, &w, err);
    return status == SW_OK ? swi_json_finish(&w, err) : status;
}
