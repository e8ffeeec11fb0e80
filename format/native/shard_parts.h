/* What writing and reading of shard files share: sizes and places of specs/native.md. */
#ifndef SW_NATIVE_SHARD_PARTS_H
#define SW_NATIVE_SHARD_PARTS_H

#include "base/checked.h"
#include "native/shard.h"

#define SWI_SHARD_MAGIC "SWSHARD1"
#define SWI_SHARD_FOOT_MAGIC "SWSHARDF"
#define SWI_SHARD_MAGIC_BYTES 8U
#define SWI_SHARD_HEAD_ZEROS 24U
#define SWI_SHARD_FOOT_ZEROS 32U
#define SWI_SHARD_ALIGN_MAX 65536U

#define SWI_PIECE_BYTES 16U      /* of a record without axes */
#define SWI_PIECE_AXIS_BYTES 24U /* for each axis */
#define SWI_CHUNK_BYTES 48U

typedef enum swi_piece_kind {
    SWI_PIECE_BOX = 0,
    SWI_PIECE_FLAT = 1,
    SWI_PIECE_WHOLE = 2 /* all of the tensor in one chunk: nothing more is written of it */
} swi_piece_kind;

typedef struct swi_shard_foot {
    uint64_t values_at, values_bytes, index_at, index_bytes, file_bytes;
    uint64_t piece_count, chunk_count;
    swi_digest values_digest, index_digest;
} swi_shard_foot;

/* NAT-9: where a chunk begins when what lies before it ends at `end`. False: nowhere. */
static inline bool swi_shard_chunk_place(uint64_t end, uint32_t align, uint64_t *out)
{
    uint64_t last;
    if (!swi_add_u64(end, align - 1U, &last))
        return false;
    *out = last & ~(uint64_t)(align - 1U); /* a power of two */
    return true;
}

static inline bool swi_shard_align_ok(uint32_t align)
{
    return align > 0 && align <= SWI_SHARD_ALIGN_MAX && (align & (align - 1U)) == 0;
}

/* NAT-10: of the whole file, for the manifest. */
SW_MUST_USE sw_status swi_shard_digest(const uint8_t head[SWI_NATIVE_HEAD_BYTES],
                                       const uint8_t foot[SWI_NATIVE_FOOT_BYTES], swi_digest *out,
                                       sw_error *err);

/* NAT-9, NAT-11: the records of an index that was read, but for the shapes of tensors. Makes the
 * shard's marks. */
SW_MUST_USE sw_status swi_shard_check_records(swi_native_shard *shard, uint32_t threads,
                                              sw_error *err);

#endif
