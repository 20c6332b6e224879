/* save_manifest.h: Keepstep's own manifest of a checkpoint, `manifest.json` in its folder, as the
 * helper child reads it. Plain JSON; members that are not known here are ignored, so that any
 * program may write one:
 *
 *   {"format": "keepstep", "job": NAME, "attempt": A, "step": S,
 *    "parts": ["weights", "optimizer", "scheduler", "data", "rng"],
 *    "shards": [{"file": NAME, "size": BYTES, "hash": "32 hex digits"}, …]}
 *
 * Hostile: a name with '/', a link, a size that is none, 10^9 shards are errors with a sentence. */
#ifndef KEEPSTEP_AGENT_SAVE_MANIFEST_H
#define KEEPSTEP_AGENT_SAVE_MANIFEST_H

#include <jansson.h>
#include <stdint.h>

#include "agent/io/save_walk.h"
#include "proto/base/err.h"
#include "proto/base/message.h"

#define SAVE_MANIFEST_NAME "manifest.json"

struct save_manifest {
    char hash[HASH_TEXT_SIZE]; /* of its text */
    char job[NAME_SIZE];
    uint64_t step;
    uint32_t attempt;
    uint32_t parts; /* bit set of enum checkpoint_part */
    uint32_t shard_count;
    uint64_t bytes;
    json_t *tree; /* owned */
};

struct save_shard {
    const char *file; /* borrowed from the manifest */
    uint64_t size;
    const char *hash; /* borrowed */
};

/* Whose it must be; job "" is anybody's. */
struct save_owner {
    const char *job;
    uint64_t step;
    uint32_t attempt;
};

/* folder_fd is borrowed. -ENOENT: there is none; -EBADMSG: not a manifest; -EXDEV: of another job,
 * step or attempt; else -errno. */
MUST_CHECK int save_manifest_read(int folder_fd, const struct save_owner *owner,
                                  struct save_manifest *ret_manifest, struct err *err);
void save_manifest_done(struct save_manifest *manifest);
/* index < shard_count; all were checked while reading. */
struct save_shard save_manifest_shard(const struct save_manifest *manifest, uint32_t index);

/* The bit of a word such as "weights"; 0 when it is none. */
uint32_t save_part(const char *word);

#endif
