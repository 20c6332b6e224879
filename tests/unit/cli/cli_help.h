/* cli_help.h: what a call prints, for the tests of this folder. */
#ifndef KEEPSTEP_TESTS_UNIT_CLI_CLI_HELP_H
#define KEEPSTEP_TESTS_UNIT_CLI_CLI_HELP_H

#include <jansson.h>

/* What the call wrote there; borrowed until the next one. */
const char *stdout_of(void (*call)(void *context), void *context);
const char *stderr_of(void (*call)(void *context), void *context);
json_t *json_of(const char *text); /* new */

#endif
