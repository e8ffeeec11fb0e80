/* A map of the sample, for frameworks whose files do not say what they are parts of. */
#ifndef TESTS_CONVERT_SAMPLE_MAP_H
#define TESTS_CONVERT_SAMPLE_MAP_H

#include "convert/fixture.h"

#include "framework.h"

/* The same names on all sides; three ranks. */
static const char sample_map[] = "map: 1\n"
                                 "name: sample\n"
                                 "models: [sample]\n"
                                 "sides:\n"
                                 "  hf: {}\n"
                                 "%s"
                                 "tensors:\n"
                                 "  - {hf: embedding.weight, shape: [250, 48]%s}\n"
                                 "  - repeat: {n: 2}\n"
                                 "    tensors:\n"
                                 "      - {hf: \"layers.{n}.norm.weight\", shape: [48]%s}\n"
                                 "      - {hf: \"layers.{n}.up.weight\", shape: [100, 48]%s}\n"
                                 "      - {hf: \"layers.{n}.down.weight\", shape: [48, 100]%s}\n"
                                 "  - {hf: norm.weight, shape: [3]%s}\n";
static const char sample_map_of_side[] = "  %s:\n"
                                         "    layout:\n"
                                         "      mesh: {tp: 3}\n"
                                         "      rules:\n"
                                         "        - tensor: \"**.up.weight\"\n"
                                         "          dims: [tp]\n"
                                         "          parts: [60, 40]\n"
                                         "          units: [6, 1]\n"
                                         "          copies: true\n"
                                         "        - {tensor: \"**.down.weight\", dims: [_, tp]}\n"
                                         "        - {tensor: \"embedding.weight\", dims: [tp]}\n"
                                         "        - {tensor: \"**\", dims: []}\n";

static inline const char *sample_map_side(const char *framework)
{
    const swi_framework *f = swi_framework_find(framework, strcspn(framework, ":"));
    return f != NULL ? f->side : NULL;
}

static inline void sample_map_write(const char *path)
{
    static const char *const names[] = {"embedding.weight", "layers.{n}.norm.weight",
                                        "layers.{n}.up.weight", "layers.{n}.down.weight",
                                        "norm.weight"};
    char sides[4096] = "", of[5][512] = {{0}}, text[8192];
    for (size_t i = 0; i < swi_framework_count(); i++) {
        const char *side = swi_framework_at(i)->side;
        size_t n = strlen(sides);
        if (side == NULL)
            continue;
        snprintf(sides + n, sizeof sides - n, sample_map_of_side, side);
        for (size_t k = 0; k < 5; k++) {
            n = strlen(of[k]);
            snprintf(of[k] + n, sizeof of[k] - n, ", %s: \"%s\"", side, names[k]);
        }
    }
    snprintf(text, sizeof text, sample_map, sides, of[0], of[1], of[2], of[3], of[4]);
    harness_write_text(path, text);
}

/* For runs that read what `framework` has and write `target` (NULL: something of any names). */
static inline void sample_map_use(const char *map, const char *framework, const char *target)
{
    bool source = sample_map_side(framework) != NULL;
    bool wanted = source || (target != NULL && sample_map_side(target) != NULL);
    fixture_model.map = wanted ? map : NULL;
    fixture_model.from_names = wanted && !source ? "hf" : NULL;
}

#endif
