/* The one way to write a JSON document (NAT-5), so that one content has one text. */
#ifndef SW_CODEC_JSON_CANON_H
#define SW_CODEC_JSON_CANON_H

#include "base/error.h"

/*
 * Whether the text is canonical, whatever members it has: keys ascending by byte and distinct, no
 * white space, integers from 0 to 2^63 - 1 and no other numbers, strings as swi_json_text writes
 * them, one line feed at the end. SW_ERR_FORMAT with the position of the first byte that differs.
 */
SW_MUST_USE sw_status swi_json_check_canonical(const void *data, size_t size,
                                               const sw_limits *limits, sw_error *err);

#endif
