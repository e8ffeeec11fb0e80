/* What may become of the place that a destination's path names. */
#ifndef SW_CONVERT_DESTINATION_H
#define SW_CONVERT_DESTINATION_H

#include "framework.h"

/*
 * Refuses a destination inside the source folder, and one that holds the source (SW_ERR_ARG); with
 * `overwrite` also a folder there that does not look like an earlier output: neither empty nor a
 * checkpoint without folders (SW_ERR_EXISTS). What is wrong with the path itself is not said here.
 */
SW_MUST_USE sw_status swi_destination_check(const sw_checkpoint *source, const char *path,
                                            bool overwrite, sw_error *err);

#endif
