#include "ranks/found_layout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/file_rank.h"

#define RANKS_MAX 16384U
#define MORE_RANKS 64U    /* at the end that hold nothing */
#define TRIALS (1U << 24) /* of a way for a tensor; what is found until then is told */

bool swi_ways_any(const swi_ways *ways)
{
    uint64_t any = 0;
    for (size_t i = 0; i < sizeof ways->bits / sizeof ways->bits[0]; i++)
        any |= ways->bits[i];
    return any != 0;
}

bool swi_ways_has(const swi_ways *ways, size_t way)
{
    return (ways->bits[way / 64] >> way % 64 & 1) != 0;
}

/* ---- ways to split --------------------------------------------------------------------------- */

/* Digits of a number: axis and dimension of each split; false: it is no way. */
static bool decode(uint64_t code, uint32_t axes, uint32_t splits, swi_found_way *out)
{
    uint32_t used = 0;
    out->count = splits;
    for (uint32_t i = 0; i < splits; i++, code /= axes * SWI_FOUND_DIMS) {
        out->axis[i] = (uint32_t)(code % axes);
        out->dim[i] = (uint32_t)(code / axes % SWI_FOUND_DIMS);
        if ((used >> out->axis[i] & 1) != 0 || (i > 0 && out->dim[i] < out->dim[i - 1]))
            return false;
        used |= 1U << out->axis[i];
    }
    return code == 0;
}

static void list_ways(swi_found *f)
{
    f->way_count = 0;
    for (uint32_t splits = 0; splits <= f->axes; splits++) {
        uint64_t codes = 1;
        for (uint32_t i = 0; i < splits; i++)
            codes *= f->axes * SWI_FOUND_DIMS;
        for (uint64_t code = 0; code < codes && f->way_count < SWI_FOUND_WAYS; code++)
            f->way_count += decode(code, f->axes, splits, &f->ways[f->way_count]);
    }
}

static const char *const trial_names[SWI_FOUND_AXES] = {"a0", "a1", "a2"};

/* A rule for each way, by the notation itself. */
static sw_status write_rules(const swi_found *f, swi_buf *out, sw_error *err)
{
    sw_status st = swi_buf_append_str(out, "layout: 1\nmesh: {", err);
    for (uint32_t a = 0; st == SW_OK && a < f->axes; a++)
        st = swi_buf_printf(out, err, "%s%s: 1", a > 0 ? ", " : "", trial_names[a]);
    if (st == SW_OK)
        st = swi_buf_append_str(out, "}\nrules:\n", err);
    for (size_t w = 0; st == SW_OK && w < f->way_count; w++) {
        st = swi_buf_printf(out, err, "- {tensor: w%zu, dims: [", w);
        if (st == SW_OK)
            st = swi_found_dims(&f->ways[w], trial_names, out, err);
        if (st == SW_OK)
            st = swi_buf_append_str(out, "]}\n", err);
    }
    return st;
}

/* ---- what is there --------------------------------------------------------------------------- */

typedef struct finding {
    const sw_checkpoint *checkpoint;
    const sw_catalog *catalog;
    int64_t *rank_of; /* by file */
    uint64_t *met;    /* by holding: which of its boxes, as bits */
    uint64_t trials;
    swi_local local;
    swi_found *best;
    swi_ways *fits; /* of the mesh that is tried, by tensor */
} finding;

/* Files without a rank are all of one, when none has any. */
static sw_status read_ranks(finding *s, uint64_t *ranks, sw_error *err)
{
    size_t files = sw_catalog_file_count(s->catalog), unknown = 0;
    int64_t last = 0;
    sw_status st = swi_alloc_array(files, sizeof *s->rank_of, (void **)&s->rank_of, err);
    for (size_t i = 0; st == SW_OK && i < files; i++) {
        s->rank_of[i] = swi_file_rank(swi_catalog_path(s->catalog, (uint32_t)i));
        unknown += s->rank_of[i] < 0;
        last = s->rank_of[i] > last ? s->rank_of[i] : last;
    }
    if (st == SW_OK && unknown == files)
        memset(s->rank_of, 0, files * sizeof *s->rank_of);
    *ranks = (uint64_t)last + 1;
    return st;
}

static sw_status list_tensors(finding *s, sw_error *err)
{
    swi_found *f = s->best;
    size_t count = sw_catalog_tensor_count(s->catalog);
    sw_status st = swi_alloc_array(count, sizeof *f->tensors, (void **)&f->tensors, err);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        sw_tensor_info info;
        const char *section;
        sw_catalog_tensor(s->catalog, i, &info);
        if (info.role != SW_ROLE_PARAMETER || info.axes == 0 || info.elements == 0 ||
            info.alias_of >= 0)
            continue;
        swi_found_tensor *t = &f->tensors[f->count++];
        t->id = (uint32_t)i;
        sw_checkpoint_split_name(s->checkpoint, i, &section, &t->name);
        f->pieces += info.piece_count;
    }
    return st == SW_OK ? swi_alloc_array(f->count, sizeof *s->fits, (void **)&s->fits, err) : st;
}

/* ---- whether a way is the one -------------------------------------------------------------------
 */

/* The holding of the rank that wrote this piece has it as a box: noted. */
static bool meet(finding *s, const swi_cut *cut, const sw_tensor_info *info, const swi_piece *piece)
{
    const size_t bytes = info->axes * sizeof(int64_t);
    swi_blob blob;
    swi_catalog_blob(s->catalog, piece->blob, &blob);
    int64_t rank = blob.file < sw_catalog_file_count(s->catalog) ? s->rank_of[blob.file] : -1;
    if (rank < 0 || (uint64_t)rank >= cut->holdings * cut->copies || piece->axes != info->axes ||
        memcmp(piece->view, info->shape, bytes) != 0)
        return false;
    uint64_t holding = swi_cut_of_rank(cut, (uint64_t)rank);
    swi_cut_local(cut, holding, &s->local);
    for (size_t p = 0; p < s->local.count; p++) {
        const swi_block_part *box = &s->local.parts[p];
        if (memcmp(piece->offset, box->offset, bytes) == 0 &&
            memcmp(piece->length, box->length, bytes) == 0) {
            s->met[holding] |= UINT64_C(1) << p;
            return true;
        }
    }
    return false;
}

/* All boxes of all holdings were met. */
static bool is_whole(finding *s, const swi_cut *cut)
{
    for (uint64_t h = 0; h < cut->holdings; h++) {
        swi_cut_local(cut, h, &s->local);
        if (s->local.count != (size_t)__builtin_popcountll(s->met[h]))
            return false;
    }
    return true;
}

static bool fits(finding *s, const swi_division *division, size_t rule, const swi_found_tensor *t)
{
    sw_tensor_info info;
    swi_cut cut;
    sw_error cause = {0};
    s->trials++;
    sw_catalog_tensor(s->catalog, t->id, &info);
    if (swi_divide_by(division, rule, t->name, info.axes, info.shape, &cut, &cause) != SW_OK)
        return false;
    memset(s->met, 0, cut.holdings * sizeof *s->met);
    for (uint64_t i = 0; i < info.piece_count; i++) {
        swi_piece piece;
        swi_tensor_piece(s->catalog, t->id, i, &piece);
        if (!meet(s, &cut, &info, &piece))
            return false;
    }
    return info.piece_count > 0 && is_whole(s, &cut);
}

static bool has_dims(const finding *s, const swi_found_tensor *t, const swi_found_way *way)
{
    sw_tensor_info info;
    sw_catalog_tensor(s->catalog, t->id, &info);
    return way->count == 0 || way->dim[way->count - 1] < info.axes;
}

/* ---- meshes ------------------------------------------------------------------------------------
 */

/* Tries all ways on this mesh; keeps it when it explains more than the best before. */
static void try_mesh(finding *s, const swi_division *division, const swi_found *tried)
{
    size_t explained = 0;
    memset(s->fits, 0, s->best->count * sizeof *s->fits);
    for (size_t i = 0; i < s->best->count && s->trials < TRIALS; i++) {
        const swi_found_tensor *t = &s->best->tensors[i];
        for (size_t w = 0; w < tried->way_count; w++)
            if (has_dims(s, t, &tried->ways[w]) && fits(s, division, w, t))
                s->fits[i].bits[w / 64] |= UINT64_C(1) << w % 64;
        explained += swi_ways_any(&s->fits[i]);
        if (s->best->axes > 0 && i + 1 - explained >= s->best->count - s->best->explained)
            return; /* it will not be better */
    }
    if (explained <= s->best->explained && s->best->axes > 0)
        return;
    s->best->explained = explained;
    s->best->axes = tried->axes;
    s->best->way_count = tried->way_count;
    s->best->ranks = tried->ranks;
    memcpy(s->best->size, tried->size, sizeof s->best->size);
    memcpy(s->best->ways, tried->ways, sizeof s->best->ways);
    for (size_t i = 0; i < s->best->count; i++)
        s->best->tensors[i].fits = s->fits[i];
}

static bool is_done(const finding *s)
{
    return s->best->axes > 0 && (s->best->explained == s->best->count || s->trials >= TRIALS);
}

/* Sizes of at least 2 whose product is `ranks`, by the first ones; false: they do not divide. */
static bool set_sizes(swi_found *f, uint64_t first, uint64_t second)
{
    const uint64_t sizes[SWI_FOUND_AXES] = {first, second, 1};
    uint64_t left = f->ranks;
    for (uint32_t a = 0; a < f->axes; a++) {
        f->size[a] = a + 1 == f->axes ? left : sizes[a];
        if (left % f->size[a] != 0 || (f->size[a] < 2 && f->axes > 1))
            return false;
        left /= f->size[a];
    }
    return left == 1;
}

static sw_status try_sizes(finding *s, const swi_rules *rules, swi_found *tried, sw_error *err)
{
    swi_axis_size given[SWI_FOUND_AXES];
    swi_division *division = NULL;
    for (uint32_t a = 0; a < tried->axes; a++)
        given[a] = (swi_axis_size){.name = trial_names[a], .size = tried->size[a]};
    sw_status st = swi_division_make(rules, NULL, given, tried->axes, &division, err);
    if (st == SW_OK)
        try_mesh(s, division, tried);
    swi_division_free(division);
    return st;
}

static sw_status try_axes(finding *s, swi_found *tried, sw_error *err)
{
    swi_buf text = {0};
    swi_rules *rules = NULL;
    const sw_limits limits = swi_checkpoint_limits(s->checkpoint);
    list_ways(tried);
    sw_status st = write_rules(tried, &text, err);
    if (st == SW_OK)
        st = swi_rules_parse_text(text.data, text.size, "ways", &limits, &rules, err);
    const uint64_t most1 = tried->axes > 1 ? tried->ranks : 1;
    const uint64_t most2 = tried->axes > 2 ? tried->ranks : 1;
    for (uint64_t i = 1; st == SW_OK && i <= most1 && !is_done(s); i++)
        for (uint64_t k = 1; st == SW_OK && tried->ranks % i == 0 && k <= most2 && !is_done(s); k++)
            if (set_sizes(tried, i, k))
                st = try_sizes(s, rules, tried, err);
    swi_rules_free(rules);
    swi_buf_free(&text);
    return st;
}

/* The fewest axes first; then with ranks at the end that hold nothing. */
static sw_status try_all(finding *s, uint64_t ranks, sw_error *err)
{
    const uint64_t most = ranks * 2 < ranks + MORE_RANKS ? ranks * 2 : ranks + MORE_RANKS;
    sw_status st = SW_OK;
    for (uint64_t r = ranks; st == SW_OK && r <= most && !is_done(s); r++) {
        for (uint32_t axes = 1; st == SW_OK && axes <= SWI_FOUND_AXES && !is_done(s); axes++) {
            swi_found tried = {.ranks = r, .axes = axes};
            st = try_axes(s, &tried, err);
        }
    }
    return st;
}

/* ---- rows of parts ------------------------------------------------------------------------------
 */

/* Where the pieces of rank 0 begin along a dimension is where parts do: it has the first of each.
 */
static size_t part_starts(const finding *s, const sw_tensor_info *info, uint32_t tensor,
                          uint32_t dim, int64_t starts[SWI_RULE_PARTS_MAX])
{
    size_t count = 0;
    for (uint64_t i = 0; i < info->piece_count; i++) {
        swi_piece piece;
        swi_blob blob;
        swi_tensor_piece(s->catalog, tensor, i, &piece);
        swi_catalog_blob(s->catalog, piece.blob, &blob);
        if (blob.file >= sw_catalog_file_count(s->catalog) || s->rank_of[blob.file] != 0 ||
            piece.axes != info->axes)
            continue;
        size_t at = 0;
        while (at < count && starts[at] < piece.offset[dim])
            at++;
        if (at < count && starts[at] == piece.offset[dim])
            continue;
        if (count == SWI_RULE_PARTS_MAX)
            return 0;
        memmove(&starts[at + 1], &starts[at], (count - at) * sizeof *starts);
        starts[at] = piece.offset[dim];
        count++;
    }
    return count > 1 && starts[0] == 0 ? count : 0;
}

static sw_status try_parts(finding *s, swi_found_tensor *t, size_t way, const int64_t *parts,
                           size_t count, sw_error *err)
{
    const swi_found *f = s->best;
    const sw_limits limits = swi_checkpoint_limits(s->checkpoint);
    swi_buf text = {0};
    swi_rules *rules = NULL;
    swi_division *division = NULL;
    sw_status st = swi_buf_append_str(&text, "layout: 1\nmesh: {", err);
    for (uint32_t a = 0; st == SW_OK && a < f->axes; a++)
        st = swi_buf_printf(&text, err, "%s%s: %" PRIu64, a > 0 ? ", " : "", trial_names[a],
                            f->size[a]);
    if (st == SW_OK)
        st = swi_buf_append_str(&text, "}\nrules:\n- {tensor: w, dims: [", err);
    if (st == SW_OK)
        st = swi_found_dims(&f->ways[way], trial_names, &text, err);
    for (size_t p = 0; st == SW_OK && p < count; p++)
        st = swi_buf_printf(&text, err, "%s%" PRId64, p > 0 ? ", " : "], parts: [", parts[p]);
    if (st == SW_OK)
        st = swi_buf_append_str(&text, "]}\n", err);
    if (st == SW_OK)
        st = swi_rules_parse_text(text.data, text.size, "parts", &limits, &rules, err);
    if (st == SW_OK)
        st = swi_division_make(rules, NULL, NULL, 0, &division, err);
    if (st == SW_OK && fits(s, division, 0, t))
        t->fits.bits[way / 64] |= UINT64_C(1) << way % 64;
    swi_division_free(division);
    swi_rules_free(rules);
    swi_buf_free(&text);
    return st;
}

/* The first way that a row of parts explains. */
static sw_status find_parts(finding *s, swi_found_tensor *t, sw_error *err)
{
    swi_found *f = s->best;
    sw_tensor_info info;
    sw_status st = SW_OK;
    sw_catalog_tensor(s->catalog, t->id, &info);
    for (size_t w = 0; st == SW_OK && w < f->way_count && s->trials < TRIALS; w++) {
        int64_t parts[SWI_RULE_PARTS_MAX];
        if (f->ways[w].count == 0 || !has_dims(s, t, &f->ways[w]))
            continue;
        const uint32_t dim = f->ways[w].dim[0];
        size_t count = part_starts(s, &info, t->id, dim, parts);
        for (size_t p = 0; p < count; p++)
            parts[p] = (p + 1 < count ? parts[p + 1] : info.shape[dim]) - parts[p];
        if (count > 0)
            st = try_parts(s, t, w, parts, count, err);
        if (st != SW_OK || !swi_ways_any(&t->fits))
            continue;
        int64_t *kept;
        st = swi_arena_alloc(&f->arena, count * sizeof *kept, (void **)&kept, err);
        if (st != SW_OK)
            return st;
        memcpy(kept, parts, count * sizeof *kept);
        t->parts = kept;
        t->part_count = count;
        return SW_OK;
    }
    return st;
}

static sw_status find_all_parts(finding *s, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < s->best->count; i++)
        if (!swi_ways_any(&s->best->tensors[i].fits))
            st = find_parts(s, &s->best->tensors[i], err);
    return st;
}

/* ---- all of it ---------------------------------------------------------------------------------
 */

sw_status swi_find_layout(const sw_checkpoint *checkpoint, swi_found *out, sw_error *err)
{
    swi_found made = {.axes = 0};
    finding *s = NULL;
    uint64_t ranks = 1;
    sw_status st = swi_alloc_array(1, sizeof *s, (void **)&s, err);
    if (st != SW_OK)
        return st;
    s->checkpoint = checkpoint;
    s->catalog = sw_checkpoint_catalog(checkpoint);
    s->best = &made;
    st = read_ranks(s, &ranks, err);
    if (st == SW_OK && ranks > RANKS_MAX)
        st = swi_fail(err, SW_ERR_UNSUPPORTED, "layouts of more than %u ranks are not looked for",
                      RANKS_MAX);
    if (st == SW_OK)
        st = swi_alloc_array(2 * ranks + MORE_RANKS, sizeof *s->met, (void **)&s->met, err);
    if (st == SW_OK)
        st = list_tensors(s, err);
    if (st == SW_OK)
        st = try_all(s, ranks, err);
    if (st == SW_OK)
        st = find_all_parts(s, err);
    free(s->rank_of);
    free(s->met);
    free(s->fits);
    free(s);
    if (st == SW_OK)
        *out = made;
    else
        swi_found_end(&made);
    return st;
}

void swi_found_end(swi_found *found)
{
    free(found->tensors);
    swi_arena_free(&found->arena);
    *found = (swi_found){0};
}
