/* step_reader_fuzz.c: any bytes as a pattern, and as a rank's output that it is searched for in. The
 * input's first line is the pattern. */
#include <errno.h>
#include <string.h>

#include "agent/io/step_reader.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_alphabet[] = "()[]{}|*+?.^$\\dswt:,-0123456789step iteration/\r\n";

static const char *const examples[] = {
    "iteration\\s+(\\d+)/\n iteration       10/  1000 | loss 1.0\n iteration       20/  1000 |\n",
    "(?:step|iter)[ =:]+([\\d,]{1,20})\nstep 1,200\riter=7\rstep: 9\n",
    "(\\d+)$\nstep 18446744073709551616\n\n9223372036854775807\n",
    "[[:alpha:]_.-]{2,3}\\((\\d+)\\)\nab(1)\nabc(2\n",
};

FUZZ_TEXTS(examples)

/* Nothing is at rest but whole lines, and what was found is a step that a report can carry. */
static void check_reader(const struct step_reader *reader)
{
    CHECK(reader->size < sizeof reader->line);
    CHECK(memchr(reader->line, '\n', reader->size) == NULL);
    CHECK(memchr(reader->line, '\0', reader->size) == NULL);
    CHECK(!reader->found || reader->step <= INT64_MAX);
}

static void read_all(const struct step_pattern *pattern, const char *bytes, size_t size)
{
    static struct step_reader whole;
    static struct step_reader pieces;
    memset(&whole, 0, sizeof whole);
    memset(&pieces, 0, sizeof pieces);
    CHECK(step_reader_put(&whole, pattern, bytes, size) == 0);
    check_reader(&whole);
    for (size_t at = 0; at < size; at += 3) {
        const size_t count = size - at < 3 ? size - at : 3;
        CHECK(step_reader_put(&pieces, pattern, bytes + at, count) == 0);
        check_reader(&pieces);
    }
    CHECK(whole.found == pieces.found && whole.step == pieces.step && whole.size == pieces.size);
    step_reader_jump(&pieces, false);
    CHECK(step_reader_put(&pieces, pattern, "1 step 2", 8) == 0);
    check_reader(&pieces);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct step_pattern *pattern = NULL;
    struct err err = {0};
    char text[2 * STEP_PATTERN_SIZE];
    const uint8_t *end = memchr(data, '\n', size);
    const size_t length = end != NULL ? (size_t)(end - data) : size;
    const size_t kept = length < sizeof text - 1 ? length : sizeof text - 1;
    memcpy(text, data, kept);
    text[kept] = '\0';
    const int r = step_pattern_compile(text, &pattern, &err);
    CHECK(r == 0 || (r == -EINVAL && err.text[0] != '\0'));
    if (r == 0) {
        read_all(pattern, (const char *)data + length, size - length);
    }
    CHECK((r == 0) == (pattern != NULL));
    (void)step_pattern_free(pattern);
    return 0;
}
