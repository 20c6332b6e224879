/* attach.h: the library's state in a training process: one mapping, one lock, one process.
 *
 * The public calls have no handle, so this is the one place of the product where a library keeps a
 * static: a program is one rank. All fields are guarded by the mutex; `active` may be looked at
 * without it, which is what makes every call free of cost where there is no agent. */
#ifndef KEEPSTEP_RANK_ATTACH_H
#define KEEPSTEP_RANK_ATTACH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/rank/mailbox.h"

/* The callback of keepstep_on_abort and the thread that calls it; see abort.c. */
struct attach_abort {
    void (*callback)(void *argument);
    void *argument;
    bool running; /* the thread was made for this attachment */
    pthread_t thread;
    uint64_t called_below; /* attempts below it need no call any more */
};

struct attach {
    pthread_mutex_t mutex;
    atomic_bool active;
    bool fork_handled;
    struct mailbox_file *file; /* the mapping; NULL when detached */
    int fd;
    uint32_t job;
    uint32_t save_base;
    struct mailbox_order order; /* last good copy */
    uint32_t save_request;      /* last good flags */
    bool stop_request;
    /* steps */
    uint64_t step_begin_us;
    uint64_t step_end_us;
    uint32_t compute_us;
    /* the checkpoint under way */
    uint64_t save_step; /* 0 = none */
    uint32_t save_shards;
    uint64_t save_begin_us;
    uint64_t commit_number; /* request of the last commit, 0 = none */
    uint64_t get_count;     /* for numbers that name their slot */
    /* values told ahead of their step's end; step 0 = none */
    uint64_t loss_step;
    mailbox_real_bits loss;
    uint64_t gradient_step;
    mailbox_real_bits gradient_norm;
    uint64_t generation; /* grows with each detaching */
    struct attach_abort abort;
};

/* Locks and returns the state, or returns NULL, unlocked, when there is no agent. */
struct attach *attach_lock(void);
void attach_unlock(struct attach *attach);

/* keepstep_init and keepstep_finish. */
int attach_open(void);
void attach_close(void);

uint64_t attach_now_us(void); /* CLOCK_MONOTONIC */

/* Around writes to file->status, with the mutex held. */
void attach_status_begin(struct attach *attach);
void attach_status_end(struct attach *attach);

/* Wakes the agent; nothing to do when that fails: it looks each second. */
void attach_ring(struct attach *attach);

/* Forgets what the program told, but not yet as a whole, in an attempt before. */
void attach_attempt_begin(struct attach *attach);

/* Refreshes attach->order and the flags. false: torn just now, the last good copy stays. */
bool attach_order_read(struct attach *attach);
/* The same, but leaves attach->order alone. */
bool attach_order_look(const struct attach *attach, struct mailbox_order *ret_order);
void attach_flags_read(struct attach *attach);
/* The flags as they stand, false: torn just now. */
bool attach_flags_look(const struct attach *attach, struct mailbox_flags *ret_flags);

/* Waits, unlocked, until the agent woke this process after `word` was read from header.wake, or
 * until deadline_us; returns locked again, or NULL when detached meanwhile. Wakes early at will. */
uint32_t attach_wake_word(const struct attach *attach);
struct attach *attach_wait(struct attach *attach, uint32_t word, uint64_t deadline_us);

/* Wakes all waiters of this process: they look again. */
void attach_wake(const struct attach *attach);

#endif
