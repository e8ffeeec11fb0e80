/* One unit of the executor: windows in, cast, out; or literals. */
#include <string.h>

#include "base/text.h"
#include "box.h"
#include "cast.h"
#include "execute_parts.h"
#include "transform.h"

/* Runs from this size on go straight from the window to the file, one by one. */
#define DIRECT_RUN ((uint64_t)64 << 10)
/* Windows start at such addresses of the buffers. */
#define ALIGN ((size_t)64)

/* ---- taking --------------------------------------------------------------------------------- */

static size_t align_up(uint64_t bytes)
{
    return (size_t)((bytes + ALIGN - 1) / ALIGN * ALIGN);
}

/* What is done with the elements of a window, and the room that it takes. */
typedef struct window_form {
    sw_dtype from, to;
    sw_dtype factor; /* NONE: they are not scaled */
    uint64_t elements;
    size_t in_bytes, factor_bytes;
    size_t out_bytes; /* 0: they are written as they were read */
} window_form;

static window_form form_of(const swi_run *run, const swi_window *window)
{
    sw_tensor_info from, to, factor = {.dtype = SW_DTYPE_NONE};
    const sw_catalog *source = run->source->catalog;
    int64_t scale = swi_layout_scale_of(run->layout, window->tensor);
    (void)sw_catalog_tensor(source, swi_layout_source(run->layout, window->tensor), &from);
    (void)sw_catalog_tensor(run->target, window->tensor, &to);
    if (scale >= 0)
        (void)sw_catalog_tensor(source, (uint32_t)scale, &factor);
    window_form form = {.from = from.dtype,
                        .to = to.dtype,
                        .factor = factor.dtype,
                        .elements = window->hi - window->lo};
    form.in_bytes = align_up(form.elements * sw_dtype_bytes(form.from));
    form.factor_bytes = align_up(form.elements * sw_dtype_bytes(form.factor));
    if (form.from != form.to || form.factor != SW_DTYPE_NONE)
        form.out_bytes = align_up(form.elements * sw_dtype_bytes(form.to));
    return form;
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
        if (swi_outputs_skips(run->outputs, file) ||
            swi_layout_made_at(run->layout, file) != NULL || (run->literal_next >= count && !empty))
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
        const window_form form = form_of(run, w);
        size_t need = form.in_bytes + form.factor_bytes;
        /* The first one fits by the plan; literals of the next file come before its windows. */
        if (out->count > 0 &&
            (in + need > most || target + form.out_bytes > run->budget.out_bytes ||
             literals_due(run) > run->literal_file))
            break;
        in += need;
        target += form.out_bytes;
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

/* Elements, behind them their factors. */
static sw_status read_window(swi_worker *w, const swi_window *window, const window_form *form,
                             uint8_t *in, sw_error *err)
{
    const swi_run *run = w->run;
    sw_status status = swi_plan_reads(run->plan, window, &w->moves, err);
    if (status == SW_OK)
        status = swi_fetch_moves(&w->fetch, swi_layout_source(run->layout, window->tensor),
                                 &w->moves, in, err);
    if (status != SW_OK || form->factor == SW_DTYPE_NONE)
        return status;
    uint32_t scale = (uint32_t)swi_layout_scale_of(run->layout, window->tensor);
    status = swi_plan_scales(run->plan, window, &w->moves, err);
    return status == SW_OK ? swi_fetch_moves(&w->fetch, scale, &w->moves, in + form->in_bytes, err)
                           : status;
}

static void transform_window(swi_worker *w, const window_form *form, const uint8_t *in,
                             uint8_t *out)
{
    const swi_scale_in scaled = {
        .elements = in, .from = form->from, .factors = in + form->in_bytes, .factor = form->factor};
    if (form->factor != SW_DTYPE_NONE)
        swi_scale(&scaled, out, form->to, form->elements, &w->tally);
    else
        swi_cast(in, form->from, out, form->to, form->elements, &w->tally);
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
        const window_form form = form_of(w->run, window);
        const uint8_t *result = form.out_bytes > 0 ? out : in;
        status = read_window(w, window, &form, in, err);
        if (status != SW_OK)
            return status;
        if (form.out_bytes > 0)
            transform_window(w, &form, in, out);
        in += form.in_bytes + form.factor_bytes;
        out += form.out_bytes;
        status = write_window(w, window, result, sw_dtype_bytes(form.to), err);
        if (status == SW_OK)
            status = digest_window(w, window, result, form.to, err);
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
