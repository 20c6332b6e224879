/* judge_evidence.h: the facts of one incident, read for the rules of judge.c and for nobody else.
 *
 * Facts of other jobs and of nodes that hold no slot of this one are passed over throughout. */
#ifndef KEEPSTEP_CONTROLLER_CORE_JUDGE_EVIDENCE_H
#define KEEPSTEP_CONTROLLER_CORE_JUDGE_EVIDENCE_H

#include "controller/core/judge.h"

/* What all facts together say. Pointers are into the input; NULL: there is none. */
struct evidence {
    const struct judge_input *in;
    const struct fact *first_end;   /* the end of a rank that began it */
    const struct fact *first_fatal; /* earliest probe or log line that is a root */
    const struct fact *first_lost;
    const struct fact *first_stuck; /* no progress */
    const struct fact *first_root;  /* earliest line that a catalogue calls a root */
    bool hung_first;                /* … before any rank had ended: what ended then gave up */
    uint32_t ends;
    int32_t common_code; /* the code of most ends, when there is a majority */
    uint32_t common_ends;
    uint64_t signature;
    uint32_t suspect; /* node of the strongest fact */
};

/* The pointers into `in` live as long as it does. */
void evidence_read(const struct judge_input *in, struct evidence *ret_evidence);

/* ---- single facts ------------------------------------------------------------------------ */

typedef bool fact_test(const struct evidence *evidence, const struct fact *fact);

bool fact_is_end(const struct evidence *evidence, const struct fact *fact);
bool fact_is_final(const struct evidence *evidence, const struct fact *fact);
bool fact_is_restart(const struct evidence *evidence, const struct fact *fact);
bool fact_is_invalid(const struct evidence *evidence, const struct fact *fact);
bool fact_is_other_gpu(const struct evidence *evidence, const struct fact *fact);
bool fact_is_lost(const struct evidence *evidence, const struct fact *fact);
bool fact_is_launch(const struct evidence *evidence, const struct fact *fact);
bool fact_is_stuck(const struct evidence *evidence, const struct fact *fact);
bool fact_is_operator(const struct evidence *evidence, const struct fact *fact);
/* A line or a probe that is a root: of the node; of a program's own fault; of an attempt at least. */
bool fact_is_fatal(const struct evidence *evidence, const struct fact *fact);
bool fact_is_user_fault(const struct evidence *evidence, const struct fact *fact);
bool fact_is_attempt_signal(const struct evidence *evidence, const struct fact *fact);
bool fact_is_labelled_root(const struct evidence *evidence, const struct fact *fact);
/* Gone or to be gone whatever else is found. */
bool fact_is_lost_or_fatal(const struct evidence *evidence, const struct fact *fact);

/* ---- all facts --------------------------------------------------------------------------- */

/* The earliest; NULL: there is none. */
const struct fact *evidence_first(const struct evidence *evidence, fact_test *test);
uint32_t evidence_count(const struct evidence *evidence, fact_test *test);
/* How many different nodes the facts name; at most JUDGE_BLAMED_MAX. */
uint32_t evidence_nodes(const struct evidence *evidence, fact_test *test);
/* Different other nodes on which the same failure was seen before: anywhere; at the present step; at
 * this step or in the slot that the suspect holds. */
enum evidence_where { EVIDENCE_ANYWHERE, EVIDENCE_SAME_STEP, EVIDENCE_SAME_PLACE };
uint32_t evidence_other_nodes(const struct evidence *evidence, enum evidence_where where);
/* Something was judged to have happened on the suspect's node a short while ago. */
bool evidence_seen_on_suspect(const struct evidence *evidence);
/* The same failure of this job was judged a short while ago, wherever it was. */
bool evidence_seen_before(const struct evidence *evidence);
/* The last time that a rank of this job asked for another GPU; NULL: a short while ago none did. */
const struct judge_past *evidence_moved(const struct evidence *evidence);

/* Blamed are kept in the order of their numbers, each once, at most JUDGE_BLAMED_MAX. */
void verdict_blame(struct judge_verdict *verdict, uint32_t node);
void evidence_blame(const struct evidence *evidence, fact_test *test,
                    struct judge_verdict *verdict);

#endif
