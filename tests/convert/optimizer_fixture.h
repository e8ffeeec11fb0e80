/* State dicts with optimizers: checkpoints of tensors with given shapes, and pickles as text. */
#ifndef TESTS_CONVERT_OPTIMIZER_FIXTURE_H
#define TESTS_CONVERT_OPTIMIZER_FIXTURE_H

#include <ctype.h>

#include "convert/state_fixture.h"

/* "model/a.weight 4x3, opt/x 4, opt/s": tensors 0, 1, 2; of no size: a scalar. */
static inline sw_checkpoint *checkpoint_of(const char *dir, const char *tensors)
{
    dcp_world *w = dcp_begin();
    while (*tensors != '\0') {
        char path[96];
        int64_t shape[4];
        uint32_t axes = 0;
        size_t n = strcspn(tensors, " ,");
        snprintf(path, sizeof path, "%.*s", (int)n, tensors);
        tensors += n;
        tensors += strspn(tensors, " ");
        while (isdigit((unsigned char)*tensors)) {
            char *end;
            shape[axes++] = strtol(tensors, &end, 10);
            tensors = end + (*end == 'x');
        }
        dcp_whole(w, path, 0, axes, shape, 0);
        tensors += strspn(tensors, ", ");
    }
    dcp_end(w, dir);
    return open_good(dir);
}

/* ---- pieces of pickles ---- */

#define DICT(items) "EMPTY_DICT ; MARK ; " items "SETITEMS ; "
#define LIST(items) "EMPTY_LIST ; MARK ; " items "APPENDS ; "
#define S(text) "BINUNICODE '" text "' ; "
#define I(number) "BININT1 " #number " ; "
#define T(number) "BININT1 " #number " ; BINPERSID ; "
#define PICKLE(value) "PROTO 4 ; " value "STOP"
#define OPTIMIZER(states, groups) DICT(S("state") DICT(states) S("param_groups") LIST(groups))

#endif
