/* job_action.c: cancel, hold, release, restart; what the checkpoint verbs share with them. */
#include <stdio.h>
#include <string.h>

#include "controller/cli/cli.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

const char *job_name(const char *word)
{
    return strncmp(word, "job/", 4) == 0 ? word + 4 : word;
}

static bool is(const struct cli *cli, const char *verb)
{
    return text_equal(cli->words[0], verb);
}

/* ---- the plan -------------------------------------------------------------------------------- */

static void show_plan(const struct cli *cli, const json_t *answer)
{
    const json_t *plan = json_object_get(answer, "plan");
    const char *job = member(answer, "job");
    char ranks[32];
    long long again = number(plan, "step") - number(plan, "checkpoint_step");
    count_format((uint64_t)number(plan, "ranks"), ranks, sizeof ranks);
    printf("%s is %s", job, member(plan, "state"));
    if (number(plan, "nodes") > 0) {
        printf(" at step %lld on %lld %s", number(plan, "step"), number(plan, "nodes"),
               plural((uint64_t)number(plan, "nodes"), "node", "nodes"));
    }
    printf(".\n");
    if (is(cli, "cancel")) {
        printf("Cancelling stops its %s ranks for good; checkpoints stay.\n", ranks);
    } else if (is(cli, "hold")) {
        printf("It stops after its next checkpoint and keeps its place.\n");
    } else if (is(cli, "restart")) {
        printf("All %s ranks start again from %s", ranks,
               cli->after_checkpoint ? "a checkpoint that is asked for first"
                                     : "the newest checkpoint");
        if (again > 0 && !cli->after_checkpoint) {
            printf("; %lld %s done again at the most", again,
                   plural((uint64_t)again, "step is", "steps are"));
        }
        printf(".\n");
    }
}

/* ---- what comes next ------------------------------------------------------------------------- */

static void print_next(const struct cli *cli, const char *job)
{
    if (is(cli, "cancel")) {
        say_next(cli, "Follow it:", "keepstep watch job %s", job);
        say_next(cli, "Look back:", "keepstep describe job %s", job);
    } else if (is(cli, "hold")) {
        say_next(cli, "Let it go on:", "keepstep release %s", job);
    } else if (is(cli, "checkpoint")) {
        say_next(cli, "See it:", "keepstep get checkpoints %s", job);
    } else {
        say_next(cli, "Follow it:", "keepstep watch job %s", job);
    }
}

static void print_done(const struct cli *cli, const json_t *answer)
{
    bool plan = json_is_object(json_object_get(answer, "plan"));
    if (cli->dry_run && plan && truth(answer, "changed")) {
        show_plan(cli, answer);
    } else {
        printf("%s\n", member(answer, "result"));
    }
    if (cli->dry_run) {
        printf("Nothing was changed.\n");
    } else if (truth(answer, "changed")) {
        print_next(cli, member(answer, "job"));
    }
}

/* ---- the verbs ------------------------------------------------------------------------------- */

static const char *question(const struct cli *cli, const json_t *answer)
{
    (void)answer;
    if (is(cli, "cancel")) {
        return "Cancel it?";
    }
    return is(cli, "hold") ? "Hold it?" : "Restart it?";
}

static int post(struct cli *cli, const char *path, const char *body, size_t size)
{
    struct answer answer;
    bool disrupts = is(cli, "cancel") || is(cli, "hold") || is(cli, "restart");
    struct change change = {.method = "POST",
                            .path = path,
                            .type = "application/json",
                            .body = body,
                            .size = size,
                            .question = disrupts ? question : NULL,
                            .show_plan = show_plan};
    int code = change_confirm(cli, &change);
    code = code == EXIT_DONE ? change_send(cli, &change, &answer) : code;
    if (code != EXIT_DONE) {
        return code;
    }
    if (!say_json(cli, &answer) && !cli->quiet) {
        print_done(cli, answer.json);
    }
    code = change_code(cli, &answer);
    answer_done(&answer);
    return code;
}

int job_act(struct cli *cli, const char *job, const char *suffix)
{
    struct buf path;
    size_t size = 0;
    json_t *tree = json_pack("{s:s}", "reason", cli->reason != NULL ? cli->reason : "");
    if (cli->after_checkpoint) {
        json_object_set_new(tree, "after_checkpoint", json_true());
    }
    char *body = change_body(tree, &size);
    if (body == NULL) {
        return EXIT_USAGE;
    }
    path_start(&path, "/v1/jobs/", job_name(job), suffix);
    int code = post(cli, buf_text(&path), body, size);
    buf_done(&path);
    mem_free(body);
    return code;
}

int verb_job_action(struct cli *cli)
{
    char suffix[32];
    if (cli->count != 2) {
        return say_usage("keepstep %s JOB", cli->words[0]);
    }
    text_format(suffix, sizeof suffix, "/%s", cli->words[0]);
    return job_act(cli, cli->words[1], suffix);
}
