/* Records whose CRC was followed and that did not pass whole. */
#ifndef SW_RESHARD_LEFTOVERS_H
#define SW_RESHARD_LEFTOVERS_H

#include "fetch.h"

/*
 * After all is read, by one thread: what was given up for want of room is read once more as a
 * whole; a record of which less was asked for is only counted, unless the rest of it was not read
 * because an earlier run had done so (`resumed`).
 */
SW_MUST_USE sw_status swi_fetch_leftovers(swi_fetch *fetch, bool resumed, sw_error *err);

#endif
