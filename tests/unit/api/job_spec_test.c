/* job_spec_test.c: the job file: its table, its defaults, and every fault told at once. */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "controller/api/job_spec.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

#define SMALL                                                                                      \
    "name: llama\nrun:\n  command: [python, train.py]\n  user: train-a\n"                          \
    "layout: {tensor: 8, pipeline: 2, data: 4}\n"

/* Every key of the table, each with a value that is not its default. */
static const char full[] = "version: 1\n"
                           "name: llama-405b\n"
                           "comment: phase 2\n"
                           "labels: {team: pretrain}\n"
                           "priority: 60\n"
                           "run:\n"
                           "  command: [python, -u, train.py]\n"
                           "  workdir: /shared/code\n"
                           "  user: train-a\n"
                           "  allow_root: true\n"
                           "  inherit_env: [PATH]\n"
                           "  compat: [slurm]\n"
                           "  env: {NCCL_DEBUG: WARN, WANDB_API_KEY: s3cret}\n"
                           "  env_file: /etc/keepstep/secrets.env\n"
                           "  umask: \"0027\"\n"
                           "  output: /shared/out\n"
                           "  log_max: 2GiB\n"
                           "  numa: node\n"
                           "  core: true\n"
                           "layout:\n"
                           "  tensor: 8\n"
                           "  context: 2\n"
                           "  pipeline: 4\n"
                           "  data: 16\n"
                           "  order: tp-cp-dp-pp\n"
                           "  ranks_per_node: 16\n"
                           "placement: {pool: h100, exclude: \"gpu-[0001-0003]\"}\n"
                           "spares: {reserve: 4, min_ready: 2, recheck: 2h, on_exhausted: fail}\n"
                           "checkpoint:\n"
                           "  dir: /shared/ckpt\n"
                           "  format: keepstep\n"
                           "  interval: 10m\n"
                           "  on_drain: none\n"
                           "  drain_wait: 5m\n"
                           "  restore: latest-verified\n"
                           "  max_lost: 100\n"
                           "  keep_last: 5\n"
                           "  keep_every: 6h\n"
                           "signals: {stop_grace: 10s, recovery_grace: 3s}\n"
                           "recovery:\n"
                           "  mode: process\n"
                           "  retries: {user: 2, unknown: 4}\n"
                           "  no_progress_limit: 5\n"
                           "  same_node_limit: 6\n"
                           "  restart_exit_codes: [75, 76]\n"
                           "  no_restart_exit_codes: [93, 94]\n"
                           "  start_timeout: 30m\n"
                           "  init_timeout: 6m\n"
                           "hang: {progress: log, first_step: 15m, step_timeout: 300s,\n"
                           "  warmup_steps: 7, log_pattern: 'step (\\d+)'}\n";

static struct config_report report;

static int read_yaml(const char *text, const char *submitter, json_t **ret_tree,
                     struct job_spec *ret_spec)
{
    return job_spec_from_yaml(text, strlen(text), submitter, ret_tree, ret_spec, &report);
}

static void show_report(void)
{
    for (size_t i = 0; i < report.count; i++) {
        print_message("%d:%d: %s: %s (%s)\n", report.problems[i].line, report.problems[i].column,
                      report.problems[i].path, report.problems[i].text, report.problems[i].hint);
    }
}

static json_t *read_good(const char *text, struct job_spec *ret_spec)
{
    json_t *tree = NULL;
    if (read_yaml(text, "", &tree, ret_spec) != 0) {
        show_report();
        fail();
    }
    assert_int_equal(report.total, 0);
    return tree;
}

/* Some problem at this place; its text has `part` in it. */
static const struct config_problem *problem_at(int line, const char *path, const char *part)
{
    for (size_t i = 0; i < report.count; i++) {
        const struct config_problem *p = &report.problems[i];
        if (p->line == line && text_equal(p->path, path) && strstr(p->text, part) != NULL) {
            return p;
        }
    }
    show_report();
    fail_msg("no problem at line %d, %s: %s", line, path, part);
    return NULL;
}

static void read_bad(const char *text, const char *submitter, size_t problems)
{
    json_t *tree = NULL;
    struct job_spec spec;
    assert_int_equal(read_yaml(text, submitter, &tree, &spec), -EINVAL);
    assert_null(tree);
    if (report.total != problems) {
        show_report();
    }
    assert_int_equal(report.total, problems);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void every_key_is_documented(void **state)
{
    (void)state;
    size_t count;
    const struct config_key *keys = job_spec_keys(&count);
    assert_true(count > 50);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(keys[i].doc);
        assert_true(strlen(keys[i].doc) > 3 && strlen(keys[i].doc) < 80);
        assert_true((keys[i].type == CONFIG_ENUM) == (keys[i].words != NULL));
        assert_true(keys[i].min <= keys[i].max);
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(keys[i].path, keys[k].path);
        }
    }
}

static void the_full_file_has_every_key(void **state)
{
    (void)state;
    size_t count;
    const struct config_key *keys = job_spec_keys(&count);
    struct job_spec spec;
    json_t *tree = read_good(full, &spec);
    for (size_t i = 0; i < count; i++) {
        bool of_another_format = strcmp(keys[i].path, "checkpoint.marker") == 0 ||
                                 strcmp(keys[i].path, "checkpoint.reader") == 0;
        if (config_get(tree, keys[i].path) == NULL && !of_another_format) {
            fail_msg("%s is not in the tree", keys[i].path);
        }
    }
    json_decref(tree);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void defaults_are_filled_in(void **state)
{
    (void)state;
    struct job_spec spec;
    json_t *tree = read_good(SMALL, &spec);
    assert_string_equal(spec.name, "llama");
    assert_string_equal(spec.user, "train-a");
    assert_int_equal(spec.revision, 1);
    assert_int_equal(spec.priority, 50);
    assert_int_equal(spec.tensor, 8);
    assert_int_equal(spec.context, 1);
    assert_int_equal(spec.pipeline, 2);
    assert_int_equal(spec.data, 4);
    assert_int_equal(spec.ranks_per_node, 8);
    assert_string_equal(spec.order, "tp-cp-pp-dp");
    assert_int_equal(spec.reserve, 0);
    assert_false(spec.reserve_auto);
    assert_int_equal(spec.save_interval_ms, 0);
    assert_false(spec.save_auto);
    assert_int_equal(spec.on_exhausted, EXHAUSTED_WAIT);
    assert_true(spec.save_on_drain);
    assert_int_equal(spec.drain_wait_ms, 180000);
    assert_int_equal(spec.restore_policy, RESTORE_LATEST_COMPLETE);
    assert_int_equal(spec.max_lost, 2000);
    assert_int_equal(spec.stop_grace_ms, 30000);
    assert_int_equal(spec.recovery_grace_ms, 2000);
    assert_int_equal(spec.retries_user, 1);
    assert_int_equal(spec.retries_unknown, 3);
    assert_int_equal(spec.no_progress_limit, 3);
    assert_int_equal(spec.same_node_limit, 2);
    assert_int_equal(spec.restart_codes[0], 75);
    assert_int_equal(spec.restart_codes[1], 0);
    assert_int_equal(spec.final_codes[0], 93);
    assert_int_equal(spec.start_timeout_ms, 1200000);
    assert_int_equal(spec.init_timeout_ms, 300000);
    assert_int_equal(spec.first_step_ms, 1200000);
    assert_int_equal(spec.step_timeout_ms, 0);
    assert_int_equal(spec.warmup_steps, 5);
    assert_true(spec.watch_progress);
    assert_int_equal(spec.log_steps, LOG_STEPS_NEVER);
    assert_string_equal(config_text(tree, "hang.log_pattern"), "");
    assert_string_equal(config_text(tree, "run.workdir"), "/");
    assert_string_equal(config_text(tree, "run.umask"), "0022");
    assert_int_equal(config_int(tree, "run.log_max"), 1 << 30);
    json_decref(tree);
}

static void auto_is_no_number(void **state)
{
    (void)state;
    struct job_spec spec;
    json_t *tree = read_good("name: a\n"
                             "run: {command: [x], user: u}\n"
                             "layout: {data: 8}\n"
                             "spares: {reserve: auto}\n"
                             "checkpoint: {interval: auto}\n",
                             &spec);
    assert_true(spec.reserve_auto);
    assert_int_equal(spec.reserve, 0);
    assert_true(spec.save_auto);
    assert_int_equal(spec.save_interval_ms, 0);
    assert_string_equal(config_text(tree, "spares.reserve"), "auto");
    json_decref(tree);
}

static void the_full_file_is_understood(void **state)
{
    (void)state;
    struct job_spec spec;
    json_t *tree = read_good(full, &spec);
    assert_int_equal(spec.priority, 60);
    assert_int_equal(spec.context, 2);
    assert_string_equal(spec.order, "tp-cp-dp-pp");
    assert_string_equal(spec.pool, "h100");
    assert_string_equal(spec.exclude, "gpu-[0001-0003]");
    assert_int_equal(spec.reserve, 4);
    assert_false(spec.reserve_auto);
    assert_int_equal(spec.min_ready, 2);
    assert_int_equal(spec.save_interval_ms, 600000);
    assert_false(spec.save_auto);
    assert_int_equal(spec.on_exhausted, EXHAUSTED_FAIL);
    assert_false(spec.save_on_drain);
    assert_int_equal(spec.drain_wait_ms, 300000);
    assert_int_equal(spec.restore_policy, RESTORE_LATEST_VERIFIED);
    assert_int_equal(spec.max_lost, 100);
    assert_int_equal(spec.stop_grace_ms, 10000);
    assert_int_equal(spec.recovery_grace_ms, 3000);
    assert_int_equal(spec.retries_unknown, 4);
    assert_int_equal(spec.no_progress_limit, 5);
    assert_int_equal(spec.same_node_limit, 6);
    assert_int_equal(spec.restart_codes[1], 76);
    assert_int_equal(spec.final_codes[1], 94);
    assert_int_equal(spec.step_timeout_ms, 300000);
    assert_int_equal(spec.warmup_steps, 7);
    json_decref(tree);
}

static void a_step_number_and_empty_lists_are_taken(void **state)
{
    (void)state;
    struct job_spec spec;
    json_t *tree = read_good(SMALL "checkpoint: {restore: \"1200\"}\n"
                                   "recovery: {restart_exit_codes: []}\n"
                                   "hang: {progress: none}\n",
                             &spec);
    assert_int_equal(spec.restore_policy, RESTORE_FIXED_STEP);
    assert_int_equal(spec.restore_fixed_step, 1200);
    assert_int_equal(spec.restart_codes[0], 0);
    assert_int_equal(spec.final_codes[0], 93);
    assert_false(spec.watch_progress);
    json_decref(tree);
}

/* What is stored reads back as itself, by both readers' rules, and means the same. */
static void a_tree_reads_back_as_itself(void **state)
{
    (void)state;
    const char *const texts[] = {SMALL, full};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct job_spec spec;
        struct job_spec again_spec;
        json_t *again = NULL;
        json_t *tree = read_good(texts[i], &spec);
        assert_null(json_object_get(tree, CONFIG_LINES_KEY));
        int code = job_spec_from_json(tree, "", &again, &again_spec, &report);
        if (code != 0) {
            show_report();
        }
        assert_int_equal(code, 0);
        assert_true(json_equal(tree, again));
        assert_memory_equal(&spec, &again_spec, sizeof spec);
        json_decref(tree);
        json_decref(again);
    }
}

static void the_submitter_stands_in_for_the_user(void **state)
{
    (void)state;
    static const char nobody[] = "name: a\nrun: {command: [x]}\nlayout: {data: 8}\n";
    static const char rooted[] =
        "name: a\nrun: {command: [x], allow_root: true}\nlayout: {data: 8}\n";
    static const char as_root[] =
        "name: a\nrun:\n  command: [x]\n  user: root\nlayout: {data: 8}\n";
    json_t *tree = NULL;
    struct job_spec spec;
    assert_int_equal(read_yaml(nobody, "anna", &tree, &spec), 0);
    assert_string_equal(spec.user, "anna");
    assert_string_equal(config_text(tree, "run.user"), "anna");
    json_decref(tree);
    assert_int_equal(read_yaml(rooted, "root", &tree, &spec), 0);
    assert_string_equal(spec.user, "root");
    json_decref(tree);
    read_bad(nobody, "", 1);
    (void)problem_at(0, "run.user", "is missing");
    read_bad(nobody, "root", 1);
    (void)problem_at(0, "run.user", "you are root");
    read_bad(as_root, "anna", 1);
    assert_int_equal(problem_at(4, "run.user", "run.allow_root")->column, 3);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void ten_faults_are_told_at_once(void **state)
{
    (void)state;
    read_bad("name: llama\n"                     /* 1 */
             "priority: 500\n"                   /* 2: out of range */
             "run:\n"                            /* 3 */
             "  command: [python]\n"             /* 4 */
             "  user: train-a\n"                 /* 5 */
             "  workdir: code\n"                 /* 6: not absolute */
             "  umask: \"0999\"\n"               /* 7: not octal */
             "layout:\n"                         /* 8: 8 x 3 = 24 ranks on nodes of 16 */
             "  tensor: 8\n"                     /* 9 */
             "  data: 3\n"                       /* 10 */
             "  tenser: 8\n"                     /* 11: unknown */
             "  ranks_per_node: 16\n"            /* 12 */
             "placement:\n"                      /* 13 */
             "  exclude: gpu-[0001-\n"           /* 14: no hostlist */
             "checkpoint:\n"                     /* 15 */
             "  interval: 10 mins\n"             /* 16: no time */
             "  restore: newest\n"               /* 17: no policy */
             "recovery:\n"                       /* 18 */
             "  restart_exit_codes: [75, 300]\n" /* 19: no exit code */
             "  no_restart_exit_codes: 93\n"     /* 20: no list */
             "spares: {on_exhausted: shrnk}\n",  /* 21: no word */
             "", 11);
    (void)problem_at(2, "priority", "from 0 to 100");
    assert_int_equal(problem_at(6, "run.workdir", "absolute")->column, 3);
    (void)problem_at(7, "run.umask", "octal");
    assert_int_equal(problem_at(8, "layout", "24 ranks")->column, 1);
    assert_string_equal(problem_at(11, "layout.tenser", "no such key")->hint, "tensor");
    (void)problem_at(14, "placement.exclude", "");
    (void)problem_at(16, "checkpoint.interval", "");
    assert_int_equal(problem_at(17, "checkpoint.restore", "latest-complete")->column, 3);
    (void)problem_at(19, "recovery.restart_exit_codes", "300");
    (void)problem_at(20, "recovery.no_restart_exit_codes", "list");
    (void)problem_at(21, "spares.on_exhausted", "wait");
    for (size_t i = 1; i < report.count; i++) { /* in the order of the file */
        assert_true(report.problems[i - 1].line <= report.problems[i].line);
    }
}

/* A check that rests on a key found faulty would judge a default: it says nothing. */
static void one_fault_is_told_once(void **state)
{
    (void)state;
    read_bad("name: a\nrun: {command: [x], user: u}\nlayout: {data: many, ranks_per_node: 8}\n", "",
             1);
    read_bad("name: a\nrun: {command: [x], user: u}\n", "", 1);
    (void)problem_at(1, "layout", "is missing");
    read_bad("name: a\nlayout: {data: 8}\n", "", 1);
    (void)problem_at(1, "run", "is missing");
    read_bad("name: a\nrun: 5\nlayout: 6\n", "", 3); /* and no command */
    read_bad("name: a\nrun: {command: [x], user: \"?\"}\nlayout: {data: 8}\n", "root", 1);
}

static void contradictions_are_found(void **state)
{
    (void)state;
    read_bad(SMALL "recovery: {restart_exit_codes: [75, 93]}\n", "", 1);
    (void)problem_at(0, "recovery.no_restart_exit_codes", "93");
    read_bad(SMALL "recovery:\n  no_restart_exit_codes: [0]\n", "", 1);
    (void)problem_at(7, "recovery.no_restart_exit_codes", "0 is not an exit code");
    read_bad("name: a\nrun: {command: [\"\"], user: u}\nlayout: {data: 8}\n", "", 1);
    (void)problem_at(2, "run.command", "empty");
    read_bad("name: a\nrun: {command: [x], user: u, env: {\"A=B\": c}, inherit_env: [\"\"]}\n"
             "layout: {data: 8, order: tp-pp}\n",
             "", 3);
    (void)problem_at(2, "run.env", "A=B");
    (void)problem_at(2, "run.inherit_env", "''");
    (void)problem_at(3, "layout", "permutation");
    read_bad("name: a\nrun: {command: [x], user: u, compat: [slurm, pbs]}\nlayout: {data: 8}\n", "",
             1);
    (void)problem_at(2, "run.compat", "'pbs' is not known: slurm is");
    /* An order carries each size in 16 bits. */
    read_bad("name: a\nrun: {command: [x], user: u}\nlayout: {data: 65536, ranks_per_node: 1}\n",
             "", 1);
    (void)problem_at(3, "layout.data", "65535");
    read_bad(SMALL "checkpoint: {dir: ckpt}\n", "", 1);
    read_bad("name: a\nrun: {command: [x], user: u, env_file: e, output: o, workdir: \"\"}\n"
             "layout: {data: 8}\n",
             "", 3);
}

static void where_steps_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        bool watch;
        uint8_t log_steps;
    } good[] = {
        {"progress: auto", true, LOG_STEPS_NEVER},
        {"log_pattern: 'step (\\d+)'", true, LOG_STEPS_ELSE},
        {"progress: log, log_pattern: 'iteration\\s+(\\d+)/'", true, LOG_STEPS_ALONE},
        {"progress: mailbox, log_pattern: 'step (\\d+)'", true, LOG_STEPS_NEVER},
        {"progress: none, log_pattern: 'step (\\d+)'", false, LOG_STEPS_NEVER},
    };
    char text[512];
    struct job_spec spec;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        (void)snprintf(text, sizeof text, SMALL "hang: {%s}\n", good[i].keys);
        json_decref(read_good(text, &spec));
        assert_int_equal(spec.watch_progress, good[i].watch);
        assert_int_equal(spec.log_steps, good[i].log_steps);
    }
    read_bad(SMALL "hang: {progress: log}\n", "", 1);
    (void)problem_at(0, "hang.log_pattern", "is missing");
    read_bad(SMALL "hang:\n  step_timeout: 60s\n  log_pattern: 'step \\d+'\n", "", 1);
    assert_int_equal(
        problem_at(8, "hang.log_pattern", "'step \\d+': has no group that holds the step")->column,
        3);
    read_bad(SMALL "hang: {progress: none, log_pattern: '(\\d+) \\1'}\n", "", 1);
    (void)problem_at(6, "hang.log_pattern", "no back references");
    read_bad(SMALL "hang: {progress: logs, log_pattern: '('}\n", "", 1);
    (void)problem_at(6, "hang.progress", "logs");
}

static void formats_of_checkpoints(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        uint8_t reader;
    } good[] = {
        {"on_drain: none", READER_NONE},
        {"dir: /ck", READER_KEEPSTEP},
        {"dir: /ck, format: megatron", READER_MEGATRON},
        {"dir: /ck, format: torch-dcp", READER_TORCH_DCP},
        {"dir: /ck, format: marker, marker: DONE", READER_MARKER},
        {"dir: /ck, format: command, reader: site", READER_COMMAND},
    };
    static const struct {
        const char *keys;
        const char *path;
        const char *says;
    } bad[] = {
        {"format: megatron", "checkpoint.dir", "is missing"},
        {"dir: /ck, format: pickle", "checkpoint.format", "pickle"},
        {"dir: /ck, format: marker", "checkpoint.marker", "is missing"},
        {"dir: /ck, format: marker, marker: a/b", "checkpoint.marker", "not the name of a file"},
        {"dir: /ck, format: marker, marker: \"..\"", "checkpoint.marker", "not the name"},
        {"dir: /ck, marker: DONE", "checkpoint.marker", "for format marker alone"},
        {"dir: /ck, format: command", "checkpoint.reader", "is missing"},
        {"dir: /ck, reader: site", "checkpoint.reader", "for format command alone"},
        {"dir: /ck, format: command, reader: /bin/sh", "checkpoint.reader", ""},
        {"dir: /ck, format: megatron, keep_last: 3", "checkpoint.keep_last",
         "needs format keepstep"},
        {"dir: /ck, keep_every: 1h", "checkpoint.keep_every", "needs keep_last"},
    };
    char text[512];
    struct job_spec spec;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        (void)snprintf(text, sizeof text, SMALL "checkpoint: {%s}\n", good[i].keys);
        json_decref(read_good(text, &spec));
        assert_int_equal(spec.reader, good[i].reader);
        assert_int_equal(spec.keep_last, 0);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        (void)snprintf(text, sizeof text, SMALL "checkpoint: {%s}\n", bad[i].keys);
        json_t *tree = NULL;
        assert_int_equal(read_yaml(text, "u", &tree, &spec), -EINVAL);
        assert_true(report.count >= 1);
        assert_string_equal(report.problems[0].path, bad[i].path);
        assert_non_null(strstr(report.problems[0].text, bad[i].says));
    }
}

static void documents_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "- a\n", "a: [\n", "name: *x\n", "\xff\xfe", "7"};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        json_t *tree = NULL;
        struct job_spec spec;
        assert_int_equal(read_yaml(texts[i], "u", &tree, &spec), -EINVAL);
        assert_null(tree);
        assert_true(report.total > 0);
    }
    json_t *wrong = json_pack("{s:i, s:[s], s:n}", "name", 5, "run", "x", "layout");
    json_t *tree = NULL;
    struct job_spec spec;
    assert_int_equal(job_spec_from_json(wrong, "u", &tree, &spec, &report), -EINVAL);
    assert_true(report.total >= 2);
    json_decref(wrong);
}

static void a_file_that_is_too_long_is_refused(void **state)
{
    (void)state;
    static char text[2 * SPEC_TEXT_MAX];
    size_t used = (size_t)snprintf(text, sizeof text, "%srun2: 1\ncomment: \"", SMALL);
    memset(text + used, 'a', SPEC_TEXT_MAX);
    memcpy(text + used + SPEC_TEXT_MAX, "\"\n", 3);
    read_bad(text, "", 2); /* the unknown key, too */
    (void)problem_at(1, "", "at most 65535 fit");
}

static void secrets_are_masked(void **state)
{
    (void)state;
    struct job_spec spec;
    json_t *tree = read_good(full, &spec);
    json_t *masked = job_spec_masked(tree);
    assert_string_equal(config_text(masked, "run.env.WANDB_API_KEY"), "***");
    assert_string_equal(config_text(masked, "run.env.NCCL_DEBUG"), "WARN");
    assert_string_equal(config_text(tree, "run.env.WANDB_API_KEY"), "s3cret");
    json_decref(masked);
    json_decref(tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_documented),
        cmocka_unit_test(the_full_file_has_every_key),
        cmocka_unit_test(defaults_are_filled_in),
        cmocka_unit_test(auto_is_no_number),
        cmocka_unit_test(the_full_file_is_understood),
        cmocka_unit_test(a_step_number_and_empty_lists_are_taken),
        cmocka_unit_test(a_tree_reads_back_as_itself),
        cmocka_unit_test(the_submitter_stands_in_for_the_user),
        cmocka_unit_test(ten_faults_are_told_at_once),
        cmocka_unit_test(one_fault_is_told_once),
        cmocka_unit_test(contradictions_are_found),
        cmocka_unit_test(where_steps_are_read),
        cmocka_unit_test(formats_of_checkpoints),
        cmocka_unit_test(documents_that_are_none_are_refused),
        cmocka_unit_test(a_file_that_is_too_long_is_refused),
        cmocka_unit_test(secrets_are_masked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
