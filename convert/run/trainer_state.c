#include "run/trainer_state.h"

#include <stdlib.h>
#include <string.h>

#include "codec/json.h"

/* It keeps the whole history of a run. */
#define FILE_MAX (UINT64_C(256) << 20)

static bool is_key(const swi_json_event *e, const char *key)
{
    return e->size == strlen(key) && memcmp(e->text, key, e->size) == 0;
}

static void take_text(const swi_json_event *e, char *out, size_t room)
{
    if (e->kind != SWI_JSON_STRING || e->size >= room || memchr(e->text, 0, e->size) != NULL)
        return;
    memcpy(out, e->text, e->size);
    out[e->size] = '\0';
}

static sw_status read_object(swi_json_reader *reader, swi_trainer_state *out, sw_error *err)
{
    swi_json_event e;
    sw_status st = swi_json_next(reader, &e, err);
    if (st != SW_OK || e.kind != SWI_JSON_OBJECT_BEGIN)
        return st;
    for (;;) {
        st = swi_json_next(reader, &e, err);
        if (st != SW_OK || e.kind != SWI_JSON_KEY)
            return st;
        bool step = is_key(&e, "global_step");
        bool best = is_key(&e, "best_model_checkpoint");
        st = swi_json_next(reader, &e, err);
        if (st == SW_OK && step && e.kind == SWI_JSON_INT && e.integer >= 0)
            out->global_step = e.integer;
        if (st == SW_OK && best)
            take_text(&e, out->best_model_checkpoint, sizeof out->best_model_checkpoint);
        if (st == SW_OK)
            st = swi_json_skip_rest(reader, &e, err);
        if (st != SW_OK)
            return st;
    }
}

sw_status swi_trainer_state_read(const swi_store *store, const sw_limits *limits,
                                 swi_trainer_state *out, sw_error *err)
{
    swi_trainer_state state = {.global_step = -1};
    uint8_t *data = NULL;
    size_t size = 0;
    swi_json_reader *reader = NULL;
    sw_error cause = {0};
    sw_status st =
        swi_store_read_all(store, SWI_TRAINER_STATE_NAME, FILE_MAX, &data, &size, &cause);
    if (st == SW_OK)
        st = swi_json_reader_make(data, size, limits, &reader, &cause);
    if (st == SW_OK) {
        swi_json_allow_nonfinite(reader);
        st = read_object(reader, &state, &cause);
    }
    swi_json_reader_free(reader);
    free(data);
    if (st == SW_ERR_NOMEM || st == SW_ERR_IO) {
        if (err != NULL)
            *err = cause;
        return st;
    }
    *out = state;
    return SW_OK;
}
