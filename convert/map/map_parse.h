/* The parts of the parser of maps: map_parse.c reads the head, map_rules.c the rules. */
#ifndef SW_CONVERT_MAP_MAP_PARSE_H
#define SW_CONVERT_MAP_MAP_PARSE_H

#include "map/map.h"

/* More are refused: of all of `let` and repeats that are seen at once. */
#define SWI_MAP_NAMES_MAX 1024U

/*
 * `what` is for messages. The results are the map's. Names that nothing around defines are refused
 * (MAP-11).
 */
SW_MUST_USE sw_status swi_map_read_expr(swi_map *map, swi_yaml_node node, const char *what,
                                        swi_expr **out, sw_error *err);
SW_MUST_USE sw_status swi_map_read_pattern(swi_map *map, swi_yaml_node node, const char *what,
                                           swi_pattern **out, sw_error *err);
/* A name that can be made: its variables are of the repeats around it. */
SW_MUST_USE sw_status swi_map_read_name(swi_map *map, swi_yaml_node node, const char *what,
                                        swi_pattern **out, sw_error *err);
SW_MUST_USE sw_status swi_map_read_einops(swi_map *map, swi_yaml_node node, swi_einops **out,
                                          sw_error *err);
/* An unquoted "_". */
bool swi_map_is_blank(const swi_map *map, swi_yaml_node node);
/* From here on expressions may use the name that stands at `at`; it may not hide another. */
SW_MUST_USE sw_status swi_map_show_name(swi_map *map, swi_yaml_node at, sw_error *err);
/* A mapping of names to expressions, or no node. Each is seen by those behind it. */
SW_MUST_USE sw_status swi_map_read_lets(swi_map *map, swi_yaml_node at, swi_map_let **out,
                                        size_t *count, sw_error *err);
/* Zeroed room for count + 1 things in the map's arena, its place into the pointer at `out`. */
SW_MUST_USE sw_status swi_map_room(swi_map *map, size_t count, size_t size, void *out,
                                   sw_error *err);
/* Whether rules have a key of this name, so that no side can. */
bool swi_map_rule_key(const char *name);
/* The value of "tensors". */
SW_MUST_USE sw_status swi_map_read_tensors(swi_map *map, swi_yaml_node at, sw_error *err);

#endif
