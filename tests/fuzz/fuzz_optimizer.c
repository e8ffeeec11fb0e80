/*
 * Any state dict: walked, its optimizers lifted, lowered into every keying and lifted again, and
 * all of it brought into every form. A persistent id is the number of a tensor of the sample
 * checkpoint; the first byte says whether the order of its tensors is known.
 */
#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

#include "codec/pickle.h"
#include "hex.h"
#include "state/state_form.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];
static sw_checkpoint *sample;

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void remove_sample(void)
{
    sw_checkpoint_close(sample);
    (void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_sample(void)
{
    char path[80];
    sw_error err = {0};
    (void)snprintf(folder, sizeof folder, "/tmp/fuzz_optimizer.XXXXXX");
    if (mkdtemp(folder) == NULL)
        abort();
    (void)snprintf(path, sizeof path, "%s/demo", folder);
    if (sw_demo(path, &err) != SW_OK ||
        sw_checkpoint_open(path, NULL, NULL, &sample, &err) != SW_OK)
        abort();
    (void)atexit(remove_sample);
}

static sw_status tensor_of_id(void *ctx, sw_value_graph *g, sw_value id, sw_value *out,
                              sw_error *err)
{
    int64_t number = 0;
    size_t count = sw_catalog_tensor_count(sw_checkpoint_catalog(sample));
    (void)ctx, (void)err;
    (void)sw_value_int(g, id, &number);
    *out = swi_value_of_tensor((uint32_t)((uint64_t)number % count));
    return SW_OK;
}

static sw_status see_leaf(void *ctx, const swi_state_leaf *leaf, sw_error *err)
{
    size_t *bytes = ctx;
    (void)err;
    for (size_t i = 0; i < leaf->parts; i++)
        *bytes += strlen(leaf->path[i]);
    return SW_OK;
}

/* What was lowered is found again; by name it has as many states. */
static void check_lowered(const swi_optimizer *o, swi_opt_keying keying, bool ordered)
{
    swi_state t = {.ordered = ordered};
    swi_optimizer *again = NULL;
    size_t count = 0;
    sw_error err = {0};
    if (swi_graph_make(NULL, &t.graph, &err) != SW_OK)
        return;
    if (swi_optimizer_lower(o, keying, t.graph, &t.root, &err) == SW_OK &&
        swi_optimizers_lift(sample, &t, NULL, &again, &count, &err) == SW_OK &&
        keying == SWI_OPT_NESTED_NAMES && count > 0 && o->keying == SWI_OPT_NESTED_NAMES &&
        again[0].state_count != o->state_count)
        __builtin_trap();
    swi_optimizers_free(again, count);
    swi_state_free(&t);
}

/* Into every form, one after another; each leaves a state that can be walked. */
static void reform(swi_state *s)
{
    static const swi_opt_form forms[] = {SWI_FORM_NAMES, SWI_FORM_FLAT, SWI_FORM_IDS,
                                         SWI_FORM_NESTED};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const swi_state_form form = {.optimizer = forms[i], .lenient = i > 1};
        sw_error err = {0};
        if (swi_state_reform(sample, &form, s, NULL, &err) != err.status)
            __builtin_trap();
        err = (sw_error){0};
        if (swi_state_walk(s, see_leaf, &bytes, &err) != err.status)
            __builtin_trap();
    }
}

static void run(const uint8_t *data, size_t size, bool ordered)
{
    const sw_limits limits = {.nodes = 20000};
    const swi_pickle_options options = {.persistent = tensor_of_id};
    swi_state s = {.ordered = ordered};
    swi_pickle_unsafe unsafe;
    swi_optimizer *items = NULL;
    size_t count = 0, bytes = 0;
    sw_error err = {0};
    if (swi_graph_make(&limits, &s.graph, &err) != SW_OK)
        return;
    swi_cursor cursor = swi_cursor_make(data, size);
    if (swi_pickle_read(&cursor, &options, s.graph, &s.root, &unsafe, &err) == SW_OK) {
        if (swi_state_walk(&s, see_leaf, &bytes, &err) != err.status)
            __builtin_trap();
        err = (sw_error){0};
        if (swi_optimizers_lift(sample, &s, NULL, &items, &count, &err) != err.status)
            __builtin_trap();
    }
    for (size_t i = 0; i < count && i < 4; i++)
        for (int keying = SWI_OPT_NESTED_NAMES; keying <= SWI_OPT_FLAT; keying++)
            check_lowered(&items[i], (swi_opt_keying)keying, ordered);
    swi_optimizers_free(items, count);
    reform(&s);
    swi_state_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t count;
    if (sample == NULL)
        make_sample();
    uint8_t *bytes = bytes_of_hex(data, size, &count);
    if (bytes != NULL) {
        run(bytes, count, false);
        run(bytes, count, true);
    } else if (size > 0) {
        run(data + 1, size - 1, (data[0] & 1) != 0);
    }
    free(bytes);
    return 0;
}
