/* Making errors. The record is public (sw_error); these are the ways to fill it. */
#ifndef SW_BASE_ERROR_H
#define SW_BASE_ERROR_H

#include "shardwright_format.h"

/*
 * Fills *err (when not NULL) and returns `status`, so that a failure is one statement:
 *     return swi_fail(err, SW_ERR_CORRUPT, "%s: needs %" PRIu64 " bytes", path, need);
 * Text that does not fit is cut at a character border. Foreign text must be escaped first
 * (base/text.h).
 */
sw_status swi_fail(sw_error *err, sw_status status, const char *fmt, ...) SW_PRINTF(3, 4);

/*
 * The same with the clause of a specification and the position in the file. The text ends with
 * " [CLAUSE]", whatever is put before it later.
 */
sw_status swi_fail_at(sw_error *err, sw_status status, const char *clause, uint64_t offset_bytes,
                      const char *fmt, ...) SW_PRINTF(5, 6);

/* SW_ERR_IO with errno and its text: "FMT: No space left on device". */
sw_status swi_fail_errno(sw_error *err, int sys_errno, const char *fmt, ...) SW_PRINTF(3, 4);

/* SW_ERR_NOMEM; the text never allocates. */
sw_status swi_fail_nomem(sw_error *err);

/* Puts "FMT: " before the text and returns err's status (SW_OK stays SW_OK). Reads outside-in. */
sw_status swi_error_prefix(sw_error *err, const char *fmt, ...) SW_PRINTF(2, 3);

/*
 * Whether it tells of this machine rather than of what lies on disk: no memory, canceled, I/O other
 * than what permissions forbid.
 */
bool swi_error_of_machine(const sw_error *err);

/* Whether who met it was kept from working by want of memory, by I/O or by a limit: nothing is said
 * of what was to be read. */
bool swi_could_not_work(sw_status status);

/* Moves the offset when an inner parser counts from elsewhere. */
void swi_error_shift(sw_error *err, uint64_t base_offset_bytes);

#endif
