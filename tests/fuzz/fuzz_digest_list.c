/* Any bytes as a digest list: what is taken can be written, and is the same when read again. */
#include <string.h>

#include "container/digest_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    swi_digest_list list = {0}, again = {0};
    swi_buf text = {0};
    sw_error err;
    if (swi_digest_list_parse(data, size, &list, &err) != SW_OK)
        return 0;
    must(swi_digest_list_end(&list, &err) == SW_OK);
    must(swi_digest_list_text(&list, &text, &err) == SW_OK);
    must(swi_digest_list_parse(text.data, text.size, &again, &err) == SW_OK);
    must(again.count == list.count && memcmp(&again.root, &list.root, sizeof list.root) == 0);
    swi_buf_free(&text);
    swi_digest_list_free(&list);
    swi_digest_list_free(&again);
    return 0;
}
