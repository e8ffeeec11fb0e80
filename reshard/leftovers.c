#include "leftovers.h"

#include "owners.h"

typedef struct leftover {
    swi_fetch *fetch;
    swi_owners *owners; /* made when first needed */
    bool resumed;
} leftover;

static sw_status see_to(void *ctx, uint32_t blob, bool partial, uint64_t seen_bytes, sw_error *err)
{
    leftover *l = ctx;
    if (partial && !l->resumed) {
        l->fetch->tally->unchecked_bytes += seen_bytes;
        return SW_OK;
    }
    sw_status status = SW_OK;
    if (l->owners == NULL)
        status = swi_owners_make(l->fetch->source->catalog, &l->owners, err);
    if (status != SW_OK)
        return status;
    const swi_blob_label label = swi_owner_label(l->owners, blob);
    return swi_fetch_check(l->fetch, blob, &label, err);
}

sw_status swi_fetch_leftovers(swi_fetch *fetch, bool resumed, sw_error *err)
{
    leftover left = {.fetch = fetch, .resumed = resumed};
    sw_status status = swi_crc_track_left(fetch->track, see_to, &left, err);
    swi_owners_free(left.owners);
    return status;
}
