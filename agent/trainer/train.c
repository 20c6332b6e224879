/* train.c: come together, restore, step, save, end.
 *
 * The order is the same on all ranks; who leaves it early ends the world, since the others meet the
 * broken connection in their next operation. */
#include "agent/trainer/train.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/trainer/abort_order.h"
#include "agent/trainer/backend.h"
#include "agent/trainer/durable.h"
#include "agent/trainer/pipeline.h"
#include "agent/trainer/train_state.h"
#include "agent/trainer/weights.h"

enum { WARMUP_STEPS = 10, COMMIT_WAIT_MS = 2000 };

bool train_is_master(const struct trainer *trainer)
{
    return trainer->options->rank == 0;
}

struct comm_group *train_everyone(struct trainer *trainer)
{
    return comm_group(&trainer->comm, COMM_WORLD);
}

int train_fail(struct trainer *trainer, int code)
{
    char text[FAIL_TEXT_SIZE];
    if (kernel_finish(&trainer->kernel) < 0) {
        kernel_explain(&trainer->kernel, text, sizeof(text));
        return fail_set(trainer->fail, trainer->kernel.backend->exit_code, code, "%s", text);
    }
    comm_explain(&trainer->comm, text, sizeof(text));
    return fail_set(trainer->fail, EXIT_PEER, code, "%s", text);
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
    const int code = backend_comm(options->backend, &who, &options->layout, &trainer->kernel,
                                  keep ? &listener : NULL, trainer->fail, &trainer->comm);
    if (code == 0) {
        if (abort_order_begin(&trainer->comm) < 0) {
            fprintf(stderr, "rank %u: no thread for orders to abort, ignoring\n", options->rank);
        }
        inject_hold_port(listener);
        telemetry_start(&trainer->telemetry, &trainer->comm);
    }
    return code;
}

static int fail_memory(struct trainer *trainer)
{
    return fail_set(trainer->fail, EXIT_LOCAL, -ENOMEM, "no memory for weights and optimizer");
}

static int allocate(struct trainer *trainer)
{
    const struct options *options = trainer->options;
    const struct adam adam = {.rate = options->rate, .warmup_steps = WARMUP_STEPS};
    trainer->window = (size_t)options->shape.context + 1;
    trainer->samples = options->batch / (options->layout.data * options->micros);
    int code = model_create(&trainer->kernel, &trainer->comm, &options->shape, trainer->samples,
                            pipeline_traces(&trainer->comm, options->micros), trainer->fail,
                            &trainer->model);
    if (code < 0) {
        return code;
    }
    trainer->text = malloc(options->micros * trainer->samples * trainer->window);
    code = optimizer_create(&trainer->optimizer, trainer->model, &adam);
    if (code == 0) {
        code = optimizer_state_create(&trainer->optimizer, &trainer->state);
    }
    return trainer->text == NULL || code < 0 ? fail_memory(trainer) : 0;
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

/* Initial weights, and on top of them a checkpoint if there is one to begin from. */
static int begin(struct trainer *trainer)
{
    const struct options *options = trainer->options;
    struct start start;
    if (model_draw(trainer->model, options->seed) < 0) {
        return fail_memory(trainer);
    }
    int code = 0;
    if (options->initial_weights != NULL) {
        code = weights_write(trainer->model, options->initial_weights, trainer->fail);
    }
    if (code < 0) {
        return code;
    }
    code = start_agree(&trainer->comm, options, trainer->directory, trainer->fail, &start);
    if (code == 0 && start.step > options->steps) {
        code = fail_set(trainer->fail, EXIT_BAD_CONFIG, -EINVAL,
                        "step %llu is to be restored, but --steps is %llu",
                        (unsigned long long)start.step, (unsigned long long)options->steps);
    }
    if (code == 0 && train_is_master(trainer)) {
        char works_with[FAIL_TEXT_SIZE];
        backend_describe(options->backend, &trainer->kernel, works_with, sizeof(works_with));
        printf("backend %s\n", works_with);
        printf("job %s attempt %u world %u weights %zu text %zu bytes\n", options->job,
               options->attempt, options->world,
               parameters_whole_elements(model_parameters(trainer->model)), trainer->corpus.size);
    }
    return code == 0 && start.step > 0 ? train_restore(trainer, &start) : code;
}

/* ---- steps ---------------------------------------------------------------------------------- */

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
        code = train_evaluate(trainer);
    }
    if (code == 0 && wanted && trainer->directory[0] != '\0') {
        code = train_save(trainer, &saved);
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
    int code = 0;
    if (options->output_weights != NULL) {
        code = weights_write(trainer->model, options->output_weights, trainer->fail);
    }
    if (code < 0) {
        return code;
    }
    code = comm_barrier(train_everyone(trainer));
    if (code < 0) {
        return train_fail(trainer, code);
    }
    if (train_is_master(trainer)) {
        printf("done after step %llu\n", (unsigned long long)trainer->step);
    }
    return 0;
}

static int run(struct trainer *trainer, int *ret_exit)
{
    const struct options *options = trainer->options;
    const size_t window = (size_t)options->shape.context + 1;
    bool stop = false;
    int code = train_open_save_signals(trainer);
    if (code == 0) {
        code = corpus_load(&trainer->corpus, options->text, options->text_count, window,
                           trainer->fail);
    }
    if (code == 0) {
        code =
            backend_kernel(options->backend, options->local_rank, trainer->fail, &trainer->kernel);
    }
    code = code == 0 ? open_directory(trainer) : code;
    code = code == 0 ? meet(trainer) : code;
    code = code == 0 ? allocate(trainer) : code;
    code = code == 0 ? begin(trainer) : code;
    code = code == 0 ? steps(trainer, &stop) : code;
    if (code == 0 && !stop) {
        code = finish(trainer);
    }
    if (code < 0) {
        return code;
    }
    train_look_at_commit(trainer, COMMIT_WAIT_MS);
    *ret_exit = stop ? EXIT_RESTART : EXIT_DONE;
    if (!stop) {
        keepstep_finish();
    }
    return 0;
}

static void done(struct trainer *trainer)
{
    telemetry_stop(&trainer->comm);
    optimizer_state_done(&trainer->state);
    optimizer_done(&trainer->optimizer);
    (void)model_free(trainer->model);
    abort_order_end();
    if (trainer->comm.backend != NULL) {
        comm_done(&trainer->comm);
    }
    kernel_done(&trainer->kernel);
    if (trainer->save_signals >= 0) {
        (void)close(trainer->save_signals);
    }
    free(trainer->text);
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
