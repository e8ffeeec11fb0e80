/* Element types. Names are PyTorch's; the short ones are those of safetensors and of daily use. */
#include "model/dtype.h"

#include <string.h>
#include <strings.h>

typedef struct dtype_row {
    const char *name;
    uint8_t bytes;
    uint8_t swap_bytes;
    bool is_float;
} dtype_row;

static const dtype_row rows[SW_DTYPE_COUNT] = {
    [SW_DTYPE_NONE] = {"none", 0, 0, false},
    [SW_BOOL] = {"bool", 1, 1, false},
    [SW_U8] = {"uint8", 1, 1, false},
    [SW_I8] = {"int8", 1, 1, false},
    [SW_U16] = {"uint16", 2, 2, false},
    [SW_I16] = {"int16", 2, 2, false},
    [SW_U32] = {"uint32", 4, 4, false},
    [SW_I32] = {"int32", 4, 4, false},
    [SW_U64] = {"uint64", 8, 8, false},
    [SW_I64] = {"int64", 8, 8, false},
    [SW_F16] = {"float16", 2, 2, true},
    [SW_BF16] = {"bfloat16", 2, 2, true},
    [SW_F32] = {"float32", 4, 4, true},
    [SW_F64] = {"float64", 8, 8, true},
    [SW_C32] = {"complex32", 4, 2, false},
    [SW_C64] = {"complex64", 8, 4, false},
    [SW_C128] = {"complex128", 16, 8, false},
    [SW_F8_E4M3FN] = {"float8_e4m3fn", 1, 1, true},
    [SW_F8_E5M2] = {"float8_e5m2", 1, 1, true},
    [SW_F8_E4M3FNUZ] = {"float8_e4m3fnuz", 1, 1, true},
    [SW_F8_E5M2FNUZ] = {"float8_e5m2fnuz", 1, 1, true},
    [SW_F8_E8M0FNU] = {"float8_e8m0fnu", 1, 1, true},
    [SW_F4_E2M1FN_X2] = {"float4_e2m1fn_x2", 1, 1, true},
    [SW_BITS8] = {"bits8", 1, 1, false},
    [SW_BITS16] = {"bits16", 2, 2, false},
};

typedef struct dtype_alias {
    const char *name;
    sw_dtype dtype;
} dtype_alias;

static const dtype_alias aliases[] = {
    {"byte", SW_U8},
    {"u8", SW_U8},
    {"char", SW_I8},
    {"i8", SW_I8},
    {"u16", SW_U16},
    {"short", SW_I16},
    {"i16", SW_I16},
    {"u32", SW_U32},
    {"int", SW_I32},
    {"i32", SW_I32},
    {"u64", SW_U64},
    {"long", SW_I64},
    {"i64", SW_I64},
    {"half", SW_F16},
    {"f16", SW_F16},
    {"fp16", SW_F16},
    {"bf16", SW_BF16},
    {"float", SW_F32},
    {"f32", SW_F32},
    {"fp32", SW_F32},
    {"double", SW_F64},
    {"f64", SW_F64},
    {"fp64", SW_F64},
    {"chalf", SW_C32},
    {"c32", SW_C32},
    {"cfloat", SW_C64},
    {"c64", SW_C64},
    {"cdouble", SW_C128},
    {"c128", SW_C128},
    {"f8_e4m3", SW_F8_E4M3FN},
    {"f8_e4m3fn", SW_F8_E4M3FN},
    {"float8_e4m3", SW_F8_E4M3FN},
    {"fp8_e4m3", SW_F8_E4M3FN},
    {"f8_e5m2", SW_F8_E5M2},
    {"fp8_e5m2", SW_F8_E5M2},
    {"f8_e4m3fnuz", SW_F8_E4M3FNUZ},
    {"f8_e5m2fnuz", SW_F8_E5M2FNUZ},
    {"f8_e8m0", SW_F8_E8M0FNU},
    {"f8_e8m0fnu", SW_F8_E8M0FNU},
    {"f4_e2m1fn_x2", SW_F4_E2M1FN_X2},
    {"bits1x8", SW_BITS8},
    {"bits2x4", SW_BITS8},
    {"bits4x2", SW_BITS8},
    {"quint8", SW_BITS8},
    {"qint8", SW_BITS8},
    {"quint4x2", SW_BITS8},
    {"quint2x4", SW_BITS8},
};

static const dtype_row *row_of(sw_dtype dtype)
{
    unsigned i = (unsigned)dtype;
    return &rows[i < SW_DTYPE_COUNT ? i : SW_DTYPE_NONE];
}

uint32_t sw_dtype_bytes(sw_dtype dtype)
{
    return row_of(dtype)->bytes;
}

const char *sw_dtype_name(sw_dtype dtype)
{
    return row_of(dtype)->name;
}

uint32_t sw_dtype_swap_bytes(sw_dtype dtype)
{
    return row_of(dtype)->swap_bytes;
}

bool sw_dtype_is_float(sw_dtype dtype)
{
    return row_of(dtype)->is_float;
}

sw_dtype sw_dtype_from_name(const char *name)
{
    static const char prefix[] = "torch.";
    if (name == NULL)
        return SW_DTYPE_NONE;
    if (strncasecmp(name, prefix, sizeof prefix - 1) == 0)
        name += sizeof prefix - 1;
    for (unsigned i = SW_DTYPE_NONE + 1; i < SW_DTYPE_COUNT; i++)
        if (strcasecmp(name, rows[i].name) == 0)
            return (sw_dtype)i;
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strcasecmp(name, aliases[i].name) == 0)
            return aliases[i].dtype;
    return SW_DTYPE_NONE;
}

static void swap_16(uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i + 2 <= bytes; i += 2) {
        uint16_t v;
        memcpy(&v, p + i, sizeof v);
        v = __builtin_bswap16(v);
        memcpy(p + i, &v, sizeof v);
    }
}

static void swap_32(uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
        uint32_t v;
        memcpy(&v, p + i, sizeof v);
        v = __builtin_bswap32(v);
        memcpy(p + i, &v, sizeof v);
    }
}

static void swap_64(uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t v;
        memcpy(&v, p + i, sizeof v);
        v = __builtin_bswap64(v);
        memcpy(p + i, &v, sizeof v);
    }
}

void swi_swap_elements(void *data, size_t bytes, sw_dtype dtype)
{
    switch (sw_dtype_swap_bytes(dtype)) {
    case 2:
        swap_16(data, bytes);
        break;
    case 4:
        swap_32(data, bytes);
        break;
    case 8:
        swap_64(data, bytes);
        break;
    default:
        break;
    }
}
