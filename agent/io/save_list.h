/* save_list.h: which checkpoints lie in a job's folder, by what its program leaves there. Runs in
 * the helper child, as the job's user. Contents are never interpreted: only names, sizes, times,
 * Keepstep's own manifest (JSON) and Megatron's number are read; nothing is ever unpickled.
 *
 *   keepstep   step-S.a-A/manifest.json, and every shard that it lists with its size
 *   megatron   latest_checkpointed_iteration.txt, and iter_NNNNNNN folders up to that number, each
 *              with all its mp_rank_* or with its .metadata and *.distcp
 *   torch-dcp  folders whose names end in the step: .metadata, and *.distcp that are not empty
 *   marker     folders whose names end in the step: the marker file is there
 *
 * A folder that is a link is never entered. A folder that vanishes between two looks is not there.
 * 10,000 folders are fine; only the newest are told: SAVE_COMPLETE_MAX complete ones, and of the
 * incomplete ones on the way the SAVE_INCOMPLETE_MAX newest. */
#ifndef KEEPSTEP_AGENT_SAVE_LIST_H
#define KEEPSTEP_AGENT_SAVE_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/io/save_walk.h"
#include "proto/base/err.h"
#include "proto/base/message.h"

enum {
    SAVE_FOLDERS_MAX = 100000,
    SAVE_COMPLETE_MAX = 8,
    SAVE_INCOMPLETE_MAX = 24,
    SAVE_FILES_ENOUGH = 20000, /* once so many were looked at, SAVE_COMPLETE_LEAST are enough */
    SAVE_COMPLETE_LEAST = 2,
};

struct save_query {
    const char *format; /* a word of the list above */
    const char *directory;
    const char *job;      /* keepstep: whose they must be */
    const char *marker;   /* marker: the file's name */
    uint64_t model_parts; /* megatron: how many mp_rank_* folders there must be; 0 = any */
};

/* One checkpoint. */
struct save_found {
    uint64_t step;
    uint32_t attempt;
    bool complete;
    uint32_t parts;
    struct save_tally tally;
    char hash[HASH_TEXT_SIZE];
    char directory[PATH_SIZE];
    char note[TEXT_SIZE]; /* why it is incomplete; "". UTF-8, as the directory if the query's is */
};
typedef void save_emit(void *context, const struct save_found *found);

/* Newest first. A folder that is not there holds nothing. -EBADMSG: what the format keeps beside
 * the checkpoints is unreadable, so nothing can be said; -E2BIG; else -errno. ret_total: folders
 * whose names are those of checkpoints. */
MUST_CHECK int save_list(const struct save_query *query, save_emit *emit, void *context,
                         uint32_t *ret_total, struct err *err);

#endif
