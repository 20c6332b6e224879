/* manifest.h: the file that makes a folder of shards a checkpoint.
 *
 * `manifest.json` is written last and says everything that one must know to restore: whose it is,
 * what is in it, and every shard with size and hash. It is plain JSON for whoever reads it; the
 * trainer itself takes back only the exact text that it would write for the same values, so a cut,
 * edited or foreign manifest is never half understood:
 *
 *     {
 *       "format": "keepstep",
 *       "version": 1,
 *       "job": "demo",
 *       "attempt": 0,
 *       "step": 20,
 *       "layout": {"tensor": 1, "context": 1, "pipeline": 1, "data": 2},
 *       "model": {"context": 32, "layers": 2, "width": 32, "weights": 43008},
 *       "parts": ["weights", "optimizer", "data", "rng"],
 *       "data": {"bytes": 338000, "hash": "8f3c…", "batch": 16, "next_step": 21},
 *       "rng": {"kind": "counter", "seed": 1},
 *       "shards": [
 *         {"rank": 0, "file": "shard-00000.bin", "size": 258176, "hash": "…32 hex digits…"},
 *         {"rank": 1, "file": "shard-00001.bin", "size": 258176, "hash": "…"}
 *       ]
 *     }
 */
#ifndef KEEPSTEP_TRAINER_MANIFEST_H
#define KEEPSTEP_TRAINER_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "agent/trainer/comm.h"
#include "agent/trainer/durable.h"
#include "agent/trainer/fail.h"
#include "agent/trainer/shape.h"

#define MANIFEST_NAME "manifest.json"

enum {
    MANIFEST_JOB_SIZE = 64,
    MANIFEST_TEXT_MAX = 1 << 20,
    MANIFEST_SHARD_NAME_SIZE = 32,
};

/* Everything but the shards: what must be equal between the one who saved and who restores. */
struct manifest_head {
    char job[MANIFEST_JOB_SIZE]; /* [A-Za-z0-9._-]+ */
    uint32_t attempt;
    uint64_t step;
    struct comm_layout layout;
    struct model_shape shape;
    uint64_t weights; /* number of weights of the shape */
    uint64_t text_size;
    uint64_t text_hash;
    uint32_t batch;
    uint64_t seed; /* under 2^53, so that every JSON reader keeps it */
};

struct manifest {
    struct manifest_head head;
    uint32_t shard_count;        /* the layout's world */
    struct durable_file *shards; /* by rank; owned, freed by manifest_done */
};

/* "shard-00003.bin" */
void manifest_shard_name(uint32_t rank, char ret_name[MANIFEST_SHARD_NAME_SIZE]);

/* *ret_text is the caller's to free. */
MUST_CHECK int manifest_format(const struct manifest *manifest, struct fail *fail, char **ret_text,
                               size_t *ret_size);
/* EXIT_CHECKPOINT with the line that is not as expected; place: what to call the file. */
MUST_CHECK int manifest_parse(const char *text, size_t size, const char *place, struct fail *fail,
                              struct manifest *ret_manifest);
void manifest_done(struct manifest *manifest);

/* What differs between the run that wants to restore and the manifest: EXIT_CHECKPOINT with name,
 * expected and found; of another layout, also the whole layout that saved it. Step and attempt are
 * compared like the rest. */
MUST_CHECK int manifest_compare(const struct manifest_head *expected,
                                const struct manifest_head *found, const char *place,
                                struct fail *fail);

#endif
