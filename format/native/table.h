/* tensors.swt of a native checkpoint (NAT-8): what tensors there are, as columns that need no
 * parsing. */
#ifndef SW_NATIVE_TABLE_H
#define SW_NATIVE_TABLE_H

#include "base/buf.h"
#include "codec/digest.h"
#include "shardwright_format.h"

typedef struct swi_native_tensor {
    const char *name; /* terminated when read */
    size_t name_size;
    sw_dtype dtype;
    sw_role role;
    uint32_t layout;
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
    bool has_digest;
    swi_digest digest;
} swi_native_tensor;

/* The file's bytes, appended. Tensors ascend by name (SW_ERR_ARG: they do not). */
SW_MUST_USE sw_status swi_native_table_write(const swi_native_tensor *tensors, uint32_t count,
                                             swi_buf *out, sw_error *err);

/* A view of the bytes of the file, checked as a whole. */
typedef struct swi_native_table {
    const uint8_t *data; /* borrowed */
    uint32_t count, shape_numbers;
    uint64_t name_bytes;
    const uint8_t *name_end, *shape_end, *layout, *dtype, *role, *flags, *shapes, *digests, *names;
} swi_native_table;
/* SW_ERR_CORRUPT with the position of what is wrong. `layouts`: how many there are. Checked by up
 * to `threads` threads. */
SW_MUST_USE sw_status swi_native_table_read(const uint8_t *data, size_t size, uint32_t layouts,
                                            uint32_t threads, swi_native_table *out, sw_error *err);
/* i < count. */
void swi_native_table_at(const swi_native_table *table, uint32_t i, swi_native_tensor *out);
/* Type and shape alone, sooner; returns how many axes. */
uint32_t swi_native_table_form(const swi_native_table *table, uint32_t i, sw_dtype *dtype,
                               int64_t shape[SW_MAX_AXES]);
/* Bisects; -1: there is none. */
int64_t swi_native_table_find(const swi_native_table *table, const char *name, size_t size);

#endif
