/*
 * The members of small JSON objects, read strictly: what is missing, unknown or of another kind is
 * SW_ERR_FORMAT and named ("the envelope: no member \"payload\"").
 */
#ifndef SW_CONTAINER_FIELDS_H
#define SW_CONTAINER_FIELDS_H

#include "codec/digest.h"
#include "model/value.h"

typedef struct swi_fields {
    const sw_value_graph *graph; /* borrowed */
    sw_value object;
    const char *what; /* how messages call it; borrowed */
} swi_fields;

/* The text is borrowed from the graph and not terminated. */
typedef struct swi_field_text {
    const char *data;
    size_t size;
} swi_field_text;

/* `known`: the names that members may have, NULL-terminated; NULL: any. */
SW_MUST_USE sw_status swi_fields_open(const sw_value_graph *graph, sw_value v, const char *what,
                                      const char *const *known, swi_fields *out, sw_error *err);
bool swi_fields_has(const swi_fields *f, const char *key);
SW_MUST_USE sw_status swi_fields_get(const swi_fields *f, const char *key, sw_value *out,
                                     sw_error *err);
SW_MUST_USE sw_status swi_fields_object(const swi_fields *f, const char *key, const char *what,
                                        const char *const *known, swi_fields *out, sw_error *err);
SW_MUST_USE sw_status swi_fields_list(const swi_fields *f, const char *key, sw_value *out,
                                      sw_error *err);
SW_MUST_USE sw_status swi_fields_text(const swi_fields *f, const char *key, swi_field_text *out,
                                      sw_error *err);
/* 64 lower-case hexadecimal digits. */
SW_MUST_USE sw_status swi_fields_digest(const swi_fields *f, const char *key, swi_digest *out,
                                        sw_error *err);
/* SW_ERR_UNSUPPORTED with both texts unless the member is exactly this one. */
SW_MUST_USE sw_status swi_fields_expect(const swi_fields *f, const char *key, const char *expected,
                                        sw_error *err);
bool swi_field_is(const swi_field_text *text, const char *expected);

#endif
