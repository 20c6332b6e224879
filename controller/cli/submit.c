/* submit.c: `keepstep submit`: a job file to the controller, which checks all of it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "controller/cli/cli.h"
#include "proto/base/text.h"

enum { NUMBER = 32 };

static int read_all(FILE *file, struct buf *text)
{
    char piece[8192];
    size_t size;
    while ((size = fread(piece, 1, sizeof piece, file)) > 0 && !text->overflow) {
        (void)!buf_put(text, piece, size); /* looked at in the end */
    }
    return ferror(file) != 0 ? -errno : 0;
}

static int read_file(const char *name, struct buf *text)
{
    bool standard = text_equal(name, "-");
    FILE *file = standard ? stdin : fopen(name, "re");
    if (file == NULL) {
        return say_usage("%s: %s", name, strerror(errno));
    }
    int code = read_all(file, text);
    if (!standard) {
        (void)fclose(file); /* only read */
    }
    if (text->overflow) {
        return say_usage("%s: a job file has at most %d bytes", name, CLI_BODY_MAX);
    }
    return code < 0 ? say_usage("%s: %s", name, strerror(-code)) : EXIT_DONE;
}

/* ---- words ----------------------------------------------------------------------------------- */

static const char *counted(const json_t *object, const char *key, char target[NUMBER])
{
    count_format((uint64_t)number(object, key), target, NUMBER);
    return target;
}

static void print_shape(const json_t *plan)
{
    const json_t *layout = json_object_get(plan, "layout");
    char a[NUMBER];
    char b[NUMBER];
    printf("%s %s = %lld tensor x %lld pipeline x %lld data", counted(plan, "ranks", a),
           plural((uint64_t)number(plan, "ranks"), "rank", "ranks"), number(layout, "tensor"),
           number(layout, "pipeline"), number(layout, "data"));
    if (number(layout, "context") > 1) {
        printf(" x %lld context", number(layout, "context"));
    }
    printf(", %s %s of %lld\n", counted(plan, "nodes", b),
           plural((uint64_t)number(plan, "nodes"), "node", "nodes"),
           number(layout, "ranks_per_node"));
}

static void print_placement(const json_t *plan)
{
    char a[NUMBER];
    char b[NUMBER];
    printf("%s %s wanted, %s ready", counted(plan, "nodes", a),
           plural((uint64_t)number(plan, "nodes"), "node", "nodes"),
           counted(plan, "nodes_ready", b));
    if (number(plan, "spares_reserved") > 0) {
        long long spares = number(plan, "spares_reserved");
        printf("; %lld %s reserved", spares, plural((uint64_t)spares, "spare", "spares"));
    } else if (truth(plan, "spares_auto")) {
        printf("; spares reserved by the failure rate");
    }
    printf("\n");
}

static void print_dry(const json_t *answer)
{
    const json_t *plan = json_object_get(answer, "plan");
    long long lacks = number(plan, "nodes") - number(plan, "nodes_ready");
    if (!truth(answer, "changed")) {
        printf("%s; nothing would change.\n", member(answer, "result"));
        return;
    }
    printf("Plan for %s. Nothing was changed.\n  layout     ", member(plan, "name"));
    print_shape(plan);
    printf("  placement  ");
    print_placement(plan);
    if (lacks > 0) {
        printf("  + would wait for %lld more %s\n", lacks,
               plural((uint64_t)lacks, "node", "nodes"));
    } else {
        printf("  + would start now\n");
    }
}

static void print_done(const struct cli *cli, const json_t *answer)
{
    const char *job = member(answer, "job");
    if (!truth(answer, "changed")) {
        printf("Unchanged  %s; nothing was submitted\n", member(answer, "result"));
    } else {
        const json_t *plan = json_object_get(answer, "plan");
        printf("Checked    %s: ", cli->words[1]);
        print_shape(plan);
        printf("Placement  ");
        print_placement(plan);
        printf("Submitted  %s (revision %lld)\n", job, number(answer, "revision"));
    }
    if (!cli->wait && !cli->follow) {
        printf("\n");
        say_next(cli, "Follow it:", "keepstep watch job %s", job);
        say_next(cli, "Stop it:", "keepstep cancel %s", job);
    }
}

/* ---- the verb -------------------------------------------------------------------------------- */

static int answered(struct cli *cli, const struct answer *answer)
{
    const char *job = member(answer->json, "job");
    if (cli->output == OUTPUT_NAME) {
        printf("%s\n", cli->dry_run ? member(json_object_get(answer->json, "plan"), "name") : job);
    } else if (!say_json(cli, answer) && !cli->quiet) {
        if (cli->dry_run) {
            print_dry(answer->json);
        } else {
            print_done(cli, answer->json);
        }
    }
    (void)fflush(stdout); /* before anybody waits; main looks at stdout's errors */
    if (!cli->dry_run && (cli->wait || cli->follow)) {
        return follow_job(cli, job, "succeeded", UINT64_MAX, cli->follow);
    }
    return change_code(cli, answer);
}

static int send_file(struct cli *cli, const struct buf *text)
{
    struct answer answer;
    struct change change = {.method = "POST",
                            .path = cli->hold ? "/v1/jobs?hold=true" : "/v1/jobs",
                            .type = "application/yaml",
                            .body = text->size > 0 ? (const char *)text->data : "",
                            .size = text->size,
                            .file = cli->words[1]};
    int code = change_send(cli, &change, &answer);
    if (code == EXIT_DONE) {
        code = answered(cli, &answer);
        answer_done(&answer);
    }
    return code;
}

int verb_submit(struct cli *cli)
{
    struct buf text;
    if (cli->count != 2) {
        return say_usage("keepstep submit FILE, or - for standard input");
    }
    buf_init(&text, CLI_BODY_MAX);
    int code = read_file(cli->words[1], &text);
    code = code == EXIT_DONE ? send_file(cli, &text) : code;
    buf_done(&text);
    return code;
}
