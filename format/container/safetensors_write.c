/* Writing the front of a safetensors file [ST-15, ST-16]. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "codec/json_write.h"
#include "container/safetensors_table.h"

#define LENGTH_BYTES ((uint64_t)8)

/* What the reader would refuse is not written. */
static sw_status check_tensor(const swi_st_tensor *t, swi_names *names, sw_error *err)
{
    swi_quoted room;
    uint64_t elements, bytes;
    uint32_t id;
    bool is_new;
    const char *name = swi_quote(&room, t->name, t->name_size);
    if (!swi_utf8_valid(t->name, t->name_size) || memchr(t->name, 0, t->name_size) != NULL)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "ST-4", 0,
                           "tensor \"%s\": the name is not UTF-8 or holds a NUL", name);
    static const char reserved[] = "__metadata__";
    if (t->name_size == sizeof reserved - 1 && memcmp(t->name, reserved, t->name_size) == 0)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "ST-4", 0, "a tensor named \"%s\"", name);
    sw_status status = swi_names_add(names, t->name, t->name_size, &id, &is_new, err);
    if (status != SW_OK)
        return status;
    if (!is_new)
        return swi_fail_at(err, SW_ERR_CONFLICT, "ST-4", 0, "tensor \"%s\" is there twice", name);
    if (swi_st_dtype_name(t->dtype) == NULL)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "ST-7", 0,
                           "tensor \"%s\": safetensors cannot hold %s", name,
                           sw_dtype_name(t->dtype));
    if (t->axes > SW_MAX_AXES || !swi_shape_elements(t->axes, t->shape, &elements) ||
        !swi_mul_u64(elements, sw_dtype_bytes(t->dtype), &bytes) || bytes != t->bytes)
        return swi_fail_at(err, SW_ERR_ARG, "ST-10", 0,
                           "tensor \"%s\": %" PRIu64 " bytes are not those of its shape", name,
                           t->bytes);
    if (t->dtype == SW_F4_E2M1FN_X2 && (t->axes == 0 || t->shape[t->axes - 1] > INT64_MAX / 2))
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "ST-14", 0,
                           "tensor \"%s\": safetensors cannot hold its %s", name,
                           sw_dtype_name(t->dtype));
    return SW_OK;
}

static void write_entry(swi_json_writer *w, const swi_st_tensor *t, uint64_t begin)
{
    swi_json_key(w, t->name, t->name_size);
    swi_json_begin_object(w);
    swi_json_key_str(w, "dtype");
    swi_json_str(w, swi_st_dtype_name(t->dtype));
    swi_json_key_str(w, "shape");
    swi_json_begin_array(w);
    for (uint32_t axis = 0; axis < t->axes; axis++) {
        bool is_pairs = t->dtype == SW_F4_E2M1FN_X2 && axis == t->axes - 1;
        swi_json_int(w, is_pairs ? t->shape[axis] * 2 : t->shape[axis]);
    }
    swi_json_end(w);
    swi_json_key_str(w, "data_offsets");
    swi_json_begin_array(w);
    swi_json_uint(w, begin);
    swi_json_uint(w, begin + t->bytes);
    swi_json_end(w);
    swi_json_end(w);
}

static void write_metadata(swi_json_writer *w, const char *const *metadata, size_t pairs)
{
    swi_json_key_str(w, "__metadata__");
    swi_json_begin_object(w);
    for (size_t i = 0; i < pairs; i++) {
        swi_json_key_str(w, metadata[2 * i]);
        swi_json_str(w, metadata[2 * i + 1]);
    }
    swi_json_end(w);
}

static sw_status write_tensors(swi_json_writer *w, const swi_st_tensor *tensors, size_t count,
                               sw_error *err)
{
    swi_names *names = NULL;
    uint64_t begin = 0, end = 0;
    sw_status status = swi_names_make(&names, err);
    for (size_t i = 0; i < count && status == SW_OK; i++) {
        status = check_tensor(&tensors[i], names, err);
        if (status == SW_OK &&
            (!swi_add_u64(begin, tensors[i].bytes, &end) || end > (uint64_t)INT64_MAX))
            status = swi_fail(err, SW_ERR_LIMIT, "a safetensors file of more than 2^63 bytes");
        if (status != SW_OK)
            break;
        write_entry(w, &tensors[i], begin);
        begin = end;
    }
    swi_names_free(names);
    return status;
}

/* The length is put in and the header padded; both are part of `out` from `start` on. */
static sw_status finish(swi_buf *out, size_t start, uint64_t *header_bytes, sw_error *err)
{
    uint64_t n = out->size - start - LENGTH_BYTES;
    size_t pad = (size_t)(-n & 7);
    if (n + pad > SWI_ST_HEADER_MAX)
        return swi_fail_at(err, SW_ERR_LIMIT, "ST-2", 0,
                           "a header of %" PRIu64 " bytes, readers take %" PRIu64
                           ": spread the tensors over more files",
                           n + pad, SWI_ST_HEADER_MAX);
    sw_status status = swi_buf_fill(out, ' ', pad, err);
    if (status != SW_OK)
        return status;
    n += pad;
    for (unsigned i = 0; i < LENGTH_BYTES; i++)
        out->data[start + i] = (uint8_t)(n >> (8 * i));
    *header_bytes = n;
    return SW_OK;
}

sw_status swi_st_write_header(swi_buf *out, swi_st_tensor *tensors, size_t count,
                              const char *const *metadata, size_t pairs, sw_error *err)
{
    size_t start = out->size;
    uint64_t header_bytes = 0;
    swi_json_writer w;
    sw_status status = swi_buf_u64le(out, 0, err);
    if (status != SW_OK)
        goto done;
    swi_json_start(&w, out, SWI_JSON_COMPACT);
    swi_json_begin_object(&w);
    if (pairs > 0)
        write_metadata(&w, metadata, pairs);
    status = write_tensors(&w, tensors, count, err);
    if (status != SW_OK)
        goto done;
    swi_json_end(&w);
    status = swi_json_finish(&w, err);
    if (status == SW_OK)
        status = finish(out, start, &header_bytes, err);
    if (status != SW_OK)
        goto done;
    uint64_t offset = LENGTH_BYTES + header_bytes;
    for (size_t i = 0; i < count; i++) {
        tensors[i].offset_bytes = offset;
        offset += tensors[i].bytes;
    }
done:
    if (status != SW_OK)
        out->size = start;
    return status;
}
