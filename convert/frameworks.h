/* The tables that registry.c lists, one a framework. */
#ifndef SW_CONVERT_FRAMEWORKS_H
#define SW_CONVERT_FRAMEWORKS_H

#include "framework.h"

extern const swi_framework swi_framework_dcp;
extern const swi_framework swi_framework_hf;
extern const swi_framework swi_framework_torch;
extern const swi_framework swi_framework_rank_files;
extern const swi_framework swi_framework_fsdp1;
extern const swi_framework swi_framework_vllm;
extern const swi_framework swi_framework_meta;
extern const swi_framework swi_framework_trainer;
extern const swi_framework swi_framework_native;

#endif
