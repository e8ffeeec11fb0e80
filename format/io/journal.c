#include "io/journal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/checked.h"
#include "base/cursor.h"

#define JOURNAL_MAX_BYTES ((uint64_t)1 << 30)
#define HASH_DIGITS 16
#define NOT_FINISHED UINT64_MAX

/* ---- lines --------------------------------------------------------------------------------- */

/* FNV-1a: against torn and stale bytes, not against an adversary, who could write a whole line. */
static uint64_t hash_line(const uint8_t *p, size_t size)
{
    uint64_t h = 0xcbf29ce484222325U;
    for (size_t i = 0; i < size; i++)
        h = (h ^ p[i]) * 0x100000001b3U;
    return h;
}

static sw_status append_line(swi_buf *out, const swi_buf *payload, sw_error *err)
{
    sw_status status = swi_buf_printf(out, err, "%zu %016" PRIx64 " ", payload->size,
                                      hash_line(payload->data, payload->size));
    if (status == SW_OK)
        status = swi_buf_append(out, payload->data, payload->size, err);
    if (status == SW_OK)
        status = swi_buf_u8(out, '\n', err);
    return status;
}

/* A decimal number that ends with a space, which is skipped. */
static bool get_decimal(swi_cursor *c, uint64_t *out)
{
    uint64_t value = 0;
    uint8_t byte;
    size_t digits = 0;
    while (swi_get_u8(c, &byte) && byte >= '0' && byte <= '9') {
        if (!swi_mul_u64(value, 10, &value) || !swi_add_u64(value, byte - (uint64_t)'0', &value))
            return false;
        digits++;
    }
    *out = value;
    return digits > 0 && swi_cursor_left(c) > 0 && c->data[c->pos - 1] == ' ';
}

static bool get_hash(swi_cursor *c, uint64_t *out)
{
    const uint8_t *p;
    uint64_t value = 0;
    if (!swi_get_bytes(c, HASH_DIGITS + 1, &p) || p[HASH_DIGITS] != ' ')
        return false;
    for (int i = 0; i < HASH_DIGITS; i++) {
        const char *digits = "0123456789abcdef";
        const char *found = p[i] != '\0' ? strchr(digits, p[i]) : NULL;
        if (found == NULL)
            return false;
        value = value << 4 | (uint64_t)(found - digits);
    }
    *out = value;
    return true;
}

static bool get_line(swi_cursor *c, swi_cursor *payload)
{
    uint64_t size, hash;
    uint8_t end;
    swi_cursor at = *c;
    if (!get_decimal(&at, &size) || !get_hash(&at, &hash) || size > swi_cursor_left(&at) ||
        !swi_get_sub(&at, (size_t)size, payload) || !swi_get_u8(&at, &end) || end != '\n' ||
        hash_line(payload->data, payload->size) != hash)
        return false;
    *c = at;
    return true;
}

static sw_status make_header(swi_buf *payload, const char *id, sw_error *err)
{
    return swi_buf_printf(payload, err, "shardwright-journal 1 %s", id);
}

static sw_status make_entry(swi_buf *payload, const char *path, uint64_t bytes, sw_error *err)
{
    if (bytes == NOT_FINISHED)
        return swi_buf_printf(payload, err, "- %s", path);
    return swi_buf_printf(payload, err, "+ %" PRIu64 " %s", bytes, path);
}

/* ---- what is known --------------------------------------------------------------------------- */

static sw_status note(swi_journal *journal, const void *path, size_t size, uint64_t bytes,
                      sw_error *err)
{
    uint32_t id;
    bool is_new;
    size_t need = (size_t)swi_names_count(journal->paths) + 1;
    sw_status status = swi_grow_array((void **)&journal->bytes, &journal->capacity, need,
                                      sizeof *journal->bytes, err);
    if (status == SW_OK)
        status = swi_names_add(journal->paths, path, size, &id, &is_new, err);
    if (status != SW_OK)
        return status;
    if (!is_new && journal->bytes[id] != NOT_FINISHED)
        journal->finished--;
    journal->bytes[id] = bytes;
    if (bytes != NOT_FINISHED)
        journal->finished++;
    return SW_OK;
}

/* Each good line; stops at the first that is not, with *end at its start. */
static sw_status parse(swi_journal *journal, const char *id, const uint8_t *data, size_t size,
                       sw_error *err)
{
    swi_cursor c = swi_cursor_make(data, size);
    swi_cursor payload;
    swi_buf header = {0};
    sw_status status = make_header(&header, id, err);
    if (status != SW_OK)
        return status;
    bool ours = get_line(&c, &payload) && payload.size == header.size &&
                memcmp(payload.data, header.data, header.size) == 0;
    swi_buf_free(&header);
    if (!ours)
        return SW_OK;
    journal->end = c.pos;
    while (status == SW_OK && get_line(&c, &payload)) {
        uint8_t kind, space;
        uint64_t bytes = NOT_FINISHED;
        if (!swi_get_u8(&payload, &kind) || !swi_get_u8(&payload, &space) || space != ' ' ||
            (kind != '+' && kind != '-') || (kind == '+' && !get_decimal(&payload, &bytes)))
            break;
        const uint8_t *path = payload.data + payload.pos;
        size_t path_size = swi_cursor_left(&payload);
        if (path_size == 0 || memchr(path, 0, path_size) != NULL)
            break; /* no path that we wrote */
        status = note(journal, path, path_size, bytes, err);
        journal->end = c.pos;
    }
    return status;
}

bool swi_journal_find(const swi_journal *journal, const char *path, uint64_t *bytes)
{
    int64_t id = swi_names_find(journal->paths, path, strlen(path));
    if (id < 0 || journal->bytes[id] == NOT_FINISHED)
        return false;
    *bytes = journal->bytes[id];
    return true;
}

/* ---- the file -------------------------------------------------------------------------------- */

static sw_status write_and_sync(swi_journal *journal, const swi_buf *lines, sw_error *err)
{
    sw_status status = swi_file_write(journal->file, journal->end, lines->data, lines->size, err);
    if (status == SW_OK)
        status = swi_file_sync(journal->file, err);
    if (status == SW_OK)
        journal->end += lines->size;
    return status;
}

static sw_status write_entry(swi_journal *journal, const char *path, uint64_t bytes, sw_error *err)
{
    swi_buf payload = {0}, line = {0};
    sw_status status = make_entry(&payload, path, bytes, err);
    if (status == SW_OK)
        status = append_line(&line, &payload, err);
    if (status == SW_OK)
        status = write_and_sync(journal, &line, err);
    if (status == SW_OK)
        status = note(journal, path, strlen(path), bytes, err);
    swi_buf_free(&payload);
    swi_buf_free(&line);
    return status;
}

sw_status swi_journal_add(swi_journal *journal, const char *path, uint64_t bytes, sw_error *err)
{
    return write_entry(journal, path, bytes, err);
}

sw_status swi_journal_drop(swi_journal *journal, const char *path, sw_error *err)
{
    uint64_t bytes;
    if (!swi_journal_find(journal, path, &bytes))
        return SW_OK;
    return write_entry(journal, path, NOT_FINISHED, err);
}

static sw_status write_header(swi_journal *journal, const char *id, sw_error *err)
{
    swi_buf payload = {0}, line = {0};
    sw_status status = make_header(&payload, id, err);
    if (status == SW_OK)
        status = append_line(&line, &payload, err);
    if (status == SW_OK)
        status = write_and_sync(journal, &line, err);
    swi_buf_free(&payload);
    swi_buf_free(&line);
    return status;
}

/* What is after the good lines is cut off, or a shorter new line would leave its end behind. */
static sw_status cut_tail(swi_journal *journal, sw_error *err)
{
    if (swi_file_bytes(journal->file) == journal->end)
        return SW_OK;
    return swi_file_reserve(journal->file, journal->end, err);
}

static sw_status read_journal(swi_journal *journal, const char *id, sw_error *err)
{
    uint8_t *data = NULL;
    size_t size = 0;
    sw_status status =
        swi_store_read_all(journal->store, SWI_JOURNAL_NAME, JOURNAL_MAX_BYTES, &data, &size, err);
    if (status == SW_OK)
        status = parse(journal, id, data, size, err);
    free(data);
    return status;
}

sw_status swi_journal_open(swi_journal *journal, swi_store *store, const char *id, sw_error *err)
{
    swi_entry entry;
    sw_error local;
    *journal = (swi_journal){.store = store};
    sw_status status = swi_names_make(&journal->paths, err);
    if (status != SW_OK)
        return status;
    status = swi_store_stat(store, SWI_JOURNAL_NAME, &entry, &local);
    if (status == SW_OK && (entry.is_link || entry.kind != SWI_ENTRY_FILE)) {
        status = swi_store_remove(store, SWI_JOURNAL_NAME, err);
        if (status == SW_OK)
            status = SW_ERR_NOTFOUND;
    } else if (status == SW_OK) {
        status = read_journal(journal, id, err);
        if (status == SW_OK)
            status = swi_store_open_write(store, SWI_JOURNAL_NAME, &journal->file, err);
    } else if (status != SW_ERR_NOTFOUND && err != NULL) {
        *err = local;
    }
    if (status == SW_ERR_NOTFOUND)
        status = swi_store_create(store, SWI_JOURNAL_NAME, &journal->file, err);
    if (status == SW_OK)
        status = cut_tail(journal, err);
    if (status == SW_OK && journal->end == 0)
        status = write_header(journal, id, err);
    /* One that was made just now and says nothing is not left behind. */
    if (status != SW_OK && journal->file != NULL && journal->end == 0 &&
        swi_journal_remove(journal, NULL) != SW_OK)
        journal->end = 0;
    if (status != SW_OK)
        swi_journal_close(journal);
    return status;
}

void swi_journal_close(swi_journal *journal)
{
    swi_file_close(journal->file);
    swi_names_free(journal->paths);
    free(journal->bytes);
    *journal = (swi_journal){0};
}

sw_status swi_journal_remove(swi_journal *journal, sw_error *err)
{
    swi_file_close(journal->file);
    journal->file = NULL;
    return swi_store_remove(journal->store, SWI_JOURNAL_NAME, err);
}

sw_status swi_journal_restore(swi_journal *journal, const char *id, sw_error *err)
{
    swi_buf payload = {0}, lines = {0};
    sw_status status = SW_OK;
    if (journal->file != NULL)
        return SW_OK;
    /* What the removal left behind, if it failed, is in the way of making it: that says why. */
    if (swi_store_remove(journal->store, SWI_JOURNAL_NAME, NULL) != SW_OK)
        journal->end = 0;
    status = swi_store_create(journal->store, SWI_JOURNAL_NAME, &journal->file, err);
    journal->end = 0;
    if (status == SW_OK)
        status = write_header(journal, id, err);
    for (uint32_t i = 0; status == SW_OK && i < swi_names_count(journal->paths); i++) {
        if (journal->bytes[i] == NOT_FINISHED)
            continue;
        payload.size = 0;
        status =
            make_entry(&payload, swi_names_at(journal->paths, i, NULL), journal->bytes[i], err);
        if (status == SW_OK)
            status = append_line(&lines, &payload, err);
    }
    if (status == SW_OK && lines.size > 0)
        status = write_and_sync(journal, &lines, err);
    swi_buf_free(&payload);
    swi_buf_free(&lines);
    return status;
}
