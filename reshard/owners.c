#include "owners.h"

#include <stdlib.h>

#include "base/arena.h"

/* who: a tensor; a value with this bit; or none */
#define OWNER_VALUE (UINT32_C(1) << 31)
#define OWNER_NONE UINT32_MAX

typedef struct owner {
    uint32_t who;
    uint32_t piece; /* of the tensor */
} owner;

struct swi_owners {
    const sw_catalog *catalog;
    uint32_t count;
    owner owner[];
};

static void note_tensor(swi_owners *owners, uint32_t tensor)
{
    sw_tensor_info info;
    (void)sw_catalog_tensor(owners->catalog, tensor, &info);
    for (uint64_t i = 0; i < info.piece_count; i++) {
        swi_piece piece;
        swi_tensor_piece(owners->catalog, tensor, i, &piece);
        if (piece.blob < owners->count && owners->owner[piece.blob].who == OWNER_NONE)
            owners->owner[piece.blob] = (owner){.who = tensor, .piece = (uint32_t)i};
    }
}

sw_status swi_owners_make(const sw_catalog *catalog, swi_owners **out, sw_error *err)
{
    uint32_t count = swi_catalog_blob_count(catalog);
    void *p;
    sw_status status =
        swi_alloc_array(1, sizeof(swi_owners) + (size_t)count * sizeof(owner), &p, err);
    if (status != SW_OK)
        return status;
    swi_owners *owners = p;
    owners->catalog = catalog;
    owners->count = count;
    for (uint32_t i = 0; i < count; i++)
        owners->owner[i].who = OWNER_NONE;
    for (size_t t = 0; t < sw_catalog_tensor_count(catalog); t++)
        note_tensor(owners, (uint32_t)t);
    for (size_t v = 0; v < sw_catalog_value_count(catalog); v++) {
        uint32_t blob = swi_value_blob(catalog, v);
        if (blob < count && owners->owner[blob].who == OWNER_NONE)
            owners->owner[blob].who = (uint32_t)v | OWNER_VALUE;
    }
    *out = owners;
    return SW_OK;
}

void swi_owners_free(swi_owners *owners)
{
    free(owners);
}

swi_blob_label swi_owner_label(const swi_owners *owners, uint32_t blob_id)
{
    uint32_t who = owners->owner[blob_id].who;
    sw_tensor_info tensor;
    sw_value_info value;
    swi_blob blob;
    swi_catalog_blob(owners->catalog, blob_id, &blob);
    swi_blob_label label = {.file = swi_catalog_path(owners->catalog, blob.file), .name = ""};
    if (who == OWNER_NONE)
        return label;
    if ((who & OWNER_VALUE) == 0 && sw_catalog_tensor(owners->catalog, who, &tensor)) {
        label.name = tensor.name;
        swi_piece_want(owners->catalog, who, owners->owner[blob_id].piece, &label.want);
    } else if (sw_catalog_value_at(owners->catalog, who & ~OWNER_VALUE, &value)) {
        label.name = value.name;
    }
    return label;
}
