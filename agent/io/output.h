/* output.h: a rank's output file, kept within its limit and read back. Plain descriptors, no loop: for
 * the helper that has become the job's user.
 *
 * The rank appends to its file for ever and nobody stands in between. Past the limit the middle is
 * dropped: a hole is punched between the head (a quarter) and the tail (five eighths), which moves no
 * offset of the writer and asks nothing of it. The file keeps its length, and what was dropped is seen
 * from the hole itself. Where a file system cannot punch holes, everything behind the head is cut off
 * and a line says so; the writer, which appends, goes on behind it. */
#ifndef KEEPSTEP_AGENT_OUTPUT_H
#define KEEPSTEP_AGENT_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"

enum { OUTPUT_NOTE_SIZE = 64, OUTPUT_LIMIT_LEAST = 65536 };

struct output_state {
    uint64_t kept;    /* bytes of it that are there */
    uint64_t dropped; /* bytes that a hole stands for */
    bool cut;         /* this call cut it off behind the head, for want of holes */
};

/* What is there and what is not, without changing anything. -errno. */
MUST_CHECK int output_look(int fd, struct output_state *ret_state);

/* Brings a file of more than max_bytes (at least OUTPUT_LIMIT_LEAST) down to seven eighths of it. fd: open for
 * writing. */
MUST_CHECK int output_trim(int fd, uint64_t max_bytes, struct output_state *ret_state);

/* Whether files in this folder can have holes: 1, 0, or -errno when that cannot be tried. */
int output_can_punch(const char *folder);

/* The pieces of the file that `bytes` of its end make, in order: of the head, then of the tail, with
 * the length of the hole between them. The note about the hole counts as OUTPUT_NOTE_SIZE of them. */
struct output_end {
    uint64_t head_offset;
    uint64_t head_size;
    uint64_t dropped; /* 0: nothing is missing between the two */
    uint64_t tail_offset;
    uint64_t tail_size;
};
MUST_CHECK int output_end_find(int fd, uint64_t bytes, struct output_end *ret_end);
/* "\n… 123 bytes dropped …\n" */
void output_note(uint64_t dropped, char ret_note[OUTPUT_NOTE_SIZE]);

#endif
