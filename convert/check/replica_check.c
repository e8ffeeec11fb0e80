#include "check/replica_check.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/report.h"
#include "base/text.h"
#include "check/coordinates.h"
#include "replicas.h"

#define BUFFER_BYTES ((size_t)1 << 20)
#define COUNTERS_MAX 16 /* a rank of another step has all of them otherwise */

/* Another file that holds this element, or "". */
static const char *other_file(const sw_catalog *catalog, uint32_t tensor, uint64_t flat,
                              uint32_t copy)
{
    sw_tensor_info info;
    sw_catalog_tensor(catalog, tensor, &info);
    for (uint64_t i = 0; i < info.piece_count; i++) {
        swi_piece piece, boxes[SWI_INTERVAL_MAX];
        swi_blob blob;
        swi_tensor_piece(catalog, tensor, i, &piece);
        if (piece.blob == copy || swi_piece_in_interval(&piece, flat, flat + 1, boxes) == 0)
            continue;
        swi_catalog_blob(catalog, piece.blob, &blob);
        return swi_catalog_path(catalog, blob.file);
    }
    return "";
}

static sw_status say(const sw_checkpoint *checkpoint, uint32_t tensor, uint64_t first,
                     uint32_t copy, sw_report *report, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(checkpoint);
    sw_tensor_info info;
    swi_blob blob;
    char where[SWI_COORDINATES_TEXT];
    sw_catalog_tensor(catalog, tensor, &info);
    swi_catalog_blob(catalog, copy, &blob);
    swi_coordinates_text(&info, first, where);
    swi_finding_in in = {.severity = SW_DEFECT,
                         .status = SW_ERR_CONFLICT,
                         .code = "replicas-differ",
                         .file = swi_catalog_path(catalog, blob.file),
                         .tensor = info.name};
    swi_quoted q;
    return swi_report_add(report, &in, err,
                          "the copy in this file differs from the one in %s, first at %s: nothing "
                          "tells which is right",
                          swi_quote_str(&q, other_file(catalog, tensor, first, copy)), where);
}

sw_status swi_replica_check(const sw_checkpoint *checkpoint, uint32_t tensor, sw_report *report,
                            bool *equal, sw_error *err)
{
    swi_source source = swi_checkpoint_source(checkpoint);
    uint64_t first = 0;
    uint32_t copy = 0;
    uint8_t *buffer = NULL;
    *equal = true;
    if (!swi_tensor_has_replicas(source.catalog, tensor) ||
        swi_tensor_defect(source.catalog, tensor) != SW_OK)
        return SW_OK;
    sw_status st = swi_alloc_array(BUFFER_BYTES, 1, (void **)&buffer, err);
    if (st == SW_OK)
        st = swi_replicas_compare(&source, tensor, buffer, BUFFER_BYTES, equal, &first, &copy, err);
    if (st == SW_OK && !*equal)
        st = say(checkpoint, tensor, first, copy, report, err);
    free(buffer);
    return st;
}

static bool is_counter(const sw_tensor_info *t)
{
    const char *dot = strrchr(t->name, '.');
    return t->role == SW_ROLE_OPTIMIZER && t->elements == 1 && dot != NULL &&
           strcmp(dot, ".step") == 0;
}

sw_status swi_counters_check(const sw_checkpoint *checkpoint, sw_report *report, bool *equal,
                             sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(checkpoint);
    sw_tensor_info t;
    size_t met = 0;
    sw_status st = SW_OK;
    *equal = true;
    for (size_t i = 0;
         st == SW_OK && *equal && met < COUNTERS_MAX && sw_catalog_tensor(catalog, i, &t); i++) {
        if (!is_counter(&t) || !swi_tensor_has_replicas(catalog, (uint32_t)i))
            continue;
        met++;
        st = swi_replica_check(checkpoint, (uint32_t)i, report, equal, err);
    }
    return st;
}
