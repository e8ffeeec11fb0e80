/* What may become of the place that a destination's path names. */
#ifndef SW_CONVERT_DESTINATION_H
#define SW_CONVERT_DESTINATION_H

#include "framework.h"

/*
 * Refuses a destination inside the source folder, one that holds the source, and the source itself
 * (SW_ERR_ARG), a device, pipe or socket (SW_ERR_ARG); for `one_file` a path that names a folder
 * (SW_ERR_ARG). With `overwrite` also what is there and does not look like an earlier output
 * (SW_ERR_EXISTS): a folder that is neither empty nor a checkpoint without folders; for `one_file`
 * a file that is neither empty nor a checkpoint. What is wrong with the path itself is not said
 * here.
 */
SW_MUST_USE sw_status swi_destination_check(const sw_checkpoint *source, const char *path,
                                            bool one_file, bool overwrite, sw_error *err);
/* Refuses a digest list (SW_ERR_ARG) inside of the destination or of the source's folder. */
SW_MUST_USE sw_status swi_destination_check_list(const sw_checkpoint *source, const char *dest,
                                                 const char *path, sw_error *err);

#endif
