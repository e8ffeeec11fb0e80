/* A lock and what is waited for under it, made and ended together. */
#ifndef SW_BASE_MONITOR_H
#define SW_BASE_MONITOR_H

#include <pthread.h>

#include "base/error.h"

/* Both, or neither after a failure. Waiting until a time goes by CLOCK_MONOTONIC. */
SW_MUST_USE sw_status swi_monitor_make(pthread_mutex_t *lock, pthread_cond_t *changed,
                                       sw_error *err);
void swi_monitor_end(pthread_mutex_t *lock, pthread_cond_t *changed);

#endif
