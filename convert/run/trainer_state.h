/* trainer_state.json, which Hugging Face's Trainer keeps in a checkpoint's folder. */
#ifndef SW_CONVERT_TRAINER_STATE_H
#define SW_CONVERT_TRAINER_STATE_H

#include "io/store.h"

#define SWI_TRAINER_STATE_NAME "trainer_state.json"

typedef struct swi_trainer_state {
    int64_t global_step;             /* -1: not told */
    char best_model_checkpoint[512]; /* a path of the training's machine; "": not told */
} swi_trainer_state;

/* What is absent or cannot be understood tells nothing; fails on NOMEM and on I/O. */
SW_MUST_USE sw_status swi_trainer_state_read(const swi_store *store, const sw_limits *limits,
                                             swi_trainer_state *out, sw_error *err);

#endif
