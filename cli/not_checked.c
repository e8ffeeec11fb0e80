/* What verify did not hold against any CRC or digest, as text and as JSON. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

void not_checked_add(void *ctx, const sw_verify_file *file)
{
    not_checked *list = ctx;
    if (file->without + file->left_out + file->other == 0 || list->no_memory)
        return;
    sw_verify_file *grown = realloc(list->files, (list->count + 1) * sizeof *grown);
    char *path = strdup(file->path);
    if (grown != NULL)
        list->files = grown;
    list->no_memory = grown == NULL || path == NULL;
    if (list->no_memory) {
        free(path);
        return;
    }
    grown[list->count] = *file;
    grown[list->count++].path = path;
}

void not_checked_free(not_checked *list)
{
    for (size_t i = 0; i < list->count; i++)
        free((char *)(uintptr_t)list->files[i].path);
    free(list->files);
    *list = (not_checked){0};
}

void show_not_checked(const sw_verify_summary *sum)
{
    const sw_not_checked *out = &sum->left_out;
    if (sum->without.bytes > 0) {
        fputs("; without any CRC, so not checked: ", stdout);
        print_bytes(stdout, sum->without.bytes);
    }
    fputc('\n', stdout);
    if (out->bytes > 0 || out->tensors > 0 || out->values > 0) {
        fputs("left out, so not checked: ", stdout);
        print_bytes(stdout, out->bytes);
        printf(", all or some of %" PRIu64 " tensors and %" PRIu64 " values\n", out->tensors,
               out->values);
    }
    if (sum->other_bytes > 0) {
        fputs("beside tensors and values, and nothing vouches for it: ", stdout);
        print_bytes(stdout, sum->other_bytes);
        printf(" in %" PRIu64 " file%s\n", sum->other_files, sum->other_files == 1 ? "" : "s");
    }
}

static void json_part(json *j, const char *key, const sw_not_checked *part)
{
    json_object(j, key);
    json_number(j, "bytes", part->bytes);
    json_number(j, "tensors", part->tensors);
    json_number(j, "values", part->values);
    json_close_object(j);
}

void json_not_checked(json *j, const sw_verify_summary *sum, const not_checked *list)
{
    json_object(j, "not_checked");
    json_part(j, "without", &sum->without);
    json_part(j, "left_out", &sum->left_out);
    json_object(j, "other");
    json_number(j, "bytes", sum->other_bytes);
    json_number(j, "files", sum->other_files);
    json_close_object(j);
    json_array(j, "files");
    for (size_t i = 0; i < list->count; i++) {
        const sw_verify_file *f = &list->files[i];
        json_object(j, NULL);
        json_text(j, "path", f->path);
        json_number(j, "bytes", f->bytes);
        json_number(j, "checked", f->checked);
        json_number(j, "differing", f->differing);
        json_number(j, "without", f->without);
        json_number(j, "left_out", f->left_out);
        json_number(j, "other", f->other);
        json_close_object(j);
    }
    json_close_array(j);
    json_close_object(j);
}
