/* notify.h: tells the service manager that we are ready, or ending: one datagram to the socket that
 * the environment names, and nothing when it names none. */
#ifndef KEEPSTEP_IO_NOTIFY_H
#define KEEPSTEP_IO_NOTIFY_H

/* state: "READY=1\nSTATUS=…". Never fails: a service manager that is gone is none. */
void notify_manager(const char *state);

#endif
