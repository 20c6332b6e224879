/* spec.h: the job that both simulations submit; what they differ in they set themselves. */
#ifndef KEEPSTEP_SIM_SPEC_H
#define KEEPSTEP_SIM_SPEC_H

#include "controller/core/record.h"

/* A job of `slots` nodes in so many pipeline stages, which divide them; tensor parallel within each
 * node. Its name, budgets and times are left at 0. */
void sim_spec_fill(struct job_spec *spec, uint32_t slots, uint32_t pipeline,
                   uint32_t ranks_per_node);

#endif
