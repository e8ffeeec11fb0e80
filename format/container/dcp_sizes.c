/* Sizes and offsets of a `.metadata`, packed in words. */
#include "container/dcp_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"

#define WIDE 0x100u

uint32_t swi_dcp_size_axes(const swi_dcp_meta *meta, uint32_t size)
{
    return meta->words[size] & 0xFF;
}

void swi_dcp_size_get(const swi_dcp_meta *meta, uint32_t size, int64_t *out)
{
    uint32_t axes = swi_dcp_size_axes(meta, size);
    const uint32_t *w = meta->words + size + 1;
    for (uint32_t k = 0; k < axes; k++)
        out[k] = meta->words[size] & WIDE
                     ? (int64_t)((uint64_t)w[2 * k] | (uint64_t)w[2 * k + 1] << 32)
                     : (int64_t)w[k];
}

static uint32_t size_words(uint32_t head)
{
    return 1 + (head & 0xFF) * (head & WIDE ? 2 : 1);
}

int swi_dcp_size_compare(const swi_dcp_meta *meta, uint32_t a, uint32_t b)
{
    const uint32_t *x = meta->words + a, *y = meta->words + b;
    if (a == b || x[0] != y[0])
        return a == b ? 0 : x[0] < y[0] ? -1 : 1;
    uint32_t count = size_words(x[0]);
    for (uint32_t i = 1; i < count; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

const char *swi_dcp_size_text(const swi_dcp_meta *meta, uint32_t size, char *room, size_t bytes)
{
    int64_t v[SW_MAX_AXES];
    size_t used = 0;
    uint32_t axes = swi_dcp_size_axes(meta, size);
    swi_dcp_size_get(meta, size, v);
    room[0] = 0;
    for (uint32_t k = 0; k < axes && used < bytes; k++) {
        int n = snprintf(room + used, bytes - used, "%s%" PRId64, k ? ", " : "(", v[k]);
        used += n > 0 ? (size_t)n : 0;
    }
    if (used + 2 < bytes)
        snprintf(room + used, bytes - used, "%s", axes ? ")" : "()");
    return room;
}

static bool same_words(const uint32_t *a, const uint32_t *b, size_t count)
{
    /* The heads agree before the rest is looked at: it may be shorter. */
    for (size_t i = 0; i < count; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

/* The numbers as a row of words; the same ones as of the last few sizes are not stored again. */
sw_status swi_dcp_size_store(swi_dcp_parsing *p, uint32_t axes, const int64_t *v, uint32_t *out,
                             sw_error *err)
{
    swi_dcp_meta *m = p->meta;
    uint32_t row[1 + 2 * SW_MAX_AXES];
    bool wide = false;
    for (uint32_t k = 0; k < axes; k++)
        wide |= v[k] > (int64_t)UINT32_MAX;
    row[0] = axes | (wide ? WIDE : 0);
    for (uint32_t k = 0; k < axes; k++) {
        uint64_t u = (uint64_t)v[k];
        row[1 + (wide ? 2 * k : k)] = (uint32_t)u;
        if (wide)
            row[2 + 2 * k] = (uint32_t)(u >> 32);
    }
    size_t count = size_words(row[0]);
    for (unsigned i = 0; i < 4; i++)
        if (p->recent[i] != SWI_DCP_NONE && same_words(m->words + p->recent[i], row, count)) {
            *out = p->recent[i];
            return SW_OK;
        }
    void *room = m->words;
    if (m->word_count > UINT32_MAX - 64)
        return swi_fail(err, SW_ERR_LIMIT, "DCP index: more sizes than can be kept");
    sw_status st =
        swi_grow_array(&room, &m->word_capacity, m->word_count + count, sizeof(row[0]), err);
    m->words = room;
    if (st != SW_OK)
        return st;
    memcpy(m->words + m->word_count, row, count * sizeof(row[0]));
    *out = (uint32_t)m->word_count;
    m->word_count += count;
    p->recent[p->recent_at++ % 4] = *out;
    return SW_OK;
}
