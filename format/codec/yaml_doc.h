/* The inside of a YAML document, shared by yaml.c (makes it) and yaml_doc.c (reads it). */
#ifndef SW_CODEC_YAML_DOC_H
#define SW_CODEC_YAML_DOC_H

#include "base/arena.h"
#include "codec/yaml.h"

typedef enum swi_yaml_style {
    SWI_YAML_PLAIN,
    SWI_YAML_SINGLE_QUOTED,
    SWI_YAML_DOUBLE_QUOTED
} swi_yaml_style;

typedef struct swi_yaml_place {
    size_t offset_bytes;
    size_t line, column; /* from 1 */
} swi_yaml_place;

typedef struct swi_yaml_entry {
    swi_yaml_kind kind;
    swi_yaml_style style; /* of a SCALAR */
    swi_yaml_place place;
    size_t size; /* bytes of text, items, pairs */
    union {
        const char *text;           /* terminated */
        const swi_yaml_node *items; /* of a MAPPING: key, value, key, value ... */
    };
} swi_yaml_entry;

struct swi_yaml {
    swi_arena arena;  /* the texts and items */
    const char *file; /* escaped */
    const char *source;
    swi_yaml_entry *entries; /* node id - 1 */
    size_t count, capacity;
    swi_yaml_node root;
};

/* swi_yaml_get_list without its checks: items of any kind, perhaps none. */
swi_yaml_list swi_yaml_list_of(const swi_yaml *doc, swi_yaml_node mapping, const char *key);

/* The same as swi_yaml_fail, for a place without a node. */
sw_status swi_yaml_fail_place(const swi_yaml *doc, const swi_yaml_place *place, sw_error *err,
                              sw_status status, const char *clause, const char *fmt, ...)
    SW_PRINTF(6, 7);

#endif
