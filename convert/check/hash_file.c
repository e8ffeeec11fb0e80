/* Lists of content digests as files (specs/digest.md, DIG-10, DIG-15). */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "check/hash.h"

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

sw_status swi_digests_read(const char *path, const sw_open_options *options, swi_digest_list *out,
                           sw_error *err)
{
    const sw_limits limits = sw_limits_resolve(options ? options->limits : NULL);
    uint8_t *data = NULL;
    size_t size = 0;
    swi_quoted room;
    sw_status st = swi_read_file(path, limits.metadata_bytes, &data, &size, err);
    if (st == SW_OK) {
        st = swi_digest_list_parse(data, size, out, err);
        if (st != SW_OK)
            (void)swi_error_prefix(err, "%s", swi_quote_str(&room, path));
    }
    free(data);
    return st;
}

/* ---- writing ------------------------------------------------------------------------------ */

/* What --overwrite replaces is a list: anything else there is a slip of the hand. */
static sw_status keep_others(const char *path, sw_error *err)
{
    swi_digest_list list = {0};
    sw_error cause = {0};
    swi_quoted room;
    struct stat found;
    if (lstat(path, &found) != 0)
        return SW_OK;
    sw_status st = SW_ERR_EXISTS;
    if (S_ISREG(found.st_mode))
        st = swi_digests_read(path, NULL, &list, &cause);
    swi_digest_list_free(&list);
    if (st == SW_OK)
        return SW_OK;
    if (st != SW_ERR_NOMEM && st != SW_ERR_IO)
        return swi_fail(err, SW_ERR_EXISTS,
                        "%s: is no digest list, and is not replaced by one; remove it yourself, or "
                        "choose another name",
                        swi_quote_str(&room, path));
    if (err != NULL)
        *err = cause;
    return st;
}

sw_status swi_digests_begin(const char *path, const char *id, bool overwrite, swi_txn **out,
                            sw_error *err)
{
    const swi_txn_options options = {.id = id, .overwrite = overwrite, .single_file = true};
    sw_status st = overwrite ? keep_others(path, err) : SW_OK;
    return st == SW_OK ? swi_txn_begin(path, &options, out, err) : st;
}

sw_status swi_digests_look(const char *path, const char *id, bool overwrite, sw_error *err)
{
    const swi_txn_options options = {.id = id, .overwrite = overwrite, .single_file = true};
    uint64_t free_bytes;
    sw_status st = overwrite ? keep_others(path, err) : SW_OK;
    return st == SW_OK ? swi_txn_look(path, &options, &free_bytes, err) : st;
}

sw_status swi_digests_put(swi_txn *txn, const char *path, const swi_digest_list *list,
                          sw_error *err)
{
    swi_buf text = {0};
    sw_status st = swi_digest_list_text(list, &text, err);
    if (st == SW_OK)
        st = swi_txn_put(txn, file_name(path), text.data, text.size, err);
    swi_buf_free(&text);
    return st;
}

sw_status sw_digests_write(const sw_digests *digests, const char *path, bool overwrite,
                           sw_error *err)
{
    char id[SWI_DIGEST_TEXT];
    swi_txn *txn = NULL;
    sw_digests_root(digests, id);
    id[16] = '\0';
    sw_status st = swi_digests_begin(path, id, overwrite, &txn, err);
    if (st == SW_OK)
        st = swi_digests_put(txn, path, &digests->list, err);
    if (st == SW_OK)
        st = swi_txn_commit(txn, err);
    swi_txn_end(txn, false);
    return st;
}
