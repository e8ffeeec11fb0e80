/* The YAML reader: whatever is taken can be walked, has valid texts, and errors inside texts stay
 * inside the file. First byte: limits. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"
#include "codec/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        __builtin_trap();
}

static void check_scalar(const swi_yaml *doc, swi_yaml_node node, size_t file_size)
{
    size_t size;
    const char *text = swi_yaml_text(doc, node, &size);
    check(strlen(text) == size && swi_utf8_valid(text, size));
    for (size_t offset = 0; offset <= size; offset += size / 3 + 1) {
        sw_error err = {0};
        sw_status status = swi_fail_at(&err, SW_ERR_FORMAT, "NT-1.1", offset, "x");
        check(swi_yaml_fail_inside(doc, node, status, &err) == SW_ERR_FORMAT);
        check(err.offset_bytes <= file_size);
    }
}

static void check_mapping(const swi_yaml *doc, swi_yaml_node node)
{
    for (size_t i = 0; i < swi_yaml_count(doc, node) && i < 64; i++) {
        swi_yaml_node key, value;
        swi_yaml_pair(doc, node, i, &key, &value);
        check(swi_yaml_kind_of(doc, key) == SWI_YAML_SCALAR);
        check(swi_yaml_find(doc, node, swi_yaml_text(doc, key, NULL)).id == value.id);
        sw_error err = {0};
        swi_yaml_list list = {0};
        bool truth = false;
        uint64_t number = 0;
        const char *name = swi_yaml_text(doc, key, NULL);
        if (swi_yaml_get_list(doc, node, name, &list, &err) == SW_OK)
            check(list.count > 0);
        (void)!swi_yaml_get_bool(doc, node, name, &truth, &err);
        (void)!swi_yaml_get_uint(doc, node, name, &number, &err);
    }
    static const char *const known[] = {"from", "to", NULL};
    sw_error err = {0};
    if (swi_yaml_known_keys(doc, node, "it", known, &err) != SW_OK)
        check(err.status == SW_ERR_FORMAT || err.status == SW_ERR_NOMEM);
}

/* Nodes have the numbers 1 to their count in the order of the file; the root's subtree is all. */
static void walk(const swi_yaml *doc, size_t file_size)
{
    uint32_t last = swi_yaml_root(doc).id;
    for (uint32_t id = swi_yaml_root(doc).id; id <= last; id++) {
        const swi_yaml_node node = {.id = id};
        check(swi_yaml_line(doc, node) > 0 && swi_yaml_column(doc, node) > 0);
        size_t count = swi_yaml_count(doc, node);
        switch (swi_yaml_kind_of(doc, node)) {
        case SWI_YAML_SCALAR:
            check_scalar(doc, node, file_size);
            break;
        case SWI_YAML_SEQUENCE:
            if (count > 0 && swi_yaml_item(doc, node, count - 1).id > last)
                last = swi_yaml_item(doc, node, count - 1).id;
            break;
        case SWI_YAML_MAPPING:
            check_mapping(doc, node);
            if (count > 0) {
                swi_yaml_node key, value;
                swi_yaml_pair(doc, node, count - 1, &key, &value);
                last = value.id > last ? value.id : last;
            }
            break;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const sw_limits limits = {.depth = data[0] & 7, .nodes = data[0] >> 3};
    swi_yaml *doc = NULL;
    sw_error err = {0};
    sw_status status = swi_yaml_parse(data + 1, size - 1, "f", &limits, &doc, &err);
    if (status == SW_OK)
        walk(doc, size - 1);
    else if (status != SW_ERR_NOMEM)
        check(err.has_offset && err.offset_bytes < size && strncmp(err.text, "f:", 2) == 0);
    swi_yaml_free(doc);
    return 0;
}
