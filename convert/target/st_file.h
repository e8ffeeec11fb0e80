/* One safetensors file in a target's layout; the pieces of its tensors are the caller's to add. */
#ifndef SW_CONVERT_ST_FILE_H
#define SW_CONVERT_ST_FILE_H

#include "container/safetensors.h"
#include "framework.h"

typedef struct swi_st_file {
    const char *path;
    swi_st_tensor *tensors; /* name, dtype, axes, shape; bytes and offset_bytes are filled in */
    size_t count;
    const char *const *metadata; /* pairs key, value ... */
    size_t pairs;
} swi_st_file;

/*
 * Adds the file and its header. Its tensors lie by element type, larger ones first so that each is
 * aligned, then by name; their order in `tensors` stays.
 */
SW_MUST_USE sw_status swi_st_file_lay(swi_layout *layout, const swi_st_file *in, uint32_t *file,
                                      sw_error *err);

/* HF-4: what the format cannot hold is refused by name, all of it listed in the report. */
SW_MUST_USE sw_status swi_st_file_check_dtypes(const swi_target_in *in, sw_error *err);

/* "5GB", "500MB", "1000": decimal units, as the ecosystem's own tools count; more than 0. */
bool swi_parse_size(const char *text, size_t size, uint64_t *out);

/* A small file of known bytes, such as an asset. */
SW_MUST_USE sw_status swi_lay_bytes(swi_layout *layout, const char *path, const void *data,
                                    size_t size, sw_error *err);

#endif
