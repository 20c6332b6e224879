/* tokens.h: who may do what over TCP: a file of tokens, read at the start.
 *
 * One token a line: "ROLE NAME HASH", role viewer, submitter or operator, HASH the SHA-256 of the
 * token in hex. NAME says in the journal who it was; a submitter's is the user whose jobs the token
 * may submit, change and read. `#` begins a comment line. The file must belong to us or root and be
 * closed to others. */
#ifndef KEEPSTEP_API_TOKENS_H
#define KEEPSTEP_API_TOKENS_H

#include <stdint.h>

#include "proto/base/err.h"

struct tokens;

enum { TOKENS_MAX = 1024 };

MUST_CHECK int tokens_load(const char *path, struct tokens **ret_tokens, struct err *err);
struct tokens *tokens_free(struct tokens *tokens); /* takes NULL */
/* The role of a bearer token (enum http_role), ROLE_NONE when it is not known; *ret_name (borrowed)
 * is set when it is.
 * Compares in constant time. tokens may be NULL. */
uint8_t tokens_role(const struct tokens *tokens, const char *token, const char **ret_name);

#endif
