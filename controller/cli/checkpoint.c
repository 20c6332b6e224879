/* checkpoint.c: `keepstep checkpoint now | pin | unpin | verify`. */
#include <stdio.h>
#include <string.h>

#include "controller/cli/cli.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

enum { SUFFIX_SIZE = 96, LOOK_TICKS = 5 };

/* What `verify --wait` looks at: an event of the job says when to look. */
struct waiting {
    struct cli *cli;
    const char *job;
    const char *step; /* digits, or "newest" */
    int ticks;        /* seconds in which nothing was said */
    int code;         /* of the exit, once it is known */
};

static bool is_step(const char *word)
{
    uint64_t step;
    return text_to_u64(word, INT64_MAX, &step) == 0;
}

static int get_one(const struct waiting *waiting, struct answer *ret_answer)
{
    struct buf path;
    char suffix[SUFFIX_SIZE];
    text_format(suffix, sizeof suffix, "/checkpoints/%s", waiting->step);
    path_start(&path, "/v1/jobs/", job_name(waiting->job), suffix);
    return path_get(waiting->cli, &path, ret_answer);
}

/* True when nobody reads it any more, or it cannot be asked; waiting->code is set then. */
static bool is_over(struct waiting *waiting)
{
    struct answer answer;
    waiting->code = get_one(waiting, &answer);
    if (waiting->code != EXIT_DONE) {
        return true;
    }
    bool over = !json_is_object(json_object_get(answer.json, "errand"));
    bool good = text_equal(member(answer.json, "state"), "verified");
    if (over && !waiting->cli->quiet) {
        printf("step %lld is %s: %s\n", number(answer.json, "step"), member(answer.json, "state"),
               member(answer.json, "note"));
    }
    waiting->code = good ? EXIT_DONE : EXIT_FAILED;
    answer_done(&answer);
    return over;
}

/* An event of the job, or LOOK_TICKS seconds without one: time to look. */
static int visit(const char *line, size_t size, void *context)
{
    struct waiting *waiting = context;
    bool event = line != NULL && size > 2; /* {} is a heartbeat */
    waiting->ticks += line == NULL ? 1 : 0;
    return event || waiting->ticks >= LOOK_TICKS ? STREAM_VISITED : 0;
}

static int wait_verified(struct cli *cli, const char *job, const char *step)
{
    struct waiting waiting = {.cli = cli, .job = job, .step = step};
    struct buf path;
    char subject[SUFFIX_SIZE];
    text_format(subject, sizeof subject, "job/%.80s", job_name(job));
    path_start(&path, "/v1/events", "", "");
    path_add(&path, "for", subject);
    while (!is_over(&waiting)) {
        waiting.ticks = 0;
        int end = client_stream(cli, buf_text(&path), visit, &waiting);
        if (end != STREAM_VISITED && end != STREAM_ENDED) {
            waiting.code = end == STREAM_INTERRUPTED ? EXIT_INTERRUPTED : end;
            break;
        }
    }
    buf_done(&path);
    return waiting.code;
}

int verb_checkpoint(struct cli *cli)
{
    static const char *const verbs[] = {"pin", "unpin", "verify"};
    char suffix[SUFFIX_SIZE];
    const char *verb = cli->count > 1 ? cli->words[1] : "";
    if (cli->count == 3 && text_equal(verb, "now")) {
        return cli->wait ? say_usage("checkpoint now does not take --wait")
                         : job_act(cli, cli->words[2], "/checkpoints");
    }
    bool known = false;
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
        known = known || text_equal(verb, verbs[i]);
    }
    const char *step = cli->count == 4 ? cli->words[3] : "newest";
    if (!known || cli->count < 3 || cli->count > 4) {
        return say_usage("keepstep checkpoint now JOB, or pin|unpin|verify JOB [STEP]");
    }
    if (!text_equal(step, "newest") && !is_step(step)) {
        return say_usage("'%s' is not the step of a checkpoint", step);
    }
    bool verify = text_equal(verb, "verify");
    if (cli->wait && !verify) {
        return say_usage("checkpoint %s does not take --wait", verb);
    }
    text_format(suffix, sizeof suffix, "/checkpoints/%s/%s", step, verb);
    int code = job_act(cli, cli->words[2], suffix);
    return code == EXIT_DONE && cli->wait && !cli->dry_run ? wait_verified(cli, cli->words[2], step)
                                                           : code;
}
