/*
 * Any bytes as the journal of a partial folder. After the first byte come the file as it is (even)
 * or payloads, one a line, that are framed rightly (odd), so that what they say is reached too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "io/journal.h"

#define ID "0123456789abcdef"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static void frame(swi_buf *out, const uint8_t *p, size_t size)
{
    sw_error err;
    uint64_t h = 0xcbf29ce484222325U;
    for (size_t i = 0; i < size; i++)
        h = (h ^ p[i]) * 0x100000001b3U;
    must(swi_buf_printf(out, &err, "%zu %016llx ", size, (unsigned long long)h) == SW_OK);
    must(swi_buf_append(out, p, size, &err) == SW_OK);
    must(swi_buf_u8(out, '\n', &err) == SW_OK);
}

static void frame_lines(swi_buf *out, const uint8_t *p, size_t size)
{
    static const char header[] = "shardwright-journal 1 " ID;
    frame(out, (const uint8_t *)header, sizeof header - 1);
    while (size > 0) {
        const uint8_t *end = memchr(p, '\n', size);
        size_t length = end != NULL ? (size_t)(end - p) : size;
        frame(out, p, length);
        p += length + (end != NULL);
        size -= length + (end != NULL);
    }
}

static void check_reopened(swi_store *store, const swi_journal *first)
{
    sw_error err;
    swi_journal again;
    uint64_t bytes, same;
    must(swi_journal_open(&again, store, ID, &err) == SW_OK);
    must(again.finished == first->finished && again.end == first->end);
    for (uint32_t i = 0; i < swi_names_count(first->paths); i++) {
        const char *path = swi_names_at(first->paths, i, NULL);
        bool known = swi_journal_find(first, path, &bytes);
        must(swi_journal_find(&again, path, &same) == known);
        must(!known || bytes == same);
    }
    swi_journal_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sw_error err;
    swi_store *store = NULL;
    swi_file *file = NULL;
    swi_journal journal;
    swi_buf bytes = {0};
    if (size == 0)
        return 0;
    if (data[0] % 2 != 0)
        frame_lines(&bytes, data + 1, size - 1);
    else
        must(swi_buf_append(&bytes, data + 1, size - 1, &err) == SW_OK);
    must(swi_store_open_memory(&store, &err) == SW_OK);
    must(swi_store_create(store, SWI_JOURNAL_NAME, &file, &err) == SW_OK);
    must(swi_file_write(file, 0, bytes.data, bytes.size, &err) == SW_OK);
    swi_file_close(file);
    must(swi_journal_open(&journal, store, ID, &err) == SW_OK);
    must(swi_journal_add(&journal, "added", 7, &err) == SW_OK);
    check_reopened(store, &journal);
    must(swi_journal_drop(&journal, "added", &err) == SW_OK);
    must(swi_journal_remove(&journal, &err) == SW_OK);
    must(swi_journal_restore(&journal, ID, &err) == SW_OK);
    swi_journal_close(&journal);
    swi_buf_free(&bytes);
    swi_store_close(store);
    return 0;
}
