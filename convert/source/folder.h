/* The other files of a checkpoint's folder, at any depth. */
#ifndef SW_CONVERT_FOLDER_H
#define SW_CONVERT_FOLDER_H

#include "framework.h"

struct swi_vouched;

/*
 * Looks through every regular file under the checkpoint's folder that its catalog does not read
 * (and that is not its index) for unsafe content. Folders behind links are not entered;
 * what may not be read is said ("unreadable-file", a warning). Each file goes into `vouched`.
 */
SW_MUST_USE sw_status swi_folder_check(const sw_checkpoint *checkpoint, sw_report *report,
                                       struct swi_vouched *vouched, sw_error *err);

#endif
