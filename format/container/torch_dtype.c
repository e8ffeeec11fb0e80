#include "container/torch_internal.h"

#include <string.h>

typedef struct dtype_name {
    const char *name;
    sw_dtype dtype;
} dtype_name;

/* The first name of a dtype is the one that is written. */
static const dtype_name dtypes[] = {
    {"float32", SW_F32},
    {"bfloat16", SW_BF16},
    {"float16", SW_F16},
    {"float64", SW_F64},
    {"int64", SW_I64},
    {"int32", SW_I32},
    {"int16", SW_I16},
    {"int8", SW_I8},
    {"uint8", SW_U8},
    {"uint16", SW_U16},
    {"uint32", SW_U32},
    {"uint64", SW_U64},
    {"bool", SW_BOOL},
    {"complex32", SW_C32},
    {"complex64", SW_C64},
    {"complex128", SW_C128},
    {"float8_e4m3fn", SW_F8_E4M3FN},
    {"float8_e5m2", SW_F8_E5M2},
    {"float8_e4m3fnuz", SW_F8_E4M3FNUZ},
    {"float8_e5m2fnuz", SW_F8_E5M2FNUZ},
    {"float8_e8m0fnu", SW_F8_E8M0FNU},
    {"float4_e2m1fn_x2", SW_F4_E2M1FN_X2},
    {"bits8", SW_BITS8},
    {"bits1x8", SW_BITS8},
    {"bits2x4", SW_BITS8},
    {"bits4x2", SW_BITS8},
    {"bits16", SW_BITS16},
};

static const swi_torch_class classes[] = {
    {"FloatStorage", SW_F32, 4},
    {"BFloat16Storage", SW_BF16, 2},
    {"HalfStorage", SW_F16, 2},
    {"DoubleStorage", SW_F64, 8},
    {"LongStorage", SW_I64, 8},
    {"IntStorage", SW_I32, 4},
    {"ShortStorage", SW_I16, 2},
    {"CharStorage", SW_I8, 1},
    {"ByteStorage", SW_U8, 1},
    {"BoolStorage", SW_BOOL, 1},
    {"ComplexFloatStorage", SW_C64, 8},
    {"ComplexDoubleStorage", SW_C128, 16},
    {"QInt8Storage", SW_DTYPE_NONE, 1},
    {"QUInt8Storage", SW_DTYPE_NONE, 1},
    {"QInt32Storage", SW_DTYPE_NONE, 4},
    {"QUInt4x2Storage", SW_DTYPE_NONE, 1},
    {"QUInt2x4Storage", SW_DTYPE_NONE, 1},
};

sw_dtype swi_torch_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return dtypes[i].dtype;
    return SW_DTYPE_NONE;
}

const char *swi_torch_dtype_name(sw_dtype dtype)
{
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return NULL;
}

const swi_torch_class *swi_torch_find_class(const char *name)
{
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        if (strcmp(classes[i].name, name) == 0)
            return &classes[i];
    return NULL;
}

const char *swi_torch_class_of(sw_dtype dtype)
{
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        if (classes[i].dtype == dtype && dtype != SW_DTYPE_NONE)
            return classes[i].name;
    return NULL;
}

bool swi_torch_has_class(sw_dtype dtype)
{
    return swi_torch_class_of(dtype) != NULL;
}
