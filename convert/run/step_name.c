#include "run/step_name.h"

#include <ctype.h>
#include <string.h>

#define SEPARATORS "-_=. "
#define DIGITS_MAX 18

/* The first word that has a number tells more than those below it. */
static const struct {
    const char *word;
    swi_step_unit unit;
    bool counted;
} words[] = {{"step", SWI_UNIT_STEP, true},        {"iteration", SWI_UNIT_STEP, true},
             {"iter", SWI_UNIT_STEP, true},        {"update", SWI_UNIT_STEP, true},
             {"checkpoint", SWI_UNIT_STEP, false}, {"ckpt", SWI_UNIT_STEP, false},
             {"epoch", SWI_UNIT_EPOCH, false}};

static bool starts_with(const char *text, const char *word)
{
    while (*word != '\0' && tolower((unsigned char)*text) == *word) {
        text++;
        word++;
    }
    return *word == '\0';
}

/* A number that ends with the name or before something that is no part of it ("10k" is none). */
static bool number_at(const char *p, int64_t *out)
{
    int64_t number = 0;
    size_t digits = 0;
    for (; isdigit((unsigned char)*p) && digits < DIGITS_MAX; p++, digits++)
        number = number * 10 + (*p - '0');
    if (digits == 0 || isalnum((unsigned char)*p))
        return false;
    *out = number;
    return true;
}

/* The last number that follows this word. */
static bool number_behind(const char *name, const char *word, int64_t *out)
{
    bool found = false;
    for (const char *p = name; *p != '\0'; p++) {
        if (!starts_with(p, word))
            continue;
        const char *q = p + strlen(word);
        if (*q == 's' && !isdigit((unsigned char)*q))
            q++; /* "steps-100" */
        q += strspn(q, SEPARATORS);
        found = number_at(q, out) || found;
    }
    return found;
}

/* "tmp", ".tmp", ".partial-ID", ".incomplete" as parts of a name. */
static bool is_unfinished(const char *name)
{
    static const char *const marks[] = {"tmp", "partial", "incomplete"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        for (const char *p = name; *p != '\0'; p++) {
            const char *end = p + strlen(marks[i]);
            bool begins = p == name || strchr(SEPARATORS, p[-1]) != NULL;
            if (begins && starts_with(p, marks[i]) &&
                (*end == '\0' || strchr(SEPARATORS, *end) != NULL))
                return true;
        }
    }
    return false;
}

void swi_step_of_name(const char *name, swi_step_name *out)
{
    swi_step_name s = {.number = -1, .unfinished = is_unfinished(name)};
    int64_t number;
    if (isdigit((unsigned char)name[0]) && name[strspn(name, "0123456789")] == '\0' &&
        number_at(name, &number))
        s = (swi_step_name){.unit = SWI_UNIT_STEP, .number = number, .unfinished = s.unfinished};
    for (size_t i = 0; s.unit == SWI_UNIT_NONE && i < sizeof words / sizeof words[0]; i++) {
        if (!number_behind(name, words[i].word, &number))
            continue;
        s.unit = words[i].unit;
        s.number = number;
        s.counted = words[i].counted;
    }
    *out = s;
}
