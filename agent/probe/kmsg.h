/* kmsg.h: the kernel's log, line by line, as /dev/kmsg gives it.
 *
 * The source is the device, or a pipe or file that holds the same records (tests). It is read
 * without blocking; the place where reading stopped (boot id and sequence number) is a note, so
 * that neither a restart of the agent nor one of this probe says a line twice or leaves one out.
 *
 *  - On a boot without such a place, what is in the buffer already is old, until the buffer runs dry
 *    or a line is newer than our coming: it happened before this agent, is shown and never acted on.
 *  - Records of another facility than the kernel's were written by programs (/dev/kmsg is open to
 *    root): shown, never acted on, but where the configuration says so for a test.
 *  - Lines that the kernel overwrote before we came are counted by their sequence numbers.
 *  - A flood costs at most a twentieth of a core: past that we wait, and the kernel overwrites.
 *  - A line like one of the last seconds (same signal, code, subject) is only counted.
 *
 * What a line means is asked of `kmsg_look`; lines that mean nothing are forgotten. */
#ifndef KEEPSTEP_PROBE_KMSG_H
#define KEEPSTEP_PROBE_KMSG_H

#include "agent/probe/probe.h"

enum {
    KMSG_RECORD_MAX = 8192, /* the kernel refuses to give a record to less */
    KMSG_AGAIN_MS = 5000,   /* a line like it is not said again within */
    KMSG_ALIKE_MAX = 64,
    KMSG_EVENTS_PER_ROUND = 128, /* and as many again of those that end something */
};

struct kmsg_record {
    uint32_t priority; /* syslog's level, 0 … 7 */
    uint32_t facility; /* 0: the kernel */
    uint64_t sequence;
    uint64_t usec;
    const char *message; /* in the record; not terminated, without its newline */
    size_t size;
};

/* Fills in the finding (but for key and verdict) for a record; false: it means nothing. */
typedef bool kmsg_look(void *context, const struct kmsg_record *record,
                       struct finding *ret_finding);

/* "6,3973,227986636,-;text", what follows in further lines left alone. -EINVAL: another shape. */
MUST_CHECK int kmsg_record_parse(const char *record, size_t size, struct kmsg_record *ret_record);

struct kmsg_alike {
    uint64_t key;
    uint64_t at_ms; /* last said; 0: free */
    uint32_t count; /* since then */
};

/* What one reader knows; zero it before use. */
struct kmsg {
    kmsg_look *look;
    void *context;
    bool act_on_user;
    bool old;          /* what comes now was there before us */
    uint64_t new_usec; /* but a line of this time since the boot or later; 0: its time is nothing */
    bool has_last;
    uint64_t last; /* sequence number of the newest record */
    uint64_t lines;
    uint64_t lost;
    uint64_t lost_ms; /* when the last one was */
    uint64_t odd;     /* records of no known shape */
    uint64_t unsaid;  /* events past the limit of a round */
    uint32_t said;    /* in this round */
    struct kmsg_alike alike[KMSG_ALIKE_MAX];
};

/* One record. True: *ret_finding is an event to be said. */
bool kmsg_take(struct kmsg *kmsg, const char *record, size_t size, uint64_t now_ms,
               struct finding *ret_finding);

extern const struct probe probe_kmsg;

#endif
