/* Hugging Face safetensors: the parts of the reader, and the target. */
#ifndef SW_CONVERT_HF_H
#define SW_CONVERT_HF_H

#include "framework.h"

SW_MUST_USE sw_status swi_hf_layout(const swi_target_in *in, swi_layout *layout, sw_error *err);

#endif
