/* What verifying a native checkpoint looks at beside its chunks: padding, assets, files that nobody
 * listed. */
#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "base/text.h"
#include "check/vouched.h"
#include "native/native.h"
#include "native/section.h"
#include "pool.h"

typedef struct auditing {
    const swi_audit_in *in;
    const swi_native_kept *kept;
} auditing;

static sw_status finding(const auditing *a, sw_status status, const char *code, const char *file,
                         uint64_t at, const char *text, sw_error *err)
{
    const swi_finding_in in = {.severity = status == SW_OK ? SW_WARNING : SW_DEFECT,
                               .status = status,
                               .code = code,
                               .file = file,
                               .has_offset = true,
                               .offset_bytes = at};
    return swi_report_add(a->in->report, &in, err, "%s", text);
}

static sw_status note(const auditing *a, const char *path, uint64_t bytes, uint64_t checked,
                      sw_error *err)
{
    const swi_vouched_file f = {.path = path, .bytes = bytes, .checked = checked};
    return swi_vouched_add(a->in->vouched, &f, err);
}

/* Some bytes of the file are not those that were written. */
static sw_status note_differing(const auditing *a, const char *path, uint64_t bytes,
                                uint64_t checked, uint64_t differing, sw_error *err)
{
    const swi_vouched_file f = {
        .path = path, .bytes = bytes, .checked = checked, .differing = differing};
    return swi_vouched_add(a->in->vouched, &f, err);
}

/* All of a shard file but its chunks was compared when it was opened; its padding is now. */
static sw_status audit_shard(const auditing *a, size_t i, sw_error *err)
{
    const swi_native_shard *s = &a->kept->shards[i];
    const swi_native_file *f = &a->kept->manifest.shards[i];
    const swi_source source = swi_checkpoint_source(a->in->checkpoint);
    uint64_t at = 0, chunk_bytes = 0;
    bool zero = true;
    for (uint64_t c = 0; c < s->chunk_count; c++) {
        swi_native_chunk chunk;
        swi_native_chunk_at(s, c, &chunk);
        chunk_bytes += chunk.stored_bytes;
    }
    sw_status st = swi_native_padding_check(s, source.reader, (uint32_t)i, &zero, &at, err);
    if (st != SW_OK)
        return swi_error_prefix(err, "%s", f->file);
    if (zero)
        return note(a, f->file, f->bytes, f->bytes - chunk_bytes, err);
    const uint64_t padding = s->values_at - SWI_NATIVE_HEAD_BYTES - chunk_bytes;
    st = note_differing(a, f->file, f->bytes, f->bytes - chunk_bytes - padding, padding, err);
    return st == SW_OK ? finding(a, SW_ERR_CORRUPT, "padding", f->file, at,
                                 "a byte between chunks is not zero (NAT-9)", err)
                       : st;
}

static sw_status audit_asset(const auditing *a, const swi_native_file *f, sw_error *err)
{
    uint8_t *data = NULL;
    sw_error cause = {0};
    sw_status st =
        swi_native_file_read(swi_checkpoint_store(a->in->checkpoint), f, &a->kept->limits,
                             swi_work_threads(a->in->work), &data, &cause);
    free(data);
    if (st == SW_ERR_NOTFOUND)
        return finding(a, SW_ERR_INCOMPLETE, "missing-file", f->file, 0,
                       "the manifest lists it and it is not there", err);
    if (st == SW_ERR_CORRUPT) {
        st = note_differing(a, f->file, f->bytes, 0, f->bytes, err);
        return st == SW_OK ? finding(a, SW_ERR_CORRUPT, "digest-mismatch", f->file, 0,
                                     "its bytes are not those that the manifest vouches for", err)
                           : st;
    }
    if (st != SW_OK) {
        if (err != NULL)
            *err = cause;
        return st;
    }
    return note(a, f->file, f->bytes, f->bytes, err);
}

static bool is_listed(const auditing *a, const char *name)
{
    const swi_native_manifest *m = &a->kept->manifest;
    if (name[0] == '.' || swi_has_suffix(name, ".sig") || strcmp(name, SWI_NATIVE_MANIFEST) == 0 ||
        strcmp(name, m->table.file) == 0 || strcmp(name, m->state.file) == 0)
        return true;
    for (size_t i = 0; i < m->shard_count; i++)
        if (strcmp(name, m->shards[i].file) == 0)
            return true;
    for (size_t i = 0; i < m->asset_count; i++)
        if (strcmp(name, m->assets[i].file) == 0)
            return true;
    return false;
}

/* A shard file more is one of another save; other files are only said. */
static sw_status audit_entry(const auditing *a, const swi_listing_entry *e, sw_error *err)
{
    if (e->kind == SWI_ENTRY_DIR || is_listed(a, e->name))
        return SW_OK;
    const bool shard = swi_has_suffix(e->name, ".sws");
    return finding(a, shard ? SW_ERR_CONFLICT : SW_OK, "unlisted-file", e->name, 0,
                   shard ? "a shard file that the manifest does not list: of another save"
                         : "the manifest does not list it: nothing vouches for it",
                   err);
}

sw_status swi_native_audit(const swi_audit_in *in, sw_error *err)
{
    const auditing a = {.in = in, .kept = swi_checkpoint_kept(in->checkpoint)};
    const swi_native_manifest *m = &a.kept->manifest;
    const swi_listing *listing = swi_checkpoint_listing(in->checkpoint);
    const swi_listing_entry *manifest = swi_listing_find(listing, SWI_NATIVE_MANIFEST);
    sw_status st = note(&a, m->table.file, m->table.bytes, m->table.bytes, err);
    if (st == SW_OK)
        st = note(&a, m->state.file, m->state.bytes, m->state.bytes, err);
    if (st == SW_OK && manifest != NULL)
        st = note(&a, SWI_NATIVE_MANIFEST, manifest->bytes, manifest->bytes, err);
    for (size_t i = 0; st == SW_OK && i < a.kept->shard_count; i++)
        st = audit_shard(&a, i, err);
    for (size_t i = 0; st == SW_OK && i < m->asset_count; i++)
        st = audit_asset(&a, &m->assets[i], err);
    for (size_t i = 0; st == SW_OK && i < swi_listing_count(listing); i++)
        st = audit_entry(&a, swi_listing_at(listing, i), err);
    return st;
}
