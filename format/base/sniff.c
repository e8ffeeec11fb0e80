#include "base/sniff.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

typedef struct magic {
    const char *bytes;
    size_t size;
    const char *what;
} magic;

static const magic magics[] = {
    {"version https://git-lfs", 23, "a Git LFS pointer (the data was not downloaded)"},
    {"PK\x03\x04", 4, "a zip archive"},
    {"\x28\xb5\x2f\xfd", 4, "a zstd frame"},
    {"\x1f\x8b", 2, "a gzip file"},
    {"\x89HDF\r\n\x1a\n", 8, "an HDF5 file"},
    {"GGUF", 4, "a GGUF file"},
    {"\x93NUMPY", 6, "a NumPy array"},
    {"\xfd"
     "7zXZ",
     5, "an xz file"},
    {"/annex/objects/", 15, "a git-annex pointer (the data was not downloaded)"},
    {"{\"", 2, "a JSON text"},
    {"\x7f"
     "ELF",
     4, "a program"},
};

static bool looks_like_html(const char *text, size_t size)
{
    size_t i = 0;
    while (i < size && strchr(" \t\r\n", text[i]) != NULL && text[i] != '\0')
        i++;
    static const char *const tags[] = {"<!doctype", "<html", "<head", "<?xml"};
    for (size_t k = 0; k < sizeof tags / sizeof tags[0]; k++) {
        size_t n = strlen(tags[k]);
        if (size - i >= n && strncasecmp(text + i, tags[k], n) == 0)
            return true;
    }
    return false;
}

const char *swi_sniff(const void *data, size_t size)
{
    const unsigned char *p = data;
    if (size == 0)
        return "an empty file";
    for (size_t k = 0; k < sizeof magics / sizeof magics[0]; k++) {
        if (size >= magics[k].size && memcmp(p, magics[k].bytes, magics[k].size) == 0)
            return magics[k].what;
    }
    if (looks_like_html(data, size))
        return "an HTML or XML page";
    if (size >= 2 && p[0] == 0x80 && p[1] >= 2 && p[1] <= 5)
        return "a pickle";
    size_t zeros = 0;
    while (zeros < size && p[zeros] == 0)
        zeros++;
    return zeros == size && size >= 8 ? "zeros" : NULL;
}
