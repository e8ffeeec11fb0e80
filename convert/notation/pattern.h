/*
 * Patterns of tensor names (specs/notation.md, NT-3): "layers.{n}.w{1,3,2}.weight".
 *
 *     {n}         a variable: a whole number without leading zeros, never part of a longer one
 *     {q,k,v}     parts: alternatives whose position counts (at most one such group)
 *     (a|b)       alternatives whose position does not count; (a)? or (a|b)? may be absent
 *     *  **       any text without a dot; any text
 *     \x          the character x itself
 *
 * Immutable; may be shared by threads. Errors (FORMAT, LIMIT) have in offset_bytes the place inside
 * the text, for swi_yaml_fail_inside.
 */
#ifndef SW_CONVERT_NOTATION_PATTERN_H
#define SW_CONVERT_NOTATION_PATTERN_H

#include "base/buf.h"
#include "base/error.h"

#define SWI_PATTERN_MAX_BYTES 512U
#define SWI_PATTERN_MAX_TOKENS 32U
#define SWI_PATTERN_MAX_VARS 4U
#define SWI_PATTERN_MAX_NAME 2048U /* a longer name matches no pattern */

typedef struct swi_pattern swi_pattern;
/* The text is copied. */
SW_MUST_USE sw_status swi_pattern_parse(const char *text, size_t size, swi_pattern **out,
                                        sw_error *err);
void swi_pattern_free(swi_pattern *pattern);
const char *swi_pattern_text(const swi_pattern *pattern);

/* What the variables and the parts of a pattern stand for in a name. */
typedef struct swi_bindings {
    struct {
        const char *name; /* of the variable; borrowed from a pattern, or the caller's */
        uint64_t value;   /* < 10^18 */
    } items[SWI_PATTERN_MAX_VARS];
    size_t count;
    uint32_t part; /* 0 where the pattern has no parts */
} swi_bindings;

/*
 * The name is one of the pattern's. *out (may be NULL) as well as it can be told: earlier groups
 * take the first alternative that lets the rest match. Time: bytes of the name x bytes of the
 * pattern, whatever they are.
 */
bool swi_pattern_match(const swi_pattern *pattern, const char *name, size_t size,
                       swi_bindings *out);
/*
 * The name that these values and this part make, appended to `out`. The pattern must be invertible
 * and `bindings` have all its variables and a part that it has (others are ignored): else
 * SW_ERR_ARG.
 */
SW_MUST_USE sw_status swi_pattern_instantiate(const swi_pattern *pattern,
                                              const swi_bindings *bindings, swi_buf *out,
                                              sw_error *err);
/* It has no *, **, (...): bindings and names belong together one to one. */
bool swi_pattern_is_invertible(const swi_pattern *pattern);
/* No group, variable or star: one name, which is *name (terminated; borrowed). */
bool swi_pattern_is_name(const swi_pattern *pattern, const char **name);

size_t swi_pattern_var_count(const swi_pattern *pattern);
/* In the order of the text. *offset_bytes (may be NULL): the name's place in the text. */
const char *swi_pattern_var(const swi_pattern *pattern, size_t i, size_t *offset_bytes);
bool swi_pattern_has_var(const swi_pattern *pattern, const char *name);
/* Alternatives of the group of parts, at least 2; 1 when there is none. */
uint32_t swi_pattern_part_count(const swi_pattern *pattern);
/* "q" of {q,k,v}; "" when there is no such group. part < part_count. */
const char *swi_pattern_part(const swi_pattern *pattern, uint32_t part);

/*
 * *out: whether some name matches both. Never false where there is one; variables count as any
 * digits there, so that a number with leading zeros beside a star may make it true where there is
 * none. *witness (may be NULL): such a name, appended, without a terminator. SW_ERR_NOMEM only.
 */
SW_MUST_USE sw_status swi_pattern_overlap(const swi_pattern *a, const swi_pattern *b, bool *out,
                                          swi_buf *witness, sw_error *err);

#endif
