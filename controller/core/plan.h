/* plan.h: what plan.c shares with plan_say.c, and with nobody else. */
#ifndef KEEPSTEP_CORE_PLAN_H
#define KEEPSTEP_CORE_PLAN_H

#include "controller/core/impl.h"

/* Fills core->plan_nodes with the spares that this job may take; returns how many. */
uint32_t plan_collect(struct core *core, const struct job *job);
bool plan_must_leave(const struct core *core, const struct node *node);
/* The failure for which this blamed node is to leave the job; NULL when it is not: of every failure
 * that the recovery took in, those who held their slot then. */
const struct incident *plan_evicted_for(const struct core *core, const struct job *job,
                                        const struct record_image_blamed *blamed);
typedef bool plan_leaves(const struct core *core, const struct job *job, const struct node *node);
/* Fills core->plan_lost and core->plan_holders; returns how many slots change hands. */
uint32_t plan_lost_slots(struct core *core, const struct job *job, plan_leaves *leaves);
bool plan_failed_twice(const struct job *job, const struct checkpoint *checkpoint); /* to load */
/* The step of the state that a plan gives up: what the attempt before it had done or, when it never
 * came that far or was not even launched, what it was to begin from. */
uint64_t plan_step_given_up(const struct core *core, const struct job *job);
bool plan_asks_person(const struct job *job, uint64_t lost_steps); /* checkpoint.max_lost */

/* ---- plan_say.c ---- */
/* "; passed over 2 newer ones: step 100 corrupt (...), ...": the newest of them, and how many. */
uint32_t plan_say_skipped(const struct core *core, const struct job *job, char text[TEXT_SIZE]);

#endif
