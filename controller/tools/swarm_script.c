/* swarm_script.c: faults from the command line, from a file, and as lines on the standard input.
 * Those with a time wait for it in one list, soonest first, from the moment when all agents were
 * welcomed. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "controller/tools/swarm.h"
#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/hostlist.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { WORDS_MAX = 4, WORD_SIZE = 256, LINE_SIZE = 512, FILE_SIZE_MAX = 1 << 20 };

struct order {
    struct order *next;
    struct swarm *swarm;
    uint64_t at_ms; /* after all were welcomed; else now */
    char words[WORDS_MAX][WORD_SIZE];
    uint64_t number; /* the last word, of those that have one */
};

struct swarm_script {
    struct swarm *swarm;
    uv_timer_t timer;
    uv_pipe_t input;
    bool reads;
    struct order *first;
    uint64_t began_ms; /* 0: not yet */
    struct buf line;
    char bytes[LINE_SIZE];
};

/* ---- what each word does ------------------------------------------------------------------- */

static void say_fault(const struct swarm_agent *agent, const char *what)
{
    swarm_say("fault", "\"what\":\"%s\",\"node\":\"%s\",\"at_us\":%llu", what, agent->name,
              (unsigned long long)swarm_now_us());
}

static void kill_one(struct swarm_agent *agent, const struct order *order)
{
    (void)order;
    say_fault(agent, "kill");
    agent_end(agent);
}

static void silence_one(struct swarm_agent *agent, const struct order *order)
{
    (void)order;
    say_fault(agent, "silence");
    agent->host = SWARM_SILENT;
    connection_listen(agent, false);
    ranks_drop(agent); /* whatever they do, no other rank hears of it */
}

static void start_one(struct swarm_agent *agent, const struct order *order)
{
    (void)order;
    say_fault(agent, "start");
    agent_start(agent);
}

static void resume_one(struct swarm_agent *agent, const struct order *order)
{
    (void)order;
    if (agent->paused) {
        say_fault(agent, "resume");
        agent_pause(agent, false);
    }
}

static void put(struct swarm_script *script, struct order *order);

static void pause_one(struct swarm_agent *agent, const struct order *order)
{
    struct swarm_script *script = agent->swarm->script;
    say_fault(agent, "pause");
    agent_pause(agent, true);
    struct order *end = mem_alloc(1, sizeof(*end));
    end->swarm = agent->swarm;
    end->at_ms = swarm_now_ms() - script->began_ms + order->number;
    (void)text_copy(end->words[0], WORD_SIZE, "resume");
    (void)text_copy(end->words[1], WORD_SIZE, agent->name);
    put(script, end);
}

static void exit_one(struct swarm_agent *agent, const struct order *order)
{
    say_fault(agent, "rank-exit");
    if (!ranks_exit(agent, (int32_t)order->number)) {
        swarm_say("error", "\"text\":\"%s runs no rank\"", agent->name);
    }
}

static void say_stats(struct swarm *swarm)
{
    uint32_t sessions = 0;
    for (uint32_t index = 0; index < swarm->options.agents; index++) {
        struct agent_view view = {.session = false};
        if (swarm->agents[index].core != NULL) {
            agent_core_view(swarm->agents[index].core, &view);
        }
        sessions += view.session ? 1 : 0;
    }
    const struct swarm_figures *figures = &swarm->figures;
    swarm_say("stats",
              "\"agents\":%u,\"sessions\":%u,\"frames_in\":%llu,\"frames_out\":%llu,"
              "\"silence_ms_max\":%llu,\"downs\":%llu",
              swarm->options.agents, sessions, (unsigned long long)figures->frames_in,
              (unsigned long long)figures->frames_out, (unsigned long long)figures->silence_ms_max,
              (unsigned long long)figures->downs);
    swarm->figures.silence_ms_max = 0;
}

/* The furthest that anybody was ordered: what a controller that comes back must know of. */
static void say_orders(const struct swarm *swarm)
{
    swarm_say("orders", "\"run\":%u,\"stop\":%u", swarm->run_below, swarm->stop_below);
}

typedef void node_order(struct swarm_agent *agent, const struct order *order);

static const struct {
    const char *word;
    node_order *one;
    int words; /* in all; one more with a number that may be left out */
    bool number;
    bool optional;
} verbs[] = {
    {"kill", kill_one, 2, false, false},   {"silence", silence_one, 2, false, false},
    {"start", start_one, 2, false, false}, {"resume", resume_one, 2, false, false},
    {"pause", pause_one, 3, true, false},  {"rank-exit", exit_one, 3, true, true},
    {"stats", NULL, 1, false, false},      {"orders", NULL, 1, false, false},
    {"quit", NULL, 1, false, false},
};

struct visit {
    const struct order *order;
    node_order *one; /* NULL: only looks whether all of them are there */
};

static int visit_node(const char *name, void *context)
{
    const struct visit *visit = context;
    struct swarm_agent *agent = agent_by_name(visit->order->swarm, name);
    if (agent == NULL) {
        return -ENOENT;
    }
    if (visit->one != NULL) {
        visit->one(agent, visit->order);
    }
    return 0;
}

static void carry_out(struct order *order)
{
    struct swarm *swarm = order->swarm;
    if (text_equal(order->words[0], "stats")) {
        say_stats(swarm);
    } else if (text_equal(order->words[0], "orders")) {
        say_orders(swarm);
    } else if (text_equal(order->words[0], "quit")) {
        swarm->ending = true;
        uv_stop(&swarm->loop);
    }
    for (size_t index = 0; index < ARRAY_SIZE(verbs); index++) {
        if (verbs[index].one != NULL && text_equal(verbs[index].word, order->words[0])) {
            struct visit visit = {order, verbs[index].one};
            struct err err = {0};
            int result = hostlist_each(order->words[1], visit_node, &visit, &err);
            CHECK(result == 0); /* looked at when the line was read */
        }
    }
    (void)mem_free(order);
}

/* ---- what waits ---------------------------------------------------------------------------- */

static void timer_cb(uv_timer_t *timer);

static void arm(struct swarm_script *script)
{
    if (script->began_ms == 0 || script->first == NULL) {
        return;
    }
    uint64_t due = script->began_ms + script->first->at_ms;
    uint64_t now = swarm_now_ms();
    uv_update_time(&script->swarm->loop);
    CHECK(uv_timer_start(&script->timer, timer_cb, due > now ? due - now : 0, 0) == 0);
}

static void timer_cb(uv_timer_t *timer)
{
    struct swarm_script *script = timer->data;
    uint64_t now = swarm_now_ms();
    while (script->first != NULL && script->began_ms + script->first->at_ms <= now) {
        struct order *order = script->first;
        script->first = order->next;
        carry_out(order);
    }
    arm(script);
}

static void put(struct swarm_script *script, struct order *order)
{
    struct order **at = &script->first;
    while (*at != NULL && (*at)->at_ms <= order->at_ms) {
        at = &(*at)->next;
    }
    order->next = *at;
    *at = order;
    arm(script);
}

void script_begin(struct swarm *swarm)
{
    swarm->script->began_ms = swarm_now_ms();
    arm(swarm->script);
}

/* ---- lines --------------------------------------------------------------------------------- */

static int split(const char *line, char words[WORDS_MAX + 1][WORD_SIZE], int *ret_count,
                 struct err *err)
{
    int count = 0;
    for (const char *at = line + strspn(line, " \t"); *at != '\0' && *at != '#';) {
        size_t size = strcspn(at, " \t");
        if (count > WORDS_MAX || size >= WORD_SIZE) {
            return err_set(err, -EINVAL, "'%.60s': too many words, or one too long", line);
        }
        memcpy(words[count], at, size);
        words[count][size] = '\0';
        count++;
        at += size;
        at += strspn(at, " \t");
    }
    *ret_count = count;
    return 0;
}

static int check(struct order *order, int count, const char *line, struct err *err)
{
    for (size_t index = 0; index < ARRAY_SIZE(verbs); index++) {
        if (!text_equal(verbs[index].word, order->words[0])) {
            continue;
        }
        bool right = count == verbs[index].words ||
                     (verbs[index].optional && count == verbs[index].words - 1);
        order->number = 1; /* what an exit without a code exits with */
        if (!right || (verbs[index].number && count == verbs[index].words &&
                       text_to_u64(order->words[count - 1], 86400000, &order->number) < 0)) {
            return err_set(err, -EINVAL,
                           "'%.80s': kill|silence|start|resume NODES, pause NODES MS, rank-exit "
                           "NODES [CODE], stats, orders or quit",
                           line);
        }
        struct visit visit = {order, NULL};
        struct err inner = {0};
        if (count > 1 && hostlist_each(order->words[1], visit_node, &visit, &inner) != 0) {
            return err_set(err, -EINVAL, "'%.80s': nodes are n00001 to n%05u", line,
                           order->swarm->options.agents);
        }
        return 0;
    }
    return err_set(err, -EINVAL,
                   "'%.80s': not kill, silence, start, pause, resume, rank-exit, stats, orders "
                   "or quit",
                   line);
}

int script_line(struct swarm *swarm, const char *line, struct err *err)
{
    char words[WORDS_MAX + 1][WORD_SIZE] = {""};
    int count = 0;
    int result = split(line, words, &count, err);
    if (result < 0 || count == 0) {
        return result;
    }
    struct order *order = mem_alloc(1, sizeof(*order));
    order->swarm = swarm;
    const bool timed = words[0][0] == '@';
    if (timed && text_to_u64(words[0] + 1, 86400000, &order->at_ms) < 0) {
        (void)mem_free(order);
        return err_set(err, -EINVAL, "'%.80s': a time is @MS, such as @1500", line);
    }
    const int skip = timed ? 1 : 0;
    for (int index = skip; index < count; index++) {
        (void)text_copy(order->words[index - skip], WORD_SIZE, words[index]);
    }
    result = check(order, count - skip, line, err);
    if (result < 0) {
        (void)mem_free(order);
    } else if (timed || !swarm->script->reads) {
        put(swarm->script, order);
    } else {
        carry_out(order);
    }
    return result;
}

int script_file(struct swarm *swarm, const char *path, struct err *err)
{
    struct buf text;
    char bytes[4096];
    ssize_t size = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_set(err, -errno, "script '%s': %s", path, strerror(errno));
    }
    buf_init(&text, FILE_SIZE_MAX);
    int result = 0;
    while (result == 0 && (size = read(fd, bytes, sizeof(bytes))) > 0) {
        result = buf_put(&text, bytes, (size_t)size);
    }
    (void)close(fd); /* opened for reading */
    const char *at = buf_text(&text);
    for (int number = 1; result == 0 && *at != '\0'; number++) {
        char line[LINE_SIZE];
        size_t length = strcspn(at, "\n");
        (void)text_format(line, sizeof(line), "%.*s", (int)length, at);
        result = script_line(swarm, line, err);
        if (result < 0) {
            (void)err_wrap(err, "%s:%d", path, number);
        }
        at += at[length] == '\n' ? length + 1 : length;
    }
    buf_done(&text);
    return result;
}

/* ---- the standard input -------------------------------------------------------------------- */

static void alloc_cb(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct swarm_script *script = handle->data;
    (void)suggested;
    *buffer = uv_buf_init(script->bytes, sizeof(script->bytes));
}

static void take_line(struct swarm_script *script)
{
    struct err err = {0};
    char line[LINE_SIZE];
    (void)text_copy(line, sizeof(line), buf_text(&script->line));
    buf_clear(&script->line);
    if (script_line(script->swarm, line, &err) < 0) {
        swarm_say("error", "\"text\":\"%s\"", err.text);
    }
}

static void read_cb(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct swarm_script *script = stream->data;
    if (count < 0) { /* whoever gives the orders is gone */
        script->swarm->ending = true;
        uv_stop(&script->swarm->loop);
        return;
    }
    for (ssize_t index = 0; index < count && !script->swarm->ending; index++) {
        if (buffer->base[index] == '\n') {
            take_line(script);
        } else {
            (void)buf_put(&script->line, &buffer->base[index], 1); /* too long: refused as a line */
        }
    }
}

int script_stdin(struct swarm *swarm, struct err *err)
{
    struct swarm_script *script = swarm->script;
    int result = uv_pipe_open(&script->input, STDIN_FILENO);
    if (result == 0) {
        result = uv_read_start((uv_stream_t *)&script->input, alloc_cb, read_cb);
    }
    script->reads = result == 0;
    return result == 0 ? 0 : err_set(err, result, "the standard input: %s", uv_strerror(result));
}

/* ---- life ---------------------------------------------------------------------------------- */

void script_create(struct swarm *swarm)
{
    struct swarm_script *script = mem_alloc(1, sizeof(*script));
    script->swarm = swarm;
    swarm->script = script;
    buf_init(&script->line, LINE_SIZE);
    CHECK(uv_timer_init(&swarm->loop, &script->timer) == 0);
    CHECK(uv_pipe_init(&swarm->loop, &script->input, 0) == 0);
    script->timer.data = script;
    script->input.data = script;
}

void script_close(struct swarm *swarm)
{
    uv_close((uv_handle_t *)&swarm->script->timer, NULL);
    uv_close((uv_handle_t *)&swarm->script->input, NULL);
}

struct swarm_script *script_free(struct swarm_script *script)
{
    if (script == NULL) {
        return NULL;
    }
    while (script->first != NULL) {
        struct order *next = script->first->next;
        (void)mem_free(script->first);
        script->first = next;
    }
    buf_done(&script->line);
    return mem_free(script);
}
