/* watch.c: `keepstep watch` and `wait`: the durable, resumable event stream. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "controller/cli/cli.h"
#include "proto/base/duration.h"
#include "proto/base/text.h"

enum {
    RETRY_FIRST_MS = 100,      /* between two tries to reach a controller that is away: doubled */
    RETRY_LAST_MS = 2000,      /* … up to this */
    RETRY_FOR_MS = 600 * 1000, /* an upgrade takes minutes, not longer */
    DATE_AFTER_MS = 20 * 3600 * 1000, /* events older than this show their date, too */
    TIME_AT = 11,                     /* of "2026-11-29T17:29:01.250Z" */
};

struct watcher {
    struct cli *cli;
    const char *until;   /* running, succeeded, step=N; NULL: for ever */
    uint64_t until_step; /* N */
    uint64_t deadline_ms;
    const char *job; /* whose end is waited for, or whose events are shown; or NULL */
    bool show;
    bool headed;
    bool reached;
    int code;
    long long revision;    /* shown up to here */
    uint64_t wall_from_ms; /* --since */
    uint64_t lost_ms;      /* since when nobody answers; 0 = somebody does */
    uint64_t retry_ms;
};

/* ---- clocks ---------------------------------------------------------------------------------- */

static uint64_t clock_ms(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now); /* cannot fail for these clocks */
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t now_ms(void)
{
    return clock_ms(CLOCK_MONOTONIC);
}

static bool is_late(const struct watcher *watcher)
{
    return now_ms() >= watcher->deadline_ms;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void print_row(const json_t *event)
{
    char time[TIME_TEXT_SIZE];
    char text[1024];
    uint64_t wall = (uint64_t)number(event, "wall_ms");
    uint64_t now = clock_ms(CLOCK_REALTIME);
    time_format(wall, time);
    if (now > wall && now - wall > DATE_AFTER_MS) {
        printf("%.10s ", time);
    }
    printf("%.8s  %-5s %-20s %-18s %s\n", time + TIME_AT, member(event, "severity"),
           member(event, "subject"), member(event, "type"),
           harmless(member(event, "message"), text, sizeof text));
}

static void print_event(struct watcher *watcher, const json_t *event, const char *line, size_t size)
{
    if (!watcher->show) {
        return;
    }
    if (watcher->cli->output == OUTPUT_JSON || watcher->cli->output == OUTPUT_JSONL) {
        (void)fwrite(line, 1, size, stdout); /* main looks at stdout's errors */
        (void)fputc('\n', stdout);
    } else {
        if (!watcher->headed && !watcher->cli->quiet) {
            printf("%-8s  %-5s %-20s %-18s %s\n", "TIME", "SEV", "SUBJECT", "EVENT", "MESSAGE");
        }
        watcher->headed = true;
        print_row(event);
    }
    (void)fflush(stdout);
}

/* ---- the job --------------------------------------------------------------------------------- */

/* What the job's state means for somebody who waits for `until`. */
static void judge(struct watcher *watcher, const json_t *job)
{
    const char *state = member(job, "state");
    const char *reason = member(job, "reason");
    bool there = text_equal(state, watcher->until) ||
                 (watcher->until_step > 0 && (uint64_t)number(job, "step") >= watcher->until_step);
    watcher->reached = true;
    if (there || text_equal(state, "succeeded")) {
        watcher->code = EXIT_DONE;
    } else if (text_equal(state, "failed")) {
        watcher->code = EXIT_JOB_FAILED;
        fprintf(stderr, "%s failed: %s\n", watcher->job, reason);
    } else if (text_equal(state, "cancelled")) {
        watcher->code = EXIT_JOB_CANCELLED;
        fprintf(stderr, "%s was cancelled\n", watcher->job);
    } else if (text_equal(state, "held")) {
        watcher->code = EXIT_JOB_HELD;
        fprintf(stderr, "%s is held: %s\n", watcher->job, reason);
    } else {
        watcher->reached = false;
    }
}

/* Asks for the job itself: what a stream could have missed is in its state. */
static int job_now(struct watcher *watcher)
{
    struct answer answer;
    struct buf path;
    path_start(&path, "/v1/jobs/", watcher->job, "");
    int code = path_get(watcher->cli, &path, &answer);
    if (code == EXIT_DONE) {
        judge(watcher, answer.json);
        answer_done(&answer);
    }
    return code;
}

/* ---- the stream ------------------------------------------------------------------------------ */

/* The stream's connection is in use: whether the job is there is asked after leaving it. */
static int line_visit(const char *line, size_t size, void *context)
{
    struct watcher *watcher = context;
    if (is_late(watcher)) {
        return STREAM_VISITED;
    }
    if (line == NULL) { /* steps are no events: they are looked at once a second */
        return watcher->until_step > 0 ? STREAM_VISITED : 0;
    }
    json_t *event = json_loadb(line, size, 0, NULL);
    bool real = json_object_size(event) > 0; /* {} is the heartbeat */
    bool moved = strncmp(member(event, "type"), "Job", 3) == 0;
    watcher->lost_ms = 0;
    if (real) {
        watcher->revision = number(event, "revision");
        print_event(watcher, event, line, size);
    }
    json_decref(event);
    return watcher->until != NULL && moved ? STREAM_VISITED : 0;
}

static int stream_once(struct watcher *watcher)
{
    struct buf path;
    char text[32];
    const struct cli *cli = watcher->cli;
    path_start(&path, "/v1/events", "", "");
    text_format(text, sizeof text, "%lld", watcher->revision);
    path_add(&path, "after", text);
    path_add(&path, "severity", cli->severity);
    path_add(&path, "type", cli->type);
    if (watcher->wall_from_ms > 0) {
        text_format(text, sizeof text, "%llu", (unsigned long long)watcher->wall_from_ms);
        path_add(&path, "since_ms", text);
    }
    if (watcher->job != NULL) {
        (void)!buf_printf(&path, "&for=job%%2F");
        path_part(&path, watcher->job);
    } else {
        path_add(&path, "for", cli->subject);
    }
    int code = client_stream(watcher->cli, buf_text(&path), line_visit, watcher);
    buf_done(&path);
    return code;
}

/* ---- following ------------------------------------------------------------------------------- */

static void pause_ms(uint64_t ms)
{
    struct timespec wait = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&wait, NULL); /* nothing says when the controller is back */
}

/* Nobody answered. False when it is time to give up. */
static bool try_again(struct watcher *watcher)
{
    uint64_t now = now_ms();
    if (watcher->lost_ms == 0) {
        watcher->lost_ms = now;
        watcher->retry_ms = RETRY_FIRST_MS;
        fprintf(stderr, "the controller is away; trying again\n");
    }
    if (now - watcher->lost_ms >= RETRY_FOR_MS) {
        return false;
    }
    pause_ms(watcher->retry_ms);
    watcher->retry_ms =
        watcher->retry_ms * 2 < RETRY_LAST_MS ? watcher->retry_ms * 2 : RETRY_LAST_MS;
    return true;
}

static int say_stopped(const struct watcher *watcher)
{
    fprintf(stderr, "stopped watching at revision %lld; go on with --since-revision %lld\n",
            watcher->revision, watcher->revision);
    return watcher->until != NULL ? EXIT_INTERRUPTED : EXIT_DONE;
}

static int say_late(const struct watcher *watcher)
{
    fprintf(stderr, "%s: not %s in time\n", watcher->job, watcher->until);
    return EXIT_TIMEOUT;
}

/* One round; STREAM_ENDED: go on with the next. */
static int follow_once(struct watcher *watcher)
{
    int code = watcher->until != NULL ? job_now(watcher) : EXIT_DONE;
    if (code == EXIT_DONE && watcher->reached) {
        return watcher->code;
    }
    if (is_late(watcher)) {
        return say_late(watcher);
    }
    code = code == EXIT_DONE ? stream_once(watcher) : code;
    if (code == EXIT_UNREACHABLE) {
        return try_again(watcher) ? STREAM_ENDED : code;
    }
    if (code == STREAM_INTERRUPTED) {
        return say_stopped(watcher);
    }
    return code == STREAM_VISITED ? STREAM_ENDED : code;
}

static int follow(struct watcher *watcher)
{
    int code;
    do {
        code = follow_once(watcher);
        watcher->cli->hush = true; /* the first failure was told; later ones are tried again */
    } while (code == STREAM_ENDED);
    watcher->cli->hush = false;
    return code;
}

/* Where to begin: at a revision, at a time, or now. */
static int start_at(struct cli *cli, struct watcher *watcher)
{
    uint64_t value = 0;
    struct err err = {0};
    struct answer answer;
    if (cli->since_revision != NULL) {
        if (text_to_u64(cli->since_revision, INT64_MAX, &value) < 0) {
            return say_usage("--since-revision %s: a number", cli->since_revision);
        }
        watcher->revision = (long long)value;
        return EXIT_DONE;
    }
    if (cli->since != NULL) {
        if (duration_parse(cli->since, &value, &err) < 0) {
            return say_usage("--since: %s", err.text);
        }
        uint64_t now = clock_ms(CLOCK_REALTIME);
        watcher->wall_from_ms = value < now ? now - value : 1;
        return EXIT_DONE;
    }
    int code = client_get(cli, "/v1/cluster", &answer);
    if (code == EXIT_DONE) {
        watcher->revision = number(answer.json, "revision");
        answer_done(&answer);
    }
    return code;
}

/* running, succeeded or step=N. */
static int read_until(struct watcher *watcher, const char *until)
{
    bool step = strncmp(until, "step=", 5) == 0;
    watcher->until = until;
    if (step ? text_to_u64(until + 5, INT64_MAX, &watcher->until_step) < 0
             : !text_equal(until, "running") && !text_equal(until, "succeeded")) {
        return say_usage("--for %s: running, succeeded or step=N", until);
    }
    return EXIT_DONE;
}

int follow_job(struct cli *cli, const char *job, const char *until, uint64_t timeout_ms,
               bool show_events)
{
    uint64_t now = now_ms();
    struct watcher watcher = {.cli = cli,
                              .job = job,
                              .show = show_events,
                              .deadline_ms =
                                  timeout_ms > UINT64_MAX - now ? UINT64_MAX : now + timeout_ms};
    int code = read_until(&watcher, until);
    code = code == EXIT_DONE ? start_at(cli, &watcher) : code;
    return code == EXIT_DONE ? follow(&watcher) : code;
}

/* ---- the verbs ------------------------------------------------------------------------------- */

static const char *bare(const char *word, const char *kind)
{
    size_t size = strlen(kind);
    return strncmp(word, kind, size) == 0 && word[size] == '/' ? word + size + 1 : word;
}

int verb_watch(struct cli *cli)
{
    struct watcher watcher = {.cli = cli, .show = true, .deadline_ms = UINT64_MAX};
    char subject[256];
    bool named = cli->count == 3;
    if (named && text_equal(cli->words[1], "job")) {
        watcher.job = bare(cli->words[2], "job");
    } else if (named && text_equal(cli->words[1], "node")) {
        text_format(subject, sizeof subject, "node/%s", bare(cli->words[2], "node"));
        cli->subject = subject;
    } else if (cli->count != 2 || !text_equal(cli->words[1], "events")) {
        return say_usage("keepstep watch events, watch job NAME, or watch node NAME");
    }
    int code = start_at(cli, &watcher);
    code = code == EXIT_DONE ? follow(&watcher) : code;
    cli->subject = NULL;
    return code;
}

int verb_wait(struct cli *cli)
{
    uint64_t timeout_ms = UINT64_MAX;
    struct err err = {0};
    if (cli->count != 3 || !text_equal(cli->words[1], "job")) {
        return say_usage("keepstep wait job NAME [--for running|succeeded|step=N]");
    }
    if (cli->timeout != NULL && duration_parse(cli->timeout, &timeout_ms, &err) < 0) {
        return say_usage("--timeout: %s", err.text);
    }
    return follow_job(cli, bare(cli->words[2], "job"),
                      cli->subject != NULL ? cli->subject : "succeeded", timeout_ms, false);
}
