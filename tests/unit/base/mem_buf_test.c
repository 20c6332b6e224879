/* mem_buf_test.c: allocation that fails on demand, and a buffer that never passes its maximum. */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "proto/base/buf.h"
#include "proto/base/mem.h"
#include "tests/lib/aborts.h"

static void memory_is_zeroed(void **state)
{
    (void)state;
    uint8_t *bytes = mem_alloc(1000, 3);
    for (size_t index = 0; index < 3000; index++) {
        assert_int_equal(bytes[index], 0);
    }
    bytes = mem_free(bytes);
    assert_null(bytes);
    assert_null(mem_free(NULL));
}

static void nothing_is_something(void **state)
{
    (void)state;
    void *none = mem_alloc(0, 8);
    void *also_none = mem_try(8, 0);
    assert_non_null(none);
    assert_non_null(also_none);
    (void)mem_free(none);
    (void)mem_free(also_none);
}

static void overflow_is_refused(void **state)
{
    (void)state;
    assert_null(mem_try(SIZE_MAX / 2, 3));
}

static void alloc_too_much(void *context)
{
    (void)context;
    (void)mem_alloc(SIZE_MAX / 2, 3);
}

static void grow_too_much(void *context)
{
    (void)mem_grow(context, SIZE_MAX / 2, 3);
}

static void alloc_aborts(void **state)
{
    (void)state;
    assert_true(aborts(alloc_too_much, NULL));
    assert_true(aborts(grow_too_much, NULL));
}

static void the_nth_try_fails(void **state)
{
    (void)state;
    mem_fail_at(3);
    for (unsigned number = 1; number <= 5; number++) {
        void *memory = mem_try(1, 16);
        assert_int_equal(memory == NULL, number == 3);
        (void)mem_free(memory);
    }
    mem_fail_at(1);
    mem_fail_at(0); /* taken back */
    void *memory = mem_try(1, 16);
    assert_non_null(memory);
    (void)mem_free(memory);
}

static char *keep_one(void)
{
    CLEANUP_FREE char *kept = mem_strdup("kept");
    CLEANUP_FREE char *dropped = mem_strdup("dropped");
    assert_string_equal(dropped, "dropped");
    return TAKE(kept);
}

static void cleanup_and_take(void **state)
{
    (void)state;
    char *kept = keep_one(); /* the address sanitizer watches both */
    assert_string_equal(kept, "kept");
    kept = mem_grow(kept, 100, 1);
    assert_string_equal(kept, "kept");
    (void)mem_free(kept);
}

static void buffer_grows_to_its_maximum(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 1000);
    for (unsigned round = 0; round < 100; round++) {
        assert_int_equal(buf_put(&buf, "0123456789", 10), 0);
    }
    assert_int_equal(buf.size, 1000);
    assert_int_equal(buf_put(&buf, "", 0), 0);
    assert_int_equal(buf_put(&buf, "x", 1), -EMSGSIZE);
    assert_true(buf.overflow);
    assert_int_equal(buf.size, 1000);
    assert_int_equal(strlen(buf_text(&buf)), 1000);
    assert_true(buf.capacity <= 1001);
    buf_done(&buf);
}

static void overflow_sticks(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 8);
    assert_int_equal(buf_put(&buf, "abc", 3), 0);
    assert_int_equal(buf_printf(&buf, "%s", "123456"), -EMSGSIZE);
    assert_string_equal(buf_text(&buf), "abc");
    assert_int_equal(buf_put(&buf, "d", 1), -EMSGSIZE); /* would fit, but the text has a hole */
    assert_int_equal(buf_put(&buf, "", 0), -EMSGSIZE);
    buf_clear(&buf);
    assert_int_equal(buf_printf(&buf, "%d-%s", 42, "abcde"), 0);
    assert_string_equal(buf_text(&buf), "42-abcde");
    assert_int_equal(buf_put(&buf, NULL, SIZE_MAX), -EMSGSIZE);
    buf_done(&buf);
    buf_done(NULL);
}

static void bytes_leave_at_the_front(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 100);
    assert_string_equal(buf_text(&buf), "");
    assert_int_equal(buf_put(&buf, "hello world", 11), 0);
    buf_consume(&buf, 6);
    assert_string_equal(buf_text(&buf), "world");
    buf_consume(&buf, 0);
    buf_consume(&buf, 5);
    assert_string_equal(buf_text(&buf), "");
    buf_done(&buf);
}

static void take_gives_the_memory_away(void **state)
{
    (void)state;
    struct buf buf;
    size_t size = 99;
    buf_init(&buf, 100);
    char *empty = buf_take(&buf, &size);
    assert_string_equal(empty, "");
    assert_int_equal(size, 0);
    (void)mem_free(empty);
    assert_int_equal(buf_put(&buf, "a\0b", 3), 0);
    char *taken = buf_take(&buf, &size);
    assert_int_equal(size, 3);
    assert_memory_equal(taken, "a\0b", 4);
    assert_null(buf.data);
    assert_int_equal(buf_put(&buf, "again", 5), 0); /* still usable */
    buf_done(&buf);
    (void)mem_free(taken);
}

static void consume_too_much(void *context)
{
    buf_consume(context, 1);
}

static void consuming_too_much_is_our_mistake(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 100);
    assert_true(aborts(consume_too_much, &buf));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed),
        cmocka_unit_test(nothing_is_something),
        cmocka_unit_test(overflow_is_refused),
        cmocka_unit_test(alloc_aborts),
        cmocka_unit_test(the_nth_try_fails),
        cmocka_unit_test(cleanup_and_take),
        cmocka_unit_test(buffer_grows_to_its_maximum),
        cmocka_unit_test(overflow_sticks),
        cmocka_unit_test(bytes_leave_at_the_front),
        cmocka_unit_test(take_gives_the_memory_away),
        cmocka_unit_test(consuming_too_much_is_our_mistake),
    };
    return cmocka_run_group_tests_name("mem and buf", tests, NULL, NULL);
}
