/* change.c: what a change would do is asked of the controller (a dry run), shown, and on a terminal
 * agreed to, before it is made. The same checks run again when it is made. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "controller/cli/cli.h"
#include "proto/base/text.h"

static int send_once(struct cli *cli, const struct change *change, bool dry_run,
                     struct answer *ret_answer)
{
    struct buf path;
    buf_init(&path, CLI_PATH_MAX);
    (void)!buf_printf(&path, "%s", change->path);
    path_add(&path, "dry_run", dry_run ? "true" : "");
    int code = client_send(cli, change->method, buf_text(&path), change->type, change->body,
                           change->size, ret_answer);
    buf_done(&path);
    if (code == EXIT_DONE && ret_answer->status >= 300) {
        code = say_problem(ret_answer, change->file);
        answer_done(ret_answer);
    }
    return code;
}

int change_send(struct cli *cli, const struct change *change, struct answer *ret_answer)
{
    return send_once(cli, change, cli->dry_run, ret_answer);
}

/* ---- agreeing -------------------------------------------------------------------------------- */

static bool answers_yes(const char *question)
{
    char line[16] = "";
    fprintf(stderr, "%s [y/N] ", question);
    (void)fflush(stderr);
    if (fgets(line, sizeof line, stdin) == NULL) {
        return false;
    }
    line[strcspn(line, "\r\n")] = '\0';
    return text_equal(line, "y") || text_equal(line, "Y") || text_equal(line, "yes");
}

static int ask(const struct cli *cli, const char *question)
{
    bool terminal = isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 && !cli->no_input;
    if (!terminal) {
        return say_usage("nothing was changed: nobody is there to ask, and -y (--yes) is missing");
    }
    if (!answers_yes(question)) {
        fprintf(stderr, "nothing was changed\n");
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

int change_confirm(struct cli *cli, const struct change *change)
{
    struct answer answer;
    bool speaks = !cli->quiet && cli->output != OUTPUT_JSON && cli->output != OUTPUT_JSONL;
    if (cli->dry_run || change->question == NULL || (cli->yes && !speaks)) {
        return EXIT_DONE; /* a dry run shows its plan itself */
    }
    int code = send_once(cli, change, true, &answer);
    if (code != EXIT_DONE) {
        return code;
    }
    const char *question =
        truth(answer.json, "changed") ? change->question(cli, answer.json) : NULL;
    if (question != NULL && speaks && change->show_plan != NULL) {
        change->show_plan(cli, answer.json);
        (void)fflush(stdout); /* before the question; main looks at stdout's errors */
    }
    if (question != NULL && !cli->yes) {
        code = ask(cli, question);
    }
    answer_done(&answer);
    return code;
}

/* ---- bodies and codes ------------------------------------------------------------------------ */

static int dump_cb(const char *data, size_t size, void *context)
{
    return buf_put(context, data, size) < 0 ? -1 : 0;
}

char *change_body(json_t *json, size_t *ret_size)
{
    struct buf text;
    buf_init(&text, CLI_BODY_MAX);
    int failed = json == NULL || json_dump_callback(json, dump_cb, &text, JSON_COMPACT) != 0;
    json_decref(json);
    if (failed) {
        buf_done(&text);
        (void)say_usage("the arguments are too long, or not UTF-8");
        return NULL;
    }
    return buf_take(&text, ret_size);
}

int change_code(const struct cli *cli, const struct answer *answer)
{
    return cli->dry_run && truth(answer->json, "changed") ? EXIT_WOULD_CHANGE : EXIT_DONE;
}
