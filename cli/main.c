#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "cli.h"

/*
 * A standard stream that the caller closed must not become a file of the checkpoint: what is
 * printed would go into it. What stands there instead cannot be written, so that is noticed.
 */
static bool hold_standard_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    return fd > STDERR_FILENO && close(fd) == 0;
}

int main(int argc, char **argv)
{
    if (!hold_standard_streams()) {
        fputs("shardwright: cannot open /dev/null\n", stderr);
        return EXIT_FAILED;
    }
    /* A file over the limit (ulimit -f) is an error of the write, not the end of the process. */
    (void)signal(SIGXFSZ, SIG_IGN);
    return sw_cli_main(argc, argv);
}
