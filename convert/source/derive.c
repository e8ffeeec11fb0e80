#include "source/derive.h"

#include <stdio.h>
#include <string.h>

static sw_status keep_tensor(const sw_catalog *catalog, uint32_t i, swi_builder *builder,
                             sw_error *err)
{
    sw_tensor_info info;
    swi_shaped shaped;
    uint32_t id;
    (void)sw_catalog_tensor(catalog, i, &info);
    const swi_shaped_name name = {
        .name = info.name, .name_size = strlen(info.name), .role = info.role};
    if (info.alias_of >= 0 && info.piece_count == 0) {
        const swi_tensor_in in = {.name = info.name,
                                  .name_size = strlen(info.name),
                                  .dtype = info.dtype,
                                  .axes = info.axes,
                                  .shape = info.shape,
                                  .role = info.role};
        return swi_builder_tensor(builder, &in, &id, err);
    }
    sw_status st = swi_shaped_take(catalog, i, &shaped, err);
    if (st != SW_OK)
        return st;
    st = swi_shaped_put(builder, &name, &shaped, &id, err);
    swi_shaped_free(&shaped);
    return st;
}

static sw_status keep_tensors(const sw_catalog *catalog, swi_builder *builder, sw_error *err)
{
    const uint32_t count = (uint32_t)sw_catalog_tensor_count(catalog);
    sw_status st = SW_OK;
    for (uint32_t i = 0; st == SW_OK && i < count; i++)
        st = keep_tensor(catalog, i, builder, err);
    for (uint32_t i = 0; st == SW_OK && i < count; i++) {
        sw_tensor_info info;
        (void)sw_catalog_tensor(catalog, i, &info);
        if (info.alias_of >= 0)
            swi_builder_alias(builder, i, (uint32_t)info.alias_of);
    }
    return st;
}

sw_status swi_derive_begin(const sw_checkpoint *base, swi_builder **out, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(base);
    const sw_limits limits = swi_checkpoint_limits(base);
    swi_builder *made = NULL;
    sw_status st = swi_builder_from(catalog, &limits, &made, err);
    if (st == SW_OK)
        st = keep_tensors(catalog, made, err);
    if (st == SW_OK)
        *out = made;
    else
        swi_builder_free(made);
    return st;
}

sw_status swi_derive_put(swi_builder *builder, const char *name, sw_role role,
                         const swi_shaped *shaped, uint32_t *tensor, sw_error *err)
{
    char other[512];
    sw_error cause = {0};
    swi_shaped_name as = {.name = name, .name_size = strlen(name), .role = role};
    sw_status st = swi_shaped_put(builder, &as, shaped, tensor, &cause);
    for (unsigned i = 1; st == SW_ERR_CONFLICT && i < 10000; i++) {
        snprintf(other, sizeof other, "%.480s (mapped %u)", name, i);
        as = (swi_shaped_name){.name = other, .name_size = strlen(other), .role = role};
        cause = (sw_error){0};
        st = swi_shaped_put(builder, &as, shaped, tensor, &cause);
    }
    if (st != SW_OK && err != NULL)
        *err = cause;
    return st;
}

sw_status swi_derive_end(const sw_checkpoint *base, swi_builder *builder, sw_checkpoint **out,
                         sw_error *err)
{
    sw_catalog *catalog = NULL;
    sw_status st = swi_builder_freeze(builder, NULL, &catalog, err);
    return st == SW_OK ? swi_checkpoint_derive(base, catalog, out, err) : st;
}
