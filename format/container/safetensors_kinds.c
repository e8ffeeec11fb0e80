/* Element kinds of safetensors against ours [ST-7]. */
#include <string.h>

#include "container/safetensors_table.h"

const swi_st_kind swi_st_kinds[SWI_ST_KINDS] = {
    {"BOOL", 8, SW_BOOL},
    {"F4", 4, SW_F4_E2M1FN_X2},
    {"F6_E2M3", 6, SW_DTYPE_NONE},
    {"F6_E3M2", 6, SW_DTYPE_NONE},
    {"U8", 8, SW_U8},
    {"I8", 8, SW_I8},
    {"F8_E5M2", 8, SW_F8_E5M2},
    {"F8_E4M3", 8, SW_F8_E4M3FN},
    {"F8_E8M0", 8, SW_F8_E8M0FNU},
    {"F8_E4M3FNUZ", 8, SW_F8_E4M3FNUZ},
    {"F8_E5M2FNUZ", 8, SW_F8_E5M2FNUZ},
    {"I16", 16, SW_I16},
    {"U16", 16, SW_U16},
    {"F16", 16, SW_F16},
    {"BF16", 16, SW_BF16},
    {"I32", 32, SW_I32},
    {"U32", 32, SW_U32},
    {"F32", 32, SW_F32},
    {"C64", 64, SW_C64},
    {"F64", 64, SW_F64},
    {"I64", 64, SW_I64},
    {"U64", 64, SW_U64},
};

int swi_st_dtype_rank(sw_dtype dtype)
{
    for (int i = 0; i < SWI_ST_KINDS; i++)
        if (swi_st_kinds[i].dtype == dtype && dtype != SW_DTYPE_NONE)
            return i;
    return -1;
}

const char *swi_st_dtype_name(sw_dtype dtype)
{
    int rank = swi_st_dtype_rank(dtype);
    return rank >= 0 ? swi_st_kinds[rank].name : NULL;
}

const char *swi_st_row_kind(const swi_st *st, const swi_st_row *row)
{
    if (row->kind < SWI_ST_KINDS)
        return swi_st_kinds[row->kind].name;
    return swi_names_at(st->unknown, (uint32_t)row->kind - SWI_ST_KINDS, NULL);
}
