/* ports_test.c: ports in a folder as the kernel makes it: which are watched, what is told. */
#include <errno.h>
#include <string.h>

#include "agent/probe/ports.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"
#include "tests/unit/probe/probe_rig.h"

static struct probe_rig rig;

static void set(const char *port, const char *file, const char *text)
{
    char device[32];
    const size_t length = strcspn(port, "/");
    (void)text_copy(device, length + 1, port);
    probe_rig_file(&rig, text, "sys/class/infiniband/%s/ports/%s/%s", device, port + length + 1,
                   file);
}

static void port_make(const char *port, const char *state, const char *phys, const char *sent)
{
    set(port, "state", state);
    set(port, "phys_state", phys);
    set(port, "counters/link_downed", "0\n");
    set(port, "counters/symbol_error", "0\n");
    set(port, "counters/port_xmit_data", sent);
}

static int setup(void **state)
{
    (void)state;
    probe_rig_open(&rig, &probe_ports);
    (void)text_copy(rig.config.leaves, sizeof(rig.config.leaves), "leaf-a,leaf-b");
    port_make("mlx5_0/1", "4: ACTIVE\n", "5: LinkUp\n", "12345\n");
    port_make("mlx5_10/1", "4: ACTIVE\n", "5: LinkUp\n", "12345\n");
    port_make("mlx5_2/1", "4: ACTIVE\n", "5: LinkUp\n", "12345\n");
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

static void test_all_up(void **state)
{
    (void)state;
    probe_rig_round(&rig, 0);
    assert_int_equal(rig.state_count, 6); /* a link and its errors, each */
    for (uint32_t i = 0; i < rig.state_count; i++) {
        assert_int_equal(rig.states[i].verdict, VERDICT_OK);
    }
    const struct finding *second = state_of("mlx5_2/1");
    assert_string_equal(second->text, "mlx5_2/1 state=4:ACTIVE phys_state=5:LinkUp link_downed=+0");
    assert_string_equal(second->subject, "mlx5_2/1 leaf=leaf-b");
    assert_string_equal(second->signal, "port-up");
    assert_int_equal(second->port, 1); /* before mlx5_10 */
}

/* Unused ports say "down" for ever, and the management network is nobody's evidence. */
static void test_which_are_watched(void **state)
{
    (void)state;
    port_make("mlx5_3/1", "1: DOWN\n", "3: Disabled\n", "0\n");
    port_make("mlx5_4/1", "4: ACTIVE\n", "5: LinkUp\n", "0\n"); /* nothing ever went through */
    port_make("mlx5_5/1", "4: ACTIVE\n", "5: LinkUp\n", "9\n");
    probe_rig_file(&rig, "", "sys/class/infiniband/mlx5_5/device/net/eno1/carrier");
    probe_rig_file(&rig,
                   "Iface\tDestination\tGateway\tFlags\nibs1\t0000000A\t00000000\t0001\n"
                   "eno1\t00000000\t0100000A\t0003\n",
                   "proc/net/route");
    probe_rig_round(&rig, 0);
    assert_int_equal(rig.state_count, 6);
    assert_null(probe_rig_state(&rig, "mlx5_3/1"));
    assert_null(probe_rig_state(&rig, "mlx5_4/1"));
    assert_null(probe_rig_state(&rig, "mlx5_5/1"));
}

static void test_named_ones_only(void **state)
{
    (void)state;
    port_make("mlx5_3/1", "1: DOWN\n", "3: Disabled\n", "0\n");
    (void)text_copy(rig.config.ports, sizeof(rig.config.ports), "mlx5_3/1,mlx5_0/1");
    probe_rig_round(&rig, 0);
    assert_int_equal(rig.state_count, 4);
    assert_int_equal(state_of("mlx5_3/1")->verdict, VERDICT_WARN);
}

static void test_down_and_up_again(void **state)
{
    (void)state;
    probe_rig_round(&rig, 0);
    set("mlx5_2/1", "state", "1: DOWN\n");
    set("mlx5_2/1", "phys_state", "3: Disabled\n");
    set("mlx5_2/1", "counters/link_downed", "1\n");
    probe_rig_round(&rig, 1000);
    const struct finding *down = state_of("mlx5_2/1");
    assert_int_equal(down->verdict, VERDICT_WARN);
    assert_int_equal(down->severity, 1); /* links come back: nothing ends for it yet */
    assert_string_equal(down->signal, "port-down");
    assert_int_equal(down->label, LABEL_NETWORK);
    assert_int_equal(down->code, 1);
    assert_string_equal(down->text, "mlx5_2/1 state=1:DOWN phys_state=3:Disabled link_downed=+1");
    assert_int_equal(rig.event_count, 0); /* the state has said it */
    probe_rig_round(&rig, 29000);
    assert_int_equal(state_of("mlx5_2/1")->severity, 1);
    assert_int_equal(state_of("mlx5_2/1")->code, 0);
    probe_rig_round(&rig, 1000);
    assert_int_equal(state_of("mlx5_2/1")->verdict, VERDICT_FAIL);
    assert_int_equal(state_of("mlx5_2/1")->advice, ADVICE_EVICT);
    set("mlx5_2/1", "state", "4: ACTIVE\n");
    set("mlx5_2/1", "phys_state", "5: LinkUp\n");
    probe_rig_round(&rig, 1000);
    assert_int_equal(state_of("mlx5_2/1")->verdict, VERDICT_OK);
}

/* Its state is seen before its counter: that is one loss of the link, not two. */
static void test_a_counter_that_comes_late(void **state)
{
    (void)state;
    probe_rig_round(&rig, 0);
    set("mlx5_2/1", "state", "1: DOWN\n");
    probe_rig_round(&rig, 1000);
    assert_int_equal(state_of("mlx5_2/1")->code, 0);
    set("mlx5_2/1", "counters/link_downed", "1\n");
    probe_rig_round(&rig, 1000);
    assert_int_equal(rig.event_count, 0);
    set("mlx5_2/1", "counters/link_downed", "2\n"); /* up and down again in between */
    probe_rig_round(&rig, 1000);
    assert_int_equal(rig.event_count, 1);
    assert_int_equal(rig.events[0].code, 1);
}

static void test_a_state_that_is_between(void **state)
{
    (void)state;
    probe_rig_round(&rig, 0);
    set("mlx5_2/1", "state", "2: INIT\n");
    probe_rig_round(&rig, 1000);
    assert_int_equal(state_of("mlx5_2/1")->verdict, VERDICT_WARN);
}

static void test_a_flap_between_two_processes(void **state)
{
    (void)state;
    probe_rig_round(&rig, 0);
    set("mlx5_2/1", "counters/link_downed", "2\n");
    probe_rig_again(&rig);
    probe_rig_round(&rig, 1000);
    assert_int_equal(rig.event_count, 1);
    assert_string_equal(rig.events[0].signal, "port-down");
    assert_int_equal(rig.events[0].code, 2);
    set("mlx5_2/1", "counters/link_downed", "0\n"); /* the driver was loaded anew */
    probe_rig_round(&rig, 1000);
    assert_int_equal(rig.event_count, 0);
}

static void test_errors_in_a_window(void **state)
{
    (void)state;
    probe_rig_round(&rig, 0);
    set("mlx5_2/1", "counters/symbol_error", "99\n");
    probe_rig_round(&rig, 10000);
    assert_int_equal(state_of("mlx5_2/1 errors")->verdict, VERDICT_OK);
    set("mlx5_2/1", "counters/symbol_error", "199\n");
    probe_rig_round(&rig, 5000);
    assert_int_equal(state_of("mlx5_2/1 errors")->verdict, VERDICT_OK); /* the window is open */
    probe_rig_round(&rig, 5000);
    const struct finding *errors = state_of("mlx5_2/1 errors");
    assert_int_equal(errors->verdict, VERDICT_WARN);
    assert_string_equal(errors->signal, "ib-symbol-errors");
    assert_string_equal(errors->text, "mlx5_2/1 symbol_error=+100 in 10 s");
    for (uint32_t i = 1; i < PORT_CALM_WINDOWS; i++) {
        probe_rig_round(&rig, 10000);
        assert_int_equal(state_of("mlx5_2/1 errors")->verdict, VERDICT_WARN);
    }
    probe_rig_round(&rig, 10000);
    assert_int_equal(state_of("mlx5_2/1 errors")->verdict, VERDICT_OK);
    set("mlx5_2/1", "hw_counters/rnr_nak_retry_err", "5\n"); /* a counter that comes late */
    probe_rig_round(&rig, 10000);
    assert_int_equal(state_of("mlx5_2/1 errors")->verdict, VERDICT_OK);
    set("mlx5_2/1", "hw_counters/rnr_nak_retry_err", "6\n");
    probe_rig_round(&rig, 10000);
    assert_string_equal(state_of("mlx5_2/1 errors")->signal, "ib-rnr-retries");
}

/* A file that cannot be read says nothing about its port. */
static void test_a_reading_that_fails(void **state)
{
    static const char *const texts[] = {"", "x: DOWN\n", "ACTIVE\n"};
    (void)state;
    probe_rig_round(&rig, 0);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        set("mlx5_2/1", "state", texts[i]);
        probe_rig_round(&rig, 1000);
        assert_int_equal(state_of("mlx5_2/1")->verdict, VERDICT_NOT_RUN);
        assert_int_equal(state_of("mlx5_2/1")->severity, 0);
    }
    probe_rig_remove(&rig, "sys/class/infiniband/mlx5_2/ports/1/state");
    probe_rig_round(&rig, 60000);
    assert_int_equal(state_of("mlx5_2/1")->verdict, VERDICT_NOT_RUN);
}

static void test_a_device_that_leaves_the_bus(void **state)
{
    (void)state;
    probe_rig_round(&rig, 0);
    probe_rig_remove(&rig, "sys/class/infiniband/mlx5_2");
    probe_rig_round(&rig, 1000);
    assert_int_equal(state_of("mlx5_2/1")->verdict, VERDICT_NOT_RUN);
    probe_rig_round(&rig, 1000);
    probe_rig_round(&rig, 1000);
    const struct finding *gone = state_of("mlx5_2/1");
    assert_int_equal(gone->verdict, VERDICT_FAIL);
    assert_int_equal(gone->severity, 3);
    assert_string_equal(gone->signal, "port-gone");
}

/* All at once is the driver's folder, or we are blind: no port's fault. */
static void test_all_vanish(void **state)
{
    (void)state;
    probe_rig_round(&rig, 0);
    probe_rig_remove(&rig, "sys/class/infiniband");
    for (int i = 0; i < 5; i++) {
        probe_rig_round(&rig, 1000);
        assert_int_equal(rig.state_count, 0);
        assert_int_not_equal(rig.run.why[0], '\0');
    }
}

#define PORTS_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PORTS_TEST(test_all_up),
        PORTS_TEST(test_which_are_watched),
        PORTS_TEST(test_named_ones_only),
        PORTS_TEST(test_down_and_up_again),
        PORTS_TEST(test_a_counter_that_comes_late),
        PORTS_TEST(test_a_state_that_is_between),
        PORTS_TEST(test_a_flap_between_two_processes),
        PORTS_TEST(test_errors_in_a_window),
        PORTS_TEST(test_a_reading_that_fails),
        PORTS_TEST(test_a_device_that_leaves_the_bus),
        PORTS_TEST(test_all_vanish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
