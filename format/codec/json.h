/*
 * JSON. Two ways: small documents of our own or of configuration become a value graph (jansson
 * behind it, duplicates rejected); large hostile ones (safetensors headers of up to 100 MB) pass as
 * events in bounded memory. Strict RFC 8259, UTF-8, no comments, no duplicates.
 */
#ifndef SW_CODEC_JSON_H
#define SW_CODEC_JSON_H

#include "base/buf.h"
#include "model/value.h"

typedef enum swi_json_kind {
    SWI_JSON_OBJECT_BEGIN,
    SWI_JSON_OBJECT_END,
    SWI_JSON_ARRAY_BEGIN,
    SWI_JSON_ARRAY_END,
    SWI_JSON_KEY,
    SWI_JSON_STRING,
    SWI_JSON_INT,   /* fits int64_t */
    SWI_JSON_FLOAT, /* any other number */
    SWI_JSON_TRUE,
    SWI_JSON_FALSE,
    SWI_JSON_NULL,
    SWI_JSON_DONE /* end of the document, only white space behind it */
} swi_json_kind;

typedef struct swi_json_event {
    swi_json_kind kind;
    const char *text; /* KEY, STRING: decoded UTF-8, not terminated, valid until the next call */
    size_t size;
    int64_t integer;
    double number;
    size_t offset_bytes; /* of the token in the document */
} swi_json_event;

typedef struct swi_json_reader swi_json_reader;
/* The document is borrowed. Depth over limits->depth is SW_ERR_LIMIT. */
SW_MUST_USE sw_status swi_json_reader_make(const void *data, size_t size, const sw_limits *limits,
                                           swi_json_reader **out, sw_error *err);
void swi_json_reader_free(swi_json_reader *reader);
/* SW_ERR_FORMAT with the position of the first wrong byte. Duplicate keys are the caller's. */
SW_MUST_USE sw_status swi_json_next(swi_json_reader *reader, swi_json_event *event, sw_error *err);
/* Skips the value that comes next (after a KEY), whatever it is. */
SW_MUST_USE sw_status swi_json_skip(swi_json_reader *reader, sw_error *err);

/* A whole document as a value graph: objects as DICT, arrays as LIST. Duplicates: SW_ERR_FORMAT. */
SW_MUST_USE sw_status swi_json_parse(const void *data, size_t size, const sw_limits *limits,
                                     sw_value_graph **graph, sw_value *root, sw_error *err);

/* Appends "text" quoted and escaped; broken UTF-8 becomes U+FFFD. */
SW_MUST_USE sw_status swi_json_quote(swi_buf *out, const char *text, size_t size, sw_error *err);

#endif
