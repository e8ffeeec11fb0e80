#include "native/table.h"

#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/text.h"
#include "base/together.h"
#include "model/piece.h"
#include "native/manifest.h"

#define CLAUSE "NAT-8"
#define HEAD_BYTES 32
#define MAGIC "SWTABLE1"
#define FLAG_DIGEST 1U
#define RANGE 8192  /* of tensors, for threads */
#define COUNTED 128 /* bytes counted at a time, below 256 */

/* The codes of types are those of sw_dtype: a new one needs a place in the specification first. */
_Static_assert(SW_BOOL == 1 && SW_U64 == 8 && SW_F16 == 10 && SW_C32 == 14 && SW_F8_E4M3FN == 17 &&
                   SW_F4_E2M1FN_X2 == 22 && SW_BITS16 == 24 && SW_DTYPE_COUNT == 25,
               "type codes of NAT-8");
_Static_assert(SW_ROLE_OTHER == 0 && SW_ROLE_PARAMETER == 1 && SW_ROLE_OPTIMIZER == 2,
               "role codes of NAT-8");

/* ---- where the arrays lie ------------------------------------------------------------------ */

enum { NAME_END, SHAPE_END, LAYOUT, DTYPE, ROLE, FLAGS, SHAPES, DIGESTS, NAMES, ARRAYS };

typedef struct array {
    uint64_t at, bytes;
} array;

/* All below 2^39, as every count is below 2^32. Returns the bytes of the file. */
static uint64_t place_arrays(uint64_t count, uint64_t shape_numbers, uint64_t name_bytes,
                             array arrays[ARRAYS])
{
    const uint64_t bytes[ARRAYS] = {
        [NAME_END] = 4 * count,
        [SHAPE_END] = 4 * count,
        [LAYOUT] = 4 * count,
        [DTYPE] = count,
        [ROLE] = count,
        [FLAGS] = count,
        [SHAPES] = 8 * shape_numbers,
        [DIGESTS] = SWI_DIGEST_BYTES * count,
        [NAMES] = name_bytes,
    };
    uint64_t at = HEAD_BYTES;
    for (int i = 0; i < ARRAYS; i++) {
        at = (at + 7) / 8 * 8;
        arrays[i] = (array){.at = at, .bytes = bytes[i]};
        at += bytes[i];
    }
    return at;
}

/* ---- writing ------------------------------------------------------------------------------- */

static sw_status check_tensor(const swi_native_tensor *t, sw_error *err)
{
    swi_quoted q;
    uint64_t elements, bytes;
    if (!swi_utf8_valid(t->name, t->name_size) ||
        (t->name_size > 0 && memchr(t->name, 0, t->name_size) != NULL))
        return swi_fail(err, SW_ERR_ARG, "%s: tensor \"%s\": the name is not text in UTF-8",
                        SWI_NATIVE_TABLE, swi_quote(&q, t->name, t->name_size));
    if (sw_dtype_bytes(t->dtype) == 0 || t->axes > SW_MAX_AXES ||
        (unsigned)t->role > SW_ROLE_OPTIMIZER ||
        !swi_shape_elements(t->axes, t->shape, &elements) ||
        !swi_mul_u64(elements, sw_dtype_bytes(t->dtype), &bytes) || bytes > INT64_MAX)
        return swi_fail(err, SW_ERR_ARG,
                        "%s: tensor \"%s\": its type, role or shape is none that a table can hold",
                        SWI_NATIVE_TABLE, swi_quote(&q, t->name, t->name_size));
    return SW_OK;
}

static sw_status check_all(const swi_native_tensor *tensors, uint32_t count,
                           uint64_t *shape_numbers, uint64_t *name_bytes, sw_error *err)
{
    swi_quoted q;
    for (uint32_t i = 0; i < count; i++) {
        const swi_native_tensor *t = &tensors[i];
        sw_status status = check_tensor(t, err);
        if (status != SW_OK)
            return status;
        if (i > 0 && swi_bytes_order(t[-1].name, t[-1].name_size, t->name, t->name_size) >= 0)
            return swi_fail(err, SW_ERR_ARG, "%s: tensor \"%s\" is not behind the one before it",
                            SWI_NATIVE_TABLE, swi_quote(&q, t->name, t->name_size));
        *shape_numbers += t->axes;
        *name_bytes += t->name_size + 1;
    }
    if (*shape_numbers > UINT32_MAX || *name_bytes > UINT32_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "%s: more than 4 GiB of names or 2^32 shape numbers",
                        SWI_NATIVE_TABLE);
    return SW_OK;
}

static void put(uint8_t *to, uint64_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static void put_head(uint8_t *to, uint64_t count, uint64_t shape_numbers, uint64_t name_bytes)
{
    memcpy(to, MAGIC, 8);
    put(to + 8, count, 4);
    put(to + 12, shape_numbers, 4);
    put(to + 16, name_bytes, 8);
}

/* Into zeros. */
static void put_tensors(const swi_native_tensor *tensors, uint32_t count,
                        const array arrays[ARRAYS], uint8_t *to)
{
    uint64_t name_end = 0, shape_end = 0;
    for (uint32_t i = 0; i < count; i++) {
        const swi_native_tensor *t = &tensors[i];
        if (t->name_size > 0)
            memcpy(to + arrays[NAMES].at + name_end, t->name, t->name_size);
        for (uint32_t k = 0; k < t->axes; k++)
            put(to + arrays[SHAPES].at + 8 * (shape_end + k), (uint64_t)t->shape[k], 8);
        name_end += t->name_size + 1; /* with the 0 that is there */
        shape_end += t->axes;
        put(to + arrays[NAME_END].at + 4 * (size_t)i, name_end, 4);
        put(to + arrays[SHAPE_END].at + 4 * (size_t)i, shape_end, 4);
        put(to + arrays[LAYOUT].at + 4 * (size_t)i, t->layout, 4);
        to[arrays[DTYPE].at + i] = (uint8_t)t->dtype;
        to[arrays[ROLE].at + i] = (uint8_t)t->role;
        if (!t->has_digest)
            continue;
        to[arrays[FLAGS].at + i] = FLAG_DIGEST;
        memcpy(to + arrays[DIGESTS].at + SWI_DIGEST_BYTES * (size_t)i, t->digest.bytes,
               SWI_DIGEST_BYTES);
    }
}

sw_status swi_native_table_write(const swi_native_tensor *tensors, uint32_t count, swi_buf *out,
                                 sw_error *err)
{
    uint64_t shape_numbers = 0, name_bytes = 0;
    array arrays[ARRAYS];
    size_t start = out->size, size;
    sw_status status = check_all(tensors, count, &shape_numbers, &name_bytes, err);
    if (status != SW_OK)
        return status;
    if (!swi_u64_to_size(place_arrays(count, shape_numbers, name_bytes, arrays), &size))
        return swi_fail_nomem(err);
    status = swi_buf_fill(out, 0, size, err);
    if (status != SW_OK)
        return status;
    put_head(out->data + start, count, shape_numbers, name_bytes);
    put_tensors(tensors, count, arrays, out->data + start);
    return SW_OK;
}

/* ---- reading ------------------------------------------------------------------------------- */

typedef struct check {
    swi_native_table table;
    size_t size;
    uint32_t layouts;
    array arrays[ARRAYS];
} check;

/* Of tensors. */
typedef struct range {
    uint32_t from, to;
} range;

static sw_status wrong(uint64_t offset, const char *what, sw_error *err)
{
    return swi_fail_at(err, SW_ERR_CORRUPT, CLAUSE, offset, "%s: %s", SWI_NATIVE_TABLE, what);
}

static sw_status wrong_tensor(const check *c, uint32_t i, uint64_t offset, const char *what,
                              sw_error *err)
{
    return swi_fail_at(err, SW_ERR_CORRUPT, CLAUSE, offset,
                       "%s: tensor %" PRIu32 " of %" PRIu32 ": %s", SWI_NATIVE_TABLE, i,
                       c->table.count, what);
}

static uint32_t end_at(const uint8_t *ends, uint32_t i)
{
    return swi_load_u32le(ends + 4 * (size_t)i);
}

static uint32_t start_at(const uint8_t *ends, uint32_t i)
{
    return i > 0 ? end_at(ends, i - 1) : 0;
}

static sw_status check_zeros(const check *c, uint64_t from, uint64_t to, sw_error *err)
{
    for (uint64_t at = from; at < to; at++)
        if (c->table.data[at] != 0)
            return wrong(at, "a byte that must be zero is not", err);
    return SW_OK;
}

static sw_status read_head(check *c, sw_error *err)
{
    swi_native_table *t = &c->table;
    if (c->size < HEAD_BYTES || memcmp(t->data, MAGIC, 8) != 0)
        return wrong(0, "does not begin with a head of " MAGIC, err);
    t->count = swi_load_u32le(t->data + 8);
    t->shape_numbers = swi_load_u32le(t->data + 12);
    t->name_bytes = swi_load_u64le(t->data + 16);
    if (t->name_bytes > UINT32_MAX)
        return wrong(16, "more than 4 GiB of names", err);
    uint64_t need = place_arrays(t->count, t->shape_numbers, t->name_bytes, c->arrays);
    if (need != c->size)
        return swi_fail_at(err, SW_ERR_CORRUPT, CLAUSE, 8,
                           "%s: %" PRIu32 " tensors, %" PRIu32 " shape numbers and %" PRIu64
                           " bytes of names need %" PRIu64 " bytes, the file has %zu",
                           SWI_NATIVE_TABLE, t->count, t->shape_numbers, t->name_bytes, need,
                           c->size);
    sw_status status = check_zeros(c, 24, HEAD_BYTES, err);
    for (int i = 0; i + 1 < ARRAYS && status == SW_OK; i++)
        status = check_zeros(c, c->arrays[i].at + c->arrays[i].bytes, c->arrays[i + 1].at, err);
    return status;
}

static void set_arrays(check *c)
{
    swi_native_table *t = &c->table;
    const uint8_t **const to[ARRAYS] = {&t->name_end, &t->shape_end, &t->layout,
                                        &t->dtype,    &t->role,      &t->flags,
                                        &t->shapes,   &t->digests,   &t->names};
    for (int i = 0; i < ARRAYS; i++)
        *to[i] = t->data + c->arrays[i].at;
}

/* Ends that rise to `last`, each step `least` to `most`: those of a range, and the two before it,
 * which other ranges tell about. */
static sw_status check_ends(const check *c, int which, const range *r, sw_error *err)
{
    static const char *const what[] = {
        [NAME_END] = "ends of names that do not rise, or not to the end of all names",
        [SHAPE_END] = "ends of shapes that fall, more than 10 axes, or not at the end of all"};
    const bool is_name = which == NAME_END;
    const uint64_t last = is_name ? c->table.name_bytes : c->table.shape_numbers;
    const uint64_t least = is_name ? 1 : 0, most = is_name ? UINT32_MAX : SW_MAX_AXES;
    const uint8_t *ends = c->table.data + c->arrays[which].at;
    const uint32_t first = r->from > 0 ? r->from - 1 : 0;
    uint32_t before = start_at(ends, first);
    if (before > last)
        return wrong(c->arrays[which].at, what[which], err);
    for (uint32_t i = first; i < r->to; i++) {
        uint32_t end = end_at(ends, i);
        if (end < before || end > last || end - before < least || end - before > most)
            return wrong_tensor(c, i, c->arrays[which].at + 4 * (uint64_t)i, what[which], err);
        before = end;
    }
    if (r->to == c->table.count && before != last)
        return wrong(is_name ? 16 : 12, what[which], err);
    return SW_OK;
}

/* Where each ends with a 0, there is no other if there are as many as names. */
static bool has_zeros(const uint8_t *names, size_t size, uint32_t count)
{
    size_t zeros = 0, i = 0;
    for (; i + COUNTED <= size; i += COUNTED) {
        uint8_t few = 0; /* sums of bytes are vectors */
        for (size_t k = 0; k < COUNTED; k++)
            few = (uint8_t)(few + (names[i + k] == 0));
        zeros += few;
    }
    for (; i < size; i++)
        zeros += names[i] == 0;
    return zeros == count;
}

/* Names are text each when all of them together are, as a 0 is a character. */
static sw_status check_names(const check *c, const range *r, sw_error *err)
{
    const swi_native_table *t = &c->table;
    size_t start = start_at(t->name_end, r->from), all = start_at(t->name_end, r->to) - start;
    size_t before = r->from > 1 ? end_at(t->name_end, r->from - 2) : 0;
    const bool as_many = has_zeros(t->names + start, all, r->to - r->from);
    const size_t valid = swi_utf8_prefix(t->names + start, all);
    if (valid != all)
        return wrong(c->arrays[NAMES].at + start + valid, "names that are not text in UTF-8", err);
    for (uint32_t i = r->from; i < r->to; i++) {
        const size_t end = end_at(t->name_end, i);
        if (t->names[end - 1] != 0 ||
            (!as_many && memchr(t->names + start, 0, end - start - 1) != NULL))
            return wrong_tensor(c, i, c->arrays[NAMES].at + start,
                                "its name does not end with the only 0 in it", err);
        if (i > 0 &&
            swi_bytes_order(t->names + before, start - before, t->names + start, end - start) >= 0)
            return wrong_tensor(c, i, c->arrays[NAMES].at + start,
                                "its name is not behind that of the one before it", err);
        before = start;
        start = end;
    }
    return SW_OK;
}

static bool is_zero(const uint8_t *p, size_t size)
{
    uint8_t any = 0;
    for (size_t i = 0; i < size; i++)
        any |= p[i];
    return any == 0;
}

static sw_status check_kinds(const check *c, const range *r, sw_error *err)
{
    const swi_native_table *t = &c->table;
    for (uint32_t i = r->from; i < r->to; i++) {
        uint64_t digest = SWI_DIGEST_BYTES * (uint64_t)i;
        if (end_at(t->layout, i) >= c->layouts)
            return wrong_tensor(c, i, c->arrays[LAYOUT].at + 4 * (uint64_t)i,
                                "a layout that the manifest does not have", err);
        if (t->dtype[i] == SW_DTYPE_NONE || t->dtype[i] >= SW_DTYPE_COUNT)
            return wrong_tensor(c, i, c->arrays[DTYPE].at + i, "no such type code", err);
        if (t->role[i] > SW_ROLE_OPTIMIZER)
            return wrong_tensor(c, i, c->arrays[ROLE].at + i, "no such role", err);
        if ((t->flags[i] & ~FLAG_DIGEST) != 0)
            return wrong_tensor(c, i, c->arrays[FLAGS].at + i, "flags that are not known", err);
        if (t->flags[i] == 0 && !is_zero(t->digests + digest, SWI_DIGEST_BYTES))
            return wrong_tensor(c, i, c->arrays[DIGESTS].at + digest,
                                "a content digest that is not said to be known", err);
    }
    return SW_OK;
}

static uint32_t shape_at(const swi_native_table *t, uint32_t i, int64_t shape[SW_MAX_AXES])
{
    uint32_t start = start_at(t->shape_end, i), end = end_at(t->shape_end, i);
    for (uint32_t k = start; k < end; k++)
        shape[k - start] = (int64_t)swi_load_u64le(t->shapes + 8 * (size_t)k);
    return end - start;
}

static sw_status check_shapes(const check *c, const range *r, sw_error *err)
{
    const swi_native_table *t = &c->table;
    for (uint32_t i = r->from; i < r->to; i++) {
        int64_t shape[SW_MAX_AXES];
        uint64_t elements, bytes;
        uint32_t axes = shape_at(t, i, shape);
        if (!swi_shape_elements(axes, shape, &elements) ||
            !swi_mul_u64(elements, sw_dtype_bytes((sw_dtype)t->dtype[i]), &bytes) ||
            bytes > INT64_MAX)
            return wrong_tensor(c, i,
                                c->arrays[SHAPES].at + 8 * (uint64_t)start_at(t->shape_end, i),
                                "a size that is negative or too large", err);
    }
    return SW_OK;
}

static sw_status check_range(void *ctx, uint64_t from, uint64_t to, sw_error *err)
{
    const check *c = ctx;
    const range r = {(uint32_t)from, (uint32_t)to};
    sw_status status = check_ends(c, NAME_END, &r, err);
    if (status == SW_OK)
        status = check_ends(c, SHAPE_END, &r, err);
    if (status == SW_OK)
        status = check_names(c, &r, err);
    if (status == SW_OK)
        status = check_kinds(c, &r, err);
    if (status == SW_OK)
        status = check_shapes(c, &r, err);
    return status;
}

sw_status swi_native_table_read(const uint8_t *data, size_t size, uint32_t layouts,
                                uint32_t threads, swi_native_table *out, sw_error *err)
{
    check c = {.table.data = data, .size = size, .layouts = layouts};
    sw_status status = read_head(&c, err);
    if (status != SW_OK)
        return status;
    set_arrays(&c);
    if (c.table.count == 0)
        status = check_range(&c, 0, 0, err); /* there are no names and shapes either */
    else
        status = swi_together_ranges(threads, c.table.count, RANGE, check_range, &c, err);
    if (status == SW_OK)
        *out = c.table;
    return status;
}

/* ---- getting ------------------------------------------------------------------------------- */

static const char *name_at(const swi_native_table *table, uint32_t i, size_t *size)
{
    uint32_t start = start_at(table->name_end, i);
    *size = end_at(table->name_end, i) - start - 1;
    return (const char *)table->names + start;
}

void swi_native_table_at(const swi_native_table *table, uint32_t i, swi_native_tensor *out)
{
    out->name = name_at(table, i, &out->name_size);
    out->dtype = (sw_dtype)table->dtype[i];
    out->role = (sw_role)table->role[i];
    out->layout = end_at(table->layout, i);
    out->axes = shape_at(table, i, out->shape);
    out->has_digest = (table->flags[i] & FLAG_DIGEST) != 0;
    memcpy(out->digest.bytes, table->digests + SWI_DIGEST_BYTES * (size_t)i, SWI_DIGEST_BYTES);
}

uint32_t swi_native_table_form(const swi_native_table *table, uint32_t i, sw_dtype *dtype,
                               int64_t shape[SW_MAX_AXES])
{
    *dtype = (sw_dtype)table->dtype[i];
    return shape_at(table, i, shape);
}

int64_t swi_native_table_find(const swi_native_table *table, const char *name, size_t size)
{
    uint32_t low = 0, high = table->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        size_t other;
        const char *text = name_at(table, middle, &other);
        int order = swi_bytes_order(text, other, name, size);
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}
