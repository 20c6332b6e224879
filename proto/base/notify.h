/* notify.h: what a daemon tells its service manager: that it is ready, lives, or ends. One datagram to
 * the socket that NOTIFY_SOCKET names, as in sd_notify(3); nothing when it names none. Never waits and
 * never fails: a service manager that is gone is none. */
#ifndef KEEPSTEP_BASE_NOTIFY_H
#define KEEPSTEP_BASE_NOTIFY_H

#include <stdint.h>

/* state: "READY=1\nSTATUS=…" */
void notify_manager(const char *state);

/* How often the manager is to be told "WATCHDOG=1", lest it takes us for hung: twice in the time that
 * it waits (WATCHDOG_USEC). 0: it does not watch, or watches another process (WATCHDOG_PID). */
uint64_t notify_watchdog_ms(void);

#endif
