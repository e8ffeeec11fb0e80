#include "replicas.h"

#include <string.h>

#include "view.h"

typedef struct replicas {
    swi_view view;
    uint8_t *kept, *copy; /* a window as the kept pieces give it, and with one copy laid over it */
    uint64_t step;        /* elements of a window */
} replicas;

/* Where the copy differs first, or its end. */
static sw_status compare_copy(replicas *r, uint64_t i, uint64_t *at, sw_error *err)
{
    swi_piece piece;
    swi_tensor_piece(r->view.cover.catalog, r->view.cover.tensor, i, &piece);
    uint32_t size = r->view.cover.element_bytes;
    uint64_t end = swi_piece_end(&piece);
    for (uint64_t lo = swi_piece_first(&piece); lo < end; lo += r->step) {
        uint64_t hi = end - lo < r->step ? end : lo + r->step;
        sw_status status = swi_view_read(&r->view, lo, hi, r->kept, err);
        if (status != SW_OK)
            return status;
        memcpy(r->copy, r->kept, (size_t)(hi - lo) * size);
        status = swi_view_lay(&r->view, i, lo, hi, r->copy, err);
        if (status != SW_OK)
            return status;
        if (memcmp(r->copy, r->kept, (size_t)(hi - lo) * size) == 0)
            continue;
        *at = lo;
        while (memcmp(r->copy + (*at - lo) * size, r->kept + (*at - lo) * size, size) == 0)
            ++*at;
        return SW_OK;
    }
    *at = end;
    return SW_OK;
}

static sw_status compare_copies(replicas *r, bool *equal, uint64_t *first, uint32_t *copy,
                                sw_error *err)
{
    const swi_cover *cover = &r->view.cover;
    for (uint64_t i = 0; i < cover->piece_count; i++) {
        swi_piece piece;
        uint64_t at;
        if (!swi_cover_is_copy(cover, i))
            continue;
        swi_tensor_piece(cover->catalog, cover->tensor, i, &piece);
        sw_status status = compare_copy(r, i, &at, err);
        if (status != SW_OK)
            return status;
        if (at < swi_piece_end(&piece)) {
            *equal = false;
            *first = at;
            *copy = piece.blob;
            return SW_OK;
        }
    }
    *equal = true;
    return SW_OK;
}

sw_status swi_replicas_compare(const swi_source *source, uint32_t tensor, uint8_t *buffer,
                               size_t buffer_bytes, bool *equal, uint64_t *first, uint32_t *copy,
                               sw_error *err)
{
    replicas r = {0};
    if (!swi_tensor_has_replicas(source->catalog, tensor)) {
        *equal = true;
        return SW_OK;
    }
    sw_status status = swi_view_open(source, tensor, &r.view, err);
    if (status != SW_OK)
        return status;
    r.step = buffer_bytes / 2 / r.view.cover.element_bytes;
    r.kept = buffer;
    r.copy = buffer + r.step * r.view.cover.element_bytes;
    status = compare_copies(&r, equal, first, copy, err);
    swi_view_close(&r.view);
    return status;
}
