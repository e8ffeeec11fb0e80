/* CRC-32 of zip (polynomial 0xEDB88320, as zlib's crc32): ISA-L where it is, else zlib. */
#ifndef SW_CODEC_CRC32_H
#define SW_CODEC_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Continues `crc` (0 to begin) over the bytes. */
uint32_t swi_crc32(uint32_t crc, const void *data, size_t size);
/* The CRC of A then B, from theirs and B's length. */
uint32_t swi_crc32_combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b);

#endif
