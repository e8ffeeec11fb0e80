/* What readers say of a checkpoint while they open it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "source/checkpoint_parts.h"

sw_status swi_opening_section(swi_opening *o, uint32_t tensor, const char *text, const char *name,
                              sw_error *err)
{
    sw_checkpoint *c = o->checkpoint;
    sw_status st = swi_grow_array((void **)&c->sections, &c->section_capacity, (size_t)tensor + 1,
                                  sizeof *c->sections, err);
    if (st != SW_OK)
        return st;
    swi_place_name *s = &c->sections[tensor];
    /* neighbours mostly share their section: keep one copy */
    if (tensor > 0 && s[-1].section != NULL && strcmp(s[-1].section, text) == 0)
        s->section = s[-1].section;
    else
        st = swi_arena_text(&c->arena, text, strlen(text), &s->section, err);
    if (st == SW_OK)
        st = swi_arena_text(&c->arena, name, strlen(name), &s->name, err);
    return st;
}

sw_status swi_opening_row(swi_opening *o, uint32_t tensor, const char *unit, uint64_t shards,
                          sw_error *err)
{
    return swi_note_row(&o->checkpoint->rows, tensor, unit, shards, err);
}

sw_status swi_opening_row_slice(swi_opening *o, uint32_t tensor, const char *name, uint64_t at,
                                uint64_t elements, sw_error *err)
{
    return swi_note_slice(&o->checkpoint->rows, tensor, name, at, elements, err);
}

void swi_opening_memory(swi_opening *o, uint64_t bytes)
{
    if (bytes > o->checkpoint->open_memory)
        o->checkpoint->open_memory = bytes;
}

void swi_opening_incomplete(swi_opening *o)
{
    o->checkpoint->incomplete = true;
}

void swi_opening_opaque(swi_opening *o)
{
    o->checkpoint->opaque = true;
}

sw_status swi_opening_fact(swi_opening *o, const char *key, sw_error *err, const char *fmt, ...)
{
    sw_checkpoint *c = o->checkpoint;
    char text[256];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n < 0)
        return swi_fail(err, SW_ERR_ARG, "fact %s cannot be formatted", key);
    swi_quoted q;
    const char *shown = swi_quote_str(&q, text);
    sw_status st = swi_grow_array((void **)&c->facts, &c->fact_capacity, c->fact_count + 1,
                                  sizeof *c->facts, err);
    if (st != SW_OK)
        return st;
    swi_fact *f = &c->facts[c->fact_count];
    st = swi_arena_text(&c->arena, key, strlen(key), &f->key, err);
    if (st == SW_OK)
        st = swi_arena_text(&c->arena, shown, strlen(shown), &f->value, err);
    if (st == SW_OK)
        c->fact_count++;
    return st;
}

void swi_opening_keep(swi_opening *o, void *data, void (*free_data)(void *))
{
    sw_checkpoint *c = o->checkpoint;
    if (c->kept != NULL)
        c->free_kept(c->kept);
    c->kept = data;
    c->free_kept = free_data;
}

/* "model" and "encoder": "model.encoder". */
static sw_status adopt_section(swi_opening *o, const sw_checkpoint *part, uint32_t i,
                               uint32_t tensor, const char *under, sw_error *err)
{
    const char *own, *name;
    swi_buf text = {0};
    sw_checkpoint_split_name(part, i, &own, &name);
    sw_status st = swi_buf_printf(&text, err, "%s%s%s", under,
                                  under[0] != '\0' && own[0] != '\0' ? "." : "", own);
    if (st == SW_OK)
        st = swi_buf_u8(&text, 0, err);
    if (st == SW_OK)
        st = swi_opening_section(o, tensor, (const char *)text.data, name, err);
    swi_buf_free(&text);
    return st;
}

sw_status swi_opening_adopt(swi_opening *o, const sw_checkpoint *part, uint32_t first_tensor,
                            const char *under, sw_error *err)
{
    const swi_row_notes *notes = &part->rows;
    const uint32_t count = (uint32_t)sw_catalog_tensor_count(part->catalog);
    sw_status st = SW_OK;
    for (uint32_t i = 0; st == SW_OK && i < count; i++)
        st = adopt_section(o, part, i, first_tensor + i, under, err);
    for (size_t i = 0; st == SW_OK && i < notes->row_count; i++) {
        const swi_row_note *r = &notes->rows[i];
        st = swi_opening_row(o, first_tensor + r->tensor, r->unit, r->shards, err);
    }
    for (size_t i = 0; st == SW_OK && i < notes->slice_count; i++) {
        const swi_slice_note *s = &notes->slices[i];
        st = swi_opening_row_slice(o, first_tensor + s->tensor, s->name, s->at, s->elements, err);
    }
    swi_opening_memory(o, part->open_memory);
    if (part->incomplete)
        swi_opening_incomplete(o);
    if (part->opaque)
        swi_opening_opaque(o);
    return st;
}
