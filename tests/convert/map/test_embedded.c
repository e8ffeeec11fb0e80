/* The maps in the library are the files of specs/maps, byte for byte, in the order of names. */
#include "harness/harness.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "map/embedded.h"

static size_t yaml_files(void)
{
    DIR *folder = opendir(SW_SOURCE_DIR "/specs/maps");
    assert_non_null(folder);
    size_t count = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const char *dot = strrchr(entry->d_name, '.');
        count += dot != NULL && strcmp(dot, ".yaml") == 0 ? 1 : 0;
    }
    closedir(folder);
    return count;
}

static void each_file_is_there(void **state)
{
    (void)state;
    const char *before = "";
    for (size_t i = 0; i < swi_embedded_map_count(); i++) {
        const char *name = NULL;
        const void *data = NULL;
        size_t size = 0;
        assert_true(swi_embedded_map_at(i, &name, &data, &size));
        assert_true(strcmp(before, name) < 0);
        before = name;
        char path[512];
        snprintf(path, sizeof path, SW_SOURCE_DIR "/specs/maps/%s.yaml", name);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        uint8_t *bytes = malloc(size + 1);
        assert_non_null(bytes);
        assert_int_equal(fread(bytes, 1, size + 1, file), size);
        assert_memory_equal(bytes, data, size);
        free(bytes);
        fclose(file);
    }
    assert_int_equal(swi_embedded_map_count(), yaml_files());
}

static void there_is_no_more(void **state)
{
    (void)state;
    const char *name = "as it was";
    const void *data = NULL;
    size_t size = 0;
    assert_false(swi_embedded_map_at(swi_embedded_map_count(), &name, &data, &size));
    assert_string_equal(name, "as it was");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_file_is_there),
        cmocka_unit_test(there_is_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
