/* list.h: lists by comma in a text, as the configuration has them. */
#ifndef KEEPSTEP_PROBE_LIST_H
#define KEEPSTEP_PROBE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* The next part of *list, copied; *list moves behind it. false: there is none. A part that is too
 * long is left out. */
bool list_next(const char **list, char *part, size_t size);
bool list_has(const char *list, const char *part);

#endif
