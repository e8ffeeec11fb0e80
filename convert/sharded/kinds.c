/* The frameworks whose checkpoints are files of tensor-parallel ranks, as data. */
#include "sharded/kinds.h"

#include "frameworks.h"
#include "sharded/container.h"
#include "torch/torch.h"

/* ---- vLLM's sharded_state (specs/vllm.md) ------------------------------------------------------
 */

const swi_sharded_kind swi_sharded_vllm = {
    .side = "vllm",
    .names = {"model-rank-%r-part-%p.safetensors", "model-pp-%s-tp-%r-part-%p.safetensors"},
    .parts = true,
    .axis = "tp",
    .container = &swi_rank_container_safetensors,
};

static sw_status claim_vllm(const swi_store *store, const swi_listing *listing, swi_claim *out,
                            sw_error *err)
{
    (void)store;
    (void)err;
    *out = swi_sharded_claim(&swi_sharded_vllm, listing);
    return SW_OK;
}

static sw_status open_vllm(swi_opening *o, sw_error *err)
{
    return swi_sharded_open(&swi_sharded_vllm, o, err);
}

static sw_status lay_vllm(const swi_target_in *in, swi_layout *layout, sw_error *err)
{
    return swi_sharded_layout(&swi_sharded_vllm, in, layout, err);
}

const swi_framework swi_framework_vllm = {
    .name = "vllm",
    .title = "vLLM sharded state",
    .target = "vllm:tp=4[,part=5GB]",
    .side = "vllm",
    .claim = claim_vllm,
    .open = open_vllm,
    .layout = lay_vllm,
};

/* ---- Meta's consolidated files (specs/meta.md) -------------------------------------------------
 */

const swi_sharded_kind swi_sharded_meta = {
    .side = "meta",
    .names = {"consolidated.%R.pth"},
    .axis = "tp",
    .container = &swi_rank_container_torch,
};

static sw_status claim_meta(const swi_store *store, const swi_listing *listing, swi_claim *out,
                            sw_error *err)
{
    (void)store;
    (void)err;
    *out = swi_sharded_claim(&swi_sharded_meta, listing);
    return SW_OK;
}

static sw_status open_meta(swi_opening *o, sw_error *err)
{
    return swi_sharded_open(&swi_sharded_meta, o, err);
}

static sw_status lay_meta(const swi_target_in *in, swi_layout *layout, sw_error *err)
{
    return swi_sharded_layout(&swi_sharded_meta, in, layout, err);
}

const swi_framework swi_framework_meta = {
    .name = "meta",
    .title = "Meta consolidated files",
    .target = "meta:tp=4",
    .side = "meta",
    .claim = claim_meta,
    .open = open_meta,
    .value = swi_torch_value,
    .layout = lay_meta,
};

/* ---- claims ------------------------------------------------------------------------------------
 */

static const swi_sharded_kind *const kinds[] = {&swi_sharded_vllm, &swi_sharded_meta};

bool swi_sharded_owns(const char *name)
{
    swi_rank_name is;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (swi_sharded_parse(kinds[i], name, &is))
            return true;
    return false;
}

/* SH-1: a lone file is a part of one, or one by itself for whoever reads such files. */
swi_claim swi_sharded_claim(const swi_sharded_kind *kind, const swi_listing *listing)
{
    for (size_t i = 0; i < swi_listing_count(listing); i++) {
        const swi_listing_entry *e = swi_listing_at(listing, i);
        swi_rank_name is;
        if (e->kind == SWI_ENTRY_FILE && swi_sharded_parse(kind, e->name, &is))
            return swi_listing_count(listing) == 1 ? SWI_CLAIM_PART : SWI_CLAIM_WHOLE;
    }
    return SWI_CLAIM_NONE;
}
