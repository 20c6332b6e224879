/* checkpoint.h: saving and restoring one world's state, all ranks together.
 *
 * A checkpoint of step S by attempt A is the folder `step-S.a-A`. Every rank writes one shard: its
 * slice of its part of the weights, and both moments of that slice. Slices of replicas do not
 * overlap (optimizer.h), so nothing but the small parameters that all tensor ranks hold is written
 * twice. Rank 0 writes the manifest when all shards are durable, and only then tells Keepstep.
 * Nothing in a folder of another attempt is ever touched, and nothing in one's own is ever
 * replaced: a late writer of an old attempt has a folder of its own and cannot harm what counts. A
 * folder without a manifest is no checkpoint.
 *
 * Shard file, little-endian: struct checkpoint_shard_header, then three arrays of `count` floats:
 * weights, first moments, second moments, of the elements begin … begin + count of the flat array
 * that parameters.h describes for this tensor and pipeline place. The last slice of a part is
 * filled up with zeros, so that all are of one length. A shard fits one place of one layout:
 * another layout is refused, by the manifest and by the shard. */
#ifndef KEEPSTEP_TRAINER_CHECKPOINT_H
#define KEEPSTEP_TRAINER_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "agent/trainer/comm.h"
#include "agent/trainer/fail.h"
#include "agent/trainer/manifest.h"
#include "agent/trainer/optimizer.h"

/* Paths leave room for the name of a shard in the 512 bytes that Keepstep takes. */
enum { CHECKPOINT_SHARD_VERSION = 2, CHECKPOINT_PATH_SIZE = 480 };

struct checkpoint_shard_header {
    char magic[8]; /* "KSSHARD" and NUL */
    uint32_t version;
    uint32_t rank;
    uint32_t world;
    uint32_t attempt; /* of the writer */
    uint64_t step;
    uint64_t begin;
    uint64_t count;
    uint32_t tensor, pipeline, data; /* the writer's place in the manifest's layout */
    uint32_t reserved;
};

/* Writes "directory/step-S.a-A". -ENAMETOOLONG. */
MUST_CHECK int checkpoint_path(const char *directory, uint64_t step, uint32_t attempt,
                               char ret_path[CHECKPOINT_PATH_SIZE]);

/* Collective. head: with the step and attempt that are being saved. directory: absolute, exists.
 * 0: committed, or its commit is on its way. On failure nothing that was a checkpoint before is
 * changed, fail names the folder, and all ranks return the same class of failure: fail->exit_code
 * is EXIT_PEER when the world is broken and EXIT_LOCAL when only this checkpoint could not be made
 * (no space) and training can go on. */
MUST_CHECK int checkpoint_save(struct comm *comm, const struct manifest_head *head,
                               const char *directory, const struct optimizer_state *state,
                               struct fail *fail);

/* Collective. Fills state's arrays from this rank's shard of the folder after its hash has been
 * found right. EXIT_CHECKPOINT, on all ranks, when any rank finds its shard or the manifest
 * missing, torn or foreign: the sentence names file, expected and found. */
MUST_CHECK int checkpoint_load(struct comm *comm, const struct manifest_head *head,
                               const char *folder, const struct optimizer_state *state,
                               struct fail *fail);

/* Finds the one folder of this step in the directory that has a manifest, when the attempt that
 * wrote it is not known. EXIT_CHECKPOINT when there is none, or more than one. */
MUST_CHECK int checkpoint_find(const char *directory, uint64_t step, struct fail *fail,
                               uint32_t *ret_attempt);

#endif
