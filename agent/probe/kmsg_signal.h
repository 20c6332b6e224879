/* kmsg_signal.h: what a line of the kernel log means, by the catalogue (agent/core/catalog.h). */
#ifndef KEEPSTEP_PROBE_KMSG_SIGNAL_H
#define KEEPSTEP_PROBE_KMSG_SIGNAL_H

#include "agent/probe/kmsg.h"

struct kmsg_signal;

/* The shipped catalogue with the site's files (a list by comma, "" = none) over it, in their order.
 * A file of the site that is wrong is left out whole, the others count. NULL: not even the shipped
 * one can be read; err tells. */
struct kmsg_signal *kmsg_signal_create(const char *files, struct err *err);
struct kmsg_signal *kmsg_signal_free(struct kmsg_signal *signal); /* takes NULL, gives NULL */

/* Reads the site's files again when one has changed. If one is wrong now, all stays as it was. */
void kmsg_signal_refresh(struct kmsg_signal *signal);

/* What is wrong with the first file that is not used as it is; "" when none is. Borrowed. */
const char *kmsg_signal_problem(const struct kmsg_signal *signal);

/* A kmsg_look; the context is a struct kmsg_signal. Noise means nothing. */
bool kmsg_signal_look(void *context, const struct kmsg_record *record, struct finding *ret_finding);

#endif
