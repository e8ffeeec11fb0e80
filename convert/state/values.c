#include "state/values.h"

#include "base/report.h"

static sw_status look(const sw_checkpoint *checkpoint, size_t i, sw_report *report, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(checkpoint);
    sw_value_info info;
    swi_blob blob;
    sw_value_graph *graph = NULL;
    sw_value root;
    sw_error cause = {0};
    sw_catalog_value_at(catalog, i, &info);
    swi_catalog_blob(catalog, swi_value_blob(catalog, i), &blob);
    sw_status st = sw_checkpoint_value(checkpoint, i, &graph, &root, &cause);
    sw_value_graph_free(graph);
    if (st == SW_OK)
        return SW_OK;
    if (st == SW_ERR_NOMEM || st == SW_ERR_IO) {
        if (err != NULL)
            *err = cause;
        return st;
    }
    bool unsafe = st == SW_ERR_UNSAFE;
    swi_finding_in in = {
        .severity = unsafe ? SW_DANGER : SW_WARNING,
        .status = st,
        .code = unsafe ? "unsafe-pickle" : "unreadable-value",
        .file = swi_catalog_path(catalog, blob.file),
        .tensor = info.name,
        .has_offset = cause.has_offset,
        .offset_bytes = cause.offset_bytes,
    };
    return swi_report_error(report, &in, &cause, err);
}

sw_status swi_values_scan(const sw_checkpoint *checkpoint, sw_report *report, sw_error *err)
{
    size_t count = sw_catalog_value_count(sw_checkpoint_catalog(checkpoint));
    for (size_t i = 0; i < count; i++) {
        sw_status st = look(checkpoint, i, report, err);
        if (st != SW_OK)
            return st;
    }
    return SW_OK;
}
