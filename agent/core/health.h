/* health.h: what the probes of a node say now, and what of it the controller has to be told. Pure.
 *
 * Level, not edges: each thing that a probe looks at (a GPU, a port, a mount) is a condition with
 * the verdict of its last reading. What the controller was last told of it is kept beside it, and
 * wherever the two differ a fact is due, until the controller has acknowledged one. So nothing is
 * lost when a fact cannot be sent, and nothing is said twice. Things that happened once (a line of
 * the kernel log) are events: kept until acknowledged.
 *
 *     ok, warn, fail ---- the reading says so ---------------------> ok, warn, fail
 *     ok ---------------- three rounds could not read it ----------> not-run
 *     warn, fail -------- could not be read, however often --------> stays (a sensor that fails
 *                                                                    mends no device)
 *     any --------------- three rounds do not name it, but others -> ok, and forgotten
 *
 * One reading that fails says nothing: the third in a row is told, as a sensor that is lost, and
 * only where there had been one. When a whole round of a probe does not come, that is one condition
 * of its own (key "probe"), not one for each thing that it would have looked at.
 *
 * Everything is allocated in health_create(). The words of one probe never touch another's. */
#ifndef KEEPSTEP_AGENT_HEALTH_H
#define KEEPSTEP_AGENT_HEALTH_H

#include "agent/core/finding.h"

enum {
    HEALTH_PROBES_MAX = 24,
    HEALTH_CONDITIONS_MAX = 512,
    HEALTH_EVENTS_MAX = 64,
    HEALTH_MISSES = 3, /* rounds in a row that decide */
};
/* The key of the condition that is about a probe itself. */
#define HEALTH_PROBE_KEY "probe"

struct health;
struct health *health_create(void);
struct health *health_free(struct health *health); /* takes NULL, gives NULL */

/* A round of readings of one probe: begin, any number of readings, end. A begin without an end is
 * as if it had not been. */
void health_begin(struct health *health, uint32_t probe);
/* false: there is no place for one more condition, and it was not known before. */
bool health_reading(struct health *health, uint32_t probe, const struct finding *finding);
/* The round is over. A round without any reading is one that could not be run; why: a sentence, or
 * "" when there simply is nothing of its kind on this machine. */
void health_end(struct health *health, uint32_t probe, const char *why);
/* No round came. finding: what that says about the probe, under HEALTH_PROBE_KEY. */
void health_lost(struct health *health, uint32_t probe, const struct finding *finding);

/* false: no place, and nothing that weighs less to make one; it is counted. */
bool health_event(struct health *health, uint32_t probe, const struct finding *finding);
uint64_t health_events_lost(const struct health *health);

/* The next thing that is due, heaviest first; *ret_ticket names it in health_said(). false: none. */
bool health_due(const struct health *health, struct finding *ret_finding, uint32_t *ret_probe,
                uint32_t *ret_ticket);
/* It has been given to the core as the fact of this sequence number, which is never 0. */
void health_said(struct health *health, uint32_t ticket, uint64_t sequence);
/* All facts with lower numbers than this have been acknowledged. True: something changed. */
bool health_acknowledged(struct health *health, uint64_t below);
/* What is not well is due again: another attempt begins on this node. */
void health_say_again(struct health *health);
/* No event of this probe is unsaid or unacknowledged, no fact of a condition of it is under way. */
bool health_settled(const struct health *health, uint32_t probe);

/* What the controller knows and is not "ok", for the file that outlives this process, and back.
 * A visitor's non-zero result ends the walk and is returned. */
typedef int health_visit(void *context, uint32_t probe, const struct finding *finding);
int health_told(const struct health *health, health_visit *visit, void *context);
void health_restore(struct health *health, uint32_t probe, const struct finding *told);

/* Something of this node is broken here and now, the heaviest of it: a sentence for people; NULL:
 * nothing is. What fails without asking for the node's eviction (a file system's server that does
 * not answer, a clock that is off) is told, and says nothing against the node. */
const char *health_broken(const struct health *health);

/* The newest readings, for a table. */
int health_now(const struct health *health, health_visit *visit, void *context);

#endif
