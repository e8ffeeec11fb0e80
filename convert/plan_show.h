/* A conversion told line by line, before anything moves. */
#ifndef SW_CONVERT_PLAN_SHOW_H
#define SW_CONVERT_PLAN_SHOW_H

#include "map/remap.h"
#include "plan.h"

/* Each tensor of the destination, in its order; `whole` has what they are made of. */
void swi_plan_show_tensors(const swi_layout *layout, const sw_checkpoint *whole, sw_plan_fn on_plan,
                           void *ctx);
/* Each rule of the map that does something; nothing where none was needed. */
void swi_plan_show_rules(const swi_remap *remap, const sw_convert_options *options);

#endif
