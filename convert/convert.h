/* Converting what is open already. */
#ifndef SW_CONVERT_CONVERT_H
#define SW_CONVERT_CONVERT_H

#include "framework.h"

/*
 * As sw_convert, of a checkpoint that is open, whose findings are in `report`, and that stays open.
 * The same again may be of other data: it goes on from nothing that was left. What options->open
 * says of the source is the caller's to have done.
 */
SW_MUST_USE sw_status swi_convert(sw_checkpoint *source, const char *dest,
                                  const sw_convert_options *options, sw_report *report,
                                  sw_convert_summary *out, sw_error *err);

#endif
