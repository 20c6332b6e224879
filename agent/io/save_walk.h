/* save_walk.h: the files of one checkpoint folder: how many, how large, since when. For the helper
 * child, which has become the job's user before.
 *
 * Links are never followed: neither to the folder nor out of it. A name with a control character,
 * anything that is no plain file, and a file that vanishes while it is looked at are faults: what
 * is in such a folder is not what its writer meant to leave there. */
#ifndef KEEPSTEP_AGENT_SAVE_WALK_H
#define KEEPSTEP_AGENT_SAVE_WALK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "proto/base/err.h"
#include "proto/base/message.h"

enum {
    SAVE_DEPTH_MAX = 4, /* folders within each other */
    SAVE_FILES_MAX = 200000,
    SAVE_MANIFEST_MAX = 16 << 20, /* 100,000 shards and more */
    SAVE_NAME_SIZE = 256,
};

struct save_tally {
    uint32_t files;
    uint64_t bytes;
    uint64_t first_ms; /* wall time of the oldest file's change; 0 = there is none */
    uint64_t last_ms;
    uint64_t hash_high; /* over names, sizes and times; in no order */
    uint64_t hash_low;
    char fault[TEXT_SIZE]; /* the first one; "" */
};

/* Called for each plain file; path is relative to the folder. */
typedef void save_visit(void *context, const char *path, const struct stat *status);

/* Adds every file below fd (borrowed) to *tally, which was zeroed. visit may be NULL. */
void save_walk(int fd, save_visit *visit, void *context, struct save_tally *tally);

/* One file into the sums. */
void save_tally_add(struct save_tally *tally, const char *path, const struct stat *status);
/* The sums as 32 hex digits. */
void save_tally_hash(const struct save_tally *tally, char ret_hash[HASH_TEXT_SIZE]);

/* The first fault stays. */
void save_fault(char fault[TEXT_SIZE], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A plain file of at most max bytes in a folder, whole, NUL-terminated; free with mem_free. -ENOENT,
 * -EINVAL no plain file, -EFBIG, … */
MUST_CHECK int save_read(int folder_fd, const char *name, uint64_t max, char **ret_text,
                         size_t *ret_size);
/* XXH3-128 in hex, as the manifests write it. */
void save_hash(const void *data, size_t size, char ret_hash[HASH_TEXT_SIZE]);
void save_hash_text(uint64_t high, uint64_t low, char ret_hash[HASH_TEXT_SIZE]);

/* Printable UTF-8 on one line, without '/': what may stand in a path that people are shown. */
bool save_name_ok(const char *name);

#endif
