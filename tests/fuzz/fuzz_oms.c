/*
 * Any bytes as the statement of an OMS bundle: what is taken names files in the model alone, each
 * part once, and when it is of whole files it is the same after it was written.
 */
#include <string.h>

#include "check/oms.h"
#include "io/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static void check_resources(const swi_oms *oms)
{
    sw_error err;
    must(oms->count > 0 && oms->subject != NULL);
    for (size_t i = 0; i < oms->count; i++) {
        const swi_oms_resource *r = &oms->items[i];
        must(strcmp(r->name, SWI_OMS_SINGLE) == 0 || swi_path_check(r->name, &err) == SW_OK);
        if (oms->shard_size == 0)
            must(r->begin == 0 && r->end == 0);
        else
            must(r->begin < r->end && r->end - r->begin <= oms->shard_size);
        for (size_t k = 0; k < i && i < 64; k++)
            must(strcmp(r->name, oms->items[k].name) != 0 || r->begin != oms->items[k].begin ||
                 r->end != oms->items[k].end);
    }
    for (size_t i = 0; i < oms->ignored_count; i++) {
        must(swi_path_check(oms->ignored[i], &err) == SW_OK);
        must(swi_oms_ignores(oms, oms->ignored[i]));
    }
}

static void check_again(const swi_oms *oms)
{
    swi_oms again = {0};
    swi_buf text = {0};
    swi_digest a, b;
    sw_error err;
    must(swi_oms_write(oms, &text, &err) == SW_OK);
    must(swi_oms_read(text.data, text.size, NULL, &again, &err) == SW_OK);
    must(again.count == oms->count && again.ignored_count == oms->ignored_count);
    for (size_t i = 0; i < oms->count; i++)
        must(strcmp(again.items[i].name, oms->items[i].name) == 0);
    must(swi_oms_root(oms, &a, &err) == SW_OK && swi_oms_root(&again, &b, &err) == SW_OK);
    must(memcmp(&a, &b, sizeof a) == 0);
    swi_buf_free(&text);
    swi_oms_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    swi_oms oms = {0};
    sw_error err;
    if (swi_oms_read(data, size, NULL, &oms, &err) != SW_OK)
        return 0;
    check_resources(&oms);
    if (oms.shard_size == 0)
        check_again(&oms);
    swi_oms_free(&oms);
    return 0;
}
