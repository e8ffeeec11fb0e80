#include "cli.h"

static const char help[] =
    "example:\n"
    "  shardwright demo sample && shardwright inspect sample\n"
    "\n"
    "usage: shardwright demo DIR\n"
    "Writes a small checkpoint to the new folder DIR, sharded over 4 ranks as\n"
    "torch.distributed.checkpoint (DCP) leaves it, with optimizer state. Every element holds its\n"
    "own position, so that any re-ordering shows.\n";

int cmd_demo(int argc, char **argv)
{
    common c = {0};
    sw_error err = {0};
    if (!parse_options(argc, argv, NULL, 0, 1, &c))
        return EXIT_USAGE;
    if (c.help) {
        fputs(help, stdout);
        return EXIT_DONE;
    }
    if (c.positional_count != 1) {
        fputs("shardwright demo: a new folder is needed; see shardwright demo --help\n", stderr);
        return EXIT_USAGE;
    }
    sw_status st = sw_demo(c.positional[0], &err);
    if (c.json) {
        json j;
        json_begin(&j, stdout);
        json_text(&j, "command", "demo");
        json_integer(&j, "exit", exit_of(st));
        if (st != SW_OK)
            json_error(&j, &err);
        json_findings(&j, NULL);
        json_end(&j);
    } else if (st != SW_OK) {
        show_error("demo", &err);
    } else if (!c.quiet) {
        fputs("wrote a DCP folder of 4 ranks: ", stdout);
        print_name(stdout, c.positional[0]);
        fputc('\n', stdout);
    }
    return exit_of(st);
}
