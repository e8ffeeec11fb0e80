/*
 * Parts of the proof of a plan (plan_check.c), which share no code with what makes it.
 *
 * Why few numbers prove a whole box: write the flat index of the move's first element and the flat
 * step of each of its axes as digits in the piece's view. If, in every view axis, the first digit
 * plus all steps taken to their ends stays inside the piece's box, no digit ever carries, so the
 * digits of any element of the move are the first one's plus the steps'. The byte that the catalog
 * gives is linear in the digits; hence the byte of any element is right if the first one's is and
 * the difference along each axis is.
 */
#include "plan_marks.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

/* ---- one move against one piece -----------------------------------------------------------------
 */

/* A piece with the axes joined that lie and count on as one. */
typedef struct box {
    uint32_t axes;
    int64_t view[SW_MAX_AXES], low[SW_MAX_AXES], length[SW_MAX_AXES], stride[SW_MAX_AXES];
    int64_t base;
} box;

/* From the inside out: axis k joins the one inside of it when that one is whole. */
static void join_axes(const swi_piece *piece, box *out)
{
    *out = (box){.base = piece->base_bytes};
    for (uint32_t k = piece->axes; k > 0; k--) {
        int64_t view = piece->view[k - 1], low = piece->offset[k - 1];
        int64_t length = piece->length[k - 1], stride = piece->stride_bytes[k - 1];
        uint32_t n = out->axes;
        if (n > 0 && out->length[n - 1] == out->view[n - 1] &&
            (length == 1 || stride == out->stride[n - 1] * out->view[n - 1])) {
            out->low[n - 1] = low * out->view[n - 1];
            out->length[n - 1] *= length;
            out->view[n - 1] *= view;
            continue;
        }
        out->view[n] = view;
        out->low[n] = low;
        out->length[n] = length;
        out->stride[n] = stride;
        out->axes++;
    }
}

/* Digits of a flat index in the view, innermost first; false when it is too large for it. */
static bool to_digits(const box *b, int64_t flat, int64_t digits[SW_MAX_AXES])
{
    for (uint32_t k = 0; k < b->axes; k++) {
        digits[k] = flat % b->view[k];
        flat /= b->view[k];
    }
    return flat == 0;
}

bool swi_move_is_box_of(const swi_move *move, const swi_piece *piece, int64_t lo,
                        int64_t element_bytes)
{
    box b;
    int64_t digit[SW_MAX_AXES] = {0}, last[SW_MAX_AXES];
    join_axes(piece, &b);
    if (move->window_base % element_bytes != 0 ||
        !to_digits(&b, lo + move->window_base / element_bytes, digit))
        return false;
    memcpy(last, digit, sizeof last);
    int64_t byte = b.base;
    for (uint32_t m = 0; m < b.axes; m++)
        byte += (digit[m] - b.low[m]) * b.stride[m];
    if (byte != move->blob_base)
        return false;
    for (uint32_t k = 0; k < move->axes; k++) {
        int64_t step[SW_MAX_AXES];
        if (move->window_stride[k] <= 0 || move->window_stride[k] % element_bytes != 0 ||
            !to_digits(&b, move->window_stride[k] / element_bytes, step))
            return false;
        int64_t blob_step = 0;
        for (uint32_t m = 0; m < b.axes; m++) {
            int64_t run;
            if (__builtin_mul_overflow(move->length[k] - 1, step[m], &run) ||
                __builtin_add_overflow(last[m], run, &last[m]))
                return false;
            blob_step += step[m] * b.stride[m];
        }
        if (blob_step != move->blob_stride[k])
            return false;
    }
    for (uint32_t m = 0; m < b.axes; m++)
        if (digit[m] < b.low[m] || last[m] >= b.low[m] + b.length[m])
            return false;
    return true;
}

/* ---- the elements of a window, each once
 * ---------------------------------------------------------- */

#define WORDS_STEP ((size_t)512)

sw_status swi_marks_clear(swi_marks *m, uint64_t count, sw_error *err)
{
    size_t words = (size_t)(count / 64 + 1);
    sw_status status = swi_grow_array((void **)&m->bits, &m->capacity, words, sizeof *m->bits, err);
    if (status != SW_OK)
        return status;
    memset(m->bits, 0, words * sizeof *m->bits);
    m->count = count;
    m->again = false;
    return SW_OK;
}

/* Whole words, a few at a time: most of a window is marked by these. */
static bool mark_words(uint64_t *bits, size_t count, bool again)
{
    for (size_t i = 0; i < count; i += WORDS_STEP) {
        size_t n = count - i < WORDS_STEP ? count - i : WORDS_STEP;
        uint64_t any = 0;
        for (size_t k = 0; k < n; k++)
            any |= bits[i + k];
        if (any != 0 && !again)
            return false;
        memset(bits + i, 0xff, n * sizeof *bits);
    }
    return true;
}

/* Marks `count` elements from `at` on in steps; false when one is outside or marked already. */
static bool mark_steps(swi_marks *m, uint64_t at, uint64_t count, uint64_t step)
{
    if (at >= m->count || (count - 1) > (m->count - 1 - at) / step)
        return false;
    if (step != 1) {
        for (; count > 0; count--, at += step) {
            uint64_t bit = UINT64_C(1) << (at % 64);
            if (m->bits[at / 64] & bit && !m->again)
                return false;
            m->bits[at / 64] |= bit;
        }
        return true;
    }
    while (count > 0) {
        if (at % 64 == 0 && count >= 64) {
            uint64_t words = count / 64;
            if (!mark_words(m->bits + at / 64, (size_t)words, m->again))
                return false;
            at += words * 64;
            count -= words * 64;
            continue;
        }
        uint64_t n = 64 - at % 64;
        n = n < count ? n : count;
        uint64_t mask = (n == 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1) << (at % 64);
        if (m->bits[at / 64] & mask && !m->again)
            return false;
        m->bits[at / 64] |= mask;
        at += n;
        count -= n;
    }
    return true;
}

void swi_marks_free(swi_marks *m)
{
    free(m->bits);
    *m = (swi_marks){0};
}

uint64_t swi_marks_count(const swi_marks *m)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m->count / 64 + 1; i++)
        sum += (uint64_t)__builtin_popcountll(m->bits[i]);
    return sum;
}

/* All elements of the move; false when one is outside or was marked before. */
bool swi_mark_move(swi_marks *m, const swi_move *move, uint64_t element_bytes)
{
    uint64_t index[SW_MAX_AXES] = {0};
    uint64_t at = (uint64_t)move->window_base / element_bytes;
    if (move->axes == 0)
        return mark_steps(m, at, 1, 1);
    uint32_t inner = move->axes - 1;
    uint64_t inner_step = (uint64_t)move->window_stride[inner] / element_bytes;
    for (;;) {
        if (!mark_steps(m, at, (uint64_t)move->length[inner], inner_step))
            return false;
        uint32_t k = inner;
        for (; k > 0; k--) {
            uint64_t step = (uint64_t)move->window_stride[k - 1] / element_bytes;
            at += step;
            if (++index[k - 1] < (uint64_t)move->length[k - 1])
                break;
            at -= step * (uint64_t)move->length[k - 1];
            index[k - 1] = 0;
        }
        if (k == 0)
            return true;
    }
}
