/* judge_signal.h: facts that a catalogue or a probe has read, for the rules of the judge and for
 * nobody else: one fact alone, the life of a port, the pairs that ranks name. */
#ifndef KEEPSTEP_CONTROLLER_CORE_JUDGE_SIGNAL_H
#define KEEPSTEP_CONTROLLER_CORE_JUDGE_SIGNAL_H

#include "controller/core/judge_evidence.h"

/* ---- one fact ---------------------------------------------------------------------------- */

bool fact_is_labelled(const struct fact *fact);
bool fact_named(const struct fact *fact, const char *name);       /* its signal is this one … */
bool fact_named_like(const struct fact *fact, const char *begin); /* … or begins so */
/* One of the readings of signal.h: rules of their own compare them, all others pass them over. */
bool fact_is_reading(const struct fact *fact);
/* A label on a line that can have begun a failure. */
bool fact_is_root(const struct fact *fact);

bool fact_is_code(const struct fact *fact); /* of a GPU's or a switch's driver */

/* Hash of the device that a line is about; 0: it names none. */
uint64_t fact_device(const struct fact *fact);

bool fact_is_recovery_action(const struct evidence *evidence, const struct fact *fact);
bool fact_is_switch(const struct evidence *evidence,
                    const struct fact *fact); /* of NVLink, fatal */
bool fact_is_gpu_user(const struct evidence *evidence, const struct fact *fact);
bool fact_is_user(const struct evidence *evidence, const struct fact *fact);
bool fact_is_storage(const struct evidence *evidence, const struct fact *fact);
bool fact_is_hung_rank(const struct evidence *evidence, const struct fact *fact); /* no daemon */
bool fact_is_clean(const struct evidence *evidence, const struct fact *fact);
bool fact_is_port(const struct evidence *evidence, const struct fact *fact);
bool fact_is_network(const struct evidence *evidence, const struct fact *fact); /* fatal */
bool fact_is_peer(const struct evidence *evidence, const struct fact *fact);
bool fact_is_peer_lost(const struct evidence *evidence, const struct fact *fact);
bool fact_is_unreadable(const struct evidence *evidence, const struct fact *fact);
bool fact_is_step(const struct evidence *evidence, const struct fact *fact);
bool fact_is_stop(const struct evidence *evidence, const struct fact *fact);
bool fact_is_wait_root(const struct evidence *evidence, const struct fact *fact);
bool fact_is_slow(const struct evidence *evidence, const struct fact *fact);
bool fact_is_hash(const struct evidence *evidence, const struct fact *fact);
bool fact_is_value(const struct evidence *evidence, const struct fact *fact);
bool fact_is_rerun(const struct evidence *evidence, const struct fact *fact);
bool fact_is_watchdog(const struct evidence *evidence, const struct fact *fact);
bool fact_is_clocks(const struct evidence *evidence, const struct fact *fact);
bool fact_is_symptom(const struct evidence *evidence, const struct fact *fact);
bool fact_is_transient(const struct evidence *evidence, const struct fact *fact);
bool fact_is_told_to_end(const struct evidence *evidence, const struct fact *fact);
/* Of the node where the first rank ended: it was not as it should be. */
bool fact_is_degraded(const struct evidence *evidence, const struct fact *fact);
bool fact_is_warning(const struct evidence *evidence, const struct fact *fact);

/* ---- several facts ----------------------------------------------------------------------- */

/* In order of receipt; ties as judge() says. */
bool fact_before(const struct fact *a, const struct fact *b);
/* The `index`-th fact of the job in the input that passes the test, or the next one after it:
 * for (i = 0; (fact = evidence_next(evidence, test, &i)) != NULL;) */
const struct fact *evidence_next(const struct evidence *evidence, fact_test *test, uint32_t *index);

/* What became of one port, from all that was read of it. */
struct port_story {
    uint64_t longest_ms; /* outage that ended */
    bool down;           /* … one that did not */
    bool seen;           /* it was down at all */
    bool flaps;          /* too often, counting those that are remembered */
};
/* `first` is the earliest reading of its port (see port_begins). */
void port_story(const struct evidence *evidence, const struct fact *first,
                struct port_story *ret_story);
bool port_begins(const struct evidence *evidence, const struct fact *fact);
/* The leaf switch at the other end, as a hash; 0: not known. */
uint64_t port_leaf(const struct evidence *evidence, const struct fact *fact);

/* Who is named by all pairs of (reporter, peer) that facts tell of. */
struct pair_found {
    uint32_t pairs;  /* different ones, whoever of the two told it */
    uint32_t common; /* the node in all of them, when there are two or more; 0 */
    uint32_t a, b;   /* the ends, of a single pair; b 0: it cannot be told which node that is */
};
void evidence_pairs(const struct evidence *evidence, fact_test *test, struct pair_found *ret_found);

/* How often what judge_mark_of() gives was judged before, within `age_ms`: on that node, from any
 * job; or on other nodes, from this job. */
uint32_t evidence_marks(const struct evidence *evidence, uint64_t what, uint32_t node,
                        uint64_t age_ms, bool elsewhere);

#endif
