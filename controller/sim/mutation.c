/* mutation.c: which judge each built-in mistake must trip. */
#include "controller/sim/sim.h"

#include "proto/base/check.h"

enum sim_judge sim_mutation_judge(enum sim_mutation mutation)
{
    switch (mutation) {
    case SIM_START_TWICE:
        return SIM_JUDGE_ONCE;
    case SIM_KEEP_OLD:
        return SIM_JUDGE_OLD_ATTEMPT;
    case SIM_ACT_EARLY:
        return SIM_JUDGE_DURABLE;
    case SIM_STOP_UNASKED:
        return SIM_JUDGE_ORDERED;
    case SIM_LOSE_SHARD:
        return SIM_JUDGE_CHOSEN;
    case SIM_LOSE_RECORD:
        return SIM_JUDGE_REPLAY;
    case SIM_LOSE_AGENT_RECORD:
        return SIM_JUDGE_AGENT_REPLAY;
    case SIM_EDIT_SNAPSHOT:
        return SIM_JUDGE_SNAPSHOT;
    case SIM_NO_MUTATION:
    case SIM_DEAF:
        return SIM_JUDGE_LIVE;
    case SIM_EDIT_MARK:
        return SIM_JUDGE_MARKED;
    case SIM_EDIT_MOVE:
        return SIM_JUDGE_TABLE;
    case SIM_EDIT_OWNER:
        return SIM_JUDGE_OWNER;
    case SIM_EDIT_BUDGET:
        return SIM_JUDGE_BUDGET;
    case SIM_EDIT_TIME:
        return SIM_JUDGE_TIME;
    case SIM_EDIT_RESTORE:
        return SIM_JUDGE_KEPT;
    case SIM_EDIT_SLOT:
        return SIM_JUDGE_SWAP;
    case SIM_EDIT_LAYOUT:
        return SIM_JUDGE_BIJECTION;
    case SIM_EDIT_SPARE:
        return SIM_JUDGE_SPARES;
    case SIM_EDIT_PHASE:
        return SIM_JUDGE_PHASES;
    case SIM_EDIT_STEP:
        return SIM_JUDGE_STEP;
    case SIM_EDIT_BREAKER:
        return SIM_JUDGE_BREAKERS;
    case SIM_EDIT_ALIVE:
        return SIM_JUDGE_ALIVE;
    case SIM_EDIT_POISON:
        return SIM_JUDGE_POISONED;
    case SIM_EDIT_STUCK:
        return SIM_JUDGE_RESUMES;
    case SIM_BREAK_CORE:
        return SIM_JUDGE_INVARIANT;
    }
    CHECK(false);
    return SIM_JUDGE_LIVE;
}
