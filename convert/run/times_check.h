/* When the files of a training checkpoint were written, against each other. */
#ifndef SW_CONVERT_TIMES_CHECK_H
#define SW_CONVERT_TIMES_CHECK_H

#include "framework.h"

/*
 * A save writes its data within a while and its index last. Where the times of the files fall into
 * two groups that lie far apart, and data is older or newer than the index with the rest, a save
 * into an older one's folder may have been cut: "files-of-two-times". Copying changes times too, so
 * that it is only a note; gaps that copying the largest file could make are none.
 */
SW_MUST_USE sw_status swi_times_check(const sw_checkpoint *checkpoint, sw_report *report,
                                      sw_error *err);

#endif
