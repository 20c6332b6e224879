/* incident_case.h: the rows of one incident, made into what the judge reads.
 *
 * Nodes are named as they like; those named nodeNNNN hold slot NNNN of the layout, and hold the
 * ranks of that slot until a line shows a rank on another node. An incident may go over several
 * attempts of a job: the last one in which anything happened is judged, those before it are what
 * the judge remembers. */
#ifndef KEEPSTEP_TOOLS_INCIDENT_CASE_H
#define KEEPSTEP_TOOLS_INCIDENT_CASE_H

#include "agent/core/catalog.h"
#include "controller/core/hang.h"
#include "controller/core/judge.h"
#include "controller/tools/incident_line.h"
#include "controller/tools/incident_read.h"

enum {
    CASE_FACTS_MAX = 32768, /* of one incident; what comes after them is left out, and said */
    CASE_MARKS_MAX = 4096,
    CASE_PAST_MAX = 64, /* attempts */
    CASE_READINGS_MAX = 65536,
};

/* Where a rank was in a communicator, as told last. */
struct rank_reading {
    uint32_t rank;
    uint64_t t_ms;
    uint8_t state; /* enum told_state */
    struct communicator_report communicator;
};

/* When the first end of a rank of the attempt was told. */
struct attempt_end {
    uint32_t attempt;
    uint64_t t_ms;
};

struct incident_case {
    struct incident_case *self;    /* for those who are given it to read */
    const struct catalog *catalog; /* borrowed */
    struct layout_shape shape;
    uint32_t world;
    uint32_t slots;
    incident_warn *warn;
    void *context;

    /* Of one incident: */
    struct names nodes; /* node id = number of its name */
    struct names racks;
    uint32_t *rack_of;  /* by node id, 0 = unknown */
    int32_t *slot_of;   /* by node id, -1 = none of the layout */
    uint32_t node_room; /* of these two */
    struct names addresses;
    uint32_t *address_node; /* by number of the address */
    uint32_t address_room;
    uint32_t *holder; /* by slot: node id that showed a rank of it; 0 */
    struct fact *facts;
    struct fact *sorted; /* room for them once more */
    uint32_t fact_count;
    bool too_many;                           /* said once */
    struct attempt_end ended[CASE_PAST_MAX]; /* in order of time */
    uint32_t ended_count;
    struct rank_reading *readings;
    uint32_t reading_count;
    uint32_t job; /* that the incident is about; 0: not said */
    uint8_t job_sure;
    struct hang_scratch *hang;

    /* What the judge is given, and what it says. */
    struct judge_mark *marks;
    uint32_t mark_count;
    struct judge_past past[CASE_PAST_MAX];
    uint32_t past_count;
    struct judge_input input;
    struct judge_verdict verdict;
};

/* tensor x pipeline x data ranks, eight to a node. -EINVAL: no such layout. */
MUST_CHECK int incident_case_create(const struct catalog *catalog, uint32_t tensor,
                                    uint32_t pipeline, uint32_t data, incident_warn *warn,
                                    void *context, struct incident_case **ret_case,
                                    struct err *err);
struct incident_case *incident_case_free(struct incident_case *one);

/* Judges rows[0 .. count), all of one incident and in order of time. input and verdict are of the
 * last attempt until the next call. */
void incident_case_judge(struct incident_case *one, const struct incident_row *rows,
                         uint32_t count);

/* ---- parts of it, for each other ---------------------------------------------------------- */

/* incident_facts.c: fills facts, ended and readings. */
void incident_facts_read(struct incident_case *one, const struct incident_row *rows,
                         uint32_t count);
uint32_t incident_node(struct incident_case *one, const char *name, size_t size);
uint32_t incident_node_of_slot(struct incident_case *one, uint32_t slot);
uint32_t incident_peer(struct incident_case *one, const char *peer);
struct fact *incident_fact_add(struct incident_case *one, uint32_t number, uint8_t source,
                               uint32_t node, uint64_t t_ms);
void incident_fact_label(struct fact *fact, const char *signal, uint8_t label, uint8_t advice,
                         uint8_t role);

/* incident_hang.c: adds facts about ranks that the others wait for. */
void incident_hang_read(struct incident_case *one);

#endif
