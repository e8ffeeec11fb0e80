#include <string.h>

#include "cli.h"

#define ADVICE_MAX 3

typedef struct advice {
    const char *codes; /* each between blanks */
    const char *text;
} advice;

/* What to do about each code of a defect or danger; specs/cli.md has the codes. */
static const advice all[] = {
    {" unsafe-pickle ",
     "do not load it with Python, ask its author for a clean copy; a value beside the tensors is "
     "left behind by convert --drop-unsafe"},
    {" unsafe unsafe-checkpoint ",
     "somebody made it to do harm, or a tool broke it: do not load it, ask its author for a clean "
     "copy"},
    {" missing-file missing-rank ",
     "fetch the file from the node or bucket where it was written; nothing else brings it back"},
    {" short-file long-file unreadable-file bad-archive bad-item bad-tensor malformed corrupt ",
     "copy the file again from where it was written; if it is the same there, take the step "
     "before"},
    {" crc-mismatch chunk-mismatch undecodable ",
     "copy the file again: its bytes changed after the save; if the original is the same, take "
     "the step before, and test disk and memory"},
    {" wrong-rank ", "files changed places: give each the name of the rank that saved it, or copy "
                     "the folder again"},
    {" flat-parameters ",
     "give --config the model's config.json, or --shapes a torch state dict of it "
     "(specs/shapes.md)"},
    {" duplicate-rank other-world ",
     "files of two saves lie in one folder: keep those of one of them"},
    {" missing-item orphan-item missing-tensor unlisted-tensor conflict alias overlap outside ",
     "index and files do not belong together: copy the whole folder again, else take the step "
     "before"},
    {" incomplete ",
     "name what is missing if an option for it is told, else fetch it from the node that wrote it; "
     "if no node has it the save was never finished: take the step before"},
    {" hole ",
     "see whether a rank's file is missing (verify --json lists all); else it was never written: "
     "take the step before"},
    {" unknown-tensor bad-shape ",
     "the files are of another model than the configuration: name the right one with --config, or "
     "a map of your own with --map"},
    {" duplicate-tensor mixed-files unlisted-file ",
     "files of two saves lie in one folder: keep those of one of them"},
    {" replicas-differ ",
     "nothing tells which copy is right: take another step, or convert without it (--drop)"},
    {" digest-mismatch digest-missing digest-unlisted ",
     "it is not what was listed: see what changed with shardwright diff, and copy it again; if the "
     "change was meant, write a new list with shardwright hash"},
    {" signature-mismatch signature-missing signature-unlisted signature-values ",
     "it is not what was signed: fetch it again from who signed it; if the change was meant, sign "
     "it anew with shardwright sign"},
    {" signature-key signature-bad signature-malformed signature-other ",
     "the signature does not vouch for this checkpoint: get signature and public key from who "
     "signed it, the key by another way than the checkpoint"},
    {" map-missing ",
     "if files are missing fetch them; else it was saved from a part of the ranks (experts, "
     "stages): "
     "convert the checkpoint that all of them wrote, or see whether it is the right configuration"},
    {" map-unknown ",
     "see whether it is the right configuration or map; names that a wrapper or tool changed are "
     "mended when it is written again (convert --strip-prefix, --add-prefix, --drop)"},
    {" map-lost ",
     "leave them out with --drop, or give a map that says what the side calls them (--map FILE)"},
    {" map-shape ",
     "where these are values of one rank, convert the checkpoint that all ranks wrote; else see "
     "whether it is the configuration of this model"},
    {" tied-differ ",
     "one of the two is stale and nothing tells which: take the step before, or keep both with "
     "convert --untie"},
    {" unknown-transform ", "save it again without that transform: only its writer can undo it"},
    {" unproven ", "no framework is known to leave pieces like that: take the step before"},
    {" untrusted ", "it is of another save, rank or signer: copy the whole folder again from where "
                    "it was written; "
                    "if it was signed, ask whoever signed it"},
    {" limit ",
     "it asks for more than any genuine checkpoint is known to need: do not trust it; if it is "
     "yours, report it"},
    {" incomplete-checkpoint ",
     "take the newest complete one; verify that checkpoint alone lists all that is wrong with it"},
    {" pointer-missing pointer-incomplete pointer-behind ",
     "name the newest complete one yourself when you resume; nothing was written to the pointer"},
};

const char *advice_of(const char *code)
{
    size_t size = strlen(code);
    for (size_t i = 0; size > 0 && i < sizeof all / sizeof all[0]; i++)
        for (const char *p = strstr(all[i].codes, code); p != NULL; p = strstr(p + 1, code))
            if (p > all[i].codes && p[-1] == ' ' && p[size] == ' ')
                return all[i].text;
    return NULL;
}

/* What these clauses rule (of optimizers, the notation, rows, shapes and signatures) are no files
 * of a checkpoint, and their errors say what to do themselves. */
static bool is_own_advice(const char *clause)
{
    static const char *const prefixes[] = {"OPT-", "NT-",  "LAY-", "MAP-",
                                           "FS-",  "SHP-", "SIG-", "OMS-"};
    bool is = false;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        is = is || strncmp(clause, prefixes[i], strlen(prefixes[i])) == 0;
    return is;
}

/* Of an error that cites a clause: a file breaks a rule of its format. */
static const char *advice_of_error(const sw_error *err)
{
    static const char *const codes[] = {
        [SW_ERR_FORMAT] = "malformed",      [SW_ERR_CORRUPT] = "corrupt",
        [SW_ERR_INCOMPLETE] = "incomplete", [SW_ERR_CONFLICT] = "conflict",
        [SW_ERR_UNSAFE] = "unsafe",         [SW_ERR_LIMIT] = "limit",
    };
    size_t status = (size_t)err->status;
    if (err->clause[0] == '\0' || is_own_advice(err->clause) ||
        status >= sizeof codes / sizeof codes[0] || !codes[status])
        return NULL;
    return advice_of(codes[status]);
}

void show_advice(const common *c, const sw_report *report, const sw_error *err, FILE *to)
{
    const char *said[ADVICE_MAX];
    size_t count = 0;
    for (size_t i = 0; !c->quiet && i < sw_report_count(report) && count < ADVICE_MAX; i++) {
        const sw_finding *f = sw_report_at(report, i);
        const char *text = f->severity >= SW_DEFECT ? advice_of(f->code) : NULL;
        bool again = text == NULL;
        for (size_t k = 0; !again && k < count; k++)
            again = said[k] == text;
        if (again)
            continue;
        said[count++] = text;
        fprintf(to, "next: %s: %s\n", f->code, text);
    }
    const char *text = count == 0 && !c->quiet && err != NULL ? advice_of_error(err) : NULL;
    if (text != NULL)
        fprintf(to, "next: %s\n", text);
}
