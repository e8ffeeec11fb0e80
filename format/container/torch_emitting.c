#include "container/torch_emitting.h"

#include <string.h>

void swi_te_op(swi_torch_emitting *e, char opcode)
{
    if (e->st == SW_OK)
        e->st = swi_pickle_op(e->w, opcode, e->err);
}

void swi_te_ops(swi_torch_emitting *e, const char *opcodes)
{
    for (; *opcodes != '\0'; opcodes++)
        swi_te_op(e, *opcodes);
}

void swi_te_int(swi_torch_emitting *e, int64_t v)
{
    if (e->st == SW_OK)
        e->st = swi_pickle_int(e->w, v, e->err);
}

void swi_te_text(swi_torch_emitting *e, const char *s)
{
    if (e->st == SW_OK)
        e->st = swi_pickle_str(e->w, s, strlen(s), e->err);
}

void swi_te_ints(swi_torch_emitting *e, uint32_t count, const int64_t *items)
{
    swi_te_op(e, '(');
    for (uint32_t i = 0; i < count; i++)
        swi_te_int(e, items[i]);
    swi_te_op(e, 't');
}

void swi_te_int_list(swi_torch_emitting *e, uint32_t count, const int64_t *items)
{
    swi_te_ops(e, "](");
    for (uint32_t i = 0; i < count; i++)
        swi_te_int(e, items[i]);
    swi_te_op(e, 'e');
}

bool swi_te_recalled(swi_torch_emitting *e, uint32_t slot)
{
    if (!e->remembers || slot == SWI_TE_NO_SLOT || e->st != SW_OK || e->memo[slot] == 0)
        return false;
    e->st = swi_pickle_get(e->w, e->memo[slot] - 1, e->err);
    return true;
}

void swi_te_remember(swi_torch_emitting *e, uint32_t slot)
{
    uint32_t memo;
    if (!e->remembers || slot == SWI_TE_NO_SLOT || e->st != SW_OK)
        return;
    e->st = swi_pickle_put(e->w, &memo, e->err);
    if (e->st == SW_OK)
        e->memo[slot] = memo + 1;
}

void swi_te_global(swi_torch_emitting *e, uint32_t slot, const char *module, const char *name)
{
    if (swi_te_recalled(e, slot) || e->st != SW_OK)
        return;
    e->st = swi_pickle_global(e->w, module, name, e->err);
    swi_te_remember(e, slot);
}

void swi_te_word(swi_torch_emitting *e, uint32_t slot, const char *s)
{
    if (swi_te_recalled(e, slot))
        return;
    swi_te_text(e, s);
    swi_te_remember(e, slot);
}
