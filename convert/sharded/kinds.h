/* The kinds that there are. */
#ifndef SW_CONVERT_SHARDED_KINDS_H
#define SW_CONVERT_SHARDED_KINDS_H

#include "sharded/rank_name.h"
#include "sharded/sharded.h"

extern const swi_sharded_kind swi_sharded_vllm;
extern const swi_sharded_kind swi_sharded_meta;

/* Whether the name is one of the kind's files, and which. */
bool swi_sharded_parse(const swi_sharded_kind *kind, const char *name, swi_rank_name *out);

#endif
