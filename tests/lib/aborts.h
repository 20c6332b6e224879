/* aborts.h: shows that a call ends the process, as a failed CHECK does. */
#ifndef KEEPSTEP_TESTS_LIB_ABORTS_H
#define KEEPSTEP_TESTS_LIB_ABORTS_H

#include <stdbool.h>

/* true when function(context) ends in SIGABRT; it runs in a child process whose stderr is closed.
 */
bool aborts(void (*function)(void *context), void *context);

#endif
