/*
 * JSON, read by one parser of our own. Large hostile documents (safetensors headers of 100 MB,
 * indexes of a million names) pass as events in bounded memory; small ones become a value graph.
 * Strict RFC 8259: valid UTF-8 only, no comments, no trailing commas, no lone surrogates. Messages
 * carry the position of the first wrong byte in offset_bytes, counted from the document's start.
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
    SWI_JSON_FLOAT, /* any other number; one that is too large for a double is refused */
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
/* Takes NaN, Infinity and -Infinity as FLOAT too: Python writes them, in configurations for one. */
void swi_json_allow_nonfinite(swi_json_reader *reader);
/*
 * SW_ERR_FORMAT with the position of the first wrong byte; after a failure only freeing is left.
 * Duplicate keys are the caller's. DONE again after DONE.
 */
SW_MUST_USE sw_status swi_json_next(swi_json_reader *reader, swi_json_event *event, sw_error *err);
/* Skips the value that comes next (after a KEY), whatever it is. */
SW_MUST_USE sw_status swi_json_skip(swi_json_reader *reader, sw_error *err);
/* Skips the rest of the value whose first event was this one; nothing for a scalar. */
SW_MUST_USE sw_status swi_json_skip_rest(swi_json_reader *reader, const swi_json_event *first,
                                         sw_error *err);
/* "an object", "a string" ...: for messages. */
const char *swi_json_kind_name(swi_json_kind kind);

/*
 * A whole document as a value graph: objects as DICT, arrays as LIST, what Python's json writes
 * (NaN and Infinity too). Duplicate keys: SW_ERR_FORMAT at the second one.
 */
SW_MUST_USE sw_status swi_json_parse(const void *data, size_t size, const sw_limits *limits,
                                     sw_value_graph **graph, sw_value *root, sw_error *err);

#endif
