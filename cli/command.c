#include <string.h>

#include "cli.h"

typedef struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *what;
} verb;

static const verb verbs[] = {
    {"inspect", cmd_inspect, "what it is: framework, tensors, pieces, sizes, values, holes"},
    {"verify", cmd_verify, "is it whole, and is every byte that carries a CRC right?"},
    {"convert", cmd_convert, "write it in another layout, proven, whole or not at all"},
    {"plan", cmd_plan, "what convert would do, tensor by tensor; moves nothing"},
    {"diff", cmd_diff, "do two checkpoints of any layout hold the same?"},
    {"hash", cmd_hash, "digests of what each tensor holds, whatever its layout"},
    {"sign", cmd_sign, "signs what a checkpoint holds, or its files"},
    {"cat", cmd_cat, "print a tensor or a region of it"},
    {"demo", cmd_demo, "write a small sharded sample checkpoint to try things on"},
};

static void help(FILE *to)
{
    fputs("shardwright " SW_VERSION_STRING
          ": reads, verifies and converts distributed training checkpoints\n"
          "\n"
          "examples:\n"
          "  shardwright inspect run/step-1000\n"
          "  shardwright verify run/step-1000\n"
          "  shardwright convert run/step-1000 weights --to hf --assets base-model --dtype bf16\n"
          "\n"
          "commands (each has --help):\n",
          to);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        fprintf(to, "  %-9s %s\n", verbs[i].name, verbs[i].what);
    fputs("\n"
          "every command takes --json, --quiet, --from FRAMEWORK, --threads N, --memory SIZE\n"
          "\n"
          "frameworks:\n",
          to);
    sw_framework_info f;
    for (size_t i = 0; sw_framework_at(i, &f); i++)
        fprintf(to, "  %-9s %s%s\n", f.name, f.title, f.writes ? " (also a target)" : "");
    fputs("\n"
          "exit codes: 0 done, nothing found; 1 a defect was found; 2 could not; 3 done only in\n"
          "part; 4 an asked check had nothing to check; 5 refused (unsafe, exists, over a limit);\n"
          "128+N ended by signal N\n",
          to);
}

static bool wants_json(int argc, char **argv)
{
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0)
            return true;
    }
    return false;
}

/* Said on standard error already; whoever reads the document learns that it failed, and where. */
static void usage_as_json(const char *name)
{
    sw_error err = {.status = SW_ERR_ARG};
    json j;
    snprintf(err.text, sizeof err.text,
             "the command line is wrong: standard error says how; see shardwright %s --help", name);
    json_begin(&j, stdout);
    json_text(&j, "command", name);
    json_integer(&j, "exit", EXIT_FAILED);
    json_error(&j, &err);
    json_findings(&j, NULL);
    json_end(&j);
}

static int run_verb(const verb *v, int argc, char **argv)
{
    int code = v->run(argc - 2, argv + 2);
    if (code == EXIT_USAGE) {
        if (wants_json(argc, argv))
            usage_as_json(v->name);
        code = EXIT_FAILED;
    }
    return code;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        help(stderr);
        return EXIT_FAILED;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        help(stdout);
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("shardwright %s\n", sw_version());
        return EXIT_DONE;
    }
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(argv[1], verbs[i].name) == 0)
            return run_verb(&verbs[i], argc, argv);
    }
    fputs("shardwright: no command is called ", stderr);
    print_name(stderr, argv[1]);
    fputs("; shardwright --help lists them\n", stderr);
    return EXIT_FAILED;
}

int sw_cli_main(int argc, char **argv)
{
    int code = dispatch(argc, argv);
    /* what could not be printed was not said */
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == EXIT_DONE)
        return EXIT_FAILED;
    return code;
}
