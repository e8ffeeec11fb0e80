/* Archives of one tensor or one value, as DCP stores its items. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "codec/crc32.h"
#include "container/torch_internal.h"
#include "model/piece.h"

/* Bytes of a dense tensor; SW_ERR_ARG when there can be none such. */
static sw_status tensor_bytes(const swi_torch_around *in, swi_torch_out_storage *out,
                              uint64_t *bytes, sw_error *err)
{
    out->dtype = in->dtype;
    if (in->axes > SW_MAX_AXES || !swi_shape_elements(in->axes, in->shape, &out->elements) ||
        !swi_mul_u64(out->elements, sw_dtype_bytes(in->dtype), bytes) ||
        *bytes > (uint64_t)INT64_MAX)
        return swi_fail(err, SW_ERR_ARG, "torch file: a tensor of that shape cannot be");
    if (swi_torch_dtype_name(in->dtype) == NULL)
        return swi_fail(err, SW_ERR_UNSUPPORTED, "torch file: no dtype %s",
                        sw_dtype_name(in->dtype));
    return SW_OK;
}

static sw_status emit_dense(swi_buf *object, const swi_torch_around *in, uint64_t elements,
                            sw_error *err)
{
    int64_t stride[SW_MAX_AXES], run = 1;
    for (uint32_t k = in->axes; k-- > 0;) {
        stride[k] = run;
        run *= in->shape[k] > 0 ? in->shape[k] : 1;
    }
    swi_torch_emitter emitter = {.form = SWI_TORCH_ZIP};
    const swi_torch_out_tensor tensor = {.dtype = in->dtype,
                                         .storage_elements = elements,
                                         .axes = in->axes,
                                         .shape = in->shape,
                                         .stride_elements = stride};
    swi_pickle_writer w;
    sw_status st = swi_pickle_begin(&w, object, 2, err);
    if (st == SW_OK)
        st = swi_torch_emit(&emitter, &w, &tensor, err);
    return st == SW_OK ? swi_pickle_op(&w, '.', err) : st;
}

/* Where the parts go. */
typedef struct collecting {
    swi_buf *to, *behind;    /* behind: what follows a storage */
    const void *const *data; /* of the storages; NULL: it lies elsewhere */
} collecting;

static sw_status collect(void *ctx, const swi_torch_part *part, sw_error *err)
{
    collecting *c = ctx;
    const void *data = part->data;
    if (part->kind == SWI_TORCH_PART_STORAGE) {
        data = c->data[part->number];
        c->to = c->behind;
    }
    return data != NULL ? swi_buf_append(c->to, data, (size_t)part->bytes, err) : SW_OK;
}

static sw_status write_archive(swi_torch_out *out, const swi_buf *object, const uint32_t *crcs,
                               collecting *to, sw_error *err)
{
    swi_buf *head = to->to, *tail = to->behind;
    size_t before = head->size, before_tail = tail->size;
    out->form = SWI_TORCH_ZIP;
    out->object = object->data;
    out->object_size = object->size;
    out->object_crc32 = swi_crc32(0, object->data, object->size);
    sw_status st = swi_torch_write(out, crcs, collect, to, err);
    if (st != SW_OK) {
        tail->size = before_tail;
        head->size = before;
    }
    return st;
}

static sw_status write_around(const swi_torch_around *in, const void *data, swi_buf *head,
                              swi_buf *tail, sw_error *err)
{
    swi_buf object = {0};
    swi_torch_out_storage storage;
    swi_torch_out out = {.storages = &storage, .storage_count = 1};
    collecting to = {.to = head, .behind = tail, .data = &data};
    uint32_t crc = in->crc32;
    uint64_t bytes = 0;
    sw_status st = tensor_bytes(in, &storage, &bytes, err);
    if (st == SW_OK && data != NULL)
        crc = swi_crc32(0, data, (size_t)bytes);
    if (st == SW_OK)
        st = emit_dense(&object, in, storage.elements, err);
    if (st == SW_OK)
        st = write_archive(&out, &object, &crc, &to, err);
    swi_buf_free(&object);
    return st;
}

sw_status swi_torch_write_tensor(swi_buf *out, sw_dtype dtype, uint32_t axes, const int64_t *shape,
                                 const void *data, sw_error *err)
{
    const swi_torch_around in = {.dtype = dtype, .axes = axes, .shape = shape};
    return write_around(&in, data, out, out, err);
}

sw_status swi_torch_write_around(swi_buf *head, swi_buf *tail, const swi_torch_around *in,
                                 sw_error *err)
{
    return write_around(in, NULL, head, tail, err);
}

sw_status swi_torch_write_value(swi_buf *out, swi_emit_fn emit, void *ctx, sw_error *err)
{
    swi_buf object = {0};
    swi_torch_out archive = {0};
    collecting to = {.to = out, .behind = out};
    swi_pickle_writer w;
    sw_status st = swi_pickle_begin(&w, &object, 2, err);
    if (st == SW_OK)
        st = emit(ctx, &w, err);
    if (st == SW_OK)
        st = swi_pickle_op(&w, '.', err);
    if (st == SW_OK)
        st = write_archive(&archive, &object, NULL, &to, err);
    swi_buf_free(&object);
    return st;
}

/* ---- values with storages ----------------------------------------------------------------------
 */

typedef struct carried {
    swi_torch_emitter emitter;
    swi_torch_out_storage *storages;
    const void **data;
    uint32_t *crcs;
    size_t count, storage_capacity, data_capacity, crc_capacity;
} carried;

static sw_status add_storage(carried *c, const swi_torch_carried *s, sw_error *err)
{
    size_t i = c->count;
    sw_status st = swi_grow_array((void **)&c->storages, &c->storage_capacity, i + 1,
                                  sizeof *c->storages, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&c->data, &c->data_capacity, i + 1, sizeof *c->data, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&c->crcs, &c->crc_capacity, i + 1, sizeof *c->crcs, err);
    if (st != SW_OK)
        return st;
    c->storages[i] = s->is;
    c->data[i] = s->data;
    c->crcs[i] = swi_crc32(0, s->data, (size_t)swi_torch_out_storage_bytes(&s->is));
    c->count++;
    return SW_OK;
}

/* Each node is asked for once, and each is a storage of its own. */
static sw_status emit_storage(void *ctx, swi_pickle_writer *w, const sw_value_graph *graph,
                              sw_value v, sw_error *err)
{
    carried *c = ctx;
    swi_torch_carried s;
    if (!swi_torch_carried_storage(graph, v, &s))
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "holds a tensor whose bytes are not at hand here; --drop leaves it out");
    uint32_t number = (uint32_t)c->count;
    sw_status st = add_storage(c, &s, err);
    return st == SW_OK ? swi_torch_emit_carried(&c->emitter, w, &s, number, err) : st;
}

sw_status swi_torch_write_graph(swi_buf *out, const sw_value_graph *graph, sw_value v,
                                sw_error *err)
{
    carried c = {.emitter = {.form = SWI_TORCH_ZIP}};
    swi_buf object = {0};
    swi_pickle_writer w;
    sw_status st = swi_pickle_begin(&w, &object, 2, err);
    if (st == SW_OK)
        st = swi_pickle_emit(&w, graph, v, emit_storage, &c, err);
    if (st == SW_OK)
        st = swi_pickle_op(&w, '.', err);
    if (st == SW_OK) {
        swi_torch_out archive = {.storages = c.storages, .storage_count = (uint32_t)c.count};
        collecting to = {.to = out, .behind = out, .data = c.data};
        st = write_archive(&archive, &object, c.crcs, &to, err);
    }
    swi_buf_free(&object);
    free(c.storages);
    free(c.data);
    free(c.crcs);
    return st;
}
