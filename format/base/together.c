#include "base/together.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/arena.h"

typedef struct helper {
    swi_hand hand;
    void *ctx;
    pthread_t thread;
    sw_status status;
    sw_error error;
} helper;

static void *run(void *argument)
{
    helper *me = argument;
    me->status = me->hand(me->ctx, &me->error);
    return NULL;
}

/* Fewer do the same work. */
static size_t start(helper *helpers, size_t count, swi_hand hand, void *ctx)
{
    for (size_t i = 0; i < count; i++) {
        helpers[i].hand = hand;
        helpers[i].ctx = ctx;
        if (pthread_create(&helpers[i].thread, NULL, run, &helpers[i]) != 0)
            return i;
    }
    return count;
}

sw_status swi_together(uint32_t hands, swi_hand hand, void *ctx, sw_error *err)
{
    if (hands <= 1)
        return hand(ctx, err);
    void *room;
    size_t count = (hands < SWI_HANDS_MAX ? hands : SWI_HANDS_MAX) - 1;
    sw_status status = swi_alloc_array(count, sizeof(helper), &room, err);
    if (status != SW_OK)
        return status;
    helper *helpers = room;
    size_t started = start(helpers, count, hand, ctx);
    status = hand(ctx, err);
    for (size_t i = 0; i < started; i++) {
        (void)pthread_join(helpers[i].thread, NULL);
        if (status == SW_OK && helpers[i].status != SW_OK) {
            status = helpers[i].status;
            if (err != NULL)
                *err = helpers[i].error;
        }
    }
    free(helpers);
    return status;
}
