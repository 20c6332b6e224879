/* config_fuzz.c: any bytes as a configuration file, and the result as a REST body. */
#include <jansson.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/config.h"
#include "proto/base/text.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_alphabet[] = "abn:: -[]{},\n\n  &*!|>'\"#%@?~0<.1\t\\x-e";

static const struct config_key keys[] = {
    {.path = "a", .type = CONFIG_TEXT},
    {.path = "b", .type = CONFIG_INT, .min = -5, .max = 500},
    {.path = "n", .type = CONFIG_NAME, .required = true},
    {.path = "list", .type = CONFIG_TEXT_LIST, .default_text = "x,y"},
    {.path = "ints", .type = CONFIG_INT_LIST, .max = 5},
    {.path = "map", .type = CONFIG_TEXT_MAP, .default_text = ""},
    {.path = "g.time", .type = CONFIG_DURATION, .default_text = "1m"},
    {.path = "g.size", .type = CONFIG_SIZE, .default_text = "1KiB"},
    {.path = "g.ratio", .type = CONFIG_RATIO, .default_text = "0.5"},
    {.path = "g.h.word", .type = CONFIG_ENUM, .default_text = "one", .words = "one|two|three"},
    {.path = "g.h.auto", .type = CONFIG_AUTO_DURATION, .default_text = "auto"},
    {.path = "g.on", .type = CONFIG_BOOL, .default_text = "no"},
};

static const char *const examples[] = {
    "n: x\na: hello\nb: 7\nlist: [a, b]\nmap: {a: b}\ng: {time: 1h, h: {word: two}}\n",
    "n: x\ng:\n  time: 90s\n  size: 1GiB\n  ratio: 1.25\n  on: yes\n  h:\n    auto: 5m\n",
    "n: &a x\na: *a\nb: !!int 5\n? [1]\n: 2\n<<: {a: b}\nn: y\n---\nb: 1\n",
    "n: |\n  folded\n  text\na: >-\n  more\nints: [1,\n  2, 3]\n\"q\": 'r'\n",
};

FUZZ_TEXTS(examples)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config_report report;
    json_t *tree = NULL;
    int result =
        config_parse_yaml((const char *)data, size, keys, ARRAY_SIZE(keys), &tree, &report);
    CHECK((result == 0) == (tree != NULL));
    CHECK((result == 0) == (report.total == 0));
    for (size_t index = 0; index < report.count; index++) {
        CHECK(text_is_utf8(report.problems[index].text, strlen(report.problems[index].text)));
    }
    if (tree != NULL) {
        /* What was accepted is accepted again, unchanged. */
        json_t *again = NULL;
        config_lines_drop(tree);
        result = config_parse_json(tree, keys, ARRAY_SIZE(keys), &again, &report);
        CHECK(result == 0);
        CHECK(json_equal(tree, again));
        json_decref(again);
        json_decref(tree);
    }
    return 0;
}
