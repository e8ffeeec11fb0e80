/*
 * Any headers as safetensors files of ranks: a line a rank, "BYTES {header}", its data are so many
 * bytes that count up. What is wrong is a finding or an error that fits; what is right can be
 * written for as many ranks again, and that is right too.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shardwright_convert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RANKS_MAX 5
#define BYTES_MAX 4096U

/* Heads of 2 with fewer of keys, joined; merged and row layers; padding; a constant; ties. */
static const char map_text[] =
    "map: 1\n"
    "name: small\n"
    "models: [small]\n"
    "let: {H: 8, A: 4, K: 2, D: 2, F: 4, V: 5, V8: 8}\n"
    "sides:\n"
    "  hf: {}\n"
    "  vllm:\n"
    "    ignore: [old]\n"
    "    layouts:\n"
    "      - mesh: {tp: 1}\n"
    "        rules:\n"
    "          - {tensor: qkv, dims: [tp], parts: [A * D, K * D, K * D], units: [A, K, K],\n"
    "             copies: [false, true, true]}\n"
    "          - {tensor: gate_up, dims: [tp], parts: [F, F], split: even}\n"
    "          - {tensor: [o, embed], dims: [_, tp], split: even}\n"
    "          - {tensor: \"**\", dims: []}\n"
    "      - mesh: {tp: 1}\n"
    "        rules:\n"
    "          - {tensor: qkv, dims: [tp], parts: [A * D, K * D, K * D], units: [A, K, K],\n"
    "             copies: [false, true, true]}\n"
    "          - {tensor: gate_up, dims: [tp], parts: [F, F], split: even}\n"
    "          - {tensor: o, dims: [_, tp]}\n"
    "          - {tensor: embed, dims: [tp]}\n"
    "          - {tensor: \"**\", dims: []}\n"
    "tensors:\n"
    "  - {hf: embed, shape: [V, H], vllm: {name: embed, pad: [V8, _]}}\n"
    "  - {hf: \"{q,k,v}\", shape: [[A * D, H], [K * D, H], [K * D, H]], vllm: {name: qkv, join: "
    "0}}\n"
    "  - {hf: o, shape: [H, A * D], vllm: o}\n"
    "  - {hf: \"{gate,up}\", shape: [[F, H], [F, H]], vllm: {name: gate_up, join: 0}}\n"
    "  - {hf: norm, shape: [H], vllm: norm, optional: true}\n";

static char folder[64];

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void remove_folder(void)
{
    (void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void write_bytes(const char *name, const void *data, size_t size)
{
    char path[160];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
}

static void make_folder(void)
{
    struct stat st;
    bool memory = stat("/dev/shm", &st) == 0 && access("/dev/shm", W_OK) == 0;
    (void)snprintf(folder, sizeof folder, "%s/fuzz_sharded.XXXXXX", memory ? "/dev/shm" : "/tmp");
    if (mkdtemp(folder) == NULL)
        abort();
    (void)atexit(remove_folder);
    write_bytes("map.yaml", map_text, sizeof map_text - 1);
}

static void clean(const char *name)
{
    char path[160];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void write_rank(int rank, const uint8_t *line, size_t size)
{
    static uint8_t file[8 + (1 << 16) + BYTES_MAX];
    char name[64];
    size_t bytes = 0, i = 0;
    for (; i < size && line[i] >= '0' && line[i] <= '9' && bytes < BYTES_MAX; i++)
        bytes = bytes * 10 + (size_t)(line[i] - '0');
    i += i < size && line[i] == ' ';
    bytes = bytes < BYTES_MAX ? bytes : BYTES_MAX;
    size_t header = size - i < 1 << 16 ? size - i : 1 << 16;
    for (int k = 0; k < 8; k++)
        file[k] = (uint8_t)((uint64_t)header >> (8 * k));
    memcpy(file + 8, line + i, header);
    memset(file + 8 + header, 0, bytes); /* padding that is cut off must be zero, copies equal */
    (void)snprintf(name, sizeof name, "ranks/model-rank-%d-part-0.safetensors", rank);
    write_bytes(name, file, 8 + header + bytes);
}

static void must(bool holds, const sw_error *err, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s: %s\n", what, err->text);
        __builtin_trap();
    }
}

/* Whether nothing is wrong with it, and how many files of ranks it has. */
static bool is_right(const char *path, const char *map, uint64_t *files)
{
    const sw_verify_options options = {.level = SW_LEVEL_VALUES,
                                       .open = {.map = map, .from = "vllm"},
                                       .work = {.threads = 1, .memory_bytes = 1 << 20}};
    sw_verify_summary sum = {0};
    sw_report *report = NULL;
    sw_error err = {0};
    if (sw_report_make(&report, &err) != SW_OK)
        abort();
    sw_status st = sw_verify(path, &options, report, &sum, &err);
    must(st == SW_OK || st == SW_ERR_FORMAT || st == SW_ERR_LIMIT || st == SW_ERR_UNSUPPORTED, &err,
         "verify");
    bool right = st == SW_OK && sw_report_total(report, SW_DEFECT) == 0 &&
                 sw_report_total(report, SW_DANGER) == 0;
    *files = sum.files;
    sw_report_free(report);
    return right;
}

static void convert_again(const char *path, const char *map, uint64_t ranks)
{
    char to[32], dest[160];
    (void)snprintf(to, sizeof to, "vllm:tp=%d", (int)ranks);
    (void)snprintf(dest, sizeof dest, "%s/again", folder);
    const sw_convert_options options = {.to = to,
                                        .verify = true,
                                        .open = {.map = map, .from = "vllm"},
                                        .work = {.threads = 1, .memory_bytes = 1 << 20}};
    sw_convert_summary sum = {0};
    sw_report *report = NULL;
    sw_error err = {0};
    uint64_t files;
    if (sw_report_make(&report, &err) != SW_OK)
        abort();
    sw_status st = sw_convert(path, dest, &options, NULL, NULL, report, &sum, &err);
    if (st == SW_OK)
        must(is_right(dest, map, &files) && files == ranks, &err, "what was written");
    else /* not what such files or the first of the layouts can hold */
        must(st == SW_ERR_UNSUPPORTED || st == SW_ERR_CONFLICT, &err, "convert");
    sw_report_free(report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[160], map[160];
    uint64_t files;
    int rank = 0;
    if (folder[0] == '\0')
        make_folder();
    (void)snprintf(path, sizeof path, "%s/ranks", folder);
    (void)snprintf(map, sizeof map, "%s/map.yaml", folder);
    if (mkdir(path, 0777) != 0)
        abort();
    for (size_t at = 0; at < size && rank < RANKS_MAX; rank++) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t n = end != NULL ? (size_t)(end - data) - at : size - at;
        if (n > 0)
            write_rank(rank, data + at, n);
        at += n + 1;
    }
    write_bytes("ranks/note", "", 0);
    if (is_right(path, map, &files))
        convert_again(path, map, files);
    clean("ranks");
    clean("again");
    return 0;
}
