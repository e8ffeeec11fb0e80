/* Comparing what a torch.save archive carries of CRCs, and what lies between its records. */
#include "container/torch_internal.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"

/* Errors that say nothing about the file. */
static bool is_ours(sw_status status)
{
    return status == SW_ERR_NOMEM || status == SW_ERR_IO || status == SW_ERR_CANCELED ||
           status == SW_ERR_ARG;
}

static swi_finding_in finding_at(const swi_torch_checking *c, sw_status status, const char *code,
                                 const char *record, bool has_offset, uint64_t offset)
{
    const char *name = c->label != NULL ? c->label->name : NULL;
    return (swi_finding_in){.severity = SW_DEFECT,
                            .status = status,
                            .code = code,
                            .file = c->label != NULL ? c->label->file : NULL,
                            .tensor = name != NULL ? name : record,
                            .has_offset = has_offset || c->decoded,
                            .offset_bytes = c->decoded ? c->frame_offset : offset};
}

sw_status swi_torch_finding(const swi_torch_checking *c, const char *code, const sw_error *cause,
                            sw_error *err)
{
    if (is_ours(cause->status)) {
        if (err != NULL)
            *err = *cause;
        return cause->status;
    }
    swi_finding_in in =
        finding_at(c, cause->status, code, NULL, cause->has_offset, cause->offset_bytes);
    if (cause->status == SW_ERR_UNSAFE)
        in.severity = SW_DANGER;
    return swi_report_error(c->report, &in, cause, err);
}

static sw_status report_mismatch(const swi_torch_checking *c, const swi_zip_entry *e, uint64_t at,
                                 uint32_t real, sw_error *err)
{
    swi_quoted q;
    swi_finding_in in = finding_at(c, SW_ERR_CORRUPT, "crc-mismatch", e->name, true, at);
    return swi_report_add(c->report, &in, err,
                          "record %s (%" PRIu64 " bytes at %" PRIu64 "%s): its CRC-32 is %08" PRIx32
                          ", the archive says %08" PRIx32,
                          swi_quote_str(&q, e->name), e->bytes, at,
                          c->decoded ? " of the decoded bytes" : "", real, e->crc32);
}

static sw_status check_stray(const swi_torch_checking *c, const swi_zip_entry *e, uint64_t end,
                             uint64_t stray, sw_error *err)
{
    swi_quoted q;
    if (stray == 0)
        return SW_OK;
    swi_finding_in in = finding_at(c, SW_OK, "stray-bytes", e->name, true, end - stray);
    in.severity = SW_WARNING;
    return swi_report_add(c->report, &in, err,
                          "%" PRIu64 " bytes behind record %s belong to nothing", stray,
                          swi_quote_str(&q, e->name));
}

/* Whether the record is a storage whose content is checked elsewhere. */
static bool left_out(const swi_torch_checking *c, const swi_zip_entry *e)
{
    const swi_torch_file *tf = c->but_storages;
    if (tf == NULL || tf->root == NULL || strncmp(e->name, tf->root, tf->root_size) != 0)
        return false;
    const char *name = e->name + tf->root_size;
    return strncmp(name, "data/", 5) == 0 &&
           swi_names_find(tf->keys, name + 5, strlen(name + 5)) >= 0;
}

/* One record: headers, content, descriptor. What is wrong with it is a finding. */
static sw_status check_record(const swi_torch_checking *c, const swi_zip *zip,
                              const swi_zip_entry *e, uint64_t *findings, sw_error *err)
{
    uint64_t at, stray = 0;
    uint32_t real = 0;
    bool computed, apart = left_out(c, e);
    sw_error cause = {0};
    sw_status st = swi_zip_payload(zip, c->reader, e, &at, &cause);
    if (st == SW_OK && !apart)
        st = swi_zip_crc(zip, c->reader, e, at, c->buffer, c->buffer_bytes, &real, &cause);
    if (st != SW_OK) {
        ++*findings;
        return swi_torch_finding(c, "bad-archive", &cause, err);
    }
    if (apart) {
        st = SW_OK;
    } else if (e->method != 0) {
        c->tally->unchecked_bytes += e->bytes; /* the CRC is that of the inflated content */
    } else if (!swi_zip_crc_agrees(e, real, &computed)) {
        ++*findings;
        c->tally->differing_bytes += e->bytes;
        st = report_mismatch(c, e, at, real, err);
    } else if (computed) {
        c->tally->checked_bytes += e->bytes;
    } else {
        c->tally->unchecked_bytes += e->bytes;
    }
    if (st != SW_OK)
        return st;
    st = swi_zip_check_descriptor(zip, c->reader, e, at, &stray, &cause);
    if (st != SW_OK) {
        ++*findings;
        return swi_torch_finding(c, "bad-archive", &cause, err);
    }
    return check_stray(c, e, swi_zip_entry_end(zip, e), stray, err);
}

/* Some records have a CRC and some contents that are not empty have none: torch's skip_data. */
static sw_status check_skipped(const swi_torch_checking *c, const swi_zip *zip, sw_error *err)
{
    const swi_zip_entry *without = NULL;
    bool with = false;
    size_t count = swi_zip_count(zip);
    for (size_t i = 0; i < count; i++) {
        const swi_zip_entry *e = swi_zip_at(zip, i);
        with |= e->crc32 != 0;
        if (e->crc32 == 0 && e->bytes > 0 && without == NULL)
            without = e;
    }
    if (!with || without == NULL)
        return SW_OK;
    swi_quoted q;
    swi_finding_in in = finding_at(c, SW_OK, "crc-missing", without->name, true,
                                   c->offset + without->header_offset_bytes);
    in.severity = SW_WARNING;
    return swi_report_add(c->report, &in, err,
                          "record %s has no CRC-32 while others have: it may have been saved "
                          "without its data (skip_data)",
                          swi_quote_str(&q, without->name));
}

sw_status swi_torch_check_records(const swi_torch_checking *c, swi_zip *zip, uint64_t *findings,
                                  sw_error *err)
{
    size_t count = swi_zip_count(zip);
    sw_status st = SW_OK;
    for (size_t i = 0; i < count && st == SW_OK; i++)
        st = check_record(c, zip, swi_zip_at(zip, i), findings, err);
    /* of storages that are checked elsewhere it is said elsewhere what they lack */
    return st == SW_OK && c->but_storages == NULL ? check_skipped(c, zip, err) : st;
}

/* Opens the archive that was checked; what is wrong beyond it is a finding. */
static sw_status check_content(const swi_torch_checking *c, swi_zip *zip, uint64_t findings,
                               swi_torch_file **out, sw_error *err)
{
    sw_error cause = {0};
    swi_pickle_unsafe unsafe = {0};
    const swi_blob_label none = {0}, *label = c->label != NULL ? c->label : &none;
    sw_status st =
        swi_torch_open_zip(c->reader, c->file, c->offset, c->bytes, zip, &unsafe, out, &cause);
    if (unsafe.total > 0) {
        sw_status st2 = swi_pickle_report(&unsafe, label->file, label->name, c->report, err);
        if (st2 != SW_OK)
            return st2;
    }
    /* A damaged record was reported as such; that it cannot be parsed then is no news. */
    if (st != SW_OK && (findings == 0 || is_ours(st)))
        return swi_torch_finding(c, "bad-item", &cause, err);
    return SW_OK;
}

sw_status swi_torch_check_open(const swi_torch_checking *c, swi_torch_file **out, sw_error *err)
{
    swi_zip *zip = NULL;
    sw_error cause = {0};
    swi_torch_file *tf = NULL;
    uint64_t findings = 0;
    sw_status st = swi_zip_open(c->reader, c->file, c->offset, c->bytes, &zip, &cause);
    if (st == SW_ERR_CORRUPT && strcmp(cause.clause, "ZIP-1") == 0)
        st = swi_torch_open(c->reader, c->file, c->offset, c->bytes, &tf, &cause);
    if (st != SW_OK || zip == NULL) {
        swi_torch_free(tf);
        *out = NULL;
        return swi_torch_finding(c, "bad-archive", &cause, err);
    }
    st = swi_torch_check_records(c, zip, &findings, err);
    if (st != SW_OK) {
        swi_zip_free(zip);
        return st;
    }
    st = check_content(c, zip, findings, &tf, err); /* takes zip over */
    if (st != SW_OK) {
        swi_torch_free(tf);
        return st;
    }
    *out = tf;
    return SW_OK;
}

sw_status swi_torch_check(const swi_reader *reader, uint32_t file, uint64_t offset, uint64_t bytes,
                          const swi_blob_label *label, uint8_t *buffer, size_t buffer_bytes,
                          sw_report *report, swi_blob_check *tally, sw_error *err)
{
    const swi_torch_checking c = {.reader = reader,
                                  .file = file,
                                  .offset = offset,
                                  .bytes = bytes,
                                  .label = label,
                                  .buffer = buffer,
                                  .buffer_bytes = buffer_bytes,
                                  .report = report,
                                  .tally = tally};
    swi_torch_file *tf = NULL;
    sw_status st = swi_torch_check_open(&c, &tf, err);
    swi_torch_free(tf);
    return st;
}
