/* catalog_fuzz.c: any bytes as a file of the catalogue. A file that is refused says why and changes
 * nothing; one that is taken has rows that can be read again from their own spelling, and any line
 * can be looked up with them. */
#include <string.h>

#include "agent/core/catalog.h"
#include "proto/base/check.h"
#include "proto/base/text.h"
#include "tests/fuzz/fuzz.h"

enum { ROWS = 64, TEXTS = 16384, KEYS = 256, ITEMS = 1024, LINE_SIZE = 2048 };

const char fuzz_alphabet[] = "xid kernel any\t\n#*%dsSPDx{}|^$>&0123456789-_.abc";

static const char *const examples[] = {
    "a\thardware-node\tevict_node\troot\txid 79\tx\nb\tuser-code\tnone\troot\tany error %D at "
    "%P\ty\n",
    "# c\n\na\tstorage\thold_job_check_storage\troot\tkernel server %S not {a|b}\tx\na2\toff\n",
    "a\tbenign\tnone\tnoise\tnvlink5 144 ------000000----------0000100001 "
    "------000000-------------0000001 0x1\tx\n",
    "a\tunknown\tnone\tnoise\tsxid * fatal\tx\nb\tcascade\tfollow_root\tsymptom\twatchdog "
    "differs\tx\n",
    "a\tnode-software\tevict_node\troot\toom group a* b *\tx\nb\tfacility\tnone\troot\tagent "
    "^x%&e8 y%>20%_$\tx\n",
    "a\tnetwork\trestart_in_place\troot\tcompletion 12\tx\nb\thardware-node\tevict_node\troot\t"
    "recovery 2\tx\n",
};

FUZZ_TEXTS(examples)

static struct catalog *create(void)
{
    const struct catalog_limits limits = {
        .rows = ROWS, .text_bytes = TEXTS, .keys = KEYS, .items = ITEMS};
    struct catalog *catalog = NULL;
    const int result = catalog_create(&limits, &catalog);
    CHECK(result == 0);
    return catalog;
}

static void count_problem(void *context, const char *text)
{
    uint32_t *count = context;
    CHECK(strncmp(text, "f:", 2) == 0);
    (*count)++;
}

/* Every row, written out, makes the same row in another catalogue. */
static void check_rows(const struct catalog *catalog)
{
    struct catalog *other = create();
    for (uint32_t i = 0; i < catalog_count(catalog); i++) {
        struct catalog_row row;
        struct catalog_row again;
        char line[LINE_SIZE];
        catalog_row(catalog, i, &row);
        const bool whole = text_format(line, sizeof(line), "%s\t%s\t%s\t%s\t%s\t%s", row.name,
                                       signal_label_word(row.label), signal_advice_word(row.advice),
                                       signal_role_word(row.role), row.match, row.explain);
        /* A NUL in a match ends it here; nothing else is lost. */
        if (!whole || catalog_read(other, "g", line, strlen(line), NULL) != 0) {
            continue;
        }
        catalog_row(other, catalog_count(other) - 1, &again);
        CHECK(text_equal(row.name, again.name) && text_equal(row.match, again.match));
        CHECK(row.label == again.label && row.advice == again.advice && row.role == again.role);
    }
    (void)catalog_free(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    struct err err = {.code = 0};
    struct signal signal;
    uint32_t problems = 0;
    struct catalog *catalog = create();
    const uint32_t wrong = catalog_check(catalog, "f", bytes, size, count_problem, &problems);
    CHECK(wrong == problems);
    const int result = catalog_read(catalog, "f", bytes, size, &err);
    CHECK((result == 0) == (wrong == 0));
    CHECK(result == 0 || (err.text[0] != '\0' && catalog_count(catalog) == 0));
    (void)catalog_look(catalog, STREAM_ANY, bytes, size, &signal);
    for (size_t i = 0; i < fuzz_example_count(); i++) {
        (void)catalog_look(catalog, STREAM_ANY, examples[i], strlen(examples[i]), &signal);
    }
    check_rows(catalog);
    const uint32_t count = catalog_count(catalog);
    const int second = catalog_read(catalog, "f", bytes, size, &err);
    CHECK(second != 0 || catalog_count(catalog) == count);
    (void)catalog_free(catalog);
    return 0;
}
