/* Flat indices as people read them. */
#ifndef SW_CONVERT_COORDINATES_H
#define SW_CONVERT_COORDINATES_H

#include "shardwright_convert.h"

#define SWI_COORDINATES_TEXT (SW_MAX_AXES * 24)

/* Of an element of a tensor that is not empty. */
void swi_coordinates(uint32_t axes, const int64_t *shape, uint64_t flat, int64_t *at);
/* "[3, 0]" */
void swi_coordinates_text(const sw_tensor_info *info, uint64_t flat,
                          char text[SWI_COORDINATES_TEXT]);

#endif
