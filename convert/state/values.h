/* The values of a checkpoint, as far as a conversion must look at them. */
#ifndef SW_CONVERT_VALUES_H
#define SW_CONVERT_VALUES_H

#include "framework.h"

/*
 * Reads every value once: unsafe content is a finding of severity SW_DANGER, a value that cannot be
 * read a warning "unreadable-value". Fails on NOMEM and on I/O only.
 */
SW_MUST_USE sw_status swi_values_scan(const sw_checkpoint *checkpoint, sw_report *report,
                                      sw_error *err);

#endif
