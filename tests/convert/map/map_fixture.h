/* Maps and models from texts, for the tests of maps. */
#ifndef TESTS_CONVERT_MAP_MAP_FIXTURE_H
#define TESTS_CONVERT_MAP_MAP_FIXTURE_H

#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/json.h"
#include "map/model_parts.h"

static inline sw_status parse_map(const char *text, swi_map **out, sw_error *err)
{
    return swi_map_parse(text, strlen(text), "m.yaml", NULL, out, err);
}

/* The configuration is JSON, or NULL; `side` is whose (its own `let` counts), or SIZE_MAX. */
static inline sw_status make_model(const char *text, const char *json, size_t side,
                                   const sw_limits *limits, swi_model **out, sw_error *err)
{
    swi_map *map = NULL;
    swi_model_config config = {.file = "config.json", .key = "config.json"};
    sw_status st = parse_map(text, &map, err);
    if (st != SW_OK)
        return st;
    if (json != NULL) {
        config.size = strlen(json);
        config.text = malloc(config.size + 1);
        assert_non_null(config.text);
        memcpy(config.text, json, config.size);
        assert_ok(swi_json_parse(config.text, config.size, NULL, &config.graph, &config.root, err),
                  err);
    }
    return swi_model_make(map, &config, side, limits, out, err);
}

/* What is wrong, and where. A clause may be a chapter ("NT-1"); `said` is "" for no matter what. */
static inline bool complains(const char *what, const sw_error *err, sw_status status,
                             const char *clause, const char *place, const char *said)
{
    char begin[64];
    const size_t n = strlen(clause);
    snprintf(begin, sizeof begin, "m.yaml:%s: ", place);
    const bool cited =
        strncmp(err->clause, clause, n) == 0 && (err->clause[n] == '\0' || err->clause[n] == '.');
    if (err->status == status && cited && strstr(err->text, said) != NULL &&
        strncmp(err->text, begin, strlen(begin)) == 0)
        return true;
    print_error("%s\n    is: %s: %s\n    expected: %s [%s] at %s with \"%s\"\n", what,
                sw_status_name(err->status), err->text, sw_status_name(status), clause, place,
                said);
    return false;
}

#endif
