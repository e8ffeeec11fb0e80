/*
 * A framework: how a kind of checkpoint is recognised, read and laid out. Adding one is one spec,
 * one file (or small folder) with one `const swi_framework`, one line in registry.c. Conformance
 * tests run over the registry.
 */
#ifndef SW_CONVERT_FRAMEWORK_H
#define SW_CONVERT_FRAMEWORK_H

#include "io/filecache.h"
#include "model/catalog.h"
#include "plan.h"
#include "shardwright_convert.h"

/* ---- a folder as it lies ------------------------------------------------------------------ */

typedef struct swi_listing_entry {
    const char *name; /* in the folder: no '/' */
    swi_entry_kind kind;
    bool is_link;
    uint64_t bytes;
    int64_t mtime_ns;
} swi_listing_entry;

/* One level of a folder, sorted by name; or the one entry called `only` (NULL: all). */
typedef struct swi_listing swi_listing;

SW_MUST_USE sw_status swi_listing_make(const swi_store *store, const char *only,
                                       const sw_limits *limits, swi_listing **out, sw_error *err);
void swi_listing_free(swi_listing *listing);
size_t swi_listing_count(const swi_listing *listing);
const swi_listing_entry *swi_listing_at(const swi_listing *listing, size_t i);
const swi_listing_entry *swi_listing_find(const swi_listing *listing, const char *name);
bool swi_has_suffix(const char *name, const char *suffix);

/* ---- reading ------------------------------------------------------------------------------ */

/* What a reader is given and fills. */
typedef struct swi_opening {
    swi_store *store; /* the folder */
    const swi_listing *listing;
    sw_limits limits; /* resolved */
    swi_builder *builder;
    sw_report *report;         /* may be NULL */
    sw_checkpoint *checkpoint; /* where sections and facts go */
    const char *map, *config;  /* what the caller named for it; or NULL */
    const char *shapes;        /* likewise */
    const void *given;         /* swi_checkpoint_open_given; or NULL */
    bool proven;    /* set: the catalog is made of such as were proven, their findings are said */
    bool ambiguous; /* set with SW_ERR_CONFLICT: which of several checkpoints is meant? */
} swi_opening;

/*
 * Notes where in the saved state dict a tensor lay: its section ("model", "optimizer"; "" at the
 * top) and its name there. Tensors without a note have section "" and their own name. Copied.
 */
SW_MUST_USE sw_status swi_opening_section(swi_opening *o, uint32_t tensor, const char *section,
                                          const char *name, sw_error *err);
/*
 * Notes that a tensor is a row (flat/rows.h): the parameters of the wrapped module `unit` (its name
 * in the model, "" for the root) one behind the other, or a state of them in an optimizer. NULL:
 * the number that the optimizer has for it tells which; then it may also be one parameter,
 * flattened. `shards`: so many ranks share it. What is in it comes from elsewhere
 * (flat/unflatten.h).
 */
SW_MUST_USE sw_status swi_opening_row(swi_opening *o, uint32_t tensor, const char *unit,
                                      uint64_t shards, sw_error *err);
/* Notes that elements [at, at + elements) of that row are some of the parameter of this name. */
SW_MUST_USE sw_status swi_opening_row_slice(swi_opening *o, uint32_t tensor, const char *name,
                                            uint64_t at, uint64_t elements, sw_error *err);
/* Notes that reading the metadata took at most so much memory for a time; the largest counts. */
void swi_opening_memory(swi_opening *o, uint64_t bytes);
/* Says that there may be tensors of which nothing in the catalog tells: a part is missing. */
void swi_opening_incomplete(swi_opening *o);
/* Says that a tensor of the model is a value here: what holds weights alone is without it. */
void swi_opening_opaque(swi_opening *o);
/* A short fact for inspect. */
SW_MUST_USE sw_status swi_opening_fact(swi_opening *o, const char *key, sw_error *err,
                                       const char *fmt, ...) SW_PRINTF(4, 5);

/*
 * Keeps what the framework's `state` needs beside the catalog; it is freed with the checkpoint, and
 * by this call if another was kept before. Takes ownership at once.
 */
void swi_opening_keep(swi_opening *o, void *data, void (*free_data)(void *data));

/*
 * Opens what lies at `name` in this folder ("": in the folder itself) as a part of the checkpoint
 * that is being opened: by any framework that does not itself put parts together. Findings go to
 * `report`, with paths as the part has them. Flattened parameters stay as they are.
 */
SW_MUST_USE sw_status swi_checkpoint_open_part(const swi_opening *o, const char *name,
                                               sw_report *report, sw_checkpoint **out,
                                               sw_error *err);
/*
 * Takes over what the part noted: sections (below `section`; "": as they are), rows and slices of
 * its tensors, which are those from `first_tensor` on here; memory, and what is missing.
 */
SW_MUST_USE sw_status swi_opening_adopt(swi_opening *o, const sw_checkpoint *part,
                                        uint32_t first_tensor, const char *section, sw_error *err);

typedef enum swi_claim {
    SWI_CLAIM_NONE = 0,
    SWI_CLAIM_LOOSE, /* files that are one if nothing else is, here or one level below */
    SWI_CLAIM_PART,  /* remains of one: recognised, something essential is missing */
    SWI_CLAIM_WHOLE,
    SWI_CLAIM_TOGETHER /* several that are parts of one, whoever else claims them by themselves */
} swi_claim;

/* ---- writing ------------------------------------------------------------------------------ */

/* One destination tensor, decided by selection: what to take and how to call it. */
typedef struct swi_chosen {
    uint32_t source; /* tensor of the source catalog */
    const char *name;
    sw_dtype dtype; /* to be written as */
    int64_t scale;  /* tensor that its elements are multiplied by on the way; -1: none */
} swi_chosen;

struct swi_state;
struct swi_model;
struct swi_rules;
struct swi_target;

/* One leaf of the saved state dict (state.h) that goes into the destination. */
typedef struct swi_state_part {
    const char *name;        /* its path, joined by dots */
    const char *const *path; /* positions in lists as "#0" */
    size_t parts;
    sw_value value;           /* in the state's graph */
    const swi_chosen *tensor; /* NULL: it is none */
} swi_state_part;

typedef struct swi_target_in {
    const sw_checkpoint *source;
    /* Distinct names; for weights in natural order, else in that of the leaves. */
    const swi_chosen *chosen;
    size_t count;
    const struct swi_state *state; /* NULL for weights; all of it, whatever was left out */
    const swi_state_part *leaves;  /* in the order of the state dict */
    size_t leaf_count;
    const struct swi_assets *assets; /* files to go beside the tensors */
    const struct swi_model *model;   /* of the tensors, which are those of its side; NULL: none */
    size_t side;
    const struct swi_rules *rules;   /* how ranks divide tensors: that of --layout; NULL: none */
    const struct swi_target *target; /* what --to says; its options are these: */
    const char *options;             /* behind "hf:", without what is common; or "" */
    const sw_convert_options *convert;
    sw_limits limits;
    sw_report *report;
} swi_target_in;

/* What a target's layout is given. */
typedef enum swi_takes {
    SWI_TAKES_WEIGHTS = 0, /* the tensors of the model */
    SWI_TAKES_STATE        /* the whole state dict: model, optimizer, values */
} swi_takes;

/* How a target has the optimizers of the state dict (optimizer.h); model names go with them. */
typedef enum swi_opt_form {
    SWI_FORM_KEEP = 0, /* "keep": as found, names too */
    SWI_FORM_NAMES,    /* parameters by name; nested, or flattened where that was found */
    SWI_FORM_NESTED,   /* "nested" */
    SWI_FORM_FLAT,     /* "flat" */
    SWI_FORM_IDS       /* "ids": numbers, as torch's Optimizer.state_dict() */
} swi_opt_form;
#define SWI_FORM_BIT(form) (1U << (form))

/* What a target may make something else of before anything of it is chosen. */
typedef struct swi_reshape_in {
    const sw_checkpoint *checkpoint; /* or what a map derived from it; the tensors of the state */
    const struct swi_target *target; /* what --to says */
    const struct swi_rules *rules;   /* that of --layout; NULL: none */
    const struct swi_model *model;   /* whose side's names the tensors have; NULL: not known */
    size_t side;
    bool mapped;             /* a map has given them these names */
    bool without_optimizers; /* none is written */
    bool lenient;            /* perhaps none is: what cannot be taken apart stays as it is */
    const sw_convert_options *convert;
    sw_limits limits;
    sw_report *report;
} swi_reshape_in;

struct swi_vouched;
struct swi_held_ops;

/* What verifying gives a framework to work with. */
typedef struct swi_audit_in {
    const sw_checkpoint *checkpoint;
    const sw_work_options *work;
    sw_report *report;
    struct swi_vouched *vouched; /* check/vouched.h: what was compared is noted here */
} swi_audit_in;

typedef struct swi_framework {
    const char *name, *title;
    const char *alias;  /* another name that it has as a target, or NULL */
    const char *target; /* how it is asked for: "hf[:shard=5GB]" */
    swi_takes takes;
    /* Of a target that takes the state dict: the forms that optimizer= may ask for (bits; 0: the
     * option is not known), the usual one, and that of the alias. */
    unsigned optimizer_forms;
    swi_opt_form optimizer_form, alias_form;
    /* The side of maps whose names, shapes and divisions its files have; NULL: any names. As a
     * target it is given a model then. */
    const char *side;
    /* The side whose names readers of such files expect, where a map knows the model; or NULL. */
    const char *usual_side;
    /*
     * By names, and by the first bytes of files where names do not tell. Fails on NOMEM, and on I/O
     * where nothing can be told without the file.
     */
    sw_status (*claim)(const swi_store *store, const swi_listing *listing, swi_claim *out,
                       sw_error *err);
    sw_status (*open)(swi_opening *o, sw_error *err);
    /*
     * Verifies what no blob of the catalog covers, at the digest level: bytes between blobs, files
     * that an index lists, files of the folder that none lists. Each defect is a finding with the
     * file; what was compared and right is noted with swi_vouched_add (bytes that the blobs cover
     * are not), opening's comparisons included. Fails only when it could not work. NULL: nothing
     * vouches for more than the blobs do.
     */
    sw_status (*audit)(const swi_audit_in *in, sw_error *err);
    /* The saved state dict (state.h). NULL: one dict from names to tensors. */
    sw_status (*state)(const sw_checkpoint *checkpoint, struct swi_state *out, sw_error *err);
    /* How the ranks that saved it hold its tensors (source/held.h). NULL: it does not tell. */
    const struct swi_held_ops *held;
    /* Value i of the catalog, where values are no blobs of their own; NULL: they are. */
    sw_status (*value)(const sw_checkpoint *checkpoint, size_t i, sw_value_graph **graph,
                       sw_value *root, sw_error *err);
    /*
     * What its options make of a target (target/target.h): one file or a folder, who reads it, the
     * usual form of optimizers. Judges them: SW_ERR_ARG. NULL: the table says it all.
     */
    sw_status (*choose)(struct swi_target *target, sw_error *err);
    /*
     * Of a target that takes the state dict: makes of it what is written. Changes `state`, whose
     * tensors are then those of *out, which is derived from in->checkpoint; NULL there: of that.
     * NULL: nothing is changed.
     */
    sw_status (*reshape)(const swi_reshape_in *in, struct swi_state *state, sw_checkpoint **out,
                         sw_error *err);
    /* NULL: not a target. Whether it holds optimizer state, and values. */
    sw_status (*layout)(const swi_target_in *in, swi_layout *layout, sw_error *err);
    bool holds_optimizer, holds_values;
    bool divides;     /* its ranks hold parts of tensors: a layout may say which */
    bool holds_terms; /* tensors whose terms are not added up too (swi_held.partial) */
    bool wraps;       /* of a layout it wants the wrapped modules (units), and no rules */
    bool one_file;    /* what it lays out is published as one file, not as a folder */
    const struct swi_framework *reader; /* that reads what it lays out; NULL: itself */
} swi_framework;

size_t swi_framework_count(void);
const swi_framework *swi_framework_at(size_t i);
const swi_framework *swi_framework_find(const char *name, size_t size);
/* Whether this is the framework's alias, not its name. */
bool swi_framework_is_alias(const swi_framework *framework, const char *name, size_t size);

/* ---- an open checkpoint, for the rest of convert/ ------------------------------------------ */

/* As sw_checkpoint_open; *recognised: what lies there is a known kind, whatever failed then. */
SW_MUST_USE sw_status swi_checkpoint_open(const char *path, const sw_open_options *options,
                                          sw_report *report, bool *recognised, sw_checkpoint **out,
                                          sw_error *err);
/*
 * What lies in no file: the framework's `open` makes a catalog of `given`, whose files are those of
 * the store. Takes the store, whatever comes of it; `given` must outlive the checkpoint. `root` is
 * what messages call it.
 */
SW_MUST_USE sw_status swi_checkpoint_open_given(const swi_framework *framework, swi_store *store,
                                                const void *given, const sw_limits *limits,
                                                sw_report *report, sw_checkpoint **out,
                                                sw_error *err);
/* What it was opened from, or NULL. */
const void *swi_checkpoint_given(const sw_checkpoint *checkpoint);
/*
 * The same checkpoint with another catalog, whose files, blobs and values are the same and whose
 * first tensors are those of `base` (a map adds tensors). Takes the catalog, whatever comes of it;
 * borrows the rest from `base`. Close it like any other.
 */
SW_MUST_USE sw_status swi_checkpoint_derive(const sw_checkpoint *base, sw_catalog *catalog,
                                            sw_checkpoint **out, sw_error *err);
/* What undid its rows (flat/unflatten.h); NULL: it had none, or nothing tells what is in them. */
const struct swi_unflat *swi_checkpoint_unflat(const sw_checkpoint *checkpoint);
/* Of which rows nothing tells what is in them. */
typedef enum swi_rows_left {
    SWI_ROWS_NONE = 0,
    SWI_ROWS_OF_OPTIMIZERS, /* of those alone: the model has none, or none any more */
    SWI_ROWS_OF_MODEL
} swi_rows_left;
swi_rows_left swi_checkpoint_rows_left(const sw_checkpoint *checkpoint);
/* How many of its tensors, the first ones, are the checkpoint's own and not made by a map. */
uint32_t swi_checkpoint_own_tensors(const sw_checkpoint *checkpoint);
/* The most that opening took for a time (see swi_opening_memory). */
uint64_t swi_checkpoint_open_memory(const sw_checkpoint *checkpoint);
swi_source swi_checkpoint_source(const sw_checkpoint *checkpoint);
void swi_checkpoint_set_scratch(const sw_checkpoint *checkpoint, swi_file *scratch);
const swi_framework *swi_checkpoint_framework(const sw_checkpoint *checkpoint);
/* What swi_opening_keep kept, or NULL. */
void *swi_checkpoint_kept(const sw_checkpoint *checkpoint);
/* Resolved. */
sw_limits swi_checkpoint_limits(const sw_checkpoint *checkpoint);
bool swi_checkpoint_incomplete(const sw_checkpoint *checkpoint);
bool swi_checkpoint_opaque(const sw_checkpoint *checkpoint);
const swi_store *swi_checkpoint_store(const sw_checkpoint *checkpoint);
const swi_listing *swi_checkpoint_listing(const sw_checkpoint *checkpoint);
/* Whether it is one file by itself, and what lies beside it is none of its business. */
bool swi_checkpoint_alone(const sw_checkpoint *checkpoint);

#endif
