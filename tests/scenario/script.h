/* script.h: the text of a scenario: commands, each with what it is expected to show.
 *
 *     # why this scenario exists
 *     kill-node demo/2 refused
 *     ----
 *     [  3010] node/n-0003: suspect, its connection closed
 *
 * A block is one command line, a line `----` and the lines that it shows, up to an empty line.
 * Lines before a command that begin with # or are empty belong to it and are kept as they are. */
#ifndef KEEPSTEP_TESTS_SCENARIO_SCRIPT_H
#define KEEPSTEP_TESTS_SCENARIO_SCRIPT_H

#include <stdint.h>

#include "proto/base/err.h"

enum {
    SCRIPT_BLOCKS_MAX = 128,
    SCRIPT_SIZE_MAX = 1 << 20,
    SCRIPT_WORDS_MAX = 24,
    SCRIPT_LINE_SIZE = 512,
};

struct script_block {
    char *before;  /* owned, all three; lines end in \n */
    char *command; /* one line without its \n */
    char *expected;
};

struct script {
    uint32_t count;
    struct script_block blocks[SCRIPT_BLOCKS_MAX];
};

/* The words of one command line, split at blanks; they point into `line`. */
struct words {
    char line[SCRIPT_LINE_SIZE];
    uint32_t count;
    const char *at[SCRIPT_WORDS_MAX];
};

/* -errno with the reason and the line's number; then nothing needs to be freed. */
MUST_CHECK int script_load(const char *path, struct script *ret_script, struct err *err);
void script_done(struct script *script);
/* Writes the script with actual[i] (borrowed) in place of what block i expected. */
MUST_CHECK int script_write(const char *path, const struct script *script,
                            char *const actual[SCRIPT_BLOCKS_MAX], struct err *err);
MUST_CHECK int words_split(const char *line, struct words *ret_words, struct err *err);

#endif
