/*
 * Writing JSON into a buffer. The first failure (no memory, or a call out of order) stays in the
 * writer and makes the calls after it do nothing, so that a document is written straight down and
 * asked once, at its end.
 */
#ifndef SW_CODEC_JSON_WRITE_H
#define SW_CODEC_JSON_WRITE_H

#include "base/buf.h"
#include "base/error.h"

/* The deepest nesting that a writer takes; deeper is SW_ERR_LIMIT. */
#define SWI_JSON_WRITE_DEPTH 1024

typedef enum swi_json_style {
    SWI_JSON_COMPACT = 0,
    SWI_JSON_INDENT = 1, /* two spaces, one element a line: as Python's indent=2 */
    SWI_JSON_ASCII = 2   /* \uXXXX for all that is not ASCII: as Python's default */
} swi_json_style;

typedef struct swi_json_writer {
    swi_buf *out; /* borrowed; appended to */
    unsigned style;
    uint32_t depth;
    bool has_items;                              /* in the innermost container */
    bool has_key;                                /* a key waits for its value */
    bool is_done;                                /* the one value at the top is there */
    uint64_t objects[SWI_JSON_WRITE_DEPTH / 64]; /* bit d: the container at depth d + 1 is one */
    sw_error failure;
} swi_json_writer;

/* style: SWI_JSON_COMPACT, or INDENT and ASCII or'ed. */
void swi_json_start(swi_json_writer *w, swi_buf *out, unsigned style);
void swi_json_begin_object(swi_json_writer *w);
void swi_json_begin_array(swi_json_writer *w);
/* Ends the innermost container. */
void swi_json_end(swi_json_writer *w);
void swi_json_key(swi_json_writer *w, const char *text, size_t size);
void swi_json_key_str(swi_json_writer *w, const char *text);
/* Broken UTF-8 becomes U+FFFD. */
void swi_json_text(swi_json_writer *w, const char *text, size_t size);
void swi_json_str(swi_json_writer *w, const char *text);
void swi_json_int(swi_json_writer *w, int64_t v);
void swi_json_uint(swi_json_writer *w, uint64_t v);
void swi_json_bool(swi_json_writer *w, bool v);
void swi_json_null(swi_json_writer *w);
/* Text that reads back as the same double, in any locale; not finite: null. */
void swi_json_float(swi_json_writer *w, double v);
/* The first failure; SW_ERR_ARG when the document is not complete. `out` keeps what was written. */
SW_MUST_USE sw_status swi_json_finish(swi_json_writer *w, sw_error *err);

/* Appends "text" quoted and escaped; broken UTF-8 becomes U+FFFD. Unchanged on failure. */
SW_MUST_USE sw_status swi_json_quote(swi_buf *out, const char *text, size_t size, sw_error *err);

#endif
