/* Files of torch.save as a target: storages shared as they were, parts left out, one file or none.
 */
#include "convert/torch_fixture.h"

#include <sys/stat.h>

#include "container/torch_file.h"
#include "model/catalog.h"
#include "state/state.h"

static char *in(void **state, const char *name)
{
    return harness_path(*state, "%s", name);
}

static void convert_file(const char *from, const char *to, const char *target, outcome *o)
{
    sw_convert_options options = {.to = target, .verify = true};
    run_convert(from, to, &options, o);
    assert_fine(o);
    assert_false(o->converted.partial);
}

static void convert_quietly(const char *from, const char *to, const char *target)
{
    outcome o;
    convert_file(from, to, target, &o);
    assert_int_equal(sw_report_count(o.report), 0);
    outcome_free(&o);
}

/* Where a tensor of an open file lies: its storage's place there, and its piece. */
static uint64_t storage_of(const sw_checkpoint *c, const char *name, swi_piece *piece)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(c);
    int64_t at = sw_catalog_find(catalog, name);
    swi_blob blob;
    sw_tensor_info info;
    if (at < 0)
        fail_msg("no tensor %s", name);
    sw_catalog_tensor(catalog, (size_t)at, &info);
    if (info.piece_count == 0)
        at = info.alias_of;
    swi_tensor_piece(catalog, (uint32_t)at, 0, piece);
    swi_catalog_blob(catalog, piece->blob, &blob);
    return blob.offset_bytes;
}

static void assert_shared(const sw_checkpoint *c, const char *a, const char *b, bool shared)
{
    swi_piece p, q;
    if ((storage_of(c, a, &p) == storage_of(c, b, &q)) != shared)
        fail_msg("%s and %s %s a storage", a, b, shared ? "do not share" : "share");
}

static void assert_strides(const sw_checkpoint *c, const char *name, int64_t base, int64_t first,
                           int64_t second)
{
    swi_piece p;
    (void)storage_of(c, name, &p);
    assert_int_equal(p.base_bytes, base * 4);
    assert_int_equal(p.stride_bytes[0], first * 4);
    if (p.axes > 1)
        assert_int_equal(p.stride_bytes[1], second * 4);
}

static void expect_floats(const sw_checkpoint *c, const char *name, const float *want)
{
    sw_tensor_info info;
    float *data = read_floats(c, name, &info);
    for (uint64_t i = 0; i < info.elements; i++)
        if (data[i] != want[i])
            fail_msg("%s: element %llu is %g", name, (unsigned long long)i, (double)data[i]);
    free(data);
}

typedef struct named_view {
    const char *name;
    size_t storage;
    int64_t start;
    uint32_t axes;
    int64_t shape[2], stride[2];
} named_view;

/* A dict of views of storages of 100 floats, each element its index. */
static void write_views(const char *path, const named_view *views, size_t count, bool legacy,
                        const char *byteorder)
{
    torch_world *w = torch_begin(legacy);
    float data[100];
    for (int i = 0; i < 100; i++) {
        uint32_t bits;
        data[i] = (float)i;
        memcpy(&bits, &data[i], 4);
        if (byteorder != NULL)
            bits = __builtin_bswap32(bits);
        memcpy(&data[i], &bits, 4);
    }
    for (size_t i = 0; i < 3; i++)
        (void)torch_storage(w, "FloatStorage", 4, data, sizeof data);
    torch_say(w, "} (");
    for (size_t i = 0; i < count; i++) {
        const named_view *v = &views[i];
        torch_key(w, v->name);
        torch_view(w, v->storage, v->start, v->axes, v->shape, v->stride);
    }
    torch_say(w, "u");
    if (legacy)
        torch_write_legacy(w, path);
    else
        torch_write_zip(w, path, &(torch_file_options){.byteorder = byteorder});
    torch_free(w);
}

static const named_view shared_views[] = {
    {"other", 2, 0, 1, {100}, {1}},      {"part", 0, 15, 1, {3}, {1}},
    {"whole", 0, 10, 2, {3, 4}, {4, 1}}, {"turned", 0, 10, 2, {4, 3}, {1, 4}},
    {"same", 0, 10, 2, {3, 4}, {4, 1}},  {"spread", 0, 12, 2, {2, 3}, {0, 1}},
    {"behind", 0, 30, 1, {2}, {1}},      {"columns", 1, 0, 2, {5, 4}, {1, 5}},
};

static void check_shared(const char *path)
{
    static const float whole[] = {10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21};
    static const float turned[] = {10, 14, 18, 11, 15, 19, 12, 16, 20, 13, 17, 21};
    static const float part[] = {15, 16, 17}, spread[] = {12, 13, 14, 12, 13, 14}, end[] = {30, 31};
    static const float columns[] = {0,  5,  10, 15, 1,  6,  11, 16, 2,  7,
                                    12, 17, 3,  8,  13, 18, 4,  9,  14, 19};
    sw_checkpoint *c = open_good(path);
    expect_floats(c, "whole", whole);
    expect_floats(c, "same", whole);
    expect_floats(c, "turned", turned);
    expect_floats(c, "part", part);
    expect_floats(c, "spread", spread);
    expect_floats(c, "behind", end);
    expect_floats(c, "columns", columns);
    const char *together[] = {"same", "turned", "part", "spread", "behind"};
    for (size_t i = 0; i < 5; i++)
        assert_shared(c, "whole", together[i], true);
    assert_shared(c, "whole", "other", false);
    assert_shared(c, "whole", "columns", false);
    /* cut to what is seen: it begins with `whole` */
    assert_strides(c, "whole", 0, 4, 1);
    assert_strides(c, "turned", 0, 1, 4);
    assert_strides(c, "part", 5, 1, 0);
    assert_strides(c, "spread", 2, 0, 1);
    assert_strides(c, "behind", 20, 1, 0);
    assert_strides(c, "columns", 0, 1, 5);
    sw_checkpoint_close(c);
}

static void test_storages_are_shared_again(void **state)
{
    static const char *const targets[] = {"torch", "torch:form=zip", "torch:form=legacy"};
    for (size_t kind = 0; kind < 3; kind++) {
        char *from = harness_path(*state, "from-%zu.pt", kind);
        write_views(from, shared_views, sizeof shared_views / sizeof shared_views[0], kind == 1,
                    kind == 2 ? "big" : NULL);
        for (size_t t = 0; t < 3; t++) {
            char *to = harness_path(*state, "to-%zu-%zu.pt", kind, t);
            convert_quietly(from, to, targets[t]);
            check_shared(to);
            outcome o;
            run_verify(to, &o);
            assert_fine(&o);
            if (t < 2)
                assert_int_equal(o.verified.tally.unchecked_bytes, 0);
            outcome_free(&o);
            /* once more: nothing is left to be cut */
            char *again = harness_path(*state, "again.pt");
            convert_quietly(to, again, targets[t]);
            assert_true(same_file(to, again));
            harness_remove(again);
        }
    }
    assert_true(same_file(in(state, "to-0-0.pt"), in(state, "to-0-1.pt")));
    assert_true(same_file(in(state, "to-0-0.pt"), in(state, "to-1-0.pt")));
    assert_true(same_file(in(state, "to-0-0.pt"), in(state, "to-2-0.pt")));
}

/* What lies between two tensors of a storage is seen by none, and zero. */
/* TS-15: one tensor is the step of two parameters; weights that are tied stay so. */
static void test_states_of_optimizers_share_nothing(void **state)
{
    char *from = in(state, "from.pt"), *to = in(state, "to.pt");
    torch_world *w = torch_begin(false);
    const float step = 7, weight[2] = {1, 2};
    torch_say(w, "} ( 'model' } (");
    const size_t weights = torch_storage(w, "FloatStorage", 4, weight, sizeof weight);
    torch_key(w, "a");
    torch_view(w, weights, 0, 1, (const int64_t[]){2}, (const int64_t[]){1});
    torch_key(w, "b");
    torch_view(w, weights, 0, 1, (const int64_t[]){2}, (const int64_t[]){1});
    torch_say(w, "u 'optimizer' } ( 'state' } ( 'a' } ( 'step'");
    const size_t steps = torch_storage(w, "FloatStorage", 4, &step, sizeof step);
    torch_view(w, steps, 0, 0, NULL, NULL);
    torch_say(w, "u 'b' } ( 'step'");
    torch_view(w, steps, 0, 0, NULL, NULL);
    torch_say(w, "u u 'param_groups' ] ( } ( 'params' ] ( 'a' 'b' e u e u u");
    torch_write_zip(w, from, NULL);
    torch_free(w);
    convert_quietly(from, to, "torch");
    sw_checkpoint *c = open_good(to);
    assert_shared(c, "model.a", "model.b", true);
    assert_shared(c, "optimizer.state.a.step", "optimizer.state.b.step", false);
    sw_checkpoint_close(c);
    free(from);
    free(to);
}

/* {"model": {embed, layers.0.w, norm, head}, "optimizer": groups that list them so} */
static void write_groups(const char *path, const char *const *listed)
{
    static const char *const names[] = {"embed", "layers.0.w", "norm", "head"};
    torch_world *w = torch_begin(false);
    const int64_t two = 2;
    torch_say(w, "} ( 'model' } (");
    for (size_t i = 0; i < 4; i++)
        torch_ramp(w, names[i], 1, &two, 10.0F * (float)i);
    torch_say(w, "u 'optimizer' } ( 'state' } (");
    for (size_t i = 0; i < 4; i++) {
        torch_key(w, listed[i]);
        torch_say(w, "} (");
        torch_ramp(w, "exp_avg", 1, &two, 100.0F * (float)(listed[i][0]));
        torch_say(w, "u");
    }
    torch_say(w, "u 'param_groups' ] ( } ( 'params' ] (");
    for (size_t i = 0; i < 4; i++)
        torch_key(w, listed[i]);
    torch_say(w, "e u e u u");
    torch_write_zip(w, path, NULL);
    torch_free(w);
}

/* The numbers of a written file have these parameters' states: the first letters tell. */
static void assert_numbered(const char *path, const char *letters)
{
    sw_checkpoint *c = open_good(path);
    for (size_t i = 0; i < 4; i++) {
        char name[64];
        float data[2];
        sw_error err = {0};
        snprintf(name, sizeof name, "optimizer.state.%zu.exp_avg", i);
        const int64_t id = sw_catalog_find(sw_checkpoint_catalog(c), name);
        assert_true(id >= 0);
        assert_ok(sw_checkpoint_read(c, (size_t)id, 0, 2, data, &err), &err);
        assert_true(data[0] == 100.0F * (float)letters[i]);
    }
    sw_checkpoint_close(c);
}

/* OPT-15: as FSDP lists them they are numbered in the order of the module; else as they are. */
static void test_numbers_are_in_the_order_of_registration(void **state)
{
    static const char *const by_units[] = {"embed", "norm", "head", "layers.0.w"};
    static const char *const own[] = {"norm", "layers.0.w", "head", "embed"};
    char *from = in(state, "from.pt"), *to = in(state, "to.pt"), *next = in(state, "next.pt");
    outcome o;
    write_groups(from, by_units);
    convert_file(from, to, "ddp", &o);
    assert_int_equal(sw_report_count(o.report), 2);
    assert_non_null(find_finding(&o, "optimizer-order", NULL, NULL));
    outcome_free(&o);
    assert_numbered(to, "elnh");
    write_groups(from, own);
    convert_file(from, next, "ddp", &o);
    assert_int_equal(sw_report_count(o.report), 1);
    outcome_free(&o);
    assert_numbered(next, "nlhe");
    free(from);
    free(to);
    free(next);
}

static void test_gaps_are_zero(void **state)
{
    static const named_view ends[] = {{"a", 0, 3, 1, {2}, {1}}, {"b", 0, 8, 1, {2}, {1}}};
    write_views(in(state, "from.pt"), ends, 2, false, NULL);
    convert_quietly(in(state, "from.pt"), in(state, "to.pt"), "torch");
    sw_checkpoint *c = open_good(in(state, "to.pt"));
    swi_piece piece;
    uint64_t at = storage_of(c, "a", &piece);
    size_t size;
    float bytes[7];
    static const float want[7] = {3, 4, 0, 0, 0, 8, 9};
    uint8_t *file = harness_read(in(state, "to.pt"), &size);
    memcpy(bytes, file + at, sizeof bytes);
    assert_memory_equal(bytes, want, sizeof want);
    assert_int_equal(at % 64, 0);
    free(file);
    sw_checkpoint_close(c);
}

/* Bytes are written once: of what overlaps in part, one stays and the others are copies. */
static void test_what_cannot_be_shared_is_said(void **state)
{
    static const named_view views[] = {{"a", 0, 0, 1, {5}, {1}},
                                       {"b", 0, 3, 1, {5}, {1}},
                                       {"steps", 0, 0, 1, {4}, {7}},
                                       {"alone", 1, 0, 1, {4}, {7}}};
    static const float b[] = {3, 4, 5, 6, 7}, steps[] = {0, 7, 14, 21};
    outcome o;
    write_views(in(state, "from.pt"), views, 4, false, NULL);
    convert_file(in(state, "from.pt"), in(state, "to.pt"), "torch", &o);
    assert_found(&o, SW_WARNING, "sharing-lost", NULL, "b", "2 tensors share only some");
    assert_int_equal(sw_report_count(o.report), 1);
    outcome_free(&o);
    sw_checkpoint *c = open_good(in(state, "to.pt"));
    expect_floats(c, "b", b);
    expect_floats(c, "steps", steps);
    expect_floats(c, "alone", steps);
    assert_strides(c, "steps", 0, 1, 0);
    assert_shared(c, "a", "b", false);
    assert_shared(c, "a", "steps", false);
    sw_checkpoint_close(c);
}

/* Places are in elements, whatever these become. */
static void test_cast_tensors_still_share(void **state)
{
    outcome o;
    write_views(in(state, "from.pt"), shared_views, 8, false, NULL);
    run_convert(in(state, "from.pt"), in(state, "half.pt"),
                &(sw_convert_options){.to = "torch", .dtype = SW_BF16}, &o);
    assert_fine(&o);
    outcome_free(&o);
    sw_checkpoint *c = open_good(in(state, "half.pt"));
    swi_piece p;
    assert_shared(c, "whole", "turned", true);
    (void)storage_of(c, "turned", &p);
    assert_int_equal(p.stride_bytes[0], 2);
    assert_int_equal(p.stride_bytes[1], 8);
    sw_checkpoint_close(c);
}

/* ---- the object --------------------------------------------------------------------------------
 */

static char *state_text(const char *path)
{
    sw_checkpoint *c = open_good(path);
    swi_state s;
    sw_error err = {0};
    char *text = NULL;
    assert_ok(swi_checkpoint_state(c, &s, &err), &err);
    assert_ok(sw_value_text(s.graph, s.root, 4096, &text, &err), &err);
    swi_state_free(&s);
    sw_checkpoint_close(c);
    return text;
}

static void assert_state(const char *path, const char *want)
{
    char *text = state_text(path);
    assert_string_equal(text, want);
    free(text);
}

static void write_training(const char *path)
{
    static const int64_t two[] = {2};
    torch_world *w = torch_begin(false);
    torch_say(w, "} ( 'model' M:collections/OrderedDict ) R (");
    torch_ramp(w, "w", 1, two, 0);
    torch_ramp(w, "b", 1, two, 10);
    torch_say(w, "u 'optimizer' } ( 'state' } ( 0 } (");
    torch_ramp(w, "exp_avg", 1, two, 20);
    torch_say(
        w,
        "'step' 7 u u 'param_groups' ] ( } ( 'lr' 0.5f 'params' ] ( 0 e 'betas' ( 0.5f 0.25f t u "
        "e u 'extra' } 'pair' (");
    torch_ramp(w, NULL, 1, two, 30);
    torch_say(w, "3 t 'list' ] (");
    torch_ramp(w, NULL, 1, two, 40);
    torch_ramp(w, NULL, 1, two, 50);
    torch_say(w, "e 7 'seven' u");
    torch_write_zip(w, path, NULL);
    torch_free(w);
}

/* Order, kinds, numbers as keys, tensors in tuples: all as it was. */
static void test_the_object_is_the_same(void **state)
{
    write_training(in(state, "from.pt"));
    char *want = state_text(in(state, "from.pt"));
    assert_non_null(strstr(want, "7: \"seven\""));
    for (int legacy = 0; legacy < 2; legacy++) {
        char *to = harness_path(*state, "to-%d.pt", legacy);
        convert_quietly(in(state, "from.pt"), to, legacy ? "torch:form=legacy" : "torch");
        assert_state(to, want);
        assert_ramp(to, "pair.0", 1, (const int64_t[]){2}, 30);
        assert_ramp(to, "list.1", 1, (const int64_t[]){2}, 50);
    }
    free(want);
}

/* One object under two names, one of them in a tuple: DEST has both, and its list, too. */
static void test_every_name_is_listed(void **state)
{
    static const int64_t two[] = {2};
    char *from = in(state, "from.pt"), *to = in(state, "to.pt"), *list = in(state, "list");
    torch_world *w = torch_begin(false);
    torch_say(w, "} (");
    torch_ramp(w, "w", 1, two, 0);
    torch_say(w, "put:9 'pair' get:9 get:9 tuple2 '' get:9 'part'");
    torch_view(w, 0, 1, 1, (const int64_t[]){1}, (const int64_t[]){1});
    torch_say(w, "u");
    torch_write_zip(w, from, NULL);
    torch_free(w);
    outcome o;
    run_convert(from, to, &(sw_convert_options){.to = "torch", .digests = list, .verify = true},
                &o);
    assert_fine(&o);
    assert_int_equal(o.converted.tensors, 5);
    assert_int_equal(o.converted.verified_tensors, 5);
    outcome_free(&o);
    outcome_begin(&o);
    o.status = sw_verify(to, &(sw_verify_options){.digests = list}, o.report, &o.verified, &o.err);
    assert_fine(&o);
    assert_int_equal(o.verified.tensors, 5);
    assert_int_equal(o.verified.matched_tensors, 5);
    outcome_free(&o);
}

static void keep_but(void **state, const char *drop, bool optimizer, const char *want)
{
    const char *const drops[] = {drop, NULL};
    char *to = in(state, "less.pt");
    outcome o;
    sw_convert_options options = {
        .to = "torch", .drop = drop ? drops : NULL, .drop_optimizer = optimizer, .overwrite = true};
    run_convert(in(state, "from.pt"), to, &options, &o);
    assert_fine(&o);
    outcome_free(&o);
    char *text = state_text(to);
    if (strstr(text, want) == NULL)
        fail_msg("%s\nis not in\n%s", want, text);
    free(text);
}

static void test_parts_are_left_out(void **state)
{
    write_training(in(state, "from.pt"));
    keep_but(state, NULL, true, "\"b\": <tensor 1>}>, \"extra\": {}, \"pair\": (<tensor 2>, 3)");
    keep_but(state, "list*", false, "\"pair\": (<tensor 3>, 3), 7: \"seven\"}");
    keep_but(state, "*betas", false, "[{\"lr\": 0.5, \"params\": [0]}]");
    keep_but(state, "w", false, "OrderedDict() {\"b\": <tensor 0>}");
    keep_but(state, "pair", false, "\"extra\": {}, \"list\": [");
    const char *const one[] = {"list.0", NULL};
    assert_refuses(in(state, "from.pt"), in(state, "none.pt"),
                   &(sw_convert_options){.to = "torch", .drop = one}, SW_ERR_ARG,
                   "the list \"list\" of the state dict cannot be left without some");
}

/* Tensors of a kind that only torch can rebuild are the calls that do, with their storages. */
static void test_opaque_tensors(void **state)
{
    static const float values[] = {1, 2};
    torch_world *w = torch_begin(false);
    (void)torch_storage(w, "FloatStorage", 4, values, sizeof values);
    torch_say(w, "} ( 'w'");
    torch_ramp(w, NULL, 1, (const int64_t[]){2}, 0);
    torch_say(w, "'odd' M:torch._utils/_rebuild_qtensor ( ( 'storage' M:torch/FloatStorage '0' "
                 "'cpu' 2 t Q 0 t R 'bare' ( 'storage' M:torch/FloatStorage '0' 'cpu' 2 t Q u");
    torch_write_zip(w, in(state, "from.pt"), NULL);
    torch_free(w);
    char *want = state_text(in(state, "from.pt"));
    assert_non_null(strstr(want, "2, b\"\\x00\\x00\\x80?\\x00\\x00\\x00@\")"));
    for (int legacy = 0; legacy < 2; legacy++) {
        outcome o;
        char *to = harness_path(*state, "to-%d.pt", legacy);
        convert_file(in(state, "from.pt"), to, legacy ? "torch:form=legacy" : "torch", &o);
        assert_found(&o, SW_WARNING, "opaque-tensor", "from.pt", "odd", "_rebuild_qtensor");
        outcome_free(&o);
        sw_checkpoint *c = open_good(to);
        assert_int_equal(sw_catalog_tensor_count(sw_checkpoint_catalog(c)), 1);
        sw_checkpoint_close(c);
        assert_state(to, want);
    }
    free(want);
}

/* ---- one file ----------------------------------------------------------------------------------
 */

/* What is there stays. */
static void refuses(const char *from, const char *to, const sw_convert_options *options,
                    sw_status status, const char *text)
{
    outcome o;
    run_convert(from, to, options, &o);
    assert_run_refused(&o, status, text, NULL);
    outcome_free(&o);
}

static void test_where_a_file_may_be_written(void **state)
{
    char *from = in(state, "from.pt"), *to = in(state, "to.pt"), *other = in(state, "note.txt");
    sw_convert_options plain = {.to = "torch"}, over = {.to = "torch", .overwrite = true};
    outcome o;
    write_training(from);
    size_t size;
    uint8_t *before = harness_read(from, &size);
    assert_int_equal(mkdir(in(state, "folder"), 0777), 0);
    refuses(from, in(state, "folder"), &plain, SW_ERR_ARG, "name a file in it");
    refuses(from, in(state, "folder"), &over, SW_ERR_ARG, "name a file in it");
    refuses(from, harness_path(*state, "new/"), &plain, SW_ERR_ARG, "name a file in it");
    refuses(from, from, &over, SW_ERR_ARG, "is the source, which is never written");
    assert_int_equal(symlink(from, in(state, "link.pt")), 0);
    refuses(from, in(state, "link.pt"), &over, SW_ERR_ARG, "is the source");
    harness_write_text(other, "not ours\n");
    refuses(from, other, &over, SW_ERR_EXISTS, "is no checkpoint");
    convert_quietly(from, to, "torch");
    refuses(from, to, &plain, SW_ERR_EXISTS, "exists");
    run_convert(from, to, &(sw_convert_options){.to = "torch:form=legacy", .overwrite = true}, &o);
    assert_fine(&o);
    outcome_free(&o);
    assert_int_equal(count_partials(*state, "to.pt"), 0);
    uint8_t *after = harness_read(from, &size);
    assert_memory_equal(before, after, size);
    free(before);
    free(after);
}

static void test_options(void **state)
{
    char *from = in(state, "from.pt"), *to = in(state, "to.pt");
    write_training(from);
    assert_refuses(from, to, &(sw_convert_options){.to = "torch:form=tar"}, SW_ERR_ARG,
                   "there is form=zip");
    assert_refuses(from, to, &(sw_convert_options){.to = "torch:legacy"}, SW_ERR_ARG,
                   "not an option");
    torch_world *w = torch_begin(false);
    torch_say(w, "} ( 'u' M:torch._utils/_rebuild_tensor_v3 ( ( 'storage' "
                 "M:torch.storage/UntypedStorage '0' 'cpu' 4 t Q 0 ( 2 t ( 1 t false "
                 "M:collections/OrderedDict ) R M:torch/uint16 t R u");
    (void)torch_storage(w, "ByteStorage", 1, "\1\0\2\0", 4);
    torch_write_zip(w, in(state, "u16.pt"), NULL);
    torch_free(w);
    convert_quietly(in(state, "u16.pt"), to, "torch");
    assert_refuses(in(state, "u16.pt"), in(state, "legacy.pt"),
                   &(sw_convert_options){.to = "torch:form=legacy"}, SW_ERR_UNSUPPORTED,
                   "tensor \"u\" is uint16, which the form before 1.6 cannot hold");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_storages_are_shared_again),
        test_in_dir(test_states_of_optimizers_share_nothing),
        test_in_dir(test_numbers_are_in_the_order_of_registration),
        test_in_dir(test_gaps_are_zero),
        test_in_dir(test_what_cannot_be_shared_is_said),
        test_in_dir(test_cast_tensors_still_share),
        test_in_dir(test_the_object_is_the_same),
        test_in_dir(test_parts_are_left_out),
        test_in_dir(test_every_name_is_listed),
        test_in_dir(test_where_a_file_may_be_written),
        test_in_dir(test_opaque_tensors),
        test_in_dir(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
