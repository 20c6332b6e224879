/* pipeline.h: the micro-batches of one step through all stages, forward and back, 1F1B.
 *
 * Streams go to the next stage and gradients to the one before, over the pipeline group, between
 * the ranks of one tensor and data index. What follows a pass and what precedes the next one are
 * one operation (comm_send_receive), so two neighbours that send to each other do not wait for each
 * other. Collective over the pipeline and tensor groups; 0 or comm.h's or kernel.h's code. */
#ifndef KEEPSTEP_TRAINER_PIPELINE_H
#define KEEPSTEP_TRAINER_PIPELINE_H

#include <stdint.h>

#include "agent/trainer/model.h"

/* How many traces a model in this layout needs for so many micro-batches. */
uint32_t pipeline_traces(const struct comm *comm, uint32_t micros);

/* text: micros x samples rows of context + 1 bytes. Adds to the gradients those of (scale x the sum
 * of the losses). ret_loss: the sum of the losses in nats on the last stage, 0 on others. */
MUST_CHECK int pipeline_learn(struct model *model, const uint8_t *text, uint32_t micros,
                              uint32_t samples, float scale, double *ret_loss);
/* Forward alone; changes nothing that learning depends on. */
MUST_CHECK int pipeline_evaluate(struct model *model, const uint8_t *text, uint32_t micros,
                                 uint32_t samples, double *ret_loss);

#endif
