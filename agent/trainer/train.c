/* train.c: come together, restore, step, save, end.
 *
 * The weights are the same on all ranks; their update is shared out: of every step's gradients each
 * rank gets the sum for its own range only, runs the optimizer there and sends the new weights of
 * its range to the others. So each rank holds a part of the optimizer's state, and a checkpoint has
 * as many shards as the world has ranks.
 *
 * What Keepstep or an operator asks for (a save, a stop) is asked on rank 0 only; the answer rides
 * in the sum of the losses of the same step, so that all ranks do the same thing after it. */
#include "agent/trainer/train.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/rank/keepstep.h"
#include "agent/trainer/adam.h"
#include "agent/trainer/checkpoint.h"
#include "agent/trainer/comm_tcp.h"
#include "agent/trainer/corpus.h"
#include "agent/trainer/durable.h"
#include "agent/trainer/pace.h"
#include "agent/trainer/start.h"
#include "agent/trainer/weights.h"

enum { WARMUP_STEPS = 10, COMMIT_WAIT_MS = 2000 };

struct trainer {
    const struct options *options;
    struct fail *fail;
    struct corpus corpus;
    struct comm comm;
    struct model *model;
    struct adam adam;
    size_t window;    /* bytes of one sample: its context and one more */
    uint32_t samples; /* of this rank in one step */
    uint8_t *text;    /* samples x window */
    size_t slice;     /* weights of one rank's range */
    float *slice_gradients;
    float *first; /* moments of the own range */
    float *second;
    uint64_t step;                        /* completed ones */
    int save_signals;                     /* signalfd on rank 0, else -1 */
    char directory[CHECKPOINT_PATH_SIZE]; /* absolute; "" when nothing is saved */
};

/* What all ranks know after the exchange of one step. */
struct outcome {
    double loss;
    bool save;
    bool stop;
};

static bool is_master(const struct trainer *trainer)
{
    return trainer->options->rank == 0;
}

static int fail_comm(struct trainer *trainer, int code)
{
    char text[FAIL_TEXT_SIZE];
    comm_explain(&trainer->comm, text, sizeof(text));
    return fail_set(trainer->fail, EXIT_PEER, code, "%s", text);
}

static struct comm_group *everyone(struct trainer *trainer)
{
    return comm_group(&trainer->comm, COMM_WORLD);
}

/* ---- coming together ------------------------------------------------------------------------ */

static int meet(struct trainer *trainer)
{
    const struct options *options = trainer->options;
    struct rendezvous who = {
        .rank = options->rank,
        .world = options->world,
        .attempt = options->attempt,
        .master_address = options->master_address,
        .master_port = options->master_port,
        .program = options_digest(options),
        .text = trainer->corpus.hash,
        .timeout_ms = options->init_timeout_s * 1000u,
    };
    int listener = -1;
    const bool keep =
        inject_wants_port(options->inject, options->inject_count, options->rank, options->attempt);
    memcpy(who.job, options->job, sizeof(who.job));
    const int code = comm_tcp_create(&who, &options->layout, keep ? &listener : NULL, trainer->fail,
                                     &trainer->comm);
    if (code == 0) {
        inject_hold_port(listener);
        const struct comm_layout *place = &trainer->comm.place;
        /* Reporting is a courtesy: an absent agent is no reason not to train. */
        (void)keepstep_coordinates(place->tensor, place->context, place->pipeline, place->data);
    }
    return code;
}

static int allocate(struct trainer *trainer)
{
    const struct options *options = trainer->options;
    const size_t weights = model_weight_count(&options->shape);
    const uint32_t ranks = options->layout.data;
    trainer->window = (size_t)options->shape.context + 1;
    trainer->samples = options->batch / ranks;
    trainer->slice = (weights + ranks - 1) / ranks;
    trainer->adam = (struct adam){.rate = options->rate, .warmup_steps = WARMUP_STEPS};
    int code = model_create(&options->shape, trainer->samples, trainer->slice * ranks - weights,
                            trainer->fail, &trainer->model);
    if (code < 0) {
        return code;
    }
    trainer->text = malloc(trainer->samples * trainer->window);
    trainer->slice_gradients = calloc(trainer->slice, sizeof(float));
    trainer->first = calloc(trainer->slice, sizeof(float));
    trainer->second = calloc(trainer->slice, sizeof(float));
    if (trainer->text == NULL || trainer->slice_gradients == NULL || trainer->first == NULL ||
        trainer->second == NULL) {
        return fail_set(trainer->fail, EXIT_LOCAL, -ENOMEM, "no memory for the optimizer");
    }
    return 0;
}

/* The checkpoint folder's parent, made when it is not there, as an absolute path. */
static int open_directory(struct trainer *trainer)
{
    const char *directory = trainer->options->checkpoint_directory;
    char resolved[PATH_MAX];
    if (directory == NULL) {
        return 0;
    }
    const int code = durable_make_folder(directory, trainer->fail);
    if (code < 0) {
        return code;
    }
    if (realpath(directory, resolved) == NULL || strlen(resolved) >= sizeof(trainer->directory)) {
        return fail_set(trainer->fail, EXIT_LOCAL, -ENAMETOOLONG, "cannot use the folder '%s'",
                        directory);
    }
    memcpy(trainer->directory, resolved, strlen(resolved) + 1);
    return 0;
}

static int open_save_signals(struct trainer *trainer)
{
    sigset_t wanted;
    trainer->save_signals = -1;
    if (!is_master(trainer)) {
        return 0;
    }
    (void)sigemptyset(&wanted);
    (void)sigaddset(&wanted, SIGUSR1);
    (void)sigprocmask(SIG_BLOCK, &wanted, NULL);
    trainer->save_signals = signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC);
    if (trainer->save_signals < 0) {
        const int code = -errno;
        return fail_set(trainer->fail, EXIT_LOCAL, code, "signalfd: %s", fail_errno_text(code));
    }
    return 0;
}

static bool save_signalled(const struct trainer *trainer)
{
    struct signalfd_siginfo signal;
    bool any = false;
    while (read(trainer->save_signals, &signal, sizeof(signal)) == (ssize_t)sizeof(signal)) {
        any = true;
    }
    return any;
}

/* ---- restoring ------------------------------------------------------------------------------ */

static struct manifest_head manifest_head(const struct trainer *trainer, uint64_t step,
                                          uint32_t attempt)
{
    const struct options *options = trainer->options;
    struct manifest_head head = {
        .attempt = attempt,
        .step = step,
        .layout = options->layout,
        .shape = options->shape,
        .weights = model_weight_count(&options->shape),
        .text_size = trainer->corpus.size,
        .text_hash = trainer->corpus.hash,
        .batch = options->batch,
        .seed = options->seed,
    };
    memcpy(head.job, options->job, sizeof(head.job));
    return head;
}

static struct checkpoint_state checkpoint_state(const struct trainer *trainer)
{
    const size_t begin = trainer->comm.rank * trainer->slice;
    return (struct checkpoint_state){
        .weights = model_weights(trainer->model) + begin,
        .first = trainer->first,
        .second = trainer->second,
        .begin = begin,
        .count = trainer->slice,
    };
}

/* All ranks get the weights that each of them holds a range of. */
static int share_weights(struct trainer *trainer)
{
    float *weights = model_weights(trainer->model);
    const int code =
        comm_all_gather(everyone(trainer), weights + trainer->comm.rank * trainer->slice, weights,
                        trainer->slice, COMM_F32);
    return code < 0 ? fail_comm(trainer, code) : 0;
}

static int restore(struct trainer *trainer, const struct start *start)
{
    const struct manifest_head head = manifest_head(trainer, start->step, start->attempt);
    const struct checkpoint_state state = checkpoint_state(trainer);
    (void)keepstep_phase(KEEPSTEP_RESTORE); /* a courtesy */
    int code = checkpoint_load(&trainer->comm, &head, start->folder, &state, trainer->fail);
    if (code == 0) {
        code = share_weights(trainer);
    }
    if (code < 0) {
        return code;
    }
    trainer->step = start->step;
    if (is_master(trainer)) {
        printf("restored step %llu from %s\n", (unsigned long long)start->step, start->folder);
    }
    return 0;
}

/* Initial weights, and on top of them a checkpoint if there is one to begin from. */
static int begin(struct trainer *trainer)
{
    const struct options *options = trainer->options;
    struct start start;
    model_init(trainer->model, options->seed);
    if (is_master(trainer) && options->initial_weights != NULL) {
        const int code = weights_write(options->initial_weights, &options->shape,
                                       model_weights(trainer->model), trainer->fail);
        if (code < 0) {
            return code;
        }
    }
    int code = start_agree(&trainer->comm, options, trainer->directory, trainer->fail, &start);
    if (code == 0 && start.step > options->steps) {
        code = fail_set(trainer->fail, EXIT_BAD_CONFIG, -EINVAL,
                        "step %llu is to be restored, but --steps is %llu",
                        (unsigned long long)start.step, (unsigned long long)options->steps);
    }
    if (code == 0 && is_master(trainer)) {
        printf("job %s attempt %u world %u weights %zu text %zu bytes\n", options->job,
               options->attempt, options->world, model_weight_count(&options->shape),
               trainer->corpus.size);
    }
    return code == 0 && start.step > 0 ? restore(trainer, &start) : code;
}

/* ---- saving --------------------------------------------------------------------------------- */

/* Tells when an earlier commit was refused. wait_ms: how long to wait for its answer. */
static void look_at_commit(const struct trainer *trainer, uint32_t wait_ms)
{
    char text[KEEPSTEP_TEXT_SIZE] = "";
    if (is_master(trainer) && keepstep_checkpoint_result(wait_ms, text) == -ESTALE) {
        fprintf(stderr, "rank 0: a checkpoint was refused: %s\n", text);
    }
}

/* -errno when the world is broken; a checkpoint that cannot be made is told and *ret_saved false.
 */
static int save(struct trainer *trainer, bool *ret_saved)
{
    const uint64_t begun_us = pace_now_us();
    const struct manifest_head head =
        manifest_head(trainer, trainer->step, trainer->options->attempt);
    const struct checkpoint_state state = checkpoint_state(trainer);
    look_at_commit(trainer, 0);
    const int code =
        checkpoint_save(&trainer->comm, &head, trainer->directory, &state, trainer->fail);
    if (code < 0 && trainer->fail->exit_code == EXIT_PEER) {
        return code;
    }
    (void)keepstep_phase(KEEPSTEP_STEP); /* a courtesy */
    *ret_saved = code == 0;
    if (code < 0) {
        fprintf(stderr, "rank %u: no checkpoint of step %llu, going on: %s\n",
                trainer->options->rank, (unsigned long long)trainer->step, trainer->fail->text);
    } else if (is_master(trainer)) {
        printf("checkpoint step %llu attempt %u ms %llu\n", (unsigned long long)trainer->step,
               trainer->options->attempt, (unsigned long long)(pace_now_us() - begun_us) / 1000u);
    }
    return 0;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void take_samples(struct trainer *trainer, enum random_stream stream, uint64_t step)
{
    const uint32_t first = trainer->comm.place.data * trainer->samples;
    for (uint32_t i = 0; i < trainer->samples; i++) {
        corpus_sample(&trainer->corpus, trainer->options->seed, stream, step, first + i,
                      trainer->window, trainer->text + i * trainer->window);
    }
}

/* Forward, backward and whatever was ordered for this step; returns the sum of this rank's losses.
 */
static int compute(struct trainer *trainer, uint64_t step, uint64_t begun_us, double *ret_loss)
{
    const struct options *options = trainer->options;
    const float scale = 1.0f / (float)(options->batch * options->shape.context);
    const double slowness = inject_slowness(options->inject, options->inject_count, options->rank,
                                            options->attempt, step);
    take_samples(trainer, RANDOM_DATA, step);
    model_zero_gradients(trainer->model);
    *ret_loss = model_learn(trainer->model, trainer->text, trainer->samples, scale);
    const int code = pace_stretch(&trainer->comm, begun_us, options->step_min_ms, slowness);
    if (code < 0) {
        return fail_comm(trainer, code);
    }
    inject_step(options->inject, options->inject_count, options->rank, options->attempt, step);
    (void)keepstep_step_compute(pace_now_us() - begun_us); /* a courtesy */
    return 0;
}

/* Sums the losses; rank 0's questions to Keepstep ride along. */
static int exchange_outcome(struct trainer *trainer, double loss, struct outcome *ret_outcome)
{
    double words[3] = {loss, 0.0, 0.0};
    if (is_master(trainer)) {
        words[1] = save_signalled(trainer) || keepstep_should_checkpoint() == 1 ? 1.0 : 0.0;
        words[2] = keepstep_should_stop() == 1 ? 1.0 : 0.0;
    }
    const int code = comm_all_reduce(everyone(trainer), words, 3, COMM_F64, COMM_SUM);
    if (code < 0) {
        return fail_comm(trainer, code);
    }
    const double count = (double)trainer->options->batch * trainer->options->shape.context;
    *ret_outcome = (struct outcome){
        .loss = words[0] / count,
        .save = words[1] > 0.0,
        .stop = words[2] > 0.0,
    };
    return 0;
}

static int update(struct trainer *trainer, uint64_t step)
{
    const int code =
        comm_reduce_scatter(everyone(trainer), model_gradients(trainer->model),
                            trainer->slice_gradients, trainer->slice, COMM_F32, COMM_SUM);
    if (code < 0) {
        return fail_comm(trainer, code);
    }
    float *weights = model_weights(trainer->model) + trainer->comm.rank * trainer->slice;
    adam_update(&trainer->adam, step, weights, trainer->slice_gradients, trainer->first,
                trainer->second, trainer->slice);
    return share_weights(trainer);
}

static int train_step(struct trainer *trainer, struct outcome *ret_outcome)
{
    const uint64_t step = trainer->step + 1;
    const uint64_t begun_us = pace_now_us();
    double loss = 0.0;
    (void)keepstep_step_begin(step); /* a courtesy */
    int code = compute(trainer, step, begun_us, &loss);
    if (code == 0) {
        code = exchange_outcome(trainer, loss, ret_outcome);
    }
    if (code == 0 && !isfinite(ret_outcome->loss)) {
        code = fail_set(trainer->fail, EXIT_VALIDATION, -ERANGE, "the loss of step %llu is %f",
                        (unsigned long long)step, ret_outcome->loss);
    }
    if (code == 0) {
        code = update(trainer, step);
    }
    if (code < 0) {
        return code;
    }
    trainer->step = step;
    (void)keepstep_step_end(step); /* a courtesy */
    if (is_master(trainer)) {
        printf("step %llu loss %.6f ms %llu\n", (unsigned long long)step, ret_outcome->loss,
               (unsigned long long)(pace_now_us() - begun_us) / 1000u);
    }
    return 0;
}

/* The loss on samples that training does not draw; changes nothing. */
static int evaluate(struct trainer *trainer)
{
    const struct options *options = trainer->options;
    (void)keepstep_phase(KEEPSTEP_EVAL); /* a courtesy */
    take_samples(trainer, RANDOM_EVAL, trainer->step);
    double loss = model_loss(trainer->model, trainer->text, trainer->samples);
    const int code = comm_all_reduce(everyone(trainer), &loss, 1, COMM_F64, COMM_SUM);
    if (code < 0) {
        return fail_comm(trainer, code);
    }
    if (is_master(trainer)) {
        printf("eval step %llu loss %.6f\n", (unsigned long long)trainer->step,
               loss / ((double)options->batch * options->shape.context));
    }
    (void)keepstep_phase(KEEPSTEP_STEP); /* a courtesy */
    return 0;
}

static bool is_due(uint64_t step, uint64_t every)
{
    return every > 0 && step % every == 0;
}

/* What follows a step: a save when it is due or was asked for, then the end when a stop was. */
static int after_step(struct trainer *trainer, const struct outcome *outcome, bool *ret_stop)
{
    const struct options *options = trainer->options;
    const bool stop = outcome->stop && trainer->step < options->steps;
    const bool wanted = outcome->save || stop || is_due(trainer->step, options->checkpoint_every);
    bool saved = true;
    int code = 0;
    if (is_due(trainer->step, options->eval_every)) {
        code = evaluate(trainer);
    }
    if (code == 0 && wanted && trainer->directory[0] != '\0') {
        code = save(trainer, &saved);
    }
    if (code == 0 && stop && !saved) {
        return -EIO; /* the sentence is that of the failed save */
    }
    *ret_stop = code == 0 && stop;
    return code;
}

static int steps(struct trainer *trainer, bool *ret_stop)
{
    *ret_stop = false;
    while (trainer->step < trainer->options->steps && !*ret_stop) {
        struct outcome outcome = {0};
        int code = train_step(trainer, &outcome);
        if (code == 0) {
            code = after_step(trainer, &outcome, ret_stop);
        }
        if (code < 0) {
            return code;
        }
    }
    return 0;
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* The weights are durable before any rank says that it is done. */
static int finish(struct trainer *trainer)
{
    const struct options *options = trainer->options;
    if (is_master(trainer) && options->output_weights != NULL) {
        const int code = weights_write(options->output_weights, &options->shape,
                                       model_weights(trainer->model), trainer->fail);
        if (code < 0) {
            return code;
        }
    }
    const int code = comm_barrier(everyone(trainer));
    if (code < 0) {
        return fail_comm(trainer, code);
    }
    if (is_master(trainer)) {
        printf("done after step %llu\n", (unsigned long long)trainer->step);
    }
    return 0;
}

static int run(struct trainer *trainer, int *ret_exit)
{
    const struct options *options = trainer->options;
    const size_t window = (size_t)options->shape.context + 1;
    bool stop = false;
    int code = open_save_signals(trainer);
    if (code == 0) {
        code = corpus_load(&trainer->corpus, options->text, options->text_count, window,
                           trainer->fail);
    }
    code = code == 0 ? open_directory(trainer) : code;
    code = code == 0 ? allocate(trainer) : code;
    code = code == 0 ? meet(trainer) : code;
    code = code == 0 ? begin(trainer) : code;
    code = code == 0 ? steps(trainer, &stop) : code;
    if (code == 0 && !stop) {
        code = finish(trainer);
    }
    if (code < 0) {
        return code;
    }
    look_at_commit(trainer, COMMIT_WAIT_MS);
    *ret_exit = stop ? EXIT_RESTART : EXIT_DONE;
    if (!stop) {
        keepstep_finish();
    }
    return 0;
}

static void done(struct trainer *trainer)
{
    if (trainer->comm.backend != NULL) {
        comm_done(&trainer->comm);
    }
    if (trainer->save_signals >= 0) {
        (void)close(trainer->save_signals);
    }
    free(trainer->second);
    free(trainer->first);
    free(trainer->slice_gradients);
    free(trainer->text);
    (void)model_free(trainer->model);
    corpus_done(&trainer->corpus);
}

int train_run(const struct options *options, struct fail *fail, int *ret_exit)
{
    struct trainer *trainer = calloc(1, sizeof(*trainer)); /* the comm's groups point into it */
    if (trainer == NULL) {
        return fail_set(fail, EXIT_LOCAL, -ENOMEM, "no memory");
    }
    trainer->options = options;
    trainer->fail = fail;
    trainer->save_signals = -1;
    /* Without an agent, or with one of another version, every call is a no-op. */
    (void)keepstep_init();
    inject_start(options->inject, options->inject_count, options->rank, options->attempt);
    const int code = run(trainer, ret_exit);
    done(trainer);
    free(trainer);
    return code;
}
