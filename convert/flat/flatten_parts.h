/* A flattening under way, for flatten.c and flatten_optimizer.c. */
#ifndef SW_CONVERT_FLAT_FLATTEN_PARTS_H
#define SW_CONVERT_FLAT_FLATTEN_PARTS_H

#include "flat/flatten.h"
#include "shaped.h"

struct swi_flattening {
    const sw_checkpoint *source;
    const sw_catalog *catalog; /* the source's */
    swi_builder *builder;
    uint8_t *buffer; /* of SWI_FLAT_LOOK_BYTES, for comparing; NULL: not needed yet */
};
#define SWI_FLAT_LOOK_BYTES ((size_t)1 << 18)

/* Number r of the rows, made of the tensors by shape, all of which are there. */
SW_MUST_USE sw_status swi_flatten_row(swi_flattening *f, const swi_flat_module *module, size_t r,
                                      const int64_t *tensors, swi_shaped *out, sw_error *err);
/* "UNIT._flat_param": appended, terminated. */
SW_MUST_USE sw_status swi_flatten_name(const swi_row *row, swi_buf *out, sw_error *err);
/* Two tensors of the source, of one type and shape, bit for bit. */
SW_MUST_USE sw_status swi_flatten_equal(swi_flattening *f, uint32_t a, uint32_t b, bool *equal,
                                        uint64_t *first, sw_error *err);

#endif
