/*
 * What small files of a run say, whatever is in them: a pointer to the latest checkpoint ('l'),
 * trainer_state.json ('t'), the name of a step ('s'), and the names of --param-names ('p').
 */
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/report.h"
#include "optimizer/param_names.h"
#include "run/step_name.h"
#include "run/trainer_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];

static void must(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void remove_folder(void)
{
    (void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *path_of(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *data, size_t size)
{
    FILE *f = fopen(path_of(name), "wb");
    if (f == NULL || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
}

/* A run of two steps: files of one tensor are enough. */
static void make_folder(void)
{
    static const char header[] = "{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    uint8_t file[8 + sizeof header] = {sizeof header - 1};
    memcpy(file + 8, header, sizeof header);
    (void)snprintf(folder, sizeof folder, "%s/fuzz_run.XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(folder) == NULL || mkdir(path_of("step-1"), 0777) != 0 ||
        mkdir(path_of("step-2"), 0777) != 0)
        abort();
    (void)atexit(remove_folder);
    write_file("step-1/model.safetensors", file, sizeof file);
    write_file("step-2/model.safetensors", file, sizeof file);
}

/* Whatever the pointer says, both steps are found, and it leads to one of them or to none. */
static void check_latest(const uint8_t *data, size_t size)
{
    sw_report *report;
    sw_run *run = NULL;
    sw_run_checkpoint step;
    sw_run_pointer pointer;
    sw_error err = {0};
    if (sw_report_make(&report, &err) != SW_OK)
        return;
    write_file("latest", data, size);
    must(sw_run_audit(folder, NULL, false, report, &run, &err) == SW_OK && run != NULL);
    must(sw_run_count(run) == 2 && sw_run_newest_complete(run) == 1);
    for (size_t i = 0; sw_run_pointer_at(run, i, &pointer); i++) {
        bool leads = pointer.to[0] != '\0';
        must(leads || pointer.verdict == SW_POINTER_MISSING ||
             pointer.verdict == SW_POINTER_UNKNOWN);
        must(!leads || pointer.verdict == SW_POINTER_TRUE || pointer.verdict == SW_POINTER_BEHIND);
    }
    must(sw_run_at(run, 1, &step) && step.state == SW_RUN_COMPLETE);
    sw_run_free(run);
    sw_report_free(report);
    (void)remove(path_of("latest"));
}

static void check_trainer_state(const uint8_t *data, size_t size)
{
    const sw_limits limits = sw_limits_resolve(NULL);
    swi_trainer_state state;
    swi_store *store = NULL;
    sw_error err = {0};
    write_file(SWI_TRAINER_STATE_NAME, data, size);
    if (swi_store_open_posix(folder, &store, &err) != SW_OK)
        abort();
    must(swi_trainer_state_read(store, &limits, &state, &err) == SW_OK && state.global_step >= -1);
    must(memchr(state.best_model_checkpoint, 0, sizeof state.best_model_checkpoint) != NULL);
    swi_store_close(store);
    (void)remove(path_of(SWI_TRAINER_STATE_NAME));
}

static void check_step_name(const uint8_t *data, size_t size)
{
    char *name = malloc(size + 1);
    swi_step_name step;
    if (name == NULL)
        return;
    if (size > 0)
        memcpy(name, data, size);
    name[size] = '\0';
    swi_step_of_name(name, &step);
    must(step.unit == SWI_UNIT_NONE ? step.number == -1 : step.number >= 0);
    free(name);
}

/* What was read is there again when it is written a name a line, behind its number if it has one.
 */
static void check_param_names(const uint8_t *data, size_t size)
{
    const sw_limits limits = sw_limits_resolve(NULL);
    swi_param_names names = {0}, again = {0};
    swi_buf text = {0};
    sw_error err = {0};
    write_file("names", data, size);
    sw_status st = swi_param_names_read(path_of("names"), &limits, true, &names, &err);
    must(st == SW_OK || st == SW_ERR_FORMAT || st == SW_ERR_CONFLICT || st == SW_ERR_NOMEM);
    for (size_t i = 0; st == SW_OK && i < names.count; i++) {
        if (names.numbers != NULL)
            st = swi_buf_printf(&text, &err, "%" PRIu64 " ", names.numbers[i]);
        if (st == SW_OK)
            st = swi_buf_printf(&text, &err, "%s\r\n", names.items[i]);
    }
    if (st == SW_OK) {
        write_file("names", text.data, text.size);
        must(swi_param_names_read(path_of("names"), &limits, true, &again, &err) == SW_OK);
        must(again.count == names.count);
        for (size_t i = 0; i < names.count; i++)
            must(strcmp(names.items[i], again.items[i]) == 0 &&
                 (names.numbers == NULL || names.numbers[i] == again.numbers[i]));
    }
    swi_buf_free(&text);
    swi_param_names_free(&names);
    swi_param_names_free(&again);
    (void)remove(path_of("names"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (folder[0] == '\0')
        make_folder();
    if (size == 0)
        return 0;
    switch (data[0]) {
    case 'l':
        check_latest(data + 1, size - 1);
        break;
    case 't':
        check_trainer_state(data + 1, size - 1);
        break;
    case 's':
        check_step_name(data + 1, size - 1);
        break;
    default:
        check_param_names(data + 1, size - 1);
    }
    return 0;
}
