/* message_pool_test.c: messages that were used once are given out again, and never more are kept than
 * the pool may. */
#include "tests/lib/test.h"

#include <string.h>

#include "controller/io/message_pool.h"
#include "proto/base/mem.h"

static void test_the_same_again(void **state)
{
    (void)state;
    struct message_pool pool = {.count = 0};
    struct message *first = message_pool_take(&pool);
    struct message *second = message_pool_take(&pool);
    assert_ptr_not_equal(first, second);
    first->kind = 0;
    message_pool_give(&pool, first);
    assert_ptr_equal(message_pool_take(&pool), first);
    first->kind = 0;
    second->kind = 0;
    message_pool_give(&pool, first);
    message_pool_give(&pool, second);
    message_pool_give(&pool, NULL);
    assert_int_equal(pool.count, 2);
    message_pool_done(&pool);
    assert_int_equal(pool.count, 0);
}

static void test_a_burst_goes_back(void **state)
{
    (void)state;
    struct message_pool pool = {.count = 0};
    struct message *messages[MESSAGE_POOL_MAX + 5];
    for (uint32_t i = 0; i < MESSAGE_POOL_MAX + 5; i++) {
        messages[i] = mem_alloc(1, sizeof(*messages[i]));
    }
    for (uint32_t i = 0; i < MESSAGE_POOL_MAX + 5; i++) {
        message_pool_give(&pool, messages[i]);
    }
    assert_int_equal(pool.count, MESSAGE_POOL_MAX);
    message_pool_done(&pool);
}

static void test_refused_memory(void **state)
{
    (void)state;
    struct message_pool pool = {.count = 0};
    mem_fail_at(1);
    assert_null(message_pool_take(&pool));
    mem_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_again),
        cmocka_unit_test(test_a_burst_goes_back),
        cmocka_unit_test(test_refused_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
