#include "check/diff_value.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* So much of a value is compared; larger ones only so far. */
#define TEXT_MAX ((size_t)16 << 20)
#define SHOWN_BEFORE ((size_t)40)
#define SHOWN_MAX ((size_t)160)

static sw_status text_of(const sw_checkpoint *checkpoint, uint32_t value, char **out, sw_error *err)
{
    sw_value_graph *graph = NULL;
    sw_value root;
    sw_status st = sw_checkpoint_value(checkpoint, value, &graph, &root, err);
    if (st == SW_OK)
        st = sw_value_text(graph, root, TEXT_MAX, out, err);
    sw_value_graph_free(graph);
    return st;
}

static bool is_inside(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* The part around `at`, whole characters. */
static sw_status excerpt(const char *text, size_t at, char **out, sw_error *err)
{
    swi_buf made = {0};
    size_t begin = at > SHOWN_BEFORE ? at - SHOWN_BEFORE : 0, size = strlen(text);
    while (begin > 0 && is_inside(text[begin]))
        begin--;
    size_t end = size - begin > SHOWN_MAX ? begin + SHOWN_MAX : size;
    while (end < size && is_inside(text[end]))
        end++;
    sw_status st = swi_buf_append_str(&made, begin > 0 ? "..." : "", err);
    if (st == SW_OK)
        st = swi_buf_append(&made, text + begin, end - begin, err);
    if (st == SW_OK)
        st = swi_buf_append_str(&made, end < size ? "..." : "", err);
    if (st == SW_OK)
        st = swi_buf_u8(&made, '\0', err);
    if (st != SW_OK) {
        swi_buf_free(&made);
        return st;
    }
    *out = (char *)made.data;
    return SW_OK;
}

sw_status swi_diff_value(const sw_checkpoint *a, uint32_t value_a, const sw_checkpoint *b,
                         uint32_t value_b, swi_value_difference *out, sw_error *err)
{
    swi_value_difference made = {0};
    char *left = NULL, *right = NULL;
    size_t at = 0;
    sw_status st = text_of(a, value_a, &left, err);
    if (st == SW_OK)
        st = text_of(b, value_b, &right, err);
    if (st == SW_OK) {
        while (left[at] != '\0' && left[at] == right[at])
            at++;
        made.equal = left[at] == right[at];
    }
    if (st == SW_OK && !made.equal)
        st = excerpt(left, at, &made.a, err);
    if (st == SW_OK && !made.equal)
        st = excerpt(right, at, &made.b, err);
    free(left);
    free(right);
    if (st != SW_OK) {
        swi_value_difference_free(&made);
        return st;
    }
    *out = made;
    return SW_OK;
}

void swi_value_difference_free(swi_value_difference *difference)
{
    free(difference->a);
    free(difference->b);
    *difference = (swi_value_difference){0};
}
