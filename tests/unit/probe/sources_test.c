/* sources_test.c: the probes that look at one place each, over folders of the test's own. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utmp.h>

#include "agent/probe/mounts.h"
#include "agent/probe/read.h"
#include "agent/probe/sources.h"
#include "agent/probe/task.h"
#include "proto/base/prng.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"
#include "tests/unit/probe/probe_rig.h"

static struct probe_rig rig;

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

/* A process of its own for each look, as for the probes that do not stay. */
static void look_again(uint64_t ms)
{
    probe_rig_again(&rig);
    probe_rig_round(&rig, ms);
}

/* ---- small files ---------------------------------------------------------------------------------- */

static void test_numbers(void **state)
{
    static const char *const bad[] = {"",   " 1", "x", "1x", "0x", "18446744073709551616",
                                      "-1", "1.5"};
    static const char *const bad_lists[] = {"1 2", "1 2 3 4", "1  2 3", "1 2 3 ", "", "1 2 x"};
    uint64_t number = 0;
    uint64_t numbers[3];
    (void)state;
    assert_int_equal(read_parse("18446744073709551615", &number), 0);
    assert_true(number == UINT64_MAX);
    assert_int_equal(read_parse("0x10de", &number), 0);
    assert_int_equal(number, 0x10de);
    assert_int_equal(read_parse("400 Gb/sec (4X NDR)", &number), 0);
    assert_int_equal(number, 400);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_not_equal(read_parse(bad[i], &number), 0);
    }
    assert_int_equal(read_parse_list("3 0 17", numbers, 3), 0);
    assert_int_equal(numbers[2], 17);
    for (size_t i = 0; i < sizeof(bad_lists) / sizeof(bad_lists[0]); i++) {
        assert_int_equal(read_parse_list(bad_lists[i], numbers, 3), -EINVAL);
    }
}

static void test_names_in_natural_order(void **state)
{
    struct read_names names;
    (void)state;
    probe_rig_open(&rig, &probe_clock);
    probe_rig_file(&rig, "", "sys/d/mlx5_10/x");
    probe_rig_file(&rig, "", "sys/d/mlx5_9/x");
    probe_rig_file(&rig, "", "sys/d/.hidden/x");
    assert_int_equal(read_names(&names, "%s/sys/d", rig.dir), 0);
    assert_int_equal(names.count, 2);
    assert_string_equal(names.names[0], "mlx5_9");
    assert_int_equal(read_names(&names, "%s/sys/none", rig.dir), -ENOENT);
}

/* ---- pcie ------------------------------------------------------------------------------------------- */

static void gpu_make(const char *name, const char *width, const char *speed)
{
    const char *const folder = "sys/bus/pci/devices";
    probe_rig_file(&rig, "0x030200\n", "%s/%s/class", folder, name);
    probe_rig_file(&rig, "0x10de\n", "%s/%s/vendor", folder, name);
    probe_rig_file(&rig, "0x2330\n", "%s/%s/device", folder, name);
    probe_rig_file(&rig, width, "%s/%s/current_link_width", folder, name);
    probe_rig_file(&rig, speed, "%s/%s/current_link_speed", folder, name);
}

static void aer(const char *name, const char *file, unsigned int total)
{
    char text[128];
    (void)text_format(text, sizeof(text), "RxErr 0\nBadTLP %u\nTOTAL_ERR_%s %u\n", total, "COR",
                      total);
    probe_rig_file(&rig, text, "sys/bus/pci/devices/%s/aer_dev_%s", name, file);
}

static void aer_make(const char *name)
{
    aer(name, "correctable", 5);
    aer(name, "nonfatal", 0);
    aer(name, "fatal", 0);
}

static void test_pcie_links(void **state)
{
    (void)state;
    probe_rig_open(&rig, &probe_pcie);
    gpu_make("0000:3b:00.0", "16\n", "32.0 GT/s PCIe\n");
    gpu_make("0000:5e:00.0", "8\n", "32.0 GT/s PCIe\n");
    probe_rig_round(&rig, 0);
    assert_int_equal(state_of("0000:3b:00.0")->verdict, VERDICT_OK);
    assert_int_equal(state_of("0000:5e:00.0")->verdict, VERDICT_WARN); /* unlike its sibling */
    assert_string_equal(state_of("0000:5e:00.0")->signal, "pcie-width");
    assert_string_equal(state_of("0000:5e:00.0")->subject, "0000:5e:00.0");
    gpu_make("0000:5e:00.0", "16\n", "2.5 GT/s PCIe\n"); /* idle GPUs do so */
    look_again(30000);
    assert_int_equal(state_of("0000:5e:00.0")->verdict, VERDICT_OK);
    rig.config.busy = true;
    look_again(30000);
    assert_string_equal(state_of("0000:5e:00.0")->signal, "pcie-speed");
    gpu_make("0000:3b:00.0", "4\n", "32.0 GT/s PCIe\n");
    gpu_make("0000:5e:00.0", "4\n", "32.0 GT/s PCIe\n");
    look_again(30000); /* both: no sibling tells it, but they were wider */
    assert_string_equal(state_of("0000:3b:00.0")->signal, "pcie-width");
    gpu_make("0000:3b:00.0", "0\n", "Unknown\n");
    gpu_make("0000:5e:00.0", "x\n", "32.0 GT/s PCIe\n");
    look_again(30000);
    assert_int_equal(rig.state_count, 0);
}

static void test_pcie_errors(void **state)
{
    (void)state;
    probe_rig_open(&rig, &probe_pcie);
    gpu_make("0000:3b:00.0", "16\n", "32.0 GT/s PCIe\n");
    aer_make("0000:3b:00.0");
    aer("0000:3b:00.0", "fatal", 7); /* of before our time */
    probe_rig_round(&rig, 0);
    assert_int_equal(rig.event_count, 0);
    aer("0000:3b:00.0", "fatal", 8);
    aer("0000:3b:00.0", "nonfatal", 2);
    look_again(30000);
    assert_int_equal(rig.event_count, 2);
    assert_string_equal(rig.events[0].signal, "pcie-aer-fatal");
    assert_int_equal(rig.events[0].severity, 3);
    assert_string_equal(rig.events[1].signal, "pcie-aer-nonfatal");
    assert_int_equal(rig.events[1].severity, 1);
    look_again(30000);
    assert_int_equal(rig.event_count, 0);
    aer("0000:3b:00.0", "correctable", 305);
    look_again(30000);
    assert_string_equal(state_of("0000:3b:00.0 errors")->signal, "pcie-corrected");
    for (int i = 0; i < 9; i++) {
        look_again(30000);
        assert_int_equal(state_of("0000:3b:00.0 errors")->verdict, VERDICT_WARN);
    }
    look_again(30000);
    assert_int_equal(state_of("0000:3b:00.0 errors")->verdict, VERDICT_OK);
    aer("0000:3b:00.0", "fatal", 0); /* the device was reset */
    look_again(30000);
    assert_int_equal(rig.event_count, 0);
}

static void test_pcie_shapes(void **state)
{
    uint64_t total = 0;
    uint32_t speed = 0;
    (void)state;
    assert_int_equal(pcie_aer_total("RxErr 1\nTOTAL_ERR_NONFATAL 12\n", &total), 0);
    assert_int_equal(total, 12);
    assert_int_not_equal(pcie_aer_total("", &total), 0);
    assert_int_not_equal(pcie_aer_total("TOTAL_ERR_COR", &total), 0);
    assert_int_not_equal(pcie_aer_total("TOTAL_ERR_COR x", &total), 0);
    assert_int_equal(pcie_speed("2.5 GT/s PCIe", &speed), 0);
    assert_int_equal(speed, 25);
    assert_int_equal(pcie_speed("8 GT/s", &speed), 0);
    assert_int_equal(speed, 80);
    assert_int_equal(pcie_speed("Unknown", &speed), -EINVAL);
}

/* ---- memory, oom, clock ------------------------------------------------------------------------------- */

static void edac(const char *uncorrected, const char *corrected)
{
    probe_rig_file(&rig, uncorrected, "sys/devices/system/edac/mc/mc0/ue_count");
    probe_rig_file(&rig, corrected, "sys/devices/system/edac/mc/mc0/ce_count");
}

static void test_memory(void **state)
{
    (void)state;
    probe_rig_open(&rig, &probe_memory);
    probe_rig_file(&rig, "boot-a\n", "proc/sys/kernel/random/boot_id");
    edac("1\n", "5\n");
    probe_rig_round(&rig, 0);
    assert_int_equal(state_of("mc0")->verdict, VERDICT_WARN); /* before our time */
    assert_int_equal(state_of("mc0")->severity, 1);
    edac("2\n", "5\n");
    look_again(30000);
    assert_int_equal(state_of("mc0")->verdict, VERDICT_FAIL);
    assert_int_equal(state_of("mc0")->severity, 3);
    assert_string_equal(state_of("mc0")->signal, "memory-uncorrected");
    look_again(30000);
    assert_int_equal(state_of("mc0")->verdict, VERDICT_FAIL); /* until it boots anew */
    edac("0\n", "0\n");
    probe_rig_file(&rig, "boot-b\n", "proc/sys/kernel/random/boot_id");
    look_again(30000);
    assert_int_equal(state_of("mc0")->verdict, VERDICT_OK);
    edac("0\n", "100\n");
    look_again(30000);
    assert_string_equal(state_of("mc0")->signal, "memory-corrected");
    look_again(30000);
    assert_int_equal(state_of("mc0")->verdict, VERDICT_OK);
    edac("x\n", "100\n");
    look_again(30000);
    assert_int_equal(state_of("mc0")->verdict, VERDICT_NOT_RUN);
}

static void test_oom(void **state)
{
    (void)state;
    probe_rig_open(&rig, &probe_oom);
    (void)text_format(rig.config.cgroup, PATH_SIZE, "%s/cgroup", rig.dir);
    probe_rig_file(&rig, "nr_free_pages 5\noom_kill 3\n", "proc/vmstat");
    probe_rig_file(&rig, "low 0\noom 1\noom_kill 0\n", "cgroup/memory.events");
    probe_rig_round(&rig, 0);
    assert_int_equal(rig.event_count, 0);
    probe_rig_file(&rig, "nr_free_pages 5\noom_kill 4\n", "proc/vmstat");
    probe_rig_file(&rig, "low 0\noom 1\noom_kill 1\n", "cgroup/memory.events");
    probe_rig_round(&rig, 5000);
    assert_int_equal(rig.event_count, 2);
    assert_int_equal(rig.events[0].label, LABEL_UNKNOWN);
    assert_int_equal(rig.events[1].label, LABEL_USER);
    assert_int_equal(rig.events[1].severity, 1);
    probe_rig_round(&rig, 5000);
    assert_int_equal(rig.event_count, 0);
}

static void test_clock(void **state)
{
    static const struct {
        struct clock_reading reading;
        uint8_t verdict;
    } rows[] = {{{true, 0, 100}, VERDICT_OK},       {{true, 100000, 100000}, VERDICT_OK},
                {{true, -100001, 0}, VERDICT_WARN}, {{true, 0, 1000000}, VERDICT_WARN},
                {{true, 1000001, 0}, VERDICT_FAIL}, {{false, 5000000, 5000000}, VERDICT_NOT_RUN}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct finding finding;
        clock_judge(&rows[i].reading, &finding);
        assert_int_equal(finding.verdict, rows[i].verdict);
        assert_true(finding.severity < 2);
    }
}

/* ---- mounts and disks ----------------------------------------------------------------------------------- */

static void test_lines_of_mounts(void **state)
{
    static const char *const bad[] = {"", "a", "a b", "a b c", "a b c d", "  c d e", "a  c d e"};
    static const char good[] = "server:/home /mnt/my\\040home nfs4 rw,relatime,vers=4.2 0 0";
    struct mount mount;
    struct prng prng;
    (void)state;
    assert_true(mount_parse(good, strlen(good), &mount));
    assert_string_equal(mount.path, "/mnt/my home");
    assert_string_equal(mount.source, "server:/home");
    assert_true(mount_is_network(&mount));
    assert_false(mount.read_only);
    assert_true(mount_parse("/dev/sda1 / ext4 ro 0 0", 23, &mount));
    assert_true(mount.read_only);
    assert_true(mount_is_local(&mount));
    assert_true(mount_parse("/dev/sda1 / ext4 root 0 0", 25, &mount));
    assert_false(mount.read_only);
    assert_false(mount_parse("a /\\000b nfs rw 0 0", 19, &mount)); /* no path has a NUL */
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(mount_parse(bad[i], strlen(bad[i]), &mount));
    }
    prng_seed(&prng, 5);
    for (uint32_t i = 0; i < 100000; i++) {
        char line[sizeof(good)];
        memcpy(line, good, sizeof(good));
        line[prng_between(&prng, 0, sizeof(good) - 2)] = (char)prng_between(&prng, 0, 255);
        (void)mount_parse(line, prng_between(&prng, 0, sizeof(good) - 1), &mount);
    }
}

static void test_mounts_that_answer(void **state)
{
    char line[256];
    char other[512];
    (void)state;
    probe_rig_open(&rig, &probe_mounts);
    (void)text_format(line, sizeof(line), "s:/a %s nfs rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n", rig.dir);
    probe_rig_file(&rig, line, "proc/mounts");
    probe_rig_round(&rig, 0);
    assert_int_equal(rig.state_count, 1);
    assert_int_equal(state_of(rig.dir)->verdict, VERDICT_OK);
    (void)text_format(other, sizeof(other), "%s/none", rig.dir); /* it cannot be asked */
    (void)text_copy(rig.config.mounts, sizeof(rig.config.mounts), other);
    probe_rig_round(&rig, 0);
    assert_int_equal(state_of(other)->verdict, VERDICT_NOT_RUN);
    probe_rig_file(&rig, "", "proc/mounts");
    rig.config.mounts[0] = '\0';
    probe_rig_round(&rig, 0);
    assert_int_equal(rig.state_count, 0);
    assert_int_not_equal(rig.run.why[0], '\0');
}

static void test_disks(void **state)
{
    (void)state;
    probe_rig_open(&rig, &probe_disks);
    probe_rig_file(&rig, "/dev/nvme0n1p1 / ext4 rw 0 0\n/dev/loop1 /snap ext4 ro 0 0\n",
                   "proc/mounts");
    probe_rig_file(&rig, "live\n", "sys/class/nvme/nvme0/state");
    probe_rig_file(&rig, "running\n", "sys/block/sda/device/state");
    probe_rig_file(&rig, "0\n", "sys/block/md0/md/degraded");
    probe_rig_round(&rig, 0);
    assert_int_equal(state_of("/")->verdict, VERDICT_OK);
    assert_int_equal(state_of("/snap")->verdict, VERDICT_OK); /* it always was */
    assert_int_equal(state_of("nvme0")->verdict, VERDICT_OK);
    assert_int_equal(state_of("sda")->verdict, VERDICT_OK);
    assert_int_equal(state_of("array md0")->verdict, VERDICT_OK);
    assert_int_equal(state_of("space /")->verdict, VERDICT_OK);
    assert_int_equal(state_of("space /snap")->verdict, VERDICT_NOT_RUN); /* not there, here */
    probe_rig_file(&rig, "/dev/nvme0n1p1 / ext4 ro,relatime 0 0\n", "proc/mounts");
    probe_rig_file(&rig, "dead\n", "sys/class/nvme/nvme0/state");
    probe_rig_file(&rig, "offline\n", "sys/block/sda/device/state");
    probe_rig_file(&rig, "1\n", "sys/block/md0/md/degraded");
    look_again(60000);
    assert_string_equal(state_of("/")->signal, "disk-read-only");
    assert_int_equal(state_of("/")->severity, 3);
    assert_string_equal(state_of("nvme0")->signal, "disk-dead");
    assert_string_equal(state_of("sda")->signal, "disk-dead");
    assert_string_equal(state_of("array md0")->signal, "disk-array-degraded");
    assert_int_equal(state_of("array md0")->severity, 1);
}

/* ---- leftover, inventory, shutdown -------------------------------------------------------------------------- */

static void test_leftover(void **state)
{
    FILE *file = NULL;
    char path[256];
    (void)state;
    probe_rig_open(&rig, &probe_leftover);
    (void)text_copy(rig.config.cookie, sizeof(rig.config.cookie), "gpu-1");
    probe_rig_file(&rig, "12 (a) b) S 1 2\n", "proc/12/stat");
    probe_rig_file(&rig, "13 (jbd2) D 1 2\n", "proc/13/stat");
    probe_rig_file(&rig, "x", "proc/12/environ");
    (void)text_format(path, sizeof(path), "%s/proc/12/environ", rig.dir);
    file = fopen(path, "we");
    assert_non_null(file);
    (void)fwrite("A=1\0KEEPSTEP_NODE=gpu-1\0B=2\0", 1, 28, file);
    (void)fclose(file);
    probe_rig_round(&rig, 0);
    assert_string_equal(state_of("processes")->signal, "leftover-process");
    assert_int_equal(state_of("stuck")->verdict, VERDICT_OK); /* a moment in D state is nothing */
    look_again(60000);
    assert_string_equal(state_of("stuck")->signal, "process-stuck");
    rig.config.busy = true;
    probe_rig_remove(&rig, "proc/13");
    look_again(60000);
    assert_int_equal(state_of("processes")->verdict, VERDICT_OK); /* they belong here now */
    assert_int_equal(state_of("stuck")->verdict, VERDICT_OK);
    rig.config.busy = false;
    (void)text_copy(rig.config.cookie, sizeof(rig.config.cookie), "gpu-12");
    look_again(60000);
    assert_int_equal(state_of("processes")->verdict, VERDICT_OK); /* another node's */
}

static void test_inventory(void **state)
{
    (void)state;
    probe_rig_open(&rig, &probe_inventory);
    probe_rig_file(&rig, "MemTotal:       2113929216 kB\n", "proc/meminfo");
    probe_rig_file(&rig, "0-127\n", "sys/devices/system/cpu/online");
    gpu_make("0000:3b:00.0", "16\n", "32.0 GT/s PCIe\n");
    gpu_make("0000:5e:00.0", "16\n", "32.0 GT/s PCIe\n");
    rig.config.gpus = 2;
    probe_rig_round(&rig, 0);
    assert_string_equal(state_of("gpu_count")->text, "gpu_count=2 expected=2");
    assert_string_equal(state_of("processors")->text, "processors: 128 of 128");
    probe_rig_remove(&rig, "sys/bus/pci/devices/0000:5e:00.0");
    probe_rig_file(&rig, "MemTotal:       1056964608 kB\n", "proc/meminfo");
    probe_rig_file(&rig, "0-63,65-127\n", "sys/devices/system/cpu/online");
    look_again(20000);
    look_again(20000);
    assert_int_equal(state_of("gpu_count")->verdict, VERDICT_OK); /* twice is not enough */
    look_again(20000);
    assert_string_equal(state_of("gpu_count")->text, "gpu_count=1 expected=2");
    assert_int_equal(state_of("gpu_count")->severity, 3);
    assert_int_equal(state_of("memory")->verdict, VERDICT_WARN);
    assert_int_equal(state_of("processors")->verdict, VERDICT_WARN);
    probe_rig_remove(&rig, "sys/bus/pci/devices");
    look_again(20000);
    assert_int_equal(state_of("gpu_count")->verdict, VERDICT_NOT_RUN); /* we see nothing at all */
}

static void put_level(char level)
{
    char path[256];
    struct utmp entry = {.ut_type = RUN_LVL, .ut_pid = level};
    (void)text_format(path, sizeof(path), "%s/run/utmp", rig.dir);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(&entry, sizeof(entry), 1, file), 1);
    (void)fclose(file);
}

static void test_shutdown(void **state)
{
    (void)state;
    probe_rig_open(&rig, &probe_shutdown);
    probe_rig_file(&rig, "", "run/utmp");
    probe_rig_round(&rig, 0);
    assert_int_equal(state_of("shutdown")->verdict, VERDICT_OK);
    put_level('5');
    probe_rig_round(&rig, 0);
    assert_int_equal(state_of("shutdown")->verdict, VERDICT_OK);
    put_level('6');
    probe_rig_round(&rig, 0);
    assert_string_equal(state_of("shutdown")->signal, "host-shutdown");
    assert_int_equal(state_of("shutdown")->label, LABEL_OPERATOR);
    assert_int_equal(state_of("shutdown")->severity, 1);
    put_level('3');
    probe_rig_file(&rig, "USEC=4102444800000000\nWARN_WALL=1\nMODE=reboot\n",
                   "run/systemd/shutdown/scheduled");
    probe_rig_round(&rig, 0);
    assert_int_equal(state_of("shutdown")->verdict, VERDICT_WARN);
    assert_non_null(strstr(state_of("shutdown")->text, "reboot in "));
    probe_rig_file(&rig, "USEC=1\nMODE=dry-reboot\n", "run/systemd/shutdown/scheduled");
    probe_rig_round(&rig, 0);
    assert_int_equal(state_of("shutdown")->verdict, VERDICT_OK);
}

/* ---- programs and tasks ------------------------------------------------------------------------------------ */

static void test_programs_said(void **state)
{
    static const struct {
        int status;
        const char *output;
        uint8_t verdict;
        const char *text;
    } rows[] = {{0, "OK - all well|a=1;2\nmore\n", VERDICT_OK, "nhc: OK - all well"},
                {1, "WARNING", VERDICT_WARN, "nhc: WARNING"},
                {2, "CRITICAL \x1b[31m- disk\n", VERDICT_FAIL, "nhc: CRITICAL  [31m- disk"},
                {2, "", VERDICT_FAIL, "nhc: it printed nothing"},
                {3, "UNKNOWN", VERDICT_NOT_RUN, "nhc: UNKNOWN"},
                {4, "odd", VERDICT_NOT_RUN, "nhc: odd"},
                {126, "", VERDICT_NOT_RUN, "nhc: it cannot be started"},
                {139, "", VERDICT_NOT_RUN, "nhc: it was ended by a signal"},
                {TASK_STUCK, "half a li", VERDICT_NOT_RUN, "nhc: it did not end in time"}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct finding finding;
        program_judge("nhc", rows[i].status, rows[i].output, &finding);
        assert_int_equal(finding.verdict, rows[i].verdict);
        assert_string_equal(finding.text, rows[i].text);
        assert_true(finding.severity < 2);
    }
}

static void test_programs_run(void **state)
{
    char path[256];
    (void)state;
    probe_rig_open(&rig, &probe_programs);
    probe_rig_file(&rig, "#!/bin/sh\necho \"$0 $# ${HOME:-none}|x\"; exit 2\n", "check.sh");
    (void)text_format(path, sizeof(path), "%s/check.sh", rig.dir);
    assert_int_equal(chmod(path, 0700), 0);
    (void)text_format(rig.config.programs, sizeof(rig.config.programs),
                      "mine=%s,gone=/none/such,,odd", path);
    probe_rig_round(&rig, 0);
    assert_int_equal(rig.state_count, 2);
    assert_int_equal(state_of("mine")->verdict, VERDICT_FAIL);
    assert_non_null(strstr(state_of("mine")->text, "check.sh 0 none"));
    assert_int_equal(state_of("gone")->verdict, VERDICT_NOT_RUN);
}

static int for_ever(void *context)
{
    (void)context;
    (void)printf("begun");
    (void)fflush(stdout);
    while (pause() != 0) { /* it always is */
    }
    return 0;
}

static int floods(void *context)
{
    char text[4096];
    (void)context;
    memset(text, 'x', sizeof(text));
    for (int i = 0; i < 100; i++) {
        (void)fwrite(text, 1, sizeof(text), stdout);
    }
    (void)fflush(stdout);
    return 7;
}

static void test_tasks(void **state)
{
    struct task task;
    char output[16];
    (void)state;
    assert_int_equal(task_start(&task, floods, NULL), 0);
    assert_int_equal(task_finish(&task, 10000, output, sizeof(output)), 7);
    assert_string_equal(output, "xxxxxxxxxxxxxxx");
    assert_true(task_is_gone(&task));
    assert_int_equal(task_start(&task, for_ever, NULL), 0);
    assert_int_equal(task_finish(&task, 200, output, sizeof(output)), TASK_STUCK);
    assert_string_equal(output, "begun");
    for (int i = 0; i < 500 && !task_is_gone(&task); i++) {
        (void)poll(NULL, 0, 10);
    }
    assert_true(task_is_gone(&task));
}

#define SOURCE_TEST(function) cmocka_unit_test_teardown(function, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        SOURCE_TEST(test_names_in_natural_order),
        SOURCE_TEST(test_pcie_links),
        SOURCE_TEST(test_pcie_errors),
        cmocka_unit_test(test_pcie_shapes),
        SOURCE_TEST(test_memory),
        SOURCE_TEST(test_oom),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_lines_of_mounts),
        SOURCE_TEST(test_mounts_that_answer),
        SOURCE_TEST(test_disks),
        SOURCE_TEST(test_leftover),
        SOURCE_TEST(test_inventory),
        SOURCE_TEST(test_shutdown),
        cmocka_unit_test(test_programs_said),
        SOURCE_TEST(test_programs_run),
        cmocka_unit_test(test_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
