#include "check/real_path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

sw_status swi_real_path(const char *path, char **out, sw_error *err)
{
    swi_quoted q;
    char *real = realpath(path, NULL);
    if (real == NULL) {
        int why = errno;
        sw_status status = swi_fail_errno(err, why, "%s: cannot open", swi_quote_str(&q, path));
        if (why == ENOENT || why == ENOTDIR)
            status = SW_ERR_NOTFOUND;
        if (err != NULL)
            err->status = status;
        return status;
    }
    *out = real;
    return SW_OK;
}

const char *swi_last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}
