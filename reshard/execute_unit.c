/* One unit of the executor: windows in, cast, out; or literals. */
#include <string.h>

#include "base/text.h"
#include "box.h"
#include "cast.h"
#include "execute_parts.h"

/* Runs from this size on go straight from the window to the file, one by one. */
#define DIRECT_RUN ((uint64_t)64 << 10)
/* Windows start at such addresses of the buffers. */
#define ALIGN ((size_t)64)

/* ---- taking --------------------------------------------------------------------------------- */

static size_t align_up(uint64_t bytes)
{
    return (size_t)((bytes + ALIGN - 1) / ALIGN * ALIGN);
}

static sw_dtype source_type(const swi_run *run, uint32_t tensor)
{
    sw_tensor_info info;
    (void)sw_catalog_tensor(run->source->catalog, swi_layout_source(run->layout, tensor), &info);
    return info.dtype;
}

static sw_dtype target_type(const swi_run *run, uint32_t tensor)
{
    sw_tensor_info info;
    (void)sw_catalog_tensor(run->target, tensor, &info);
    return info.dtype;
}

static bool peek_window(swi_run *run)
{
    if (!run->has_pending && !run->at_end) {
        run->has_pending = swi_plan_next(run->plan, &run->cursor, &run->pending);
        run->at_end = !run->has_pending;
    }
    return run->has_pending;
}

/* The literals of a file come before the windows of its tensors. */
static uint32_t literals_due(const swi_run *run)
{
    if (!run->has_pending)
        return (uint32_t)sw_catalog_file_count(run->target);
    swi_piece piece;
    swi_blob blob;
    swi_tensor_piece(run->target, run->pending.tensor, 0, &piece);
    swi_catalog_blob(run->target, piece.blob, &blob);
    return blob.file + 1;
}

static bool take_literals(swi_run *run, swi_unit *out)
{
    uint32_t due = literals_due(run);
    for (; run->literal_file < due; run->literal_file++, run->literal_next = 0) {
        uint32_t file = run->literal_file;
        size_t count = swi_layout_literal_count(run->layout, file);
        bool empty = run->literal_next == 0 && swi_catalog_file_bytes(run->target, file) ==
                                                   swi_layout_late_bytes(run->layout, file);
        if (swi_outputs_skips(run->outputs, file) || (run->literal_next >= count && !empty))
            continue;
        size_t left = count - run->literal_next;
        out->literals = true;
        out->file = file;
        out->first_literal = run->literal_next;
        out->count = left < SWI_UNIT_MAX ? (uint32_t)left : SWI_UNIT_MAX;
        run->literal_next += out->count;
        if (empty)
            run->literal_file++;
        return true;
    }
    return false;
}

bool swi_unit_take(swi_run *run, swi_unit *out)
{
    size_t in = 0, target = 0;
    size_t most = run->budget.window_bytes;
    if (most > SWI_WINDOW_USUAL)
        most = SWI_WINDOW_USUAL;
    out->count = 0;
    out->literals = false;
    (void)peek_window(run);
    if (take_literals(run, out))
        return true;
    while (out->count < SWI_UNIT_MAX && peek_window(run)) {
        const swi_window *w = &run->pending;
        sw_dtype from = source_type(run, w->tensor), to = target_type(run, w->tensor);
        size_t need = align_up((w->hi - w->lo) * sw_dtype_bytes(from));
        size_t need_out = from != to ? align_up((w->hi - w->lo) * sw_dtype_bytes(to)) : 0;
        /* The first one fits by the plan; literals of the next file come before its windows. */
        if (out->count > 0 && (in + need > most || target + need_out > run->budget.out_bytes ||
                               literals_due(run) > run->literal_file))
            break;
        in += need;
        target += need_out;
        out->windows[out->count++] = *w;
        run->has_pending = false;
    }
    return out->count > 0;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Slices that follow one another in a file go in one call. */
static sw_status flush(swi_worker *w, sw_error *err)
{
    sw_status status = SW_OK;
    for (size_t i = 0, n; i < w->slice_count && status == SW_OK; i += n) {
        uint64_t end = w->slots[i].offset + w->slices[i].size;
        for (n = 1; i + n < w->slice_count; n++) {
            if (w->slots[i + n].file != w->slots[i].file || w->slots[i + n].offset != end)
                break;
            end += w->slices[i + n].size;
        }
        w->tally.written_bytes += end - w->slots[i].offset;
        status = swi_outputs_write(w->run->outputs, w->slots[i].file, w->slots[i].offset,
                                   &w->slices[i], n, err);
    }
    w->slice_count = 0;
    return status;
}

static sw_status put(swi_worker *w, uint32_t file, uint64_t offset, const uint8_t *data,
                     size_t size, sw_error *err)
{
    if (w->slice_count == SWI_UNIT_MAX) {
        sw_status status = flush(w, err);
        if (status != SW_OK)
            return status;
    }
    w->slices[w->slice_count] = (swi_slice){.data = data, .size = size};
    w->slots[w->slice_count] = (swi_slot){.file = file, .offset = offset};
    w->slice_count++;
    return SW_OK;
}

static sw_status write_move(swi_worker *w, const swi_move *move, uint32_t element_bytes,
                            const uint8_t *window, sw_error *err)
{
    swi_blob blob;
    swi_spans walk;
    swi_span span;
    sw_status status = SW_OK;
    swi_catalog_blob(w->run->target, move->blob, &blob);
    if (swi_outputs_skips(w->run->outputs, blob.file))
        return SW_OK; /* read for its digest */
    swi_box box = {
        .axes = move->axes,
        .element_bytes = element_bytes,
        .far_base = move->blob_base,
        .near_base = move->window_base,
    };
    memcpy(box.length, move->length, sizeof box.length);
    memcpy(box.far_stride, move->blob_stride, sizeof box.far_stride);
    memcpy(box.near_stride, move->window_stride, sizeof box.near_stride);
    swi_box_normalise(&box);
    bool direct =
        swi_box_has_runs(&box) && (box.axes <= 1 || swi_box_run_bytes(&box) >= DIRECT_RUN);
    swi_spans_begin(&walk, &box, direct ? SIZE_MAX / 2 : w->run->budget.bounce_bytes, 0, direct);
    while (status == SW_OK && swi_spans_next(&walk, &span)) {
        uint64_t offset = blob.offset_bytes + (uint64_t)span.far;
        if (direct) {
            status = put(w, blob.file, offset, window + span.part.near_base, span.bytes, err);
            continue;
        }
        swi_box_copy_far(&span.part, w->bounce, window);
        const swi_slice slice = {.data = w->bounce, .size = span.bytes};
        w->tally.written_bytes += span.bytes;
        status = swi_outputs_write(w->run->outputs, blob.file, offset, &slice, 1, err);
    }
    return status;
}

/* ---- windows -------------------------------------------------------------------------------- */

static sw_status read_window(swi_worker *w, const swi_window *window, uint8_t *in, sw_error *err)
{
    uint32_t source = swi_layout_source(w->run->layout, window->tensor);
    sw_status status = swi_plan_reads(w->run->plan, window, &w->moves, err);
    for (size_t i = 0; i < w->moves.count && status == SW_OK; i++)
        status = swi_fetch_move(&w->fetch, source, &w->moves.items[i], in, err);
    return status;
}

static sw_status write_window(swi_worker *w, const swi_window *window, const uint8_t *out,
                              uint32_t element_bytes, sw_error *err)
{
    sw_status status = swi_plan_writes(w->run->plan, window, &w->moves, err);
    for (size_t i = 0; i < w->moves.count && status == SW_OK; i++)
        status = write_move(w, &w->moves.items[i], element_bytes, out, err);
    return status;
}

static sw_status digest_window(swi_worker *w, const swi_window *window, const uint8_t *out,
                               sw_dtype dtype, sw_error *err)
{
    const swi_digest_part part = {
        .tensor = window->tensor,
        .dtype = dtype,
        .first_element = window->lo,
        .elements = window->hi - window->lo,
        .data = out,
    };
    return w->run->digests != NULL ? swi_digest_tree_add(w->run->digests, &part, err) : SW_OK;
}

static sw_status do_windows(swi_worker *w, sw_error *err)
{
    uint8_t *in = w->in, *out = w->out;
    sw_status status = SW_OK;
    for (uint32_t i = 0; i < w->unit.count && status == SW_OK; i++) {
        const swi_window *window = &w->unit.windows[i];
        uint64_t elements = window->hi - window->lo;
        sw_dtype from = source_type(w->run, window->tensor);
        sw_dtype to = target_type(w->run, window->tensor);
        const uint8_t *result = in;
        status = read_window(w, window, in, err);
        if (status != SW_OK)
            return status;
        if (from != to) {
            swi_cast(in, from, out, to, elements, &w->tally);
            result = out;
            out += align_up(elements * sw_dtype_bytes(to));
        }
        in += align_up(elements * sw_dtype_bytes(from));
        status = write_window(w, window, result, sw_dtype_bytes(to), err);
        if (status == SW_OK)
            status = digest_window(w, window, result, to, err);
    }
    return status == SW_OK ? flush(w, err) : status;
}

/* ---- literals ------------------------------------------------------------------------------- */

/* Fills share one stretch of memory as long as their byte is the same. */
static sw_status put_fill(swi_worker *w, const swi_literal *fill, int *held, sw_error *err)
{
    size_t room = w->run->budget.bounce_bytes;
    sw_status status = SW_OK;
    if (*held != fill->fill) {
        status = flush(w, err);
        memset(w->bounce, fill->fill, room);
        *held = fill->fill;
    }
    for (uint64_t done = 0; done < fill->size && status == SW_OK;) {
        size_t n = fill->size - done < room ? (size_t)(fill->size - done) : room;
        status = put(w, w->unit.file, fill->offset_bytes + done, w->bounce, n, err);
        done += n;
    }
    return status;
}

static sw_status do_literals(swi_worker *w, sw_error *err)
{
    int held = -1;
    sw_status status = SW_OK;
    if (w->unit.count == 0)
        return swi_outputs_write(w->run->outputs, w->unit.file, 0, NULL, 0, err);
    for (uint32_t i = 0; i < w->unit.count && status == SW_OK; i++) {
        swi_literal literal;
        swi_layout_literal_at(w->run->layout, w->unit.file, w->unit.first_literal + i, &literal);
        if (literal.data == NULL)
            status = put_fill(w, &literal, &held, err);
        else
            status = put(w, w->unit.file, literal.offset_bytes, literal.data, literal.size, err);
    }
    return status == SW_OK ? flush(w, err) : status;
}

sw_status swi_unit_do(swi_worker *worker, sw_error *err)
{
    worker->slice_count = 0;
    sw_status status = worker->unit.literals ? do_literals(worker, err) : do_windows(worker, err);
    if (status != SW_OK && worker->run->digests != NULL)
        swi_digest_tree_stop(worker->run->digests);
    return status;
}
