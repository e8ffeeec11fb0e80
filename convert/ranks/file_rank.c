#include "ranks/file_rank.h"

#include <stddef.h>
#include <string.h>

#include "dcp/dcp.h"

/* A name is `before`, the rank in decimal, then what begins with `behind` and ends with `end`. */
static const struct {
    const char *before, *behind, *end;
    int64_t first; /* the number of rank 0 */
} forms[] = {
    {"shard-", "-", ".safetensors", 1},
    {"consolidated.", ".pth", ".pth", 0},
    {"model-rank-", "-part-", ".safetensors", 0},
};

/* The number at the beginning of the text; -1: none, or a very large one. */
static int64_t number(const char *text, size_t *size)
{
    int64_t n = 0;
    for (*size = 0; text[*size] >= '0' && text[*size] <= '9'; (*size)++) {
        if (*size == 9)
            return -1;
        n = n * 10 + (text[*size] - '0');
    }
    return *size > 0 ? n : -1;
}

static int ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), tail = strlen(end);
    return size >= tail && strcmp(text + size - tail, end) == 0;
}

/* "ITEM_3.pt" */
static int64_t last_number(const char *name)
{
    const char *underscore = strrchr(name, '_');
    size_t size;
    int64_t n = underscore != NULL ? number(underscore + 1, &size) : -1;
    return n >= 0 && strcmp(underscore + 1 + size, ".pt") == 0 ? n : -1;
}

int64_t swi_file_rank(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    int64_t rank = swi_dcp_file_rank(name, ".distcp");
    if (rank >= 0)
        return rank;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        size_t before = strlen(forms[i].before), size;
        if (strncmp(name, forms[i].before, before) != 0 || !ends_with(name, forms[i].end))
            continue;
        int64_t n = number(name + before, &size);
        if (n >= forms[i].first &&
            strncmp(name + before + size, forms[i].behind, strlen(forms[i].behind)) == 0)
            return n - forms[i].first;
    }
    return last_number(name);
}
