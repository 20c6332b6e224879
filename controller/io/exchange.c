/* exchange.c: one table an attempt, in it one binary tree (tsearch) of keys; a key has its value or
 * the list of those who wait for it, never both. */
#include "controller/io/exchange.h"

#include <errno.h>
#include <search.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

const struct exchange_limits exchange_limits_default = {
    .attempts = 128,
    .keys = 131072, /* 16,384 ranks with 8 communicators each */
    .waits = 262144,
    .bytes = 64ull << 20,
};

struct wait {
    struct wait *next;
    uint64_t session;
    uint32_t rank;
};

struct key {
    char name[EXCHANGE_KEY_SIZE]; /* first: compared by tsearch */
    struct key *next;             /* of the table: for the walk that frees */
    struct wait *waits;
    bool has_value;
    uint32_t rank; /* who put it */
    uint32_t size;
    uint8_t *value;
};

struct table {
    struct table *next;
    uint32_t job;
    uint32_t attempt;
    void *tree;
    struct key *keys;
};

struct exchange {
    struct exchange_limits limits;
    struct exchange_figures used;
    exchange_answer *answer;
    exchange_test_session *alive;
    void *context;
    struct table *tables;
};

struct exchange *exchange_create(const struct exchange_limits *limits, exchange_answer *answer,
                                 exchange_test_session *alive, void *context)
{
    struct exchange *exchange = mem_alloc(1, sizeof(*exchange));
    exchange->limits = *limits;
    exchange->answer = answer;
    exchange->alive = alive;
    exchange->context = context;
    return exchange;
}

static int key_order(const void *a, const void *b)
{
    return strcmp(((const struct key *)a)->name, ((const struct key *)b)->name);
}

static void waits_free(struct exchange *exchange, struct key *key)
{
    while (key->waits != NULL) {
        struct wait *wait = key->waits;
        key->waits = wait->next;
        (void)mem_free(wait);
        exchange->used.waits--;
    }
}

static void table_free(struct exchange *exchange, struct table *table)
{
    while (table->keys != NULL) {
        struct key *key = table->keys;
        table->keys = key->next;
        waits_free(exchange, key);
        CHECK(tdelete(key, &table->tree, key_order) != NULL);
        exchange->used.bytes -= key->size;
        exchange->used.keys--;
        (void)mem_free(key->value);
        (void)mem_free(key);
    }
    exchange->used.attempts--;
    (void)mem_free(table);
}

struct exchange *exchange_free(struct exchange *exchange)
{
    if (exchange == NULL) {
        return NULL;
    }
    while (exchange->tables != NULL) {
        struct table *table = exchange->tables;
        exchange->tables = table->next;
        table_free(exchange, table);
    }
    return mem_free(exchange);
}

void exchange_sweep(struct exchange *exchange, exchange_test_attempt *current, void *context)
{
    struct table **link = &exchange->tables;
    while (*link != NULL) {
        struct table *table = *link;
        if (current(context, table->job, table->attempt)) {
            link = &table->next;
        } else {
            *link = table->next;
            table_free(exchange, table);
        }
    }
}

struct exchange_figures exchange_figures(const struct exchange *exchange)
{
    return exchange->used;
}

/* ---- finding and making -------------------------------------------------------------------- */

static struct table *table_of(struct exchange *exchange, uint32_t job, uint32_t attempt)
{
    for (struct table *table = exchange->tables; table != NULL; table = table->next) {
        if (table->job == job && table->attempt == attempt) {
            return table;
        }
    }
    if (exchange->used.attempts >= exchange->limits.attempts) {
        return NULL;
    }
    struct table *table = mem_alloc(1, sizeof(*table));
    table->job = job;
    table->attempt = attempt;
    table->next = exchange->tables;
    exchange->tables = table;
    exchange->used.attempts++;
    return table;
}

/* The key, made when there is none; NULL at the limit. */
static struct key *key_of(struct exchange *exchange, const struct msg_exchange *message)
{
    struct table *table = table_of(exchange, message->job, message->attempt);
    if (table == NULL) {
        return NULL;
    }
    struct key wanted = {.waits = NULL};
    (void)text_copy(wanted.name, sizeof(wanted.name), message->key); /* same size on both sides */
    void *found = tfind(&wanted, &table->tree, key_order);
    if (found != NULL) {
        return *(struct key **)found;
    }
    if (exchange->used.keys >= exchange->limits.keys) {
        return NULL;
    }
    struct key *key = mem_alloc(1, sizeof(*key));
    *key = wanted;
    if (tsearch(key, &table->tree, key_order) == NULL) {
        (void)mem_free(key);
        return NULL;
    }
    key->next = table->keys;
    table->keys = key;
    exchange->used.keys++;
    return key;
}

/* ---- put and get --------------------------------------------------------------------------- */

static void answer(struct exchange *exchange, const struct msg_exchange *asked,
                   const struct key *key, uint64_t session, uint32_t rank)
{
    struct msg_exchange value = {
        .kind = EXCHANGE_VALUE,
        .job = asked->job,
        .attempt = asked->attempt,
        .rank = rank,
        .size = key->size,
    };
    memcpy(value.key, key->name, sizeof(value.key));
    memcpy(value.value, key->value, key->size);
    exchange->answer(exchange->context, session, &value);
}

int exchange_put(struct exchange *exchange, const struct msg_exchange *put)
{
    CHECK(put->size <= EXCHANGE_VALUE_MAX);
    if (exchange->used.bytes + put->size > exchange->limits.bytes) {
        return -ENOSPC;
    }
    struct key *key = key_of(exchange, put);
    if (key == NULL) {
        return -ENOSPC;
    }
    if (key->has_value) {
        bool same = key->size == put->size && memcmp(key->value, put->value, put->size) == 0;
        return same ? 0 : -EEXIST;
    }
    key->value = mem_alloc(1, put->size + 1);
    memcpy(key->value, put->value, put->size);
    key->size = put->size;
    key->rank = put->rank;
    key->has_value = true;
    exchange->used.bytes += put->size;
    for (const struct wait *wait = key->waits; wait != NULL; wait = wait->next) {
        answer(exchange, put, key, wait->session, wait->rank);
    }
    waits_free(exchange, key);
    return 0;
}

/* Forgets the open gets of sessions that are gone: their agents ask again on the new session. */
static void drop_dead_waits(struct exchange *exchange)
{
    for (struct table *table = exchange->tables; table != NULL; table = table->next) {
        for (struct key *key = table->keys; key != NULL; key = key->next) {
            struct wait **link = &key->waits;
            while (*link != NULL) {
                struct wait *wait = *link;
                if (exchange->alive(exchange->context, wait->session)) {
                    link = &wait->next;
                } else {
                    *link = wait->next;
                    (void)mem_free(wait);
                    exchange->used.waits--;
                }
            }
        }
    }
}

int exchange_get(struct exchange *exchange, uint64_t session, const struct msg_exchange *get)
{
    struct key *key = key_of(exchange, get);
    if (key == NULL) {
        return -ENOSPC;
    }
    if (key->has_value) {
        answer(exchange, get, key, session, get->rank);
        return 0;
    }
    if (exchange->used.waits >= exchange->limits.waits) {
        drop_dead_waits(exchange);
        if (exchange->used.waits >= exchange->limits.waits) {
            return -ENOSPC;
        }
    }
    struct wait *wait = mem_alloc(1, sizeof(*wait));
    wait->session = session;
    wait->rank = get->rank;
    wait->next = key->waits;
    key->waits = wait;
    exchange->used.waits++;
    return 0;
}
