/* durable.h: files that are whole or not there.
 *
 * A file is written under a temporary name in its own folder, synced, renamed to its final name,
 * and the folder is synced: after durable_write returned 0 a power cut changes nothing. A failure
 * leaves no final name and removes the temporary one. Hashes are XXH3-128 of the whole file. */
#ifndef KEEPSTEP_TRAINER_DURABLE_H
#define KEEPSTEP_TRAINER_DURABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/trainer/fail.h"

enum { DURABLE_HASH_SIZE = 33 }; /* 32 lower-case hex digits and the NUL */

struct durable_part {
    const void *data; /* borrowed */
    size_t size;
};

struct durable_file {
    uint64_t size;
    char hash[DURABLE_HASH_SIZE];
};

/* Writes the parts one after the other. folder: an open folder; name: without a slash. replace:
 * an older file of this name gives way; otherwise -EEXIST, and the older one stays as it was.
 * place: what to call the folder in fail's sentence. Codes are EXIT_LOCAL. */
MUST_CHECK int durable_write(int folder, const char *name, const struct durable_part *parts,
                             size_t part_count, bool replace, const char *place, struct fail *fail,
                             struct durable_file *ret_file);

/* The same for a path; creates no folders. */
MUST_CHECK int durable_write_path(const char *path, const struct durable_part *parts,
                                  size_t part_count, bool replace, struct fail *fail);

/* Makes a folder (an existing one is fine) and syncs its parent. */
MUST_CHECK int durable_make_folder(const char *path, struct fail *fail);

/* The hash of bytes in memory, in the same form. */
void durable_hash(const void *data, size_t size, char ret_hash[DURABLE_HASH_SIZE]);

#endif
