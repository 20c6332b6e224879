/* judge_case.h: what is known of one incident of the core's state, as the judge is given it. Pure. */
#ifndef KEEPSTEP_CORE_JUDGE_CASE_H
#define KEEPSTEP_CORE_JUDGE_CASE_H

#include "controller/core/judge.h"
#include "controller/core/state.h"

enum { JUDGE_FACTS_MAX = 512, JUDGE_PAST_MAX = 64, JUDGE_MARKS_MAX = 256 };

/* Large: the caller has it on the heap, or keeps one. `input` points into it and into the core, so
 * it is good until either changes. */
struct judge_case {
    const struct core *core;
    bool over;
    struct judge_input input;
    struct fact facts[JUDGE_FACTS_MAX];
    struct judge_past past[JUDGE_PAST_MAX];
    struct judge_mark marks[JUDGE_MARKS_MAX];
};

/* over: to explain a verdict that was made, when nodes may have left that held slots then; else
 * facts of nodes without a slot are passed over. Changes nothing. */
void judge_case_read(const struct core *core, const struct incident *incident, bool over,
                     struct judge_case *ret_case);

#endif
