/* main.c: the controller's process: flags and file, then store -> core -> loop -> agents, signals,
 * and the way back. No decisions about nodes or jobs are made here.
 *
 * Start order, and why: the database first, because its lock says whether another controller runs;
 * then the replay; then the ports, so that a taken port ends us before a new term is written; only
 * then the first event. Ending is the way back: nobody new, the last commit, a snapshot. */
#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "controller/api/api.h"
#include "controller/core/state.h"
#include "controller/io/agents.h"
#include "controller/io/controller_config.h"
#include "controller/io/drill.h"
#include "controller/io/loop.h"
#include "controller/io/relay.h"
#include "controller/io/replay.h"
#include "controller/io/site_program.h"
#include "controller/io/spec_cache.h"
#include "db/store.h"
#include "proto/base/check.h"
#include "proto/base/config.h"
#include "proto/base/log.h"
#include "proto/base/mem.h"
#include "proto/base/notify.h"
#include "proto/base/text.h"
#include "proto/base/version.h"

#define PROGRAM      "keepstep-controller"
#define DEFAULT_FILE "/etc/keepstep/controller.yaml"

/* Exit statuses; `--help` says the same. */
enum {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,    /* a flag or the configuration */
    EXIT_PORT = 3,     /* an address cannot be listened on */
    EXIT_DATABASE = 4, /* the database cannot be used */
    EXIT_KEY = 5,      /* the key file */
};

enum {
    SESSIONS_SPARE = 64, /* for a small cluster whose agents all come back at once */
    LARGE_BLOCK =
        128 << 10, /* from this size on memory comes from the system and goes back to it */
    OTHER_DESCRIPTORS = 256, /* database, REST, children: everything but agents */
    STORE_CLOSE_MS = 5000,
};

struct flags {
    const char *config_path; /* NULL: the default file when there is one */
    const char *database;
    const char *listen_agents;
    const char *listen_rest;
    const char *listen_socket;
    const char *cluster_id;
    const char *key_file;
    const char *token_file;
    const char *log_level;
    bool insecure;
    bool rebuild;
    bool check_config;
    bool version;
    bool help;
    struct drill drill;
};

struct controller {
    struct flags flags;
    struct controller_config config;
    struct tls_key *key;
    struct store *store;
    struct core *core;
    uv_loop_t uv;
    struct loop *loop;
    struct spec_cache *specs;
    struct agents *agents;
    struct relay *relay;
    struct api *api;
    struct site_program *fence;                     /* NULL: the site has none */
    struct site_program *repair[repair_hook_count]; /* the same */
    uv_signal_t signals[3];
    uv_timer_t watchdog;
    bool stopping;
    int status; /* what the process will end with */
};

/* ---- flags --------------------------------------------------------------------------------- */

enum flag_value {
    FLAG_CONFIG = 256,
    FLAG_DATABASE,
    FLAG_AGENTS,
    FLAG_REST,
    FLAG_SOCKET,
    FLAG_CLUSTER,
    FLAG_KEY,
    FLAG_TOKENS,
    FLAG_LEVEL,
    FLAG_INSECURE,
    FLAG_REBUILD,
    FLAG_CHECK,
    FLAG_CRASH,
    FLAG_VERSION,
    FLAG_HELP,
};

static const struct option options[] = {
    {"config", required_argument, NULL, FLAG_CONFIG},
    {"database", required_argument, NULL, FLAG_DATABASE},
    {"listen-agents", required_argument, NULL, FLAG_AGENTS},
    {"listen-rest", required_argument, NULL, FLAG_REST},
    {"listen-socket", required_argument, NULL, FLAG_SOCKET},
    {"cluster-id", required_argument, NULL, FLAG_CLUSTER},
    {"key-file", required_argument, NULL, FLAG_KEY},
    {"token-file", required_argument, NULL, FLAG_TOKENS},
    {"log-level", required_argument, NULL, FLAG_LEVEL},
    {"insecure", no_argument, NULL, FLAG_INSECURE},
    {"rebuild", no_argument, NULL, FLAG_REBUILD},
    {"check-config", no_argument, NULL, FLAG_CHECK},
    {"crash-at", required_argument, NULL, FLAG_CRASH},
    {"version", no_argument, NULL, FLAG_VERSION},
    {"help", no_argument, NULL, FLAG_HELP},
    {NULL, 0, NULL, 0},
};

static const char help_text[] =
    "usage: " PROGRAM " [flags]\n"
    "  --config FILE         default " DEFAULT_FILE " when it is there\n"
    "  --database FILE       the journal, on a local disk\n"
    "  --listen-agents ADDR  default 127.0.0.1:7444; other machines need a key\n"
    "  --listen-rest ADDR    default 127.0.0.1:7443; \"\" for none\n"
    "  --listen-socket PATH  default /run/keepstep/api.sock; \"\" for none\n"
    "  --cluster-id ID       of a lost database, to make it again under running agents\n"
    "  --key-file FILE       the cluster's pre-shared key, mode 0600\n"
    "  --token-file FILE     tokens for REST over TCP, mode 0600\n"
    "  --insecure            agents from other machines without a key: for tests only\n"
    "  --log-level LEVEL     debug, info, warn, error\n"
    "  --check-config        read the configuration, say what is wrong, and end\n"
    "  --rebuild             fold all tables again from the journal, and end\n"
    "  --crash-at WHEN:N     drill: die before, after or mid (amid the actions of) record N\n"
    "  --version  --help\n"
    "signals: TERM and INT end it cleanly, HUP reads the log level again\n"
    "exit status: 0 clean end, 1 failure, 2 flags or configuration, 3 an address cannot be\n"
    "listened on, 4 the database cannot be used, 5 the key file\n";

static int take_flag(struct flags *flags, int value, const char *argument, struct err *err)
{
    switch (value) {
    case FLAG_CONFIG:
        flags->config_path = argument;
        return 0;
    case FLAG_DATABASE:
        flags->database = argument;
        return 0;
    case FLAG_AGENTS:
        flags->listen_agents = argument;
        return 0;
    case FLAG_REST:
        flags->listen_rest = argument;
        return 0;
    case FLAG_SOCKET:
        flags->listen_socket = argument;
        return 0;
    case FLAG_CLUSTER:
        flags->cluster_id = argument;
        return 0;
    case FLAG_KEY:
        flags->key_file = argument;
        return 0;
    case FLAG_TOKENS:
        flags->token_file = argument;
        return 0;
    case FLAG_LEVEL:
        flags->log_level = argument;
        return 0;
    case FLAG_INSECURE:
        flags->insecure = true;
        return 0;
    case FLAG_REBUILD:
        flags->rebuild = true;
        return 0;
    case FLAG_CHECK:
        flags->check_config = true;
        return 0;
    case FLAG_CRASH:
        return drill_parse(argument, &flags->drill, err);
    case FLAG_VERSION:
        flags->version = true;
        return 0;
    case FLAG_HELP:
        flags->help = true;
        return 0;
    default:
        return err_set(err, -EINVAL, "try " PROGRAM " --help");
    }
}

static int parse_flags(int count, char **arguments, struct flags *flags, struct err *err)
{
    int value;
    while ((value = getopt_long(count, arguments, "", options, NULL)) != -1) {
        int result = take_flag(flags, value, optarg, err);
        if (result < 0) {
            return result;
        }
    }
    if (optind < count) {
        return err_set(err, -EINVAL, "'%s' is not a flag; try " PROGRAM " --help",
                       arguments[optind]);
    }
    return 0;
}

/* ---- configuration ------------------------------------------------------------------------- */

static int override(char *target, size_t size, const char *flag, const char *name, struct err *err)
{
    if (flag != NULL && !text_copy(target, size, flag)) {
        return err_set(err, -EINVAL, "--%s is longer than %zu bytes", name, size - 1);
    }
    return 0;
}

static int override_level(struct controller_config *config, const char *word, struct err *err)
{
    static const char *const words[] = {"debug", "info", "warn", "error"};
    for (size_t index = 0; word != NULL && index < ARRAY_SIZE(words); index++) {
        if (text_equal(word, words[index])) {
            config->log_level = (enum log_level)index;
            return 0;
        }
    }
    return word == NULL ? 0
                        : err_set(err, -EINVAL, "--log-level %s: debug, info, warn or error", word);
}

static int apply_flags(struct controller_config *config, const struct flags *flags, struct err *err)
{
    const struct {
        char *target;
        size_t size;
        const char *flag;
        const char *name;
    } texts[] = {
        {config->database, sizeof(config->database), flags->database, "database"},
        {config->listen_agents, sizeof(config->listen_agents), flags->listen_agents,
         "listen-agents"},
        {config->listen_rest, sizeof(config->listen_rest), flags->listen_rest, "listen-rest"},
        {config->listen_socket, sizeof(config->listen_socket), flags->listen_socket,
         "listen-socket"},
        {config->cluster_id, sizeof(config->cluster_id), flags->cluster_id, "cluster-id"},
        {config->key_file, sizeof(config->key_file), flags->key_file, "key-file"},
        {config->token_file, sizeof(config->token_file), flags->token_file, "token-file"},
    };
    for (size_t index = 0; index < ARRAY_SIZE(texts); index++) {
        int result = override(texts[index].target, texts[index].size, texts[index].flag,
                              texts[index].name, err);
        if (result < 0) {
            return result;
        }
    }
    config->insecure = config->insecure || flags->insecure;
    return override_level(config, flags->log_level, err);
}

static int load_config(struct controller *controller, struct err *err)
{
    const struct flags *flags = &controller->flags;
    const char *path = flags->config_path;
    if (path == NULL && access(DEFAULT_FILE, F_OK) == 0) {
        path = DEFAULT_FILE;
    }
    struct config_report *report = mem_alloc(1, sizeof(*report));
    int result = controller_config_load(path, &controller->config, report, err);
    for (size_t index = 0; index < report->count; index++) {
        const struct config_problem *problem = &report->problems[index];
        (void)fprintf(stderr, "%s:%d: %s: %s\n", path, problem->line, problem->path, problem->text);
    }
    (void)mem_free(report);
    if (result == 0) {
        result = apply_flags(&controller->config, flags, err);
    }
    if (result == 0) {
        result = controller_config_check(&controller->config, err);
    }
    return result;
}

/* ---- start --------------------------------------------------------------------------------- */

/* A session closes SESSION_LINGER_MS after its end at the latest, and agents that lost theirs come
 * back spread over seconds. */
static uint32_t sessions_max(const struct controller_config *config)
{
    return config->limits.agents + config->limits.agents / 4 + SESSIONS_SPARE;
}

/* Raises the number of descriptors to the hard limit and checks that it is enough for the agents:
 * a session each, and a quarter more, because an old one may linger while its agent is back. */
static int raise_descriptors(const struct controller_config *config, struct err *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return err_set(err, -errno, "getrlimit: %s", strerror(errno));
    }
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return err_set(err, -errno, "setrlimit: %s", strerror(errno));
    }
    uint64_t needed = (uint64_t)sessions_max(config) + OTHER_DESCRIPTORS;
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < needed) {
        return err_set(err, -EMFILE,
                       "limits.agents %u needs %" PRIu64 " file descriptors, %" PRIu64
                       " are allowed (RLIMIT_NOFILE, hard): raise that or lower limits.agents",
                       config->limits.agents, needed, (uint64_t)limit.rlim_cur);
    }
    return 0;
}

static int open_store(struct controller *controller, struct err *err)
{
    struct store_options store_options = {0};
    if (controller->flags.drill.at != DRILL_NEVER) {
        store_options.hook = drill_hook;
        store_options.hook_context = &controller->flags.drill;
    }
    enum store_mode mode = controller->flags.rebuild ? STORE_REBUILD : STORE_CREATE;
    return store_open(controller->config.database, mode, &store_options, &controller->store, err);
}

static int make_core(struct controller *controller, struct err *err)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed)) {
        return err_set(err, -EIO, "the system gives no random numbers: %s", strerror(errno));
    }
    int result =
        core_create(&controller->config.limits, &controller->config.core, seed, &controller->core);
    if (result < 0) {
        return err_set(err, result, "limits: the core cannot be made: %s", strerror(-result));
    }
    struct replay_report report;
    uint64_t start_ms = loop_now_ms();
    result = replay_journal(controller->store, controller->core, &report, err);
    if (result < 0) {
        return result;
    }
    char records[24];
    char took[24];
    (void)text_format(records, sizeof(records), "%" PRIu64, report.store.records); /* fits */
    (void)text_format(took, sizeof(took), "%" PRIu64, loop_now_ms() - start_ms);   /* fits */
    log_line(LOG_INFO, "replayed", "the journal is read", "records", records, "ms", took, NULL);
    return 0;
}

static void start_program(struct controller *controller, const struct action *action)
{
    const struct node *node = core_node(controller->core, action->node);
    struct site_program *site = action->kind == ACTION_FENCE
                                    ? controller->fence
                                    : controller->repair[action->u.repair.hook];
    if (node == NULL || site == NULL) {
        return; /* the core orders none that is not there */
    }
    struct site_order order = {.node = node->d.node};
    (void)text_copy(order.name, sizeof(order.name), node->d.name); /* as large, as the next one */
    (void)text_copy(order.address, sizeof(order.address), node->d.address);
    if (action->kind == ACTION_REPAIR) {
        order.order = action->u.repair.order;
        (void)text_copy(order.lane, sizeof(order.lane),
                        WORD(repair_lane, action->u.repair.lane)); /* fits, as all of them */
        (void)text_copy(order.reason, sizeof(order.reason), action->u.repair.reason);
        if (action->u.repair.incident != 0) {
            (void)text_format(order.incident, sizeof(order.incident), "I-%04" PRIu32,
                              action->u.repair.incident);
        }
    }
    site_program_start(site, &order);
}

static void carry(void *context, const struct action *action)
{
    struct controller *controller = context;
    if (action == NULL) {
        agents_flush(controller->agents);
        return;
    }
    if (action->kind == ACTION_FENCE || action->kind == ACTION_REPAIR) {
        start_program(controller, action);
    } else {
        agents_carry(controller->agents, action);
    }
}

static void fenced(void *context, const struct site_end *end)
{
    struct controller *controller = context;
    loop_fenced(controller->loop, end->node, end->ok);
}

static void repaired(void *context, const struct site_end *end)
{
    struct controller *controller = context;
    loop_repaired(controller->loop, end->node, end->order, end->ok, end->text);
}

static void create_programs(struct controller *controller)
{
    const struct controller_config *config = &controller->config;
    if (config->fence_program[0] != '\0') {
        controller->fence =
            site_program_create(&controller->uv, "fence_node", config->fence_program,
                                SITE_FENCE_TIMEOUT_MS, fenced, controller);
    }
    for (size_t hook = 0; hook < ARRAY_SIZE(controller->repair); hook++) {
        if (config->repair_programs[hook][0] != '\0') {
            controller->repair[hook] = site_program_create(
                &controller->uv, repair_hook_words[hook], config->repair_programs[hook],
                SITE_MEND_TIMEOUT_MS, repaired, controller);
        }
    }
}

static int start_agents(struct controller *controller, struct err *err)
{
    struct agents_options agents_options = {
        .address = controller->config.listen_agents,
        .key = controller->key,
        .sessions_max = sessions_max(&controller->config),
        .specs = controller->specs,
    };
    int result = agents_create(controller->loop, &agents_options, &controller->agents, err);
    if (result < 0) {
        return result;
    }
    controller->relay = relay_create(controller->loop, controller->agents);
    create_programs(controller);
    loop_set_carrier(controller->loop, carry, controller);
    return 0;
}

static int start_api(struct controller *controller, struct err *err)
{
    const struct controller_config *config = &controller->config;
    struct api_options api_options = {
        .loop = controller->loop,
        .relay = controller->relay,
        .database = config->database,
        .listen_rest = config->listen_rest,
        .listen_socket = config->listen_socket,
        .socket_group = config->socket_group,
        .token_file = config->token_file,
    };
    return api_create(&api_options, &controller->api, err);
}

/* ---- ending -------------------------------------------------------------------------------- */

static void stop(struct controller *controller, int status)
{
    if (controller->stopping) {
        return;
    }
    controller->stopping = true;
    controller->status = status;
    notify_manager("STOPPING=1");
    if (controller->api != NULL) {
        api_close(controller->api);
    }
    if (controller->agents != NULL) {
        relay_close(controller->relay);
        agents_close(controller->agents);
    }
    site_program_close(controller->fence);
    for (size_t hook = 0; hook < ARRAY_SIZE(controller->repair); hook++) {
        site_program_close(controller->repair[hook]);
    }
    loop_finish(controller->loop);
    loop_close(controller->loop);
    for (size_t index = 0; index < ARRAY_SIZE(controller->signals); index++) {
        uv_close((uv_handle_t *)&controller->signals[index], NULL);
    }
    uv_close((uv_handle_t *)&controller->watchdog, NULL);
}

static void fatal_cb(void *context, const char *text)
{
    struct controller *controller = context;
    (void)text; /* the loop has logged it */
    stop(controller, EXIT_DATABASE);
}

static void reload_level(struct controller *controller)
{
    struct controller now = {.flags = controller->flags};
    struct err err = {0};
    if (load_config(&now, &err) < 0) {
        log_line(LOG_ERROR, "reload-failed", "the configuration is not used, ignoring", "error",
                 err.text, NULL);
        return;
    }
    controller->config.log_level = now.config.log_level;
    log_init(PROGRAM, now.config.log_level);
    if (controller->config.log_json) {
        log_format_json(true);
    }
    log_line(LOG_INFO, "reloaded", "the log level was read again", NULL);
}

static void signal_cb(uv_signal_t *handle, int number)
{
    struct controller *controller = handle->data;
    if (number == SIGHUP) {
        reload_level(controller);
        return;
    }
    log_line(LOG_INFO, "ending", "asked to end", "signal", number == SIGTERM ? "TERM" : "INT",
             NULL);
    stop(controller, EXIT_OK);
}

static void watchdog_cb(uv_timer_t *timer)
{
    (void)timer; /* that the loop came here is all that is to be said */
    notify_manager("WATCHDOG=1");
}

static void watch_signals(struct controller *controller)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    static_assert(ARRAY_SIZE(numbers) == ARRAY_SIZE(((struct controller *)NULL)->signals),
                  "one handle a signal");
    for (size_t index = 0; index < ARRAY_SIZE(numbers); index++) {
        CHECK(uv_signal_init(&controller->uv, &controller->signals[index]) == 0);
        controller->signals[index].data = controller;
        CHECK(uv_signal_start(&controller->signals[index], signal_cb, numbers[index]) == 0);
    }
    CHECK(uv_timer_init(&controller->uv, &controller->watchdog) == 0);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static int fail(int status, const struct err *err)
{
    log_line(LOG_ERROR, "failed", err->text, NULL);
    return status;
}

static void announce(struct controller *controller)
{
    bool tls = controller->key != NULL;
    log_line(controller->config.insecure && !tls ? LOG_WARN : LOG_INFO, "ready",
             tls ? "agents may connect" : "agents may connect, without encryption", "version",
             KEEPSTEP_VERSION, "agents", controller->config.listen_agents, "database",
             controller->config.database, NULL);
    notify_manager("READY=1\nSTATUS=running");
    const uint64_t period_ms = notify_watchdog_ms();
    if (period_ms > 0) {
        CHECK(uv_timer_start(&controller->watchdog, watchdog_cb, 0, period_ms) == 0);
    }
}

/* Everything between an open store and its close. */
static int run(struct controller *controller)
{
    struct err err = {0};
    struct loop_options loop_options = {
        .uv = &controller->uv,
        .core = controller->core,
        .store = controller->store,
        .drill = &controller->flags.drill,
        .cluster_id = controller->config.cluster_id,
    };
    if (loop_create(&loop_options, &controller->loop, &err) < 0) {
        return fail(EXIT_FAILED, &err);
    }
    loop_set_fatal(controller->loop, fatal_cb, controller);
    watch_signals(controller);
    int result = spec_cache_create(controller->config.database, &controller->specs, &err);
    if (result < 0) {
        stop(controller, fail(EXIT_DATABASE, &err));
    } else if (start_agents(controller, &err) < 0 || start_api(controller, &err) < 0) {
        stop(controller, fail(EXIT_PORT, &err));
    } else if (loop_start(controller->loop, &err) < 0) {
        stop(controller, fail(EXIT_FAILED, &err));
    } else {
        announce(controller);
    }
    (void)uv_run(&controller->uv, UV_RUN_DEFAULT); /* until every handle is closed */
    (void)api_free(controller->api);
    (void)relay_free(controller->relay);
    (void)agents_free(controller->agents);
    (void)site_program_free(controller->fence);
    for (size_t hook = 0; hook < ARRAY_SIZE(controller->repair); hook++) {
        (void)site_program_free(controller->repair[hook]);
    }
    (void)spec_cache_free(controller->specs);
    (void)loop_free(controller->loop);
    return controller->status;
}

/* With a store: core, ports, loop; and the store's end. */
static int run_with_store(struct controller *controller)
{
    struct err err = {0};
    int status;
    if (make_core(controller, &err) < 0) {
        status = fail(EXIT_DATABASE, &err);
    } else {
        struct store_status store_now;
        store_status(controller->store, &store_now);
        if (controller->flags.drill.at != DRILL_NEVER) {
            drill_arm(&controller->flags.drill, store_now.durable_sequence);
        }
        status = run(controller);
    }
    controller->core = core_free(controller->core);
    if (store_close(controller->store, STORE_CLOSE_MS, &err) < 0) {
        return fail(status == EXIT_OK ? EXIT_DATABASE : status, &err);
    }
    return status;
}

static int run_with_loop(struct controller *controller)
{
    struct err err = {0};
    int result = uv_loop_init(&controller->uv);
    if (result != 0) {
        (void)err_set(&err, result, "the event loop cannot be made: %s", uv_strerror(result));
        (void)store_close(controller->store, 0, NULL); /* nothing was appended */
        return fail(EXIT_FAILED, &err);
    }
    int status = run_with_store(controller);
    CHECK(uv_loop_close(&controller->uv) == 0);
    return status;
}

static int start(struct controller *controller)
{
    struct err err = {0};
    if (raise_descriptors(&controller->config, &err) < 0) {
        return fail(EXIT_USAGE, &err);
    }
    if (controller->config.key_file[0] != '\0' &&
        tls_key_load(controller->config.key_file, TLS_SERVER, NULL, &controller->key, &err) < 0) {
        return fail(EXIT_KEY, &err);
    }
    int status;
    if (open_store(controller, &err) < 0) {
        status = fail(EXIT_DATABASE, &err);
    } else if (controller->flags.rebuild) {
        status = EXIT_OK;
        if (store_close(controller->store, STORE_CLOSE_MS, &err) < 0) {
            status = fail(EXIT_DATABASE, &err);
        } else {
            log_line(LOG_INFO, "rebuilt", "all tables are folded again from the journal", NULL);
        }
    } else {
        status = run_with_loop(controller);
    }
    (void)tls_key_free(controller->key);
    return status;
}

int main(int count, char **arguments)
{
    struct controller controller = {0};
    struct err err = {0};
    config_memory();
    log_init(PROGRAM, LOG_INFO);
    log_last_words();
    if (parse_flags(count, arguments, &controller.flags, &err) < 0) {
        (void)fprintf(stderr, PROGRAM ": %s\n", err.text);
        return EXIT_USAGE;
    }
    if (controller.flags.help || controller.flags.version) {
        (void)fputs(controller.flags.help ? help_text : PROGRAM " " KEEPSTEP_VERSION "\n", stdout);
        return EXIT_OK;
    }
    if (load_config(&controller, &err) < 0) {
        (void)fprintf(stderr, PROGRAM ": %s\n", err.text);
        return EXIT_USAGE;
    }
    if (controller.flags.check_config) {
        (void)fputs("ok\n", stdout);
        return EXIT_OK;
    }
    log_init(PROGRAM, controller.config.log_level);
    if (controller.config.log_json) {
        log_format_json(true);
    }
    (void)signal(SIGPIPE, SIG_IGN); /* cannot fail for this signal; writes say EPIPE instead */
    return start(&controller);
}
