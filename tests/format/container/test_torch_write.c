/* Files of torch.save around storages whose bytes lie elsewhere; TF-10, TL-8, ZIP-20 to ZIP-22. */
#include "harness/harness.h"

#include <string.h>

#include "codec/crc32.h"
#include "container/torch_file.h"
#include "format/mem_reader.h"
#include "model/value.h"

#define STORAGES 4
#define GIB (UINT64_C(1) << 30)

/* A file of bytes, storages and late parts as they came, put together. */
typedef struct assembled {
    const swi_torch_out *out;
    const uint8_t *const *data; /* of the storages; NULL: zeros, left out */
    swi_buf bytes;              /* all but those */
    uint64_t at;
    uint64_t storage_at[STORAGES];
    size_t before[STORAGES]; /* of `bytes`, where they are left out */
    uint64_t late_at[STORAGES + 1];
    size_t late_bytes[STORAGES + 1], lates;
    mem_reader reader;
} assembled;

static sw_status take(void *ctx, const swi_torch_part *part, sw_error *err)
{
    static const uint8_t zeros[4096];
    assembled *a = ctx;
    const void *data = part->data;
    uint64_t at = a->at;
    a->at += part->bytes;
    if (part->kind == SWI_TORCH_PART_STORAGE) {
        a->storage_at[part->number] = at;
        a->before[part->number] = a->bytes.size;
        data = a->data != NULL ? a->data[part->number] : NULL;
    } else if (part->kind == SWI_TORCH_PART_LATE) {
        assert_true(part->number <= a->out->storage_count && part->bytes <= sizeof zeros);
        a->late_at[part->number] = at;
        a->late_bytes[part->number] = (size_t)part->bytes;
        a->lates++;
        data = zeros;
    }
    if (data == NULL || part->bytes == 0)
        return SW_OK;
    return swi_buf_append(&a->bytes, data, (size_t)part->bytes, err);
}

static void assemble(assembled *a, const swi_torch_out *out, const uint8_t *const *data,
                     const uint32_t *crcs)
{
    sw_error err = {0};
    *a = (assembled){.out = out, .data = data};
    assert_ok(swi_torch_write(out, crcs, take, a, &err), &err);
}

static void write_lates(assembled *a, const uint32_t *crcs)
{
    sw_error err = {0};
    swi_torch_out out = *a->out;
    out.object = NULL; /* is not needed any more */
    for (uint32_t i = 0; i <= out.storage_count; i++)
        if (a->late_bytes[i] > 0)
            assert_ok(swi_torch_write_late(&out, crcs, i, a->bytes.data + a->late_at[i],
                                           a->late_bytes[i], &err),
                      &err);
}

static const swi_torch_out_storage storages[STORAGES] = {
    {SW_F32, 6}, {SW_I64, 0}, {SW_U16, 5}, {SW_BF16, 3}};
static const uint8_t floats[24] = {1, 2, 3}, shorts[10] = {4, 5}, brains[6] = {6, 7};
static const uint8_t *const data[STORAGES] = {floats, floats, shorts, brains};

/* A tuple of the storages as tensors. */
static void make_object(swi_buf *object, swi_torch_out *out, bool remembers)
{
    swi_torch_emitter e = {.form = out->form, .remembers = remembers};
    swi_pickle_writer w;
    sw_error err = {0};
    assert_ok(swi_pickle_begin(&w, object, 2, &err), &err);
    assert_ok(swi_pickle_op(&w, '(', &err), &err);
    for (uint32_t i = 0; i < out->storage_count; i++) {
        const swi_torch_out_storage *s = &out->storages[i];
        const int64_t shape[] = {(int64_t)s->elements}, stride[] = {1};
        const swi_torch_out_tensor t = {.dtype = s->dtype,
                                        .storage = i,
                                        .storage_elements = s->elements,
                                        .axes = 1,
                                        .shape = shape,
                                        .stride_elements = stride};
        assert_ok(swi_torch_emit(&e, &w, &t, &err), &err);
    }
    assert_ok(swi_pickle_op(&w, 't', &err), &err);
    assert_ok(swi_pickle_op(&w, '.', &err), &err);
    out->object = object->data;
    out->object_size = object->size;
    out->object_crc32 = swi_crc32(0, object->data, object->size);
}

static void check_object(const swi_torch_file *tf, const swi_torch_out *out,
                         const uint64_t *storage_at)
{
    const sw_value_graph *g = swi_torch_graph(tf);
    assert_int_equal(swi_torch_storage_count(tf), out->storage_count);
    for (uint32_t i = 0; i < out->storage_count; i++) {
        sw_value v;
        sw_error err = {0};
        swi_torch_tensor t;
        char key[SWI_TORCH_KEY_BYTES];
        const swi_torch_storage *s = swi_torch_storage_at(tf, i);
        assert_true(sw_value_item(g, swi_torch_root(tf), i, &v));
        assert_ok(swi_torch_get_tensor(tf, v, &t, &err), &err);
        assert_int_equal(t.storage, i);
        assert_int_equal(t.dtype, out->storages[i].dtype);
        assert_int_equal(t.elements, out->storages[i].elements);
        swi_torch_key(i, key);
        assert_string_equal(s->key, key);
        assert_int_equal(s->offset_bytes, storage_at[i]);
        assert_int_equal(s->bytes, swi_torch_out_storage_bytes(&out->storages[i]));
    }
}

static void sums(uint32_t crcs[STORAGES])
{
    for (size_t i = 0; i < STORAGES; i++)
        crcs[i] = swi_crc32(0, data[i], (size_t)swi_torch_out_storage_bytes(&storages[i]));
}

static void late_parts_are_what_they_would_have_been(void **state)
{
    (void)state;
    uint32_t crcs[STORAGES];
    swi_buf object = {0};
    swi_torch_out out = {.form = SWI_TORCH_ZIP, .storages = storages, .storage_count = STORAGES};
    assembled known, late;
    swi_torch_file *tf;
    sw_error err = {0};
    sums(crcs);
    make_object(&object, &out, true);
    assemble(&known, &out, data, crcs);
    assert_int_equal(known.lates, 0);
    assemble(&late, &out, data, NULL);
    assert_int_equal(late.lates, 4); /* behind an empty storage there is nothing */
    assert_int_equal(late.late_bytes[0], 16);
    assert_int_equal(late.late_bytes[1], 0);
    assert_int_equal(late.at, known.at);
    assert_memory_not_equal(late.bytes.data, known.bytes.data, known.bytes.size);
    write_lates(&late, crcs);
    assert_memory_equal(late.bytes.data, known.bytes.data, known.bytes.size);
    for (size_t i = 0; i < STORAGES; i++)
        assert_int_equal(late.storage_at[i] % 64, 0);
    mem_reader_init(&late.reader, late.bytes.data, late.bytes.size);
    assert_ok(swi_torch_open_file(&late.reader.pub, 0, late.bytes.size, NULL, &tf, &err), &err);
    check_object(tf, &out, late.storage_at);
    for (size_t i = 0; i < STORAGES; i++)
        assert_int_equal(swi_torch_storage_at(tf, i)->crc32, crcs[i]);
    swi_torch_free(tf);
    mem_reader_end(&late.reader);
    swi_buf_free(&late.bytes);
    swi_buf_free(&known.bytes);
    swi_buf_free(&object);
}

static void late_parts_have_their_size(void **state)
{
    (void)state;
    static const uint8_t object[] = {0x80, 2, 'N', '.'};
    uint32_t crcs[STORAGES] = {0};
    uint8_t room[4096];
    sw_error err = {0};
    const swi_torch_out out = {.form = SWI_TORCH_ZIP,
                               .object = object,
                               .object_size = sizeof object,
                               .storages = storages,
                               .storage_count = STORAGES};
    (void)!swi_torch_write_late(&out, crcs, 0, room, 17, &err);
    assert_error(&err, SW_ERR_ARG, "no descriptor has 17 bytes");
    (void)!swi_torch_write_late(&out, crcs, STORAGES, room, sizeof room, &err);
    assert_error(&err, SW_ERR_ARG, "not 4096");
}

/* Names that come up again are in the memo: the object is the same, and shorter. */
static void names_are_remembered(void **state)
{
    (void)state;
    swi_buf once = {0}, again = {0};
    swi_torch_out out = {.form = SWI_TORCH_ZIP, .storages = storages, .storage_count = STORAGES};
    assembled a;
    swi_torch_file *tf;
    sw_error err = {0};
    make_object(&again, &out, false);
    make_object(&once, &out, true);
    assert_true(once.size < again.size);
    assert_null(memmem(again.data, again.size, "q\0", 2));
    uint32_t crcs[STORAGES];
    sums(crcs);
    assemble(&a, &out, data, crcs);
    mem_reader_init(&a.reader, a.bytes.data, a.bytes.size);
    assert_ok(swi_torch_open_file(&a.reader.pub, 0, a.bytes.size, NULL, &tf, &err), &err);
    check_object(tf, &out, a.storage_at);
    swi_torch_free(tf);
    mem_reader_end(&a.reader);
    swi_buf_free(&a.bytes);
    swi_buf_free(&once);
    swi_buf_free(&again);
}

static void the_form_before_1_6(void **state)
{
    (void)state;
    /* untyped storages have no place there that torch could load */
    static const swi_torch_out_storage typed[] = {{SW_F32, 6}, {SW_I64, 0}, {SW_BF16, 3}};
    static const uint8_t *const bytes[] = {floats, floats, brains};
    swi_buf object = {0};
    swi_torch_out out = {.form = SWI_TORCH_LEGACY, .storages = typed, .storage_count = 3};
    assembled a;
    swi_torch_file *tf;
    sw_error err = {0};
    make_object(&object, &out, true);
    assemble(&a, &out, bytes, NULL);
    assert_int_equal(a.lates, 0);
    assert_int_equal(a.at, a.bytes.size);
    assert_int_equal(swi_torch_looks(a.bytes.data, a.bytes.size), SWI_TORCH_LEGACY);
    mem_reader_init(&a.reader, a.bytes.data, a.bytes.size);
    assert_ok(swi_torch_open_file(&a.reader.pub, 0, a.bytes.size, NULL, &tf, &err), &err);
    assert_true(swi_torch_is_legacy(tf));
    check_object(tf, &out, a.storage_at);
    assert_int_equal(swi_torch_end_bytes(tf), a.bytes.size);
    swi_torch_free(tf);
    mem_reader_end(&a.reader);
    swi_buf_free(&a.bytes);
    swi_buf_free(&object);
}

/* The bytes around three storages, which are zeros. */
static void read_in_runs(assembled *a)
{
    mem_reader_init(&a->reader, a->bytes.data, a->before[0]);
    a->reader.bytes = a->at;
    for (size_t i = 0; i < 3; i++) {
        size_t end = i < 2 ? a->before[i + 1] : a->bytes.size;
        a->reader.runs[i + 1].pos =
            a->storage_at[i] + swi_torch_out_storage_bytes(&a->out->storages[i]);
        a->reader.runs[i + 1].data = a->bytes.data + a->before[i];
        a->reader.runs[i + 1].size = end - a->before[i];
    }
}

/* Sizes and places of 4 GiB and more: zip64, in headers, descriptors and directory. */
static void large_storages(void **state)
{
    (void)state;
    static const swi_torch_out_storage large[] = {{SW_F32, 10}, {SW_U8, 5 * GIB}, {SW_F64, 3}};
    static const uint32_t crcs[] = {1, 2, 3};
    swi_buf object = {0};
    swi_torch_out out = {.form = SWI_TORCH_ZIP, .storages = large, .storage_count = 3};
    assembled a;
    swi_torch_file *tf;
    sw_error err = {0};
    make_object(&object, &out, true);
    assemble(&a, &out, NULL, NULL);
    assert_int_equal(a.late_bytes[0], 16);
    assert_int_equal(a.late_bytes[1], 24);
    assert_int_equal(a.late_bytes[2], 24); /* for its place */
    uint64_t bytes = a.at;
    swi_buf_free(&a.bytes);
    assemble(&a, &out, NULL, crcs);
    assert_int_equal(a.at, bytes);
    assert_true(a.at > 5 * GIB);
    read_in_runs(&a);
    assert_ok(swi_torch_open_file(&a.reader.pub, 0, a.at, NULL, &tf, &err), &err);
    check_object(tf, &out, a.storage_at);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(a.storage_at[i] % 64, 0);
        assert_int_equal(swi_torch_storage_at(tf, i)->crc32, crcs[i]);
    }
    swi_torch_free(tf);
    mem_reader_end(&a.reader);
    swi_buf_free(&a.bytes);
    swi_buf_free(&object);
}

/* ---- storages that values carry ---------------------------------------------------------------
 */

/* All of it by value: class, elements, bytes of every storage met, calls and order. */
static char *text_of(const sw_value_graph *g, sw_value v)
{
    char *text = NULL;
    sw_error err = {0};
    assert_ok(sw_value_text(g, v, 4096, &text, &err), &err);
    return text;
}

static sw_status carry(assembled *a, uint64_t most, sw_value_graph **g, sw_value *root,
                       sw_error *err)
{
    swi_torch_file *tf;
    mem_reader_init(&a->reader, a->bytes.data, a->bytes.size);
    assert_ok(swi_torch_open_file(&a->reader.pub, 0, a->bytes.size, NULL, &tf, err), err);
    assert_ok(swi_graph_make(&a->reader.pub.limits, g, err), err);
    swi_torch_carrier carrier = {0};
    assert_ok(swi_torch_carry_begin(&carrier, tf, &a->reader.pub, most, err), err);
    sw_status st = swi_graph_copy(*g, swi_torch_graph(tf), swi_torch_root(tf), swi_torch_carry_map,
                                  &carrier, root, err);
    swi_torch_carry_end(&carrier);
    swi_torch_free(tf);
    mem_reader_end(&a->reader);
    return st;
}

static void values_carry_storages(void **state)
{
    (void)state;
    uint32_t crcs[STORAGES];
    swi_buf object = {0}, item = {0};
    swi_torch_out out = {.form = SWI_TORCH_ZIP, .storages = storages, .storage_count = STORAGES};
    assembled a;
    sw_value_graph *g, *h;
    sw_value root, again;
    swi_torch_carried c;
    sw_error err = {0};
    sums(crcs);
    make_object(&object, &out, true);
    assemble(&a, &out, data, crcs);
    assert_ok(carry(&a, 40, &g, &root, &err), &err);
    char *text = text_of(g, root);
    assert_non_null(strstr(text, "torch.FloatStorage, \"\", \"cpu\", 6, b\"\\x01\\x02\\x03"));
    assert_non_null(strstr(text, "UntypedStorage, \"\", \"cpu\", 10, b\"\\x04\\x05"));
    /* written and read again it is the same */
    assert_ok(swi_torch_write_graph(&item, g, root, &err), &err);
    assembled b = {.bytes = item};
    assert_ok(carry(&b, 40, &h, &again, &err), &err);
    char *other = text_of(h, again);
    assert_string_equal(text, other);
    sw_value call;
    sw_value_object o;
    assert_true(sw_value_item(h, again, 2, &call) && sw_value_get_object(h, call, &o));
    assert_true(sw_value_item(h, o.args, 0, &call) && swi_torch_carried_storage(h, call, &c));
    assert_true(c.untyped);
    assert_int_equal(c.is.dtype, SW_U8);
    assert_int_equal(c.is.elements, 10);
    assert_memory_equal(c.data, shorts, 10);
    sw_value_graph_free(h);
    sw_value_graph_free(g);
    free(other);
    free(text);
    /* too many bytes: the first is as it was, and not to be written */
    assert_ok(carry(&a, 39, &g, &root, &err), &err);
    text = text_of(g, root);
    assert_non_null(strstr(text, "torch.FloatStorage, \"0\", \"cpu\", 6)"));
    size_t before = item.size;
    (void)!swi_torch_write_graph(&item, g, root, &err);
    assert_error(&err, SW_ERR_UNSUPPORTED, "whose bytes are not at hand");
    assert_int_equal(item.size, before);
    sw_value_graph_free(g);
    free(text);
    /* another byte than was saved */
    a.bytes.data[a.storage_at[3]] ^= 1;
    assert_int_equal(carry(&a, 40, &g, &root, &err), SW_ERR_CORRUPT);
    assert_error(&err, SW_ERR_CORRUPT, "storage 3 has CRC-32");
    assert_int_equal(err.offset_bytes, a.storage_at[3]);
    sw_value_graph_free(g);
    swi_buf_free(&item);
    swi_buf_free(&a.bytes);
    swi_buf_free(&object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_parts_are_what_they_would_have_been),
        cmocka_unit_test(late_parts_have_their_size),
        cmocka_unit_test(names_are_remembered),
        cmocka_unit_test(the_form_before_1_6),
        cmocka_unit_test(large_storages),
        cmocka_unit_test(values_carry_storages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
