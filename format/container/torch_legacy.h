/*
 * The form of torch.save before 1.6, which is still written on request: pickles of a magic number,
 * a version, facts of the system, the object and the list of its storages' keys; then the storages,
 * each its number of elements and its bytes, always little-endian. No checksum anywhere. Clauses
 * TL-n are those of specs/torch_legacy.md.
 */
#ifndef SW_CONTAINER_TORCH_LEGACY_H
#define SW_CONTAINER_TORCH_LEGACY_H

#include "container/torch_file.h"

/*
 * As swi_torch_open_file, for this form: the pickles are parsed, the storages found and measured.
 * Bytes behind the last storage are no failure: see swi_torch_end_bytes.
 */
SW_MUST_USE sw_status swi_torch_open_legacy(const swi_reader *reader, uint32_t file, uint64_t bytes,
                                            swi_pickle_unsafe *keep, swi_torch_file **out,
                                            sw_error *err);

#endif
