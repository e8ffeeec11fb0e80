#include "source/detect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/report.h"
#include "base/text.h"

#define LISTED_MAX 8

void swi_detected_free(swi_detected *d)
{
    swi_listing_free(d->listing);
    if (!d->lent)
        swi_store_close(d->store);
    free(d->root);
    *d = (swi_detected){0};
}

static sw_status join(const char *dir, const char *name, char **out, sw_error *err)
{
    size_t n = strlen(dir), m = strlen(name);
    char *text = NULL;
    sw_status st = swi_alloc_array(n + m + 2, 1, (void **)&text, err);
    if (st != SW_OK)
        return st;
    memcpy(text, dir, n);
    if (n > 0 && dir[n - 1] != '/' && m > 0)
        text[n++] = '/';
    memcpy(text + n, name, m);
    *out = text;
    return SW_OK;
}

/* Opens the folder `root` (taken over) and lists it. */
static sw_status open_folder(char *root, const char *only, const sw_limits *limits,
                             swi_detected *out, sw_error *err)
{
    swi_detected d = {.root = root};
    sw_status st = swi_store_open_posix(root, &d.store, err);
    if (st == SW_OK)
        st = swi_listing_make(d.store, only, limits, &d.listing, err);
    if (st != SW_OK) {
        swi_detected_free(&d);
        return st;
    }
    *out = d;
    return SW_OK;
}

/* Whose claims count. */
typedef struct sought {
    const swi_framework *only; /* NULL: those of all */
    bool part;                 /* none of such as put parts together */
} sought;

/* Claims of one level: how many at the best degree, and the first such framework. */
typedef struct claims {
    swi_claim best;
    const swi_framework *first, *second;
} claims;

static sw_status ask(const swi_detected *at, const sought *what, claims *out, sw_error *err)
{
    claims c = {0};
    for (size_t i = 0; i < swi_framework_count(); i++) {
        const swi_framework *f = swi_framework_at(i);
        if (f->open == NULL || f->claim == NULL || (what->only != NULL && f != what->only))
            continue;
        swi_claim claim = SWI_CLAIM_NONE;
        sw_status st = f->claim(at->store, at->listing, &claim, err);
        if (st != SW_OK) {
            swi_quoted q;
            return swi_error_prefix(err, "%s", swi_quote_str(&q, at->root));
        }
        if (claim == SWI_CLAIM_NONE || claim < c.best ||
            (claim == SWI_CLAIM_TOGETHER && what->part))
            continue;
        if (claim > c.best)
            c = (claims){.best = claim, .first = f};
        else
            c.second = f;
    }
    *out = c;
    return SW_OK;
}

sw_status swi_claim_best(const swi_store *store, const swi_listing *listing, swi_claim *out,
                         sw_error *err)
{
    swi_claim best = SWI_CLAIM_NONE;
    for (size_t i = 0; i < swi_framework_count(); i++) {
        const swi_framework *f = swi_framework_at(i);
        swi_claim claim = SWI_CLAIM_NONE;
        sw_status st = f->claim != NULL ? f->claim(store, listing, &claim, err) : SW_OK;
        if (st != SW_OK)
            return st;
        best = claim > best ? claim : best;
    }
    *out = best;
    return SW_OK;
}

static sw_status two_claims(const char *root, const claims *c, sw_error *err)
{
    swi_quoted q;
    return swi_fail(
        err, SW_ERR_CONFLICT,
        "%s: holds both a %s and a %s checkpoint; say which with --from %s or --from %s",
        swi_quote_str(&q, root), c->first->name, c->second->name, c->first->name, c->second->name);
}

bool swi_stands_back(const char *folder)
{
    return strncmp(folder, "optim", 5) == 0;
}

/* The children of a folder that are whole checkpoints. */
typedef struct children {
    swi_detected chosen;
    size_t count;      /* that do not stand back */
    size_t back_count; /* that do */
    swi_buf names;
    swi_buf remains; /* name of the first that is only a part of one */
} children;

static sw_status keep_child(children *c, swi_detected *d, const char *name, sw_error *err)
{
    bool back = swi_stands_back(name);
    size_t *count = back ? &c->back_count : &c->count;
    if (!back) {
        swi_quoted q;
        if (c->count < LISTED_MAX) {
            sw_status st = swi_buf_printf(&c->names, err, "%s%s", c->count ? ", " : "",
                                          swi_quote_str(&q, name));
            if (st != SW_OK)
                return st;
        }
    }
    /* the first that does not stand back; a lone one that does is still better than none */
    bool take = back ? c->count + c->back_count == 0 : c->count == 0;
    *count += 1;
    if (take) {
        swi_detected_free(&c->chosen);
        c->chosen = *d;
        *d = (swi_detected){0};
    }
    return SW_OK;
}

/* What children are looked for: of whom, and how sure it must be. */
typedef struct wanted {
    const sought *what;
    swi_claim degree;
    const sw_limits *limits;
} wanted;

/* Loose files give way to remains, and those to none. */
static bool fits(const wanted *w, swi_claim claim)
{
    return w->degree == SWI_CLAIM_WHOLE ? claim >= w->degree : claim == w->degree;
}

static sw_status try_child(children *c, const swi_detected *here, const char *name, const wanted *w,
                           sw_error *err)
{
    char *path = NULL;
    swi_detected d = {0};
    claims k = {0};
    sw_status st = join(here->root, name, &path, err);
    if (st != SW_OK)
        return st;
    sw_error ignored = {0};
    st = open_folder(path, NULL, w->limits, &d, &ignored);
    if (st == SW_ERR_NOMEM)
        return swi_fail_nomem(err);
    if (st != SW_OK)
        return SW_OK; /* a folder that cannot be looked into is no candidate */
    st = ask(&d, w->what, &k, err);
    if (st == SW_OK && fits(w, k.best) && k.second != NULL)
        st = two_claims(d.root, &k, err);
    else if (st == SW_OK && fits(w, k.best)) {
        d.framework = k.first;
        d.claim = k.best;
        st = keep_child(c, &d, name, err);
    } else if (st == SW_OK && k.best == SWI_CLAIM_PART && !swi_stands_back(name)) {
        swi_quoted q;
        if (c->remains.size == 0)
            st = swi_buf_printf(&c->remains, err, "%s", swi_quote_str(&q, name));
    }
    swi_detected_free(&d);
    return st;
}

static sw_status find_children(const swi_detected *here, const wanted *w, children *c,
                               sw_error *err)
{
    size_t tried = 0;
    for (size_t i = 0; i < swi_listing_count(here->listing) && tried < 4096; i++) {
        const swi_listing_entry *e = swi_listing_at(here->listing, i);
        if (e->kind != SWI_ENTRY_DIR || e->is_link)
            continue;
        tried++;
        sw_status st = try_child(c, here, e->name, w, err);
        if (st != SW_OK)
            return st;
    }
    return SW_OK;
}

static sw_status say_other(sw_report *report, const char *asked, const swi_detected *d,
                           sw_error *err)
{
    swi_quoted a, b;
    swi_finding_in in = {.severity = SW_NOTE, .code = "other-folder"};
    return swi_report_add(report, &in, err, "%s is not itself a checkpoint; using %s (%s)",
                          swi_quote_str(&a, asked), swi_quote_str(&b, d->root), d->framework->name);
}

static sw_status nothing_found(const char *path, sw_error *err)
{
    swi_quoted q;
    return swi_fail(err, SW_ERR_FORMAT,
                    "%s: no checkpoint of a known kind here, nor one level below; known are a DCP "
                    "folder (.metadata and *.distcp), Hugging Face safetensors, files of ranks of "
                    "inference engines and files of torch.save",
                    swi_quote_str(&q, path));
}

/* Decides among here, its children and remains; takes over *here. */
static sw_status choose(const char *path, swi_detected *here, const swi_framework *only,
                        const sw_limits *limits, sw_report *report, swi_detected *out,
                        sw_error *err)
{
    children c = {0};
    claims k = {0};
    const sought what = {.only = only};
    wanted w = {.what = &what, .degree = SWI_CLAIM_WHOLE, .limits = limits};
    sw_status st = ask(here, &what, &k, err);
    if (st == SW_OK && fits(&w, k.best) && k.second != NULL)
        st = two_claims(here->root, &k, err);
    if (st != SW_OK)
        goto done;
    if (!fits(&w, k.best)) {
        st = find_children(here, &w, &c, err);
        w.degree = SWI_CLAIM_LOOSE;
        if (st == SW_OK && k.best == SWI_CLAIM_NONE && c.chosen.framework == NULL)
            st = find_children(here, &w, &c, err);
        if (st != SW_OK)
            goto done;
        if (c.count > 1 || (c.count == 0 && c.back_count > 1)) {
            swi_quoted q;
            st = swi_fail(err, SW_ERR_CONFLICT,
                          "%s: holds several checkpoints (%.*s%s); name one of them",
                          swi_quote_str(&q, path), (int)c.names.size,
                          c.names.data ? (const char *)c.names.data : "",
                          c.count > LISTED_MAX ? ", ..." : "");
            goto done;
        }
        if (c.chosen.framework != NULL && c.remains.size > 0) {
            swi_quoted q, r;
            st =
                swi_fail(err, SW_ERR_CONFLICT,
                         "%s: holds a checkpoint (%s) and what is left of another (%.*s); name one "
                         "of them",
                         swi_quote_str(&q, path), swi_quote_str(&r, c.chosen.root),
                         (int)c.remains.size, (const char *)c.remains.data);
            goto done;
        }
        if (c.chosen.framework != NULL) {
            st = say_other(report, path, &c.chosen, err);
            if (st == SW_OK) {
                *out = c.chosen;
                c.chosen = (swi_detected){0};
            }
            goto done;
        }
    }
    here->framework = k.first != NULL ? k.first : only;
    here->claim = k.best;
    if (here->framework == NULL) {
        st = nothing_found(path, err);
        goto done;
    }
    *out = *here;
    *here = (swi_detected){0};
done:
    swi_buf_free(&c.names);
    swi_buf_free(&c.remains);
    swi_detected_free(&c.chosen);
    return st;
}

/* The folder of a file: "run/step" of "run/step/f", "." of "f". */
static sw_status folder_of(const char *path, char **out, sw_error *err)
{
    const char *slash = strrchr(path, '/');
    while (slash != NULL && slash > path && slash[-1] == '/')
        slash--;
    if (slash == NULL)
        return join(".", "", out, err);
    char *dir = NULL;
    sw_status st = join(path, "", &dir, err);
    if (st != SW_OK)
        return st;
    dir[slash == path ? 1 : slash - path] = '\0';
    *out = dir;
    return SW_OK;
}

/* The folder of the file `path`, listed whole or (only) with that one file in it. */
static sw_status open_folder_of(const char *path, const char *only, const sw_limits *limits,
                                swi_detected *out, sw_error *err)
{
    char *dir = NULL;
    sw_status st = folder_of(path, &dir, err);
    return st == SW_OK ? open_folder(dir, only, limits, out, err) : st;
}

/* `path` is a file: a checkpoint by itself, or a file of one. */
static sw_status detect_file(const char *path, const swi_framework *only, const sw_limits *limits,
                             sw_report *report, swi_detected *out, sw_error *err)
{
    const char *slash = strrchr(path, '/');
    swi_detected d = {0};
    sw_status st = open_folder_of(path, slash ? slash + 1 : path, limits, &d, err);
    if (st != SW_OK)
        return st;
    claims k = {0}, all = {0};
    const sought what = {.only = only};
    st = ask(&d, &what, &k, err);
    if (st == SW_OK && k.best == SWI_CLAIM_WHOLE && k.second == NULL) {
        d.framework = k.first;
        d.claim = k.best;
        d.alone = true;
        *out = d;
        return SW_OK;
    }
    swi_detected_free(&d);
    if (st == SW_OK)
        st = open_folder_of(path, NULL, limits, &d, err);
    if (st == SW_OK)
        st = ask(&d, &what, &all, err);
    if (st != SW_OK) {
        swi_detected_free(&d);
        return st;
    }
    d.framework = k.best != SWI_CLAIM_NONE && k.second == NULL ? k.first : all.first;
    d.claim = all.best;
    if (d.framework == NULL)
        st = nothing_found(path, err);
    else if (k.best == SWI_CLAIM_NONE && all.second != NULL)
        st = two_claims(d.root, &all, err);
    else
        st = say_other(report, path, &d, err);
    if (st == SW_OK) {
        *out = d;
        d = (swi_detected){0};
    }
    swi_detected_free(&d);
    return st;
}

/* The part as a file of this folder, or as all that lies in it. */
static sw_status part_here(const swi_detected *whole, const char *name, const sw_limits *limits,
                           swi_detected *out, sw_error *err)
{
    swi_detected d = {.store = whole->store, .lent = true, .alone = name[0] != '\0'};
    sw_status st = join(whole->root, "", &d.root, err);
    if (st == SW_OK)
        st = swi_listing_make(d.store, d.alone ? name : NULL, limits, &d.listing, err);
    if (st == SW_OK)
        *out = d;
    else
        swi_detected_free(&d);
    return st;
}

sw_status swi_detect_part(const swi_detected *whole, const char *name, const sw_limits *limits,
                          swi_detected *out, sw_error *err)
{
    const swi_listing_entry *e = swi_listing_find(whole->listing, name);
    const sought what = {.part = true};
    swi_detected d = {0};
    claims k = {0};
    char *path = NULL;
    sw_status st;
    if (e != NULL && e->kind == SWI_ENTRY_DIR) {
        st = join(whole->root, name, &path, err);
        if (st == SW_OK)
            st = open_folder(path, NULL, limits, &d, err);
    } else {
        st = part_here(whole, name, limits, &d, err);
    }
    if (st == SW_OK)
        st = ask(&d, &what, &k, err);
    if (st == SW_OK && k.second != NULL)
        st = two_claims(d.root, &k, err);
    else if (st == SW_OK && k.first == NULL)
        st = nothing_found(d.alone ? name : d.root, err);
    d.framework = k.first;
    d.claim = k.best;
    if (st == SW_OK)
        *out = d;
    else
        swi_detected_free(&d);
    return st;
}

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static sw_status fail_unknown(const char *from, sw_error *err)
{
    char known[256] = "";
    swi_quoted q;
    size_t used = 0;
    for (size_t i = 0; i < swi_framework_count(); i++) {
        const swi_framework *f = swi_framework_at(i);
        if (f->open == NULL || used >= sizeof known)
            continue;
        int n = snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", f->name);
        used += n > 0 ? (size_t)n : 0;
    }
    return swi_fail(err, SW_ERR_ARG, "--from %s: no framework of that name is read; there are %s",
                    swi_quote_str(&q, from), known);
}

sw_status swi_detect(const char *path, const char *from, const sw_limits *limits, sw_report *report,
                     swi_detected *out, sw_error *err)
{
    const swi_framework *only = NULL;
    if (from != NULL) {
        only = swi_framework_find(from, strlen(from));
        if (only == NULL || only->open == NULL)
            return fail_unknown(from, err);
    }
    if (is_file(path))
        return detect_file(path, only, limits, report, out, err);
    char *root = NULL;
    swi_detected here = {0};
    sw_status st = join(path, "", &root, err);
    if (st != SW_OK)
        return st;
    for (size_t n = strlen(root); n > 1 && root[n - 1] == '/'; n--)
        root[n - 1] = '\0';
    st = open_folder(root, NULL, limits, &here, err);
    if (st != SW_OK)
        return st;
    st = choose(path, &here, only, limits, report, out, err);
    swi_detected_free(&here);
    return st;
}
