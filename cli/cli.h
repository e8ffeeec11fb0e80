/*
 * The command: argv -> library calls -> text or JSON and an exit code. It knows no format. One file
 * per verb; what they share is here. Exit codes and JSON are interfaces: specs/cli.md.
 */
#ifndef SW_CLI_H
#define SW_CLI_H

#include <shardwright_convert.h>
#include <shardwright_format.h>
#include <shardwright_reshard.h>
#include <stdio.h>

enum sw_exit {
    EXIT_USAGE = -1, /* the command line is wrong, and that was said: 2 outside */
    EXIT_DONE = 0,
    EXIT_FOUND = 1,   /* a finding or a difference */
    EXIT_FAILED = 2,  /* could not */
    EXIT_PARTIAL = 3, /* done only in part */
    EXIT_NOTHING = 4, /* an explicitly asked check had nothing to check */
    EXIT_REFUSED = 5, /* unsafe, exists, over a limit, untrusted */
    EXIT_SIGNAL = 128 /* + number */
};

int sw_cli_main(int argc, char **argv);

/* ---- options (options.c) ------------------------------------------------------------------- */

typedef enum opt_kind { OPT_FLAG, OPT_TEXT, OPT_LIST, OPT_BYTES, OPT_COUNT } opt_kind;

/* A growing NULL-terminated list of texts. */
typedef struct text_list {
    const char **items;
    size_t count;
} text_list;

typedef struct opt {
    const char *name; /* "--to" */
    opt_kind kind;
    void *to; /* bool *, const char **, text_list *, uint64_t *, uint32_t * */
} opt;

/* What every verb takes. */
typedef struct common {
    bool json, quiet, help;
    sw_open_options open; /* --from, --map, --config, --shapes */
    uint32_t threads;
    uint64_t memory_bytes;
    const char *positional[4];
    size_t positional_count;
} common;

/*
 * Fills options and positionals from argv (after the verb). Both "--name value" and "--name=value";
 * "--" ends options. Complains on stderr and returns false when the line is wrong.
 */
bool parse_options(int argc, char **argv, const opt *options, size_t count, size_t max_positional,
                   common *c);
void text_list_free(text_list *list);

/* ---- output (out.c) ------------------------------------------------------------------------ */

/* A foreign name made fit for a terminal. */
void print_name(FILE *to, const char *name);
/* "1.4 GB", decimal units. */
void print_bytes(FILE *to, uint64_t bytes);
void print_shape(FILE *to, uint32_t axes, const int64_t *shape);

/* JSON, one object a run on stdout. */
typedef struct json {
    FILE *to;
    int depth;
    bool first[16];
} json;
void json_begin(json *j, FILE *to); /* the outermost object */
void json_end(json *j);             /* ends it, and the line */
void json_object(json *j, const char *key);
void json_array(json *j, const char *key);
void json_close_object(json *j);
void json_close_array(json *j);
void json_text(json *j, const char *key, const char *value); /* key NULL: in an array */
void json_number(json *j, const char *key, uint64_t value);
void json_integer(json *j, const char *key, int64_t value);
void json_bool(json *j, const char *key, bool value);
void json_shape(json *j, const char *key, uint32_t axes, const int64_t *shape);

/* ---- what verbs share (report.c) ----------------------------------------------------------- */

/* The error as text on stderr, or inside the JSON object. */
void show_error(const char *verb, const sw_error *err);
void json_error(json *j, const sw_error *err);
/* Findings, worst first; notes only when not quiet. */
void show_findings(const common *c, const sw_report *report, FILE *to);
void json_findings(json *j, const sw_report *report); /* NULL: none */
/* What to do about a finding of this code, or NULL: every defect and danger has something. */
const char *advice_of(const char *code);
/*
 * One line for each different advice of the worst findings, else of the error (may be NULL);
 * nothing when quiet.
 */
void show_advice(const common *c, const sw_report *report, const sw_error *err, FILE *to);
void json_tally(json *j, const sw_tally *tally);
void json_cast(json *j, const sw_tally *tally);
/* The exit code for a verb that could not do its work. */
int exit_of(sw_status status);

/* "ok", "defective" ...: what a code of verify means. */
const char *verdict(int code);
/* What verify did not hold against any CRC or digest (not_checked.c). */
typedef struct not_checked {
    sw_verify_file *files; /* with such bytes; the paths are copies */
    size_t count;
    bool no_memory; /* not all are in it */
} not_checked;
void not_checked_add(void *ctx, const sw_verify_file *file); /* a sw_verify_file_fn */
void not_checked_free(not_checked *list);
void show_not_checked(const sw_verify_summary *sum); /* ends the line, and more */
void json_not_checked(json *j, const sw_verify_summary *sum, const not_checked *list);

/*
 * Audits and shows the path when it is a run (run.c); `always`: whatever it is. false: it is none,
 * and nothing was shown.
 */
bool audit_run(const char *verb, const common *c, const sw_verify_options *options, bool always,
               int *code);

/* Starts and ends the progress line on stderr (a terminal only); fills the work options. */
typedef struct progress {
    bool on;
    bool shown;
    double started, last;
} progress;
sw_work_options work_begin(const common *c, progress *p);
void work_end(progress *p);
/* The signal that asked to stop, or 0. */
int stop_signal(void);

/* ---- verbs --------------------------------------------------------------------------------- */

int cmd_inspect(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_cat(int argc, char **argv);
int cmd_hash(int argc, char **argv);
int cmd_sign(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_demo(int argc, char **argv);

#endif
