/* The state of the pickle machine, shared by the files that hold its opcodes. Private to codec/. */
#ifndef SW_CODEC_PICKLE_MACHINE_H
#define SW_CODEC_PICKLE_MACHINE_H

#include "codec/pickle.h"
#include "model/value_node.h"

#define SWI_PM_MADE_MAX 64

/* Something a hook's `make` made, whose BUILD is still to come. */
typedef struct swi_pm_made {
    sw_value v;
    const swi_pickle_hook *hook;
    int64_t ref; /* its number in the memo, or -1 */
} swi_pm_made;

typedef struct swi_pm {
    swi_feed *feed;
    swi_cursor *c; /* its cursor */
    sw_value_graph *g;
    const swi_pickle_options *options;
    swi_pickle_unsafe *unsafe; /* NULL: the first one fails */
    sw_error *err;
    sw_value *stack;
    size_t top, capacity;
    size_t floor; /* nothing below it may be popped: the last mark, or 0 */
    size_t *marks;
    size_t mark_count, mark_capacity;
    uint8_t op;
    bool stopped;
    int protocol;
    uint64_t start;     /* of the pickle, in the input */
    uint64_t op_pos;    /* of the opcode that runs */
    uint64_t frame_end; /* 0: no frame */
    bool cut;           /* the window ended inside the opcode, which has done nothing */
    /*
     * builtins.getattr of a nested class is how old protocols name it; anything else done with it
     * is dangerous. So each time that it gets on the stack must be matched by such a call.
     */
    sw_value getattr;
    uint64_t getattr_pushed, getattr_named;
    uint64_t getattr_pos;
    swi_pm_made made[SWI_PM_MADE_MAX]; /* a ring */
    size_t made_count;
    swi_buf scratch;
} swi_pm;

/* "pickle: OPCODE: TEXT", with the clause and the position of the opcode. */
sw_status swi_pm_fail(swi_pm *m, sw_status status, const char *clause, const char *fmt, ...)
    SW_PRINTF(4, 5);
/*
 * The opcode's argument goes on behind the window: to be returned before anything was changed, for
 * the opcode runs again with more of the input in the window, or fails if there is no more.
 */
sw_status swi_pm_cut(swi_pm *m);
sw_status swi_pm_grow(swi_pm *m);

static inline sw_status swi_pm_push(swi_pm *m, sw_value v)
{
    if (m->top == m->capacity) {
        sw_status status = swi_pm_grow(m);
        if (status != SW_OK)
            return status;
    }
    m->stack[m->top++] = v;
    return SW_OK;
}

/* At least `count` values above the last mark. */
static inline bool swi_pm_has(const swi_pm *m, size_t count)
{
    return m->top - m->floor >= count;
}

sw_status swi_pm_underflow(swi_pm *m);
/* Takes the values above the last mark off the stack (they stay readable until the next push). */
sw_status swi_pm_pop_mark(swi_pm *m, sw_value **items, size_t *count);

/* Scalars and text (pickle_scalars.c). */
sw_status swi_pm_int_text(swi_pm *m);
sw_status swi_pm_long_text(swi_pm *m);
sw_status swi_pm_float_text(swi_pm *m);
sw_status swi_pm_long1(swi_pm *m);
sw_status swi_pm_long4(swi_pm *m);
sw_status swi_pm_binfloat(swi_pm *m);
sw_status swi_pm_string(swi_pm *m);
sw_status swi_pm_unicode(swi_pm *m);
sw_status swi_pm_counted(swi_pm *m); /* every length-prefixed text and bytes */
/* The bytes of a latin-1 text, in m->scratch; false: a character beyond. */
SW_MUST_USE sw_status swi_pm_latin1(swi_pm *m, sw_value text, bool *ok);
/* Decimal digits of a line: a memo number or the like. */
bool swi_pm_decimal(const uint8_t *line, size_t size, uint64_t *out);

/* Integers of up to 32 bits are immediate values. */
static inline sw_status swi_pm_push_small(swi_pm *m, int64_t v)
{
    return swi_pm_push(m, swi_value_of(SWI_TAG_INT, (uint64_t)v));
}

static inline sw_status swi_pm_binint(swi_pm *m)
{
    uint32_t v;
    return swi_get_u32le(m->c, &v) ? swi_pm_push_small(m, (int32_t)v) : swi_pm_cut(m);
}

static inline sw_status swi_pm_binint1(swi_pm *m)
{
    uint8_t v;
    return swi_get_u8(m->c, &v) ? swi_pm_push_small(m, v) : swi_pm_cut(m);
}

static inline sw_status swi_pm_binint2(swi_pm *m)
{
    uint16_t v;
    return swi_get_u16le(m->c, &v) ? swi_pm_push_small(m, v) : swi_pm_cut(m);
}

/* Globals, calls and their state (pickle_calls.c). */
/* What Python 3 makes of a name in a pickle of protocols 0 to 2: the modules that moved. */
void swi_pm_move_global(const char **module, const char **name);
sw_status swi_pm_global(swi_pm *m);
sw_status swi_pm_stack_global(swi_pm *m);
sw_status swi_pm_inst(swi_pm *m);
sw_status swi_pm_obj(swi_pm *m);
sw_status swi_pm_reduce(swi_pm *m);
sw_status swi_pm_newobj(swi_pm *m);
sw_status swi_pm_newobj_ex(swi_pm *m);
/*
 * SETITEMS into a state dict that was just made, with BUILD next: the hook folds the items and
 * BUILD is done too (*folded).
 */
sw_status swi_pm_fold_items(swi_pm *m, const sw_value *items, size_t count, bool *folded);
sw_status swi_pm_build(swi_pm *m);
/* Puts what is neither list, set nor dict under its items: APPENDS and SETITEMS of an OBJECT. */
sw_status swi_pm_append_to(swi_pm *m, sw_value target, const sw_value *items, size_t count);
sw_status swi_pm_set_in(swi_pm *m, sw_value target, const sw_value *pairs, size_t pair_count);
/* A dangerous use of builtins.getattr that is not listed yet. */
sw_status swi_pm_check_getattr(swi_pm *m);

#endif
