/* swarm_main.c: swarm's command line. See swarm.h for what it is, --help for how to use it. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "controller/tools/swarm.h"
#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "proto/wire/frame.h"

enum {
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    OTHER_DESCRIPTORS = 128, /* probes, script, loop */
    LINES_MAX = 64,          /* --at */
};

enum flag_value {
    FLAG_CONTROLLER = 256,
    FLAG_AGENTS,
    FLAG_GPUS,
    FLAG_STEP,
    FLAG_KEY,
    FLAG_PEER,
    FLAG_AT,
    FLAG_SCRIPT,
    FLAG_HELP,
};

static const struct option flags[] = {
    {"controller", required_argument, NULL, FLAG_CONTROLLER},
    {"agents", required_argument, NULL, FLAG_AGENTS},
    {"gpus", required_argument, NULL, FLAG_GPUS},
    {"step-ms", required_argument, NULL, FLAG_STEP},
    {"key-file", required_argument, NULL, FLAG_KEY},
    {"peer-port", required_argument, NULL, FLAG_PEER},
    {"at", required_argument, NULL, FLAG_AT},
    {"script", required_argument, NULL, FLAG_SCRIPT},
    {"help", no_argument, NULL, FLAG_HELP},
    {NULL, 0, NULL, 0},
};

static const char help_text[] =
    "usage: swarm --controller 127.0.0.1:PORT --agents N [flags]\n"
    "  --gpus N         of each node, default 8\n"
    "  --step-ms MS     between two steps of every job, default 1000; 0: none is told\n"
    "  --key-file FILE  the cluster's pre-shared key: TLS\n"
    "  --peer-port N    of the probe listener, default any\n"
    "  --at LINE        a line of a script; may come more than once\n"
    "  --script FILE    lines of faults; # begins a comment\n"
    "a line: [@MS] WORD …, MS after all agents were welcomed, without it at once\n"
    "  kill NODES            the host is gone: its connection closes, connects are refused\n"
    "  silence NODES         nothing gets in or out of the host any more\n"
    "  start NODES           the host boots anew, with nothing on it\n"
    "  pause NODES MS        the agent stands still, accepts and does not answer\n"
    "  rank-exit NODES [C]   its first rank ends with C, default 1\n"
    "  stats                 says how many are in session, and what went to and fro\n"
    "  orders                the highest attempts that anybody was ordered to run, to stop; plus "
    "1\n"
    "  quit\n"
    "NODES: n00001, or n[00001-00032,00040]. The standard input takes lines too, its end is quit.\n"
    "Says what happens as JSON lines; times are microseconds of CLOCK_MONOTONIC.\n"
    "exit status: 0 asked to end, 1 failure, 2 flags\n";

struct arguments {
    struct swarm_options options;
    const char *lines[LINES_MAX];
    uint32_t line_count;
    const char *script;
    bool help;
};

void swarm_say(const char *what, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    (void)printf("{\"event\":\"%s\",", what);
    (void)vprintf(format, values);
    (void)puts("}");
    va_end(values);
    (void)fflush(stdout); /* whoever reads has gone: the next read of ours ends us */
}

/* ---- arguments ----------------------------------------------------------------------------- */

static int take_controller(const char *text, struct sockaddr_in *ret_address, struct err *err)
{
    char host[ADDRESS_SIZE];
    uint64_t port = 0;
    const char *colon = strrchr(text, ':');
    bool good = colon != NULL && (size_t)(colon - text) < sizeof(host) &&
                text_to_u64(colon + 1, UINT16_MAX, &port) == 0 && port > 0;
    if (good) {
        (void)text_format(host, sizeof(host), "%.*s", (int)(colon - text), text);
        good = uv_ip4_addr(host, (int)port, ret_address) == 0 &&
               ntohl(ret_address->sin_addr.s_addr) >> 24 == 127;
    }
    return good ? 0
                : err_set(err, -EINVAL,
                          "--controller '%s': an address of this machine is wanted, such as "
                          "127.0.0.1:7444",
                          text);
}

static int take_number(const char *name, const char *text, uint64_t least, uint64_t most,
                       uint32_t *ret_number, struct err *err)
{
    uint64_t number = 0;
    if (text_to_u64(text, most, &number) < 0 || number < least) {
        return err_set(err, -EINVAL, "--%s '%s': a number from %llu to %llu is wanted", name, text,
                       (unsigned long long)least, (unsigned long long)most);
    }
    *ret_number = (uint32_t)number;
    return 0;
}

static int take_flag(struct arguments *arguments, int value, const char *text, struct err *err)
{
    struct swarm_options *options = &arguments->options;
    uint32_t port = 0;
    int result = 0;
    switch (value) {
    case FLAG_CONTROLLER:
        return take_controller(text, &options->controller, err);
    case FLAG_AGENTS:
        return take_number("agents", text, 1, SWARM_AGENTS_MAX, &options->agents, err);
    case FLAG_GPUS:
        return take_number("gpus", text, 0, GPUS_MAX, &options->gpus, err);
    case FLAG_STEP:
        return take_number("step-ms", text, 0, 3600000, &options->step_ms, err);
    case FLAG_KEY:
        options->key_file = text;
        return 0;
    case FLAG_PEER:
        result = take_number("peer-port", text, 0, UINT16_MAX, &port, err);
        options->peer_port = (uint16_t)port;
        return result;
    case FLAG_AT:
        if (arguments->line_count == LINES_MAX) {
            return err_set(err, -E2BIG, "--at: at most %d; the rest into a --script", LINES_MAX);
        }
        arguments->lines[arguments->line_count++] = text;
        return 0;
    case FLAG_SCRIPT:
        arguments->script = text;
        return 0;
    case FLAG_HELP:
        arguments->help = true;
        return 0;
    default:
        return err_set(err, -EINVAL, "try swarm --help");
    }
}

static int parse(int count, char **words, struct arguments *arguments, struct err *err)
{
    int value;
    while ((value = getopt_long(count, words, "", flags, NULL)) != -1) {
        int result = take_flag(arguments, value, optarg, err);
        if (result < 0) {
            return result;
        }
    }
    if (optind < count) {
        return err_set(err, -EINVAL, "'%s' is not a flag; try swarm --help", words[optind]);
    }
    if (!arguments->help &&
        (arguments->options.agents == 0 || arguments->options.controller.sin_port == 0)) {
        return err_set(err, -EINVAL, "--controller and --agents are wanted; try swarm --help");
    }
    return 0;
}

static int raise_descriptors(uint32_t agents, struct err *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return err_set(err, -errno, "getrlimit: %s", strerror(errno));
    }
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return err_set(err, -errno, "setrlimit: %s", strerror(errno));
    }
    uint64_t needed = (uint64_t)agents + OTHER_DESCRIPTORS;
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < needed) {
        return err_set(err, -EMFILE,
                       "%u agents need %llu file descriptors, %llu are allowed (RLIMIT_NOFILE, "
                       "hard): raise that or ask for fewer agents",
                       agents, (unsigned long long)needed, (unsigned long long)limit.rlim_cur);
    }
    return 0;
}

/* ---- life ---------------------------------------------------------------------------------- */

static void make_swarm(struct swarm *swarm, const struct swarm_options *options, struct buf *frame)
{
    swarm->options = *options;
    swarm->limits = (struct agent_limits){.attempts = SWARM_SHIMS,
                                          .jobs = SWARM_SHIMS,
                                          .questions = 4,
                                          .output_records = 12 + 4 * SWARM_SHIMS,
                                          .output_actions = 32 + 6 * SWARM_SHIMS,
                                          .output_traces = 1};
    int result = agent_output_create(&swarm->limits, &swarm->output);
    CHECK(result == 0);
    swarm->message = mem_alloc(1, sizeof(*swarm->message));
    buf_init(frame, FRAME_SIZE_MAX);
    swarm->frame = frame;
    CHECK(uv_loop_init(&swarm->loop) == 0);
    script_create(swarm);
    agents_create(swarm);
}

static int start(struct swarm *swarm, const struct arguments *arguments, struct err *err)
{
    int result = 0;
    for (uint32_t index = 0; result == 0 && index < arguments->line_count; index++) {
        result = script_line(swarm, arguments->lines[index], err);
    }
    if (result == 0 && arguments->script != NULL) {
        result = script_file(swarm, arguments->script, err);
    }
    if (result == 0 && swarm->options.key_file != NULL) {
        result = tls_create(swarm->options.key_file, &swarm->tls, err);
    }
    result = result == 0 ? peers_create(swarm, err) : result;
    result = result == 0 ? script_stdin(swarm, err) : result;
    if (result < 0) {
        return result;
    }
    swarm_say("begins", "\"agents\":%u,\"peer_port\":%u,\"at_us\":%llu", swarm->options.agents,
              peers_port(swarm->peers), (unsigned long long)swarm_now_us());
    for (uint32_t index = 0; index < swarm->options.agents; index++) {
        agent_start(&swarm->agents[index]);
    }
    return 0;
}

static void free_swarm(struct swarm *swarm)
{
    swarm->ending = true;
    agents_close(swarm);
    peers_close(swarm);
    script_close(swarm);
    (void)uv_run(&swarm->loop, UV_RUN_DEFAULT); /* close callbacks */
    CHECK(uv_loop_close(&swarm->loop) == 0);
    waves_free(swarm);
    agents_free(swarm);
    swarm->peers = peers_free(swarm->peers);
    swarm->script = script_free(swarm->script);
    swarm->tls = tls_destroy(swarm->tls);
    swarm->output = agent_output_free(swarm->output);
    swarm->message = mem_free(swarm->message);
    buf_done(swarm->frame);
}

int main(int count, char **words)
{
    struct arguments arguments = {.options = {.gpus = 8, .step_ms = 1000}};
    struct err err = {0};
    if (parse(count, words, &arguments, &err) < 0) {
        (void)fprintf(stderr, "swarm: %s\n", err.text);
        return EXIT_USAGE;
    }
    if (arguments.help) {
        (void)fputs(help_text, stdout);
        return 0;
    }
    if (raise_descriptors(arguments.options.agents, &err) < 0) {
        (void)fprintf(stderr, "swarm: %s\n", err.text);
        return EXIT_USAGE;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    struct swarm *swarm = mem_alloc(1, sizeof(*swarm));
    struct buf frame;
    make_swarm(swarm, &arguments.options, &frame);
    int result = start(swarm, &arguments, &err);
    if (result == 0) {
        (void)uv_run(&swarm->loop, UV_RUN_DEFAULT);
    } else {
        (void)fprintf(stderr, "swarm: %s\n", err.text);
    }
    free_swarm(swarm);
    (void)mem_free(swarm);
    return result == 0 ? 0 : EXIT_FAILED;
}
