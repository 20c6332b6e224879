/* keepstep.h: what a training program may tell Keepstep, and ask it. C, C++ and CUDA.
 *
 * Link with -lkeepstep (`pkg-config --cflags --libs keepstep`). Every call is a harmless no-op that
 * returns 0 (or "nothing") when no agent started the program (no KEEPSTEP_MAILBOX), so the same
 * binary runs anywhere. No call ever blocks training on an agent or a controller that is away,
 * except those that wait by their nature and take a timeout: keepstep_exchange_get,
 * keepstep_next_attempt, keepstep_checkpoint_result. Two lines are enough for a start:
 *
 *     keepstep_init();                    once, early
 *     keepstep_step(n);                   after each step n = 1, 2, 3 …
 *
 * A whole one:
 *
 *     keepstep_init();
 *     keepstep_restore_info(&restore);              where to begin
 *     keepstep_phase(KEEPSTEP_RESTORE); load(restore.directory);
 *     for (n = restore.step + 1; n <= last; n++) {
 *         keepstep_step_begin(n); train(); keepstep_step_end(n);
 *         word = rank == 0 ? keepstep_should_checkpoint() | keepstep_should_stop() << 1 : 0;
 *         broadcast(&word);                         in a collective of the same step
 *         if (word & 1 || n % every == 0) {         every rank saves the same step
 *             keepstep_checkpoint_begin(n, world);
 *             write(path); keepstep_checkpoint_shard(path, bytes, hash);
 *             barrier();
 *             if (rank == 0) { write_manifest();
 *                              keepstep_checkpoint_commit(directory, manifest_hash, parts); }
 *             keepstep_phase(KEEPSTEP_STEP);
 *         }
 *         if (word & 2) return 75;                  a planned stop: restart me, free of charge
 *     }
 *     keepstep_finish();
 *
 * ONE ANSWER FOR ALL RANKS. keepstep_should_checkpoint and keepstep_should_stop mean something on
 * global rank 0 only, and what it is told can change at any moment. Were each rank to ask for
 * itself, some would save step n and others n + 1, and no checkpoint were of one step. So rank 0
 * asks once a step, and every rank acts on what rank 0 was told, in the same step. That broadcast()
 * is, with NCCL (or with any collective that the program has, MPI_Bcast for one):
 *
 *     int word = 0, *device;                        device: cudaMalloc(&device, sizeof(int)), once
 *     if (rank == 0) word = keepstep_should_checkpoint() | keepstep_should_stop() << 1;
 *     cudaMemcpyAsync(device, &word, sizeof(word), cudaMemcpyHostToDevice, stream);
 *     ncclBroadcast(device, device, 1, ncclInt, 0, world_communicator, stream);
 *     cudaMemcpyAsync(&word, device, sizeof(word), cudaMemcpyDeviceToHost, stream);
 *     cudaStreamSynchronize(stream);                word is now the same on every rank
 *
 * and in Python, with keepstep.py:
 *
 *     word = torch.zeros(1, dtype=torch.int32, device=device)
 *     if rank == 0:
 *         word.fill_(keepstep.should_checkpoint() | keepstep.should_stop() << 1)
 *     torch.distributed.broadcast(word, src=0)      # in every step, on every rank
 *     save, stop = bool(word & 1), bool(word & 2)
 *
 * Four bytes a step: where there is an all-reduce of the loss, one more element of it will do.
 *
 * Errors are negative errno values; a program may ignore all of them. Steps are counted from 1.
 * Threads: every function may be called from any thread at any time after keepstep_init returned,
 * but steps begin and end in one order, so one thread should tell them. Not from signal handlers.
 * After fork() the child's calls are no-ops. Exit codes: 0 done, 75 restart (free), 93 never. */
#ifndef KEEPSTEP_H
#define KEEPSTEP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KEEPSTEP_VERSION 1
#define KEEPSTEP_EXPORT  __attribute__((visibility("default")))

enum {
    KEEPSTEP_PATH_SIZE = 512,
    KEEPSTEP_ADDRESS_SIZE = 64,
    KEEPSTEP_TEXT_SIZE = 192,
    KEEPSTEP_KEY_SIZE = 64,    /* with the NUL */
    KEEPSTEP_VALUE_MAX = 4096, /* bytes of one exchanged value */
    KEEPSTEP_PUTS_MAX = 16,    /* keys that one rank may put in one attempt */
    KEEPSTEP_COMMUNICATORS_MAX = 16,
    KEEPSTEP_COMMUNICATOR_NAME_SIZE = 16, /* with the NUL */
    KEEPSTEP_EXIT_RESTART = 75,           /* always restarted, free of budget */
    KEEPSTEP_EXIT_NEVER = 93              /* never restarted */
};

/* Reads KEEPSTEP_MAILBOX and attaches. 0: attached, or no agent; keepstep_attached() tells which.
 * Called again: 0, nothing happens. -EBADMSG, -EPROTO: a mailbox that this library cannot read;
 * everything stays a no-op. Phase becomes KEEPSTEP_INIT. */
KEEPSTEP_EXPORT int keepstep_init(void);
KEEPSTEP_EXPORT int keepstep_attached(void); /* 1 or 0 */
/* Says that the program is done (the exit code still decides) and detaches. A callback of
 * keepstep_on_abort that is under way is waited for; none begins afterwards. keepstep_init may be
 * called again. */
KEEPSTEP_EXPORT void keepstep_finish(void);

/* ---- progress (under 200 ns each) -------------------------------------------------------- */

enum keepstep_phase {
    KEEPSTEP_INIT,
    KEEPSTEP_RESTORE,
    KEEPSTEP_STEP,
    KEEPSTEP_CHECKPOINT,
    KEEPSTEP_EVAL,
    KEEPSTEP_IDLE
};

/* What the program is doing now; each phase has its own limit for hanging. step_begin and step set
 * KEEPSTEP_STEP by themselves, checkpoint_begin sets KEEPSTEP_CHECKPOINT. -EINVAL: no such one. */
KEEPSTEP_EXPORT int keepstep_phase(int phase);
KEEPSTEP_EXPORT int keepstep_step_begin(uint64_t step);
/* Step `step` is complete. Without a step_begin before, it began at the end of the one before. */
KEEPSTEP_EXPORT int keepstep_step_end(uint64_t step);
/* Short form: step_end(step) and step_begin(step + 1) in one. */
KEEPSTEP_EXPORT int keepstep_step(uint64_t step);
/* Compute time of the step under way, device time on a GPU, without waiting for others; before its
 * step_end. Finds stragglers. */
KEEPSTEP_EXPORT int keepstep_step_compute(uint64_t compute_us);
/* The coordinates that the program computed for itself; a difference to the layout is shown. A new
 * attempt begins without. */
KEEPSTEP_EXPORT int keepstep_coordinates(uint32_t tensor, uint32_t context, uint32_t pipeline,
                                         uint32_t data);

/* ---- what finds a sick rank (under 200 ns each) -------------------------------------------- */

/* Loss and gradient norm of a step: before its step_end, or up to 31 steps later, once the device
 * has them. Any number, also one that is none: those are what is looked for. -EINVAL: step 0. */
KEEPSTEP_EXPORT int keepstep_loss(uint64_t step, double loss);
KEEPSTEP_EXPORT int keepstep_gradient_norm(uint64_t step, double gradient_norm);
/* A hash of this rank's parameters after `step`: any function of their bits, the same one on every
 * rank, taken when the ranks of a data parallel group must hold the same ones (after the update or
 * the all-gather, before the next forward). One that differs from its group's is silent corruption.
 * The last 8 are kept. -EINVAL: step 0. */
KEEPSTEP_EXPORT int keepstep_parameter_hash(uint64_t step, uint64_t hash);

/* Which ranks a communicator joins: those that differ from this one in that coordinate alone. */
enum keepstep_axis {
    KEEPSTEP_AXIS_OTHER, /* those that give it the same name */
    KEEPSTEP_AXIS_WORLD, /* all */
    KEEPSTEP_AXIS_TENSOR,
    KEEPSTEP_AXIS_CONTEXT,
    KEEPSTEP_AXIS_PIPELINE,
    KEEPSTEP_AXIS_DATA
};
enum keepstep_operation {
    KEEPSTEP_OPERATION_NONE, /* nothing is enqueued */
    KEEPSTEP_OPERATION_OTHER,
    KEEPSTEP_ALL_REDUCE,
    KEEPSTEP_ALL_GATHER,
    KEEPSTEP_REDUCE_SCATTER,
    KEEPSTEP_BROADCAST,
    KEEPSTEP_REDUCE,
    KEEPSTEP_ALL_TO_ALL,
    KEEPSTEP_SEND,
    KEEPSTEP_RECEIVE,
    KEEPSTEP_BARRIER
};
/* Makes a communicator known; call it once it is made. name: 1..15 printable characters of ASCII,
 * no quote and no backslash. Returns its number for keepstep_collective (0 without an agent), the
 * same for the same name, whose counts then begin again; -ENOSPC: over KEEPSTEP_COMMUNICATORS_MAX;
 * -EINVAL. A new attempt begins with none. */
KEEPSTEP_EXPORT int keepstep_communicator(const char *name, int axis);
/* How far it has come: operations enqueued and operations completed since it was made, what the
 * oldest one is that is not complete (enum keepstep_operation), and of a send or receive the peer's
 * rank in the communicator, else -1. Level state: only the newest call counts, so a program may
 * call it as often, and from whichever thread, as is easy. When a job stands still, this names the
 * rank that the others wait for. -EINVAL: no such communicator, or impossible numbers. */
KEEPSTEP_EXPORT int keepstep_collective(int communicator, uint64_t enqueued, uint64_t completed,
                                        int operation, int32_t peer);

/* ---- ending what hangs ------------------------------------------------------------------ */

/* `callback(argument)` is called, once in an attempt, by a thread of the library as soon as this
 * attempt is over: a newer one is ordered, or another rank has failed and this one may be stuck in
 * a collective that will never end. Made for ncclCommAbort: the collective then fails, and the
 * program either ends or goes on with keepstep_next_attempt. It may call all of this library but
 * keepstep_finish and keepstep_on_abort; signals are blocked in it. Called already for the present
 * attempt: nothing more happens in it. NULL: no callback any more (one that is under way goes on).
 * Stays over attempts. -EAGAIN: no thread could be made. */
typedef void (*keepstep_abort_function)(void *argument);
KEEPSTEP_EXPORT int keepstep_on_abort(keepstep_abort_function callback, void *argument);

/* ---- requests, meaningful on global rank 0 only (0 on all others): pass the answer on in a
 * collective of the same step ------------------------------------------------------------- */

/* 1: save at this step boundary. Stays 1 until rank 0 calls checkpoint_begin. */
KEEPSTEP_EXPORT int keepstep_should_checkpoint(void);
/* 1: stop in good order. When both are 1: save first, then end with KEEPSTEP_EXIT_RESTART. */
KEEPSTEP_EXPORT int keepstep_should_stop(void);

/* ---- checkpoints -------------------------------------------------------------------------- */

enum keepstep_part {
    KEEPSTEP_WEIGHTS = 1,
    KEEPSTEP_OPTIMIZER = 2,
    KEEPSTEP_SCHEDULER = 4,
    KEEPSTEP_DATA = 8, /* the data position */
    KEEPSTEP_RNG = 16
};

/* Every rank, before it writes: a save of `step`, of shard_count shards in all. */
KEEPSTEP_EXPORT int keepstep_checkpoint_begin(uint64_t step, uint32_t shard_count);
/* One shard is durable (fsync, rename) under its final absolute path. hash: 32 lower-case hex
 * digits of XXH3-128, or NULL. */
KEEPSTEP_EXPORT int keepstep_checkpoint_shard(const char *path, uint64_t bytes, const char *hash);
/* Rank 0, when all shards and the manifest are durable. directory: absolute, named step-S.a-A and
 * never used before; manifest_hash as above; parts: bits of enum keepstep_part. Posts and returns;
 * the checkpoint counts once it is accepted. -EINVAL: no begin before, or a bad argument. */
KEEPSTEP_EXPORT int keepstep_checkpoint_commit(const char *directory, const char *manifest_hash,
                                               uint32_t parts);
/* What became of the last commit: 1 accepted, 0 no answer within timeout_ms (0: just look),
 * -ESTALE refused (a newer attempt exists; ret_text says why), -ENOENT none. ret_text:
 * KEEPSTEP_TEXT_SIZE bytes, or NULL. Without an agent: 1. */
KEEPSTEP_EXPORT int keepstep_checkpoint_result(uint32_t timeout_ms, char *ret_text);
/* Short form for programs that save in one file or folder by themselves: begin, commit of `path`
 * with unknown hash, phase back to step. On rank 0. */
KEEPSTEP_EXPORT int keepstep_checkpoint_done(uint64_t step, const char *path);

struct keepstep_restore {
    uint32_t attempt; /* the current one */
    uint32_t rank, world, local_rank, local_world;
    uint32_t tensor_rank, context_rank, pipeline_rank, data_rank;
    uint32_t tensor, context, pipeline, data; /* sizes */
    uint32_t master_port;
    char master_address[KEEPSTEP_ADDRESS_SIZE];
    uint64_t step; /* the checkpoint's; 0: begin from the beginning */
    uint32_t checkpoint_attempt;
    char directory[KEEPSTEP_PATH_SIZE];            /* to restore from; "" when step is 0 */
    char checkpoint_directory[KEEPSTEP_PATH_SIZE]; /* parent of new ones; "" when unknown */
};
/* 1: filled in. 0: no agent; *ret_restore is zeroed (attempt 0, step 0, world 0). -EAGAIN: the
 * agent is just writing it and does not come to an end (it died there): again later. */
KEEPSTEP_EXPORT int keepstep_restore_info(struct keepstep_restore *ret_restore);
/* For programs that stay alive over a recovery: waits for an attempt above the current one, makes
 * it current (which acknowledges it: call it only after communicators are aborted and the device is
 * synchronised), and fills in *ret_restore. 1, or 0 at the timeout (no agent: at once). */
KEEPSTEP_EXPORT int keepstep_next_attempt(uint32_t timeout_ms,
                                          struct keepstep_restore *ret_restore);

/* ---- keys between the ranks of one attempt ------------------------------------------------- */

/* Gives `value` to all ranks of this attempt under `key` (1..63 printable characters). The same
 * again is 0; -EEXIST: another value under this key; -ENOSPC: over KEEPSTEP_PUTS_MAX; -EMSGSIZE. */
KEEPSTEP_EXPORT int keepstep_exchange_put(const char *key, const void *value, size_t size);
/* Waits for a value of this attempt that any rank puts. 0: *ret_size bytes are in ret_value.
 * -ETIMEDOUT: not yet, ask again; -EMSGSIZE: capacity too small; -EBUSY: 16 others are waiting;
 * -ENOTCONN: no agent. */
KEEPSTEP_EXPORT int keepstep_exchange_get(const char *key, void *ret_value, size_t capacity,
                                          size_t *ret_size, uint32_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
