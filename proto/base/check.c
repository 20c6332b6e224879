/* check.c: the end of a process that found itself wrong. Nothing here may fail or allocate: the
 * state of the process is already in doubt. */
#include "proto/base/check.h"

#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *condition, const char *file, int line, const char *function)
{
    (void)dprintf(2, "%s:%d: %s: check failed: %s\n", file, line, function, condition);
    abort();
}
