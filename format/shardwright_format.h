/*
 * Shardwright: what lies on disk. Public types of the format layer.
 *
 * Everything here is plain C17 without global state. Objects are made by a function that ends in
 * _make or _open and ended by _free or _close, which take NULL. Getters borrow: what they return
 * lives as long as the object. Outputs are untouched when a function fails. Unless said otherwise
 * an object may be read by many threads at once and changed by one.
 */
#ifndef SHARDWRIGHT_FORMAT_H
#define SHARDWRIGHT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SW_API __attribute__((visibility("default")))
#define SW_MUST_USE __attribute__((warn_unused_result))
#define SW_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define SW_API
#define SW_MUST_USE
#define SW_PRINTF(fmt, first)
#endif

#define SW_VERSION_MAJOR 0
#define SW_VERSION_MINOR 1
#define SW_VERSION_PATCH 0
#define SW_VERSION_STRING "0.1.0"

/* ---- errors ------------------------------------------------------------------------------- */

/* What the caller should do about it, not where it arose. */
typedef enum sw_status {
    SW_OK = 0,
    SW_ERR_ARG,         /* the call itself is wrong: fix the caller or the command line */
    SW_ERR_NOMEM,       /* no memory */
    SW_ERR_LIMIT,       /* input asks for more than a limit allows: raise the limit or refuse it */
    SW_ERR_IO,          /* the operating system failed: sys_errno says how */
    SW_ERR_NOTFOUND,    /* a named thing does not exist */
    SW_ERR_EXISTS,      /* the destination exists and replacing it was not asked for */
    SW_ERR_FORMAT,      /* not a thing of this format, or not well formed */
    SW_ERR_UNSUPPORTED, /* well formed, but a feature (named) is not supported */
    SW_ERR_CORRUPT,     /* well formed, but bytes are not what they were: sizes, CRCs, digests */
    SW_ERR_INCOMPLETE,  /* parts are missing (named) */
    SW_ERR_CONFLICT,    /* parts contradict each other */
    SW_ERR_UNSAFE,      /* content that would run code in other tools */
    SW_ERR_UNTRUSTED,   /* a signature or a digest list does not vouch for it */
    SW_ERR_CANCELED     /* the caller asked to stop */
} sw_status;

#define SW_ERROR_TEXT_MAX 1024

/*
 * One error. Owned by the caller, of fixed size, never allocates; initialise with {0} or
 * sw_error_clear. `text` is one line of UTF-8 read outside-in
 * ("convert: model.safetensors: tensor \"w\": needs 64 bytes, file holds 60"); foreign names in it
 * are escaped.
 */
typedef struct sw_error {
    sw_status status;
    int sys_errno;         /* errno of the failed system call, or 0 */
    bool has_offset;       /* offset_bytes is meaningful */
    uint64_t offset_bytes; /* position in the file that the text names */
    char clause[16];       /* clause of the format's specification, such as "ZIP-7"; or "" */
    char text[SW_ERROR_TEXT_MAX];
} sw_error;

SW_API void sw_error_clear(sw_error *err);
/* "CORRUPT", "IO" ...: stable, for machines. */
SW_API const char *sw_status_name(sw_status status);
SW_API const char *sw_version(void);

/* ---- limits ------------------------------------------------------------------------------- */

/* Bounds on what input may make the library allocate. Zero in a field means its default. */
typedef struct sw_limits {
    uint64_t metadata_bytes; /* a metadata file, header or pickle read whole (default 4 GiB) */
    uint64_t header_bytes;   /* a safetensors header (default 100 000 000) */
    uint64_t nodes;          /* nodes of one value graph (default 64 Mi) */
    uint64_t tensors;        /* tensors in a catalog (default 16 Mi) */
    uint64_t pieces;         /* pieces in a catalog (default 64 Mi) */
    uint64_t files;          /* files in a checkpoint folder (default 1 Mi) */
    uint32_t depth;          /* nesting of containers in documents (default 512) */
    uint32_t open_files; /* files held open at once (default 512, at most half of what the process
                            may open) */
} sw_limits;

/* Every zero field replaced by its default; NULL gives the defaults. */
SW_API sw_limits sw_limits_resolve(const sw_limits *limits);

/* ---- findings ----------------------------------------------------------------------------- */

typedef enum sw_severity {
    SW_NOTE = 0, /* worth knowing; changes no verdict */
    SW_WARNING,  /* suspicious; changes no verdict */
    SW_DEFECT,   /* the checkpoint is not what it claims to be */
    SW_DANGER    /* unsafe content */
} sw_severity;

/* One finding. Strings are UTF-8, already escaped for display, never NULL ("" when unknown). */
typedef struct sw_finding {
    sw_severity severity;
    sw_status status;    /* the class of the defect, SW_OK for notes */
    const char *code;    /* stable, for machines: "crc-mismatch", "missing-file" ... */
    const char *file;    /* path inside the checkpoint */
    const char *tensor;  /* tensor, value or record */
    const char *message; /* one line: expected, found, next step */
    bool has_offset;
    uint64_t offset_bytes; /* position in `file` */
} sw_finding;

/* A list of findings; adding is thread-safe. At most 10 000 are kept; all are counted. */
typedef struct sw_report sw_report;

SW_API SW_MUST_USE sw_status sw_report_make(sw_report **out, sw_error *err);
SW_API void sw_report_free(sw_report *report);
SW_API size_t sw_report_count(const sw_report *report);
/* NULL when i is out of range. Sorted by sw_report_sort, else in order of arrival. */
SW_API const sw_finding *sw_report_at(const sw_report *report, size_t i);
/* Findings of a severity ever added, the dropped ones included. */
SW_API uint64_t sw_report_total(const sw_report *report, sw_severity severity);
/* By severity (worst first), file (none: last), offset, code: the same order for any number of
 * threads. */
SW_API void sw_report_sort(sw_report *report);
SW_API const char *sw_severity_name(sw_severity severity);

/* ---- element types ------------------------------------------------------------------------ */

typedef enum sw_dtype {
    SW_DTYPE_NONE = 0,
    SW_BOOL,
    SW_U8,
    SW_I8,
    SW_U16,
    SW_I16,
    SW_U32,
    SW_I32,
    SW_U64,
    SW_I64,
    SW_F16,
    SW_BF16,
    SW_F32,
    SW_F64,
    SW_C32, /* complex of two F16 */
    SW_C64,
    SW_C128,
    SW_F8_E4M3FN,
    SW_F8_E5M2,
    SW_F8_E4M3FNUZ,
    SW_F8_E5M2FNUZ,
    SW_F8_E8M0FNU,
    SW_F4_E2M1FN_X2, /* two 4-bit values a byte; shapes count bytes, as in PyTorch */
    SW_BITS8,        /* opaque units of 1 and 2 bytes (bits8, bits1x8, quantised bytes ...) */
    SW_BITS16,
    SW_DTYPE_COUNT
} sw_dtype;

/* Bytes of one element, 0 for SW_DTYPE_NONE. */
SW_API uint32_t sw_dtype_bytes(sw_dtype dtype);
/* The field's usual name: "float32", "bfloat16", "float8_e4m3fn" ...; "none". */
SW_API const char *sw_dtype_name(sw_dtype dtype);
/* From a name ("float32", "f32", "bf16" ...; case ignored); SW_DTYPE_NONE when unknown. */
SW_API sw_dtype sw_dtype_from_name(const char *name);
/* Unit in which bytes are swapped between byte orders: half the element for complex types. */
SW_API uint32_t sw_dtype_swap_bytes(sw_dtype dtype);
SW_API bool sw_dtype_is_float(sw_dtype dtype);

/* ---- values: everything that is not a tensor ---------------------------------------------- */

typedef enum sw_value_kind {
    SW_VALUE_NONE = 0,
    SW_VALUE_BOOL,
    SW_VALUE_INT,
    SW_VALUE_BIGINT,
    SW_VALUE_FLOAT,
    SW_VALUE_COMPLEX,
    SW_VALUE_STR,
    SW_VALUE_BYTES,
    SW_VALUE_LIST,
    SW_VALUE_TUPLE,
    SW_VALUE_DICT,
    SW_VALUE_SET,
    SW_VALUE_FROZENSET,
    SW_VALUE_GLOBAL,     /* a named module attribute: shown, never imported */
    SW_VALUE_OBJECT,     /* callable, arguments, state, items: shown, never called */
    SW_VALUE_PERSISTENT, /* a persistent id of a pickle (a storage of a torch file) */
    SW_VALUE_RECORD,     /* folded by a constructor hook; meaningful to its reader alone */
    SW_VALUE_TENSOR      /* a tensor of the catalog, by its index */
} sw_value_kind;

/* A graph of values: nodes may be shared and may form cycles. Immutable once read. */
typedef struct sw_value_graph sw_value_graph;
/* A node of a graph; only meaningful together with it. */
typedef struct sw_value {
    uint64_t bits;
} sw_value;

SW_API void sw_value_graph_free(sw_value_graph *graph);
SW_API sw_value_kind sw_value_get_kind(const sw_value_graph *graph, sw_value v);
/* Each getter returns false (output untouched) when the node is of another kind. */
SW_API bool sw_value_bool(const sw_value_graph *graph, sw_value v, bool *out);
SW_API bool sw_value_int(const sw_value_graph *graph, sw_value v, int64_t *out);
SW_API bool sw_value_float(const sw_value_graph *graph, sw_value v, double *out);
SW_API bool sw_value_complex(const sw_value_graph *graph, sw_value v, double *re, double *im);
/* STR: UTF-8 (lone surrogates as Python's surrogatepass), no terminator; BYTES; BIGINT: two's
 * complement, little-endian. */
SW_API bool sw_value_bytes(const sw_value_graph *graph, sw_value v, const uint8_t **data,
                           size_t *size);
/* LIST, TUPLE, SET, FROZENSET: elements; DICT: pairs; else 0. */
SW_API size_t sw_value_size(const sw_value_graph *graph, sw_value v);
SW_API bool sw_value_item(const sw_value_graph *graph, sw_value v, size_t i, sw_value *out);
SW_API bool sw_value_pair(const sw_value_graph *graph, sw_value v, size_t i, sw_value *key,
                          sw_value *value);
/* GLOBAL. Terminated strings. */
SW_API bool sw_value_global(const sw_value_graph *graph, sw_value v, const char **module,
                            const char **name);
/*
 * OBJECT: `callable` (usually a GLOBAL) applied to `args` (a TUPLE), then `state` and, for list and
 * dict subclasses, `items` (LIST or DICT). Absent parts are NONE nodes with has_* false.
 */
typedef struct sw_value_object {
    sw_value callable, args, state, items;
    bool is_new; /* made by __new__ (NEWOBJ) rather than by a call (REDUCE) */
    bool has_state, has_items;
} sw_value_object;
SW_API bool sw_value_get_object(const sw_value_graph *graph, sw_value v, sw_value_object *out);
/* PERSISTENT: the id. */
SW_API bool sw_value_persistent(const sw_value_graph *graph, sw_value v, sw_value *id);
/* TENSOR: its index in the catalog. */
SW_API bool sw_value_tensor(const sw_value_graph *graph, sw_value v, uint32_t *index);

/* A DICT itself, or the items of an OBJECT that is a dict (OrderedDict, defaultdict). */
SW_API bool sw_value_as_dict(const sw_value_graph *graph, sw_value v, sw_value *dict);
/* BYTES that were a bytearray. */
SW_API bool sw_value_is_bytearray(const sw_value_graph *graph, sw_value v);
/*
 * The value as one line for people, much like Python's repr: "a\n", {1: (2.0, None)},
 * <torch.Size((3, 4))>, <tensor 7>. Foreign text is escaped; what is nested deeper than 64 or is
 * inside itself, and what lies beyond max_chars bytes, is "...". Free *out with free().
 */
SW_API SW_MUST_USE sw_status sw_value_text(const sw_value_graph *graph, sw_value v,
                                           size_t max_chars, char **out, sw_error *err);

/* ---- catalogs ----------------------------------------------------------------------------- */

#define SW_MAX_AXES 10

typedef enum sw_role {
    SW_ROLE_OTHER = 0,
    SW_ROLE_PARAMETER, /* a weight or buffer of the model: what a state dict of a module holds */
    SW_ROLE_OPTIMIZER  /* a state of the optimizer */
} sw_role;

/*
 * A checkpoint as a catalog: named global tensors, each made of pieces (boxes of elements that lie
 * at bytes of a blob); values; files. Immutable; shared by threads.
 */
typedef struct sw_catalog sw_catalog;

typedef struct sw_tensor_info {
    const char *name; /* valid UTF-8, terminated, unique in the catalog */
    sw_dtype dtype;
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
    uint64_t elements;
    uint64_t bytes;         /* elements x element size, whole tensor, replicas not counted */
    uint64_t piece_count;   /* empty pieces are not kept */
    uint64_t held_elements; /* elements that some piece holds; less than elements: holes */
    sw_role role;
    int64_t alias_of; /* index of the tensor that owns the same storage, or -1 */
} sw_tensor_info;

typedef struct sw_value_info {
    const char *name;
    int64_t rank; /* the rank it came from, or -1: global */
    uint64_t bytes;
} sw_value_info;

typedef struct sw_file_info {
    const char *path; /* inside the checkpoint */
    uint64_t bytes;
} sw_file_info;

SW_API void sw_catalog_free(sw_catalog *catalog);
SW_API size_t sw_catalog_tensor_count(const sw_catalog *catalog);
SW_API size_t sw_catalog_value_count(const sw_catalog *catalog);
SW_API size_t sw_catalog_file_count(const sw_catalog *catalog);
SW_API uint64_t sw_catalog_piece_count(const sw_catalog *catalog);
/* Bytes of memory that the catalog takes. */
SW_API uint64_t sw_catalog_memory(const sw_catalog *catalog);
/* false when i is out of range. */
SW_API bool sw_catalog_tensor(const sw_catalog *catalog, size_t i, sw_tensor_info *out);
SW_API bool sw_catalog_value_at(const sw_catalog *catalog, size_t i, sw_value_info *out);
SW_API bool sw_catalog_file(const sw_catalog *catalog, size_t i, sw_file_info *out);
/* Index of the tensor of that name, or -1. */
SW_API int64_t sw_catalog_find(const sw_catalog *catalog, const char *name);

#ifdef __cplusplus
}
#endif

#endif
