/* What --to fsdp1: asks for. Clauses FS-n are those of specs/fsdp1.md. */
#ifndef SW_CONVERT_FSDP1_OPTIONS_H
#define SW_CONVERT_FSDP1_OPTIONS_H

#include "base/error.h"

typedef enum swi_fsdp1_mode {
    SWI_FSDP1_SHARDED = 0, /* SHARDED_STATE_DICT: parameters in rows, the usual one */
    SWI_FSDP1_FULL,        /* FULL_STATE_DICT: one file */
    SWI_FSDP1_LOCAL        /* LOCAL_STATE_DICT: flat parameters */
} swi_fsdp1_mode;

typedef struct swi_fsdp1_options {
    swi_fsdp1_mode mode;
    uint64_t ranks;       /* that share a row */
    uint64_t replicate;   /* so many times all of it */
    bool use_orig_params; /* it was asked for */
    bool rank_files;      /* a file of torch.save for each rank, not a DCP folder */
    char device[32];      /* that those say they ran on */
} swi_fsdp1_options;

struct swi_target;
/* FS-33: the optimizer goes raw: that of the flat parameters, by number. */
bool swi_fsdp1_is_raw(const swi_fsdp1_options *options, const struct swi_target *target);
/* FS-31. SW_ERR_ARG names what is wrong, and what there is. */
SW_MUST_USE sw_status swi_fsdp1_options_parse(const char *text, swi_fsdp1_options *out,
                                              sw_error *err);

#endif
