/* Which rank wrote a file, by the names that frameworks give to files of ranks. */
#ifndef SW_CONVERT_FILE_RANK_H
#define SW_CONVERT_FILE_RANK_H

#include <stdint.h>

/*
 * "__3_0.distcp", "shard-00004-model-...", "model_3.pt", "consolidated.03.pth",
 * "model_world_size_8_rank_3.pt", "model-rank-3-part-0.safetensors" (in any folder) -> 3; -1:
 * another name.
 */
int64_t swi_file_rank(const char *path);

#endif
