/* Holding a checkpoint against a list of digests (specs/digest.md, DIG-13). */
#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "base/text.h"
#include "check/hash.h"

typedef struct checking {
    const swi_digest_list *list;
    swi_digest_list found, damaged;
    sw_report *report;
    sw_verify_summary *sum;
} checking;

static sw_status say(const checking *k, const char *code, sw_status status, const char *name,
                     const char *message, sw_error *err)
{
    const swi_finding_in in = {
        .severity = SW_DEFECT, .status = status, .code = code, .tensor = name};
    return swi_report_add(k->report, &in, err, "%s", message);
}

static sw_status say_mismatch(const checking *k, const swi_digest_entry *listed,
                              const swi_digest_entry *found, sw_error *err)
{
    char want[SWI_DIGEST_TEXT], got[SWI_DIGEST_TEXT];
    const swi_finding_in in = {.severity = SW_DEFECT,
                               .status = SW_ERR_UNTRUSTED,
                               .code = "digest-mismatch",
                               .tensor = listed->name};
    swi_digest_text(&listed->digest, want);
    swi_digest_text(&found->digest, got);
    return swi_report_add(k->report, &in, err,
                          "its values, type or shape are not those of the digest list: %s here, "
                          "%s there",
                          got, want);
}

static sw_status check_listed(const checking *k, const swi_digest_entry *listed, sw_error *err)
{
    const swi_digest_entry *found = swi_digest_list_find(&k->found, listed->name);
    if (found == NULL && swi_digest_list_find(&k->damaged, listed->name) != NULL)
        return say(k, "digest-mismatch", SW_ERR_UNTRUSTED, listed->name,
                   "the digest list has it, and it is damaged here", err);
    if (found == NULL)
        return say(k, "digest-missing", SW_ERR_INCOMPLETE, listed->name,
                   "the digest list has it, the checkpoint has not", err);
    if (memcmp(&found->digest, &listed->digest, sizeof found->digest) != 0)
        return say_mismatch(k, listed, found, err);
    k->sum->matched_tensors++;
    return SW_OK;
}

static sw_status check_unlisted(const checking *k, const swi_digest_list *here, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; i < here->count && st == SW_OK; i++) {
        if (swi_digest_list_find(k->list, here->items[i].name) == NULL)
            st = say(k, "digest-unlisted", SW_ERR_UNTRUSTED, here->items[i].name,
                     "the checkpoint has it, the digest list has not", err);
    }
    return st;
}

static bool any_is_here(const checking *k)
{
    for (size_t i = 0; i < k->list->count; i++) {
        const char *name = k->list->items[i].name;
        if (swi_digest_list_find(&k->found, name) || swi_digest_list_find(&k->damaged, name))
            return true;
    }
    return false;
}

sw_status swi_digests_check(const sw_checkpoint *checkpoint, const swi_digest_list *list,
                            const sw_verify_options *options, sw_report *report,
                            sw_verify_summary *summary, sw_error *err)
{
    const swi_hash_in in = {
        .weights = list->weights, .section = options->section, .only = list->only, .as = list->as};
    checking k = {.list = list, .report = report, .sum = summary};
    sw_error cause = {0};
    summary->listed_tensors = list->count;
    sw_status st =
        swi_hash(checkpoint, &in, &options->work, NULL, &k.found, &k.damaged, NULL, &cause);
    if (st != SW_OK && st != SW_ERR_ARG && st != SW_ERR_NOTFOUND) {
        if (err != NULL)
            *err = cause;
        return st;
    }
    summary->nothing_listed = !any_is_here(&k);
    st = SW_OK;
    for (size_t i = 0; i < list->count && !summary->nothing_listed && st == SW_OK; i++)
        st = check_listed(&k, &list->items[i], err);
    if (st == SW_OK && !summary->nothing_listed)
        st = check_unlisted(&k, &k.found, err);
    if (st == SW_OK && !summary->nothing_listed)
        st = check_unlisted(&k, &k.damaged, err);
    swi_digest_list_free(&k.found);
    swi_digest_list_free(&k.damaged);
    return st;
}
