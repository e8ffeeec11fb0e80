/*
 * A catalog built from a script of bytes: whatever is put in, what the freeze lets through can be
 * relied on. Kept pieces pass their check; a tensor without a defect is held whole; on small
 * tensors the counts are those of brute force; every operation on a kept piece keeps its elements.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "model/catalog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SMALL 4096

static void require(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

/* Mostly small numbers, so that seeds are text ('0' to '?' are 0 to 15); or any 64 bits. */
static int64_t number(swi_cursor *c)
{
    uint8_t byte = 0;
    uint64_t wide = 0;
    (void)swi_get_u8(c, &byte);
    if (byte < 240)
        return byte % 16;
    if (byte == 240)
        return -1;
    if (byte == 241)
        return INT64_MAX;
    if (byte == 242)
        return INT64_MIN;
    (void)swi_get_u64le(c, &wide);
    return (int64_t)(wide >> (byte % 8 * 8));
}

static void add_tensor(swi_builder *b, swi_cursor *c)
{
    int64_t shape[SW_MAX_AXES];
    char name[2];
    sw_error err;
    uint32_t id;
    swi_tensor_in in = {.name = name, .shape = shape};
    name[0] = (char)number(c);
    name[1] = (char)number(c);
    in.name_size = (size_t)(name[1] & 1) + 1;
    in.dtype = (sw_dtype)(number(c) & 31);
    in.axes = (uint32_t)(number(c) & 3);
    name[0] = (char)(name[0] + 'a');
    for (uint32_t k = 0; k < in.axes; k++)
        shape[k] = number(c);
    if (swi_builder_tensor(b, &in, &id, &err) != SW_OK)
        require(err.text[0] != 0, "an error without text");
}

static void add_piece(swi_builder *b, swi_cursor *c)
{
    swi_piece p = {0};
    sw_error err;
    p.blob = (uint32_t)number(c);
    p.axes = (uint32_t)(number(c) & 3);
    p.base_bytes = number(c);
    uint32_t tensor = (uint32_t)number(c);
    for (uint32_t k = 0; k < p.axes; k++) {
        p.view[k] = number(c);
        p.offset[k] = number(c);
        p.length[k] = number(c);
        p.stride_bytes[k] = number(c);
    }
    if (number(c) % 4 != 0)
        swi_piece_make_dense(&p, 4);
    if (swi_builder_piece(b, tensor, &p, &err) != SW_OK)
        require(err.status == SW_ERR_ARG || err.status == SW_ERR_LIMIT, "a piece is refused");
}

static void add_other(swi_builder *b, swi_cursor *c, uint8_t op)
{
    static const char *const paths[] = {"a", "b", "c", "d"};
    sw_error err;
    uint32_t id;
    uint32_t x = (uint32_t)number(c);
    swi_blob blob = {.ops = &swi_blob_slice, .file = x & 3};
    swi_value_in value = {.name = "v", .name_size = 1, .rank = number(c), .blob = x};
    switch (op) {
    case 0:
        (void)!swi_builder_file(b, paths[x & 3], (uint64_t)number(c) * 100, &id, &err);
        break;
    case 1:
        blob.offset_bytes = (uint64_t)number(c);
        blob.stored_bytes = (uint64_t)number(c) * 64;
        blob.bytes = blob.stored_bytes;
        (void)!swi_builder_blob(b, &blob, &id, &err);
        break;
    case 2:
        swi_builder_allow_replicas(b, x);
        break;
    case 3:
        swi_builder_alias(b, x, (uint32_t)number(c));
        break;
    default:
        (void)!swi_builder_value(b, &value, &err);
        break;
    }
}

static void count_held(const swi_piece *p, uint8_t *held)
{
    uint64_t n = 1;
    for (uint32_t k = 0; k < p->axes; k++)
        n *= (uint64_t)p->view[k];
    for (uint64_t f = 0; f < n; f++) {
        uint64_t rest = f;
        bool in = true;
        for (uint32_t k = p->axes; k-- > 0;) {
            int64_t at = (int64_t)(rest % (uint64_t)p->view[k]);
            rest /= (uint64_t)p->view[k];
            in = in && at >= p->offset[k] && at < p->offset[k] + p->length[k];
        }
        if (in && held[f] < 2)
            held[f]++;
    }
}

static void check_operations(const swi_piece *p, uint32_t unit, uint64_t elements, uint64_t blob)
{
    swi_piece out[SWI_INTERVAL_MAX];
    sw_error err;
    uint64_t whole = swi_piece_elements(p);
    uint64_t middle = swi_piece_first(p) + (swi_piece_end(p) - swi_piece_first(p)) / 3;
    uint64_t sum = 0;
    size_t n = swi_piece_in_interval(p, 0, middle, out);
    for (size_t i = 0; i < n; i++)
        sum += swi_piece_elements(&out[i]);
    n = swi_piece_in_interval(p, middle, UINT64_MAX, out);
    for (size_t i = 0; i < n; i++) {
        sum += swi_piece_elements(&out[i]);
        require(swi_piece_check(&out[i], elements, unit, blob, &err) == SW_OK, "interval");
    }
    require(sum == whole, "the parts of a piece are not the whole");
    for (uint32_t k = 0; k < p->axes; k++) {
        n = swi_piece_refine(p, k, 3, out);
        sum = 0;
        for (size_t i = 0; i < n; i++) {
            sum += swi_piece_elements(&out[i]);
            require(swi_piece_check(&out[i], elements, unit, blob, &err) == SW_OK, "refine");
        }
        require(n == 0 || sum == whole, "refine loses elements");
        if (swi_piece_crop(p, k, 1, p->view[k], &out[0]) &&
            swi_piece_embed(p, k, INT64_MAX, 1, out))
            require(swi_piece_elements(out) == whole, "embed");
    }
    out[0] = *p;
    swi_piece_simplify(out, unit);
    require(swi_piece_check(out, elements, unit, blob, &err) == SW_OK, "simplify");
    require(swi_piece_elements(out) == whole, "simplify loses elements");
}

static void check_tensor(const sw_catalog *c, uint32_t t)
{
    static uint8_t held[SMALL];
    sw_tensor_info info;
    sw_error err;
    require(sw_catalog_tensor(c, t, &info), "a tensor is there");
    require(sw_catalog_find(c, info.name) == t, "its name finds it");
    sw_status defect = swi_tensor_defect(c, t);
    bool small = info.elements <= SMALL;
    uint64_t first = 0;
    uint64_t count = 0;
    uint64_t twice = 0;
    require(info.held_elements <= info.elements, "no more than all is held");
    memset(held, 0, sizeof held);
    for (uint64_t i = 0; i < info.piece_count; i++) {
        swi_piece p;
        swi_blob blob;
        swi_tensor_piece(c, t, i, &p);
        swi_catalog_blob(c, p.blob, &blob);
        uint32_t unit = sw_dtype_bytes(info.dtype);
        require(swi_piece_check(&p, info.elements, unit, blob.bytes, &err) == SW_OK,
                "a kept piece is sound");
        require(swi_piece_first(&p) >= first, "ascending");
        first = swi_piece_first(&p);
        check_operations(&p, unit, info.elements, blob.bytes);
        if (small)
            count_held(&p, held);
    }
    for (uint64_t f = 0; small && f < info.elements; f++) {
        count += held[f] > 0;
        twice += held[f] > 1;
    }
    if (small)
        require(info.held_elements == count, "held elements are those of brute force");
    if (defect != SW_OK)
        return;
    require(info.held_elements == info.elements, "a tensor without a defect is whole");
    require(twice == 0 || swi_tensor_has_replicas(c, t), "and held once");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const sw_limits limits = {.tensors = 64, .pieces = 512, .files = 8};
    swi_cursor c = swi_cursor_make(data, size);
    swi_builder *b = NULL;
    sw_report *report = NULL;
    sw_catalog *catalog = NULL;
    sw_error err;
    uint8_t op;
    if (swi_builder_make(&limits, &b, &err) != SW_OK || sw_report_make(&report, &err) != SW_OK)
        goto done;
    while (swi_get_u8(&c, &op)) {
        op %= 16;
        if (op < 2)
            add_tensor(b, &c);
        else if (op < 11)
            add_piece(b, &c);
        else
            add_other(b, &c, (uint8_t)(op - 11));
    }
    sw_status status = swi_builder_freeze(b, report, &catalog, &err);
    b = NULL;
    if (status != SW_OK)
        goto done;
    for (size_t t = 0; t < sw_catalog_tensor_count(catalog); t++)
        check_tensor(catalog, (uint32_t)t);
done:
    swi_builder_free(b);
    sw_report_free(report);
    sw_catalog_free(catalog);
    return 0;
}
