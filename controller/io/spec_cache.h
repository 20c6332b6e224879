/* spec_cache.h: the job file's JSON that travels with orders to run. The core never holds it; the
 * store does. One entry a job, read from the store once for each revision: an order to run leaves
 * only after its records are durable, so the text is there. */
#ifndef KEEPSTEP_IO_SPEC_CACHE_H
#define KEEPSTEP_IO_SPEC_CACHE_H

#include <stdint.h>

#include "proto/base/err.h"

struct spec_cache;

enum { SPEC_CACHE_JOBS = 64 }; /* the one not used for longest makes room */

/* Opens a reader of its own on the database. */
MUST_CHECK int spec_cache_create(const char *database, struct spec_cache **ret_cache,
                                 struct err *err);
struct spec_cache *spec_cache_free(struct spec_cache *cache);

/* revision 0: the newest. *ret_text is borrowed until the next call. -ENOENT when the store has
 * none, -EMSGSIZE when it is too long for a frame. */
MUST_CHECK int spec_cache_get(struct spec_cache *cache, uint32_t job, uint32_t revision,
                              const char **ret_text, uint32_t *ret_size, struct err *err);

#endif
