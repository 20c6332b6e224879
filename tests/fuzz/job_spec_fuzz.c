/* job_spec_fuzz.c: any bytes as a job file, in YAML and in JSON, and what was accepted once more. */
#include <jansson.h>
#include <string.h>

#include "controller/api/job_spec.h"
#include "proto/base/check.h"
#include "proto/base/text.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_alphabet[] =
    "name: run: command layout data env\n\n  -[]{},:\"'#&*!?0123456789abc/.\t";

static const char *const examples[] = {
    "name: llama\nrun:\n  command: [python, train.py]\n  user: train-a\n"
    "layout: {tensor: 8, pipeline: 2, data: 4}\ncheckpoint:\n  dir: /shared/ckpt\n",
    "name: a\nrun: {command: [x], user: u, umask: \"0027\", env: {A: b, C_KEY: d}, workdir: /w}\n"
    "layout: {data: 16, order: tp-cp-dp-pp, ranks_per_node: 4}\n"
    "placement: {pool: h100, exclude: \"gpu-[0001-0003,7]\"}\n"
    "recovery: {restart_exit_codes: [75, 76], no_restart_exit_codes: [], retries: {user: 2}}\n"
    "hang: {step_timeout: 300s, progress: log, log_pattern: '(?:a|b) [\\d,]{1,2}(\\d+)'}\nsignals: "
    "{stop_grace: 10s}\n",
    "{\"name\": \"a\", \"run\": {\"command\": [\"x\", \"-y\"], \"user\": \"u\"},"
    " \"layout\": {\"data\": 8, \"tensor\": 1}, \"checkpoint\": {\"restore\": \"1200\"}}",
    "name: a\nrun: {command: [\"\"], user: root, workdir: w}\nlayout: {data: 3}\n"
    "checkpoint: {interval: 10 mins, restore: x, dir: y}\nspares: {on_exhausted: shrnk}\n",
};

FUZZ_TEXTS(examples)

/* What a reader promises: a tree or problems, never both, and texts that may be shown. */
static void check_result(int code, const json_t *tree, const struct config_report *report)
{
    CHECK((code == 0) == (tree != NULL));
    CHECK((code == 0) == (report->total == 0));
    for (size_t i = 0; i < report->count; i++) {
        const struct config_problem *problem = &report->problems[i];
        CHECK(text_is_utf8(problem->text, strlen(problem->text)));
        CHECK(text_is_utf8(problem->path, strlen(problem->path)));
        CHECK(problem->text[0] != '\0');
    }
}

/* What was accepted is stored, read back, and means the same. The tree is taken. */
static void check_again(json_t *tree, const struct job_spec *spec, struct config_report *report)
{
    json_t *again = NULL;
    struct job_spec again_spec;
    CHECK(json_object_get(tree, CONFIG_LINES_KEY) == NULL);
    CHECK(json_dumpb(tree, NULL, 0, JOB_SPEC_DUMP) < SPEC_TEXT_MAX);
    CHECK(text_is_name(spec->name, sizeof spec->name) && spec->user[0] != '\0');
    int code = job_spec_from_json(tree, "", &again, &again_spec, report);
    check_result(code, again, report);
    CHECK(code == 0 && json_equal(tree, again));
    CHECK(memcmp(spec, &again_spec, sizeof *spec) == 0);
    json_decref(job_spec_masked(tree));
    json_decref(again);
    json_decref(tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config_report report;
    struct job_spec spec;
    json_t *tree = NULL;
    int code = job_spec_from_yaml((const char *)data, size, "fuzz", &tree, &spec, &report);
    check_result(code, tree, &report);
    if (tree != NULL) {
        check_again(tree, &spec, &report);
    }
    json_t *json = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    if (json != NULL) {
        tree = NULL;
        code = job_spec_from_json(json, "", &tree, &spec, &report);
        check_result(code, tree, &report);
        if (tree != NULL) {
            check_again(tree, &spec, &report);
        }
        json_decref(json);
    }
    return 0;
}
