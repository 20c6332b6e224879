/* train_save.c: what is kept between attempts: when it is asked for, and where it comes back. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/trainer/pace.h"
#include "agent/trainer/train_state.h"

/* ---- asking --------------------------------------------------------------------------------- */

int train_open_save_signals(struct trainer *trainer)
{
    sigset_t wanted;
    trainer->save_signals = -1;
    if (!train_is_master(trainer)) {
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

bool train_save_signalled(const struct trainer *trainer)
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
        .weights = parameters_whole_elements(model_parameters(trainer->model)),
        .text_size = trainer->corpus.size,
        .text_hash = trainer->corpus.hash,
        .batch = options->batch,
        .seed = options->seed,
    };
    memcpy(head.job, options->job, sizeof(head.job));
    return head;
}

int train_restore(struct trainer *trainer, const struct start *start)
{
    const struct manifest_head head = manifest_head(trainer, start->step, start->attempt);
    telemetry_phase(&trainer->telemetry, KEEPSTEP_RESTORE);
    int code =
        checkpoint_load(&trainer->comm, &head, start->folder, &trainer->state, trainer->fail);
    if (code < 0) {
        return code;
    }
    code = optimizer_load(&trainer->optimizer, &trainer->state);
    if (code < 0) {
        return train_fail(trainer, code);
    }
    trainer->step = start->step;
    if (train_is_master(trainer)) {
        printf("restored step %llu from %s\n", (unsigned long long)start->step, start->folder);
    }
    return 0;
}

/* ---- saving --------------------------------------------------------------------------------- */

void train_look_at_commit(const struct trainer *trainer, uint32_t wait_ms)
{
    char text[KEEPSTEP_TEXT_SIZE] = "";
    if (train_is_master(trainer) && keepstep_checkpoint_result(wait_ms, text) == -ESTALE) {
        fprintf(stderr, "rank 0: a checkpoint was refused: %s\n", text);
    }
}

static int stall_as_ordered(struct trainer *trainer)
{
    const struct options *options = trainer->options;
    const uint32_t ms = inject_stall_ms(options->inject, options->inject_count, options->rank,
                                        options->attempt, trainer->step);
    return ms > 0 ? pace_stretch(&trainer->comm, pace_now_us(), ms, 1.0) : 0;
}

int train_save(struct trainer *trainer, bool *ret_saved)
{
    const uint64_t begun_us = pace_now_us();
    const struct manifest_head head =
        manifest_head(trainer, trainer->step, trainer->options->attempt);
    train_look_at_commit(trainer, 0);
    int code = optimizer_save(&trainer->optimizer, &trainer->state);
    if (code < 0) {
        return train_fail(trainer, code);
    }
    telemetry_phase(&trainer->telemetry, KEEPSTEP_CHECKPOINT);
    code = stall_as_ordered(trainer);
    if (code < 0) {
        return train_fail(trainer, code);
    }
    code =
        checkpoint_save(&trainer->comm, &head, trainer->directory, &trainer->state, trainer->fail);
    if (code < 0 && trainer->fail->exit_code == EXIT_PEER) {
        return code;
    }
    telemetry_phase(&trainer->telemetry, KEEPSTEP_STEP);
    *ret_saved = code == 0;
    if (code < 0) {
        fprintf(stderr, "rank %u: no checkpoint of step %llu, going on: %s\n",
                trainer->options->rank, (unsigned long long)trainer->step, trainer->fail->text);
    } else if (train_is_master(trainer)) {
        printf("checkpoint step %llu attempt %u ms %llu\n", (unsigned long long)trainer->step,
               trainer->options->attempt, (unsigned long long)(pace_now_us() - begun_us) / 1000u);
    }
    return 0;
}
