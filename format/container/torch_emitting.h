/* Writing a pickle piece by piece, so that the code reads like the object; torch_*write*.c only. */
#ifndef SW_CONTAINER_TORCH_EMITTING_H
#define SW_CONTAINER_TORCH_EMITTING_H

#include "container/torch_file.h"

typedef struct swi_torch_emitting {
    swi_pickle_writer *w;
    uint32_t *memo; /* by slot: one more than the number in the pickle's memo; 0: not there yet */
    bool remembers; /* slots are used */
    sw_status st;   /* stays failed: nothing is written any more */
    sw_error *err;
} swi_torch_emitting;

/* What has no slot. */
#define SWI_TE_NO_SLOT UINT32_MAX

void swi_te_op(swi_torch_emitting *e, char opcode);
void swi_te_ops(swi_torch_emitting *e, const char *opcodes);
void swi_te_int(swi_torch_emitting *e, int64_t v);
void swi_te_text(swi_torch_emitting *e, const char *s);
/* A TUPLE, a LIST of numbers. */
void swi_te_ints(swi_torch_emitting *e, uint32_t count, const int64_t *items);
void swi_te_int_list(swi_torch_emitting *e, uint32_t count, const int64_t *items);
/* Whether the memo has what `slot` stands for; it is on the stack then. */
bool swi_te_recalled(swi_torch_emitting *e, uint32_t slot);
/* What is on top of the stack is what `slot` stands for. */
void swi_te_remember(swi_torch_emitting *e, uint32_t slot);
void swi_te_global(swi_torch_emitting *e, uint32_t slot, const char *module, const char *name);
void swi_te_word(swi_torch_emitting *e, uint32_t slot, const char *s);

#endif
