/* logs.c: `keepstep logs`: the end of a rank's output, and with -f what comes after it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "controller/cli/cli.h"
#include "proto/base/text.h"

enum {
    TAIL_BYTES = 65536, /* read without --tail, and each time with -f */
    LINE_BYTES = 256,   /* of a line, for a guess at how much --tail LINES is */
    TAIL_BYTES_MAX = 1 << 20,
    LINES_MAX = 100000,
    POLL_MS = 500,
};

/* ---- reading --------------------------------------------------------------------------------- */

static int read_tail(struct cli *cli, uint64_t bytes, struct answer *ret_answer)
{
    struct buf path;
    char size[24];
    const char *job = cli->words[1];
    text_format(size, sizeof size, "%llu", (unsigned long long)bytes);
    path_start(&path, "/v1/jobs/", strncmp(job, "job/", 4) == 0 ? job + 4 : job, "/logs");
    path_add(&path, "rank", cli->rank);
    path_add(&path, "attempt", cli->attempt);
    path_add(&path, "node", cli->node);
    path_add(&path, "tail_bytes", size);
    return path_get(cli, &path, ret_answer);
}

/* Where the last `lines` lines begin. */
static size_t start_of_lines(const struct buf *text, uint64_t lines)
{
    size_t at = text->size;
    while (at > 0) {
        bool ends_line = text->data[at - 1] == '\n' && at < text->size;
        if (ends_line && --lines == 0) {
            return at;
        }
        at--;
    }
    return 0;
}

static void print_from(const struct buf *text, size_t start)
{
    if (start < text->size) {
        (void)fwrite(text->data + start, 1, text->size - start, stdout); /* main looks at stdout */
    }
    (void)fflush(stdout);
}

/* ---- following ------------------------------------------------------------------------------- */

/* Both are ends of one growing output: where in `now` that begins which `before` did not have.
 * now->size when nothing is new; 0 when they have nothing in common. */
static size_t start_of_news(const struct buf *before, const struct buf *now)
{
    for (size_t shift = 0; shift < before->size; shift++) {
        size_t common = before->size - shift;
        if (common <= now->size && memcmp(before->data + shift, now->data, common) == 0) {
            return common;
        }
    }
    return 0;
}

/* 0 while the job goes on. */
static int is_over(struct cli *cli, bool *ret_over)
{
    struct buf path;
    struct answer answer;
    const char *job = cli->words[1];
    path_start(&path, "/v1/jobs/", strncmp(job, "job/", 4) == 0 ? job + 4 : job, "");
    int code = path_get(cli, &path, &answer);
    if (code == EXIT_DONE) {
        const char *state = member(answer.json, "state");
        *ret_over = text_equal(state, "succeeded") || text_equal(state, "failed") ||
                    text_equal(state, "cancelled");
        answer_done(&answer);
    }
    return code;
}

static void wait_a_moment(void)
{
    struct timespec wait = {.tv_nsec = POLL_MS * 1000000l};
    (void)nanosleep(&wait, NULL); /* the controller has no stream of output yet */
}

/* before is taken. */
static int follow(struct cli *cli, struct answer *before)
{
    bool over = false;
    int code = EXIT_DONE;
    while (code == EXIT_DONE && !over) {
        struct answer now;
        wait_a_moment();
        code = is_over(cli, &over); /* asked first: what is read then is all there will be */
        code = code == EXIT_DONE ? read_tail(cli, TAIL_BYTES, &now) : code;
        if (code != EXIT_DONE) {
            break;
        }
        size_t start = start_of_news(&before->body, &now.body);
        if (start == 0 && before->body.size > 0 && now.body.size > 0) {
            fprintf(stderr, "-- a new attempt, or more than %d bytes at a time --\n", TAIL_BYTES);
        }
        print_from(&now.body, start);
        answer_done(before);
        *before = now;
    }
    answer_done(before);
    return code;
}

/* ---- the verb -------------------------------------------------------------------------------- */

int verb_logs(struct cli *cli)
{
    struct answer answer;
    uint64_t lines = 0;
    uint64_t bytes = TAIL_BYTES;
    if (cli->count != 2) {
        return say_usage("keepstep logs JOB [--rank N]");
    }
    if (cli->tail != NULL && (text_to_u64(cli->tail, LINES_MAX, &lines) < 0 || lines == 0)) {
        return say_usage("--tail %s: a number of lines, 1 to %d", cli->tail, LINES_MAX);
    }
    if (lines * LINE_BYTES > bytes) {
        bytes = lines * LINE_BYTES < TAIL_BYTES_MAX ? lines * LINE_BYTES : TAIL_BYTES_MAX;
    }
    int code = read_tail(cli, bytes, &answer);
    if (code != EXIT_DONE) {
        return code;
    }
    print_from(&answer.body, lines > 0 ? start_of_lines(&answer.body, lines) : 0);
    if (cli->follow) {
        return follow(cli, &answer);
    }
    answer_done(&answer);
    return EXIT_DONE;
}
