/*
 * Elements times factors (weights that are stored with block scales): the product is rounded to
 * float32, then cast to the type that is wanted, each to nearest, ties to even. An element that is
 * NaN stays it, else a factor that is NaN makes one, and so do an infinity and a zero.
 */
#ifndef SW_RESHARD_TRANSFORM_H
#define SW_RESHARD_TRANSFORM_H

#include "shardwright_reshard.h"

/*
 * `from` and `factor`: float16, bfloat16, float32, the four float8 types; factors also
 * float8_e8m0fnu (2^(byte - 127)). `to`: float16, bfloat16, float32.
 */
bool swi_scale_possible(sw_dtype from, sw_dtype factor, sw_dtype to);

typedef struct swi_scale_in {
    const void *elements;
    sw_dtype from;
    const void *factors; /* one for each element */
    sw_dtype factor;
} swi_scale_in;
/* `count` elements; out overlaps neither. Adds to the cast_* fields of *tally. */
void swi_scale(const swi_scale_in *in, void *out, sw_dtype to, size_t count, sw_tally *tally);

#endif
