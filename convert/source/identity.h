/* Names for partial work: the same source, target and options give the same id. */
#ifndef SW_CONVERT_IDENTITY_H
#define SW_CONVERT_IDENTITY_H

#include "framework.h"

typedef struct swi_identity {
    uint64_t state[2];
} swi_identity;

#define SWI_IDENTITY_TEXT 33

void swi_identity_begin(swi_identity *id);
void swi_identity_bytes(swi_identity *id, const void *data, size_t size);
/* The text and its end, so that "ab","c" and "a","bc" differ; NULL counts as its own text. */
void swi_identity_text(swi_identity *id, const char *text);
void swi_identity_number(swi_identity *id, uint64_t number);
/* Files of the folder and those that the catalog reads: path, size and time of last change; and
 * what was known of its rows. */
SW_MUST_USE sw_status swi_identity_source(swi_identity *id, const sw_checkpoint *checkpoint,
                                          sw_error *err);
/* 32 lower-case hex digits. */
void swi_identity_end(const swi_identity *id, char text[SWI_IDENTITY_TEXT]);

#endif
