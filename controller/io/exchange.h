/* exchange.h: keys that the ranks of one attempt exchange while they find each other (NCCL ids).
 *
 * A relay, not a decision: nothing here is durable, agents send their puts and open gets again
 * after every new session. Keys belong to one (job, attempt) and are unreadable from any other, so
 * an id of an older attempt can never be used. Whether an attempt is current and whether a rank
 * belongs to the sender is checked by the caller (relay.c). */
#ifndef KEEPSTEP_IO_EXCHANGE_H
#define KEEPSTEP_IO_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"
#include "proto/base/message.h"

struct exchange;

/* All of them over all attempts; a put or get that would pass one is refused with -ENOSPC. */
struct exchange_limits {
    uint32_t attempts;
    uint32_t keys;
    uint32_t waits; /* gets without an answer */
    uint64_t bytes; /* of values */
};
extern const struct exchange_limits exchange_limits_default;

/* An answer for a get. value is borrowed for the call; it may arrive inside exchange_get(). A call
 * for a session that is gone is to be dropped. */
typedef void exchange_answer(void *context, uint64_t session, const struct msg_exchange *value);
typedef bool exchange_test_session(void *context, uint64_t session);
typedef bool exchange_test_attempt(void *context, uint32_t job, uint32_t attempt);

/* alive says which sessions still exist: open gets of others make room when there is none. */
struct exchange *exchange_create(const struct exchange_limits *limits, exchange_answer *answer,
                                 exchange_test_session *alive, void *context);
struct exchange *exchange_free(struct exchange *exchange);

/* Keeps the value and answers all that wait for it. The first value of a key stays: putting it
 * again is 0, putting another one is -EEXIST and changes nothing. */
MUST_CHECK int exchange_put(struct exchange *exchange, const struct msg_exchange *put);
/* Answers at once, or when the key is put. */
MUST_CHECK int exchange_get(struct exchange *exchange, uint64_t session,
                            const struct msg_exchange *get);
/* Drops the keys and open gets of attempts that current() denies. */
void exchange_sweep(struct exchange *exchange, exchange_test_attempt *current, void *context);

struct exchange_figures {
    uint32_t attempts;
    uint32_t keys; /* with a value or waited for */
    uint32_t waits;
    uint64_t bytes;
};
struct exchange_figures exchange_figures(const struct exchange *exchange);

#endif
