/* Files of torch.save of each rank of an FSDP1 run. Clauses FS-n are those of specs/fsdp1.md. */
#ifndef SW_CONVERT_FSDP1_RANKS_H
#define SW_CONVERT_FSDP1_RANKS_H

#include "framework.h"
#include "fsdp1/fsdp1_options.h"

SW_MUST_USE sw_status swi_fsdp1_lay_ranks(const swi_target_in *in, const swi_fsdp1_options *options,
                                          swi_layout *layout, sw_error *err);

#endif
