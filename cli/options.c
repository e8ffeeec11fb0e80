#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

void text_list_free(text_list *list)
{
    free(list->items);
    *list = (text_list){0};
}

static bool text_list_add(text_list *list, const char *text)
{
    const char **grown = realloc(list->items, (list->count + 2) * sizeof *grown);
    if (grown == NULL)
        return false;
    grown[list->count++] = text;
    grown[list->count] = NULL;
    list->items = grown;
    return true;
}

/* "40MiB", "64M", "1G", "1000": binary units, as memory is counted. */
static bool parse_bytes(const char *text, uint64_t *out)
{
    uint64_t n = 0;
    unsigned shift = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (n > UINT64_MAX / 10 - 1)
            return false;
        n = n * 10 + (uint64_t)(*p - '0');
    }
    if (p == text)
        return false;
    switch (*p | 0x20) {
    case 'k':
        shift = 10;
        break;
    case 'm':
        shift = 20;
        break;
    case 'g':
        shift = 30;
        break;
    default:
        break;
    }
    if (shift != 0) {
        p++;
        if ((*p | 0x20) == 'i')
            p++;
    }
    if ((*p | 0x20) == 'b')
        p++;
    if (*p != '\0' || n > UINT64_MAX >> shift)
        return false;
    *out = n << shift;
    return true;
}

static bool set_value(const opt *o, const char *text)
{
    uint64_t n;
    switch (o->kind) {
    case OPT_TEXT:
        *(const char **)o->to = text;
        return true;
    case OPT_LIST:
        return text_list_add(o->to, text);
    case OPT_BYTES:
        return parse_bytes(text, o->to);
    case OPT_COUNT:
        if (!parse_bytes(text, &n) || n == 0 || n > 4096)
            return false;
        *(uint32_t *)o->to = (uint32_t)n;
        return true;
    default:
        return false;
    }
}

static const opt *find_option(const opt *options, size_t count, const char *text, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(options[i].name) == size && memcmp(options[i].name, text, size) == 0)
            return &options[i];
    }
    return NULL;
}

static bool complain(const char *what, const char *text)
{
    fprintf(stderr, "shardwright: %s: ", what);
    print_name(stderr, text);
    fprintf(stderr, "; see --help\n");
    return false;
}

/* One option at argv[*i]; moves *i past its value. */
static bool take_option(int argc, char **argv, int *i, const opt *own, size_t own_count,
                        const opt *shared, size_t shared_count)
{
    const char *text = argv[*i];
    const char *equals = strchr(text, '=');
    size_t n = equals ? (size_t)(equals - text) : strlen(text);
    const opt *o = find_option(own, own_count, text, n);
    if (o == NULL)
        o = find_option(shared, shared_count, text, n);
    if (o == NULL)
        return complain("unknown option", text);
    if (o->kind == OPT_FLAG) {
        if (equals != NULL)
            return complain("this option takes no value", text);
        *(bool *)o->to = true;
        return true;
    }
    const char *value = equals ? equals + 1 : NULL;
    if (value == NULL) {
        if (*i + 1 >= argc)
            return complain("a value is missing behind", text);
        value = argv[++*i];
    }
    if (set_value(o, value))
        return true;
    return complain(o->kind == OPT_COUNT   ? "not a value (1 to 4096) for this option"
                    : o->kind == OPT_BYTES ? "not a value (a size as 64MiB or 1G) for this option"
                                           : "not a value for this option",
                    text);
}

bool parse_options(int argc, char **argv, const opt *options, size_t count, size_t max_positional,
                   common *c)
{
    const opt shared[] = {
        {"--json", OPT_FLAG, &c->json},
        {"--quiet", OPT_FLAG, &c->quiet},
        {"-q", OPT_FLAG, &c->quiet},
        {"--help", OPT_FLAG, &c->help},
        {"-h", OPT_FLAG, &c->help},
        {"--from", OPT_TEXT, &c->open.from},
        {"--map", OPT_TEXT, &c->open.map},
        {"--config", OPT_TEXT, &c->open.config},
        {"--shapes", OPT_TEXT, &c->open.shapes},
        {"--threads", OPT_COUNT, &c->threads},
        {"--memory", OPT_BYTES, &c->memory_bytes},
    };
    bool only_names = false;
    for (int i = 0; i < argc; i++) {
        if (!only_names && strcmp(argv[i], "--") == 0) {
            only_names = true;
            continue;
        }
        if (!only_names && argv[i][0] == '-' && argv[i][1] != '\0') {
            if (!take_option(argc, argv, &i, options, count, shared,
                             sizeof shared / sizeof shared[0]))
                return false;
            continue;
        }
        if (c->positional_count >= max_positional)
            return complain("one argument too many", argv[i]);
        c->positional[c->positional_count++] = argv[i];
    }
    return true;
}
