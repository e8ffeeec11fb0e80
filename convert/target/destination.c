#include "target/destination.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "io/store.h"
#include "source/detect.h"

/* The real path of the nearest ancestor of `path` that exists; NULL when there is none. */
static char *real_ancestor(const char *path)
{
    size_t n = strlen(path);
    char *text = malloc(n + 2);
    char *real = NULL;
    if (text == NULL)
        return NULL;
    memcpy(text, path, n + 1);
    for (;;) {
        real = realpath(n > 0 ? text : ".", NULL);
        if (real != NULL || n == 0)
            break;
        while (n > 0 && text[n - 1] == '/')
            n--;
        while (n > 0 && text[n - 1] != '/')
            n--;
        while (n > 1 && text[n - 1] == '/')
            n--;
        text[n] = '\0';
    }
    free(text);
    return real;
}

static bool lies_in(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 &&
           (path[n] == '/' || path[n] == '\0' || (n > 0 && folder[n - 1] == '/'));
}

/* The file that is all of the source, in its real folder. */
static bool is_source_file(const sw_checkpoint *source, const char *folder, const char *path)
{
    size_t n = strlen(folder);
    const swi_listing_entry *e = swi_listing_at(swi_checkpoint_listing(source), 0);
    return e != NULL && strncmp(path, folder, n) == 0 &&
           strcmp(path + n + strspn(path + n, "/"), e->name) == 0;
}

/* Neither may hold the other: replacing the destination would remove the source in it. */
static sw_status keep_apart(const sw_checkpoint *from, const char *path, sw_error *err)
{
    sw_status st = SW_OK;
    bool alone = swi_checkpoint_alone(from);
    char *source = realpath(sw_checkpoint_root(from), NULL);
    char *near = real_ancestor(path);
    char *dest = realpath(path, NULL);
    swi_quoted q;
    if (source == NULL || near == NULL)
        st = errno == ENOMEM ? swi_fail_nomem(err) : SW_OK; /* begin will say what is wrong */
    else if (!alone && lies_in(near, source))               /* beside a single file there is room */
        st = swi_fail(err, SW_ERR_ARG,
                      "the destination %s lies in the source folder, which is never written",
                      swi_quote_str(&q, path));
    else if (dest != NULL && lies_in(source, dest))
        st = swi_fail(err, SW_ERR_ARG,
                      "the source lies in the destination %s, which would be replaced with all in "
                      "it; choose another destination",
                      swi_quote_str(&q, path));
    else if (dest != NULL && alone && is_source_file(from, source, dest))
        st = swi_fail(err, SW_ERR_ARG,
                      "the destination %s is the source, which is never written; choose another",
                      swi_quote_str(&q, path));
    free(source);
    free(near);
    free(dest);
    return st;
}

/*
 * With --overwrite a folder goes with all that is in it, so it must look like what this command
 * writes: empty, or a checkpoint without folders in it. /data or a home is a slip of the hand.
 */
static sw_status keep_foreign(const char *path, sw_error *err)
{
    swi_store *store = NULL;
    swi_listing *listing = NULL;
    swi_quoted q, r;
    struct stat found;
    swi_claim claim = SWI_CLAIM_WHOLE;
    if (lstat(path, &found) != 0 || !S_ISDIR(found.st_mode))
        return SW_OK;
    sw_limits limits = sw_limits_resolve(NULL);
    sw_status st = swi_store_open_posix(path, &store, err);
    if (st == SW_OK)
        st = swi_listing_make(store, NULL, &limits, &listing, err);
    for (size_t i = 0; st == SW_OK && i < swi_listing_count(listing); i++) {
        const swi_listing_entry *e = swi_listing_at(listing, i);
        if (e->kind == SWI_ENTRY_DIR)
            st = swi_fail(err, SW_ERR_EXISTS,
                          "%s: holds the folder %s, so it is more than an earlier output, and is "
                          "not replaced; remove it yourself, or choose another destination",
                          swi_quote_str(&q, path), swi_quote_str(&r, e->name));
    }
    if (st == SW_OK && swi_listing_count(listing) > 0)
        st = swi_claim_best(store, listing, &claim, err);
    /* a loose file among others does not make a folder a checkpoint */
    if (st == SW_OK && claim <= SWI_CLAIM_LOOSE)
        st = swi_fail(err, SW_ERR_EXISTS,
                      "%s: holds files and no checkpoint, so it is no earlier output, and is not "
                      "replaced; remove it yourself, or choose another destination",
                      swi_quote_str(&q, path));
    swi_listing_free(listing);
    swi_store_close(store);
    return st;
}

/* The same for a file. */
static sw_status keep_foreign_file(const char *path, sw_error *err)
{
    swi_store *store = NULL;
    swi_listing *listing = NULL;
    swi_quoted q;
    struct stat found;
    swi_claim claim = SWI_CLAIM_NONE;
    char *real = stat(path, &found) == 0 && S_ISREG(found.st_mode) && found.st_size > 0
                     ? realpath(path, NULL)
                     : NULL;
    char *slash = real != NULL ? strrchr(real, '/') : NULL;
    if (slash == NULL || slash == real) {
        free(real);
        return SW_OK;
    }
    *slash = '\0';
    sw_limits limits = sw_limits_resolve(NULL);
    sw_status st = swi_store_open_posix(real, &store, err);
    if (st == SW_OK)
        st = swi_listing_make(store, slash + 1, &limits, &listing, err);
    if (st == SW_OK)
        st = swi_claim_best(store, listing, &claim, err);
    if (st == SW_OK && claim <= SWI_CLAIM_LOOSE)
        st = swi_fail(err, SW_ERR_EXISTS,
                      "%s: is no checkpoint, so it is no earlier output, and is not replaced; "
                      "remove it yourself, or choose another destination",
                      swi_quote_str(&q, path));
    swi_listing_free(listing);
    swi_store_close(store);
    free(real);
    return st;
}

/* A path that names a folder cannot be a file's. */
static sw_status keep_folder(const char *path, sw_error *err)
{
    struct stat found;
    size_t n = strlen(path);
    swi_quoted q;
    bool folder = n > 0 && path[n - 1] == '/';
    if (!folder && (stat(path, &found) != 0 || !S_ISDIR(found.st_mode)))
        return SW_OK;
    return swi_fail(err, SW_ERR_ARG,
                    "%s: is a folder, and this target is one file; name a file in it",
                    swi_quote_str(&q, path));
}

/* What is no file, folder or link is somebody's device or pipe, and never an earlier output. */
static sw_status keep_special(const char *path, sw_error *err)
{
    struct stat found;
    swi_quoted q;
    if (lstat(path, &found) != 0 || S_ISREG(found.st_mode) || S_ISDIR(found.st_mode) ||
        S_ISLNK(found.st_mode))
        return SW_OK;
    return swi_fail(err, SW_ERR_ARG,
                    "%s: is a device, pipe or socket and is never replaced; choose another "
                    "destination",
                    swi_quote_str(&q, path));
}

sw_status swi_destination_check(const sw_checkpoint *source, const char *path, bool one_file,
                                bool overwrite, sw_error *err)
{
    sw_status st = keep_apart(source, path, err);
    if (st == SW_OK)
        st = keep_special(path, err);
    if (st == SW_OK && one_file)
        st = keep_folder(path, err);
    if (st != SW_OK || !overwrite)
        return st;
    return one_file ? keep_foreign_file(path, err) : keep_foreign(path, err);
}

sw_status swi_destination_check_list(const sw_checkpoint *source, const char *dest,
                                     const char *path, sw_error *err)
{
    sw_status st = SW_OK;
    char *root = realpath(sw_checkpoint_root(source), NULL);
    char *folder = realpath(dest, NULL);
    char *near = real_ancestor(path);
    swi_quoted q;
    if (strcmp(path, dest) == 0 || (folder != NULL && near != NULL && lies_in(near, folder)))
        st = swi_fail(err, SW_ERR_ARG,
                      "the digest list %s lies in the destination, which appears whole; put it "
                      "beside it",
                      swi_quote_str(&q, path));
    else if (root != NULL && near != NULL && !swi_checkpoint_alone(source) && lies_in(near, root))
        st = swi_fail(err, SW_ERR_ARG,
                      "the digest list %s lies in the source folder, which is never written",
                      swi_quote_str(&q, path));
    else if (near == NULL)
        st = swi_fail_nomem(err);
    free(root);
    free(folder);
    free(near);
    return st;
}
