/* catalog_kinds_test.c: the shipped catalogue on lines of every kind, 1,000 of each, made from
 * formats with random addresses, processes, names, numbers and carriers. Label and action must hold
 * for each, and no benign or cascade line may be a root. */
#include <stdio.h>
#include <string.h>

#include "agent/core/catalog.h"
#include "agent/core/line_pattern.h"
#include "agent/core/nvidia_line.h"
#include "proto/base/check.h"
#include "proto/base/prng.h"
#include "tests/lib/test.h"
#include "tests/unit/agent_core/line_kinds.h"
#include "tests/unit/agent_core/line_make.h"

enum { LINES_PER_KIND = 1000, XID_LAST = 176 };

static int set_up(void **state)
{
    struct catalog_limits limits;
    struct catalog *catalog = NULL;
    struct err err = {0};
    catalog_limits_default(&limits);
    assert_int_equal(catalog_create(&limits, &catalog), 0);
    if (catalog_read_shipped(catalog, &err) != 0) {
        fail_msg("%s", err.text);
    }
    *state = catalog;
    return 0;
}

static int tear_down(void **state)
{
    *state = catalog_free(*state);
    return 0;
}

static void check_line(const struct catalog *catalog, enum line_stream stream, const char *line,
                       size_t size, const struct line_kind *kind)
{
    struct signal signal;
    (void)catalog_look(catalog, stream, line, size, &signal);
    if (signal.label != kind->label || signal.advice != kind->advice) {
        fail_msg("%s/%s by '%s', not %s/%s: %s", signal_label_word(signal.label),
                 signal_advice_word(signal.advice), signal.name, signal_label_word(kind->label),
                 signal_advice_word(kind->advice), line);
    }
    if (signal.role == ROLE_ROOT && (kind->label == LABEL_BENIGN || kind->label == LABEL_CASCADE)) {
        fail_msg("a root by '%s': %s", signal.name, line);
    }
}

/* Each line once as of an unknown source, and once as of its own. */
static void test_kinds(void **state)
{
    static char line[LINE_MADE_SIZE];
    struct prng prng;
    prng_seed(&prng, 20250221);
    for (size_t i = 0; i < line_kind_count; i++) {
        const struct line_kind *kind = &line_kinds[i];
        for (int n = 0; n < LINES_PER_KIND; n++) {
            const size_t size = line_make(&prng, kind->carrier, kind->format, line);
            check_line(*state, STREAM_ANY, line, size, kind);
            const enum line_stream own = kind->carrier == CARRIER_KERNEL ? STREAM_KERNEL
                                         : kind->carrier == CARRIER_NONE ? STREAM_AGENT
                                                                         : STREAM_OUTPUT;
            check_line(*state, own, line, size, kind);
        }
    }
}

/* One Xid means the same in all its spellings. */
static void test_every_xid_in_every_spelling(void **state)
{
    static const char *const spellings[][2] = {
        {"NVRM: Xid (PCI:<pci>): ", ", pid=<pid>, name=<proc>, Ch <hex8>"},
        {"NVRM: Xid (PCI:<pci>): ", ", pid='<unknown>', name=<unknown>, Ch <hex8>"},
        {"NVRM: Xid (PCI:<pci> GPU-I:<small> GPU-CI:00): ", ", pid=<pid>, name=<proc>, Ch <hex8>"},
        {"NVRM: Xid (PCI:<pci>): ", ", pid=<n/a>, Ch <hex8>"},
        {"NVRM: Xid (PCI:<pcif>): ", ", Ch <hex8>"},
        {"NVRM: Xid (<pci>): ", ", Channel <hex8>"},
        {"NVRM: Xid (PCI:<pci>): ", ""},
    };
    static char line[LINE_MADE_SIZE];
    struct prng prng;
    prng_seed(&prng, 79);
    for (int code = 1; code <= XID_LAST; code++) {
        struct signal first = {0};
        for (int n = 0; n < LINES_PER_KIND; n++) {
            char format[256];
            const size_t which = (size_t)n % ARRAY_SIZE(spellings);
            struct signal signal;
            (void)snprintf(format, sizeof(format), "%s%d%s", spellings[which][0], code,
                           spellings[which][1]);
            const size_t size = line_make(&prng, CARRIER_KERNEL, format, line);
            if (!catalog_look(*state, STREAM_KERNEL, line, size, &signal)) {
                fail_msg("unknown: %s", line);
            }
            assert_int_equal(signal.code, code);
            if (n == 0) {
                first = signal;
            }
            assert_string_equal(signal.name, first.name);
            assert_string_not_equal(signal.name, "xid-other");
            assert_string_not_equal(signal.pci, "");
        }
    }
}

/* The rows of NVLink's interrupts are reached by either form of the interrupt. */
static void test_interrupts(void **state)
{
    static const struct {
        const char *head;
        const char *tail;
        const char *name_begins;
        uint8_t advice;
    } cases[] = {
        {"149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x", " 0x00000000 0x1 0x0 0x0 0x0)",
         "nvlink5-149", ADVICE_EVICT_RESET},
        {"144, SAW_MVB Nonfatal XC0 i0 Link 00 (0x", " 0x00000008 0x0 0x0)", "nvlink5-144",
         ADVICE_NONE},
        {"144, SAW_MVB Fatal XC0 i0 Link 00 (0x", " 0x00000002 0x0 0x0)", "nvlink5-144",
         ADVICE_EVICT_RESET},
        {"145, RLW_REMAP Nonfatal XC0 i0 Link -1 (0x", " 0x00000004 0x0 0x0)", "nvlink5-145",
         ADVICE_FOLLOW},
        {"150, MSE_WATCHDOG Fatal XC0 i0 Link 00 (0x", " 0x00000000 0x0 0x0)", "nvlink5-150",
         ADVICE_EVICT_RESET},
    };
    /* Bits 25 to 20 the reason, below it what does not matter, then the unit. */
    static const uint32_t old_forms[] = {0x001001c6 | 0x21 << 20, 0x021, 0x021, 0x082, 0x000};
    static const uint32_t new_forms[] = {0x00000011 | 0x21 << 20, 0x001, 0x001, 0x004, 0x000};
    char line[256];
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const uint32_t forms[] = {old_forms[i] & 0xfff003ff, new_forms[i],
                                  new_forms[i] | 0xf << 26};
        for (size_t form = 0; form < ARRAY_SIZE(forms); form++) {
            struct signal signal;
            (void)snprintf(line, sizeof(line), "NVRM: Xid (PCI:0000:05:00): %s%08x%s",
                           cases[i].head, forms[form], cases[i].tail);
            assert_true(catalog_look(*state, STREAM_KERNEL, line, strlen(line), &signal));
            if (strncmp(signal.name, cases[i].name_begins, strlen(cases[i].name_begins)) != 0 ||
                signal.advice != cases[i].advice) {
                fail_msg("%s/%s: %s", signal.name, signal_advice_word(signal.advice), line);
            }
            assert_int_equal(signal.kind, SIGNAL_NVLINK5);
        }
    }
}

/* Nothing that the shipped catalogue has is both harmless and a root, and every row can be had by
 * its own match. */
static void test_rows_make_sense(void **state)
{
    uint32_t sxids = 0;
    for (uint32_t i = 0; i < catalog_count(*state); i++) {
        struct catalog_row row;
        catalog_row(*state, i, &row);
        assert_string_not_equal(row.explain, "");
        if (row.label == LABEL_BENIGN) {
            assert_int_equal(row.advice, ADVICE_NONE);
            assert_int_equal(row.role, ROLE_NOISE);
        }
        if (row.label == LABEL_CASCADE) {
            assert_int_equal(row.advice, ADVICE_FOLLOW);
            assert_true(row.role < ROLE_ROOT);
        }
        if (row.advice >= ADVICE_EVICT) {
            assert_true(row.role >= ROLE_SYMPTOM);
        }
        sxids += strncmp(row.match, "sxid ", 5) == 0 && row.match[5] != '*' ? 1 : 0;
    }
    assert_int_equal(sxids, 93);
}

/* What fits the item; of a choice the text with this number, or the last one. */
static void put_item(const struct line_item *item, size_t choice, char *line, size_t size)
{
    const size_t used = strlen(line);
    const struct line_key texts = {.text = item->body, .size = item->body_size, .is_choice = true};
    size_t at = 0;
    const char *piece = item->body;
    size_t piece_size = item->body_size;
    switch (item->class) {
    case ITEM_TEXT:
        break;
    case '{':
        for (size_t i = 0; i <= choice && line_key_piece(&texts, &at, &piece, &piece_size); i++) {
            piece_size = strcspn(piece, "|}"); /* a piece of a key may be cut */
        }
        break;
    case '>':
        (void)snprintf(line + used, size - used, "%llu", (unsigned long long)item->limit);
        return;
    case '&':
        (void)snprintf(line + used, size - used, "0x%llx", (unsigned long long)item->limit);
        return;
    case 'P':
        (void)snprintf(line + used, size - used, "0000:3b:00.0");
        return;
    case 's':
    case 'S':
        (void)snprintf(line + used, size - used, "zz");
        return;
    case '*':
    case '_':
        (void)snprintf(line + used, size - used, " ");
        return;
    case '^':
    case '$':
        return;
    default:
        (void)snprintf(line + used, size - used, "7");
        return;
    }
    (void)snprintf(line + used, size - used, "%.*s", (int)piece_size, piece);
}

static bool is_found_by_own_pattern(const struct catalog *catalog, const struct catalog_row *row,
                                    const char *pattern, size_t choice)
{
    struct line_item items[LINE_ITEMS_MAX];
    size_t count = 0;
    struct signal signal;
    char line[1024];
    const bool boot = strncmp(row->match, "boot ", 5) == 0;
    const bool output = strncmp(row->match, "output ", 7) == 0;
    const bool agent = strncmp(row->match, "agent ", 6) == 0;
    assert_int_equal(line_pattern_read(pattern, strlen(pattern), items, &count, NULL), 0);
    (void)snprintf(line, sizeof(line), "%s", boot ? "[    1.5] " : "");
    for (size_t i = 0; i < count; i++) {
        put_item(&items[i], choice, line, sizeof(line));
    }
    (void)catalog_look(catalog,
                       output  ? STREAM_OUTPUT
                       : agent ? STREAM_AGENT
                               : STREAM_KERNEL,
                       line, strlen(line), &signal);
    return strcmp(signal.name, row->name) == 0;
}

/* No row stands behind others that take all of its lines. */
static void test_no_pattern_is_in_vain(void **state)
{
    for (uint32_t i = 0; i < catalog_count(*state); i++) {
        static const char *const kinds[] = {"kernel ", "boot ", "output ", "agent ", "any "};
        struct catalog_row row;
        catalog_row(*state, i, &row);
        for (size_t kind = 0; kind < ARRAY_SIZE(kinds); kind++) {
            if (strncmp(row.match, kinds[kind], strlen(kinds[kind])) != 0) {
                continue;
            }
            bool found = false;
            for (size_t choice = 0; choice < 16 && !found; choice++) {
                found =
                    is_found_by_own_pattern(*state, &row, row.match + strlen(kinds[kind]), choice);
            }
            if (!found) {
                fail_msg("%s: other rows take all of its lines: %s", row.name, row.match);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kinds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_every_xid_in_every_spelling, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_interrupts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rows_make_sense, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_pattern_is_in_vain, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
