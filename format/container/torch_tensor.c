/* Tensors of a torch.save archive: what a call of torch._utils._rebuild_tensor_v2 and its kin
 * means. */
#include "container/torch_internal.h"

#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "model/piece.h"

#define METADATA_MAX 16u
#define WRAPPED_MAX 8 /* Parameters around tensors around ... */

typedef enum rebuild { REBUILD_NONE, REBUILD_V1, REBUILD_V2, REBUILD_V3 } rebuild;

/* A call, taken apart. */
typedef struct call {
    const char *module, *name;
    sw_value args;
    rebuild kind;
    bool parameter; /* what requires_grad says outside counts */
    bool requires_grad;
} call;

static sw_status fail(const swi_torch_file *tf, sw_status status, const char *clause,
                      const char *what, const char *name, sw_error *err)
{
    swi_quoted q;
    return swi_fail_at(err, status, clause, tf->pickle_offset_bytes, "%s: %s%s%s", tf->pickle_name,
                       what, name != NULL ? ": " : "", name != NULL ? swi_quote_str(&q, name) : "");
}

static rebuild rebuild_of(const char *module, const char *name)
{
    if (strcmp(module, "torch._utils") != 0)
        return REBUILD_NONE;
    if (strcmp(name, "_rebuild_tensor_v2") == 0)
        return REBUILD_V2;
    if (strcmp(name, "_rebuild_tensor_v3") == 0)
        return REBUILD_V3;
    return strcmp(name, "_rebuild_tensor") == 0 ? REBUILD_V1 : REBUILD_NONE;
}

/* _rebuild_from_type_v2(func, type, args, state) of a tensor or Parameter with attributes. */
static bool unwrap_type(const sw_value_graph *g, call *c)
{
    sw_value func, type, args;
    const char *module, *name;
    if (strcmp(c->module, "torch._tensor") != 0 || strcmp(c->name, "_rebuild_from_type_v2") != 0 ||
        !sw_value_item(g, c->args, 0, &func) || !sw_value_item(g, c->args, 1, &type) ||
        !sw_value_item(g, c->args, 2, &args) || !sw_value_global(g, type, &module, &name))
        return false;
    bool plain = (strcmp(module, "torch") == 0 && strcmp(name, "Tensor") == 0) ||
                 (strcmp(module, "torch.nn.parameter") == 0 &&
                  (strcmp(name, "Parameter") == 0 || strcmp(name, "Buffer") == 0));
    if (!plain || !sw_value_global(g, func, &c->module, &c->name))
        return false;
    c->args = args;
    return true;
}

/* _rebuild_parameter[_with_state](tensor, requires_grad, ...): *inner is the tensor. */
static bool unwrap_parameter(const sw_value_graph *g, call *c, sw_value *inner)
{
    sw_value grad;
    if (strcmp(c->module, "torch._utils") != 0 ||
        (strcmp(c->name, "_rebuild_parameter") != 0 &&
         strcmp(c->name, "_rebuild_parameter_with_state") != 0))
        return false;
    if (!c->parameter && sw_value_item(g, c->args, 1, &grad))
        (void)sw_value_bool(g, grad, &c->requires_grad);
    c->parameter = true;
    return sw_value_item(g, c->args, 0, inner);
}

/* Finds the rebuilding call in v: false when v is no call at all; c->kind says which. */
static bool find_call(const sw_value_graph *g, sw_value v, call *c)
{
    *c = (call){0};
    for (int i = 0; i < WRAPPED_MAX; i++) {
        sw_value_object object;
        if (!sw_value_get_object(g, v, &object) ||
            !sw_value_global(g, object.callable, &c->module, &c->name))
            return false;
        c->args = object.args;
        c->kind = rebuild_of(c->module, c->name);
        if (c->kind != REBUILD_NONE)
            return true;
        if (unwrap_type(g, c)) {
            c->kind = rebuild_of(c->module, c->name);
            if (c->kind != REBUILD_NONE)
                return true;
        }
        if (!unwrap_parameter(g, c, &v))
            return true;
    }
    return true;
}

bool swi_torch_is_tensor(const swi_torch_file *tf, sw_value v)
{
    call c;
    return tf->graph != NULL && find_call(tf->graph, v, &c) && c.kind != REBUILD_NONE;
}

/* A tuple of non-negative integers, bare or in a torch.Size. */
static sw_status read_ints(const swi_torch_file *tf, sw_value v, const char *what, uint32_t *count,
                           int64_t *out, sw_error *err)
{
    const sw_value_graph *g = tf->graph;
    sw_value_object object;
    sw_value item;
    if (swi_value_is_call(g, v, "torch", "Size") && sw_value_get_object(g, v, &object) &&
        !sw_value_item(g, object.args, 0, &v))
        return fail(tf, SW_ERR_FORMAT, "TF-7", "a torch.Size of nothing", NULL, err);
    sw_value_kind kind = sw_value_get_kind(g, v);
    if (kind != SW_VALUE_TUPLE && kind != SW_VALUE_LIST)
        return fail(tf, SW_ERR_FORMAT, "TF-7", "not a tuple of integers", what, err);
    size_t size = sw_value_size(g, v);
    if (size > SW_MAX_AXES)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "TF-7", tf->pickle_offset_bytes,
                           "%s: a tensor of %zu axes, at most %d are supported", tf->pickle_name,
                           size, SW_MAX_AXES);
    for (size_t i = 0; i < size; i++) {
        if (!sw_value_item(g, v, i, &item) || !sw_value_int(g, item, &out[i]))
            return fail(tf, SW_ERR_FORMAT, "TF-7", "not a tuple of integers", what, err);
        if (out[i] < 0)
            return swi_fail_at(err, SW_ERR_CORRUPT, "TF-7", tf->pickle_offset_bytes,
                               "%s: a %s of %" PRId64, tf->pickle_name, what, out[i]);
    }
    *count = (uint32_t)size;
    return SW_OK;
}

/* Conjugated and negated views, by name; an empty dict says nothing. */
static sw_status check_metadata(const swi_torch_file *tf, sw_value v, sw_error *err)
{
    const sw_value_graph *g = tf->graph;
    sw_value_kind kind = sw_value_get_kind(g, v);
    if (kind == SW_VALUE_NONE)
        return SW_OK;
    if (kind != SW_VALUE_DICT)
        return fail(tf, SW_ERR_UNSUPPORTED, "TF-8", "tensor metadata of an unknown kind", NULL,
                    err);
    if (sw_value_size(g, v) > METADATA_MAX)
        return fail(tf, SW_ERR_LIMIT, "TF-8", "tensor metadata of many entries", NULL, err);
    for (size_t i = 0; i < sw_value_size(g, v); i++) {
        sw_value key, value;
        const uint8_t *text;
        size_t size;
        bool on = true;
        if (!sw_value_pair(g, v, i, &key, &value))
            break;
        if (sw_value_bool(g, value, &on) && !on)
            continue;
        swi_quoted q;
        const char *name = sw_value_bytes(g, key, &text, &size) ? swi_quote(&q, text, size) : "?";
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "TF-8", tf->pickle_offset_bytes,
                           "%s: a tensor view with the bit %s", tf->pickle_name, name);
    }
    return SW_OK;
}

static sw_status find_storage(const swi_torch_file *tf, sw_value v, uint32_t *index, sw_error *err)
{
    const sw_value_graph *g = tf->graph;
    sw_value id, key;
    const uint8_t *text;
    size_t size;
    int64_t found = -1;
    if (sw_value_persistent(g, v, &id) && sw_value_item(g, id, 2, &key) &&
        sw_value_bytes(g, key, &text, &size))
        found = swi_names_find(tf->keys, text, size);
    if (found < 0 || (uint64_t)found >= tf->storage_count)
        return fail(tf, SW_ERR_FORMAT, "TF-7", "a tensor without a storage", NULL, err);
    *index = (uint32_t)found;
    return SW_OK;
}

/* The dtype: of the storage's class, or (v3) the argument. */
static sw_status find_dtype(const swi_torch_file *tf, const call *c, const swi_torch_storage *s,
                            sw_dtype *out, sw_error *err)
{
    sw_value v;
    const char *module, *name;
    if (c->kind != REBUILD_V3) {
        *out = s->dtype;
    } else {
        if (!sw_value_item(tf->graph, c->args, 6, &v) ||
            !sw_value_global(tf->graph, v, &module, &name))
            return fail(tf, SW_ERR_FORMAT, "TF-7", "a tensor without a dtype", NULL, err);
        if (!s->untyped)
            return fail(tf, SW_ERR_CORRUPT, "TF-7", "a tensor with dtype on a typed storage", name,
                        err);
        *out = strcmp(module, "torch") == 0 ? swi_torch_dtype(name) : SW_DTYPE_NONE;
        if (*out == SW_DTYPE_NONE)
            return fail(tf, SW_ERR_UNSUPPORTED, "TF-7", "dtype", name, err);
    }
    if (*out == SW_DTYPE_NONE)
        return fail(tf, SW_ERR_UNSUPPORTED, "TF-8", "a quantised tensor", NULL, err);
    return SW_OK;
}

static bool is_dense(const swi_torch_tensor *t)
{
    uint64_t want = 1;
    if (t->elements == 0)
        return true;
    for (uint32_t k = t->axes; k-- > 0;) {
        if (t->shape[k] != 1 && (uint64_t)t->stride_elements[k] != want)
            return false;
        want *= (uint64_t)t->shape[k]; /* at most `elements` */
    }
    return true;
}

/* The last element's index in the storage, from the storage's begin; false on overflow. */
static bool last_element(const swi_torch_tensor *t, uint64_t *out)
{
    uint64_t at = t->start_elements;
    for (uint32_t k = 0; k < t->axes; k++) {
        uint64_t way;
        if (!swi_mul_u64((uint64_t)t->shape[k] - 1, (uint64_t)t->stride_elements[k], &way) ||
            !swi_add_u64(at, way, &at))
            return false;
    }
    *out = at;
    return true;
}

/* Every element lies in the storage (TF-7). */
static sw_status check_bounds(const swi_torch_file *tf, swi_torch_tensor *t, sw_error *err)
{
    const swi_torch_storage *s = &tf->storages[t->storage];
    uint64_t last = 0, end, bytes, element = sw_dtype_bytes(t->dtype);
    if (!swi_shape_elements(t->axes, t->shape, &t->elements) ||
        !swi_mul_u64(t->elements, element, &bytes) || bytes > (uint64_t)INT64_MAX)
        return fail(tf, SW_ERR_CORRUPT, "TF-7", "a tensor with more elements than can be", NULL,
                    err);
    if (t->elements > 0 && (!last_element(t, &last) || !swi_add_u64(last, 1, &end) ||
                            !swi_mul_u64(end, element, &end) || end > s->bytes))
        return swi_fail_at(err, SW_ERR_CORRUPT, "TF-7", tf->pickle_offset_bytes,
                           "%s: a tensor reaches to element %" PRIu64
                           " of storage %s, which holds %" PRIu64,
                           tf->pickle_name, last, s->key, s->bytes / element);
    t->dense = is_dense(t);
    return SW_OK;
}

static sw_status read_tensor(const swi_torch_file *tf, const call *c, swi_torch_tensor *t,
                             sw_error *err)
{
    static const size_t least[] = {[REBUILD_V1] = 4, [REBUILD_V2] = 6, [REBUILD_V3] = 7};
    const sw_value_graph *g = tf->graph;
    size_t count = sw_value_size(g, c->args), need = least[c->kind];
    sw_value storage, start, size, stride, v;
    int64_t first;
    uint32_t strides;
    if (sw_value_get_kind(g, c->args) != SW_VALUE_TUPLE || count < need ||
        count > need + (c->kind != REBUILD_V1) || !sw_value_item(g, c->args, 0, &storage) ||
        !sw_value_item(g, c->args, 1, &start) || !sw_value_item(g, c->args, 2, &size) ||
        !sw_value_item(g, c->args, 3, &stride))
        return fail(tf, SW_ERR_FORMAT, "TF-7", "a tensor with other arguments than", c->name, err);
    sw_status st = find_storage(tf, storage, &t->storage, err);
    if (st == SW_OK)
        st = find_dtype(tf, c, &tf->storages[t->storage], &t->dtype, err);
    if (st == SW_OK && count > need && sw_value_item(g, c->args, need, &v))
        st = check_metadata(tf, v, err);
    if (st == SW_OK && (!sw_value_int(g, start, &first) || first < 0))
        st = fail(tf, SW_ERR_CORRUPT, "TF-7", "a storage offset that is none", NULL, err);
    if (st == SW_OK)
        st = read_ints(tf, size, "size", &t->axes, t->shape, err);
    if (st == SW_OK)
        st = read_ints(tf, stride, "stride", &strides, t->stride_elements, err);
    if (st == SW_OK && strides != t->axes)
        st = fail(tf, SW_ERR_CORRUPT, "TF-7", "a tensor with more or fewer strides than axes", NULL,
                  err);
    if (st != SW_OK)
        return st;
    t->start_elements = (uint64_t)first;
    t->requires_grad = c->requires_grad;
    if (!c->parameter && c->kind != REBUILD_V1 && sw_value_item(g, c->args, 4, &v))
        (void)sw_value_bool(g, v, &t->requires_grad);
    return check_bounds(tf, t, err);
}

sw_status swi_torch_get_tensor(const swi_torch_file *tf, sw_value v, swi_torch_tensor *out,
                               sw_error *err)
{
    call c;
    swi_torch_tensor t = {0};
    if (tf->graph == NULL || !find_call(tf->graph, v, &c))
        return swi_fail_at(err, SW_ERR_FORMAT, "TF-7", tf->pickle_offset_bytes, "%s: not a tensor",
                           tf->pickle_name);
    if (c.kind == REBUILD_NONE)
        return fail(tf, SW_ERR_UNSUPPORTED, "TF-8", "not a plain tensor but", c.name, err);
    sw_status st = read_tensor(tf, &c, &t, err);
    if (st == SW_OK)
        *out = t;
    return st;
}
