/* One element of a tensor as text. */
#ifndef SW_CLI_ELEMENT_H
#define SW_CLI_ELEMENT_H

#include "cli.h"

/* Shortest text that gives the value back; types without a usual notation as 0x... */
void print_element(FILE *to, sw_dtype dtype, const uint8_t *data);
/* As JSON: numbers and booleans where JSON has them, else the same text in quotes. */
void print_json_element(FILE *to, sw_dtype dtype, const uint8_t *data);

#endif
