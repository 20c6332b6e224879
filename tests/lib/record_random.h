/* record_random.h: made-up records for tests of the journal, from a seed.
 *
 * Two kinds: single records with any content at all, and the history of a small cluster whose
 * records follow one another as a real one's do (nodes join before they hold slots, a recovery's
 * phases come in order, time is settled without gaps). No core is asked: what the history says is
 * plausible, not decided. */
#ifndef KEEPSTEP_TESTS_LIB_RECORD_RANDOM_H
#define KEEPSTEP_TESTS_LIB_RECORD_RANDOM_H

#include <stdint.h>

#include "controller/core/record.h"
#include "proto/base/prng.h"

/* A record of this kind with random fields: full ranges, texts of any bytes but NUL, cut anywhere.
 * job_submitted gets no text. */
void record_random_any(struct prng *prng, uint16_t kind, struct record *ret_record);

enum { RANDOM_NODES = 40, RANDOM_JOBS = 6, RANDOM_SLOTS = 4, RANDOM_QUEUE = 64 };

struct random_node {
    uint8_t life; /* enum node_life_word */
    bool joined;
    bool lost;
    bool marked;
    uint32_t job;
    uint32_t slot;
};

struct random_job {
    uint32_t job; /* 0: free */
    uint8_t state;
    uint32_t attempt;
    uint32_t nodes[RANDOM_SLOTS]; /* 0: nobody */
    uint64_t settled_ms;
    uint64_t step;
};

/* A cluster and what it is about to say. Big: keep it on the heap. */
struct record_random {
    struct prng prng;
    uint64_t service_ms;
    uint64_t wall_ms;
    uint64_t term;
    uint32_t job_next;
    uint32_t incident_next;
    uint32_t recovery_next;
    struct random_node nodes[RANDOM_NODES + 1]; /* [0] is not used */
    struct random_job jobs[RANDOM_JOBS];
    struct record queue[RANDOM_QUEUE];
    uint32_t queued;
    uint32_t taken;
    char text[64]; /* the last job's file */
};

/* wall_ms: when the history begins. */
void record_random_start(struct record_random *world, uint64_t seed, uint64_t wall_ms);
/* The next record of the history; its text, if any, is valid until the next call. */
void record_random_next(struct record_random *world, struct record *ret_record);
/* A snapshot's worth of images of the state, cut to what the fields can tell: at least one. */
uint32_t record_random_images(struct record_random *world, struct record *ret_records,
                              uint32_t max);

#endif
