#include "codec/section_digest.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/together.h"

#define TAG ((uint8_t)4)

typedef struct section {
    swi_section_read read; /* NULL: the data are there */
    const void *ctx;
    uint8_t *room; /* for what is read: data */
    const uint8_t *data;
    size_t size, blocks;
    swi_digest *digests; /* by block */
    atomic_size_t next;  /* the first block that nobody has taken yet */
} section;

static sw_status hash_block(const section *s, swi_hasher *hasher, size_t block, sw_error *err)
{
    size_t start = block * SWI_SECTION_BLOCK;
    size_t left = s->size - start;
    size_t size = left < SWI_SECTION_BLOCK ? left : SWI_SECTION_BLOCK;
    sw_status status = SW_OK;
    if (s->read != NULL)
        status = s->read(s->ctx, start, s->room + start, size, err);
    if (status == SW_OK)
        status = swi_hasher_begin(hasher, err);
    if (status == SW_OK)
        status = swi_hasher_add(hasher, s->data + start, size, err);
    if (status == SW_OK)
        status = swi_hasher_end(hasher, &s->digests[block], err);
    return status;
}

static sw_status hash_blocks(void *ctx, sw_error *err)
{
    section *s = ctx;
    swi_hasher *hasher = NULL;
    sw_status status = swi_hasher_make(&hasher, err);
    while (status == SW_OK) {
        size_t block = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
        if (block >= s->blocks)
            break;
        status = hash_block(s, hasher, block, err);
    }
    swi_hasher_free(hasher);
    return status;
}

static sw_status hash_root(const section *s, swi_digest *out, sw_error *err)
{
    uint8_t head[9] = {TAG};
    for (size_t i = 0; i < 8; i++)
        head[1 + i] = (uint8_t)((uint64_t)s->size >> (8 * i));
    const swi_bytes parts[] = {{head, sizeof head}, {s->digests, s->blocks * sizeof *s->digests}};
    return swi_digest_bytes(parts, 2, out, err);
}

static sw_status run(section *s, uint32_t threads, swi_digest *out, sw_error *err)
{
    s->blocks = s->size / SWI_SECTION_BLOCK + (s->size % SWI_SECTION_BLOCK != 0);
    atomic_init(&s->next, 0);
    void *room;
    sw_status status = swi_alloc_array(s->blocks, sizeof *s->digests, &room, err);
    if (status != SW_OK)
        return status;
    s->digests = room;
    if (s->blocks < threads)
        threads = (uint32_t)s->blocks;
    status = swi_together(threads, hash_blocks, s, err);
    if (status == SW_OK)
        status = hash_root(s, out, err);
    free(s->digests);
    return status;
}

sw_status swi_section_digest(const void *data, size_t size, uint32_t threads, swi_digest *out,
                             sw_error *err)
{
    section s = {.data = data, .size = size};
    return run(&s, threads, out, err);
}

sw_status swi_section_load(swi_section_read read, const void *ctx, void *data, size_t size,
                           uint32_t threads, swi_digest *out, sw_error *err)
{
    section s = {.read = read, .ctx = ctx, .room = data, .data = data, .size = size};
    return run(&s, threads, out, err);
}
