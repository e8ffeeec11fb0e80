/*
 * Zip archives that lie in a part of a file: the central directory (zip64 included) is the only
 * authority for names, sizes and CRCs; local headers are read for the place of the payload and
 * must agree. Clauses ZIP-n are those of specs/torch_zip.md.
 */
#ifndef SW_CODEC_ZIP_H
#define SW_CODEC_ZIP_H

#include "base/buf.h"
#include "base/reader.h"

typedef struct swi_zip swi_zip;

typedef struct swi_zip_entry {
    const char *name;             /* terminated; without NUL, not absolute, no ".." parts */
    uint16_t method;              /* 0 stored, 8 deflate */
    uint32_t crc32;               /* 0 with bytes > 0 may mean: not computed */
    uint64_t bytes;               /* of the content */
    uint64_t stored_bytes;        /* in the archive */
    uint64_t header_offset_bytes; /* of the local header, from the start of the archive */
} swi_zip_entry;

/*
 * Reads the directory of the archive in [offset, offset + bytes) of `file`. An archive without an
 * end record is SW_ERR_CORRUPT ("cut": with the size found). Entries that overlap, lie outside or
 * have one name are refused.
 */
SW_MUST_USE sw_status swi_zip_open(const swi_reader *reader, uint32_t file, uint64_t offset,
                                   uint64_t bytes, swi_zip **out, sw_error *err);
void swi_zip_free(swi_zip *zip);
size_t swi_zip_count(const swi_zip *zip);
const swi_zip_entry *swi_zip_at(const swi_zip *zip, size_t i);
/* NULL when there is none. */
const swi_zip_entry *swi_zip_find(const swi_zip *zip, const char *name);
/* In the file, of the first byte behind what belongs to the entry. */
uint64_t swi_zip_entry_end(const swi_zip *zip, const swi_zip_entry *entry);
/*
 * Reads the local header, which must agree with the directory: *offset of the payload in the file.
 */
SW_MUST_USE sw_status swi_zip_payload(const swi_zip *zip, const swi_reader *reader,
                                      const swi_zip_entry *entry, uint64_t *offset, sw_error *err);
/* The CRC-32 of the stored bytes of an entry whose payload is at `payload`, read in pieces. */
SW_MUST_USE sw_status swi_zip_crc(const swi_zip *zip, const swi_reader *reader,
                                  const swi_zip_entry *entry, uint64_t payload, uint8_t *buffer,
                                  size_t buffer_bytes, uint32_t *crc, sw_error *err);
/*
 * Proves what lies between the payload (at `payload` in the file) and the next entry: the data
 * descriptor, which must agree with the directory, or nothing. *stray: bytes that belong to
 * nothing.
 */
SW_MUST_USE sw_status swi_zip_check_descriptor(const swi_zip *zip, const swi_reader *reader,
                                               const swi_zip_entry *entry, uint64_t payload,
                                               uint64_t *stray, sw_error *err);
/*
 * Whether a content's real CRC is what the entry says. An entry of 0 whose content has another CRC
 * was written without (*computed is then false).
 */
bool swi_zip_crc_agrees(const swi_zip_entry *entry, uint32_t real, bool *computed);
/* A whole stored entry into *out (appended), its CRC compared where there is one. */
SW_MUST_USE sw_status swi_zip_read(const swi_zip *zip, const swi_reader *reader,
                                   const swi_zip_entry *entry, uint64_t max_bytes, swi_buf *out,
                                   sw_error *err);

/*
 * Writing, as PyTorch lays a zip out (FB padding to `alignment`, data descriptors, zip64 trailer).
 * The writer makes headers and trailers; the payload is anyone's: begin, payload, end.
 */
typedef struct swi_zip_writer swi_zip_writer;
SW_MUST_USE sw_status swi_zip_writer_make(uint32_t alignment, swi_zip_writer **out, sw_error *err);
void swi_zip_writer_free(swi_zip_writer *w);
/* Appends the local header of an entry of `bytes` to *out; the payload is to follow it. */
SW_MUST_USE sw_status swi_zip_writer_begin(swi_zip_writer *w, const char *name, uint64_t bytes,
                                           swi_buf *out, sw_error *err);
/* Appends what follows the payload (the data descriptor). */
SW_MUST_USE sw_status swi_zip_writer_end(swi_zip_writer *w, uint32_t crc32, swi_buf *out,
                                         sw_error *err);
/*
 * What _end appended for a record of `bytes` that is not empty, when its CRC is known only later:
 * `size` is how many bytes that were.
 */
SW_MUST_USE sw_status swi_zip_descriptor(uint64_t bytes, uint32_t crc32, size_t size, swi_buf *out,
                                         sw_error *err);
/* The directory and end records. */
SW_MUST_USE sw_status swi_zip_writer_finish(swi_zip_writer *w, swi_buf *out, sw_error *err);

#endif
