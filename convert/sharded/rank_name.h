/* Names of files that are those of ranks: which rank, and which part of what it holds. */
#ifndef SW_CONVERT_RANK_NAME_H
#define SW_CONVERT_RANK_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers of more digits are none. */
#define SWI_RANK_DIGITS_MAX 9
#define SWI_RANK_NAME_BYTES 96

/*
 * A name with numbers in it: "%r" the rank, "%R" the same in two digits at least, "%p" the part,
 * "%s" the stage of a pipeline.
 */
typedef struct swi_rank_name {
    uint64_t rank, part, stage; /* 0 where the pattern has none */
} swi_rank_name;

/* False: the name is another one. A name is given by one triple of numbers alone. */
bool swi_rank_name_parse(const char *pattern, const char *name, swi_rank_name *out);
void swi_rank_name_print(const char *pattern, const swi_rank_name *numbers,
                         char out[SWI_RANK_NAME_BYTES]);

#endif
