/* main.c: keepstep-agent. Flags, signals and wiring; no decisions.
 *
 * Signals: TERM and INT say goodbye ("restart": the next agent goes on; "reboot" when TERM comes while
 * the machine goes down on purpose) and end the agent, USR1 says that this node is gone for good, USR2
 * that it reboots. Ranks are left alone by all of them. HUP says whether the site's
 * catalogue is right as it is now. */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <uv.h>

#include "agent/io/agent_io.h"
#include "agent/io/catalogs.h"
#include "agent/io/driver.h"
#include "agent/io/folders.h"
#include "agent/io/helper.h"
#include "agent/io/journal.h"
#include "agent/io/link.h"
#include "agent/io/logs.h"
#include "agent/io/mailboxes.h"
#include "agent/io/options.h"
#include "agent/io/peers.h"
#include "agent/io/probe_show.h"
#include "agent/io/probes.h"
#include "agent/io/requests.h"
#include "agent/io/saves.h"
#include "agent/io/shims.h"
#include "agent/io/specs.h"
#include "agent/io/step_watch.h"
#include "agent/io/validate.h"
#include "agent/probe/inventory.h"
#include "agent/probe/probe.h"
#include "proto/base/check.h"
#include "proto/base/config.h"
#include "proto/base/log.h"
#include "proto/base/mem.h"
#include "proto/base/notify.h"
#include "proto/base/text.h"
#include "proto/wire/wire.h"

#ifndef KEEPSTEP_VERSION_TEXT
#define KEEPSTEP_VERSION_TEXT "0.1.0"
#endif

enum { SIGNAL_COUNT = 4, EXIT_FAILED = 1, EXIT_USAGE = 2, TEXT_OUT_SIZE = 8192 };

struct agent {
    struct agent_options options;
    struct agent_io io;
    struct agent_journal *journal;
    uv_loop_t loop;
    uv_check_t turn;
    uv_signal_t signals[SIGNAL_COUNT];
    uv_signal_t reload;
    uv_timer_t watchdog;
    bool announced; /* to the service manager */
    bool closed;
};

static const struct {
    int number;
    uint8_t goodbye;
} signal_table[SIGNAL_COUNT] = {{SIGTERM, GOODBYE_RESTART},
                                {SIGINT, GOODBYE_RESTART},
                                {SIGUSR1, GOODBYE_GONE},
                                {SIGUSR2, GOODBYE_REBOOT}};

uint64_t agent_io_now_ms(void)
{
    return uv_hrtime() / 1000000;
}

uint64_t agent_io_wall_ms(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail for this clock */
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- the loop -------------------------------------------------------------------------------------- */

static void signal_cb(uv_signal_t *handle, int number)
{
    struct agent *agent = handle->data;
    struct agent_event event = {.kind = AGENT_EVENT_GOODBYE, .text = strsignal(number)};
    for (int i = 0; i < SIGNAL_COUNT; i++) {
        if (signal_table[i].number == number) {
            event.goodbye = signal_table[i].goodbye;
        }
    }
    if (number == SIGTERM && probes_host_ends(agent->io.probes)) {
        event.goodbye = GOODBYE_REBOOT;
    }
    notify_manager("STOPPING=1");
    driver_step(agent->io.driver, &event);
}

/* The probe of the kernel log reads the site's catalogue by itself when it changes, and keeps the one
 * before when it is wrong: here it is said which of the two it is. */
static int check_catalog(const struct agent *agent, uint32_t *ret_rows, struct err *err)
{
    struct catalog *catalog = NULL;
    const int r = catalogs_load(agent->options.catalog, &catalog, err);
    *ret_rows = r == 0 ? catalog_count(catalog) : 0;
    (void)catalog_free(catalog);
    return r;
}

static void reload_cb(uv_signal_t *handle, int number)
{
    struct err err = {0};
    uint32_t count = 0;
    char rows[16];
    (void)number;
    if (check_catalog(handle->data, &count, &err) != 0) {
        log_line(LOG_ERROR, "catalog-wrong", "the catalogue is not used, the one before stays",
                 "error", err.text, NULL);
        return;
    }
    (void)text_format(rows, sizeof(rows), "%u", count);
    log_line(LOG_INFO, "catalog-right", "the catalogue as it is now is used", "rows", rows, NULL);
}

static void close_all(struct agent *agent)
{
    agent->closed = true;
    uv_close((uv_handle_t *)&agent->reload, NULL);
    for (int i = 0; i < SIGNAL_COUNT; i++) {
        uv_close((uv_handle_t *)&agent->signals[i], NULL);
    }
    uv_close((uv_handle_t *)&agent->turn, NULL);
    uv_close((uv_handle_t *)&agent->watchdog, NULL);
    link_close(agent->io.link);
    peers_close(agent->io.peers);
    mailboxes_close(agent->io.mailboxes);
    logs_close(agent->io.logs);
    steps_close(agent->io.steps);
    requests_close(agent->io.requests);
    saves_close(agent->io.saves);
    probes_close(agent->io.probes);
    validate_close(agent->io.validate);
    shims_close(agent->io.shims);
    driver_close(agent->io.driver);
}

static void watchdog_cb(uv_timer_t *timer)
{
    (void)timer; /* that the loop came here is all that is to be said */
    notify_manager("WATCHDOG=1");
}

/* Ready is an agent that knows what runs here and answers its peers; whether there is a controller is
 * another question. */
static void announce(struct agent *agent)
{
    struct agent_view view;
    agent_core_view(agent->io.core, &view);
    if (!view.scanned) {
        return;
    }
    agent->announced = true;
    notify_manager("READY=1\nSTATUS=running");
    const uint64_t period_ms = notify_watchdog_ms();
    if (period_ms > 0) {
        const int r = uv_timer_start(&agent->watchdog, watchdog_cb, 0, period_ms);
        CHECK(r == 0);
    }
}

static void turn_cb(uv_check_t *turn)
{
    struct agent *agent = turn->data;
    if (!agent->announced && !agent->io.closing) {
        announce(agent);
    }
    if (agent->io.closing && !agent->closed && link_is_finished(agent->io.link)) {
        close_all(agent);
    }
}

static void watch_signals(struct agent *agent)
{
    int r = uv_check_init(&agent->loop, &agent->turn);
    CHECK(r == 0);
    agent->turn.data = agent;
    r = uv_check_start(&agent->turn, turn_cb);
    CHECK(r == 0);
    r = uv_timer_init(&agent->loop, &agent->watchdog);
    CHECK(r == 0);
    r = uv_signal_init(&agent->loop, &agent->reload);
    CHECK(r == 0);
    agent->reload.data = agent;
    r = uv_signal_start(&agent->reload, reload_cb, SIGHUP);
    CHECK(r == 0);
    for (int i = 0; i < SIGNAL_COUNT; i++) {
        r = uv_signal_init(&agent->loop, &agent->signals[i]);
        CHECK(r == 0);
        agent->signals[i].data = agent;
        r = uv_signal_start(&agent->signals[i], signal_cb, signal_table[i].number);
        CHECK(r == 0);
    }
}

/* ---- wiring ----------------------------------------------------------------------------------------- */

static int make_identity(const struct agent *agent, uint16_t peer_port,
                         struct agent_identity *ret_identity, struct err *err)
{
    const struct agent_options *options = &agent->options;
    const char *leaves[PORTS_MAX];
    struct agent_identity identity = {.peer_port = peer_port,
                                      .labels = options->labels,
                                      .protocol = WIRE_PROTOCOL,
                                      .fence_after_ms = options->fence_after_ms,
                                      .peer_count = options->peer_count};
    for (uint32_t i = 0; i < options->leaf_count; i++) {
        leaves[i] = options->leaves[i];
    }
    (void)text_copy(identity.node, sizeof(identity.node), options->node);
    (void)text_copy(identity.version, sizeof(identity.version), KEEPSTEP_VERSION_TEXT);
    (void)text_copy(identity.address, sizeof(identity.address), options->address);
    memcpy(identity.peers, options->peers, sizeof(identity.peers));
    inventory_read(options->node, options->gpus, options->leaf_count, leaves, &identity.inventory);
    int r = inventory_boot_id(identity.boot_id, err);
    r = r == 0 ? inventory_incarnation(&identity.incarnation, err) : r;
    *ret_identity = identity;
    return r;
}

static int replay_one(const struct agent_record *record, void *context)
{
    return agent_core_replay(context, record);
}

/* The core with everything that its journal remembers. */
static int make_core(struct agent *agent, const struct agent_limits *limits, uint16_t peer_port,
                     struct err *err)
{
    struct agent_identity identity;
    uint64_t seed = 0;
    int r = make_identity(agent, peer_port, &identity, err);
    if (r != 0) {
        return r;
    }
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed)) {
        return err_set(err, -EIO, "no random numbers");
    }
    r = agent_core_create(limits, seed, &identity, &agent->io.core);
    if (r != 0) {
        return err_set(err, r, "the node's name or a limit is not usable");
    }
    return agent_journal_replay(agent->journal, replay_one, agent->io.core, err);
}

static int open_all(struct agent *agent, struct err *err)
{
    struct agent_io *io = &agent->io;
    struct agent_limits limits;
    uint16_t peer_port = 0;
    agent_limits_default(&limits);
    uint32_t rows = 0;
    int r = check_catalog(agent, &rows, err);
    r = r == 0 ? agent_journal_open(agent->options.state_dir, &agent->journal, err) : r;
    r = r == 0 ? folders_make(agent->options.state_dir, agent->options.run_dir, err) : r;
    r = r == 0 ? peers_create(io, &io->peers, &peer_port, err) : r;
    r = r == 0 ? make_core(agent, &limits, peer_port, err) : r;
    r = r == 0 ? link_create(io, &io->link, err) : r;
    r = r == 0 ? driver_create(io, agent->journal, &limits, &io->driver) : r;
    if (r != 0) {
        return r;
    }
    agent_journal_crash_at(agent->journal, agent->options.crash_before, agent->options.crash_at);
    io->specs = specs_create();
    io->mailboxes = mailboxes_create(io);
    io->logs = logs_create(io);
    io->steps = steps_create(io);
    io->requests = requests_create(io);
    io->saves = saves_create(io);
    io->validate = validate_create(io);
    io->shims = shims_create(io);
    io->probes = probes_create(io);
    watch_signals(agent);
    return 0;
}

static void free_all(struct agent *agent)
{
    struct agent_io *io = &agent->io;
    (void)probes_free(io->probes);
    (void)shims_free(io->shims);
    (void)requests_free(io->requests);
    (void)saves_free(io->saves);
    (void)validate_free(io->validate);
    (void)mailboxes_free(io->mailboxes);
    (void)logs_free(io->logs);
    (void)steps_free(io->steps);
    (void)specs_free(io->specs);
    (void)driver_free(io->driver);
    (void)link_free(io->link);
    (void)agent_core_free(io->core);
    (void)peers_free(io->peers);
    (void)agent_journal_free(agent->journal);
}

/* What was opened before the failure has handles in the loop: they are closed before it is. */
static void give_up(struct agent *agent)
{
    if (agent->io.link != NULL) {
        link_close(agent->io.link);
    }
    if (agent->io.peers != NULL) {
        peers_close(agent->io.peers);
    }
    (void)uv_run(&agent->loop, UV_RUN_DEFAULT); /* only closing handles are left */
}

static int run(struct agent *agent)
{
    struct err err = {0};
    int r = uv_loop_init(&agent->loop);
    if (r != 0) {
        log_line(LOG_ERROR, "start-failed", "the event loop cannot be made", "error",
                 uv_strerror(r), NULL);
        return EXIT_FAILED;
    }
    agent->io.loop = &agent->loop;
    agent->io.options = &agent->options;
    r = open_all(agent, &err);
    if (r != 0) {
        log_line(LOG_ERROR, "start-failed", err.text, NULL);
        give_up(agent);
    } else {
        log_line(agent->options.insecure ? LOG_WARN : LOG_INFO, "start",
                 agent->options.insecure ? "the controller's link is not protected (insecure)"
                                         : "agent starts",
                 "version", KEEPSTEP_VERSION_TEXT, "node", agent->options.node, "controller",
                 agent->options.controller_host, "address", agent->options.address, NULL);
        struct agent_event event = {.kind = AGENT_EVENT_START};
        driver_step(agent->io.driver, &event);
        (void)uv_run(&agent->loop, UV_RUN_DEFAULT); /* until everything is closed */
        log_line(LOG_INFO, "end", "agent ends; ranks are left alone", NULL);
    }
    const int left = uv_loop_close(&agent->loop);
    CHECK(left == 0);
    free_all(agent);
    return r == 0 ? 0 : EXIT_FAILED;
}

/* One arena and two pool threads: the agent has little to do and should take little. */
static void set_up_process(void)
{
    struct rlimit files;
    (void)mallopt(M_ARENA_MAX, 1);
    (void)uv_os_setenv("UV_THREADPOOL_SIZE", "2");
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like a full disk */
    (void)umask(022);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files); /* the old one is enough for a small node */
    }
}

int main(int argc, char **argv)
{
    char text[TEXT_OUT_SIZE];
    enum options_result result = OPTIONS_RUN;
    config_memory();
    if (argc > 1 && strcmp(argv[1], HELPER_WORD) == 0) {
        return helper_main(argc, argv);
    }
    if (argc > 1 && strcmp(argv[1], CATALOGS_WORD) == 0) {
        return catalogs_main(argc, argv);
    }
    if (argc > 1 && strcmp(argv[1], PROBE_WORD) == 0) {
        return probe_main(argc, argv);
    }
    if (argc > 1 && strcmp(argv[1], PROBE_SHOW_WORD) == 0) {
        return probe_show_main(argc, argv);
    }
    log_init("keepstep-agent", LOG_INFO);
    log_last_words();
    struct agent *agent = mem_alloc(1, sizeof(*agent));
    int r = agent_options_parse(argc, argv, &agent->options, &result, text, sizeof(text));
    if (r != 0) {
        (void)fputs(text, stderr);
        mem_free(agent);
        return EXIT_USAGE;
    }
    if (result != OPTIONS_RUN) {
        if (result == OPTIONS_HELP) {
            agent_options_help(text, sizeof(text));
        } else {
            (void)text_format(text, sizeof(text), "keepstep-agent %s\n", KEEPSTEP_VERSION_TEXT);
        }
        (void)fputs(text, stdout);
    } else {
        set_up_process();
        r = run(agent);
    }
    mem_free(agent);
    return r;
}
