/* Lists of content digests and their files (specs/digest.md, DIG-8 to DIG-12). */
#ifndef SW_CONTAINER_DIGEST_LIST_H
#define SW_CONTAINER_DIGEST_LIST_H

#include "base/arena.h"
#include "base/buf.h"
#include "codec/digest.h"

typedef struct swi_digest_entry {
    const char *name;
    swi_digest digest;
} swi_digest_entry;

typedef struct swi_digest_list {
    swi_arena arena; /* of names and patterns */
    swi_digest_entry *items;
    size_t count;
    size_t capacity;
    bool weights; /* names are those of a weights target */
    sw_dtype as;  /* cast to it before hashing, or SW_DTYPE_NONE */
    const char **only;
    size_t only_count;
    size_t only_capacity;
    swi_digest root;
} swi_digest_list;

void swi_digest_list_free(swi_digest_list *list); /* ends with {0} */
/* Copies. Any order. */
SW_MUST_USE sw_status swi_digest_list_add(swi_digest_list *list, const char *name, size_t size,
                                          const swi_digest *digest, sw_error *err);
SW_MUST_USE sw_status swi_digest_list_add_only(swi_digest_list *list, const char *glob, size_t size,
                                               sw_error *err);
/* Sorts and computes the root; SW_ERR_CONFLICT when two names are the same. */
SW_MUST_USE sw_status swi_digest_list_end(swi_digest_list *list, sw_error *err);
/* NULL when it is not there. */
const swi_digest_entry *swi_digest_list_find(const swi_digest_list *list, const char *name);

/* A name as it stands in the file. */
SW_MUST_USE sw_status swi_digest_list_escape(swi_buf *out, const char *name, sw_error *err);
SW_MUST_USE sw_status swi_digest_list_text(const swi_digest_list *list, swi_buf *out,
                                           sw_error *err);
/* SW_ERR_FORMAT with clause and offset; SW_ERR_CORRUPT when the root does not fit. */
SW_MUST_USE sw_status swi_digest_list_parse(const void *data, size_t size, swi_digest_list *out,
                                            sw_error *err);

#endif
