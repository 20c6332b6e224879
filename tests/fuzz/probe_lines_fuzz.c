/* probe_lines_fuzz.c: any bytes where a probe reads: the lines between its process and the agent,
 * records of the kernel's log, the table of mounts, words of the kernel's small files, what a site's
 * program prints. The input's first byte says which. */
#include <string.h>

#include "agent/core/finding.h"
#include "agent/probe/kmsg.h"
#include "agent/probe/mounts.h"
#include "agent/probe/ports.h"
#include "agent/probe/read.h"
#include "agent/probe/sources.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_alphabet[] = "lkmpsx\t\n ,;:/\\0123456789abcstate event note gpu end warn fail";

static const char *const examples[] = {
    "lstate\tmlx5_3/1\twarn\tnetwork\tdegrade_watch\tsymptom\tport-down\tmlx5_3/"
    "1\tprobe\t-1\t3\t1\t1\t"
    "mlx5_3/1 state=1:DOWN",
    "lnote\tcursor\tx 5",
    "lgpu\t3\tGPU-a\t0000:3b:00",
    "k3,500,227986636,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1\n SUBSYSTEM=pci\n",
    "k30,18446744073709551615,5,c;a",
    "mserver:/home /mnt/my\\040home nfs4 rw,relatime 0 0",
    "p4: ACTIVE",
    "sTOTAL_ERR_COR 12",
    "x2 CRITICAL - it is|a=1\nmore",
};

FUZZ_TEXTS(examples)

/* What is taken is clean, and says the same when it is said again. */
static void check_finding(const struct finding *finding)
{
    char text[FINDING_LINE_MAX + 1];
    char more[FINDING_LINE_MAX + 1];
    struct finding_line again;
    CHECK(text_is_utf8(finding->text, strlen(finding->text)));
    CHECK(finding->severity <= 3 && finding->gpu < GPUS_MAX && finding->port < PORTS_MAX);
    CHECK(finding_line_format(LINE_EVENT, finding, text, sizeof text));
    CHECK(finding_line_parse(text, strlen(text), &again) == 0);
    CHECK(finding_line_format(LINE_EVENT, &again.finding, more, sizeof more));
    CHECK(text_equal(more, text));
}

static void read_line(const char *bytes, size_t size)
{
    struct finding_line line;
    if (finding_line_parse(bytes, size, &line) == 0 && line.kind <= LINE_EVENT &&
        line.kind != LINE_BEGIN) {
        check_finding(&line.finding);
    }
}

static bool look(void *context, const struct kmsg_record *record, struct finding *ret_finding)
{
    const char *bytes = context;
    CHECK(record->message > bytes && record->priority < 8);
    CHECK(memchr(record->message, '\n', record->size) == NULL);
    probe_finding(ret_finding, VERDICT_WARN, "", "%.*s",
                  (int)(record->size < TEXT_SIZE ? record->size : TEXT_SIZE), record->message);
    finding_clean(ret_finding->text);
    return true;
}

static void read_record(const char *bytes, size_t size)
{
    struct kmsg kmsg = {.look = look, .context = (void *)(uintptr_t)bytes};
    struct finding finding;
    for (uint64_t i = 0; i < 3; i++) {
        if (kmsg_take(&kmsg, bytes, size, 1000 * i, &finding)) {
            check_finding(&finding);
        }
    }
    CHECK(kmsg.lines <= 1 && kmsg.lines + kmsg.odd >= 1);
}

static void read_words(const char *text, int status)
{
    char word[PORT_WORD_SIZE];
    uint64_t numbers[4];
    uint32_t number = 0;
    struct finding finding;
    if (port_state_parse(text, &number, word) == 0) {
        CHECK(number < 10 && strlen(word) < sizeof word);
    }
    (void)pcie_speed(text, &number);
    (void)pcie_aer_total(text, &numbers[0]);
    (void)read_parse(text, &numbers[0]);
    (void)read_parse_list(text, numbers, 4);
    program_judge("name", status % 8, text, &finding);
    check_finding(&finding);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mount mount;
    if (size == 0) {
        return 0;
    }
    char *text = mem_alloc(size, 1); /* of that size: a sanitizer sees a byte too many */
    memcpy(text, data + 1, size - 1);
    switch (data[0]) {
    case 'l':
        read_line(text, size - 1);
        break;
    case 'k':
        read_record(text, size - 1);
        break;
    case 'm':
        if (mount_parse(text, size - 1, &mount)) {
            CHECK(mount.path[0] != '\0' && memchr(mount.path, '\0', MOUNT_PATH_SIZE) != NULL);
        }
        break;
    default:
        read_words(text, data[0]);
        break;
    }
    mem_free(text);
    return 0;
}
