/*
 * Shardwright: frameworks. Opening, verifying and converting checkpoints of any known kind.
 *
 * All paths are local paths of directories or files. Nothing here prints, exits or keeps state
 * between calls. The source of a conversion is never written.
 */
#ifndef SHARDWRIGHT_CONVERT_H
#define SHARDWRIGHT_CONVERT_H

#include "shardwright_format.h"
#include "shardwright_reshard.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what is known ------------------------------------------------------------------------ */

typedef struct sw_framework_info {
    const char *name;  /* "dcp", "hf": what --from and --to take */
    const char *title; /* for people */
    bool reads, writes;
    bool one_file;      /* as a target without options it is a file, not a folder */
    const char *reader; /* the name of the framework that reads what is written so; or its own */
} sw_framework_info;

SW_API size_t sw_framework_count(void);
SW_API bool sw_framework_at(size_t i, sw_framework_info *out);

/* ---- opening ------------------------------------------------------------------------------ */

/* A checkpoint that was opened for reading: its catalog, and its files. Shared by threads. */
typedef struct sw_checkpoint sw_checkpoint;

typedef struct sw_open_options {
    const char *from;        /* a framework's name; NULL: detected by content */
    const char *map;         /* a map (specs/notation.md): name of a known one, or file; NULL */
    const char *config;      /* the model's configuration, or a folder with it; NULL: where it is */
    const char *shapes;      /* what flat parameters are made of (specs/shapes.md): a torch state
                                dict, a configuration, or a YAML document; NULL: where it is */
    const char *param_names; /* file with names for optimizers that number their parameters, where
                                flat states need them (sw_convert_options); NULL: none */
    const sw_limits *limits; /* NULL: defaults */
} sw_open_options;

/*
 * Detects what lies at `path` (a folder, or a file of it; one level too high or too low is found
 * and reported) and reads its metadata, no tensor bytes. Defects that leave something readable are
 * findings of `report`, with the tensors they touch marked; others are the error: NOTFOUND,
 * FORMAT (not a checkpoint of a known kind), CONFLICT (several kinds or several models: named),
 * INCOMPLETE, CORRUPT, UNSAFE, UNSUPPORTED, LIMIT, IO, NOMEM. `options` and `report` may be NULL.
 */
SW_API SW_MUST_USE sw_status sw_checkpoint_open(const char *path, const sw_open_options *options,
                                                sw_report *report, sw_checkpoint **out,
                                                sw_error *err);
SW_API void sw_checkpoint_close(sw_checkpoint *checkpoint);
SW_API const sw_catalog *sw_checkpoint_catalog(const sw_checkpoint *checkpoint);
SW_API const char *sw_checkpoint_framework(const sw_checkpoint *checkpoint);
/* For people: "PyTorch distributed checkpoint (DCP)". */
SW_API const char *sw_checkpoint_title(const sw_checkpoint *checkpoint);
/* The folder that was read, which may differ from the path that was given. */
SW_API const char *sw_checkpoint_root(const sw_checkpoint *checkpoint);
/* Short facts for people and machines ("version" "1.0.0"; "ranks" "4"); NULL past the end. */
SW_API bool sw_checkpoint_fact(const sw_checkpoint *checkpoint, size_t i, const char **key,
                               const char **value);
/* Reads value i of the catalog. The graph is the caller's. */
SW_API SW_MUST_USE sw_status sw_checkpoint_value(const sw_checkpoint *checkpoint, size_t i,
                                                 sw_value_graph **graph, sw_value *root,
                                                 sw_error *err);
/*
 * Elements [lo, hi) of the flattened tensor i, dense row-major, little-endian, into `out` of
 * (hi - lo) x element size bytes.
 */
SW_API SW_MUST_USE sw_status sw_checkpoint_read(const sw_checkpoint *checkpoint, size_t tensor,
                                                uint64_t lo, uint64_t hi, void *out, sw_error *err);

/*
 * A box of a tensor, and where it goes. Set all of it to zero first, then struct_bytes to
 * sizeof(sw_region): later versions may add members behind these, for which zero means what is done
 * now.
 */
typedef struct sw_region {
    size_t struct_bytes;
    const char *tensor; /* its full name, as in the catalog */
    sw_dtype dtype;     /* what its elements are taken for; SW_DTYPE_NONE: whatever they are */
    uint32_t axes;      /* those of the tensor */
    int64_t offset[SW_MAX_AXES]; /* in elements, by axis, slowest first */
    int64_t length[SW_MAX_AXES];
    void *out;          /* the caller's, for the first element; may be NULL when there is none */
    uint64_t out_bytes; /* what may be written from there on */
    bool strided;       /* stride_bytes says where elements go; else row-major, without gaps */
    int64_t stride_bytes[SW_MAX_AXES]; /* from an element to the next one of an axis, not negative;
                                          what lies between elements is left alone */
} sw_region;

/*
 * Regions of any tensors of the checkpoint, native or foreign, into memory: elements in the types
 * that they have there, little-endian. Only what holds them is read, in the order of files, by the
 * threads and in the memory of `work`; every CRC and digest of what passes whole is compared on the
 * way (a native chunk always does), and *tally (added to) says how much was and was not.
 *
 * `regions` are count structs that follow one another, all of the same struct_bytes; their memory
 * may not overlap. Nothing is read unless all of them can be: ARG (outside of the tensor, another
 * dtype or number of axes, elements that overlap or do not fit in out_bytes), NOTFOUND (no such
 * tensor), a tensor's defect (INCOMPLETE, CORRUPT, CONFLICT, UNSUPPORTED where it holds terms that
 * are not added up). Then IO, CORRUPT (also a finding of `report`), CANCELED, NOMEM, LIMIT; errors
 * name the tensor, as "NAME[0:2, 8:16]". After a failure the memory of the regions holds anything.
 * Any number of calls may run at once on one checkpoint. work, report and tally may be NULL.
 */
SW_API SW_MUST_USE sw_status sw_load(const sw_checkpoint *checkpoint, const sw_region *regions,
                                     size_t count, const sw_work_options *work, sw_report *report,
                                     sw_tally *tally, sw_error *err);

/* The part of the checkpoint that a tensor belongs to: section "model", name in the module. */
SW_API void sw_checkpoint_split_name(const sw_checkpoint *checkpoint, size_t tensor,
                                     const char **section, const char **name);

/*
 * The layout that the pieces of the model's tensors have, as a document of specs/notation.md
 * (LAY-8): the simplest that gives exactly these boxes to the ranks that wrote them. *untold:
 * tensors of which no rule tells; they are named in comments. Free *text with free().
 */
SW_API SW_MUST_USE sw_status sw_checkpoint_layout(const sw_checkpoint *checkpoint, char **text,
                                                  size_t *untold, sw_error *err);

/*
 * The names, sizes and order of the model's parameters, as a document of specs/shapes.md (SHP-10)
 * for sw_open_options.shapes: in the order of the saved state dict, else by the map and the
 * configuration that `options` (may be NULL) names or that lie there. SW_ERR_UNSUPPORTED: neither
 * tells an order. Free *text with free().
 */
SW_API SW_MUST_USE sw_status sw_checkpoint_shapes(const sw_checkpoint *checkpoint,
                                                  const sw_open_options *options, char **text,
                                                  sw_error *err);

/* ---- signatures (specs/signing.md) ---------------------------------------------------------- */

typedef enum sw_signature_format {
    SW_SIGNATURE_SHARDWRIGHT = 1, /* of what a checkpoint holds: stays right after a reshard */
    SW_SIGNATURE_OMS /* of files: an OpenSSF Model Signing bundle, key method, `files` */
} sw_signature_format;

typedef struct sw_sign_options {
    const char *key;             /* PEM file with the private key; needed */
    const char *passphrase_file; /* its first line opens the key; NULL: it is not encrypted */
    sw_signature_format format;  /* 0: SW_SIGNATURE_SHARDWRIGHT */
    const char *out; /* NULL: `checkpoint.sig` in the folder, `model.sig` for OMS; PATH.sig
                        where PATH is a file */
    bool overwrite;  /* a signature that is there */
    sw_open_options open;
    sw_work_options work;
} sw_sign_options;

typedef struct sw_sign_summary {
    char out[1024]; /* the file that was written */
    char key[16];   /* "ed25519", "p-256", "p-384", "p-521" */
    char hint[65];  /* SHA-256 of the public key as PEM */
    char root[65];  /* of what is signed: of the list of tensors, or of the list of files */
    uint64_t files; /* signed one by one (OMS) */
    uint64_t tensors;
    uint64_t bytes; /* that were hashed */
} sw_sign_summary;

/*
 * Signs the checkpoint at `path`, for OMS whatever files lie there. The signature appears whole or
 * not at all. SW_ERR_EXISTS; SW_ERR_UNSUPPORTED: a kind of key that is not known or that the format
 * does not have; SW_ERR_UNSAFE: of OMS, a link among the files; what keeps a checkpoint from being
 * hashed; any defect that opening it finds (verify looks deeper). `report` and `out` may be NULL.
 */
SW_API SW_MUST_USE sw_status sw_sign(const char *path, const sw_sign_options *options,
                                     sw_report *report, sw_sign_summary *out, sw_error *err);

typedef enum sw_signed {
    SW_SIGNED_NOT = 0, /* findings say why */
    SW_SIGNED_FILES,   /* it is made of the very files that were signed */
    SW_SIGNED_CONTENT  /* it holds what was signed, in whatever files */
} sw_signed;

/* What came of a signature. */
typedef struct sw_signature_summary {
    sw_signature_format format; /* 0: none was asked for, or it could not be read */
    char key[16];               /* as in sw_sign_summary, of the key that was given */
    char hint[65];
    char name[256]; /* what was signed was called so; escaped */
    sw_signed verdict;
    uint64_t files, matched_files;     /* that are listed one by one (or their shards) */
    uint64_t tensors, matched_tensors; /* likewise */
    uint64_t bytes;                    /* that were hashed for it */
} sw_signature_summary;

/* ---- verifying ---------------------------------------------------------------------------- */

typedef enum sw_level {
    SW_LEVEL_STRUCTURE = 1, /* metadata parses; files exist and are long enough */
    SW_LEVEL_COVERAGE,      /* and every element of every tensor is there once */
    SW_LEVEL_DIGEST,        /* and every CRC and digest that the files carry is right */
    SW_LEVEL_VALUES         /* and what the values show: NaN, constants, duplicates */
} sw_level;

/*
 * What became of the bytes of one file of a checkpoint, each counted once; the path is in its
 * folder, and borrowed for the call.
 */
typedef struct sw_verify_file {
    const char *path;
    uint64_t bytes;
    uint64_t checked;   /* held against a CRC or digest */
    uint64_t differing; /* held against one that is another: findings tell of them */
    uint64_t without;   /* of tensors and values: read, and they carry none */
    uint64_t left_out;  /* not read: the level, `tensors` or `part` leaves them out */
    uint64_t other;     /* of no tensor and no value, and nothing vouches for them */
} sw_verify_file;
typedef void (*sw_verify_file_fn)(void *ctx, const sw_verify_file *file);

typedef struct sw_verify_options {
    sw_level level;             /* 0: SW_LEVEL_DIGEST */
    const char *const *tensors; /* globs of tensor names, NULL-terminated: only these are read and
                                   compared, and nothing beside them; NULL: all */
    /*
     * Part `part` (1 to `parts`) of the reading alone: all parts together read every record of
     * every file once, whatever machine or night they are run in. What lies in no tensor and no
     * value is read by the first. 0: all of it. Neither this nor `tensors` goes with `digests` or
     * `signature`.
     */
    uint64_t part, parts;
    sw_verify_file_fn on_file; /* called for each file at the end; may be NULL */
    void *file_ctx;
    sw_open_options open;
    sw_work_options work;
    const char *digests; /* a digest list to hold it against, whatever the level; or NULL */
    const char
        *section; /* for a list of weights, and for a model: the part that is it; NULL: found */
    const char *signature; /* a signature to hold it against, whatever the level; or NULL */
    const char *key;       /* PEM file with the public key that it must be made with */
    /* With open.config or open.map the tensors are held against that model, whatever the level;
     * from SW_LEVEL_DIGEST on, what is tied is compared. */
} sw_verify_options;

/* What no CRC and no digest vouches for after a run of verify. */
typedef struct sw_not_checked {
    uint64_t tensors, values; /* all or some of which */
    uint64_t bytes;
} sw_not_checked;

typedef struct sw_verify_summary {
    char framework[32];
    char root[1024];
    uint64_t tensors, pieces, values, files;
    uint64_t tensor_bytes;
    bool has_step; /* it tells of which step of the run it is: */
    uint64_t step;
    sw_tally tally;          /* read, checked, unchecked */
    bool nothing_to_check;   /* the digest level found no CRC or digest at all */
    uint64_t chosen_tensors; /* that options.tensors names; of those without a defect */
    bool nothing_chosen;     /* it names none */
    sw_not_checked without;  /* read, and nothing there vouches for them */
    sw_not_checked left_out; /* not read, as was asked */
    uint64_t other_bytes;    /* of the folder's files, of no tensor and no value; not vouched for */
    uint64_t other_files;    /* they lie in */
    uint64_t listed_tensors; /* in the digest list */
    uint64_t matched_tensors; /* whose digest is the listed one */
    bool nothing_listed;      /* no name of the digest list is in the checkpoint */
    /* Of the model that it was held against: */
    char map[64], side[64];   /* whose names its tensors have, or are nearest to; "" : none was */
    uint64_t known_tensors;   /* that the side has, or may have */
    uint64_t missing_tensors; /* of the side, that should be there */
    uint64_t unknown_tensors;
    uint64_t misshapen_tensors; /* known, and of another shape */
    bool nothing_mapped;        /* there is no map for the configuration */
    sw_signature_summary signature;
} sw_verify_summary;

/*
 * Everything found is in `report`. SW_OK: it could be verified, with or without findings. An error
 * that describes the checkpoint (FORMAT, CORRUPT, INCOMPLETE, CONFLICT, UNSAFE) is a finding too;
 * the error is returned only when the tool could not work: ARG, NOMEM, IO, LIMIT, NOTFOUND,
 * UNSUPPORTED, and FORMAT when the path holds no known checkpoint (with an OMS signature that is a
 * note, and the files are held against the signature alone).
 */
SW_API SW_MUST_USE sw_status sw_verify(const char *path, const sw_verify_options *options,
                                       sw_report *report, sw_verify_summary *out, sw_error *err);

/* ---- auditing a run ------------------------------------------------------------------------ */

typedef enum sw_run_state {
    SW_RUN_COMPLETE = 1,
    SW_RUN_INCOMPLETE, /* cut, missing, corrupt: `why` */
    SW_RUN_UNSAFE,     /* it would run code when loaded */
    SW_RUN_UNFINISHED, /* its name is one of before a save is done: "tmp-checkpoint-500" */
    SW_RUN_UNKNOWN     /* it could not be judged: `why` */
} sw_run_state;

typedef struct sw_run_checkpoint {
    const char *name; /* in the run's folder */
    sw_run_state state;
    const char *why;       /* "" when it is complete */
    const char *framework; /* "": not known */
    bool has_number;       /* its name tells one: */
    bool is_epoch;         /* of epochs rather than of steps */
    uint64_t number;
    bool has_step; /* it tells one itself: */
    uint64_t step;
    uint64_t tensors, tensor_bytes;
} sw_run_checkpoint;

typedef enum sw_pointer_verdict {
    SW_POINTER_TRUE = 1,
    SW_POINTER_BEHIND,     /* a newer complete checkpoint is there */
    SW_POINTER_INCOMPLETE, /* what it names is not complete */
    SW_POINTER_MISSING,    /* what it names is not there */
    SW_POINTER_UNKNOWN     /* it cannot be read, or what it names could not be judged */
} sw_pointer_verdict;

/* A file ("latest", "latest_checkpointed_iteration.txt") or a link that names a checkpoint. */
typedef struct sw_run_pointer {
    const char *name;
    const char *says; /* its text, escaped */
    const char *to;   /* the checkpoint that it names; "": none of the run */
    sw_pointer_verdict verdict;
} sw_run_pointer;

typedef struct sw_run sw_run;

/*
 * Judges every checkpoint of the run at `path`, as sw_verify does at the level of the options (0:
 * SW_LEVEL_COVERAGE, metadata and sizes), and what points at the latest one. A run is a folder that
 * is no checkpoint by itself and holds several, or one and a pointer; `always`: whatever it is. One
 * that lies a level deeper is found ("other-folder"). *out is NULL when it is no run.
 * What speaks against the newest checkpoint and against pointers is in `report` as defects, what
 * speaks against others as warnings.
 */
SW_API SW_MUST_USE sw_status sw_run_audit(const char *path, const sw_verify_options *options,
                                          bool always, sw_report *report, sw_run **out,
                                          sw_error *err);
SW_API void sw_run_free(sw_run *run);
SW_API const char *sw_run_root(const sw_run *run);
/* By number, those whose name tells none last. */
SW_API size_t sw_run_count(const sw_run *run);
/* false when i is out of range. */
SW_API bool sw_run_at(const sw_run *run, size_t i, sw_run_checkpoint *out);
SW_API bool sw_run_pointer_at(const sw_run *run, size_t i, sw_run_pointer *out);
/* The one with the highest number, finished or not complete; -1: no name tells a number. */
SW_API int64_t sw_run_newest(const sw_run *run);
/* The same of those that are complete. */
SW_API int64_t sw_run_newest_complete(const sw_run *run);

/* ---- content digests (specs/digest.md) ----------------------------------------------------- */

#define SW_DIGEST_TEXT 65 /* hexadecimal, with the end */

typedef struct sw_hash_options {
    bool weights;            /* the tensors of a weights target, by their names there */
    const char *section;     /* of weights: the part that is the model; NULL: found */
    const char *const *only; /* globs of tensor names, NULL-terminated; NULL: all */
    sw_dtype as;             /* floating-point tensors are cast to it first; or SW_DTYPE_NONE */
    sw_open_options open;
    sw_work_options work;
} sw_hash_options;

/* A list of digests, in byte order of names. */
typedef struct sw_digests sw_digests;

/*
 * One SHA-256 for each tensor that says what it holds, whatever its layout. A tensor that is
 * damaged is the error. `options`, `report` and `tally` may be NULL.
 */
SW_API SW_MUST_USE sw_status sw_hash(const char *path, const sw_hash_options *options,
                                     sw_report *report, sw_digests **out, sw_tally *tally,
                                     sw_error *err);
SW_API void sw_digests_free(sw_digests *digests);
SW_API size_t sw_digests_count(const sw_digests *digests);
/* false when i is out of range. */
SW_API bool sw_digests_at(const sw_digests *digests, size_t i, const char **name,
                          char digest[SW_DIGEST_TEXT]);
/* The digest of the list. */
SW_API void sw_digests_root(const sw_digests *digests, char digest[SW_DIGEST_TEXT]);
/* Writes the list to the file `path`, which appears whole or not at all; SW_ERR_EXISTS. */
SW_API SW_MUST_USE sw_status sw_digests_write(const sw_digests *digests, const char *path,
                                              bool overwrite, sw_error *err);
/* The text that is written, terminated. Free *out with free(). */
SW_API SW_MUST_USE sw_status sw_digests_text(const sw_digests *digests, char **out, sw_error *err);

/* ---- comparing two checkpoints ------------------------------------------------------------- */

typedef enum sw_difference_kind {
    SW_DIFF_ONLY_A = 1,
    SW_DIFF_ONLY_B,
    SW_DIFF_DTYPE,
    SW_DIFF_SHAPE,
    SW_DIFF_ELEMENTS, /* the first differing element is given */
    SW_DIFF_VALUE,    /* of a value that is not a tensor: both texts are given */
    SW_DIFF_UNCHANGED /* it was said that this tensor differs */
} sw_difference_kind;

/* One difference; what it points to is borrowed for the call. */
typedef struct sw_difference {
    sw_difference_kind kind;
    bool is_value;               /* the name is one of a value, not of a tensor */
    bool expected;               /* it was said that this tensor differs */
    const char *name_a, *name_b; /* NULL: not there */
    const char *hint;            /* only on one side: the most alike of those only on the other */
    sw_dtype dtype_a, dtype_b;
    uint32_t axes_a, axes_b;
    int64_t shape_a[SW_MAX_AXES], shape_b[SW_MAX_AXES];
    int64_t at[SW_MAX_AXES];              /* coordinates of the element */
    uint8_t element_a[16], element_b[16]; /* as dtype_a, dtype_b; little-endian */
    const char *text_a, *text_b;          /* of a value: where they differ, escaped */
} sw_difference;
typedef void (*sw_difference_fn)(void *ctx, const sw_difference *difference);

typedef struct sw_diff_options {
    bool tolerant; /* numbers within atol + rtol x |b| are equal, of whatever type */
    double atol, rtol;
    bool state;              /* everything else too: optimizer, other tensors, values */
    const char *section;     /* the part that is the model, where a side has parts; NULL: found */
    const char *const *only; /* globs of names, NULL-terminated; NULL: all */
    const char *const *expect_change; /* tensors of these names must differ; NULL: none */
    sw_open_options open;             /* of both */
    sw_work_options work;
} sw_diff_options;

typedef struct sw_diff_summary {
    char framework_a[32], framework_b[32];
    uint64_t tensors_a, tensors_b; /* that were looked at */
    uint64_t compared;             /* pairs of tensors */
    uint64_t equal;                /* of them */
    uint64_t values;               /* pairs of values */
    uint64_t differences;          /* expected ones left out */
    uint64_t expected;             /* differences that were to be */
    bool nothing_expected;         /* expect_change names no tensor */
} sw_diff_summary;

/*
 * Compares what two checkpoints hold, whatever their layouts: the weights by the names that convert
 * gives them, with `state` all else by its full name. Names that one prefix makes the same are
 * paired (note "prefix"). Each difference goes to `on_difference` (may be NULL) in order of names.
 * SW_OK: they could be compared, equal or not.
 */
SW_API SW_MUST_USE sw_status sw_diff(const char *a, const char *b, const sw_diff_options *options,
                                     sw_difference_fn on_difference, void *ctx, sw_report *report,
                                     sw_diff_summary *out, sw_error *err);

/* ---- converting --------------------------------------------------------------------------- */

/* What one rule of a map does; borrowed for the call. */
typedef struct sw_plan_rule {
    const char *map;         /* its name */
    uint64_t line;           /* of the map's text */
    const char *from, *to;   /* patterns of names in the source and in the destination; "": none */
    const char *what;        /* "split, rearrange, join"; "": another name alone */
    uint64_t tensors, bytes; /* that it makes in the destination */
    uint64_t lost;           /* elements that the destination cannot hold */
    bool lossy;              /* so, or values are rounded */
} sw_plan_rule;
typedef void (*sw_rule_fn)(void *ctx, const sw_plan_rule *rule);

typedef struct sw_convert_options {
    const char *to;           /* target: "hf:shard=5GB", "dcp:ranks=4,optimizer=flat" */
    const char *const *only;  /* globs of tensor names, NULL-terminated; NULL: all */
    const char *const *drop;  /* globs, NULL-terminated; NULL: none */
    bool drop_optimizer;      /* leaving the optimizer out is wanted: its damage does not count */
    const char *section;      /* the part of the state dict that is the model; NULL: found */
    const char *strip_prefix; /* taken off every name that has it; all must; NULL: none */
    const char *add_prefix;   /* put before every name; NULL: none */
    bool keep_prefixes;       /* leave wrapper parts (module., _orig_mod. ...) in names */
    bool untie;               /* write both of a tied pair, and say so in config.json */
    const char *param_names;  /* file with the names of the model's parameters in the order of
                                 registration, one a line, or "NUMBER NAME" a line, for optimizers
                                 that number them; NULL */
    const char *layout;       /* file that says which elements each rank holds, for targets of
                                 ranks (specs/notation.md); NULL: the target's own way */
    const char *from_names;   /* the side of the map whose names the source has; NULL: found */
    bool dequantise;          /* float8 weights with block scales become what dtype says */
    const char *assets;       /* folder with config.json, tokenizer ...; NULL: none */
    sw_dtype dtype;           /* floating-point tensors are cast to it; SW_DTYPE_NONE: kept */
    bool drop_unsafe;         /* convert although unsafe content was found beside the tensors */
    bool overwrite;
    bool dry_run; /* plan and prove, move nothing; of `dest` (may be NULL) say what refuses it */
    bool verify;  /* read the result back and compare it with the source */
    /*
     * A digest list (sw_hash) of what is written goes to this new file, computed on the way; it and
     * `dest` appear together. Neither in `dest` nor in the source. NULL: none.
     */
    const char *digests;
    sw_rule_fn on_rule; /* called for each rule of the map that does something; may be NULL */
    void *rule_ctx;
    sw_open_options open;
    sw_work_options work;
} sw_convert_options;

/* Any defect of the source refuses the conversion, unless only, drop or drop_optimizer say what is
 * left out: then what remains must be whole. */

/* One line of the plan: a tensor of the destination. */
typedef struct sw_plan_tensor {
    const char *name;   /* in the destination */
    const char *source; /* in the source */
    const char *file;   /* in the destination */
    sw_dtype from, to;
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
    uint64_t bytes;  /* in the destination */
    uint64_t pieces; /* that it is made of */
} sw_plan_tensor;
/* Called for each tensor of the destination in order, before anything moves; may be NULL. */
typedef void (*sw_plan_fn)(void *ctx, const sw_plan_tensor *tensor);

typedef struct sw_convert_summary {
    char framework[32];
    char target[32];
    uint64_t tensors, files;
    uint64_t bytes;                    /* of the destination's files */
    uint64_t dropped_tensors;          /* left out because it was asked */
    uint64_t dropped_values;           /* likewise, of a state dict */
    uint64_t optimizer_tensors;        /* that the target does not hold */
    uint64_t other_tensors;            /* outside the model, not carried */
    uint64_t values;                   /* not carried */
    uint64_t tied_tensors;             /* written once under another name */
    uint64_t resumed_files;            /* taken up from an earlier run */
    uint64_t verified_tensors;         /* read back and equal */
    char digests_root[SW_DIGEST_TEXT]; /* of the digest list that was written, or "" */
    bool incomplete; /* parts of the source are missing: it may have had more tensors */
    bool partial;    /* so, or the target could have held something that was not carried */
    uint64_t peak_memory_bytes; /* an estimate: buffers and metadata */
    sw_tally tally;
} sw_convert_summary;

/*
 * Converts the checkpoint at `source` to `dest` (a folder, or for some targets a file), which
 * appears whole or not at all. Findings (what was done about names, ties, stale files) go to
 * `report`. On failure nothing is under `dest` that was not there before; what was finished is kept
 * in `dest`.partial-ID and taken up when the same call is made again.
 */
SW_API SW_MUST_USE sw_status sw_convert(const char *source, const char *dest,
                                        const sw_convert_options *options, sw_plan_fn on_plan,
                                        void *plan_ctx, sw_report *report, sw_convert_summary *out,
                                        sw_error *err);

/* ---- saving from memory -------------------------------------------------------------------- */

/*
 * A state dict that a program puts together and saves, synchronously, in one process: tensors stay
 * where they are in its memory, and what is written is what a conversion of them would be. One
 * thread at a time; different saves are independent.
 *
 *     sw_save_begin -> sw_save_tensor*, sw_save_int* ... -> sw_save_commit -> sw_save_free
 *
 * Names are keys of nested dicts with '/' between them ("model/layers.0.weight",
 * "optimizer/state/layers.0.weight/exp_avg", "step"); keys may have dots. In the checkpoint a
 * tensor is called by its keys with dots between them. What is under "model" is taken for the
 * weights, what is under "optimizer" for its state (specs/names.md, NAM-2); without such keys all
 * is the model's.
 * Errors of all calls: ARG; CONFLICT: the name, or a key of it, is something else already; FORMAT:
 * text that is not UTF-8 (at the latest when it is written), or no JSON; LIMIT; NOMEM, after which
 * the save is only good for being freed.
 */
typedef struct sw_save sw_save;

typedef struct sw_save_options {
    bool in_order;  /* tensors come in the order in which their modules register them: targets that
                       number the parameters of optimizers need it */
    uint32_t ranks; /* 1 to 16384: parts of tensors, and some values, are those of so many ranks.
                       0: nothing is said of ranks */
    const sw_limits *limits; /* NULL: defaults */
} sw_save_options;

/* `options` may be NULL. */
SW_API SW_MUST_USE sw_status sw_save_begin(const sw_save_options *options, sw_save **out,
                                           sw_error *err);
SW_API void sw_save_free(sw_save *save);

/* Ranks in a grid, as a DeviceMesh has them: they are called by their place, row-major. */
#define SW_MESH_AXES_MAX 8
typedef struct sw_mesh {
    uint32_t axes;                      /* 1 to SW_MESH_AXES_MAX, the slowest first */
    const char *name[SW_MESH_AXES_MAX]; /* distinct */
    uint64_t size[SW_MESH_AXES_MAX];    /* at least 1 */
    const uint32_t *ranks; /* in the order of their places; NULL: from 0 on, without gaps */
} sw_mesh;

typedef enum sw_placement_kind {
    SW_REPLICATE = 0,
    SW_SHARD,         /* of `dim`, in parts as torch.chunk makes them: the last may be empty */
    SW_STRIDED_SHARD, /* likewise, where later axes of the mesh have divided it `split_factor` times
                         already (FSDP over TP) */
    SW_PARTIAL        /* each rank has a term of all of it: they are still to be reduced by `op` */
} sw_placement_kind;

#define SW_PLACEMENT_OP_MAX 32
typedef struct sw_placement {
    sw_placement_kind kind;
    uint32_t dim;          /* of SW_SHARD, SW_STRIDED_SHARD */
    uint64_t split_factor; /* of SW_STRIDED_SHARD */
    const char *op;        /* of SW_PARTIAL: "sum", "avg" ...; 1 to 32 letters, digits and '_' */
} sw_placement;

/* How the ranks of a mesh hold a tensor, as a DTensor says it: a placement for each axis. */
typedef struct sw_placed {
    const sw_mesh *mesh;
    sw_placement at[SW_MESH_AXES_MAX];
} sw_placed;

/* Which elements of a tensor there are. */
typedef enum sw_part {
    SW_PART_WHOLE = 0, /* all */
    SW_PART_BOX,       /* offset, length: by axis */
    SW_PART_FLAT,      /* [offset[0], offset[0] + length[0]) of its elements in row-major order */
    SW_PART_PLACED     /* what `placed` gives to `rank`, perhaps none */
} sw_part;

/* A tensor, or what one rank holds of it. */
typedef struct sw_tensor_data {
    const char *name;
    sw_dtype dtype;
    uint32_t axes;
    int64_t shape[SW_MAX_AXES]; /* of the whole tensor */
    const void *data; /* the elements of the part: row-major, little-endian, no gaps; NULL where
                         there are none */
    sw_part part;
    int64_t offset[SW_MAX_AXES], length[SW_MAX_AXES]; /* in elements; empty parts may be given */
    uint32_t rank;           /* that holds it: less than sw_save_options.ranks; 0 without these */
    const sw_placed *placed; /* how all ranks hold it; NULL: nothing is said of that */
} sw_tensor_data;

/*
 * The struct is copied with its name, placements and mesh; the elements are borrowed, and must stay
 * as they are until the save is freed, or no commit follows. Several parts of one name are one
 * tensor (same type, shape, placements and mesh; else CONFLICT). Together they must hold each
 * element once, which commit checks (INCOMPLETE, CONFLICT); but
 * - ranks that an SW_REPLICATE makes equal may all give what they hold: commit compares it
 *   (CONFLICT), and it is written once;
 * - ranks that an SW_PARTIAL makes different give each a term, of which the same is asked. The
 *   native format keeps the terms and refuses to read them as a tensor; every other target refuses
 *   them (UNSUPPORTED), and so do digests.
 * With placements a part is SW_PART_PLACED, or the same box said out loud (else CONFLICT); only for
 * an SW_STRIDED_SHARD whose factor is not what the later axes make is the box taken as it is
 * (SW_PART_PLACED is UNSUPPORTED then), from one of the ranks that hold it.
 */
SW_API SW_MUST_USE sw_status sw_save_tensor(sw_save *save, const sw_tensor_data *tensor,
                                            sw_error *err);
/*
 * The values that follow are those of this rank alone: they may differ from those of other ranks
 * under the same name. -1, which is where a save begins: they are of all ranks. Where a target has
 * one place for a value, it has that of all ranks, which comes first, or else the one of a single
 * rank that came first. The leaves of a value that is a dict are values each.
 */
SW_API SW_MUST_USE sw_status sw_save_rank(sw_save *save, int64_t rank, sw_error *err);
/* Values are copied. */
SW_API SW_MUST_USE sw_status sw_save_int(sw_save *save, const char *name, int64_t value,
                                         sw_error *err);
SW_API SW_MUST_USE sw_status sw_save_float(sw_save *save, const char *name, double value,
                                           sw_error *err);
SW_API SW_MUST_USE sw_status sw_save_bool(sw_save *save, const char *name, bool value,
                                          sw_error *err);
SW_API SW_MUST_USE sw_status sw_save_text(sw_save *save, const char *name, const char *value,
                                          sw_error *err);
SW_API SW_MUST_USE sw_status sw_save_bytes(sw_save *save, const char *name, const void *data,
                                           size_t size, sw_error *err);
/* Whatever JSON says: objects as dicts, arrays as lists, null as None. */
SW_API SW_MUST_USE sw_status sw_save_json(sw_save *save, const char *name, const char *json,
                                          sw_error *err);
/* Whatever specs/values.md says in its tagged JSON, tensors left out: {"$tuple":[1,2]},
 * {"$float":"nan"}, {"$bytes":"AAE="}; it need not be canonical. */
SW_API SW_MUST_USE sw_status sw_save_value(sw_save *save, const char *name, const char *text,
                                           sw_error *err);

/*
 * Writes it to `path` as options->to says ("native:codec=planes,ranks=2", "dcp:ranks=4", "hf"),
 * which appears whole or not at all; what sw_convert says of dest, findings, errors and options
 * holds (options->open is not used). "native" that is not told how ranks divide tensors (no ranks=,
 * no layout) has the ranks of sw_save_options, and of each tensor the parts and placements that
 * were given. Nothing of a failed commit is left. It may be called again.
 * `report` and `out` may be NULL.
 */
SW_API SW_MUST_USE sw_status sw_save_commit(sw_save *save, const char *path,
                                            const sw_convert_options *options, sw_report *report,
                                            sw_convert_summary *out, sw_error *err);

/*
 * Writes a small sharded sample checkpoint (a DCP folder as 4 ranks of an FSDP run leave it, with
 * optimizer state, every tensor holding its own coordinates) to the new directory `dest`.
 */
SW_API SW_MUST_USE sw_status sw_demo(const char *dest, sw_error *err);

#ifdef __cplusplus
}
#endif

#endif
