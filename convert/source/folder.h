/* The other files of a checkpoint's folder, at any depth. */
#ifndef SW_CONVERT_FOLDER_H
#define SW_CONVERT_FOLDER_H

#include "framework.h"

/*
 * Looks through every regular file under the checkpoint's folder that its catalog does not read
 * (and that is not its index) for unsafe content. Folders behind links are not entered;
 * what may not be read is said ("unreadable-file", a warning).
 */
SW_MUST_USE sw_status swi_folder_check(const sw_checkpoint *checkpoint, const sw_limits *limits,
                                       sw_report *report, sw_tally *tally, sw_error *err);

#endif
