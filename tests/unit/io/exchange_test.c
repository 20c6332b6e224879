/* exchange_test.c: keys reach those who wait for them, of their own attempt and of no other. */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include "controller/io/exchange.h"
#include "proto/base/text.h"

enum { ANSWERS_MAX = 64 };

struct seen {
    uint64_t session;
    struct msg_exchange value;
};

struct bench {
    struct exchange *exchange;
    struct seen seen[ANSWERS_MAX];
    uint32_t count;
    uint64_t dead;    /* this session is gone */
    uint32_t attempt; /* the current one */
};

static void answer_cb(void *context, uint64_t session, const struct msg_exchange *value)
{
    struct bench *bench = context;
    assert_true(bench->count < ANSWERS_MAX);
    bench->seen[bench->count] = (struct seen){session, *value};
    bench->count++;
}

static bool alive_cb(void *context, uint64_t session)
{
    const struct bench *bench = context;
    return session != bench->dead;
}

static bool current_cb(void *context, uint32_t job, uint32_t attempt)
{
    const struct bench *bench = context;
    return job == 1 && attempt == bench->attempt;
}

static void begin(struct bench *bench, const struct exchange_limits *limits)
{
    memset(bench, 0, sizeof(*bench));
    bench->exchange = exchange_create(limits, answer_cb, alive_cb, bench);
}

static struct msg_exchange ask(int kind, uint32_t attempt, uint32_t rank, const char *key,
                               const char *value)
{
    struct msg_exchange message = {.job = 1, .attempt = attempt, .rank = rank};
    message.kind = kind == EXCHANGE_PUT ? EXCHANGE_PUT : EXCHANGE_GET;
    message.size = (uint32_t)strlen(value);
    memcpy(message.value, value, message.size);
    assert_true(text_copy(message.key, sizeof(message.key), key));
    return message;
}

static int put(struct bench *bench, uint32_t attempt, const char *key, const char *value)
{
    struct msg_exchange message = ask(EXCHANGE_PUT, attempt, 0, key, value);
    return exchange_put(bench->exchange, &message);
}

static int get(struct bench *bench, uint64_t session, uint32_t attempt, uint32_t rank,
               const char *key)
{
    struct msg_exchange message = ask(EXCHANGE_GET, attempt, rank, key, "");
    return exchange_get(bench->exchange, session, &message);
}

static void test_get_after_put(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, &exchange_limits_default);
    assert_int_equal(put(&bench, 3, "nccl/0", "abc"), 0);
    assert_int_equal(bench.count, 0);
    assert_int_equal(get(&bench, 70, 3, 5, "nccl/0"), 0);
    assert_int_equal(bench.count, 1);
    assert_int_equal(bench.seen[0].session, 70);
    assert_int_equal(bench.seen[0].value.kind, EXCHANGE_VALUE);
    assert_int_equal(bench.seen[0].value.rank, 5);
    assert_int_equal(bench.seen[0].value.attempt, 3);
    assert_int_equal(bench.seen[0].value.size, 3);
    assert_memory_equal(bench.seen[0].value.value, "abc", 3);
    (void)exchange_free(bench.exchange);
}

static void test_get_waits_for_put(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, &exchange_limits_default);
    for (uint32_t rank = 0; rank < 10; rank++) {
        assert_int_equal(get(&bench, 100 + rank, 3, rank, "k"), 0);
    }
    assert_int_equal(exchange_figures(bench.exchange).waits, 10);
    assert_int_equal(put(&bench, 3, "other", "x"), 0);
    assert_int_equal(bench.count, 0);
    assert_int_equal(put(&bench, 3, "k", ""), 0); /* an empty value is a value */
    assert_int_equal(bench.count, 10);
    assert_int_equal(exchange_figures(bench.exchange).waits, 0);
    uint32_t ranks = 0;
    for (uint32_t index = 0; index < 10; index++) {
        assert_int_equal(bench.seen[index].session, 100 + bench.seen[index].value.rank);
        ranks |= 1u << bench.seen[index].value.rank;
    }
    assert_int_equal(ranks, 1023);
    (void)exchange_free(bench.exchange);
}

/* An id of an older attempt must never reach the ranks of a newer one, nor the other way round. */
static void test_attempts_are_apart(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, &exchange_limits_default);
    assert_int_equal(put(&bench, 3, "k", "old"), 0);
    assert_int_equal(get(&bench, 1, 4, 0, "k"), 0);
    assert_int_equal(bench.count, 0);
    assert_int_equal(put(&bench, 4, "k", "new"), 0);
    assert_int_equal(bench.count, 1);
    assert_memory_equal(bench.seen[0].value.value, "new", 3);
    bench.attempt = 4;
    exchange_sweep(bench.exchange, current_cb, &bench);
    assert_int_equal(exchange_figures(bench.exchange).attempts, 1);
    assert_int_equal(exchange_figures(bench.exchange).bytes, 3);
    assert_int_equal(get(&bench, 1, 3, 0, "k"), 0);
    assert_int_equal(bench.count, 1); /* the old value is gone */
    bench.attempt = 5;
    exchange_sweep(bench.exchange, current_cb, &bench);
    struct exchange_figures figures = exchange_figures(bench.exchange);
    assert_int_equal(figures.attempts + figures.keys + figures.waits, 0);
    assert_int_equal(figures.bytes, 0);
    (void)exchange_free(bench.exchange);
}

static void test_first_value_stays(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench, &exchange_limits_default);
    assert_int_equal(put(&bench, 1, "k", "one"), 0);
    assert_int_equal(put(&bench, 1, "k", "one"), 0);
    assert_int_equal(put(&bench, 1, "k", "two"), -EEXIST);
    assert_int_equal(put(&bench, 1, "k", "on"), -EEXIST);
    assert_int_equal(get(&bench, 1, 1, 0, "k"), 0);
    assert_memory_equal(bench.seen[0].value.value, "one", 3);
    (void)exchange_free(bench.exchange);
}

static void test_limits(void **state)
{
    (void)state;
    struct bench bench;
    const struct exchange_limits limits = {.attempts = 2, .keys = 3, .waits = 2, .bytes = 10};
    begin(&bench, &limits);
    assert_int_equal(put(&bench, 1, "a", "12345678901"), -ENOSPC); /* bytes */
    assert_int_equal(put(&bench, 1, "a", "1234567890"), 0);
    assert_int_equal(put(&bench, 1, "b", "1"), -ENOSPC);
    assert_int_equal(get(&bench, 7, 1, 0, "b"), 0);
    assert_int_equal(get(&bench, 8, 1, 1, "b"), 0);
    assert_int_equal(get(&bench, 9, 1, 2, "b"), -ENOSPC); /* waits */
    bench.dead = 7;
    assert_int_equal(get(&bench, 9, 1, 2, "b"), 0); /* a dead session's place */
    assert_int_equal(get(&bench, 9, 1, 2, "c"), -ENOSPC);
    assert_int_equal(exchange_figures(bench.exchange).keys, 3);
    assert_int_equal(get(&bench, 9, 1, 2, "d"), -ENOSPC); /* keys */
    assert_int_equal(put(&bench, 2, "a", ""), -ENOSPC);
    assert_int_equal(put(&bench, 3, "a", ""), -ENOSPC); /* attempts */
    (void)exchange_free(bench.exchange);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get_after_put),
        cmocka_unit_test(test_get_waits_for_put),
        cmocka_unit_test(test_attempts_are_apart),
        cmocka_unit_test(test_first_value_stays),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
