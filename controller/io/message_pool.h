/* message_pool.h: messages that were used once, for the next ones: a fleet's beats need no allocation
 * each. What a burst needed beyond MESSAGE_POOL_MAX goes back to the system. */
#ifndef KEEPSTEP_IO_MESSAGE_POOL_H
#define KEEPSTEP_IO_MESSAGE_POOL_H

#include "proto/base/message.h"

enum { MESSAGE_POOL_MAX = 256 };

struct message_pool {
    struct message *messages[MESSAGE_POOL_MAX]; /* owned */
    uint32_t count;
};

/* What is in it is of no use: it is to be filled. NULL: the system refuses memory. Owned by the
 * caller, who gives it back or frees it with mem_free. */
struct message *message_pool_take(struct message_pool *pool);
/* Takes a message that message_pool_take() or mem_alloc() made; message_done() is called for it.
 * NULL is fine. */
void message_pool_give(struct message_pool *pool, struct message *message);
void message_pool_done(struct message_pool *pool);

#endif
