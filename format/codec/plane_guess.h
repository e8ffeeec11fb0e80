/*
 * How a plane is best stored, judged from a sample of it. Integers alone, so that every processor
 * judges the same.
 */
#ifndef SW_CODEC_PLANE_GUESS_H
#define SW_CODEC_PLANE_GUESS_H

#include <stddef.h>
#include <stdint.h>

/* Elements in the sample of a chunk: all of them, or so many in slices spread over it. */
#define SWI_GUESS_SAMPLE 1024
#define SWI_GUESS_SLICES 8

typedef enum swi_plane_how {
    SWI_PLANE_STORE,   /* as it is: coding would gain next to nothing */
    SWI_PLANE_HUFFMAN, /* its bytes are uneven, but do not repeat in runs */
    SWI_PLANE_SEARCH   /* runs of bytes come again: worth a search for matches */
} swi_plane_how;

typedef struct swi_plane_guess {
    swi_plane_how how;
    uint32_t bits; /* that Huffman codes need for a byte, in 1/256 */
} swi_plane_guess;

/* `count`: 1 .. SWI_GUESS_SAMPLE. */
swi_plane_guess swi_plane_guess_of(const uint8_t *sample, size_t count);

#endif
