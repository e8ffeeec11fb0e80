/* Which framework's checkpoint lies at a path, and in which folder of its neighbourhood. */
#ifndef SW_CONVERT_DETECT_H
#define SW_CONVERT_DETECT_H

#include "framework.h"

typedef struct swi_detected {
    const swi_framework *framework;
    swi_store *store; /* owned by the caller, unless it is lent */
    bool lent;
    swi_listing *listing; /* owned by the caller */
    char *root;           /* owned by the caller: the folder that was chosen */
    bool alone;           /* one file of the folder, which is a checkpoint by itself */
    swi_claim claim;      /* how sure it is */
} swi_detected;

/*
 * By content. TOGETHER, then WHOLE claims in the folder itself win, then those of a child (one
 * level too high; optimizer folders beside a model folder stand back), then PART claims in the
 * folder. A file of a checkpoint stands for its folder, unless it is a checkpoint by itself.
 * Another folder than asked for is said as finding "other-folder". Two claims, or two children:
 * SW_ERR_CONFLICT names them.
 */
SW_MUST_USE sw_status swi_detect(const char *path, const char *from, const sw_limits *limits,
                                 sw_report *report, swi_detected *out, sw_error *err);
/*
 * What lies at `name` in the folder of `whole` ("": the folder itself, else a file or a folder in
 * it), as a part of what is there: TOGETHER is no claim on it. Stores of the same folder are lent.
 */
SW_MUST_USE sw_status swi_detect_part(const swi_detected *whole, const char *name,
                                      const sw_limits *limits, swi_detected *out, sw_error *err);
void swi_detected_free(swi_detected *d);
/* The surest claim on what is listed. */
SW_MUST_USE sw_status swi_claim_best(const swi_store *store, const swi_listing *listing,
                                     swi_claim *out, sw_error *err);
/* Folders of such names (of an optimizer) give way to others beside them. */
bool swi_stands_back(const char *folder);

#endif
