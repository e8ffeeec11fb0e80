/* Building small catalogs of float32 tensors and looking at what the freeze found. */
#ifndef FORMAT_MODEL_KIT_H
#define FORMAT_MODEL_KIT_H

#include "harness/harness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/catalog.h"

typedef struct kit {
    swi_builder *b;
    sw_report *report;
    sw_catalog *c;
    uint32_t file;
} kit;

static inline kit start(uint64_t file_bytes)
{
    kit k = {0};
    sw_error err = {0};
    assert_ok(swi_builder_make(NULL, &k.b, &err), &err);
    assert_ok(sw_report_make(&k.report, &err), &err);
    assert_ok(swi_builder_file(k.b, "a.distcp", file_bytes, &k.file, &err), &err);
    return k;
}

static inline uint32_t add_tensor(kit *k, const char *name, uint32_t axes, const int64_t *shape)
{
    sw_error err = {0};
    uint32_t id = 0;
    swi_tensor_in in = {name, strlen(name), SW_F32, axes, shape, SW_ROLE_PARAMETER};
    assert_ok(swi_builder_tensor(k->b, &in, &id, &err), &err);
    return id;
}

static inline uint32_t add_blob(kit *k, uint64_t offset, uint64_t bytes)
{
    sw_error err = {0};
    uint32_t id = 0;
    swi_blob blob = {.ops = &swi_blob_slice,
                     .file = k->file,
                     .aux = 5,
                     .offset_bytes = offset,
                     .stored_bytes = bytes,
                     .bytes = bytes};
    assert_ok(swi_builder_blob(k->b, &blob, &id, &err), &err);
    return id;
}

static inline void add_piece(kit *k, uint32_t tensor, const swi_piece *piece)
{
    sw_error err = {0};
    assert_ok(swi_builder_piece(k->b, tensor, piece, &err), &err);
}

/* A dense box of float32 in a blob of its own. */
static inline void add_box(kit *k, uint32_t tensor, uint32_t axes, const int64_t *view,
                           const int64_t *offset, const int64_t *length)
{
    swi_piece p = {.axes = axes};
    uint64_t n = 1;
    for (uint32_t i = 0; i < axes; i++) {
        p.view[i] = view[i];
        p.offset[i] = offset[i];
        p.length[i] = length[i];
        n *= (uint64_t)length[i];
    }
    swi_piece_make_dense(&p, 4);
    p.blob = add_blob(k, 0, 4 * n);
    add_piece(k, tensor, &p);
}

static inline void finish(kit *k)
{
    sw_error err = {0};
    assert_ok(swi_builder_freeze(k->b, k->report, &k->c, &err), &err);
    k->b = NULL;
}

static inline void end(kit *k)
{
    swi_builder_free(k->b);
    sw_report_free(k->report);
    sw_catalog_free(k->c);
}

static inline void expect_finding(const kit *k, size_t i, const char *code, sw_status status,
                                  const char *tensor, const char *part)
{
    const sw_finding *f = sw_report_at(k->report, i);
    assert_non_null(f);
    assert_string_equal(f->code, code);
    assert_int_equal(f->status, status);
    assert_int_equal(f->severity, SW_DEFECT);
    assert_string_equal(f->tensor, tensor);
    assert_contains(f->message, part);
}

static inline sw_tensor_info info_of(const kit *k, uint32_t tensor)
{
    sw_tensor_info info;
    assert_true(sw_catalog_tensor(k->c, tensor, &info));
    return info;
}

#endif
