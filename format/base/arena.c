#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"

#define CHUNK_FIRST ((size_t)4096)
#define CHUNK_MAX ((size_t)1 << 20)
#define ALIGN ((size_t)8)

struct swi_arena_chunk {
    swi_arena_chunk *older;
    size_t size; /* of data */
    _Alignas(8) uint8_t data[];
};

void swi_arena_free(swi_arena *arena)
{
    if (arena == NULL)
        return;
    for (swi_arena_chunk *chunk = arena->chunks, *older; chunk != NULL; chunk = older) {
        older = chunk->older;
        free(chunk);
    }
    *arena = (swi_arena){0};
}

/* A zeroed chunk of `size` bytes of data, at the head of the list. */
static sw_status add_chunk(swi_arena *arena, size_t size, swi_arena_chunk **out, sw_error *err)
{
    size_t whole;
    if (!swi_add_size(size, sizeof(swi_arena_chunk), &whole) || whole > PTRDIFF_MAX)
        return swi_fail_nomem(err);
    swi_arena_chunk *chunk = calloc(1, whole);
    if (chunk == NULL)
        return swi_fail_nomem(err);
    chunk->size = size;
    chunk->older = arena->chunks;
    arena->chunks = chunk;
    arena->total_bytes += whole;
    *out = chunk;
    return SW_OK;
}

/* As large as all that there is so far: few chunks for large arenas, little waste for small. */
static size_t next_chunk_size(const swi_arena *arena)
{
    size_t size = arena->total_bytes;
    if (size < CHUNK_FIRST)
        size = CHUNK_FIRST;
    if (size > CHUNK_MAX)
        size = CHUNK_MAX;
    return size - sizeof(swi_arena_chunk);
}

/* Every byte is handed out once and chunks come zeroed, so nothing needs clearing. */
static sw_status take(swi_arena *arena, size_t size, size_t pad, uint8_t **out, sw_error *err)
{
    size_t left = arena->left >= pad ? arena->left - pad : 0;
    if (arena->next != NULL && arena->left >= pad && size <= left) {
        *out = arena->next + pad;
        arena->next += pad + size;
        arena->left = left - size;
        return SW_OK;
    }
    swi_arena_chunk *chunk = NULL;
    size_t room = next_chunk_size(arena);
    /* A large request gets a chunk of its own and what is left of the current one stays in use. */
    if (size > room / 2) {
        sw_status status = add_chunk(arena, size, &chunk, err);
        if (status == SW_OK)
            *out = chunk->data;
        return status;
    }
    sw_status status = add_chunk(arena, room, &chunk, err);
    if (status != SW_OK)
        return status;
    *out = chunk->data;
    arena->next = chunk->data + size;
    arena->left = room - size;
    return SW_OK;
}

sw_status swi_arena_alloc(swi_arena *arena, size_t size, void **out, sw_error *err)
{
    size_t pad = (ALIGN - ((uintptr_t)arena->next & (ALIGN - 1))) & (ALIGN - 1);
    uint8_t *p;
    sw_status status = take(arena, size != 0 ? size : 1, pad, &p, err);
    if (status == SW_OK)
        *out = p;
    return status;
}

sw_status swi_arena_bytes(swi_arena *arena, size_t size, uint8_t **out, sw_error *err)
{
    return take(arena, size != 0 ? size : 1, 0, out, err);
}

sw_status swi_arena_text(swi_arena *arena, const char *text, size_t size, const char **out,
                         sw_error *err)
{
    size_t whole;
    uint8_t *p;
    if (!swi_add_size(size, 1, &whole))
        return swi_fail_nomem(err);
    sw_status status = swi_arena_bytes(arena, whole, &p, err);
    if (status != SW_OK)
        return status;
    if (size != 0)
        memcpy(p, text, size);
    p[size] = '\0';
    *out = (const char *)p;
    return SW_OK;
}

sw_status swi_alloc_array(size_t count, size_t size, void **out, sw_error *err)
{
    size_t whole;
    if (!swi_mul_size(count, size, &whole) || whole > PTRDIFF_MAX)
        return swi_fail_nomem(err);
    void *p = calloc(1, whole != 0 ? whole : 1);
    if (p == NULL)
        return swi_fail_nomem(err);
    *out = p;
    return SW_OK;
}

sw_status swi_grow_raw(void **items, size_t *capacity, size_t need, size_t size, sw_error *err)
{
    if (need <= *capacity)
        return SW_OK;
    /* Half again: at ten million elements doubling would waste too much. */
    size_t more = *capacity < 16 ? 16 : *capacity + *capacity / 2;
    if (more < need)
        more = need;
    size_t whole;
    if (!swi_mul_size(more, size, &whole) || whole > PTRDIFF_MAX)
        return swi_fail_nomem(err);
    void *p = realloc(*items, whole);
    if (p == NULL)
        return swi_fail_nomem(err);
    *items = p;
    *capacity = more;
    return SW_OK;
}

sw_status swi_reserve_array(void **items, size_t *capacity, size_t need, size_t size, sw_error *err)
{
    size_t whole;
    if (need <= *capacity)
        return SW_OK;
    if (!swi_mul_size(need, size, &whole) || whole > PTRDIFF_MAX)
        return swi_fail_nomem(err);
    void *p = realloc(*items, whole);
    if (p == NULL)
        return swi_fail_nomem(err);
    *items = p;
    *capacity = need;
    return SW_OK;
}

sw_status swi_grow_array(void **items, size_t *capacity, size_t need, size_t size, sw_error *err)
{
    size_t had = *capacity;
    sw_status status = swi_grow_raw(items, capacity, need, size, err);
    if (status == SW_OK && *capacity > had)
        memset((uint8_t *)*items + had * size, 0, (*capacity - had) * size);
    return status;
}
