/*
 * Checkpoints as inference engines have them: each rank's files hold its local tensors under plain
 * names, and nothing in them says what they are parts of. A model (map/model.h) says that: the
 * shapes of its side, and how that side's layout divides them.
 *
 * A kind of such checkpoints is data: names of files, how they lie on disk, a side of maps. All
 * else is shared: claims, listing, reading, laying out. Clauses SH-n are those of specs/sharded.md.
 */
#ifndef SW_CONVERT_SHARDED_H
#define SW_CONVERT_SHARDED_H

#include "framework.h"

#define SWI_SHARDED_NAMES 2

typedef struct swi_sharded_kind {
    const char *side;                     /* of maps */
    const char *names[SWI_SHARDED_NAMES]; /* patterns (rank_name.h); targets write the first */
    bool parts;                           /* a rank may have several files */
    const char *axis;                     /* of layouts: the one along which ranks lie */
    const struct swi_rank_container *container;
} swi_sharded_kind;

/* Whether a file of that name is one of a rank of some kind here, and so none of a whole model. */
bool swi_sharded_owns(const char *name);

/* What the functions of a framework do, for a kind. */
swi_claim swi_sharded_claim(const swi_sharded_kind *kind, const swi_listing *listing);
SW_MUST_USE sw_status swi_sharded_open(const swi_sharded_kind *kind, swi_opening *o, sw_error *err);
SW_MUST_USE sw_status swi_sharded_layout(const swi_sharded_kind *kind, const swi_target_in *in,
                                         swi_layout *layout, sw_error *err);

#endif
