/* hostlist_test.c: folding and unfolding are each other's inverse, and hostile lists are refused
 * before anybody is visited. */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/hostlist.h"
#include "proto/base/mem.h"
#include "proto/base/prng.h"
#include "proto/base/text.h"

enum { NAMES_MAX = 4096 };

struct names {
    char names[NAMES_MAX][HOSTLIST_NAME_SIZE];
    const char *list[NAMES_MAX];
    size_t count;
    size_t stop_at; /* 0: never */
};

static int collect(const char *name, void *context)
{
    struct names *names = context;
    assert_true(names->count < NAMES_MAX);
    assert_true(text_copy(names->names[names->count], HOSTLIST_NAME_SIZE, name));
    names->list[names->count] = names->names[names->count];
    names->count++;
    return names->count == names->stop_at ? 77 : 0;
}

static int setup(void **state)
{
    *state = mem_alloc(1, sizeof(struct names));
    return 0;
}

static int teardown(void **state)
{
    *state = mem_free(*state);
    return 0;
}

static void expect_names(struct names *names, const char *text, const char *expected)
{
    names->count = 0;
    assert_int_equal(hostlist_each(text, collect, names, NULL), 0);
    char joined[1024] = "";
    size_t used = 0;
    for (size_t index = 0; index < names->count; index++) {
        assert_true(text_format(joined + used, sizeof(joined) - used, "%s%s", index > 0 ? " " : "",
                                names->list[index]));
        used += strlen(joined + used);
    }
    assert_string_equal(joined, expected);
}

static void unfolds(void **state)
{
    struct names *names = *state;
    expect_names(names, "", "");
    expect_names(names, "head", "head");
    expect_names(names, "b,a,b", "b a b"); /* order and repetition are the caller's */
    expect_names(names, "gpu-[0-2]", "gpu-0 gpu-1 gpu-2");
    expect_names(names, "gpu-[0009-0011]", "gpu-0009 gpu-0010 gpu-0011");
    expect_names(names, "gpu-[9-11]", "gpu-9 gpu-10 gpu-11");
    expect_names(names, "gpu-[08-10,99,001]", "gpu-08 gpu-09 gpu-10 gpu-99 gpu-001");
    expect_names(names, "n[98-101]", "n98 n99 n100 n101");
    expect_names(names, "r[1-2]-ib0,x", "r1-ib0 r2-ib0 x");
    expect_names(names, "[7-8]", "7 8");
    expect_names(names, "[1-2].site.org", "1.site.org 2.site.org");
}

static void refuses(void **state)
{
    struct names *names = *state;
    const char *const cases[] = {
        ",",
        "a,",
        ",a",
        "a,,b",
        "a[",
        "a]",
        "a[]",
        "a[1",
        "a[1-]",
        "a[-1]",
        "a[1,]",
        "a[2-1]",
        "a[1-2-3]",
        "a[x]",
        "a[1]b[2]",
        "a[[1]]",
        "a[1]]",
        "a [1]",
        "-a",
        "a/b",
        "a[1 ]",
        "a\n",
        "a[10-9]",
        "a[01-1]",
        "[1]/x",
        "a[1-131073]",
        "a[1234567890123456789]",
        "a[0-999999999999999999]",
        "\xc3\xa4",
    };
    for (size_t index = 0; index < ARRAY_SIZE(cases); index++) {
        struct err err = {.code = 0};
        names->count = 0;
        assert_int_equal(hostlist_each(cases[index], collect, names, &err), -EINVAL);
        assert_int_equal(names->count, 0);
        assert_non_null(strstr(err.text, "host list"));
    }
}

static void a_fault_at_the_end_visits_nobody(void **state)
{
    struct names *names = *state;
    assert_int_equal(hostlist_each("a,b,c[1-100],d[", collect, names, NULL), -EINVAL);
    assert_int_equal(names->count, 0);
}

static void names_have_a_longest_length(void **state)
{
    struct names *names = *state;
    char text[HOSTLIST_NAME_SIZE + 8];
    memset(text, 'a', sizeof(text));
    (void)text_copy(text + 62, 8, "[1-9]"); /* 62 + 1 digit = 63 */
    assert_int_equal(hostlist_each(text, collect, names, NULL), 0);
    assert_int_equal(names->count, 9);
    (void)text_copy(text + 62, 8, "[9-10]");
    assert_int_equal(hostlist_each(text, collect, names, NULL), -EINVAL);
}

static int count_only(const char *name, void *context)
{
    size_t *count = context;
    (void)name;
    (*count)++;
    return 0;
}

static void lists_have_a_longest_length(void **state)
{
    (void)state;
    size_t count = 0;
    assert_int_equal(hostlist_each("a[1-131072]", count_only, &count, NULL), 0);
    assert_int_equal(count, HOSTLIST_NAMES_MAX);
    count = 0;
    assert_int_equal(hostlist_each("a[1-131072],b", count_only, &count, NULL), -EINVAL);
    assert_int_equal(hostlist_each("a[1-65536],b[1-65536],c", count_only, &count, NULL), -EINVAL);
    assert_int_equal(count, 0);
}

static void a_visitor_may_stop(void **state)
{
    struct names *names = *state;
    names->count = 0;
    names->stop_at = 3;
    assert_int_equal(hostlist_each("a[1-100],b", collect, names, NULL), 77);
    assert_int_equal(names->count, 3);
    names->stop_at = 0;
}

static void expect_fold(const char *const *names, size_t count, const char *expected)
{
    const char *list[64];
    char target[256];
    assert_true(count <= ARRAY_SIZE(list));
    memcpy(list, names, count * sizeof(names[0]));
    assert_int_equal(hostlist_fold(list, count, target, sizeof(target)), strlen(expected));
    assert_string_equal(target, expected);
}

#define EXPECT_FOLD(expected, ...)                                                                 \
    do {                                                                                           \
        const char *const names_[] = {__VA_ARGS__};                                                \
        expect_fold(names_, ARRAY_SIZE(names_), expected);                                         \
    } while (0)

static void folds(void **state)
{
    (void)state;
    char empty[8] = "x";
    assert_int_equal(hostlist_fold(NULL, 0, empty, sizeof(empty)), 0);
    assert_string_equal(empty, "");
    EXPECT_FOLD("head", "head");
    EXPECT_FOLD("gpu-7", "gpu-7");
    EXPECT_FOLD("gpu-[1-3]", "gpu-3", "gpu-1", "gpu-2");
    EXPECT_FOLD("gpu-[1-3]", "gpu-3", "gpu-1", "gpu-2", "gpu-1");
    EXPECT_FOLD("gpu-[0000-0002,0418],head", "head", "gpu-0418", "gpu-0000", "gpu-0001",
                "gpu-0002");
    EXPECT_FOLD("gpu-[9-11]", "gpu-10", "gpu-9", "gpu-11");
    EXPECT_FOLD("gpu-[09-11]", "gpu-10", "gpu-09", "gpu-11");
    EXPECT_FOLD("gpu-[09,9-10]", "gpu-10", "gpu-09", "gpu-9");
    EXPECT_FOLD("gpu-[1,3,5]", "gpu-5", "gpu-3", "gpu-1");
    EXPECT_FOLD("r[1-2]-ib,r[1-2]-mgmt", "r1-ib", "r2-mgmt", "r2-ib", "r1-mgmt");
    EXPECT_FOLD("a,b,c", "c", "b", "a");
    EXPECT_FOLD("rack2-n1,rack10-n1", "rack10-n1", "rack2-n1");
}

static void a_cut_list_shows_it(void **state)
{
    (void)state;
    const char *const names[] = {"gpu-0001", "gpu-0003", "gpu-0005"};
    const char *list[3];
    char target[16];
    memcpy(list, names, sizeof(list));
    assert_int_equal(hostlist_fold(list, 3, target, sizeof(target)),
                     strlen("gpu-[0001,0003,0005]"));
    assert_string_equal(target, "gpu-[0001,00...");
    assert_int_equal(hostlist_fold(list, 3, target, 3), strlen("gpu-[0001,0003,0005]"));
    assert_string_equal(target, "..");
    assert_int_equal(hostlist_fold(list, 3, target, 1), strlen("gpu-[0001,0003,0005]"));
    assert_string_equal(target, "");
    assert_int_equal(hostlist_fold(list, 3, NULL, 0), strlen("gpu-[0001,0003,0005]"));
}

static void random_name(struct prng *prng, char name[HOSTLIST_NAME_SIZE])
{
    unsigned number = (unsigned)prng_below(prng, 120);
    switch (prng_below(prng, 6)) {
    case 0:
        (void)text_format(name, HOSTLIST_NAME_SIZE, "n%u", number);
        return;
    case 1:
        (void)text_format(name, HOSTLIST_NAME_SIZE, "n%02u", number);
        return;
    case 2:
        (void)text_format(name, HOSTLIST_NAME_SIZE, "gpu-%04u", number);
        return;
    case 3:
        (void)text_format(name, HOSTLIST_NAME_SIZE, "r1-n%u-ib", number);
        return;
    case 4:
        (void)text_format(name, HOSTLIST_NAME_SIZE, "%u", number);
        return;
    default:
        (void)text_format(name, HOSTLIST_NAME_SIZE, "head%c", 'a' + (int)(number % 26));
        return;
    }
}

static bool contains(const char *const *list, size_t count, const char *name)
{
    for (size_t index = 0; index < count; index++) {
        if (text_equal(list[index], name)) {
            return true;
        }
    }
    return false;
}

/* Random sets: fold, unfold, and compare as sets; folding again gives the same text. */
static void round_trips(void **state)
{
    struct names *names = *state;
    struct prng prng;
    prng_seed(&prng, 31);
    for (unsigned round = 0; round < 1000; round++) {
        char source[60][HOSTLIST_NAME_SIZE];
        const char *list[60];
        char folded[2048];
        char again[2048];
        size_t count = prng_below(&prng, ARRAY_SIZE(source));
        for (size_t index = 0; index < count; index++) {
            random_name(&prng, source[index]);
            list[index] = source[index];
        }
        assert_true(hostlist_fold(list, count, folded, sizeof(folded)) < sizeof(folded));
        names->count = 0;
        assert_int_equal(hostlist_each(folded, collect, names, NULL), 0);
        for (size_t index = 0; index < count; index++) {
            assert_true(contains(names->list, names->count, source[index]));
        }
        for (size_t index = 0; index < names->count; index++) {
            assert_false(contains(names->list, index, names->list[index])); /* each once */
            assert_true(contains(list, count, names->list[index]));
        }
        (void)hostlist_fold(names->list, names->count, again, sizeof(again));
        assert_string_equal(folded, again);
    }
}

static void a_whole_cluster_is_one_word(void **state)
{
    struct names *names = *state;
    char target[64];
    names->count = 0;
    assert_int_equal(hostlist_each("gpu-[0000-2111]", collect, names, NULL), 0);
    assert_int_equal(names->count, 2112);
    (void)hostlist_fold(names->list, names->count, target, sizeof(target));
    assert_string_equal(target, "gpu-[0000-2111]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unfolds),
        cmocka_unit_test(refuses),
        cmocka_unit_test(a_fault_at_the_end_visits_nobody),
        cmocka_unit_test(names_have_a_longest_length),
        cmocka_unit_test(lists_have_a_longest_length),
        cmocka_unit_test(a_visitor_may_stop),
        cmocka_unit_test(folds),
        cmocka_unit_test(a_cut_list_shows_it),
        cmocka_unit_test(round_trips),
        cmocka_unit_test(a_whole_cluster_is_one_word),
    };
    return cmocka_run_group_tests_name("hostlist", tests, setup, teardown);
}
