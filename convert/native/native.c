#include "native/native.h"

#include <string.h>

#include "base/text.h"
#include "frameworks.h"
#include "target/target.h"

static bool is_shard(const char *name)
{
    return swi_has_suffix(name, ".sws");
}

/* NAT-1: the manifest is the commit mark; by itself it stands for its folder. */
static sw_status claim(const swi_store *store, const swi_listing *listing, swi_claim *out,
                       sw_error *err)
{
    uint8_t head[512];
    size_t size = 0;
    sw_error cause = {0};
    const swi_listing_entry *manifest = swi_listing_find(listing, SWI_NATIVE_MANIFEST);
    bool shards = false;
    for (size_t i = 0; i < swi_listing_count(listing); i++) {
        const swi_listing_entry *e = swi_listing_at(listing, i);
        shards = shards || (e->kind == SWI_ENTRY_FILE && is_shard(e->name));
    }
    *out = shards ? SWI_CLAIM_PART : SWI_CLAIM_NONE;
    if (manifest == NULL || manifest->kind != SWI_ENTRY_FILE)
        return SW_OK;
    sw_status st = swi_store_head(store, SWI_NATIVE_MANIFEST, head, sizeof head, &size, &cause);
    if (st == SW_ERR_NOMEM) {
        if (err != NULL)
            *err = cause;
        return st;
    }
    if (st == SW_OK && (shards || swi_native_manifest_looks(head, size)))
        *out = swi_listing_count(listing) > 1 ? SWI_CLAIM_WHOLE : SWI_CLAIM_PART;
    return SW_OK;
}

static sw_status choose(struct swi_target *target, sw_error *err)
{
    (void)err;
    target->rank_values = target->assets = true;
    return SW_OK;
}

const swi_framework swi_framework_native = {
    .name = "native",
    .title = "Shardwright native",
    .target = "native[:codec=planes|zstd|stored,level=N,ranks=N]",
    .takes = SWI_TAKES_STATE,
    .optimizer_forms = SWI_FORM_BIT(SWI_FORM_KEEP) | SWI_FORM_BIT(SWI_FORM_NAMES) |
                       SWI_FORM_BIT(SWI_FORM_NESTED) | SWI_FORM_BIT(SWI_FORM_FLAT) |
                       SWI_FORM_BIT(SWI_FORM_IDS),
    .optimizer_form = SWI_FORM_KEEP,
    .alias_form = SWI_FORM_KEEP,
    .claim = claim,
    .open = swi_native_open,
    .audit = swi_native_audit,
    .state = swi_native_state,
    .value = swi_native_value_of,
    .choose = choose,
    .layout = swi_native_layout_out,
    .holds_optimizer = true,
    .holds_values = true,
    .divides = true,
    .holds_terms = true,
};
