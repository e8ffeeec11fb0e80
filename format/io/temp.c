#include "io/temp.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define TRIES 1000u

sw_status swi_temp_open(const char *dir, swi_file **out, sw_error *err)
{
    swi_store *store = NULL;
    swi_file *file = NULL;
    char name[64];
    sw_status status = swi_store_open_posix(dir, &store, err);
    if (status != SW_OK)
        return status;
    for (uint32_t i = 0; i < TRIES; i++) {
        (void)snprintf(name, sizeof name, ".shardwright-%jd-%" PRIu32, (intmax_t)getpid(), i);
        status = swi_store_create(store, name, &file, err);
        if (status != SW_ERR_EXISTS)
            break;
    }
    if (status == SW_OK)
        status = swi_store_remove(store, name, err);
    swi_store_close(store);
    if (status != SW_OK) {
        swi_file_close(file);
        return status;
    }
    *out = file;
    return SW_OK;
}
