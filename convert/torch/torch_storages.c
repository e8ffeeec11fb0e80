#include "torch/torch_storages.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/report.h"

/* A tensor as a view of what it shares with others. */
typedef struct view {
    uint64_t place; /* the same for all that may share */
    sw_dtype from, to;
    bool dense;      /* each of its bytes is one element's, without gaps, in any order of axes */
    uint64_t lo, hi; /* elements of the place */
    uint32_t tensor; /* index among those to be placed */
} view;

typedef struct placing {
    const sw_catalog *source;
    uint32_t own; /* tensors that are the source's */
    swi_torch_placed *tensors;
    size_t count;
    view *views;
    swi_torch_storages out;
    uint64_t lost; /* tensors that no longer share */
    const char *first_lost;
} placing;

/* ---- what is a view of what --------------------------------------------------------------------
 */

/* TS-10: the one piece of a tensor that is a view of a storage; false: it lies otherwise. */
static bool storage_piece(const sw_catalog *catalog, uint32_t tensor, const sw_tensor_info *info,
                          swi_piece *out)
{
    swi_blob blob;
    sw_tensor_info owner = *info;
    if (owner.piece_count == 0 && owner.alias_of >= 0) {
        tensor = (uint32_t)info->alias_of;
        sw_catalog_tensor(catalog, tensor, &owner);
    }
    if (owner.piece_count != 1 || info->elements == 0)
        return false;
    swi_tensor_piece(catalog, tensor, 0, out);
    swi_catalog_blob(catalog, out->blob, &blob);
    bool is =
        (blob.ops == &swi_blob_torch_storage || blob.ops == &swi_blob_torch_storage_swapped) &&
        out->axes == info->axes;
    for (uint32_t k = 0; is && k < out->axes; k++)
        is = out->view[k] == info->shape[k] && out->length[k] == info->shape[k] &&
             out->stride_bytes[k] >= 0;
    return is;
}

/* Whether the elements fill a run of their storage, each once. */
static bool is_dense(const swi_piece *piece, uint32_t element_bytes)
{
    int64_t run = element_bytes;
    bool used[SW_MAX_AXES] = {false};
    for (uint32_t n = 0; n < piece->axes; n++) {
        uint32_t k = 0;
        while (k < piece->axes &&
               (used[k] || (piece->length[k] != 1 && piece->stride_bytes[k] != run)))
            k++;
        if (k == piece->axes)
            return false;
        used[k] = true;
        run *= piece->length[k];
    }
    return true;
}

static void set_view(const placing *p, uint32_t i)
{
    const swi_torch_placed *t = &p->tensors[i];
    sw_tensor_info info;
    swi_piece piece;
    view *v = &p->views[i];
    sw_catalog_tensor(p->source, t->source, &info);
    uint64_t own = info.alias_of >= 0 ? (uint64_t)info.alias_of : t->source;
    *v = (view){.place = UINT64_C(1) << 32 | own,
                .from = info.dtype,
                .to = t->dtype,
                .dense = true,
                .hi = info.elements,
                .tensor = i};
    if (info.role == SW_ROLE_OPTIMIZER) /* TS-15 */
        v->place = UINT64_C(2) << 32 | i;
    if (t->source >= p->own || !storage_piece(p->source, t->source, &info, &piece))
        return;
    uint32_t bytes = sw_dtype_bytes(info.dtype);
    uint64_t last = 0;
    for (uint32_t k = 0; k < piece.axes; k++)
        last += (uint64_t)(piece.length[k] - 1) * (uint64_t)piece.stride_bytes[k];
    p->tensors[i].strided = true;
    if (info.role != SW_ROLE_OPTIMIZER)
        v->place = piece.blob;
    v->dense = is_dense(&piece, bytes);
    v->lo = (uint64_t)piece.base_bytes / bytes;
    v->hi = v->lo + last / bytes + 1;
}

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_group(const view *a, const view *b)
{
    int c = compare(a->place, b->place);
    c = c != 0 ? c : compare(a->from, b->from);
    return c != 0 ? c : compare(a->to, b->to);
}

/* In a group those first that can fill a storage, in its order, the longest first. */
static int by_place(const void *left, const void *right)
{
    const view *a = left, *b = right;
    int c = by_group(a, b);
    c = c != 0 ? c : compare(b->dense, a->dense);
    c = c != 0 ? c : compare(a->lo, b->lo);
    c = c != 0 ? c : compare(b->hi, a->hi);
    return c != 0 ? c : compare(a->tensor, b->tensor);
}

/* ---- storages ----------------------------------------------------------------------------------
 */

static void add_storage(placing *p, sw_dtype dtype, uint64_t elements)
{
    p->out.items[p->out.count++] = (swi_torch_out_storage){.dtype = dtype, .elements = elements};
}

static void fill(placing *p, uint32_t tensor)
{
    p->tensors[tensor].fills = true;
    p->out.fillers[p->out.filler_count++] = (swi_torch_filler){.tensor = tensor};
}

/* TS-12: a storage of its own. */
static void place_alone(placing *p, const view *v, bool shared)
{
    swi_torch_placed *t = &p->tensors[v->tensor];
    sw_tensor_info info;
    sw_catalog_tensor(p->source, t->source, &info);
    t->storage = p->out.count;
    t->start_elements = 0;
    t->strided = t->strided && v->dense;
    add_storage(p, t->dtype, info.elements);
    fill(p, v->tensor);
    if (shared && p->lost++ == 0)
        p->first_lost = info.name;
}

static void see(placing *p, const view *v, uint32_t storage, uint64_t base)
{
    p->tensors[v->tensor].storage = storage;
    p->tensors[v->tensor].start_elements = v->lo - base;
}

/* Whether what fills the group's storage, in its order, has no gap where the view is. */
static bool is_filled(const view *group, const uint32_t *segments, size_t count, const view *v)
{
    uint64_t at = v->lo;
    size_t a = 0, b = count;
    while (a < b) { /* the first that ends behind it */
        size_t mid = a + (b - a) / 2;
        if (group[segments[mid]].hi <= at)
            a = mid + 1;
        else
            b = mid;
    }
    for (; a < count && at < v->hi && group[segments[a]].lo <= at; a++)
        at = group[segments[a]].hi;
    return at >= v->hi;
}

/* The dense ones that follow one another without overlap. */
static size_t choose_segments(const view *group, size_t count, uint32_t *segments)
{
    uint64_t end = 0;
    size_t found = 0;
    for (size_t i = 0; i < count && group[i].dense; i++) {
        if (found > 0 && group[i].lo < end)
            continue;
        segments[found++] = (uint32_t)i;
        end = group[i].hi;
    }
    return found;
}

/* TS-11: one storage for the group; what does not fit there is alone. */
static void place_group(placing *p, const view *group, size_t count, uint32_t *segments)
{
    size_t found = choose_segments(group, count, segments);
    uint32_t storage = p->out.count;
    uint64_t base = 0;
    if (found > 0) {
        base = group[segments[0]].lo;
        add_storage(p, group->to, group[segments[found - 1]].hi - base);
    }
    for (size_t i = 0; i < found; i++) {
        see(p, &group[segments[i]], storage, base);
        fill(p, group[segments[i]].tensor);
    }
    for (size_t i = 0; i < count; i++) {
        const view *v = &group[i];
        if (p->tensors[v->tensor].fills)
            continue;
        if (found > 0 && is_filled(group, segments, found, v))
            see(p, v, storage, base);
        else
            place_alone(p, v, count > 1);
    }
}

static int filler_by_place(const void *left, const void *right)
{
    const swi_torch_filler *a = left, *b = right;
    int c = compare(a->storage, b->storage);
    return c != 0 ? c : compare(a->start_elements, b->start_elements);
}

/* Numbers the storages anew as they come up among the tensors. */
static sw_status renumber(placing *p, sw_error *err)
{
    uint32_t *fresh = NULL, next = 0;
    swi_torch_out_storage *items = NULL;
    sw_status st = swi_alloc_array(p->out.count, sizeof *fresh, (void **)&fresh, err);
    if (st == SW_OK)
        st = swi_alloc_array(p->out.count, sizeof *items, (void **)&items, err);
    for (size_t i = 0; st == SW_OK && i < p->count; i++) {
        uint32_t *storage = &p->tensors[i].storage;
        if (fresh[*storage] == 0) {
            items[next] = p->out.items[*storage];
            fresh[*storage] = ++next;
        }
        *storage = fresh[*storage] - 1;
    }
    free(fresh);
    if (st != SW_OK)
        return st;
    free(p->out.items);
    p->out.items = items;
    for (size_t i = 0; i < p->out.filler_count; i++) {
        swi_torch_filler *f = &p->out.fillers[i];
        f->storage = p->tensors[f->tensor].storage;
        f->start_elements = p->tensors[f->tensor].start_elements;
    }
    if (p->out.filler_count > 1)
        qsort(p->out.fillers, p->out.filler_count, sizeof *p->out.fillers, filler_by_place);
    return SW_OK;
}

static sw_status say_lost(const placing *p, sw_report *report, sw_error *err)
{
    if (p->lost == 0)
        return SW_OK;
    const swi_finding_in in = {
        .severity = SW_WARNING, .code = "sharing-lost", .tensor = p->first_lost};
    return swi_report_add(report, &in, err,
                          "%" PRIu64 " tensors share only some of their bytes with others; each "
                          "has its own copy",
                          p->lost);
}

/* ---- all of it ---------------------------------------------------------------------------------
 */

static sw_status place_all(placing *p, sw_error *err)
{
    uint32_t *segments = NULL;
    sw_status st = swi_alloc_array(p->count, sizeof *segments, (void **)&segments, err);
    if (st != SW_OK)
        return st;
    for (uint32_t i = 0; i < p->count; i++)
        set_view(p, i);
    if (p->count > 1)
        qsort(p->views, p->count, sizeof *p->views, by_place);
    for (size_t i = 0, end; i < p->count; i = end) {
        for (end = i + 1; end < p->count && by_group(&p->views[i], &p->views[end]) == 0;)
            end++;
        place_group(p, &p->views[i], end - i, segments);
    }
    free(segments);
    return renumber(p, err);
}

sw_status swi_torch_place(const sw_catalog *source, uint32_t own, swi_torch_placed *tensors,
                          size_t count, sw_report *report, swi_torch_storages *out, sw_error *err)
{
    placing p = {.source = source, .own = own, .tensors = tensors, .count = count};
    if (count > UINT32_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "torch file: more tensors than can be numbered");
    sw_status st = swi_alloc_array(count, sizeof *p.views, (void **)&p.views, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, sizeof *p.out.items, (void **)&p.out.items, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, sizeof *p.out.fillers, (void **)&p.out.fillers, err);
    if (st == SW_OK)
        st = place_all(&p, err);
    if (st == SW_OK)
        st = say_lost(&p, report, err);
    free(p.views);
    if (st == SW_OK)
        *out = p.out;
    else
        swi_torch_storages_free(&p.out);
    return st;
}

sw_status swi_torch_need_carried(const sw_value_graph *graph, sw_value v, swi_torch_carried *out,
                                 sw_error *err)
{
    if (swi_torch_carried_storage(graph, v, out))
        return SW_OK;
    return swi_fail(
        err, SW_ERR_UNSUPPORTED,
        "holds a tensor that is a part of a value and whose bytes are not at hand (more "
        "than 16 MiB, damaged, or in another byte order); --drop leaves it out");
}

void swi_torch_storages_free(swi_torch_storages *storages)
{
    free(storages->items);
    free(storages->fillers);
    *storages = (swi_torch_storages){0};
}

void swi_torch_placed_strides(const sw_catalog *source, const swi_torch_placed *placed,
                              const sw_tensor_info *info, int64_t stride_elements[SW_MAX_AXES])
{
    swi_piece piece;
    int64_t run = 1, bytes = sw_dtype_bytes(info->dtype);
    bool strided = placed->strided && storage_piece(source, placed->source, info, &piece);
    for (uint32_t k = info->axes; k-- > 0;) {
        bool given = strided && info->shape[k] != 1; /* of one element they mean nothing */
        stride_elements[k] = given ? piece.stride_bytes[k] / bytes : run;
        run = stride_elements[k] * (info->shape[k] > 0 ? info->shape[k] : 1);
    }
}
