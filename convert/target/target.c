#include "target/target.h"

#include <string.h>

#include "base/text.h"

static const char form_option[] = "optimizer=";
static const char names_option[] = "names=";
static const char *const forms[] = {
    [SWI_FORM_KEEP] = "keep", [SWI_FORM_NAMES] = "names", [SWI_FORM_NESTED] = "nested",
    [SWI_FORM_FLAT] = "flat", [SWI_FORM_IDS] = "ids",
};
#define FORM_COUNT (sizeof forms / sizeof forms[0])

void swi_target_end(swi_target *target)
{
    swi_buf_free(&target->options);
    *target = (swi_target){0};
}

static sw_status no_target(const char *to, sw_error *err)
{
    swi_quoted q;
    swi_buf list = {0};
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < swi_framework_count(); i++) {
        const swi_framework *f = swi_framework_at(i);
        if (f->layout == NULL)
            continue;
        st = list.size > 0 ? swi_buf_append_str(&list, ", ", err) : SW_OK;
        if (st == SW_OK)
            st = swi_buf_append_str(&list, f->target, err);
    }
    if (st == SW_OK)
        st = swi_fail(err, SW_ERR_ARG, "--to %s: not a target; targets are: %.*s",
                      to ? swi_quote_str(&q, to) : "(none)", (int)list.size,
                      (const char *)list.data);
    swi_buf_free(&list);
    return st;
}

static bool has_form(const swi_framework *f, size_t form)
{
    return (f->optimizer_forms >> form & 1) != 0;
}

static sw_status take_names(swi_target *t, const char *text, size_t size, sw_error *err)
{
    swi_quoted q;
    if (size >= sizeof t->names)
        return swi_fail(err, SW_ERR_ARG, "--to %s: names=%s: no side of a map is called so",
                        t->framework->name, swi_quote(&q, text, size));
    memcpy(t->names, text, size);
    t->names[size] = '\0';
    return SW_OK;
}

/* One option: the common one is taken, others are handed on. */
static sw_status take_option(swi_target *t, const char *text, size_t size, sw_error *err)
{
    size_t n = strlen(form_option);
    swi_quoted q;
    if (size == 0)
        return swi_fail(err, SW_ERR_ARG, "--to %s: an option is empty", t->framework->name);
    if (t->framework->side == NULL && size > strlen(names_option) &&
        memcmp(text, names_option, strlen(names_option)) == 0)
        return take_names(t, text + strlen(names_option), size - strlen(names_option), err);
    if (t->framework->optimizer_forms == 0 || size < n || memcmp(text, form_option, n) != 0) {
        sw_status st = t->options.size > 0 ? swi_buf_u8(&t->options, ',', err) : SW_OK;
        return st == SW_OK ? swi_buf_append(&t->options, text, size, err) : st;
    }
    for (size_t i = 0; i < FORM_COUNT; i++) {
        if (has_form(t->framework, i) && strlen(forms[i]) == size - n &&
            memcmp(forms[i], text + n, size - n) == 0) {
            t->form = (swi_opt_form)i;
            t->form_asked = true;
            return SW_OK;
        }
    }
    return swi_fail(err, SW_ERR_ARG,
                    "--to %s: no such form of an optimizer: %s; there are nested, flat%s and keep",
                    t->framework->name, swi_quote(&q, text, size),
                    has_form(t->framework, SWI_FORM_IDS) ? ", ids" : "");
}

sw_status swi_target_parse(const char *to, swi_target *out, sw_error *err)
{
    swi_target made = {0};
    size_t n = to ? strcspn(to, ":") : 0;
    const swi_framework *f = to ? swi_framework_find(to, n) : NULL;
    if (f == NULL || f->layout == NULL)
        return no_target(to, err);
    made.framework = f;
    made.reader = f->reader != NULL ? f->reader : f;
    made.one_file = f->one_file;
    made.form = swi_framework_is_alias(f, to, n) ? f->alias_form : f->optimizer_form;
    sw_status st = SW_OK;
    for (const char *at = to + n; st == SW_OK && *at != '\0';) {
        at++;
        size_t size = strcspn(at, ",");
        st = take_option(&made, at, size, err);
        at += size;
    }
    if (st == SW_OK)
        st = swi_buf_append(&made.options, "", 1, err);
    if (st == SW_OK && f->choose != NULL)
        st = f->choose(&made, err);
    if (st == SW_OK)
        *out = made;
    else
        swi_target_end(&made);
    return st;
}

sw_status swi_target_tensor(swi_layout *layout, const swi_tensor_in *in, const swi_chosen *chosen,
                            uint32_t *tensor, sw_error *err)
{
    sw_status st = swi_layout_tensor(layout, in, chosen->source, tensor, err);
    return st == SW_OK && chosen->scale >= 0
               ? swi_layout_scale(layout, *tensor, (uint32_t)chosen->scale, err)
               : st;
}
