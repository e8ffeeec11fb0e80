/*
 * Any bytes as a layout. What is read divides tensors so that every element is held, by as many
 * ranks as there are copies, and each rank is one of those of its holding.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "notation/division.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ELEMENTS 1024
#define RANKS 512

static void must(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static void hold(const swi_local *l, const swi_block_part *p, uint32_t *held)
{
    int64_t at[SW_MAX_AXES] = {0}, count = 1;
    for (uint32_t k = 0; k < l->axes; k++) {
        must(p->length[k] > 0 && p->offset[k] >= 0 && p->place[k] >= 0);
        must(p->offset[k] + p->length[k] <= l->view[k]);
        must(p->place[k] + p->length[k] <= l->shape[k]);
        count *= p->length[k];
    }
    for (int64_t n = 0; n < count; n++) {
        int64_t flat = 0;
        for (uint32_t k = 0; k < l->axes; k++)
            flat = flat * l->view[k] + p->offset[k] + at[k];
        held[flat]++;
        for (uint32_t k = l->axes; k-- > 0 && ++at[k] == p->length[k];)
            at[k] = 0;
    }
}

static void check_ranks(const swi_cut *cut, uint64_t holding)
{
    for (uint64_t k = 0; k < cut->copies; k++) {
        uint64_t rank = swi_cut_rank(cut, holding, k);
        must(rank < cut->holdings * cut->copies && swi_cut_of_rank(cut, rank) == holding);
        must(k == 0 || rank > swi_cut_rank(cut, holding, k - 1));
    }
}

static void divide(const swi_division *d, const char *name, uint32_t axes, const int64_t *shape)
{
    static uint32_t held[ELEMENTS];
    static swi_local local;
    swi_cut cut;
    sw_error err = {0};
    size_t elements = 1;
    if (swi_divide(d, name, axes, shape, &cut, &err) != SW_OK) {
        must(err.status != SW_OK && err.text[0] != '\0');
        return;
    }
    for (uint32_t k = 0; k < axes; k++)
        elements *= (size_t)shape[k];
    must(elements <= ELEMENTS && cut.holdings * cut.copies == swi_division_ranks(d));
    memset(held, 0, sizeof held);
    for (uint64_t h = 0; h < cut.holdings; h++) {
        check_ranks(&cut, h);
        swi_cut_local(&cut, h, &local);
        for (size_t p = 0; p < local.count; p++)
            hold(&local, &local.parts[p], held);
    }
    for (size_t i = 0; i < elements; i++)
        must(held[i] == 1 || (cut.overlap && held[i] > 1));
}

static void use(const swi_rules *rules)
{
    static const int64_t shapes[][3] = {{8, 8, 8}, {16, 5, 1}, {0, 4, 4}, {13, 2, 3}};
    const swi_expr_var vars[] = {{"H", swi_expr_of_int(8)}, {"K", swi_expr_of_int(2)}};
    swi_expr_vars table = {vars, 2};
    const swi_expr_scope scope = {.find = swi_expr_find_var, .ctx = &table};
    swi_division *d = NULL;
    swi_buf text = {0};
    sw_error err = {0};
    for (size_t i = 0; i < swi_rules_count(rules); i++)
        must(swi_rules_show(rules, i, &text, &err) == SW_OK);
    swi_buf_free(&text);
    if (swi_division_make(rules, &scope, NULL, 0, &d, &err) != SW_OK)
        return;
    for (size_t i = 0; swi_division_ranks(d) <= RANKS && i < sizeof shapes / sizeof shapes[0]; i++)
        for (uint32_t axes = 0; axes <= 3; axes++) {
            divide(d, "model.layers.0.self_attn.q_proj.weight", axes, shapes[i]);
            divide(d, "x", axes, shapes[i]);
        }
    swi_division_free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const sw_limits limits = sw_limits_resolve(NULL);
    swi_rules *rules = NULL;
    sw_error err = {0};
    if (size > 4096)
        return 0;
    if (swi_rules_parse_text(data, size, "fuzz", &limits, &rules, &err) != SW_OK) {
        must(rules == NULL && err.status != SW_OK);
        return 0;
    }
    use(rules);
    swi_rules_free(rules);
    return 0;
}
