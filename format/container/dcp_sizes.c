/* Sizes and offsets of a `.metadata`, packed in words. */
#include "container/dcp_internal.h"

#include <inttypes.h>
#include <stdio.h>

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

/* Room for the largest size behind the last one. */
static sw_status reserve(swi_dcp_meta *m, sw_error *err)
{
    void *room = m->words;
    size_t need = m->word_count + 1 + 2 * (size_t)SW_MAX_AXES;
    if (need <= m->word_capacity)
        return SW_OK;
    if (need >= UINT32_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "DCP index: more sizes than can be kept");
    sw_status st = swi_grow_raw(&room, &m->word_capacity, need, sizeof(m->words[0]), err);
    m->words = room;
    return st;
}

/* Writes the row behind the last size; how many words it has. */
static size_t write_row(uint32_t *row, uint32_t axes, const int64_t *v)
{
    uint64_t all = 0;
    for (uint32_t k = 0; k < axes; k++)
        all |= (uint64_t)v[k];
    if (all <= UINT32_MAX) {
        row[0] = axes;
        for (uint32_t k = 0; k < axes; k++)
            row[1 + k] = (uint32_t)v[k];
        return 1 + axes;
    }
    row[0] = axes | WIDE;
    for (uint32_t k = 0; k < axes; k++) {
        row[1 + 2 * k] = (uint32_t)(uint64_t)v[k];
        row[2 + 2 * k] = (uint32_t)((uint64_t)v[k] >> 32);
    }
    return 1 + 2 * (size_t)axes;
}

static bool same_words(const uint32_t *a, const uint32_t *b, size_t count)
{
    /* The heads agree before the rest is looked at: it may be shorter. */
    for (size_t i = 0; i < count; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

/* The same numbers as of the last two sizes are not stored again. */
sw_status swi_dcp_size_store(swi_dcp_parsing *p, uint32_t axes, const int64_t *v, uint32_t *out,
                             sw_error *err)
{
    swi_dcp_meta *m = p->meta;
    sw_status st = reserve(m, err);
    if (st != SW_OK)
        return st;
    uint32_t *row = m->words + m->word_count;
    size_t count = write_row(row, axes, v);
    for (unsigned i = 0; i < 2; i++)
        if (p->recent[i] != SWI_DCP_NONE && same_words(m->words + p->recent[i], row, count)) {
            *out = p->recent[i];
            return SW_OK;
        }
    *out = (uint32_t)m->word_count;
    m->word_count += count;
    p->recent[p->recent_at++ % 2] = *out;
    return SW_OK;
}
