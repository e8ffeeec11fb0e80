#include "places.h"

#include <stdlib.h>

#include "base/arena.h"

typedef struct place {
    uint32_t tensor;
    uint32_t file;
    uint64_t offset;
} place;

static int by_place(const void *left, const void *right)
{
    const place *a = left, *b = right;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return (a->tensor > b->tensor) - (a->tensor < b->tensor);
}

static place first_place(const sw_catalog *catalog, uint32_t tensor)
{
    sw_tensor_info info = {0};
    place first = {.tensor = tensor, .file = UINT32_MAX, .offset = UINT64_MAX};
    (void)sw_catalog_tensor(catalog, tensor, &info);
    for (uint64_t i = 0; i < info.piece_count; i++) {
        swi_piece piece;
        swi_blob blob;
        swi_tensor_piece(catalog, tensor, i, &piece);
        swi_catalog_blob(catalog, piece.blob, &blob);
        place at = {.tensor = tensor, .file = blob.file, .offset = blob.offset_bytes};
        if (by_place(&at, &first) < 0)
            first = at;
    }
    return first;
}

sw_status swi_sort_by_place(const sw_catalog *catalog, uint32_t *tensors, size_t count,
                            sw_error *err)
{
    void *p;
    sw_status status = swi_alloc_array(count, sizeof(place), &p, err);
    if (status != SW_OK)
        return status;
    place *places = p;
    for (size_t i = 0; i < count; i++)
        places[i] = first_place(catalog, tensors[i]);
    if (count > 1)
        qsort(places, count, sizeof *places, by_place);
    for (size_t i = 0; i < count; i++)
        tensors[i] = places[i].tensor;
    free(places);
    return SW_OK;
}
