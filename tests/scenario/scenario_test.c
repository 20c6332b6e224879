/* scenario_test.c: golden scenarios of the controller's core.
 *
 * Every *.txt file here is a script (script.h) with the trace of decisions that it must give. After
 * the script the folds of its records and a snapshot must equal the live state. Then the same
 * script is performed again and again with a controller that dies at each of its commits in turn,
 * once before the commit and once after it and before its actions; the outcome must not change:
 * the same states, attempts, slot holders and marks, and not one process started twice.
 *
 *     SCENARIO_WRITE=1   writes what happens into the files instead: look at the difference
 *     SCENARIO=NAME      performs only that one (without .txt)
 *     SCENARIO_SHOW=1    says more when a killed run ends otherwise
 *     SCENARIO_EVERY=N   the controller dies at each Nth commit only (sanitizers are slow); 0: never
 */
#include "tests/lib/test.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "tests/scenario/play.h"

enum { FILES_MAX = 128, SETTLE_MS = 6000, OUTCOME_MAX = 64 * 1024 };

struct scenario {
    char name[256]; /* without .txt */
    char path[512];
};

static const char *folder(void)
{
    return "tests/scenario";
}

/* ---- comparing ------------------------------------------------------------------------------ */

static uint32_t lines_of(char *text, const char *lines[], uint32_t max)
{
    uint32_t count = 0;
    for (char *at = text; *at != '\0' && count < max;) {
        lines[count++] = at;
        at += strcspn(at, "\n");
        if (*at == '\n') {
            *at++ = '\0';
        }
    }
    return count;
}

/* What is the same at both ends is shown once, the rest as - expected and + shown. */
static void print_difference(const char *expected, const char *actual)
{
    enum { LINES_MAX = 4096 };
    static const char *old[LINES_MAX];
    static const char *new[LINES_MAX];
    char *old_text = mem_strdup(expected);
    char *new_text = mem_strdup(actual);
    uint32_t old_count = lines_of(old_text, old, LINES_MAX);
    uint32_t new_count = lines_of(new_text, new, LINES_MAX);
    uint32_t head = 0;
    uint32_t tail = 0;
    while (head < old_count && head < new_count && text_equal(old[head], new[head])) {
        head++;
    }
    while (tail < old_count - head && tail < new_count - head &&
           text_equal(old[old_count - 1 - tail], new[new_count - 1 - tail])) {
        tail++;
    }
    for (uint32_t i = 0; i < head; i++) {
        print_message("      %s\n", old[i]);
    }
    for (uint32_t i = head; i < old_count - tail; i++) {
        print_message("    - %s\n", old[i]);
    }
    for (uint32_t i = head; i < new_count - tail; i++) {
        print_message("    + %s\n", new[i]);
    }
    for (uint32_t i = old_count - tail; i < old_count; i++) {
        print_message("      %s\n", old[i]);
    }
    mem_free(old_text);
    mem_free(new_text);
}

/* ---- performing ----------------------------------------------------------------------------- */

/* All commands; keeps what each showed (owned by the caller) unless `shown` is NULL. */
static int perform(struct play *play, const struct script *script, char *shown[], struct err *err)
{
    for (uint32_t i = 0; i < script->count; i++) {
        int code = play_command(play, script->blocks[i].command, err);
        if (code < 0) {
            return code;
        }
        if (shown != NULL) {
            shown[i] = mem_strdup(buf_text(&play->shown));
        }
    }
    return 0;
}

static void load(const struct scenario *scenario, struct script *script)
{
    struct err err = {0};
    if (script_load(scenario->path, script, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static bool differs(const struct script *script, char *const shown[])
{
    bool differs = false;
    for (uint32_t i = 0; i < script->count; i++) {
        if (!text_equal(script->blocks[i].expected, shown[i])) {
            print_message("  %s\n  ----\n", script->blocks[i].command);
            print_difference(script->blocks[i].expected, shown[i]);
            differs = true;
        }
    }
    return differs;
}

static void test_golden(void **state)
{
    const struct scenario *scenario = *state;
    struct script script;
    struct play play;
    struct err err = {0};
    char *shown[SCRIPT_BLOCKS_MAX] = {0};
    load(scenario, &script);
    play_init(&play);
    int code = perform(&play, &script, shown, &err);
    bool bad = false;
    if (code == 0 && getenv("SCENARIO_WRITE") != NULL) {
        code = script_write(scenario->path, &script, shown, &err);
    } else if (code == 0) {
        bad = differs(&script, shown);
    }
    if (code == 0) {
        rig_replay_check(play.rig);
    }
    for (uint32_t i = 0; i < script.count; i++) {
        mem_free(shown[i]);
    }
    play_done(&play);
    script_done(&script);
    if (code < 0) {
        fail_msg("%s: %s", scenario->name, err.text);
    } else if (bad) {
        fail_msg("%s shows something else; SCENARIO_WRITE=1 writes it down", scenario->path);
    }
}

/* ---- killed at every commit ----------------------------------------------------------------- */

static void outcome(struct play *play, struct buf *buf)
{
    rig_run(play->rig, SETTLE_MS);
    show_outcome(play->rig, buf);
}

/* Performs the script with a controller that dies at record `at`; true: with the same outcome. */
static bool survives(const struct script *script, uint32_t at, bool before, const char *expected)
{
    struct play play;
    struct buf buf;
    struct err err = {0};
    play_init(&play);
    buf_init(&buf, OUTCOME_MAX);
    play.kill_at = at;
    play.kill_before = before;
    bool same = perform(&play, script, NULL, &err) == 0;
    if (same) {
        outcome(&play, &buf);
        same = text_equal(expected, buf_text(&buf));
    } else {
        print_message("  %s\n", err.text);
    }
    if (!same) {
        print_message("  killed %s record %u:\n", before ? "before" : "after", at);
        print_difference(expected, buf_text(&buf));
        if (getenv("SCENARIO_SHOW") != NULL) {
            (void)fputs(play.rig->trace, stdout); /* cmocka's own would cut it */
        }
    }
    if (play.rig != NULL) {
        rig_replay_check(play.rig);
    }
    buf_done(&buf);
    play_done(&play);
    return same;
}

/* The controller dies at each so many commits; 0: never. */
static uint32_t every(void)
{
    const char *text = getenv("SCENARIO_EVERY");
    uint64_t number = 1;
    if (text != NULL && text_to_u64(text, 1000, &number) < 0) {
        fail_msg("SCENARIO_EVERY=%s: write a number from 0 to 1000", text);
    }
    return (uint32_t)number;
}

static void test_killed(void **state)
{
    const struct scenario *scenario = *state;
    struct script script;
    struct play play;
    struct buf buf;
    struct err err = {0};
    uint32_t bad = 0;
    load(scenario, &script);
    play_init(&play);
    buf_init(&buf, OUTCOME_MAX);
    int code = perform(&play, &script, NULL, &err);
    if (code == 0) {
        uint32_t commits = play.rig->commit_count;
        outcome(&play, &buf);
        const char *expected = buf_text(&buf);
        /* The first commit is of rig_create, before the script can say anything. */
        for (uint32_t i = 1; i < commits; i += every()) {
            uint32_t at = play.rig->commit_ends[i];
            bad += survives(&script, at, true, expected) ? 0 : 1;
            bad += survives(&script, at, false, expected) ? 0 : 1;
        }
    }
    buf_done(&buf);
    play_done(&play);
    script_done(&script);
    if (code < 0) {
        fail_msg("%s: %s", scenario->name, err.text);
    } else if (bad > 0) {
        fail_msg("%s: %u killed runs end otherwise", scenario->name, bad);
    }
}

/* ---- all of them ---------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct scenario *)a)->name, ((const struct scenario *)b)->name);
}

static uint32_t find_scenarios(struct scenario *scenarios)
{
    uint32_t count = 0;
    const char *only = getenv("SCENARIO");
    DIR *dir = opendir(folder());
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL && count < FILES_MAX) {
        size_t size = strlen(entry->d_name);
        if (size <= 4 || !text_equal(entry->d_name + size - 4, ".txt")) {
            continue;
        }
        struct scenario *one = &scenarios[count];
        text_format(one->name, sizeof one->name, "%.*s", (int)(size - 4), entry->d_name);
        text_format(one->path, sizeof one->path, "%s/%s", folder(), entry->d_name);
        count += only == NULL || text_equal(only, one->name) ? 1 : 0;
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    qsort(scenarios, count, sizeof *scenarios, by_name);
    return count;
}

int main(void)
{
    /* Thousands of cores, each with arrays that it hardly touches: fresh pages cost nothing. */
    (void)mallopt(M_MMAP_THRESHOLD, 65536);
    static struct scenario scenarios[FILES_MAX];
    static struct CMUnitTest tests[2 * FILES_MAX];
    static char names[2 * FILES_MAX][300];
    uint32_t test_count = 0;
    uint32_t count = find_scenarios(scenarios);
    bool kills = every() > 0;
    if (count == 0) {
        fprintf(stderr, "no scenario in %s; run this from the project's root\n", folder());
        return 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        char *name = names[test_count];
        text_format(name, sizeof names[0], "%s", scenarios[i].name);
        tests[test_count++] = (struct CMUnitTest){name, test_golden, NULL, NULL, &scenarios[i]};
        if (kills) {
            name = names[test_count];
            text_format(name, sizeof names[0], "%s, killed at every commit", scenarios[i].name);
            tests[test_count++] = (struct CMUnitTest){name, test_killed, NULL, NULL, &scenarios[i]};
        }
    }
    return _cmocka_run_group_tests("scenarios", tests, test_count, NULL, NULL);
}
