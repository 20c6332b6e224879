/* fake_controller.h: the other end of an agent, for tests: welcomes it, repeats what it should be
 * told in every new session, and keeps the newest of everything that it says.
 *
 * One thread, blocking with deadlines. No decisions: a test says what is desired and waits for what
 * it expects. */
#ifndef KEEPSTEP_TESTS_FAKE_CONTROLLER_H
#define KEEPSTEP_TESTS_FAKE_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/base/message.h"
#include "proto/wire/frame.h"

enum { FAKE_DESIRED_MAX = 8, FAKE_MESSAGES_MAX = 256, FAKE_SAVES_MAX = 16, FAKE_FACTS_MAX = 512 };

struct fake_controller {
    int listen_fd;
    uint16_t port;
    int fd; /* of the agent's connection, -1: none */
    bool welcomed;
    struct frame_reader reader;
    char cluster_id[CLUSTER_ID_SIZE];
    uint64_t term;
    bool ack; /* ends and facts are acknowledged; default true */
    uint64_t sequence;
    uint32_t desired_count; /* told again in every session, newest of each job */
    struct msg_desired desired[FAKE_DESIRED_MAX];
    /* what the agent said */
    uint32_t sessions;
    uint32_t connects;
    struct msg_hello hello;
    struct msg_beat beat;
    uint32_t beats;
    struct msg_goodbye goodbye;
    bool has_goodbye;
    uint32_t ends;       /* rank_ends received */
    uint32_t fact_count; /* different ones */
    struct fact facts[FAKE_FACTS_MAX];
    uint32_t facts_heard; /* with repetitions */
    uint64_t beat_ms;     /* when the last beat came */
    uint64_t beat_gap_ms; /* the longest between two since a test set it to 0 */
    struct msg_check_result check;
    bool has_check;
    struct msg_validated validated; /* the last */
    uint32_t validations;
    struct msg_peer_said said;
    bool has_said;
    struct msg_checkpoint checkpoint;
    uint32_t checkpoints;
    uint32_t exchanges;
    struct msg_exchange exchange;
    char log[4096];
    int32_t log_error;
    bool has_log;
    uint32_t save_count; /* of the answer to the last msg_save_ask */
    struct msg_save_said saves[FAKE_SAVES_MAX];
    uint32_t save_progress;
    bool has_save_done;
    struct msg_save_said save_done;
};

void fake_open(struct fake_controller *fake);
void fake_close(struct fake_controller *fake);

/* Level: kept, and sent now when there is a session. sequence, term and cluster are filled in. */
void fake_desire(struct fake_controller *fake, const struct msg_desired *desired);
/* Sent once, as it is, when there is a session. */
void fake_send(struct fake_controller *fake, const struct message *message);
void fake_hang_up(struct fake_controller *fake);

/* Takes what comes for ms, or until wanted says true (NULL: the whole time). */
typedef bool fake_wanted(const struct fake_controller *fake, void *context);
bool fake_wait(struct fake_controller *fake, fake_wanted *wanted, void *context, uint64_t ms);

/* In the newest of beat and hello: the report of (job, attempt), or NULL. */
const struct attempt_report *fake_report(const struct fake_controller *fake, uint32_t job,
                                         uint32_t attempt);

/* The newest fact of this signal, NULL: there was none. */
const struct fact *fake_fact(const struct fake_controller *fake, const char *signal);

uint64_t fake_now_ms(void);

#endif
