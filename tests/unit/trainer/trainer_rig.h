/* trainer_rig.h: what the trainer's tests share: worlds of forked ranks, models and texts. */
#ifndef KEEPSTEP_TESTS_TRAINER_RIG_H
#define KEEPSTEP_TESTS_TRAINER_RIG_H

#include <stdio.h>
#include <sys/types.h>

#include "agent/trainer/model.h"
#include "agent/trainer/pipeline.h"
#include "agent/trainer/rendezvous.h"

/* ---- worlds --------------------------------------------------------------------------------- */

/* What a rank of a test does; its result is the process's exit code, 0 when all is well. */
typedef int (*rank_body)(struct comm *comm);

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %u: line %d: %s\n", comm->rank, __LINE__, #condition);           \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

uint16_t rig_free_port(void);
struct rendezvous rig_visitor(uint32_t rank, uint32_t world, uint16_t port);
/* Runs one rank in a child that cannot outlive this test. */
pid_t rig_start_rank(const struct rendezvous *who, const struct comm_layout *layout,
                     rank_body body);
int rig_wait(pid_t child);
/* Every rank runs the body; each must end with what `expected` says for it, NULL: 0. */
void rig_run_world(const struct comm_layout *layout, rank_body body, const int *expected);

/* ---- models --------------------------------------------------------------------------------- */

extern const struct model_shape rig_shape;

/* A model of rig_shape in a comm. Its buffers are ordinary memory: tests look into them. */
struct rig_model {
    struct kernel kernel;
    struct comm *comm;
    struct model *model;
    uint32_t samples, micros;
};

/* A comm of one rank without a backend; ended with comm_done. */
MUST_CHECK int rig_solo(struct comm *comm);
/* Weights of seed 3. */
MUST_CHECK int rig_model_create(struct rig_model *rig, struct comm *comm, uint32_t samples,
                                uint32_t micros);
void rig_model_done(struct rig_model *rig);
/* -1 … 1 for an element of this rank's part: the same for the same element in every layout. */
float rig_noise(const struct parameter *parameter, size_t i);
/* Weights larger than those of a start: every path carries a gradient that floats can resolve. */
void rig_enlarge(const struct rig_model *rig);
void rig_text(uint8_t *text, size_t samples);
/* Fresh gradients of the sum of the losses of micros x samples rows. */
MUST_CHECK int rig_learn(const struct rig_model *rig, const uint8_t *text, double *ret_loss);
/* Collective over the world: the sum of the losses of all replicas. */
MUST_CHECK int rig_loss(const struct rig_model *rig, const uint8_t *text, double *ret_loss);
/* Is this rank the one that counts its part of the parameter? */
bool rig_counts(const struct rig_model *rig, const struct parameter *parameter);
/* Collective over the world: the dot product of two arrays over a whole parameter. */
MUST_CHECK int rig_dot(const struct rig_model *rig, const struct parameter *parameter,
                       const float *a, const float *b, double *ret_sum);

#endif
