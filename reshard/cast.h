/*
 * Element conversion between f64, f32, f16 and bf16: round to nearest even, NaN stays NaN (payload
 * cut, quiet), overflow to infinity counted, underflow to zero counted.
 */
#ifndef SW_RESHARD_CAST_H
#define SW_RESHARD_CAST_H

#include "shardwright_reshard.h"

bool swi_cast_possible(sw_dtype from, sw_dtype to);
/* `count` elements; in and out must not overlap. Adds to the cast_* fields of *tally. */
void swi_cast(const void *in, sw_dtype from, void *out, sw_dtype to, size_t count, sw_tally *tally);

#endif
