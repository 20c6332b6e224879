/* duration_test.c: times and sizes at the edges of their grammar. */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "proto/base/check.h"
#include "proto/base/duration.h"
#include "proto/base/prng.h"

static void good_durations(void **state)
{
    (void)state;
    const struct {
        const char *text;
        uint64_t ms;
    } cases[] = {
        {"0", 0},          {"0s", 0},
        {"250ms", 250},    {"90s", 90000},
        {"10m", 600000},   {"1h30m", 5400000},
        {"7d", 604800000}, {"4.2s", 4200},
        {"8m03s", 483000}, {"1.5h", 5400000},
        {"0.001s", 1},     {"1d1h1m1s1ms", 90061001},
        {"2m28s", 148000}, {"36525d", 3155760000000},
    };
    for (size_t index = 0; index < ARRAY_SIZE(cases); index++) {
        uint64_t ms = 99;
        assert_int_equal(duration_parse(cases[index].text, &ms, NULL), 0);
        assert_int_equal(ms, cases[index].ms);
    }
}

static void bad_durations(void **state)
{
    (void)state;
    const char *const cases[] = {
        "",     "10",   "1",    "s",    "-1s",   "+1s",    " 1s",  "1s ",
        "1 s",  "1S",   "1sec", "1m1h", "1s1s",  "1.s",    ".5s",  "1.0005s",
        "1e3s", "1h30", "1w",   "00",   "1ms1s", "1.2.3s", "0x1s", "1,5s",
    };
    for (size_t index = 0; index < ARRAY_SIZE(cases); index++) {
        uint64_t ms = 99;
        struct err err = {.code = 0};
        assert_int_equal(duration_parse(cases[index], &ms, &err), -EINVAL);
        assert_int_equal(ms, 99);
        assert_non_null(strstr(err.text, "not a duration"));
    }
    const char *const large[] = {"36526d", "99999999999999999999s", "36525d1ms",
                                 "18446744073709551615d", "1.0000001s"};
    for (size_t index = 0; index < ARRAY_SIZE(large); index++) {
        uint64_t ms = 99;
        assert_int_equal(duration_parse(large[index], &ms, NULL), -ERANGE);
        assert_int_equal(ms, 99);
    }
}

static void sizes(void **state)
{
    (void)state;
    const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"0", 0},
        {"4096", 4096},
        {"4096B", 4096},
        {"64KiB", 65536},
        {"1GiB", 1073741824},
        {"10MB", 10000000},
        {"1kB", 1000},
        {"1.5GiB", 1610612736},
        {"16383PiB", 16383ull << 50},
        {"18446744073709551615", UINT64_MAX},
    };
    uint64_t bytes = 99;
    for (size_t index = 0; index < ARRAY_SIZE(cases); index++) {
        assert_int_equal(size_parse(cases[index].text, &bytes, NULL), 0);
        assert_int_equal(bytes, cases[index].bytes);
    }
    bytes = 99;
    const char *const bad[] = {"", "KiB", "1 KiB", "1kib", "-1", "1K", "1.5", "1GiB1MiB", "0.3KiB"};
    for (size_t index = 0; index < ARRAY_SIZE(bad); index++) {
        struct err err = {.code = 0};
        assert_int_equal(size_parse(bad[index], &bytes, &err), -EINVAL);
        assert_non_null(strstr(err.text, "not a size"));
    }
    assert_int_equal(size_parse("16384PiB", &bytes, NULL), -ERANGE);
    assert_int_equal(size_parse("18446744073709551616", &bytes, NULL), -ERANGE);
    assert_int_equal(bytes, 99);
}

static void durations_are_shown_in_two_units(void **state)
{
    (void)state;
    const struct {
        uint64_t ms;
        const char *text;
    } cases[] = {
        {0, "0s"},
        {1, "1ms"},
        {850, "850ms"},
        {999, "999ms"},
        {1000, "1s"},
        {1099, "1s"},
        {4250, "4.2s"},
        {38000, "38s"},
        {59999, "59.9s"},
        {60000, "1m"},
        {148000, "2m28s"},
        {483000, "8m03s"},
        {3599999, "59m59s"},
        {3600000, "1h"},
        {9960000, "2h46m"},
        {86399999, "23h59m"},
        {86400000, "1d"},
        {788400000, "9d03h"},
        {3155760000000, "36525d"},
    };
    for (size_t index = 0; index < ARRAY_SIZE(cases); index++) {
        char text[DURATION_TEXT_SIZE];
        duration_format(cases[index].ms, text);
        assert_string_equal(text, cases[index].text);
    }
}

static void what_is_shown_reads_back(void **state)
{
    (void)state;
    struct prng prng;
    prng_seed(&prng, 21);
    for (unsigned round = 0; round < 10000; round++) {
        uint64_t ms = prng_next(&prng) >> (24 + prng_below(&prng, 40));
        if (ms > 3155760000000ull) {
            continue;
        }
        char text[DURATION_TEXT_SIZE];
        uint64_t read_ms = 0;
        duration_format(ms, text);
        assert_int_equal(duration_parse(text, &read_ms, NULL), 0);
        assert_true(read_ms <= ms);                 /* cut, never rounded up */
        assert_true(ms - read_ms < ms / 23 + 1000); /* by less than the second unit */
        char again[DURATION_TEXT_SIZE];
        duration_format(read_ms, again);
        assert_string_equal(again, text);
    }
}

static void times(void **state)
{
    (void)state;
    char text[TIME_TEXT_SIZE];
    time_format(0, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000Z");
    time_format(951782400000ull, text); /* the leap day of a year divisible by 400 */
    assert_string_equal(text, "2000-02-29T00:00:00.000Z");
    time_format(4107542399999ull, text); /* 2100 has none */
    assert_string_equal(text, "2100-02-28T23:59:59.999Z");
    time_format(4107542400000ull, text);
    assert_string_equal(text, "2100-03-01T00:00:00.000Z");
    time_format(1795973341250ull, text);
    assert_string_equal(text, "2026-11-29T17:29:01.250Z");
    time_format(UINT64_MAX, text); /* absurd, but it must fit */
    assert_true(strlen(text) < TIME_TEXT_SIZE);
}

static void times_agree_with_libc(void **state)
{
    (void)state;
    struct prng prng;
    prng_seed(&prng, 22);
    for (unsigned round = 0; round < 20000; round++) {
        uint64_t seconds = prng_below(&prng, 253402300800ull); /* up to the year 9999 */
        time_t moment = (time_t)seconds;
        struct tm parts;
        char expected[TIME_TEXT_SIZE];
        char text[TIME_TEXT_SIZE];
        assert_non_null(gmtime_r(&moment, &parts));
        assert_true(strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%S.000Z", &parts) > 0);
        time_format(seconds * 1000, text);
        assert_string_equal(text, expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_durations),
        cmocka_unit_test(bad_durations),
        cmocka_unit_test(sizes),
        cmocka_unit_test(durations_are_shown_in_two_units),
        cmocka_unit_test(what_is_shown_reads_back),
        cmocka_unit_test(times),
        cmocka_unit_test(times_agree_with_libc),
    };
    return cmocka_run_group_tests_name("duration", tests, NULL, NULL);
}
