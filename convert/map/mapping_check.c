/* What must hold of the bytes, looked at before anything is written. */
#include <stdlib.h>

#include "base/arena.h"
#include "check/coordinates.h"
#include "check/replica_check.h"
#include "compare.h"
#include "map/mapping_parts.h"
#include "uniform.h"

#define LOOK_BYTES ((size_t)1 << 20)

static sw_status differs(const sw_catalog *catalog, const swi_must *must, uint64_t first,
                         sw_error *err)
{
    char at[SWI_COORDINATES_TEXT];
    sw_tensor_info info;
    swi_quoted q, r;
    (void)sw_catalog_tensor(catalog, must->tensor, &info);
    swi_coordinates_text(&info, first, at);
    const char *name = swi_quote_str(&q, must->name);
    if (must->kind == SWI_MUST_EQUAL)
        return swi_fail(err, SW_ERR_CONFLICT,
                        "the configuration says that \"%s\" and \"%s\" are tied, but they differ, "
                        "first at %s; --untie takes both (targets of weights alone)",
                        name, swi_quote_str(&r, must->other_name), at);
    if (must->kind == SWI_MUST_AGREE)
        return swi_fail(err, SW_ERR_CONFLICT,
                        "optimizer: the states \"%s\" and \"%s\" differ, but belong to parameters "
                        "that become one; --drop-role optimizer leaves it behind",
                        name, swi_quote_str(&r, must->other_name));
    if (must->kind == SWI_MUST_ZERO)
        return swi_fail(err, SW_ERR_CONFLICT,
                        "tensor \"%s\": what pads it is cut off and must be zero, but is not at "
                        "%s of it; is the configuration's size (vocab_size) right?",
                        name, at);
    return swi_fail(err, SW_ERR_CONFLICT,
                    "tensor \"%s\" is not the constant that the map says, and the target has no "
                    "place for it; leave it out with --drop",
                    name);
}

static sw_status compare(const swi_source *source, const swi_must *must, void *buffer, bool *holds,
                         uint64_t *first, sw_error *err)
{
    const swi_compare_in in = {.a = source,
                               .b = source,
                               .tensor_a = must->tensor,
                               .tensor_b = must->other,
                               .buffer = buffer,
                               .buffer_bytes = LOOK_BYTES};
    return swi_compare(&in, holds, first, err);
}

static sw_status look(const swi_source *source, const swi_must *must, void *buffer, bool *holds,
                      uint64_t *first, sw_error *err)
{
    sw_tensor_info info;
    (void)sw_catalog_tensor(source->catalog, must->tensor, &info);
    if (must->kind == SWI_MUST_EQUAL || must->kind == SWI_MUST_AGREE)
        return compare(source, must, buffer, holds, first, err);
    return swi_uniform(source, must->tensor, must->kind == SWI_MUST_ZERO ? 0 : must->pattern,
                       buffer, LOOK_BYTES, holds, first, err);
}

/* What is looked at stands for all of its copies: a constant, a padding, one of a tied pair. */
static sw_status copies_agree(const swi_mapping *m, const sw_checkpoint *derived, uint32_t tensor,
                              const char *name, sw_error *err)
{
    bool equal = true;
    swi_quoted q;
    if (!swi_tensor_has_replicas(sw_checkpoint_catalog(derived), tensor))
        return SW_OK;
    sw_status st = swi_replica_check(derived, tensor, m->in.report, &equal, err);
    if (st == SW_OK && !equal)
        st = swi_fail(err, SW_ERR_CONFLICT,
                      "tensor \"%s\": ranks saved copies that differ, and nothing tells which is "
                      "right; leave it out with --drop",
                      swi_quote_str(&q, name));
    return st;
}

sw_status swi_mapping_check(const swi_mapping *m, const sw_checkpoint *derived, sw_error *err)
{
    const swi_source source = swi_checkpoint_source(derived);
    void *buffer = NULL;
    sw_status st = m->must_count > 0 ? swi_alloc_array(LOOK_BYTES, 1, &buffer, err) : SW_OK;
    for (size_t i = 0; st == SW_OK && i < m->must_count; i++) {
        bool holds = false;
        uint64_t first = 0;
        st = copies_agree(m, derived, m->musts[i].tensor, m->musts[i].name, err);
        if (st == SW_OK)
            st = look(&source, &m->musts[i], buffer, &holds, &first, err);
        if (st == SW_OK && !holds)
            st = differs(source.catalog, &m->musts[i], first, err);
    }
    free(buffer);
    return st;
}
