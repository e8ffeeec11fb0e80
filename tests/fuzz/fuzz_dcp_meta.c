/* Any bytes as `.metadata`: what it parses to must be well formed. */
#include <string.h>

#include "container/dcp_store.h"
#include "fuzz/patch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const swi_dcp_meta *m)
{
    const char *part, *first = "";
    bool index;
    size_t files = swi_dcp_file_count(m);
    for (size_t i = 0; i < swi_dcp_tensor_count(m); i++) {
        swi_dcp_tensor t;
        swi_dcp_tensor_at(m, i, &t);
        if (t.axes > SW_MAX_AXES || strlen(t.name) != t.name_size)
            __builtin_trap();
        for (uint64_t k = 0; k < t.chunk_count && k < 1000; k++) {
            swi_dcp_chunk c;
            swi_dcp_chunk_at(m, t.chunk_first + k, t.axes, &c);
            for (uint32_t a = 0; a < t.axes; a++)
                if (c.offset[a] < 0 || c.length[a] < 0)
                    __builtin_trap();
            if (c.place.found && c.place.file >= files)
                __builtin_trap();
            for (size_t n = 0; swi_dcp_transform_at(m, c.place.transforms, n) != NULL;)
                n++;
        }
        for (size_t n = 0; swi_dcp_path_part(m, t.name, n, &part, &index);)
            n += strlen(part) + 1 > 0;
    }
    for (size_t i = 0; i < swi_dcp_object_count(m); i++) {
        swi_dcp_object o;
        swi_dcp_object_at(m, i, &o);
        if (o.place.found && o.place.file >= files)
            __builtin_trap();
    }
    if (swi_dcp_orphans(m, &first) > 0 && first == NULL)
        __builtin_trap();
}

static void one_index(const uint8_t *data, size_t size)
{
    swi_dcp_meta *m = NULL;
    sw_error err = {0};
    const sw_limits limits = {.nodes = 1 << 18, .pieces = 1 << 16, .tensors = 1 << 14};
    swi_feed feed = swi_feed_of_memory(data, size);
    if (swi_dcp_meta_parse(&feed, &limits, NULL, &m, &err) == SW_OK)
        walk(m);
    else if (m != NULL || err.text[0] == 0)
        __builtin_trap();
    swi_dcp_meta_free(m);
}

static sw_status small_index(swi_buf *out)
{
    static const int64_t shape[2] = {4, 6}, o0[2] = {0, 0}, o1[2] = {2, 0}, length[2] = {2, 6};
    static const char *const path[] = {"m", "#0"};
    const swi_dcp_write_chunk w[2] = {{o0, length, "__0_0.distcp", 0, 1500},
                                      {o1, length, "__1_0.distcp", 64, 1501}};
    const swi_dcp_write_chunk o = {NULL, NULL, "__0_0.distcp", 2900, 1300};
    const swi_dcp_write_item items[2] = {
        {"m.w", path, 2, false, SW_F32, 2, shape, w, 2},
        {"o", path, 1, true, SW_DTYPE_NONE, 0, NULL, &o, 1},
    };
    return swi_dcp_meta_write(out, items, 2, NULL);
}

/* '~': patches of an index that is whole; else the bytes as they are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    swi_buf base = {0};
    if (size == 0 || data[0] != '~') {
        one_index(data, size);
    } else if (small_index(&base) == SW_OK) {
        patch(&base, data + 1, size - 1);
        one_index(base.data, base.size);
    }
    swi_buf_free(&base);
    return 0;
}
