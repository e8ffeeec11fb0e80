/* What a path is really called: without links, "." and "..". */
#ifndef SW_CONVERT_REAL_PATH_H
#define SW_CONVERT_REAL_PATH_H

#include "base/error.h"

/* SW_ERR_NOTFOUND, SW_ERR_IO. Free *out with free(). */
SW_MUST_USE sw_status swi_real_path(const char *path, char **out, sw_error *err);
/* What is behind the last '/'; in the path. */
const char *swi_last_part(const char *path);

#endif
