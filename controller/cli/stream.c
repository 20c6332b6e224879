/* stream.c: a stream of JSON lines that a person may leave with Ctrl-C, and a clock beside it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "controller/cli/client.h"
#include "proto/base/mem.h"

enum { LINES_MAX = 32 << 20, CLOCK_MS = 1000, SILENCE_S = 60 /* heartbeats come every 15 s */ };

struct stream {
    CURL *curl;
    struct buf rest; /* not yet a whole line; the whole body of a problem */
    client_line *visit;
    void *context;
    int stopped; /* what the visitor said */
};

static bool is_refused(CURL *curl)
{
    long status = 0;
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    return status >= 300;
}

static size_t line_cb(char *data, size_t one, size_t count, void *context)
{
    struct stream *stream = context;
    if (buf_put(&stream->rest, data, one * count) < 0) {
        return 0;
    }
    while (stream->stopped == 0 && stream->rest.size > 0 && !is_refused(stream->curl)) {
        const uint8_t *end = memchr(stream->rest.data, '\n', stream->rest.size);
        if (end == NULL) {
            break;
        }
        size_t size = (size_t)(end - stream->rest.data);
        stream->stopped = stream->visit((const char *)stream->rest.data, size, stream->context);
        buf_consume(&stream->rest, size + 1);
    }
    return stream->stopped == 0 ? one * count : 0;
}

/* ---- Ctrl-C ---------------------------------------------------------------------------------- */

/* A descriptor that is readable after Ctrl-C; -1: the system's default stays. */
static int catch_interrupts(sigset_t *ret_before)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    if (sigprocmask(SIG_BLOCK, &set, ret_before) != 0) {
        return -1;
    }
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) {
        (void)sigprocmask(SIG_SETMASK, ret_before, NULL);
    }
    return fd;
}

static void release_interrupts(int fd, const sigset_t *before)
{
    struct signalfd_siginfo info;
    if (fd < 0) {
        return;
    }
    while (read(fd, &info, sizeof info) > 0) {
        /* a second one must not end us while we say goodbye */
    }
    (void)close(fd);
    (void)sigprocmask(SIG_SETMASK, before, NULL);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Until the transfer ends (its result in *ret_result), the visitor has enough, or Ctrl-C. */
static void run(struct stream *stream, CURLM *multi, int interrupts, CURLcode *ret_result)
{
    int running = 1;
    while (stream->stopped == 0) {
        int left = 0;
        if (curl_multi_perform(multi, &running) != CURLM_OK) {
            return;
        }
        const CURLMsg *message = curl_multi_info_read(multi, &left);
        if (message != NULL && message->msg == CURLMSG_DONE) {
            *ret_result = message->data.result;
            return;
        }
        struct curl_waitfd wait = {.fd = interrupts, .events = CURL_WAIT_POLLIN};
        int ready = 0;
        (void)curl_multi_poll(multi, &wait, interrupts >= 0 ? 1 : 0, CLOCK_MS, &ready);
        if (wait.revents != 0) {
            stream->stopped = STREAM_INTERRUPTED;
        } else if (stream->stopped == 0) {
            stream->stopped = stream->visit(NULL, 0, stream->context);
        }
    }
}

static int outcome(struct cli *cli, struct stream *stream, CURLcode result)
{
    struct answer answer = {0};
    (void)curl_easy_getinfo(stream->curl, CURLINFO_RESPONSE_CODE, &answer.status);
    if (stream->stopped != 0) {
        return stream->stopped;
    }
    if (answer.status >= 300) {
        answer.json = json_loadb((const char *)stream->rest.data, stream->rest.size, 0, NULL);
        int code = say_problem(&answer, NULL);
        json_decref(answer.json);
        return code;
    }
    if (answer.status == 0) {
        return client_unreachable(cli, curl_easy_strerror(result));
    }
    return STREAM_ENDED;
}

static int transfer(struct cli *cli, struct stream *stream)
{
    sigset_t before;
    CURLcode result = CURLE_OK;
    CURLM *multi = curl_multi_init();
    mem_needed(multi);
    int interrupts = catch_interrupts(&before);
    if (curl_multi_add_handle(multi, stream->curl) == CURLM_OK) {
        run(stream, multi, interrupts, &result);
        (void)curl_multi_remove_handle(multi, stream->curl);
    }
    (void)curl_multi_cleanup(multi);
    int code = outcome(cli, stream, result);
    release_interrupts(interrupts, &before);
    return code;
}

int client_stream(struct cli *cli, const char *path, client_line *visit, void *context)
{
    struct stream stream = {.curl = cli->client->curl, .visit = visit, .context = context};
    struct buf url;
    buf_init(&stream.rest, LINES_MAX);
    buf_init(&url, CLI_PATH_MAX + CLIENT_URL_SIZE);
    if (buf_printf(&url, "%s%s", cli->client->base, path) < 0) {
        buf_done(&url);
        return say_usage("the arguments are too long");
    }
    struct curl_slist *list = client_headers(cli, "application/jsonl", NULL);
    client_set_up(cli, buf_text(&url), list);
    (void)curl_easy_setopt(stream.curl, CURLOPT_WRITEFUNCTION, line_cb);
    (void)curl_easy_setopt(stream.curl, CURLOPT_WRITEDATA, &stream);
    (void)curl_easy_setopt(stream.curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    (void)curl_easy_setopt(stream.curl, CURLOPT_LOW_SPEED_TIME, (long)SILENCE_S);
    int code = transfer(cli, &stream);
    curl_slist_free_all(list);
    buf_done(&url);
    buf_done(&stream.rest);
    return code;
}
