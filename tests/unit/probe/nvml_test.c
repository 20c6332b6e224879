/* nvml_test.c: GPUs behind a library of the test's own (tests/bin/fake_nvml_library.c), which has the
 * names and layouts of the driver's: what is told of each fault, and what is none. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/probe/nvml.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"
#include "tests/unit/probe/probe_rig.h"

#define GPU_0 "GPU-00000000-0000-0000-0000-000000000000"
#define GPU_1 "GPU-00000000-0000-0000-0000-000000000001"

extern char **environ;

static struct probe_rig rig;

static void copy_library(const char *to)
{
    char from[512] = "build/tests/bin/fake_nvml.so";
    for (char **at = environ; *at != NULL; at++) {
        if (strncmp(*at, "KEEPSTEP_BUILD=", 15) == 0) {
            (void)text_format(from, sizeof(from), "%s/tests/bin/fake_nvml.so", *at + 15);
        }
    }
    const int in = open(from, O_RDONLY | O_CLOEXEC);
    const int out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    struct stat status;
    assert_true(in >= 0 && out >= 0 && fstat(in, &status) == 0);
    assert_int_equal(sendfile(out, in, NULL, (size_t)status.st_size), status.st_size);
    (void)close(in);
    (void)close(out);
}

static void script(const char *text)
{
    probe_rig_file(&rig, text, "nvml.so.script");
}

static int setup(void **state)
{
    (void)state;
    probe_rig_open(&rig, &probe_nvml);
    rig.run.once = true; /* no waiting between two rounds */
    (void)text_format(rig.config.nvml, sizeof(rig.config.nvml), "%s/nvml.so", rig.dir);
    copy_library(rig.config.nvml);
    script("");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    probe_rig_close(&rig);
    return 0;
}

static const struct finding *state_of(const char *key)
{
    return probe_rig_need(&rig, key);
}

static void look(uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        probe_rig_round(&rig, 5000);
    }
}

static uint32_t not_well(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rig.state_count; i++) {
        count += rig.states[i].verdict != VERDICT_OK;
    }
    return count;
}

/* Under load GPUs stand at their power cap: that is how they work. */
static void test_all_well(void **state)
{
    (void)state;
    look(14);
    assert_int_equal(not_well(), 0);
    assert_int_equal(rig.state_count, 2 * 9 + 1);
    assert_int_equal(rig.event_count, 0);
    assert_string_equal(state_of(GPU_1)->subject, "0000:3c:00");
    assert_int_equal(state_of(GPU_1)->gpu, 1);
}

static void test_a_lost_gpu(void **state)
{
    (void)state;
    look(1);
    script("lost 1 15\n");
    look(1);
    const struct finding *lost = state_of(GPU_1);
    assert_int_equal(lost->verdict, VERDICT_FAIL);
    assert_string_equal(lost->signal, "gpu-lost");
    assert_int_equal(lost->severity, 3);
    assert_int_equal(lost->gpu, 1);
    assert_string_equal(lost->subject, "0000:3c:00");
    assert_int_equal(state_of(GPU_0)->verdict, VERDICT_OK); /* the other goes on */
    assert_non_null(probe_rig_state(&rig, GPU_0 " clocks"));
    script("lost 1 16\n");
    look(1);
    assert_string_equal(state_of(GPU_1)->signal, "gpu-needs-reset");
    assert_int_equal(state_of(GPU_1)->advice, ADVICE_EVICT_RESET);
}

/* One that says so in the middle of a round. */
static void test_lost_in_one_call(void **state)
{
    (void)state;
    look(1);
    script("error nvmlDeviceGetTemperature 15\n");
    look(1);
    assert_string_equal(state_of(GPU_0)->signal, "gpu-lost");
    script("error nvmlDeviceGetFieldValues 16\n");
    look(1);
    assert_string_equal(state_of(GPU_0)->signal, "gpu-needs-reset");
}

/* What we may not see, or what is unknown, is not lost. */
static void test_errors_that_say_nothing(void **state)
{
    static const char *const codes[] = {"4", "10", "999", "6"};
    (void)state;
    look(1);
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        char text[128];
        (void)text_format(text, sizeof(text), "lost 0 %s\n", codes[i]);
        script(text);
        look(5);
        assert_int_equal(state_of(GPU_0)->verdict, VERDICT_NOT_RUN);
        assert_int_equal(state_of(GPU_0)->severity, 0);
        assert_int_equal(state_of("gpu_count")->verdict, VERDICT_OK);
    }
    script("error nvmlDeviceGetTemperature 4\nerror nvmlDeviceGetNvLinkState 3\n"
           "error nvmlDeviceGetSramEccErrorStatus 3\n");
    look(1);
    assert_int_equal(not_well(), 0); /* only what can be read is judged */
    assert_null(probe_rig_state(&rig, GPU_0 " heat"));
}

static void test_no_library(void **state)
{
    (void)state;
    (void)text_format(rig.config.nvml, sizeof(rig.config.nvml), "%s/none.so", rig.dir);
    look(5);
    assert_int_equal(rig.state_count, 0);
    assert_non_null(strstr(rig.run.why, "nvml: cannot load "));
    assert_non_null(strstr(rig.run.why, "; gpu_count=unknown"));
    probe_rig_file(&rig, "no library", "none.so");
    look(1);
    assert_int_equal(rig.state_count, 0);
}

static void test_no_driver(void **state)
{
    (void)state;
    script("init 9\n");
    look(3);
    assert_int_equal(rig.state_count, 0);
    assert_string_equal(rig.run.why, "nvml: the driver is not loaded (9); gpu_count=unknown");
    script("init 18\n");
    look(1);
    assert_string_equal(state_of("driver")->signal, "driver-mismatch");
    assert_int_equal(state_of("driver")->severity, 1);
    script("");
    look(1); /* it comes by itself */
    assert_int_equal(not_well(), 0);
    script("count 999\n");
    look(1);
    assert_int_equal(rig.state_count, 0);
    script("");
    look(1);
    assert_int_equal(rig.state_count, 2 * 9 + 1);
}

static void test_fewer_than_expected(void **state)
{
    (void)state;
    rig.config.gpus = 3;
    look(2);
    assert_int_equal(state_of("gpu_count")->verdict, VERDICT_OK); /* not yet sure */
    look(1);
    assert_int_equal(state_of("gpu_count")->verdict, VERDICT_FAIL);
    assert_string_equal(state_of("gpu_count")->text, "gpu_count=2 expected=3");
    assert_int_equal(state_of("gpu_count")->severity, 3);
    rig.config.gpus = 0;
    script("gpus 1\n");
    look(3); /* fewer than there were */
    assert_string_equal(state_of("gpu_count")->text, "gpu_count=1 expected=2");
    probe_rig_again(&rig); /* also by the process before */
    look(3);
    assert_int_equal(state_of("gpu_count")->verdict, VERDICT_FAIL);
    script("gpus 9\n"); /* B13: more than we knew of is no fault */
    look(3);
    assert_int_equal(not_well(), 0);
}

static void test_recovery_actions(void **state)
{
    static const struct {
        const char *value;
        uint8_t verdict;
        uint8_t severity;
        uint8_t advice;
    } rows[] = {
        {"0", VERDICT_OK, 0, ADVICE_NONE},           {"1", VERDICT_FAIL, 3, ADVICE_EVICT_RESET},
        {"2", VERDICT_FAIL, 3, ADVICE_EVICT_REBOOT}, {"3", VERDICT_WARN, 1, ADVICE_EVICT_RESET},
        {"4", VERDICT_WARN, 1, ADVICE_EVICT_RESET},  {"5", VERDICT_FAIL, 3, ADVICE_EVICT_REBOOT},
        {"6", VERDICT_WARN, 1, ADVICE_WATCH}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[64];
        (void)text_format(text, sizeof(text), "field 1 230 %s\n", rows[i].value);
        script(text);
        look(1);
        const struct finding *action = state_of(GPU_1 " recovery");
        assert_int_equal(action->verdict, rows[i].verdict);
        assert_int_equal(action->severity, rows[i].severity);
        assert_int_equal(action->advice, rows[i].advice);
        assert_int_equal(action->code, i);
        assert_int_equal(state_of(GPU_0 " recovery")->verdict, VERDICT_OK);
    }
}

static void test_memory_of_a_gpu(void **state)
{
    (void)state;
    script("field 0 4 7\n"); /* counted before our time */
    look(1);
    assert_int_equal(rig.event_count, 0);
    script("field 0 4 8\nfield 0 144 1\nfield 1 145 1\n");
    look(1);
    assert_int_equal(rig.event_count, 1);
    assert_string_equal(rig.events[0].signal, "gpu-uncorrected");
    assert_int_equal(rig.events[0].severity, 3);
    assert_string_equal(state_of(GPU_0 " rows")->signal, "row-remap-pending");
    assert_int_equal(state_of(GPU_0 " rows")->severity, 1);
    assert_string_equal(state_of(GPU_1 " rows")->signal, "row-remap-failed");
    assert_int_equal(state_of(GPU_1 " rows")->advice, ADVICE_EVICT_RMA);
    assert_int_equal(state_of(GPU_1 " rows")->severity, 1);
    script("field 0 4 8\nfield 0 143 513\n");
    look(1);
    assert_int_equal(rig.event_count, 0);
    assert_string_equal(state_of(GPU_0 " rows")->signal, "row-remap-many");
    script("sram 0 1 1\nsram 1 5 0\n");
    look(12); /* once a minute */
    assert_string_equal(state_of(GPU_0 " sram")->signal, "sram-threshold");
    assert_string_equal(state_of(GPU_1 " sram")->signal, "sram-threshold");
    look(1); /* and it holds in between */
    assert_int_equal(state_of(GPU_1 " sram")->verdict, VERDICT_WARN);
}

static void test_links_of_a_gpu(void **state)
{
    (void)state;
    script("field 0 162 3\n");
    look(1);
    script("field 0 162 5\nlinks 1 17\n");
    look(1);
    assert_int_equal(rig.event_count, 1);
    assert_string_equal(rig.events[0].signal, "nvlink-recovery");
    assert_int_equal(rig.events[0].code, 2);
    assert_string_equal(state_of(GPU_1 " nvlink")->text, "gpu=1 17 of 18 NVLinks are active");
    assert_int_equal(state_of(GPU_1 " nvlink")->severity, 1);
    probe_rig_again(&rig);
    script("links 0 12\nlinks 1 12\n"); /* B13: a model with fewer links, from the first look on */
    look(3);
    assert_int_equal(not_well(), 0);
}

static void test_width_under_load(void **state)
{
    (void)state;
    script("width 0 8\nload 0 0\n");
    look(3);
    assert_int_equal(state_of(GPU_0 " width")->verdict, VERDICT_OK);
    script("width 0 8\nload 0 90\n");
    look(1);
    assert_string_equal(state_of(GPU_0 " width")->signal, "pcie-width");
    script("width 0 16\nload 0 0\n"); /* nothing is known of it under load since */
    look(1);
    assert_int_equal(state_of(GPU_0 " width")->verdict, VERDICT_WARN);
    script("");
    look(1);
    assert_int_equal(state_of(GPU_0 " width")->verdict, VERDICT_OK);
}

static void test_clocks_and_heat(void **state)
{
    (void)state;
    script("reasons 1 48\n");
    look(2);
    assert_int_equal(state_of(GPU_1 " clocks")->verdict, VERDICT_OK); /* a moment is nothing */
    script("reasons 1 48\ntemperature 1 88\n");
    look(1);
    const struct finding *clocks = state_of(GPU_1 " clocks");
    assert_string_equal(clocks->text, "gpu=1 clocks_event_reasons=0x0000000000000048 "
                                      "(hw_slowdown,hw_thermal_slowdown) sm_clock=1755 temp=88");
    assert_string_equal(clocks->signal, "clocks");
    assert_string_equal(clocks->subject, "gpu=1");
    assert_int_equal(clocks->code, 0x48);
    assert_int_equal(clocks->label, LABEL_FACILITY);
    assert_int_equal(clocks->severity, 1);
    assert_string_equal(state_of(GPU_1 " heat")->signal, "gpu-hot");
    script("");
    look(NVML_SLOW_ROUNDS - 1);
    assert_int_equal(state_of(GPU_1 " clocks")->verdict, VERDICT_WARN);
    assert_int_equal(state_of(GPU_1 " heat")->verdict, VERDICT_OK);
    look(1);
    assert_int_equal(state_of(GPU_1 " clocks")->verdict, VERDICT_OK);
}

static void test_memory_that_nobody_uses(void **state)
{
    (void)state;
    script("used 0 40000\nprocesses 0 0\n");
    look(NVML_LEFT_ROUNDS - 1);
    assert_int_equal(state_of(GPU_0 " used")->verdict, VERDICT_OK);
    look(1);
    assert_string_equal(state_of(GPU_0 " used")->signal, "gpu-memory-left");
    script("used 0 40000\nprocesses 0 1\n");
    look(1);
    assert_int_equal(state_of(GPU_0 " used")->verdict, VERDICT_OK);
}

/* B10: what is known stays with the GPU when the driver numbers them anew. */
static void test_renumbered(void **state)
{
    (void)state;
    script("field 1 144 1\n");
    look(1);
    script("order 1 0\nfield 1 144 1\n");
    look(1);
    assert_int_equal(state_of(GPU_1 " rows")->verdict, VERDICT_WARN);
    assert_int_equal(state_of(GPU_1 " rows")->gpu, 0);
    assert_int_equal(state_of(GPU_0 " rows")->verdict, VERDICT_OK);
}

#define NVML_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        NVML_TEST(test_all_well),
        NVML_TEST(test_a_lost_gpu),
        NVML_TEST(test_lost_in_one_call),
        NVML_TEST(test_errors_that_say_nothing),
        NVML_TEST(test_no_library),
        NVML_TEST(test_no_driver),
        NVML_TEST(test_fewer_than_expected),
        NVML_TEST(test_recovery_actions),
        NVML_TEST(test_memory_of_a_gpu),
        NVML_TEST(test_links_of_a_gpu),
        NVML_TEST(test_width_under_load),
        NVML_TEST(test_clocks_and_heat),
        NVML_TEST(test_memory_that_nobody_uses),
        NVML_TEST(test_renumbered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
