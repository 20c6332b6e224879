/* words_test.c: the command line, paths, and what a problem says and means. */
#include "tests/lib/test.h"

#include <getopt.h>
#include <string.h>

#include "controller/cli/cli.h"
#include "proto/base/check.h"
#include "proto/base/text.h"
#include "tests/unit/cli/cli_help.h"

/* ---- flags ----------------------------------------------------------------------------------- */

struct command {
    struct cli cli;
    const char *words[16];
    int code;
};

static void parse(void *context)
{
    struct command *command = context;
    char *arguments[17] = {"keepstep"};
    int count = 1;
    for (; command->words[count - 1] != NULL; count++) {
        arguments[count] = (char *)(uintptr_t)command->words[count - 1];
    }
    optind = 0; /* getopt begins anew */
    command->code = flags_parse(&command->cli, count, arguments);
}

static void flags_stand_anywhere(void **state)
{
    (void)state;
    struct command command = {.words = {"-y", "drain", "--when=now", "gpu-1", "--reason", "why not",
                                        "-o", "json", "--", "-x"}};
    assert_string_equal(stderr_of(parse, &command), "");
    assert_int_equal(command.code, EXIT_DONE);
    assert_int_equal(command.cli.count, 3);
    assert_string_equal(command.cli.words[0], "drain");
    assert_string_equal(command.cli.words[1], "gpu-1");
    assert_string_equal(command.cli.words[2], "-x");
    assert_true(command.cli.yes);
    assert_false(command.cli.quiet);
    assert_string_equal(command.cli.when, "now");
    assert_string_equal(command.cli.reason, "why not");
    assert_int_equal(command.cli.output, OUTPUT_JSON);
}

static void wrong_flags_are_explained(void **state)
{
    (void)state;
    static const struct {
        const char *words[4];
        const char *says;
    } cases[] = {
        {{"get", "--sate", "x"}, "did you mean --state?"},
        {{"get", "--zzzzzz"}, "no flag --zzzzzz"},
        {{"get", "-Z"}, "no flag -Z"},
        {{"drain", "--reason"}, "--reason wants a value"},
        {{"get", "-o", "xml"}, "table, wide, json, jsonl or name"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct command command = {0};
        memcpy(command.words, cases[i].words, sizeof cases[i].words);
        const char *said = stderr_of(parse, &command);
        if (command.code != EXIT_USAGE || strstr(said, cases[i].says) == NULL) {
            fail_msg("case %zu: %d, %s", i, command.code, said);
        }
    }
}

static void check_verb(void *context)
{
    struct command *command = context;
    command->code = flags_check(&command->cli, "cancel", "dry-run|reason");
}

static void a_verb_refuses_what_it_would_ignore(void **state)
{
    (void)state;
    struct command good = {.words = {"cancel", "x", "--reason", "y", "-q", "--dry-run"}};
    struct command bad = {.words = {"cancel", "x", "--rank", "3"}};
    parse(&good);
    assert_string_equal(stderr_of(check_verb, &good), "");
    assert_int_equal(good.code, EXIT_DONE);
    parse(&bad);
    assert_non_null(strstr(stderr_of(check_verb, &bad), "cancel takes no --rank"));
    assert_int_equal(bad.code, EXIT_USAGE);
}

/* ---- verbs ----------------------------------------------------------------------------------- */

static void help_one(void *context)
{
    struct cli *cli = context;
    assert_int_equal(verb_help(cli), EXIT_DONE);
}

/* Every verb has a line, an example of itself, and a row for each flag that it takes. */
static void every_verb_has_help_with_examples(void **state)
{
    (void)state;
    size_t count;
    const struct verb *verbs = verbs_all(&count);
    assert_true(count > 20);
    for (size_t i = 0; i < count; i++) {
        struct cli cli = {.count = 2, .words = {"help", verbs[i].name}};
        const char *text = stdout_of(help_one, &cli);
        char example[64];
        text_format(example, sizeof example, "  keepstep %s", verbs[i].name);
        assert_non_null(strstr(text, verbs[i].doc));
        assert_non_null(strstr(strstr(text, "Examples:"), example));
    }
}

static void find_watc(void *context)
{
    const struct verb **found = context;
    *found = verbs_find("watc");
}

static void a_wrong_verb_is_explained(void **state)
{
    (void)state;
    const struct verb *found = verbs_find("watch");
    assert_non_null(found);
    assert_non_null(strstr(stderr_of(find_watc, &found), "did you mean watch?"));
    assert_null(found);
}

/* ---- paths ----------------------------------------------------------------------------------- */

static void paths_are_escaped(void **state)
{
    (void)state;
    struct buf path;
    path_start(&path, "/v1/jobs/", "a/b?c#d e%\"\xc3\xa4", "/layout");
    assert_string_equal(buf_text(&path), "/v1/jobs/a%2Fb%3Fc%23d%20e%25%22%C3%A4/layout");
    path_add(&path, "none", "");
    path_add(&path, "none", NULL);
    path_add(&path, "for", "job/x&y");
    path_add(&path, "limit", "5");
    assert_string_equal(buf_text(&path), "/v1/jobs/a%2Fb%3Fc%23d%20e%25%22%C3%A4/layout"
                                         "?for=job%2Fx%26y&limit=5");
    buf_done(&path);
    path_start(&path, "/v1/nodes/", "gpu-[0001-0002],x.y_z~", "");
    assert_string_equal(buf_text(&path), "/v1/nodes/gpu-%5B0001-0002%5D%2Cx.y_z~");
    buf_done(&path);
}

/* ---- problems -------------------------------------------------------------------------------- */

struct said {
    struct answer answer;
    const char *file;
    int code;
};

static void say(void *context)
{
    struct said *said = context;
    said->code = say_problem(&said->answer, said->file);
}

static void problems_have_their_exit_codes(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        int code;
    } cases[] = {
        {"invalid-request", 2}, {"invalid-spec", 2},      {"unauthenticated", 5},
        {"forbidden", 5},       {"not-found", 3},         {"state-conflict", 4},
        {"too-large", 2},       {"rate-limited", 6},      {"not-enough-spares", 8},
        {"breaker-open", 8},    {"automation-paused", 8}, {"revision-mismatch", 4},
        {"not-active", 6},      {"revision-expired", 4},  {"store-unavailable", 6},
        {"something-new", 1},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct said said = {0};
        char address[128];
        text_format(address, sizeof address, "https://keepstep.example/problems/%s", cases[i].type);
        said.answer.json = json_pack("{s:s, s:s, s:s}", "type", address, "detail", "it is so",
                                     "hint", "keepstep get jobs");
        assert_string_equal(stderr_of(say, &said), "it is so\n  try: keepstep get jobs\n");
        assert_int_equal(said.code, cases[i].code);
        json_decref(said.answer.json);
    }
}

static void errors_have_file_line_and_column(void **state)
{
    (void)state;
    struct said said = {.file = "bad.yaml"};
    said.answer.json =
        json_of("{\"detail\": \"3 problems\", \"errors\": ["
                "{\"path\": \"a.b\", \"line\": 3, \"column\": 5, \"detail\": \"is no time\"},"
                "{\"path\": \"c\", \"line\": 4, \"detail\": \"no such key\", \"hint\": \"d\"},"
                "{\"path\": \"\", \"detail\": \"it is too long\"}]}");
    assert_string_equal(stderr_of(say, &said), "bad.yaml:3:5: a.b: is no time\n"
                                               "bad.yaml:4: c: no such key; did you mean \"d\"?\n"
                                               "bad.yaml: it is too long\n"
                                               "3 problems\n");
    json_decref(said.answer.json);
}

static void an_answer_that_is_no_problem_is_told_apart(void **state)
{
    (void)state;
    struct said said = {.answer = {.status = 502}};
    assert_non_null(strstr(stderr_of(say, &said), "502"));
    assert_int_equal(said.code, EXIT_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_stand_anywhere),
        cmocka_unit_test(wrong_flags_are_explained),
        cmocka_unit_test(a_verb_refuses_what_it_would_ignore),
        cmocka_unit_test(every_verb_has_help_with_examples),
        cmocka_unit_test(a_wrong_verb_is_explained),
        cmocka_unit_test(paths_are_escaped),
        cmocka_unit_test(problems_have_their_exit_codes),
        cmocka_unit_test(errors_have_file_line_and_column),
        cmocka_unit_test(an_answer_that_is_no_problem_is_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
