/*
 * A strict subset of YAML 1.1 (specs/notation.md, NT-1): one document of mappings, sequences and
 * scalars on one line. What can make a document mean more than it shows is refused by name, with
 * line and column: anchors, aliases, tags, directives, merge keys, duplicate keys, keys that are no
 * scalars, block scalars, escapes. Scalars are text; what they mean is the reader's.
 *
 * A document is immutable, may be shared by threads, and owns all that is borrowed from it.
 */
#ifndef SW_CODEC_YAML_H
#define SW_CODEC_YAML_H

#include "base/error.h"

#define SWI_YAML_MAX_BYTES (1U << 20)
#define SWI_YAML_MAX_DEPTH 32U
#define SWI_YAML_MAX_NODES (1U << 16)

typedef enum swi_yaml_kind { SWI_YAML_SCALAR, SWI_YAML_SEQUENCE, SWI_YAML_MAPPING } swi_yaml_kind;

typedef struct swi_yaml swi_yaml;
/* A place in a document. {0} is no node: what find returns for an absent key. */
typedef struct swi_yaml_node {
    uint32_t id;
} swi_yaml_node;

/*
 * `file` is for messages: "FILE:LINE:COLUMN: ...". Errors: FORMAT (broken YAML, a duplicate key, no
 * UTF-8), UNSUPPORTED (a refused feature), LIMIT (bytes, depth, nodes; limits->depth and ->nodes
 * count where they are smaller than the maxima above). An empty document is FORMAT.
 */
SW_MUST_USE sw_status swi_yaml_parse(const void *data, size_t size, const char *file,
                                     const sw_limits *limits, swi_yaml **out, sw_error *err);
void swi_yaml_free(swi_yaml *doc);

swi_yaml_node swi_yaml_root(const swi_yaml *doc);
bool swi_yaml_is_node(swi_yaml_node node);
swi_yaml_kind swi_yaml_kind_of(const swi_yaml *doc, swi_yaml_node node);
/* Of a SCALAR: valid UTF-8, terminated, no NUL inside; *size may be NULL. Else "". */
const char *swi_yaml_text(const swi_yaml *doc, swi_yaml_node node, size_t *size);
/* The scalar stood in quotes: "2" is text where 2 is a number. */
bool swi_yaml_is_quoted(const swi_yaml *doc, swi_yaml_node node);
/* Items of a SEQUENCE, pairs of a MAPPING; 0 for a SCALAR. */
size_t swi_yaml_count(const swi_yaml *doc, swi_yaml_node node);
/* i < count, of a SEQUENCE. */
swi_yaml_node swi_yaml_item(const swi_yaml *doc, swi_yaml_node node, size_t i);
/* i < count, of a MAPPING; in the order of the file. Keys are scalars. */
void swi_yaml_pair(const swi_yaml *doc, swi_yaml_node node, size_t i, swi_yaml_node *key,
                   swi_yaml_node *value);
/* The value of this key of a MAPPING, or no node. Linear. */
swi_yaml_node swi_yaml_find(const swi_yaml *doc, swi_yaml_node mapping, const char *key);
/* Where the node begins, from 1; columns count characters. */
size_t swi_yaml_line(const swi_yaml *doc, swi_yaml_node node);
size_t swi_yaml_column(const swi_yaml *doc, swi_yaml_node node);
const char *swi_yaml_file(const swi_yaml *doc);

/* ---- errors with a place ------------------------------------------------------------------ */

/* "FILE:LINE:COLUMN: FMT [CLAUSE]" with the node's offset; clause may be NULL. */
sw_status swi_yaml_fail(const swi_yaml *doc, swi_yaml_node node, sw_error *err, sw_status status,
                        const char *clause, const char *fmt, ...) SW_PRINTF(6, 7);
/*
 * Puts the place before an error that tells of the text of a scalar: its offset, if it has one,
 * counts from the first byte of that text (as the parsers of expressions, patterns and
 * rearrangements give it) and becomes line, column and offset in the file. Returns `status`, which
 * may be SW_OK:
 *     status = swi_yaml_fail_inside(doc, node, swi_expr_compile(text, size, &expr, err), err);
 */
sw_status swi_yaml_fail_inside(const swi_yaml *doc, swi_yaml_node node, sw_status status,
                               sw_error *err);

/* ---- what readers of a notation ask for: failures are SW_ERR_FORMAT at the place --------------
 */

/* Fails with "WHAT must be a mapping, is a list". */
SW_MUST_USE sw_status swi_yaml_expect(const swi_yaml *doc, swi_yaml_node node, swi_yaml_kind kind,
                                      const char *what, sw_error *err);
/*
 * `node` is a mapping and has only keys of this NULL-terminated list; else at the wrong key:
 * unknown key "spit" in WHAT; did you mean "split"? known: dim, split.
 */
SW_MUST_USE sw_status swi_yaml_known_keys(const swi_yaml *doc, swi_yaml_node node, const char *what,
                                          const char *const *known, sw_error *err);
/* The value of a key that must be there: at the mapping, WHAT lacks the key "KEY". */
SW_MUST_USE sw_status swi_yaml_require(const swi_yaml *doc, swi_yaml_node mapping, const char *what,
                                       const char *key, swi_yaml_node *out, sw_error *err);
/*
 * The text of a key's value, which must be a scalar and not be empty without quotes; NULL when the
 * key is absent. *node (may be NULL) is the value's.
 */
SW_MUST_USE sw_status swi_yaml_get_text(const swi_yaml *doc, swi_yaml_node mapping, const char *key,
                                        const char **out, swi_yaml_node *node, sw_error *err);
/* true or false, unquoted; *out as it was when the key is absent. */
SW_MUST_USE sw_status swi_yaml_get_bool(const swi_yaml *doc, swi_yaml_node mapping, const char *key,
                                        bool *out, sw_error *err);
/* A decimal number, unquoted; *out as it was when the key is absent. */
SW_MUST_USE sw_status swi_yaml_get_uint(const swi_yaml *doc, swi_yaml_node mapping, const char *key,
                                        uint64_t *out, sw_error *err);
/* The same of a node, which `what` names. */
SW_MUST_USE sw_status swi_yaml_uint(const swi_yaml *doc, swi_yaml_node node, const char *what,
                                    uint64_t *out, sw_error *err);
/* Scalars, borrowed from the document. */
typedef struct swi_yaml_list {
    const swi_yaml_node *items;
    size_t count;
} swi_yaml_list;
/*
 * The list of scalars that is a key's value; a single scalar is a list of one. {0} when the key is
 * absent, never empty otherwise.
 */
SW_MUST_USE sw_status swi_yaml_get_list(const swi_yaml *doc, swi_yaml_node mapping, const char *key,
                                        swi_yaml_list *out, sw_error *err);

#endif
