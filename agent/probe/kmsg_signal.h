/* kmsg_signal.h: what a line of the kernel log means, by the catalogue (agent/core/catalog.h). */
#ifndef KEEPSTEP_PROBE_KMSG_SIGNAL_H
#define KEEPSTEP_PROBE_KMSG_SIGNAL_H

#include "agent/probe/kmsg.h"

struct kmsg_signal;

/* The shipped catalogue with the site's files (a list by comma, "" = none) over it. A file of the
 * site that is wrong is left out: err tells, and the others count. NULL: no catalogue at all. */
struct kmsg_signal *kmsg_signal_create(const char *files, struct err *err);
struct kmsg_signal *kmsg_signal_free(struct kmsg_signal *signal); /* takes NULL, gives NULL */

/* A kmsg_look; the context is a struct kmsg_signal. Noise means nothing. */
bool kmsg_signal_look(void *context, const char *message, size_t size, bool user,
                      struct finding *ret_finding);

#endif
