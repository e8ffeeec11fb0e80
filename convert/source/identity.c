#include "source/identity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "flat/unflatten.h"

/* FNV-1a, two lanes with different offsets: names, not security. */
#define FNV_PRIME UINT64_C(0x100000001b3)

void swi_identity_begin(swi_identity *id)
{
    id->state[0] = UINT64_C(0xcbf29ce484222325);
    id->state[1] = UINT64_C(0x84222325cbf29ce4);
}

void swi_identity_bytes(swi_identity *id, const void *data, size_t size)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < size; i++) {
        id->state[0] = (id->state[0] ^ p[i]) * FNV_PRIME;
        id->state[1] = (id->state[1] ^ (uint8_t)~p[i]) * FNV_PRIME;
        id->state[1] ^= id->state[1] >> 29;
    }
}

void swi_identity_number(swi_identity *id, uint64_t number)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> (8 * i));
    swi_identity_bytes(id, bytes, sizeof bytes);
}

void swi_identity_text(swi_identity *id, const char *text)
{
    swi_identity_number(id, text ? strlen(text) : UINT64_MAX);
    if (text != NULL)
        swi_identity_bytes(id, text, strlen(text));
}

/* Index files are no files of the catalog, and say what the bytes of those that are mean. */
static void add_listing(swi_identity *id, const swi_listing *listing)
{
    for (size_t i = 0; i < swi_listing_count(listing); i++) {
        const swi_listing_entry *e = swi_listing_at(listing, i);
        if (e->kind != SWI_ENTRY_FILE)
            continue;
        swi_identity_text(id, e->name);
        swi_identity_number(id, e->bytes);
        swi_identity_number(id, (uint64_t)e->mtime_ns);
    }
}

sw_status swi_identity_source(swi_identity *id, const sw_checkpoint *checkpoint, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(checkpoint);
    swi_identity_text(id, sw_checkpoint_framework(checkpoint));
    add_listing(id, swi_checkpoint_listing(checkpoint));
    for (size_t i = 0; i < sw_catalog_file_count(catalog); i++) {
        sw_file_info info;
        swi_entry entry;
        sw_catalog_file(catalog, i, &info);
        sw_status st = swi_store_stat(swi_checkpoint_store(checkpoint), info.path, &entry, err);
        if (st != SW_OK)
            return st;
        swi_identity_text(id, info.path);
        swi_identity_number(id, entry.bytes);
        swi_identity_number(id, (uint64_t)entry.mtime_ns);
    }
    if (swi_checkpoint_unflat(checkpoint) != NULL)
        swi_unflat_identify(swi_checkpoint_unflat(checkpoint), id);
    return SW_OK;
}

void swi_identity_end(const swi_identity *id, char text[SWI_IDENTITY_TEXT])
{
    snprintf(text, SWI_IDENTITY_TEXT, "%016" PRIx64 "%016" PRIx64, id->state[0], id->state[1]);
}
