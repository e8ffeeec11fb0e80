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
} sw_framework_info;

SW_API size_t sw_framework_count(void);
SW_API bool sw_framework_at(size_t i, sw_framework_info *out);

/* ---- opening ------------------------------------------------------------------------------ */

/* A checkpoint that was opened for reading: its catalog, and its files. Shared by threads. */
typedef struct sw_checkpoint sw_checkpoint;

typedef struct sw_open_options {
    const char *from;        /* a framework's name; NULL: detected by content */
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
/* The part of the checkpoint that a tensor belongs to: section "model", name in the module. */
SW_API void sw_checkpoint_split_name(const sw_checkpoint *checkpoint, size_t tensor,
                                     const char **section, const char **name);

/* ---- verifying ---------------------------------------------------------------------------- */

typedef enum sw_level {
    SW_LEVEL_STRUCTURE = 1, /* metadata parses; files exist and are long enough */
    SW_LEVEL_COVERAGE,      /* and every element of every tensor is there once */
    SW_LEVEL_DIGEST         /* and every CRC and digest that the files carry is right */
} sw_level;

typedef struct sw_verify_options {
    sw_level level; /* 0: SW_LEVEL_DIGEST */
    sw_open_options open;
    sw_work_options work;
    const char
        *digests; /* a digest list (sw_hash) to hold it against, whatever the level; or NULL */
} sw_verify_options;

typedef struct sw_verify_summary {
    char framework[32];
    char root[1024];
    uint64_t tensors, pieces, values, files;
    uint64_t tensor_bytes;
    sw_tally tally;           /* read, checked, unchecked */
    bool nothing_to_check;    /* the digest level found no CRC or digest at all */
    uint64_t listed_tensors;  /* in the digest list */
    uint64_t matched_tensors; /* whose digest is the listed one */
    bool nothing_listed;      /* no name of the digest list is in the checkpoint */
} sw_verify_summary;

/*
 * Everything found is in `report`. SW_OK: it could be verified, with or without findings. An error
 * that describes the checkpoint (FORMAT, CORRUPT, INCOMPLETE, CONFLICT, UNSAFE) is a finding too;
 * the error is returned only when the tool could not work: ARG, NOMEM, IO, LIMIT, NOTFOUND,
 * UNSUPPORTED, and FORMAT when the path holds no known checkpoint.
 */
SW_API SW_MUST_USE sw_status sw_verify(const char *path, const sw_verify_options *options,
                                       sw_report *report, sw_verify_summary *out, sw_error *err);

/* ---- content digests (specs/digest.md) ----------------------------------------------------- */

#define SW_DIGEST_TEXT 65 /* hexadecimal, with the end */

typedef struct sw_hash_options {
    bool weights;            /* the tensors of a weights target, by their names there */
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

/* ---- converting --------------------------------------------------------------------------- */

typedef struct sw_convert_options {
    const char *to;           /* target: "hf", "hf:shard=5GB" */
    const char *const *only;  /* globs of tensor names, NULL-terminated; NULL: all */
    const char *const *drop;  /* globs, NULL-terminated; NULL: none */
    bool drop_optimizer;      /* leaving the optimizer out is wanted: its damage does not count */
    const char *section;      /* the part of the state dict that is the model; NULL: found */
    const char *strip_prefix; /* taken off every name that has it; all must; NULL: none */
    const char *add_prefix;   /* put before every name; NULL: none */
    bool keep_prefixes;       /* leave wrapper parts (module., _orig_mod. ...) in names */
    bool untie;               /* write both of a tied pair, and say so in config.json */
    const char *assets;       /* folder with config.json, tokenizer ...; NULL: none */
    sw_dtype dtype;           /* floating-point tensors are cast to it; SW_DTYPE_NONE: kept */
    bool drop_unsafe;         /* convert although unsafe content was found beside the tensors */
    bool overwrite;
    bool dry_run; /* plan and prove, move nothing */
    bool verify;  /* read the result back and compare it with the source */
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
    uint64_t bytes;             /* of the destination's files */
    uint64_t dropped_tensors;   /* left out because it was asked */
    uint64_t optimizer_tensors; /* that the target does not hold */
    uint64_t other_tensors;     /* outside the model, not carried */
    uint64_t values;            /* not carried */
    uint64_t tied_tensors;      /* written once under another name */
    uint64_t resumed_files;     /* taken up from an earlier run */
    uint64_t verified_tensors;  /* read back and equal */
    bool incomplete;            /* parts of the source are missing: it may have had more tensors */
    bool partial; /* so, or the target could have held something that was not carried */
    uint64_t peak_memory_bytes; /* bound: buffers and metadata */
    sw_tally tally;
} sw_convert_summary;

/*
 * Converts the checkpoint at `source` to `dest`, which appears whole or not at all. Findings (what
 * was done about names, ties, stale files) go to `report`. On failure nothing is under `dest` that
 * was not there before; what was finished is kept in `dest`.partial-ID and taken up when the same
 * call is made again.
 */
SW_API SW_MUST_USE sw_status sw_convert(const char *source, const char *dest,
                                        const sw_convert_options *options, sw_plan_fn on_plan,
                                        void *plan_ctx, sw_report *report, sw_convert_summary *out,
                                        sw_error *err);

/*
 * Writes a small sharded sample checkpoint (a DCP folder as 4 ranks of an FSDP run leave it, with
 * optimizer state, every tensor holding its own coordinates) to the new directory `dest`.
 */
SW_API SW_MUST_USE sw_status sw_demo(const char *dest, sw_error *err);

#ifdef __cplusplus
}
#endif

#endif
