#include "cli.h"

int main(int argc, char **argv)
{
    return sw_cli_main(argc, argv);
}
