#include "target/st_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/report.h"
#include "base/text.h"

bool swi_parse_size(const char *text, size_t size, uint64_t *out)
{
    uint64_t n = 0, unit = 1;
    size_t i = 0;
    for (; i < size && text[i] >= '0' && text[i] <= '9'; i++) {
        if (!swi_mul_u64(n, 10, &n) || !swi_add_u64(n, (uint64_t)(text[i] - '0'), &n))
            return false;
    }
    if (i == 0)
        return false;
    if (i < size) {
        char c = (char)(text[i] | 0x20);
        unit = c == 'k' ? 1000 : c == 'm' ? 1000000 : c == 'g' ? 1000000000 : 0;
        i++;
        if (i < size && (text[i] | 0x20) == 'b')
            i++;
    }
    return unit != 0 && i == size && swi_mul_u64(n, unit, out) && *out > 0;
}

sw_status swi_lay_bytes(swi_layout *layout, const char *path, const void *data, size_t size,
                        sw_error *err)
{
    uint32_t file;
    sw_status st = swi_layout_file(layout, path, size, &file, err);
    if (st == SW_OK && size > 0)
        st = swi_layout_literal(layout, file, 0, data, size, err);
    return st;
}

sw_status swi_st_file_check_dtypes(const swi_target_in *in, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(in->source);
    uint64_t count = 0;
    sw_tensor_info info, first = {0};
    for (size_t i = 0; i < in->count; i++) {
        const swi_chosen *c = &in->chosen[i];
        swi_quoted q;
        if (swi_st_dtype_name(c->dtype) != NULL)
            continue;
        sw_catalog_tensor(catalog, c->source, &info);
        if (count++ == 0)
            first = info;
        swi_finding_in finding = {.severity = SW_WARNING,
                                  .status = SW_ERR_UNSUPPORTED,
                                  .code = "dtype-not-held",
                                  .tensor = info.name};
        sw_status st = swi_report_add(in->report, &finding, err,
                                      "safetensors cannot hold %s; leave it out with --drop \"%s\"",
                                      sw_dtype_name(c->dtype), swi_quote_str(&q, c->name));
        if (st != SW_OK)
            return st;
    }
    if (count == 0)
        return SW_OK;
    swi_quoted q;
    return swi_fail_at(err, SW_ERR_UNSUPPORTED, "HF-4", 0,
                       "tensor \"%s\" is %s, which safetensors cannot hold (%" PRIu64
                       " such tensors; all are listed); leave them out with --drop",
                       swi_quote_str(&q, first.name), sw_dtype_name(first.dtype), count);
}

/* ---- a file ------------------------------------------------------------------------------------
 */

typedef struct order_key {
    int rank;
    const char *name;
    swi_st_tensor *tensor;
} order_key;

static int by_alignment(const void *a, const void *b)
{
    const order_key *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank > y->rank ? -1 : 1;
    return strcmp(x->name, y->name);
}

static sw_status count_bytes(const swi_st_file *in, uint64_t *total, sw_error *err)
{
    *total = 0;
    for (size_t i = 0; i < in->count; i++) {
        swi_st_tensor *t = &in->tensors[i];
        uint64_t elements;
        if (!swi_shape_elements(t->axes, t->shape, &elements) ||
            !swi_mul_u64(elements, sw_dtype_bytes(t->dtype), &t->bytes) ||
            !swi_add_u64(*total, t->bytes, total) || *total > (uint64_t)INT64_MAX)
            return swi_fail(err, SW_ERR_LIMIT, "a file would be too large");
    }
    return SW_OK;
}

static sw_status lay_header(swi_layout *layout, const swi_st_file *in, swi_st_tensor *heads,
                            uint64_t bytes, uint32_t *file, sw_error *err)
{
    swi_buf header = {0};
    sw_status st = swi_st_write_header(&header, heads, in->count, in->metadata, in->pairs, err);
    if (st == SW_OK)
        st = swi_layout_file(layout, in->path, header.size + bytes, file, err);
    if (st == SW_OK)
        st = swi_layout_literal(layout, *file, 0, header.data, header.size, err);
    swi_buf_free(&header);
    return st;
}

sw_status swi_st_file_lay(swi_layout *layout, const swi_st_file *in, uint32_t *file, sw_error *err)
{
    order_key *keys = NULL;
    swi_st_tensor *heads = NULL;
    uint64_t bytes;
    sw_status st = count_bytes(in, &bytes, err);
    if (st == SW_OK)
        st = swi_alloc_array(in->count, sizeof *keys, (void **)&keys, err);
    if (st == SW_OK)
        st = swi_alloc_array(in->count, sizeof *heads, (void **)&heads, err);
    if (st != SW_OK)
        goto done;
    for (size_t i = 0; i < in->count; i++) {
        swi_st_tensor *t = &in->tensors[i];
        keys[i] = (order_key){swi_st_dtype_rank(t->dtype), t->name, t};
    }
    if (in->count > 1)
        qsort(keys, in->count, sizeof *keys, by_alignment);
    for (size_t i = 0; i < in->count; i++)
        heads[i] = *keys[i].tensor;
    st = lay_header(layout, in, heads, bytes, file, err);
    for (size_t i = 0; st == SW_OK && i < in->count; i++)
        keys[i].tensor->offset_bytes = heads[i].offset_bytes;
done:
    free(heads);
    free(keys);
    return st;
}
