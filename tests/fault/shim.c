/* Stands between the command and libc (ld --wrap): counts allocations and I/O calls, makes the k-th
 * fail, moves fewer bytes than asked, and simulates power cuts (crash.c). */
#include "shim.h"

#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- configuration and counts -----------------------------------------------------------------
 */

typedef struct fault {
    unsigned long at; /* 0: never */
    bool sticky;
    int error;
    atomic_ulong count;
} fault;

static fault alloc_fault = {.error = ENOMEM};
static fault io_fault = {.error = EIO};
static bool short_transfers;
static atomic_ulong short_state = 1;
static const char *count_path;

/* "k[,sticky][,errno]", where errno is a number or one of a few names. */
static void parse_fault(fault *out, const char *text)
{
    char *end = NULL;
    out->at = strtoul(text, &end, 10);
    out->sticky = strstr(end, ",sticky") != NULL;
    static const struct {
        const char *name;
        int error;
    } names[] = {{",ENOSPC", ENOSPC},
                 {",EIO", EIO},
                 {",EACCES", EACCES},
                 {",EROFS", EROFS},
                 {",EDQUOT", EDQUOT}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strstr(end, names[i].name) != NULL) {
            out->error = names[i].error;
        }
    }
}

__attribute__((constructor)) static void configure(void)
{
    const char *text = getenv("SW_FAULT_ALLOC");
    if (text != NULL) {
        parse_fault(&alloc_fault, text);
    }
    text = getenv("SW_FAULT_IO");
    if (text != NULL) {
        parse_fault(&io_fault, text);
    }
    text = getenv("SW_FAULT_CRASH");
    if (text != NULL) {
        crash_configure(text);
    }
    short_transfers = getenv("SW_FAULT_SHORT") != NULL;
    count_path = getenv("SW_FAULT_COUNT");
}

__attribute__((destructor)) static void finish(void)
{
    if (count_path != NULL) {
        FILE *file = fopen(count_path, "w");
        if (file != NULL) {
            fprintf(file, "{\"alloc\": %lu, \"io\": %lu, \"crash\": %lu}\n",
                    atomic_load(&alloc_fault.count), atomic_load(&io_fault.count), crash_points());
            (void)fclose(file);
        }
    }
    crash_at_exit();
}

static bool hit(fault *f)
{
    unsigned long k = atomic_fetch_add(&f->count, 1) + 1;
    if (f->at == 0 || (f->sticky ? k < f->at : k != f->at)) {
        return false;
    }
    errno = f->error;
    return true;
}

bool fault_alloc(void)
{
    return hit(&alloc_fault);
}

bool fault_io(void)
{
    return hit(&io_fault);
}

size_t fault_short(size_t size)
{
    if (!short_transfers || size == 0) {
        return size;
    }
    uint64_t z = atomic_fetch_add(&short_state, 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 29)) * UINT64_C(0xBF58476D1CE4E5B9);
    z ^= z >> 32;
    if (z % 13 == 0) {
        errno = EINTR;
        return 0;
    }
    return 1 + (size_t)(z / 13) % size;
}

/* ---- allocation ---------------------------------------------------------------------------------
 */

FAULT_WRAP(void *, malloc, size_t size)
{
    return fault_alloc() ? NULL : __real_malloc(size);
}

FAULT_WRAP(void *, calloc, size_t count, size_t size)
{
    return fault_alloc() ? NULL : __real_calloc(count, size);
}

FAULT_WRAP(void *, realloc, void *p, size_t size)
{
    return fault_alloc() ? NULL : __real_realloc(p, size);
}

FAULT_WRAP(void *, reallocarray, void *p, size_t count, size_t size)
{
    return fault_alloc() ? NULL : __real_reallocarray(p, count, size);
}

FAULT_WRAP(void *, aligned_alloc, size_t alignment, size_t size)
{
    return fault_alloc() ? NULL : __real_aligned_alloc(alignment, size);
}

FAULT_WRAP(int, posix_memalign, void **out, size_t alignment, size_t size)
{
    return fault_alloc() ? ENOMEM : __real_posix_memalign(out, alignment, size);
}

FAULT_WRAP(char *, strdup, const char *text)
{
    return fault_alloc() ? NULL : __real_strdup(text);
}

FAULT_WRAP(char *, strndup, const char *text, size_t size)
{
    return fault_alloc() ? NULL : __real_strndup(text, size);
}

FAULT_WRAP(locale_t, newlocale, int mask, const char *name, locale_t base)
{
    return fault_alloc() ? (locale_t)0 : __real_newlocale(mask, name, base);
}

/* The memory of a new thread. */
FAULT_WRAP(int, pthread_create, pthread_t *thread, const pthread_attr_t *attributes,
           void *(*start)(void *), void *argument)
{
    return fault_alloc() ? EAGAIN : __real_pthread_create(thread, attributes, start, argument);
}
