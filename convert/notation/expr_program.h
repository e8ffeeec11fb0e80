/* The compiled form of an expression: expr_compile.c makes it, expr_eval.c runs it. */
#ifndef SW_CONVERT_NOTATION_EXPR_PROGRAM_H
#define SW_CONVERT_NOTATION_EXPR_PROGRAM_H

#include "base/arena.h"
#include "notation/expr.h"

typedef enum swi_expr_op {
    /* operands */
    SWI_OP_LITERAL, /* index: of the literal */
    SWI_OP_NAME,    /* index: of the use */
    SWI_OP_MEMBER,  /* index: of the literal that is the key; the object is the top */
    /* one operand */
    SWI_OP_NEGATE,
    SWI_OP_NOT,
    SWI_OP_TRUTH,
    /* two operands */
    SWI_OP_ADD,
    SWI_OP_SUBTRACT,
    SWI_OP_MULTIPLY,
    SWI_OP_DIVIDE,
    SWI_OP_FLOOR_DIVIDE,
    SWI_OP_MODULO,
    SWI_OP_EQUAL,
    SWI_OP_UNEQUAL,
    SWI_OP_LESS,
    SWI_OP_LESS_EQUAL,
    SWI_OP_GREATER,
    SWI_OP_GREATER_EQUAL,
    SWI_OP_IN,
    SWI_OP_NOT_IN,
    /* They look at their left operand: either it is the result, and the next step is `index`, or it
     * is dropped and the right operand follows. */
    SWI_OP_AND,
    SWI_OP_OR,
    SWI_OP_ELSE,
    /* index: operands, the function's arguments */
    SWI_OP_CEIL,
    SWI_OP_INT,
    SWI_OP_MIN,
    SWI_OP_MAX,
    SWI_OP_LEN,
    /* never a step: what waits while compiling */
    SWI_OP_OPEN
} swi_expr_op;

typedef struct swi_expr_step {
    swi_expr_op op;
    uint32_t index;
    size_t offset_bytes; /* in the text */
} swi_expr_step;

struct swi_expr {
    swi_arena arena; /* all that follows */
    const char *text;
    size_t size;
    swi_expr_step *steps;
    size_t step_count;
    swi_expr_value *literals;
    size_t literal_count;
    swi_expr_use *uses;
    size_t use_count;
};

#endif
