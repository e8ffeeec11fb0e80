/*
 * The maps of specs/maps, as they were when the library was built. A file there is all that
 * a new architecture needs.
 */
#ifndef SW_CONVERT_MAP_EMBEDDED_H
#define SW_CONVERT_MAP_EMBEDDED_H

#include <stdbool.h>
#include <stddef.h>

size_t swi_embedded_map_count(void);
/*
 * Map i: "NAME" of specs/maps/NAME.yaml, in the order of their names, and the file's bytes (not
 * terminated). All live as long as the program. false: there is no map i.
 */
bool swi_embedded_map_at(size_t i, const char **name, const void **data, size_t *size);

#endif
