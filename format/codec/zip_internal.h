/* Shared by the files that read zip archives (zip.c: directory, zip_entry.c: one entry). */
#ifndef SW_CODEC_ZIP_INTERNAL_H
#define SW_CODEC_ZIP_INTERNAL_H

#include <inttypes.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/cursor.h"
#include "base/names.h"
#include "base/text.h"
#include "codec/zip.h"

#define SIG_LOCAL 0x04034b50u
#define SIG_CENTRAL 0x02014b50u
#define SIG_END 0x06054b50u
#define SIG_END64 0x06064b50u
#define SIG_LOCATOR64 0x07064b50u
#define SIG_DESCRIPTOR 0x08074b50u
#define END_BYTES 22u
#define LOCATOR64_BYTES 20u
#define END64_BYTES 56u
#define CENTRAL_BYTES 46u
#define LOCAL_BYTES 30u
#define TAIL_FIRST_BYTES 4096u
#define HEAD_BYTES 2048u
#define COMMENT_MAX 65535u
#define EXTRA_ZIP64 0x0001u
#define EXTRA_PADDING 0x4246u /* "FB" */
#define FLAG_ENCRYPTED 0x0001u
#define FLAG_DESCRIPTOR 0x0008u
#define FLAGS_KNOWN 0x080eu /* compression level, descriptor, UTF-8 */
#define FEW 16u             /* entries up to which names are compared one by one */
#define NONE32 0xFFFFFFFFu

/* Bytes of the archive held in memory, from `pos` (in the archive) on. */
typedef struct swi_zip_window {
    swi_buf bytes;
    uint64_t pos;
} swi_zip_window;

typedef struct swi_zip_item {
    swi_zip_entry pub; /* first: an entry that was handed out leads back to its own */
    uint16_t flags;
    uint16_t name_size;
    uint64_t end; /* in the archive: where the next entry or the directory begins */
} swi_zip_item;

struct swi_zip {
    uint32_t file;
    uint64_t offset; /* of the archive in the file */
    uint64_t bytes;
    swi_zip_window head, tail;
    swi_zip_item *entries;
    size_t count;
    swi_arena arena;
    swi_names *names; /* NULL when there are few entries */
};

/* `size` bytes at `pos` of the archive in a window, or NULL. */
const uint8_t *swi_zip_cached(const swi_zip *zip, uint64_t pos, size_t size);
/* The same, else read into *room. */
SW_MUST_USE sw_status swi_zip_get(const swi_zip *zip, const swi_reader *reader, uint64_t pos,
                                  size_t size, swi_buf *room, const uint8_t **out, sw_error *err);

#endif
