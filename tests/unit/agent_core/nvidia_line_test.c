/* nvidia_line_test.c: Xids and SXids in all their spellings. */
#include <string.h>

#include "agent/core/nvidia_line.h"
#include "proto/base/check.h"
#include "tests/lib/test.h"

static struct nvidia_line read_line(const char *text)
{
    struct nvidia_line line;
    if (!nvidia_line_read(text, strlen(text), &line)) {
        fail_msg("not read: %s", text);
    }
    return line;
}

static void test_heads(void **state)
{
    static const struct {
        const char *text;
        uint32_t code;
        const char *pci;
        int64_t pid;
        const char *process;
        const char *rest;
    } cases[] = {
        {"NVRM: Xid (PCI:0000:3b:00): 79, pid=18211, name=python3, GPU gone.", 79, "0000:3b:00",
         18211, "python3", "GPU gone."},
        {"NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU gone.", 79,
         "0000:3b:00", -1, "", "GPU gone."},
        {"NVRM: Xid (PCI:0000:3b:00): 79, pid=<n/a>, name=<n/a>, GPU gone.", 79, "0000:3b:00", -1,
         "", "GPU gone."},
        {"NVRM: Xid (PCI:0000:3b:00): 45, pid=9, name=KMS thread:[nvidia], Ch 1", 45, "0000:3b:00",
         9, "KMS thread:[nvidia]", "Ch 1"},
        {"NVRM: Xid (PCI:0018:01:00 GPU-I:01 GPU-CI:00): 31, pid=5, Ch 1", 31, "0018:01:00", 5, "",
         "Ch 1"},
        {"NVRM: Xid (PCI:0018:01:00 GPU-I:03): 31, Ch 1", 31, "0018:01:00", -1, "", "Ch 1"},
        {"NVRM: Xid (0000:03:00): 14, Channel 00000001", 14, "0000:03:00", -1, "",
         "Channel 00000001"},
        {"NVRM: Xid (PCI:0000:3f:00): 46", 46, "0000:3f:00", -1, "", ""},
        {"NVRM: Xid (PCI:0000:b3:00.0): 46, x", 46, "0000:b3:00", -1, "", "x"},
        {"[1.2] NVRM: Xid (PCI:0000:3f:00): 46, x", 46, "0000:3f:00", -1, "", "x"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct nvidia_line line = read_line(cases[i].text);
        assert_false(line.is_switch);
        assert_int_equal(line.code, cases[i].code);
        assert_string_equal(line.pci, cases[i].pci);
        assert_int_equal(line.pid, cases[i].pid);
        assert_string_equal(line.process, cases[i].process);
        assert_int_equal(line.text_size, strlen(cases[i].rest));
        assert_memory_equal(line.text, cases[i].rest, line.text_size);
    }
}

static void test_recovery_action(void **state)
{
    (void)state;
    const struct nvidia_line line =
        read_line("NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to "
                  "0x4 (Drain and Reset)");
    assert_int_equal(line.action_from, 0);
    assert_int_equal(line.action_to, 4);
    assert_int_equal(read_line("NVRM: Xid (PCI:0000:3b:00): 154, something else").action_to, -1);
}

static void test_nvlink(void **state)
{
    (void)state;
    const struct nvidia_line event =
        read_line("NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 "
                  "(0x004505c6 0x00000000 0x1 0x0 0x0 0x0)");
    assert_string_equal(event.unit, "NETIR_LINK_EVT");
    assert_int_equal(event.severity, NVIDIA_FATAL);
    assert_int_equal(event.link, 9);
    assert_int_equal(event.word_count, 6);
    assert_int_equal(event.words[0], 0x004505c6);
    assert_int_equal(event.words[2], 1);

    const struct nvidia_line nowhere = read_line(
        "NVRM: Xid (PCI:0018:01:00): 145, RLW_REMAP Nonfatal XC1 i3 Link -1 (0x4 0x20 0x0 0x0)");
    assert_int_equal(nowhere.severity, NVIDIA_NONFATAL);
    assert_int_equal(nowhere.link, -1);
    assert_int_equal(nowhere.word_count, 4);

    const struct nvidia_line registers =
        read_line("NVRM: Xid (PCI:0000:b9:00): 74, pid=<unknown>, name=<unknown>, NVLink: fatal "
                  "error detected on link 6(0x10000, 0x0, 0x2, 0x0, 0x0, 0x0, 0x0)");
    assert_int_equal(registers.link, 6);
    assert_int_equal(registers.word_count, 7);
    assert_int_equal(registers.words[0], 0x10000);
    assert_int_equal(registers.words[2], 2);

    const struct nvidia_line broken =
        read_line("NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 09 (0x0");
    assert_int_equal(broken.word_count, 1);
}

static void test_containment(void **state)
{
    (void)state;
    const struct nvidia_line kept =
        read_line("NVRM: Xid (PCI:0000:86:00): 94, pid=1, name=a, "
                  "Contained: CE User Channel (0x9). RST: No, D-RST: No");
    assert_int_equal(kept.contained, NVIDIA_YES);
    assert_int_equal(kept.reset_needed, NVIDIA_NO);
    assert_int_equal(kept.drain_needed, NVIDIA_NO);
    const struct nvidia_line loose =
        read_line("NVRM: Xid (PCI:0000:86:00): 95, pid=1, name=a, "
                  "Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No");
    assert_int_equal(loose.contained, NVIDIA_NO);
    assert_int_equal(loose.reset_needed, NVIDIA_YES);
    const struct nvidia_line old = read_line("NVRM: Xid (PCI:0000:18:00): 94, pid=1, name=a, Ch 8");
    assert_int_equal(old.contained, NVIDIA_NOT_SAID);
    assert_int_equal(old.reset_needed, NVIDIA_NOT_SAID);
}

static void test_place_and_previous(void **state)
{
    (void)state;
    const struct nvidia_line where = read_line(
        "NVRM: Xid (PCI:0000:18:00): 13, pid=4, Graphics SM Warp Exception on (GPC 2, TPC "
        "5, SM 1): Out Of Range Address");
    assert_int_equal(where.gpc, 2);
    assert_int_equal(where.tpc, 5);
    assert_int_equal(where.sm, 1);
    const struct nvidia_line after = read_line(
        "NVRM: Xid (PCI:0008:01:00): 45, pid=2, name=p, Ch 00000001 caused by previous Xid 149");
    assert_int_equal(after.previous, 149);
    assert_int_equal(after.gpc, -1);
}

static void test_without_a_number(void **state)
{
    (void)state;
    const struct nvidia_line one = read_line("NVRM: GPU 0000:29:00.0: GPU has fallen off the bus.");
    assert_int_equal(one.code, XID_OFF_THE_BUS);
    assert_string_equal(one.pci, "0000:29:00");
    assert_true(one.inferred);
    const struct nvidia_line three =
        read_line("NVRM: The NVIDIA GPU 0000:18:00.0|NVRM: (PCI ID: 10de:20b0) installed in this "
                  "system has|NVRM: fallen off the bus and is not responding to commands.");
    assert_int_equal(three.code, XID_OFF_THE_BUS);
    assert_string_equal(three.pci, "0000:18:00");
    const struct nvidia_line all =
        read_line("NVRM: krcRcAndNotifyAllChannels_IMPL: RC all channels for critical error 119.");
    assert_int_equal(all.code, 119);
    assert_true(all.follows);
}

static void test_switches(void **state)
{
    (void)state;
    const struct nvidia_line line = read_line("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, "
                                              "Non-fatal, Link 32 egress error (First)");
    assert_true(line.is_switch);
    assert_int_equal(line.code, 12028);
    assert_int_equal(line.severity, NVIDIA_NONFATAL);
    assert_string_equal(line.pci, "0000:05:00.0");
    assert_int_equal(line.link, 32);
    assert_false(line.is_detail);
    assert_int_equal(
        read_line("nvidia-nvswitch1: SXid (PCI:0000:c4:00.0): 22003, Fatal, Link 11 x").severity,
        NVIDIA_FATAL);
    assert_true(
        read_line("nvidia-nvswitch1: SXid (PCI:0000:c4:00.0): 22003, Severity 1 Engine").is_detail);
    assert_true(
        read_line("nvidia-nvswitch1: SXid (PCI:0000:c4:00.0): 22003, Data {0x1, 0x2}").is_detail);
}

static void test_other_lines_are_none(void **state)
{
    static const char *const lines[] = {
        "",
        "NVRM: Xid (",
        "NVRM: Xid (PCI:0000:3b:00)",
        "NVRM: Xid (PCI:0000:3b:00): x",
        "NVRM: Xid (PCI:zz): 79",
        "NVRM: Xid (PCI:0000:3b:00): 99999999999999999999",
        "SXid (PCI:0000:05:00.0)",
        "a GPU has fallen off the bus",
        "NVRM: RC all channels for critical error x",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        struct nvidia_line line;
        if (nvidia_line_read(lines[i], strlen(lines[i]), &line)) {
            fail_msg("read: %s", lines[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_recovery_action),
        cmocka_unit_test(test_nvlink),
        cmocka_unit_test(test_containment),
        cmocka_unit_test(test_place_and_previous),
        cmocka_unit_test(test_without_a_number),
        cmocka_unit_test(test_switches),
        cmocka_unit_test(test_other_lines_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
