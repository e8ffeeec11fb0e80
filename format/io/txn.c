#include "io/txn.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/text.h"
#include "io/journal.h"
#include "io/place.h"
#include "io/store_ops.h"
#include "io/tree.h"

#define ID_MIN 8
#define ID_MAX 64
#define SCRATCH_PREFIX ".scratch-"

struct swi_txn {
    char id[ID_MAX + 1];
    bool overwrite;
    bool fresh;
    bool single_file;
    bool committed;
    swi_place place;
    swi_store *store;
    pthread_mutex_t lock; /* of the journal and of scratch_count */
    bool has_lock;
    swi_journal journal;
    uint64_t resumed;
    uint32_t scratch_count;
    char *from; /* what gets renamed, once it is ready */
    swi_moved moved;
    char *leftover;
};

/* ---- step 1: begin -----------------------------------------------------------------------------
 */

static bool is_id(const char *id)
{
    size_t size = id != NULL ? strlen(id) : 0;
    return size >= ID_MIN && size <= ID_MAX && strspn(id, "0123456789abcdef") == size;
}

/* A file that no journal line vouches for is the unfinished work of a killed run; to a fresh one
 * all that there is. */
static sw_status keep_or_remove(void *ctx, const swi_entry *entry, sw_error *err)
{
    swi_txn *txn = ctx;
    uint64_t bytes;
    if (strcmp(entry->path, SWI_JOURNAL_NAME) == 0)
        return SW_OK;
    if (swi_journal_find(&txn->journal, entry->path, &bytes)) {
        if (!txn->fresh && !entry->is_link && entry->kind == SWI_ENTRY_FILE &&
            entry->bytes == bytes) {
            txn->resumed++;
            return SW_OK;
        }
        sw_status status = swi_journal_drop(&txn->journal, entry->path, err);
        if (status != SW_OK)
            return status;
    }
    return swi_store_remove(txn->store, entry->path, err);
}

/* A line whose file is gone: its name did not reach the disk before a crash. */
static sw_status drop_missing(swi_txn *txn, sw_error *err)
{
    const swi_names *paths = txn->journal.paths;
    for (uint32_t i = 0; i < swi_names_count(paths); i++) {
        const char *path = swi_names_at(paths, i, NULL);
        uint64_t bytes;
        swi_entry entry;
        sw_error local;
        if (!swi_journal_find(&txn->journal, path, &bytes))
            continue;
        sw_status status = swi_store_stat(txn->store, path, &entry, &local);
        if (status == SW_ERR_NOTFOUND || status == SW_ERR_UNSAFE)
            status = swi_journal_drop(&txn->journal, path, &local);
        if (status != SW_OK) {
            if (err != NULL)
                *err = local;
            return status;
        }
    }
    return SW_OK;
}

/* Those that held unfinished files alone. The others are not empty, and stay since they are not. */
static void remove_empty_dirs(swi_txn *txn, const swi_tree *tree)
{
    size_t removed = 0;
    for (size_t i = tree->count; i > 1; i--)
        removed += swi_store_remove(txn->store, tree->dirs[i - 1], NULL) == SW_OK;
    (void)removed;
}

static sw_status take_up(swi_txn *txn, sw_error *err)
{
    swi_tree tree = {0};
    int fd = fcntl(txn->place.dir_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return swi_fail_errno(err, errno, "cannot duplicate a descriptor");
    sw_status status = swi_store_from_dir(fd, txn->place.partial, &txn->store, err);
    if (status == SW_OK)
        status = swi_journal_open(&txn->journal, txn->store, txn->id, err);
    if (status == SW_OK)
        status = swi_tree_visit(&tree, txn->store, keep_or_remove, txn, err);
    if (status == SW_OK)
        status = drop_missing(txn, err);
    if (status == SW_OK)
        remove_empty_dirs(txn, &tree);
    swi_tree_free(&tree);
    return status;
}

static sw_status check_dest(const swi_txn *txn, sw_error *err)
{
    bool exists = false;
    sw_status status = swi_place_dest_exists(&txn->place, &exists, err);
    if (status != SW_OK || txn->overwrite || !exists)
        return status;
    swi_quoted room;
    return swi_fail(err, SW_ERR_EXISTS, "%s: exists, and replacing it was not asked for",
                    swi_quote_str(&room, txn->place.dest));
}

sw_status swi_txn_begin(const char *dest, const swi_txn_options *options, swi_txn **out,
                        sw_error *err)
{
    void *p;
    if (!is_id(options->id))
        return swi_fail(err, SW_ERR_ARG, "a transaction's id is %d to %d lower-case hex digits",
                        ID_MIN, ID_MAX);
    sw_status status = swi_alloc_array(1, sizeof(swi_txn), &p, err);
    if (status != SW_OK)
        return status;
    swi_txn *txn = p;
    (void)snprintf(txn->id, sizeof txn->id, "%s", options->id);
    txn->overwrite = options->overwrite;
    txn->fresh = options->fresh;
    txn->single_file = options->single_file;
    status = swi_place_open(&txn->place, dest, txn->id, err);
    if (status != SW_OK)
        goto done;
    int rc = pthread_mutex_init(&txn->lock, NULL);
    if (rc != 0)
        status = swi_fail_errno(err, rc, "pthread_mutex_init");
    txn->has_lock = rc == 0;
    if (status == SW_OK)
        status = check_dest(txn, err);
    if (status == SW_OK)
        status = swi_place_lock(&txn->place, err);
    if (status == SW_OK)
        status = swi_place_repair(&txn->place, err);
    if (status == SW_OK)
        status = check_dest(txn, err); /* put back by the repair */
    if (status == SW_OK)
        status = take_up(txn, err);
    if (status == SW_OK)
        *out = txn;
done:
    if (status != SW_OK)
        swi_txn_end(txn, true);
    return status;
}

/* Of the parent's file system; UINT64_MAX when a partial folder already holds what it holds. */
static sw_status look_at_space(const swi_place *place, uint64_t *free_bytes, sw_error *err)
{
    bool begun;
    swi_store *parent;
    sw_status status = swi_place_partial_exists(place, &begun, err);
    if (status != SW_OK)
        return status;
    *free_bytes = UINT64_MAX;
    if (begun)
        return SW_OK;
    status = swi_store_open_posix(place->parent, &parent, err);
    if (status != SW_OK)
        return status;
    *free_bytes = swi_store_free_bytes(parent);
    swi_store_close(parent);
    return SW_OK;
}

sw_status swi_txn_look(const char *dest, const swi_txn_options *options, uint64_t *free_bytes,
                       sw_error *err)
{
    swi_txn txn = {.overwrite = options->overwrite};
    sw_status status = swi_place_open(&txn.place, dest, options->id, err);
    if (status != SW_OK)
        return status;
    status = check_dest(&txn, err);
    if (status == SW_OK)
        status = swi_place_may_write(&txn.place, err);
    if (status == SW_OK)
        status = look_at_space(&txn.place, free_bytes, err);
    swi_place_close(&txn.place);
    return status;
}

/* ---- getters -----------------------------------------------------------------------------------
 */

swi_store *swi_txn_store(swi_txn *txn)
{
    return txn->store;
}

const char *swi_txn_partial(const swi_txn *txn)
{
    return txn->place.partial;
}

uint64_t swi_txn_resumed(const swi_txn *txn)
{
    return txn->resumed;
}

const char *swi_txn_leftover(const swi_txn *txn)
{
    return txn->leftover;
}

/* ---- steps 2 to 4: files
 * ------------------------------------------------------------------------- */

/* Under the lock. The journal says so first: a crash must not leave a line for half a new file. */
static sw_status remove_file(swi_txn *txn, const char *path, sw_error *err)
{
    sw_error local;
    sw_status status = swi_journal_drop(&txn->journal, path, err);
    if (status != SW_OK)
        return status;
    status = swi_store_remove(txn->store, path, &local);
    if (status == SW_OK || status == SW_ERR_NOTFOUND)
        return SW_OK;
    if (err != NULL)
        *err = local;
    return status;
}

bool swi_txn_has(swi_txn *txn, const char *path, uint64_t bytes)
{
    uint64_t found;
    (void)pthread_mutex_lock(&txn->lock);
    bool known = swi_journal_find(&txn->journal, path, &found);
    bool has = known && found == bytes;
    /* If this fails, making the file fails and says why. */
    if (known && !has)
        (void)remove_file(txn, path, NULL);
    (void)pthread_mutex_unlock(&txn->lock);
    return has;
}

sw_status swi_txn_finish_file(swi_txn *txn, const char *path, swi_file *file, sw_error *err)
{
    sw_status status = swi_file_sync(file, err); /* 2 */
    uint64_t bytes = swi_file_bytes(file);
    swi_file_close(file);
    if (status != SW_OK)
        return status;
    (void)pthread_mutex_lock(&txn->lock);
    status = swi_journal_add(&txn->journal, path, bytes, err); /* 3 */
    (void)pthread_mutex_unlock(&txn->lock);
    return status;
}

sw_status swi_txn_put(swi_txn *txn, const char *path, const void *data, size_t size, sw_error *err)
{
    swi_file *file = NULL;
    (void)pthread_mutex_lock(&txn->lock);
    sw_status status = remove_file(txn, path, err);
    (void)pthread_mutex_unlock(&txn->lock);
    if (status == SW_OK)
        status = swi_store_create(txn->store, path, &file, err);
    if (status != SW_OK)
        return status;
    status = swi_file_write(file, 0, data, size, err);
    if (status != SW_OK) {
        swi_file_close(file);
        return status;
    }
    return swi_txn_finish_file(txn, path, file, err);
}

static void scratch_name(char name[32], uint32_t i)
{
    (void)snprintf(name, 32, SCRATCH_PREFIX "%" PRIu32, i);
}

sw_status swi_txn_scratch(swi_txn *txn, swi_file **out, sw_error *err)
{
    char name[32];
    (void)pthread_mutex_lock(&txn->lock);
    scratch_name(name, txn->scratch_count);
    sw_status status = swi_store_create(txn->store, name, out, err);
    if (status == SW_OK)
        txn->scratch_count++;
    (void)pthread_mutex_unlock(&txn->lock);
    return status;
}

/* ---- steps 5 to 7: commit
 * ------------------------------------------------------------------------ */

typedef struct outputs {
    swi_txn *txn;
    uint64_t count;
    char *first; /* the path of the first file */
} outputs;

/* Whatever gets published went through steps 2 and 3. */
static sw_status check_output(void *ctx, const swi_entry *entry, sw_error *err)
{
    outputs *found = ctx;
    uint64_t bytes;
    swi_quoted room;
    if (strcmp(entry->path, SWI_JOURNAL_NAME) == 0)
        return SW_OK;
    if (!swi_journal_find(&found->txn->journal, entry->path, &bytes))
        return swi_fail(err, SW_ERR_ARG, "%s: was not finished before the commit",
                        swi_store_label(&room, found->txn->place.partial, entry->path));
    if (entry->bytes != bytes || entry->kind != SWI_ENTRY_FILE || entry->is_link)
        return swi_fail(err, SW_ERR_CONFLICT,
                        "%s: was finished with %" PRIu64 " bytes, now holds %" PRIu64
                        ": something else changed it",
                        swi_store_label(&room, found->txn->place.partial, entry->path), bytes,
                        entry->bytes);
    if (found->count++ > 0)
        return SW_OK;
    found->first = strdup(entry->path);
    return found->first != NULL ? SW_OK : swi_fail_nomem(err);
}

static sw_status remove_scratch(swi_txn *txn, sw_error *err)
{
    sw_status status = SW_OK;
    for (uint32_t i = 0; i < txn->scratch_count && status == SW_OK; i++) {
        char name[32];
        scratch_name(name, i);
        status = swi_store_remove(txn->store, name, err);
    }
    if (status == SW_OK)
        txn->scratch_count = 0;
    return status;
}

static sw_status sync_dirs(swi_txn *txn, const swi_tree *tree, sw_error *err)
{
    sw_status status = SW_OK;
    for (size_t i = tree->count; i > 0 && status == SW_OK; i--)
        status = swi_store_sync_dir(txn->store, tree->dirs[i - 1], err);
    return status;
}

/* What gets renamed, as a path from the parent: the partial folder or the one file in it. */
static sw_status name_output(swi_txn *txn, const outputs *found, sw_error *err)
{
    free(txn->from);
    txn->from = NULL;
    if (!txn->single_file)
        return swi_store_join(".", txn->place.partial_name, &txn->from, err);
    if (found->count == 1)
        return swi_store_join(txn->place.partial_name, found->first, &txn->from, err);
    return swi_fail(err, SW_ERR_ARG, "one file was to be published, %" PRIu64 " were made",
                    found->count);
}

/* Step 5. */
static sw_status make_ready(swi_txn *txn, sw_error *err)
{
    swi_tree tree = {0};
    outputs found = {.txn = txn};
    sw_status status = remove_scratch(txn, err);
    if (status == SW_OK)
        status = swi_tree_visit(&tree, txn->store, check_output, &found, err);
    if (status == SW_OK)
        status = name_output(txn, &found, err);
    if (status == SW_OK)
        status = swi_journal_remove(&txn->journal, err);
    if (status == SW_OK)
        status = sync_dirs(txn, &tree, err);
    free(found.first);
    swi_tree_free(&tree);
    return status;
}

static void take_back(swi_txn *txn)
{
    swi_place_undo(&txn->place, txn->from, txn->moved);
    txn->moved = SWI_MOVED_NOT;
}

static sw_status publish(swi_txn *txn, sw_error *err)
{
    sw_status status =
        swi_place_move(&txn->place, txn->from, txn->overwrite, &txn->moved, err); /* 6 */
    if (status != SW_OK)
        return status;
    status = swi_place_sync(&txn->place, err); /* 7 */
    if (status != SW_OK)
        take_back(txn);
    return status;
}

/* The output has its name; nothing here can take that back, so what fails is only remembered. */
static void clean_up(swi_txn *txn)
{
    sw_status status = SW_OK;
    const char *old = NULL;
    if (txn->moved == SWI_MOVED_EXCHANGED)
        old = txn->from;
    else if (txn->moved == SWI_MOVED_ASIDE)
        old = txn->place.old_name;
    if (old != NULL)
        status = swi_place_remove(&txn->place, old, NULL);
    if (status == SW_OK && txn->single_file) {
        status = swi_tree_clear(txn->store, NULL);
        if (status == SW_OK)
            status = swi_place_remove_partial(&txn->place, NULL);
        old = txn->place.partial_name;
    }
    if (status != SW_OK && old != NULL &&
        swi_store_join(txn->place.parent, old, &txn->leftover, NULL) != SW_OK)
        txn->leftover = NULL;
}

sw_status swi_txn_commit_all(swi_txn *const *txns, size_t count, sw_error *err)
{
    size_t ready = 0, published = 0;
    sw_status status = SW_OK;
    while (status == SW_OK && ready < count)
        status = make_ready(txns[ready++], err);
    while (status == SW_OK && published < count) {
        status = publish(txns[published], err);
        published += status == SW_OK;
    }
    if (status == SW_OK) {
        for (size_t i = 0; i < count; i++) {
            txns[i]->committed = true;
            clean_up(txns[i]);
        }
        return SW_OK;
    }
    while (published > 0)
        take_back(txns[--published]);
    /* Best effort, so that the next run resumes; without it that one starts anew. */
    for (size_t i = 0; i < ready; i++) {
        swi_txn *txn = txns[i];
        if (swi_journal_restore(&txn->journal, txn->id, NULL) != SW_OK)
            txn->resumed = 0;
    }
    return status;
}

sw_status swi_txn_commit(swi_txn *txn, sw_error *err)
{
    return swi_txn_commit_all(&txn, 1, err);
}

/* ---- end
 * ----------------------------------------------------------------------------------------- */

/* Not committed. Best effort: what stays is found by the next run. */
static void leave_partial(swi_txn *txn, bool keep)
{
    if (txn->place.dir_fd < 0)
        return; /* never had the lock: it is another's */
    if (keep && txn->journal.finished > 0)
        return;
    sw_status status = SW_OK;
    /* Without a journal we do not know what is in it: only an empty one goes. */
    if (txn->journal.paths != NULL)
        status = swi_tree_clear(txn->store, NULL);
    if (status == SW_OK)
        status = swi_place_remove_partial(&txn->place, NULL);
    (void)status;
}

void swi_txn_end(swi_txn *txn, bool keep)
{
    if (txn == NULL)
        return;
    if (!txn->committed)
        leave_partial(txn, keep);
    swi_journal_close(&txn->journal);
    swi_store_close(txn->store);
    swi_place_close(&txn->place);
    if (txn->has_lock)
        (void)pthread_mutex_destroy(&txn->lock);
    free(txn->from);
    free(txn->leftover);
    free(txn);
}
