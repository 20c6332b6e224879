/* requests.c: each request is an object: prepared on the pool (who is the user, where is the log),
 * carried out by a helper child, told. */
#include "agent/io/requests.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/io/child.h"
#include "agent/io/driver.h"
#include "agent/io/folders.h"
#include "agent/io/helper.h"
#include "agent/io/launch_spec.h"
#include "agent/io/link.h"
#include "agent/io/mailboxes.h"
#include "agent/io/specs.h"
#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

struct request {
    struct request *next;
    struct agent_requests *requests;
    bool on_pool;
    bool is_log;
    struct msg_check check;
    struct msg_log_read log;
    char *spec_text;
    size_t spec_size;
    struct launch_user user;
    char path[2 * PATH_SIZE];
    uv_work_t work;
    int result;
    struct err err;
};

struct agent_requests {
    struct agent_io *io;
    struct child_set children;
    struct request *first;
    uint32_t count;
};

static struct request *make(struct agent_requests *requests, bool is_log)
{
    if (requests->count >= REQUESTS_MAX || requests->io->closing) {
        return NULL; /* the controller asks again */
    }
    struct request *request = mem_alloc(1, sizeof(*request));
    request->requests = requests;
    request->is_log = is_log;
    request->next = requests->first;
    requests->first = request;
    requests->count++;
    return request;
}

static void release(struct request *request)
{
    struct request **at = &request->requests->first;
    while (*at != request) {
        at = &(*at)->next;
    }
    *at = request->next;
    request->requests->count--;
    mem_free(request->spec_text);
    mem_free(request);
}

/* ---- checks ------------------------------------------------------------------------------------------- */

/* Whether a rank could listen there now. A port in TIME_WAIT counts as free, as it is for ranks. */
static bool port_is_free(uint16_t port)
{
    const int on = 1;
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_ANY)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    const bool free_now = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                          bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
                          listen(fd, 1) == 0;
    (void)close(fd); /* only tried */
    return free_now;
}

static void tell_check(struct request *request, bool ok, const char *text)
{
    struct agent_event event = {.kind = AGENT_EVENT_CHECKED,
                                .job = request->check.job,
                                .nonce = request->check.nonce,
                                .ok = ok,
                                .text = text};
    if (request->check.port != 0) {
        event.port_free = port_is_free(request->check.port);
    }
    driver_step(request->requests->io->driver, &event);
}

static void checked(void *context, const struct child_result *result)
{
    struct request *request = context;
    char text[TEXT_SIZE] = "";
    const bool ok = !result->timed_out && result->signal == 0 && result->exit_status == 0;
    if (result->timed_out) {
        (void)text_sentence(text, sizeof(text),
                            "checkpoint storage does not answer in %d s: %.128s",
                            REQUESTS_CHECK_MS / 1000, request->path);
    } else if (!ok) {
        const int length = (int)strcspn(result->output, "\n");
        (void)text_sentence(text, sizeof(text), "checkpoint storage: %.*s", length, result->output);
    }
    tell_check(request, ok, text);
    release(request);
}

static void check_work(uv_work_t *work)
{
    struct request *request = work->data;
    struct launch_spec *spec = NULL;
    request->result =
        launch_spec_parse(request->spec_text, request->spec_size, &spec, &request->err);
    if (request->result == 0) {
        request->result = launch_spec_user(spec, &request->user, &request->err);
        if (!text_copy(request->path, sizeof(request->path), launch_spec_checkpoint_dir(spec))) {
            request->result = err_set(&request->err, -ENAMETOOLONG, "checkpoint.dir is too long");
        }
        (void)launch_spec_free(spec);
    }
}

static void check_cb(uv_work_t *work, int status)
{
    struct request *request = work->data;
    CHECK(status == 0); /* never cancelled */
    request->on_pool = false;
    if (request->requests->io->closing) {
        release(request);
        return;
    }
    if (request->result != 0 || request->path[0] == '\0') {
        tell_check(request, request->result == 0, request->err.text);
        release(request);
        return;
    }
    const struct helper_task task = {.verb = "check",
                                     .path = request->path,
                                     .number = request->check.restore_step,
                                     .number2 = request->check.restore_attempt,
                                     .text = request->check.restore_directory,
                                     .uid = request->user.uid,
                                     .gid = request->user.gid,
                                     .group_count = request->user.group_count,
                                     .groups = request->user.groups};
    const int r = helper_start(request->requests->io->loop, &request->requests->children, &task,
                               REQUESTS_CHECK_MS, checked, request);
    if (r != 0) {
        tell_check(request, false, uv_strerror(r));
        release(request);
    }
}

static void queue(struct request *request, uv_work_cb function, uv_after_work_cb after)
{
    request->on_pool = true;
    request->work.data = request;
    const int r = uv_queue_work(request->requests->io->loop, &request->work, function, after);
    CHECK(r == 0);
}

static void no_spec_cb(void *context)
{
    struct request *request = context;
    tell_check(request, false, "no job file came with the check");
    release(request);
}

void requests_check(struct agent_requests *requests, const struct msg_check *check)
{
    struct request *request = make(requests, false);
    if (request == NULL) {
        return;
    }
    request->check = *check;
    const char *text = specs_get(requests->io->specs, check->job, 0, &request->spec_size);
    if (text == NULL) {
        driver_defer(requests->io->driver, no_spec_cb, request);
        return;
    }
    request->spec_text = mem_alloc(request->spec_size + 1, 1);
    memcpy(request->spec_text, text, request->spec_size);
    queue(request, check_work, check_cb);
}

/* ---- logs ------------------------------------------------------------------------------------------------ */

static void send_log(struct request *request, int32_t error, const char *text, size_t size)
{
    struct message *message = mem_alloc(1, sizeof(*message));
    size_t sent = 0;
    do {
        const size_t left = size - sent;
        message->kind = MSG_LOG_DATA;
        message->u.log_data =
            (struct msg_log_data){.nonce = request->log.nonce,
                                  .error = error,
                                  .size = (uint32_t)(left < LOG_CHUNK_MAX ? left : LOG_CHUNK_MAX),
                                  .text = text + sent};
        sent += message->u.log_data.size;
        message->u.log_data.last = sent == size;
        link_send(request->requests->io->link, message);
    } while (sent < size);
    mem_free(message);
}

static void log_read_cb(void *context, const struct child_result *result)
{
    struct request *request = context;
    if (result->timed_out) {
        send_log(request, -ETIMEDOUT, "", 0);
    } else if (result->signal != 0 || result->exit_status != 0) {
        send_log(request, result->exit_status > 0 ? -(int32_t)result->exit_status : -EIO, "", 0);
    } else {
        send_log(request, 0, result->output, result->output_size);
    }
    release(request);
}

/* Where the rank writes, as its launch file says; for an attempt that was forgotten, where its log
 * was kept. */
static int find_log(struct request *request)
{
    const char *state_dir = request->requests->io->options->state_dir;
    const struct msg_log_read *log = &request->log;
    struct folder_info *info = mem_alloc(1, sizeof(*info));
    char kept[FOLDER_PATH_SIZE];
    struct stat status;
    int r = 0;
    folder_inspect(state_dir, log->job, log->attempt, info);
    folder_log_path(state_dir, log->job, log->attempt, kept);
    if (info->launch_known) {
        const uint32_t local = log->rank - info->first_rank;
        if (log->rank < info->first_rank || local >= info->rank_count) {
            r = -ENOENT;
        } else {
            const char *output = info->outputs[local];
            (void)text_format(request->path, sizeof(request->path), "%s%s%s",
                              output[0] == '/' ? "" : info->workdir, output[0] == '/' ? "" : "/",
                              output);
            request->user.uid = info->uid;
            request->user.gid = info->gid;
        }
    } else {
        (void)text_format(request->path, sizeof(request->path), "%s/rank-%u.log", kept, log->rank);
        if (lstat(request->path, &status) != 0) {
            r = -errno;
        } else {
            request->user.uid = status.st_uid;
            request->user.gid = status.st_gid;
        }
    }
    mem_free(info);
    return r;
}

static void log_work(uv_work_t *work)
{
    struct request *request = work->data;
    request->result = find_log(request);
}

static void log_cb(uv_work_t *work, int status)
{
    struct request *request = work->data;
    CHECK(status == 0); /* never cancelled */
    request->on_pool = false;
    if (request->requests->io->closing) {
        release(request);
        return;
    }
    int r = request->result;
    if (r == 0) {
        const uint64_t wanted = request->log.tail_bytes;
        const struct helper_task task = {
            .verb = "tail",
            .path = request->path,
            .number = wanted > 0 && wanted < REQUESTS_LOG_MAX ? wanted : REQUESTS_LOG_MAX,
            .uid = request->user.uid,
            .gid = request->user.gid};
        r = helper_start(request->requests->io->loop, &request->requests->children, &task,
                         REQUESTS_LOG_MS, log_read_cb, request);
    }
    if (r != 0) {
        send_log(request, r, "", 0);
        release(request);
    }
}

void requests_log_read(struct agent_requests *requests, const struct msg_log_read *read)
{
    struct request *request = make(requests, true);
    if (request != NULL) {
        request->log = *read;
        queue(request, log_work, log_cb);
    }
}

/* ---- snapshots -------------------------------------------------------------------------------------------- */

void requests_snapshot(struct agent_requests *requests, const struct msg_snapshot_ask *ask)
{
    struct buf text;
    buf_init(&text, SNAPSHOT_TEXT_MAX);
    mailboxes_describe(requests->io->mailboxes, ask->job, ask->attempt, &text);
    struct message *message = mem_alloc(1, sizeof(*message));
    message->kind = MSG_SNAPSHOT_DATA;
    message->u.snapshot_data = (struct msg_snapshot_data){.nonce = ask->nonce,
                                                          .job = ask->job,
                                                          .attempt = ask->attempt,
                                                          .round = ask->round,
                                                          .size = (uint32_t)text.size,
                                                          .text = buf_text(&text)};
    link_send(requests->io->link, message);
    mem_free(message);
    buf_done(&text);
}

/* ---- life ------------------------------------------------------------------------------------------------- */

struct agent_requests *requests_create(struct agent_io *io)
{
    struct agent_requests *requests = mem_alloc(1, sizeof(*requests));
    requests->io = io;
    return requests;
}

void requests_close(struct agent_requests *requests)
{
    children_close(&requests->children);
}

struct agent_requests *requests_free(struct agent_requests *requests)
{
    while (requests != NULL && requests->first != NULL) { /* its helper was cut off */
        release(requests->first);
    }
    return mem_free(requests);
}
