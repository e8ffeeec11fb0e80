/* A file without a name, for bytes that nobody else needs; gone when it is closed. */
#ifndef SW_IO_TEMP_H
#define SW_IO_TEMP_H

#include "io/store.h"

/* Read and written as any file; made in directory `dir`. */
SW_MUST_USE sw_status swi_temp_open(const char *dir, swi_file **out, sw_error *err);

#endif
