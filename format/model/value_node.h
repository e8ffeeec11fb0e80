/*
 * How the nodes of a value graph lie in memory. Private to model/value*.c and to the pickle
 * machine, which makes tens of millions of nodes and cannot afford a call for each look.
 *
 * A value is payload << 5 | tag. Small ones are immediate; for the rest the payload is the index of
 * the first word of the node: chunk << 16 | word. A node never crosses a chunk; nodes of
 * SWI_NODE_OWN_WORDS words and more have a chunk of their own, which can be resized in place.
 *
 *   INT64, FLOAT        1 word
 *   COMPLEX             2 words
 *   STR, BYTES, BIGINT  size, then the bytes and a zero (top bit of size: a bytearray)
 *   TUPLE, FROZENSET    head, elements
 *   LIST, SET           head, capacity, index of the block of elements
 *   DICT                head, capacity, index of the block of pairs, index of the hash block
 *   OBJECT              head, callable, args, state, items
 *   GLOBAL              mark, index of the module's STR node, index of the name's
 *   PERSISTENT          id
 *
 * A head is count | link << 32. For an OBJECT the count is flags. The link says who can reach the
 * node apart from the place where it was put: 0 nobody, else the number of its reference + 1, and
 * SWI_LINK_SHARED once that reference was taken.
 */
#ifndef SW_MODEL_VALUE_NODE_H
#define SW_MODEL_VALUE_NODE_H

#include "model/value.h"

enum {
    SWI_TAG_NONE = 0,
    SWI_TAG_BOOL,
    SWI_TAG_INT,
    SWI_TAG_INT64,
    SWI_TAG_BIGINT,
    SWI_TAG_FLOAT,
    SWI_TAG_COMPLEX,
    SWI_TAG_STR,
    SWI_TAG_BYTES,
    SWI_TAG_LIST,
    SWI_TAG_TUPLE,
    SWI_TAG_DICT,
    SWI_TAG_SET,
    SWI_TAG_FROZENSET,
    SWI_TAG_GLOBAL,
    SWI_TAG_OBJECT,
    SWI_TAG_PERSISTENT,
    SWI_TAG_RECORD,
    SWI_TAG_TENSOR,
    SWI_TAG_COUNT,
    SWI_TAG_WIDE = 29,   /* a reference that 32 bits do not hold: see swi_ref_at */
    SWI_TAG_UNSET = 30,  /* a reference that was never set */
    SWI_TAG_DROPPED = 31 /* a reference whose node was given back */
};

#define SWI_TAG_BITS 5
#define SWI_TAG_MASK ((1U << SWI_TAG_BITS) - 1)
#define SWI_CHUNK_BITS 16
#define SWI_CHUNK_WORDS ((size_t)1 << SWI_CHUNK_BITS)
#define SWI_NODE_OWN_WORDS ((size_t)2048)
#define SWI_SMALL_WORDS 32
#define SWI_LARGE_CLASSES 6 /* 64, 128 ... 2048 words */
#define SWI_INTERN_SLOTS 2048
#define SWI_INTERN_MAX_BYTES 128

#define SWI_REFS_MAX ((size_t)0x7fffffff)
#define SWI_LINK_SHARED ((uint64_t)1 << 63)
#define SWI_LINK_NUMBER ((uint64_t)0x7fffffff << 32)
#define SWI_COUNT_MASK ((uint64_t)0xffffffff)
#define SWI_SIZE_MASK (((uint64_t)1 << 63) - 1)

#define SWI_OBJECT_NEW ((uint64_t)1)
#define SWI_OBJECT_STATE ((uint64_t)2)
#define SWI_OBJECT_ITEMS ((uint64_t)4)

typedef struct swi_value_chunk {
    uint64_t *words;
    size_t size; /* words */
} swi_value_chunk;

struct sw_value_graph {
    swi_value_chunk *chunks;
    size_t chunk_count, chunk_capacity;
    uint64_t next; /* index of the next free word of the current chunk */
    size_t left;   /* words left there */
    uint64_t free_small[SWI_SMALL_WORDS + 1];
    uint64_t free_large[SWI_LARGE_CLASSES];
    uint64_t nodes, node_limit; /* nodes and elements of containers */
    uint64_t bytes;
    uint64_t key[2];  /* secret of the hashes */
    sw_value globals; /* DICT: "module\0name" -> GLOBAL */
    uint32_t *refs;   /* numbered references: see swi_graph_put and swi_ref_at */
    size_t ref_count, ref_capacity;
    sw_value *wide; /* references that 32 bits do not hold */
    size_t wide_count, wide_capacity;
    uint64_t refs_set;
    uint64_t intern[SWI_INTERN_SLOTS]; /* short strings met lately: a cache, not a table */
};

static inline sw_value swi_value_of(unsigned tag, uint64_t payload)
{
    return (sw_value){payload << SWI_TAG_BITS | tag};
}

static inline unsigned swi_value_tag(sw_value v)
{
    return (unsigned)(v.bits & SWI_TAG_MASK);
}

static inline uint64_t *swi_words(const sw_value_graph *g, uint64_t index)
{
    return g->chunks[index >> SWI_CHUNK_BITS].words + (index & (SWI_CHUNK_WORDS - 1));
}

static inline uint64_t *swi_node(const sw_value_graph *g, sw_value v)
{
    return swi_words(g, v.bits >> SWI_TAG_BITS);
}

/* Nodes that begin with a head. The empty tuple has none: it is a constant. */
static inline bool swi_value_has_head(sw_value v)
{
    const unsigned heads = 1U << SWI_TAG_LIST | 1U << SWI_TAG_TUPLE | 1U << SWI_TAG_DICT |
                           1U << SWI_TAG_SET | 1U << SWI_TAG_FROZENSET | 1U << SWI_TAG_OBJECT;
    unsigned tag = swi_value_tag(v);
    return tag < SWI_TAG_COUNT && (heads >> tag & 1) != 0 && v.bits >> SWI_TAG_BITS != 0;
}

static inline size_t swi_head_count(uint64_t head)
{
    return (size_t)(head & SWI_COUNT_MASK);
}

#define SWI_EMPTY_TUPLE ((sw_value){SWI_TAG_TUPLE})

/* 59 bits, sign kept. */
static inline bool swi_int_fits(int64_t v)
{
    return v >= -((int64_t)1 << 58) && v < (int64_t)1 << 58;
}

static inline int64_t swi_int_immediate(sw_value v)
{
    return (int64_t)v.bits >> SWI_TAG_BITS;
}

/*
 * A pickle may number tens of millions of values, most of which have few bits: a reference is kept
 * in 32 of them, a wider value in `wide` and its index there as SWI_TAG_WIDE.
 */
static inline sw_value swi_ref_at(const sw_value_graph *g, size_t number)
{
    uint32_t ref = g->refs[number];
    return (ref & SWI_TAG_MASK) != SWI_TAG_WIDE ? (sw_value){ref} : g->wide[ref >> SWI_TAG_BITS];
}

static inline bool swi_ref_fits(sw_value v)
{
    return v.bits <= UINT32_MAX;
}

/* Another value for a number that is in use. */
SW_MUST_USE sw_status swi_ref_set(sw_value_graph *g, size_t number, sw_value v, sw_error *err);

/* swi_graph_put, with the usual case inline: the next number. */
static inline sw_status swi_ref_put(sw_value_graph *g, uint64_t number, sw_value v, sw_error *err)
{
    if (number != g->ref_count || number >= g->ref_capacity || !swi_ref_fits(v))
        return swi_graph_put(g, number, v, err);
    g->refs[g->ref_count++] = (uint32_t)v.bits;
    g->refs_set++;
    if (swi_value_has_head(v)) {
        uint64_t *head = swi_node(g, v);
        *head |= *head >> 32 != 0 ? SWI_LINK_SHARED : (number + 1) << 32;
    }
    return SW_OK;
}

/* ---- inside model/ ---- */

/* swi_node_alloc and swi_graph_charge in one, undone together. */
SW_MUST_USE sw_status swi_node_make_slow(sw_value_graph *g, size_t words, uint64_t charge,
                                         uint64_t *index, sw_error *err);

static inline sw_status swi_node_make(sw_value_graph *g, size_t words, uint64_t charge,
                                      uint64_t *index, sw_error *err)
{
    uint64_t have = words <= SWI_SMALL_WORDS ? g->free_small[words] : 0;
    if (have == 0 || charge > g->node_limit - g->nodes)
        return swi_node_make_slow(g, words, charge, index, err);
    g->free_small[words] = *swi_words(g, have);
    g->nodes += charge;
    *index = have;
    return SW_OK;
}

/* A TUPLE of 1 to 3 elements. */
static inline sw_status swi_graph_tuple(sw_value_graph *g, const sw_value *items, size_t count,
                                        sw_value *out, sw_error *err)
{
    uint64_t index;
    sw_status status = swi_node_make(g, 1 + count, 1 + count, &index, err);
    if (status != SW_OK)
        return status;
    uint64_t *node = swi_words(g, index);
    node[0] = count;
    for (size_t i = 0; i < count; i++)
        node[1 + i] = items[i].bits;
    *out = swi_value_of(SWI_TAG_TUPLE, index);
    return SW_OK;
}

SW_MUST_USE sw_status swi_node_alloc(sw_value_graph *g, size_t words, uint64_t *index,
                                     sw_error *err);
void swi_node_release(sw_value_graph *g, uint64_t index, size_t words);
/* Resizes a block: *index of old_words to new_words; contents kept. */
SW_MUST_USE sw_status swi_node_regrow(sw_value_graph *g, uint64_t *index, size_t old_words,
                                      size_t new_words, sw_error *err);
/* Counts nodes and elements against the limit. */
SW_MUST_USE sw_status swi_graph_charge(sw_value_graph *g, uint64_t count, sw_error *err);
/* The words of the hash block of a DICT of this capacity of pairs. */
size_t swi_dict_index_words(uint64_t capacity);
uint64_t swi_hash_bytes(const uint64_t key[2], const void *data, size_t size);

#endif
