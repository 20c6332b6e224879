/* corpus.h: the text to learn from: the bytes of all files, one after the other.
 *
 * Paths are taken in the order given; a folder stands for its regular files in byte order of their
 * names (links and subfolders in it are passed over). Every rank reads the same text; the hash lets
 * the ranks, and a checkpoint, find out when they do not. */
#ifndef KEEPSTEP_TRAINER_CORPUS_H
#define KEEPSTEP_TRAINER_CORPUS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/trainer/fail.h"
#include "agent/trainer/random.h"

enum { CORPUS_FILES_MAX = 4096 };
#define CORPUS_SIZE_MAX ((size_t)1 << 30)

struct corpus {
    uint8_t *text; /* owned */
    size_t size;
    uint64_t hash; /* XXH3-64 of the text */
};

/* window: bytes that one sample needs. -ENODATA when the text is shorter than one, with the numbers
 * in the sentence. Freed with corpus_done, also after a failure. */
MUST_CHECK int corpus_load(struct corpus *corpus, const char *const *paths, size_t path_count,
                           size_t window, struct fail *fail);
void corpus_done(struct corpus *corpus);

/* Copies the window bytes of one sample of one step: a function of (seed, stream, step, sample) and
 * of the text alone, whoever asks and in whatever order. */
void corpus_sample(const struct corpus *corpus, uint64_t seed, enum random_stream stream,
                   uint64_t step, uint32_t sample, size_t window, uint8_t *ret_bytes);

#endif
