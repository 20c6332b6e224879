/* message_pool.c: a stack of them. */
#include "controller/io/message_pool.h"

#include "proto/base/mem.h"
#include "proto/wire/wire.h"

struct message *message_pool_take(struct message_pool *pool)
{
    return pool->count > 0 ? pool->messages[--pool->count] : mem_try(1, sizeof(struct message));
}

void message_pool_give(struct message_pool *pool, struct message *message)
{
    if (message == NULL) {
        return;
    }
    message_done(message);
    if (pool->count < MESSAGE_POOL_MAX) {
        pool->messages[pool->count++] = message;
    } else {
        (void)mem_free(message);
    }
}

void message_pool_done(struct message_pool *pool)
{
    while (pool->count > 0) {
        (void)mem_free(pool->messages[--pool->count]);
    }
}
