/* save_check.h: one checkpoint of Keepstep's own format: read again, or removed. Runs in the helper
 * child, as the job's user.
 *
 * Removing is for a folder step-S.a-A whose manifest is the one that was committed: it is renamed
 * into the folder .trash beside it first, so that nobody can begin to restore from a half; then its
 * plain files go. Links are never followed; what the trash holds besides is left alone. */
#ifndef KEEPSTEP_AGENT_SAVE_CHECK_H
#define KEEPSTEP_AGENT_SAVE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"
#include "proto/base/message.h"

#define SAVE_TRASH ".trash"

struct save_target {
    const char *directory; /* absolute, …/step-S.a-A */
    const char *job;
    const char *hash; /* of its manifest as it was committed; "" = any */
    uint64_t step;
    uint32_t attempt;
};
typedef void save_progress(void *context, uint64_t done, uint64_t total);

/* 0 and *ret_whole: every shard has its size and hash; else false and err says which does not. An
 * error says that it could not be found out. progress is called after each part that was read. */
MUST_CHECK int save_verify(const struct save_target *target, save_progress *progress, void *context,
                           bool *ret_whole, struct err *err);
/* -EXDEV: another job's, or not the manifest that was committed; -EINVAL: no such folder's name. */
MUST_CHECK int save_remove(const struct save_target *target, struct err *err);

#endif
