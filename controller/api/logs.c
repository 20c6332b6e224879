/* logs.c: a rank's output, read back through the agent of the node where it ran. */
#include <errno.h>
#include <string.h>

#include "controller/api/http.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { TAIL_DEFAULT = 65536 };

struct log_read {
    struct buf text;
};

static void log_done(struct http_request *request)
{
    struct log_read *read = request->route_data;
    buf_done(&read->text);
    mem_free(read);
}

static void log_failed(struct http_request *request, int error)
{
    if (error == -ENOENT) {
        http_problem(request, 404, "not-found", "keepstep get attempts JOB",
                     "there is no output of this rank and attempt on that node");
    } else {
        http_problem(request, 503, "not-active", "", "the node's agent did not give the output: %s",
                     strerror(-error));
    }
}

static void log_piece_cb(void *context, const struct relay_piece *piece)
{
    struct http_request *request = context;
    struct log_read *read = request->route_data;
    if (piece->error < 0) {
        log_failed(request, piece->error);
        return;
    }
    if (piece->size > 0) {
        (void)!buf_put(&read->text, piece->data, piece->size); /* at most what was asked for */
    }
    if (piece->last) {
        http_answer_text(request, 200, "text/plain; charset=utf-8", (const char *)read->text.data,
                         read->text.size);
    }
}

static void refuse(struct http_request *request, int code, const struct err *err)
{
    bool missing = code == -ENOENT || code == -ERANGE || code == -ESRCH;
    http_problem(request, missing ? 404 : 503, missing ? "not-found" : "not-active",
                 code == -ESRCH ? "node=NAME (--node NAME) reads where it ran" : "", "%s",
                 err->text);
}

/* Who held the rank's slot in that attempt: from the store, since the core knows the present alone.
 * 0: nobody knows. */
static uint32_t holder_of(const struct http_request *request, const struct job *job,
                          uint64_t attempt, uint64_t rank)
{
    static const char sql[] = "SELECT node FROM slot_log WHERE job = ?1 AND slot = ?2 AND "
                              "attempt <= ?3 ORDER BY attempt DESC, seq DESC";
    json_t *rows = NULL;
    struct err err = {0};
    if (job->d.ranks_per_node == 0) {
        return 0;
    }
    json_t *parameters = json_pack("[I, I, I]", (json_int_t)job->d.job,
                                   (json_int_t)(rank / job->d.ranks_per_node), (json_int_t)attempt);
    int code = store_query_json(http_reader(request), sql, parameters, 1, &rows, NULL, &err);
    json_decref(parameters);
    if (code < 0) {
        return 0;
    }
    json_int_t node = json_integer_value(json_object_get(json_array_get(rows, 0), "node"));
    json_decref(rows);
    return (uint32_t)node;
}

/* The node that the query names, else the one where it ran when that is not where it runs. False:
 * answered. */
static bool find_node(struct http_request *request, const struct job *job, uint64_t attempt,
                      uint64_t rank, uint32_t *ret_node)
{
    const char *name = http_query(request, "node");
    *ret_node = 0;
    if (name[0] != '\0') {
        const struct node *found = http_node(request, name);
        *ret_node = found != NULL ? found->d.node : 0;
        return found != NULL;
    }
    if (core_job_over(job) || job->slot_count == 0 || attempt != job->d.attempt) {
        *ret_node = holder_of(request, job, attempt, rank);
    }
    return true;
}

void route_logs(struct http_request *request)
{
    uint64_t rank;
    uint64_t tail;
    uint64_t attempt;
    uint32_t node;
    const struct job *job = http_job_own(request);
    if (job == NULL || !http_query_u64(request, "rank", 0, UINT32_MAX, &rank) ||
        !http_query_u64(request, "attempt", job->d.attempt, UINT32_MAX, &attempt) ||
        !http_query_u64(request, "tail_bytes", TAIL_DEFAULT, RELAY_TAIL_MAX, &tail) ||
        !find_node(request, job, attempt, rank, &node)) {
        return;
    }
    struct log_read *read = mem_alloc(1, sizeof *read);
    struct err err = {0};
    buf_init(&read->text, RELAY_TAIL_MAX + LOG_CHUNK_MAX);
    request->route_data = read;
    request->route_done = log_done;
    int code = relay_log_read(http_relay(request), job->d.job, (uint32_t)attempt, (uint32_t)rank,
                              node, tail, log_piece_cb, request, &err);
    if (code < 0) {
        refuse(request, code, &err);
    }
}
