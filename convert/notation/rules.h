/*
 * Layouts as they are written (specs/notation.md, LAY-1 to LAY-7 and LAY-9): rules that say which
 * elements of each tensor every rank of a mesh holds. Immutable; may be shared by threads. Errors
 * of reading have FILE:LINE:COLUMN and a next step: FORMAT, UNSUPPORTED, LIMIT.
 */
#ifndef SW_CONVERT_NOTATION_RULES_H
#define SW_CONVERT_NOTATION_RULES_H

#include "base/buf.h"
#include "base/report.h"
#include "codec/yaml.h"
#include "notation/pattern.h"

#define SWI_RULES_MAX 1024U
#define SWI_RULE_PARTS_MAX 64U

typedef struct swi_rules swi_rules;

/* A layout inside another document (the side of a map), which must outlive the rules. */
SW_MUST_USE sw_status swi_rules_parse(const swi_yaml *doc, swi_yaml_node node, swi_rules **out,
                                      sw_error *err);
/* A document of its own, which must say `layout: 1`. `file` is its name in messages. */
SW_MUST_USE sw_status swi_rules_parse_text(const void *data, size_t size, const char *file,
                                           const sw_limits *limits, swi_rules **out, sw_error *err);
/* The same from the file at this local path. */
SW_MUST_USE sw_status swi_rules_read(const char *path, const sw_limits *limits, swi_rules **out,
                                     sw_error *err);
void swi_rules_free(swi_rules *rules);
/* 0: it says nothing of tensors, and no division can be made of it. */
size_t swi_rules_count(const swi_rules *rules);
/* LAY-9: patterns of the names of the modules that are wrapped; *count 0: it says nothing of them.
 */
swi_pattern *const *swi_rules_units(const swi_rules *rules, size_t *count);
/* The first pattern of a rule. */
const char *swi_rules_pattern(const swi_rules *rules, size_t rule);
/* "dims: [tp>dp, _]", "flat: dp": appended, without a terminator. */
SW_MUST_USE sw_status swi_rules_show(const swi_rules *rules, size_t rule, swi_buf *out,
                                     sw_error *err);
/* LAY-7: whether a mesh of it has this axis. */
bool swi_rules_has_axis(const swi_rules *rules, const char *axis);
/* Whether an expression in it uses this name of the scope: for the linter of maps. */
bool swi_rules_uses(const swi_rules *rules, const char *name);
/* LAY-6: a warning "unused-rule" for each rule whose used[] is false. */
SW_MUST_USE sw_status swi_rules_say_unused(const swi_rules *rules, const bool *used,
                                           sw_report *report, sw_error *err);

#endif
