/* Any bytes as the object of a torch.save file: what its shares say lies inside what they are of.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format/mem_reader.h"
#include "fuzz/archive.h"
#include "fuzz/hex.h"
#include "torch/torch.h"

#define NUMBERS_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Storages "0" of floats, "1" of the ranks 0 .. 7, "2" of the same in 64 bits. */
static sw_status build(swi_buf *out, const uint8_t *pickle, size_t size)
{
    swi_zip_writer *w;
    float floats[24] = {0};
    int32_t ranks[8];
    int64_t wide[8];
    for (int i = 0; i < 8; i++)
        wide[i] = ranks[i] = i;
    sw_status st = swi_zip_writer_make(64, &w, NULL);
    if (st != SW_OK)
        return st;
    st = archive_record(w, out, "a/data.pkl", pickle, size);
    if (st == SW_OK)
        st = archive_record(w, out, "a/data/0", floats, sizeof floats);
    if (st == SW_OK)
        st = archive_record(w, out, "a/data/1", ranks, sizeof ranks);
    if (st == SW_OK)
        st = archive_record(w, out, "a/data/2", wide, sizeof wide);
    if (st == SW_OK)
        st = archive_record(w, out, "a/version", "3", 1);
    if (st == SW_OK)
        st = swi_zip_writer_finish(w, out, NULL);
    swi_zip_writer_free(w);
    return st;
}

static void check_mesh(const swi_mesh *m)
{
    uint64_t count = 1;
    if (m->axes > SWI_MESH_AXES_MAX || m->count == 0 || m->rank < -1)
        __builtin_trap();
    for (uint32_t a = 0; a < m->axes; a++)
        count *= m->size[a];
    if (count != m->count)
        __builtin_trap();
    for (uint64_t i = 0; i < m->count && i < NUMBERS_MAX; i++)
        if (m->ranks[i] < 0 || swi_mesh_number(m, m->ranks[i]) != (int64_t)i)
            __builtin_trap();
}

static void check_box(const swi_share *s, const int64_t *offset, const int64_t *length)
{
    for (uint32_t k = 0; k < s->axes; k++)
        if (s->shape[k] < 0 || offset[k] < 0 || length[k] < 0 || offset[k] > s->shape[k] ||
            length[k] > s->shape[k] - offset[k])
            __builtin_trap();
}

static void check_placed(const swi_share *s, const swi_mesh *m)
{
    int64_t offset[SW_MAX_AXES], length[SW_MAX_AXES];
    sw_error err = {0};
    if (m == NULL || s->placements.axes != m->axes ||
        memcmp(s->placements.size, m->size, sizeof m->size) != 0 || s->rank != m->rank)
        __builtin_trap();
    for (uint32_t a = 0; a < m->axes; a++)
        if (s->placements.at[a].kind != SWI_REPLICATE && s->placements.at[a].dim >= s->axes)
            __builtin_trap();
    for (uint64_t i = 0; i < m->count && i < NUMBERS_MAX; i++)
        if (swi_placed_box(&s->placements, i, s->axes, s->shape, offset, length, &err) == SW_OK)
            check_box(s, offset, length);
}

static void check_object(const swi_torch_file *tf, const swi_torch_object *o)
{
    for (size_t i = 0; i < o->meshes.count; i++)
        check_mesh(&o->meshes.at[i]);
    for (uint32_t i = 0; i < o->tensor_count; i++) {
        const swi_share *s = swi_torch_share_of(o, i);
        const swi_torch_tensor *t = &o->tensors[i];
        if (t->elements > 0 && t->storage >= swi_torch_storage_count(tf))
            __builtin_trap();
        if (s == NULL)
            continue;
        if (s->axes > SW_MAX_AXES || s->rank < -1)
            __builtin_trap();
        if (s->kind == SWI_SHARE_PLACED)
            check_placed(s, swi_mesh_of(&o->meshes, s));
        else
            check_box(s, s->offset, s->length);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t count = size;
    uint8_t *bytes = bytes_of_hex(data, size, &count);
    swi_buf archive = {0};
    mem_reader m;
    swi_torch_file *tf = NULL;
    swi_torch_object object = {0};
    sw_error err = {0};
    sw_status st = build(&archive, bytes != NULL ? bytes : data, count);
    mem_reader_init(&m, archive.data, archive.size);
    m.pub.limits.metadata_bytes = 1 << 20;
    m.pub.limits.nodes = 1 << 16;
    if (st == SW_OK && swi_torch_open(&m.pub, 0, 0, archive.size, &tf, &err) == SW_OK &&
        swi_torch_object_make(tf, &m.pub, true, &object, &err) == SW_OK) {
        check_object(tf, &object);
        swi_torch_object_free(&object);
    }
    swi_torch_free(tf);
    mem_reader_end(&m);
    swi_buf_free(&archive);
    free(bytes);
    return 0;
}
