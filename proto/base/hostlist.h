/* hostlist.h: sets of node names in folded form, "gpu-[0000-0416,0418],head" (Flux RFC 29). Pure.
 * Parsing calls a visitor for every name; nothing is allocated. Leading zeros are kept. */
#ifndef KEEPSTEP_BASE_HOSTLIST_H
#define KEEPSTEP_BASE_HOSTLIST_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

enum { HOSTLIST_NAMES_MAX = 131072, HOSTLIST_NAME_SIZE = 64 };

/* A visitor's non-zero result ends the walk and is returned. */
typedef int hostlist_visit(const char *name, void *context);
MUST_CHECK int hostlist_each(const char *text, hostlist_visit *visit, void *context,
                             struct err *err);

/* Writes the folded form of `count` names (any order; duplicates appear once) into target and
 * returns the full length as snprintf does; a cut text ends in "...". names is sorted in place. */
size_t hostlist_fold(const char **names, size_t count, char *target, size_t size);

#endif
