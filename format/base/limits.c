#include "shardwright_format.h"

#define KIBI 1024U
#define MEBI (KIBI * KIBI)

static uint64_t or_default(uint64_t value, uint64_t fallback)
{
    return value != 0 ? value : fallback;
}

sw_limits sw_limits_resolve(const sw_limits *limits)
{
    sw_limits in = {0};
    if (limits != NULL)
        in = *limits;
    return (sw_limits){
        .metadata_bytes = or_default(in.metadata_bytes, 4ULL * KIBI * MEBI),
        .header_bytes = or_default(in.header_bytes, 100000000),
        .nodes = or_default(in.nodes, 64ULL * MEBI),
        .tensors = or_default(in.tensors, 16ULL * MEBI),
        .pieces = or_default(in.pieces, 64ULL * MEBI),
        .files = or_default(in.files, MEBI),
        .depth = (uint32_t)or_default(in.depth, 512),
        .open_files = (uint32_t)or_default(in.open_files, 512),
    };
}
