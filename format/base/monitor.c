#include "base/monitor.h"

#include <time.h>

sw_status swi_monitor_make(pthread_mutex_t *lock, pthread_cond_t *changed, sw_error *err)
{
    pthread_condattr_t attr;
    int rc = pthread_mutex_init(lock, NULL);
    if (rc != 0)
        return swi_fail_errno(err, rc, "pthread_mutex_init");
    rc = pthread_condattr_init(&attr);
    if (rc == 0) {
        rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        if (rc == 0)
            rc = pthread_cond_init(changed, &attr);
        (void)pthread_condattr_destroy(&attr);
    }
    if (rc == 0)
        return SW_OK;
    (void)pthread_mutex_destroy(lock);
    return swi_fail_errno(err, rc, "pthread_cond_init");
}

void swi_monitor_end(pthread_mutex_t *lock, pthread_cond_t *changed)
{
    (void)pthread_cond_destroy(changed);
    (void)pthread_mutex_destroy(lock);
}
