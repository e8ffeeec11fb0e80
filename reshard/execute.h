/*
 * Moving the bytes of a plan: a fixed pool of threads under a byte budget, windows read, cast and
 * written while they are in cache; the CRC of every source record that passes whole is compared on
 * the fly. Memory does not grow with tensors or checkpoint.
 */
#ifndef SW_RESHARD_EXECUTE_H
#define SW_RESHARD_EXECUTE_H

#include "codec/digest.h"
#include "io/store.h"
#include "plan.h"

/*
 * Opens destination file `file` of the layout for writing (made and of its full size), and is given
 * it back when its last byte is written (to sync, journal and close), in the order of file ids.
 * Called from any thread: one open at a time and one finish at a time, but an open may come while a
 * finish runs, so that a sync does not hold up the next file. Files that were opened and not given
 * back when the run fails are closed by the executor.
 */
typedef struct swi_sink {
    void *ctx;
    sw_status (*open)(void *ctx, uint32_t file, swi_file **out, sw_error *err);
    sw_status (*finish)(void *ctx, uint32_t file, swi_file *written, sw_error *err);
    bool (*skip)(const void *ctx, uint32_t file); /* finished by an earlier run */
    /*
     * Room for the content digest of each destination tensor, in the order of the layout's catalog:
     * of what is written, computed on the way. NULL: not wanted. With it the tensors of files that
     * are skipped are read too. Not all are set when the run fails. Made files need it. A layout
     * with packed or made files skips none.
     */
    swi_digest *digests;
} swi_sink;

/*
 * A CRC that differs is SW_ERR_CORRUPT naming file, tensor, expected and found; every one found
 * before the stop is also a finding "crc-mismatch". Nothing may be published or resumed from then:
 * a record can reach over several files, so finished ones may hold wrong bytes.
 */
SW_MUST_USE sw_status swi_execute(const swi_source *source, const swi_layout *layout,
                                  const swi_sink *sink, const sw_work_options *work,
                                  sw_report *report, sw_tally *tally, sw_error *err);

/* The largest window that the budget gives for this job (see swi_plan_make). */
uint64_t swi_execute_window_bytes(const sw_work_options *work, const sw_catalog *source,
                                  const swi_layout *layout);

#endif
