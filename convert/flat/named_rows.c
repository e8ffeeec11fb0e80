/* Rows that their names tell. */
#include <stdlib.h>
#include <string.h>

#include "flat/unflatten.h"
#include "select/names.h"

static const char *const flat_names[] = {"_flat_param", "flat_param"};

/* Where a part of the name is that of a flat parameter; NULL: none is. */
static const char *flat_part(const char *name)
{
    for (const char *part = name; part != NULL; part = strchr(part, '.')) {
        part += *part == '.';
        const size_t size = strcspn(part, ".");
        for (size_t i = 0; i < sizeof flat_names / sizeof flat_names[0]; i++)
            if (strlen(flat_names[i]) == size && memcmp(part, flat_names[i], size) == 0)
                return part;
    }
    return NULL;
}

static sw_status note(const sw_checkpoint *checkpoint, swi_row_notes *notes, uint32_t tensor,
                      const sw_tensor_info *info, sw_error *err)
{
    const char *section, *name, *part;
    swi_buf unit = {0};
    uint64_t removed = 0;
    sw_checkpoint_split_name(checkpoint, tensor, &section, &name);
    part = flat_part(name);
    if (part == NULL)
        return SW_OK;
    if (info->role == SW_ROLE_OPTIMIZER)
        return swi_note_row(notes, tensor, NULL, info->piece_count, err);
    if (strchr(part, '.') != NULL)
        return SW_OK;
    sw_status st = swi_clean_name(name, false, &unit, &removed, err);
    if (st != SW_OK)
        return st;
    char *text = (char *)unit.data, *end = strrchr(text, '.');
    *(end != NULL ? end : text) = '\0';
    st = swi_note_row(notes, tensor, text, info->piece_count, err);
    swi_buf_free(&unit);
    return st;
}

sw_status swi_note_named_rows(const sw_checkpoint *checkpoint, swi_row_notes *notes, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(checkpoint);
    const size_t count = sw_catalog_tensor_count(catalog);
    bool *known = NULL;
    sw_tensor_info info;
    sw_status st = swi_alloc_array(count, sizeof *known, (void **)&known, err);
    for (size_t i = 0; st == SW_OK && i < notes->row_count; i++)
        known[notes->rows[i].tensor] = true;
    for (size_t i = 0; st == SW_OK && i < count; i++)
        if (swi_tensor_axes(catalog, (uint32_t)i) == 1 && !known[i] &&
            sw_catalog_tensor(catalog, i, &info))
            st = note(checkpoint, notes, (uint32_t)i, &info, err);
    free(known);
    return st;
}
