/* train_step.c: one step: passes, sum of the gradients, one exchange of numbers, update.
 *
 * What Keepstep or an operator asks for (a save, a stop) is asked on rank 0 only; the answer rides
 * in the sum of the losses of the same step, so that all ranks do the same thing after it. */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "agent/trainer/pace.h"
#include "agent/trainer/pipeline.h"
#include "agent/trainer/train_state.h"

/* Every rank of a replica draws the replica's samples; the order of the data is a function of
 * (seed, step) alone, so the split of the batch over replicas and micro-batches changes no byte. */
static void take_samples(struct trainer *trainer, enum random_stream stream, uint64_t step)
{
    const uint32_t count = trainer->options->micros * trainer->samples;
    const uint32_t first = trainer->comm.place.data * count;
    for (uint32_t i = 0; i < count; i++) {
        corpus_sample(&trainer->corpus, trainer->options->seed, stream, step, first + i,
                      trainer->window, trainer->text + i * trainer->window);
    }
}

/* Losses are equal on all tensor ranks of the last stage: one of them counts. */
static double counted_loss(const struct trainer *trainer, double loss)
{
    return trainer->comm.place.tensor == 0 ? loss : 0.0;
}

static double byte_count(const struct trainer *trainer)
{
    return (double)trainer->options->batch * trainer->options->shape.context;
}

static void cut_as_ordered(struct trainer *trainer, uint64_t step)
{
    const struct options *options = trainer->options;
    static const enum comm_axis axes[] = {COMM_TENSOR, COMM_PIPELINE, COMM_DATA};
    for (size_t i = 0; i < sizeof(axes) / sizeof(axes[0]); i++) {
        if (inject_cuts(options->inject, options->inject_count, options->rank, options->attempt,
                        step, axes[i])) {
            comm_cut(&trainer->comm, axes[i]);
        }
    }
}

/* Forward, backward and whatever was ordered for this step; *ret_loss: of this rank. */
static int compute(struct trainer *trainer, uint64_t step, uint64_t begun_us, double *ret_loss)
{
    const struct options *options = trainer->options;
    const float scale = (float)(1.0 / byte_count(trainer));
    const double slowness = inject_slowness(options->inject, options->inject_count, options->rank,
                                            options->attempt, step);
    cut_as_ordered(trainer, step);
    take_samples(trainer, RANDOM_DATA, step);
    model_zero_gradients(trainer->model);
    int code = pipeline_learn(trainer->model, trainer->text, options->micros, trainer->samples,
                              scale, ret_loss);
    if (code == 0) {
        code = pace_stretch(&trainer->comm, begun_us, options->step_min_ms, slowness);
    }
    if (code < 0) {
        return train_fail(trainer, code);
    }
    inject_step(options->inject, options->inject_count, options->rank, options->attempt, step);
    telemetry_compute(&trainer->telemetry, &trainer->comm, pace_now_us() - begun_us);
    return 0;
}

/* Sums losses and squares of gradients; rank 0's questions to Keepstep ride along. */
static int exchange_outcome(struct trainer *trainer, double loss, double squares,
                            struct outcome *ret_outcome)
{
    double words[4] = {counted_loss(trainer, loss), squares, 0.0, 0.0};
    if (train_is_master(trainer)) {
        words[2] = train_save_signalled(trainer) || keepstep_should_checkpoint() == 1 ? 1.0 : 0.0;
        words[3] = keepstep_should_stop() == 1 ? 1.0 : 0.0;
    }
    const int code = comm_all_reduce(train_everyone(trainer), words, 4, COMM_F64, COMM_SUM);
    if (code < 0) {
        return train_fail(trainer, code);
    }
    *ret_outcome = (struct outcome){
        .loss = words[0] / byte_count(trainer),
        .gradient_norm = sqrt(words[1]),
        .save = words[2] > 0.0,
        .stop = words[3] > 0.0,
    };
    return 0;
}

/* Weights that a number which is none would spoil stay as they are. */
static int check_finite(struct trainer *trainer, uint64_t step, const struct outcome *outcome)
{
    if (isfinite(outcome->loss) && isfinite(outcome->gradient_norm)) {
        return 0;
    }
    return fail_set(trainer->fail, EXIT_VALIDATION, -ERANGE,
                    "the loss of step %llu is %f, the gradient norm %f", (unsigned long long)step,
                    outcome->loss, outcome->gradient_norm);
}

static int learn(struct trainer *trainer, uint64_t step, uint64_t begun_us,
                 struct outcome *ret_outcome)
{
    double loss = 0.0;
    double squares = 0.0;
    int code = compute(trainer, step, begun_us, &loss);
    if (code < 0) {
        return code;
    }
    code = optimizer_reduce(&trainer->optimizer, &squares);
    if (code < 0) {
        return train_fail(trainer, code);
    }
    code = exchange_outcome(trainer, loss, squares, ret_outcome);
    if (code == 0) {
        code = check_finite(trainer, step, ret_outcome);
    }
    if (code < 0) {
        return code;
    }
    code = optimizer_update(&trainer->optimizer, step);
    return code < 0 ? train_fail(trainer, code) : 0;
}

int train_step(struct trainer *trainer, struct outcome *ret_outcome)
{
    const uint64_t step = trainer->step + 1;
    const uint64_t begun_us = pace_now_us();
    uint64_t hash = 0;
    telemetry_step_begin(&trainer->telemetry, &trainer->comm, step);
    int code = learn(trainer, step, begun_us, ret_outcome);
    if (code < 0) {
        return code;
    }
    code = optimizer_weights_hash(&trainer->optimizer, &hash);
    if (code < 0) {
        return train_fail(trainer, code);
    }
    trainer->step = step;
    telemetry_step_end(&trainer->telemetry, &trainer->comm, ret_outcome->loss,
                       ret_outcome->gradient_norm, hash);
    if (train_is_master(trainer)) {
        printf("step %llu loss %.6f ms %llu norm %.6f\n", (unsigned long long)step,
               ret_outcome->loss, (unsigned long long)(pace_now_us() - begun_us) / 1000u,
               ret_outcome->gradient_norm);
    }
    return 0;
}

int train_evaluate(struct trainer *trainer)
{
    double loss = 0.0;
    telemetry_phase(&trainer->telemetry, KEEPSTEP_EVAL);
    take_samples(trainer, RANDOM_EVAL, trainer->step);
    int code = pipeline_evaluate(trainer->model, trainer->text, trainer->options->micros,
                                 trainer->samples, &loss);
    if (code == 0) {
        loss = counted_loss(trainer, loss);
        code = comm_all_reduce(train_everyone(trainer), &loss, 1, COMM_F64, COMM_SUM);
    }
    if (code < 0) {
        return train_fail(trainer, code);
    }
    if (train_is_master(trainer)) {
        printf("eval step %llu loss %.6f\n", (unsigned long long)trainer->step,
               loss / byte_count(trainer));
    }
    telemetry_phase(&trainer->telemetry, KEEPSTEP_STEP);
    return 0;
}
