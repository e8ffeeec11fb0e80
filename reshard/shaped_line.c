/* What happens to one dimension of a tensor, piece by piece. */
#include <inttypes.h>

#include "shaped_parts.h"

/* ---- lines: a piece's axes of one dimension, as a piece of that dimension alone -------------- */

static void copy_axes(const swi_piece *from, uint32_t first, uint32_t end, swi_piece *to)
{
    for (uint32_t k = first; k < end; k++) {
        uint32_t n = to->axes++;
        to->view[n] = from->view[k];
        to->offset[n] = from->offset[k];
        to->length[n] = from->length[k];
        to->stride_bytes[n] = from->stride_bytes[k];
    }
}

/* A dimension of size 1 may have no axis; the line has one. */
static swi_piece take_line(const swi_piece *p, uint32_t first, uint32_t end)
{
    swi_piece line = {.axes = 0};
    copy_axes(p, first, end, &line);
    if (line.axes == 0) {
        line.axes = 1;
        line.view[0] = line.length[0] = 1;
    }
    return line;
}

/* The piece with other axes for the dimension. */
static sw_status put_line(swi_shaping *s, const swi_piece *p, uint32_t first, uint32_t end,
                          const swi_piece *line, sw_error *err)
{
    swi_piece whole = {.blob = p->blob, .base_bytes = p->base_bytes + line->base_bytes};
    if (first + line->axes + (p->axes - end) > SW_MAX_AXES)
        return swi_fail(err, SW_ERR_LIMIT, "a piece of it would need more than %d axes",
                        SW_MAX_AXES);
    copy_axes(p, 0, first, &whole);
    copy_axes(line, 0, line->axes, &whole);
    copy_axes(p, end, p->axes, &whole);
    return swi_shaping_out(s, &whole, err);
}

/* ---- move ------------------------------------------------------------------------------------ */

/* The same line in a dimension of another size, whose blocks of inner axes are where they were. */
static bool shift(swi_piece *line, int64_t by, int64_t new_size)
{
    int64_t inner = 1;
    for (uint32_t k = 1; k < line->axes; k++)
        inner *= line->view[k];
    if (by % inner != 0 || new_size % inner != 0)
        return false;
    line->offset[0] += by / inner;
    line->view[0] = new_size / inner;
    return true;
}

/* Lines whose blocks would not stay blocks are taken apart. */
static sw_status move_line(swi_shaping *s, const swi_piece *line, const swi_line *how,
                           sw_error *err)
{
    swi_piece parts[SWI_INTERVAL_MAX];
    size_t count = swi_piece_in_interval(line, (uint64_t)how->lo, (uint64_t)how->hi, parts);
    sw_status status = SW_OK;
    s->work.count = 0;
    for (size_t i = 0; i < count && status == SW_OK; i++)
        status = swi_pieces_add(&s->work, &parts[i], err);
    while (s->work.count > 0 && status == SW_OK) {
        swi_piece part = s->work.items[--s->work.count];
        swi_piece_simplify(&part, s->element_bytes);
        if (part.axes == 0)
            part = take_line(&part, 0, 0);
        if (shift(&part, how->at - how->lo, how->new_size))
            status = swi_pieces_add(&s->lines, &part, err);
        else
            status = swi_pieces_add_singles(&s->work, &part, 0, err);
    }
    return status;
}

/* ---- spread ---------------------------------------------------------------------------------- */

/* One element of a line becomes the elements of its block. */
static void spread_single(swi_piece *single, const swi_line *how)
{
    int64_t index = (int64_t)swi_piece_first(single);
    int64_t left = how->new_size - index * how->block;
    single->axes = 1;
    single->view[0] = how->new_size;
    single->offset[0] = index * how->block;
    single->length[0] = left < how->block ? left : how->block;
    single->stride_bytes[0] = 0;
}

static sw_status spread_singles(swi_shaping *s, const swi_piece *line, const swi_line *how,
                                sw_error *err)
{
    s->work.count = 0;
    sw_status status = swi_pieces_add(&s->work, line, err);
    while (s->work.count > 0 && status == SW_OK) {
        swi_piece part = s->work.items[--s->work.count];
        uint32_t k = 0;
        while (k < part.axes && part.length[k] == 1)
            k++;
        if (k < part.axes) {
            status = swi_pieces_add_singles(&s->work, &part, k, err);
            continue;
        }
        spread_single(&part, how);
        status = swi_pieces_add(&s->lines, &part, err);
    }
    return status;
}

/* Whole blocks are one more axis that does not move. */
static sw_status spread_line(swi_shaping *s, const swi_piece *line, const swi_line *how,
                             sw_error *err)
{
    if (how->new_size % how->block != 0)
        return spread_singles(s, line, how, err);
    swi_piece spread = *line;
    swi_piece_simplify(&spread, s->element_bytes);
    if (spread.axes == SW_MAX_AXES)
        return swi_fail(err, SW_ERR_LIMIT, "a piece of it would need more than %d axes",
                        SW_MAX_AXES);
    uint32_t n = spread.axes++;
    spread.view[n] = spread.length[n] = how->block;
    spread.offset[n] = 0;
    spread.stride_bytes[n] = 0;
    return swi_pieces_add(&s->lines, &spread, err);
}

/* ---- all pieces ------------------------------------------------------------------------------ */

static sw_status line_of_piece(swi_shaping *s, const swi_piece *aligned, const swi_line *how,
                               sw_error *err)
{
    const int64_t dims[] = {how->size, how->inner};
    uint32_t first[SW_MAX_AXES + 1];
    swi_aligned_groups(aligned, 2, dims, first);
    swi_piece line = take_line(aligned, first[0], first[1]);
    s->lines.count = 0;
    sw_status status =
        how->block > 0 ? spread_line(s, &line, how, err) : move_line(s, &line, how, err);
    for (size_t i = 0; i < s->lines.count && status == SW_OK; i++)
        status = put_line(s, aligned, first[0], first[1], &s->lines.items[i], err);
    return status;
}

sw_status swi_shaping_line(swi_shaping *shaping, const swi_piece *pieces, size_t count,
                           const swi_line *line, sw_error *err)
{
    const int64_t dims[] = {line->size, line->inner};
    sw_status status = SW_OK;
    for (size_t i = 0; i < count && status == SW_OK; i++) {
        status = swi_shaping_align(shaping, &pieces[i], 2, dims, err);
        for (size_t a = 0; a < shaping->aligned.count && status == SW_OK; a++)
            status = line_of_piece(shaping, &shaping->aligned.items[a], line, err);
    }
    return status;
}
