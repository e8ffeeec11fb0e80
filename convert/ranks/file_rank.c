#include "ranks/file_rank.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "dcp/dcp.h"
#include "ranks/rank_series.h"
#include "sharded/rank_name.h"

/* As rank_name.h has them. */
static const char *const patterns[] = {"consolidated.%R.pth", "model-rank-%r-part-%p.safetensors"};

/* The number of digits of the text; at most 9, more: 0. */
static size_t digits(const char *text)
{
    size_t size = strspn(text, "0123456789");
    return size <= 9 ? size : 0;
}

/* "shard-00004-model-...": numbered from 1. */
static int64_t shard_rank(const char *name)
{
    static const char before[] = "shard-";
    const char *number = name + sizeof before - 1;
    if (strncmp(name, before, sizeof before - 1) != 0)
        return -1;
    size_t size = digits(number);
    return size > 0 && number[size] == '-' ? strtoll(number, NULL, 10) - 1 : -1;
}

/* "ITEM_3.pt" */
static int64_t item_rank(const char *name)
{
    const char *underscore = strrchr(name, '_');
    size_t size = underscore != NULL ? digits(underscore + 1) : 0;
    return size > 0 && strcmp(underscore + 1 + size, ".pt") == 0 ? strtoll(underscore + 1, NULL, 10)
                                                                 : -1;
}

int64_t swi_file_rank(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    int64_t rank = swi_dcp_file_rank(name, ".distcp");
    for (size_t i = 0; rank < 0 && i < sizeof patterns / sizeof patterns[0]; i++) {
        swi_rank_name numbers;
        if (swi_rank_name_parse(patterns[i], name, &numbers))
            rank = (int64_t)numbers.rank;
    }
    if (rank < 0)
        rank = shard_rank(name);
    swi_series_name series;
    if (rank < 0 && swi_series_name_parse(name, &series))
        rank = (int64_t)series.rank;
    return rank >= 0 ? rank : item_rank(name);
}
