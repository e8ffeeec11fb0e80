/*
 * Writing torch.save files around storages whose bytes lie elsewhere: the zip form with the records
 * and the order of torch 2.13 (specs/torch_zip.md, TF-10), root "archive", and the form before 1.6
 * (specs/torch_legacy.md, TL-8). Both are a row of parts. Deterministic: the serialization id is
 * made of names and CRCs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "codec/crc32.h"
#include "container/torch_internal.h"
#include "model/piece.h"

#define ALIGNMENT 64u
/* Bytes that lie in one piece already are not copied to be joined with others. */
#define JOINED_MAX 4096u

typedef struct writing {
    const swi_torch_out *out;
    const uint32_t *crcs; /* of the storages; NULL: what depends on them is late */
    swi_torch_part_fn fn;
    void *ctx;
    swi_buf ready; /* of the part that is being made */
    /* of the zip form: */
    swi_zip_writer *zip;
    uint64_t names_hash, crcs_hash;
} writing;

void swi_torch_key(uint32_t storage, char out[SWI_TORCH_KEY_BYTES])
{
    (void)snprintf(out, SWI_TORCH_KEY_BYTES, "%" PRIu32, storage);
}

uint64_t swi_torch_out_storage_bytes(const swi_torch_out_storage *storage)
{
    return storage->elements * sw_dtype_bytes(storage->dtype);
}

/* ---- parts -------------------------------------------------------------------------------------
 */

static sw_status give(writing *w, swi_torch_part_kind kind, uint32_t number, const void *data,
                      uint64_t size, sw_error *err)
{
    const swi_torch_part part = {.kind = kind, .number = number, .data = data, .bytes = size};
    return size > 0 || kind == SWI_TORCH_PART_STORAGE ? w->fn(w->ctx, &part, err) : SW_OK;
}

static sw_status give_ready(writing *w, sw_error *err)
{
    sw_status st = give(w, SWI_TORCH_PART_BYTES, 0, w->ready.data, w->ready.size, err);
    w->ready.size = 0;
    return st;
}

/* What is ready depends on CRCs that are not known yet. */
static sw_status give_late(writing *w, uint32_t number, sw_error *err)
{
    if (w->crcs != NULL)
        return SW_OK;
    sw_status st = give(w, SWI_TORCH_PART_LATE, number, NULL, w->ready.size, err);
    w->ready.size = 0;
    return st;
}

static sw_status put_bytes(writing *w, const void *data, size_t size, sw_error *err)
{
    if (size <= JOINED_MAX && data != NULL)
        return swi_buf_append(&w->ready, data, size, err);
    sw_status st = give_ready(w, err);
    return st == SW_OK ? give(w, SWI_TORCH_PART_BYTES, 0, data, size, err) : st;
}

static sw_status put_storage(writing *w, uint32_t number, sw_error *err)
{
    sw_status st = give_ready(w, err);
    if (st != SW_OK)
        return st;
    return give(w, SWI_TORCH_PART_STORAGE, number, NULL,
                swi_torch_out_storage_bytes(&w->out->storages[number]), err);
}

/* ---- the zip form ------------------------------------------------------------------------------
 */

/* FNV-1a */
static uint64_t hash_bytes(uint64_t h, const void *data, size_t size)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < size; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static void count_record(writing *w, const char *name, uint32_t crc)
{
    w->names_hash = hash_bytes(w->names_hash, name, strlen(name));
    w->crcs_hash = hash_bytes(w->crcs_hash, &crc, sizeof crc);
}

static sw_status add_record(writing *w, const char *name, const void *data, size_t size,
                            uint32_t crc, sw_error *err)
{
    sw_status st = swi_zip_writer_begin(w->zip, name, size, &w->ready, err);
    if (st == SW_OK)
        st = put_bytes(w, data, size, err);
    if (st == SW_OK)
        st = swi_zip_writer_end(w->zip, crc, &w->ready, err);
    count_record(w, name, crc);
    return st;
}

static sw_status add_text(writing *w, const char *name, const char *text, sw_error *err)
{
    size_t size = strlen(text);
    return add_record(w, name, text, size, swi_crc32(0, text, size), err);
}

static sw_status add_storage(writing *w, uint32_t number, sw_error *err)
{
    char name[sizeof "archive/data/" + SWI_TORCH_KEY_BYTES] = "archive/data/";
    uint32_t crc = w->crcs != NULL ? w->crcs[number] : 0;
    swi_torch_key(number, name + strlen(name));
    sw_status st = swi_zip_writer_begin(
        w->zip, name, swi_torch_out_storage_bytes(&w->out->storages[number]), &w->ready, err);
    if (st == SW_OK)
        st = put_storage(w, number, err);
    if (st == SW_OK)
        st = swi_zip_writer_end(w->zip, crc, &w->ready, err);
    count_record(w, name, crc);
    return st == SW_OK ? give_late(w, number, err) : st;
}

static sw_status add_records(writing *w, sw_error *err)
{
    const swi_torch_out *o = w->out;
    sw_status st =
        add_record(w, "archive/data.pkl", o->object, o->object_size, o->object_crc32, err);
    if (st == SW_OK)
        st = add_text(w, "archive/.format_version", "1", err);
    if (st == SW_OK)
        st = add_text(w, "archive/.storage_alignment", "64", err);
    if (st == SW_OK)
        st = add_text(w, "archive/byteorder", "little", err);
    for (uint32_t i = 0; st == SW_OK && i < o->storage_count; i++)
        st = add_storage(w, i, err);
    if (st == SW_OK)
        st = add_text(w, "archive/version", "3\n", err);
    char serial[41];
    (void)snprintf(serial, sizeof serial, "%020" PRIu64 "%020" PRIu64, w->names_hash, w->crcs_hash);
    if (st == SW_OK)
        st = add_text(w, "archive/.data/serialization_id", serial, err);
    if (st == SW_OK)
        st = swi_zip_writer_finish(w->zip, &w->ready, err);
    return st;
}

static sw_status write_zip(writing *w, sw_error *err)
{
    w->names_hash = w->crcs_hash = 0xcbf29ce484222325u;
    sw_status st = swi_zip_writer_make(ALIGNMENT, &w->zip, err);
    if (st == SW_OK)
        st = add_records(w, err);
    if (st == SW_OK && w->out->storage_count > 0)
        st = give_late(w, w->out->storage_count, err);
    swi_zip_writer_free(w->zip);
    return st;
}

/* ---- the form before 1.6 -----------------------------------------------------------------------
 */

/* The magic number, the version 1001, and the system's facts: each a pickle. */
static const uint8_t legacy_head[] =
    "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
    "\x80\x02M\xe9\x03."
    "\x80\x02}(X\x10\x00\x00\x00protocol_versionM\xe9\x03X\x0d\x00\x00\x00little_endian\x88"
    "X\x0a\x00\x00\x00type_sizes}(X\x05\x00\x00\x00shortK\x02X\x03\x00\x00\x00intK\x04"
    "X\x04\x00\x00\x00longK\x04uu.";

static sw_status put_keys(writing *w, sw_error *err)
{
    swi_pickle_writer p;
    sw_status st = swi_pickle_begin(&p, &w->ready, 2, err);
    if (st == SW_OK)
        st = swi_buf_append_str(&w->ready, "](", err); /* EMPTY_LIST, MARK */
    for (uint32_t i = 0; st == SW_OK && i < w->out->storage_count; i++) {
        char key[SWI_TORCH_KEY_BYTES];
        swi_torch_key(i, key);
        st = swi_pickle_str(&p, key, strlen(key), err);
    }
    return st == SW_OK ? swi_buf_append_str(&w->ready, "e.", err) : st; /* APPENDS, STOP */
}

/* TL-6: the number of elements of the class, then the elements. */
static sw_status put_counted(writing *w, uint32_t number, sw_error *err)
{
    const swi_torch_out_storage *s = &w->out->storages[number];
    bool typed = swi_torch_class_of(s->dtype) != NULL;
    sw_status st =
        swi_buf_u64le(&w->ready, typed ? s->elements : swi_torch_out_storage_bytes(s), err);
    return st == SW_OK ? put_storage(w, number, err) : st;
}

static sw_status write_legacy(writing *w, sw_error *err)
{
    sw_status st = swi_buf_append(&w->ready, legacy_head, sizeof legacy_head - 1, err);
    if (st == SW_OK)
        st = put_bytes(w, w->out->object, w->out->object_size, err);
    if (st == SW_OK)
        st = put_keys(w, err);
    for (uint32_t i = 0; st == SW_OK && i < w->out->storage_count; i++)
        st = put_counted(w, i, err);
    return st;
}

/* ---- whole files -------------------------------------------------------------------------------
 */

sw_status swi_torch_write(const swi_torch_out *out, const uint32_t *crcs, swi_torch_part_fn fn,
                          void *ctx, sw_error *err)
{
    writing w = {.out = out, .crcs = crcs, .fn = fn, .ctx = ctx};
    sw_status st = out->form == SWI_TORCH_LEGACY ? write_legacy(&w, err) : write_zip(&w, err);
    if (st == SW_OK)
        st = give_ready(&w, err);
    swi_buf_free(&w.ready);
    return st;
}

/* What follows the last storage: its descriptor, then what the late part is. */
typedef struct tail {
    uint32_t storages_left;
    swi_buf bytes;
} tail;

static sw_status take_tail(void *ctx, const swi_torch_part *part, sw_error *err)
{
    tail *t = ctx;
    if (part->kind == SWI_TORCH_PART_STORAGE)
        t->storages_left--;
    else if (t->storages_left == 0)
        return swi_buf_append(&t->bytes, part->data, (size_t)part->bytes, err);
    return SW_OK;
}

sw_status swi_torch_write_late(const swi_torch_out *out, const uint32_t *crcs, uint32_t number,
                               uint8_t *to, size_t size, sw_error *err)
{
    tail t = {.storages_left = out->storage_count};
    sw_status st;
    if (number < out->storage_count)
        st = swi_zip_descriptor(swi_torch_out_storage_bytes(&out->storages[number]), crcs[number],
                                size, &t.bytes, err);
    else
        st = swi_torch_write(out, crcs, take_tail, &t, err);
    if (st == SW_OK && t.bytes.size < size)
        st = swi_fail(err, SW_ERR_ARG, "torch file: a late part has %zu bytes, not %zu",
                      t.bytes.size, size);
    if (st == SW_OK)
        memcpy(to, t.bytes.data + (t.bytes.size - size), size);
    swi_buf_free(&t.bytes);
    return st;
}
