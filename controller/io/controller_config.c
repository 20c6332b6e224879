/* controller_config.c: see controller_config.h. */
#include "controller/io/controller_config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "controller/io/agents.h"
#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

#define MS(seconds) ((int64_t)(seconds)*1000)

static const struct config_key keys[] = {
    {.path = "listen.agents",
     .type = CONFIG_TEXT,
     .default_text = "127.0.0.1:7444",
     .doc = "address and port for agents; needs key_file unless only this machine can reach it"},
    {.path = "listen.rest",
     .type = CONFIG_TEXT,
     .default_text = "127.0.0.1:7443",
     .doc = "address and port of the REST interface; \"\" for none"},
    {.path = "listen.socket",
     .type = CONFIG_TEXT,
     .default_text = "/run/keepstep/api.sock",
     .doc = "Unix socket of the REST interface, by peer credentials; \"\" for none"},
    {.path = "listen.socket_group",
     .type = CONFIG_TEXT,
     .default_text = "",
     .doc = "group whose members are operators on the socket, beside root and our own user"},
    {.path = "database",
     .type = CONFIG_TEXT,
     .default_text = "/var/lib/keepstep/keepstep.db",
     .doc = "the journal; on a local disk"},
    {.path = "cluster_id",
     .type = CONFIG_TEXT,
     .default_text = "",
     .doc = "32 hex digits: makes a lost database again for agents that know this cluster; every "
            "agent's log and journal has it"},
    {.path = "key_file",
     .type = CONFIG_TEXT,
     .default_text = "",
     .doc = "pre-shared key of the cluster, mode 0600; see keepstep admin key init"},
    {.path = "token_file",
     .type = CONFIG_TEXT,
     .default_text = "",
     .doc = "tokens for the REST interface over TCP, mode 0600"},
    {.path = "insecure",
     .type = CONFIG_BOOL,
     .default_text = "false",
     .doc = "allow agents from other machines without a key: for tests only"},
    {.path = "hooks.fence_node",
     .type = CONFIG_TEXT,
     .default_text = "",
     .doc = "program that cuts a node off; gets its name and address"},
    {.path = "hooks.gpu_reset",
     .type = CONFIG_TEXT,
     .default_text = "",
     .doc =
         "program that resets the GPUs of a node with a fault; as all four of these, it gets name "
         "and address, and KEEPSTEP_REPAIR, _LANE, _INCIDENT, _REASON"},
    {.path = "hooks.reboot",
     .type = CONFIG_TEXT,
     .default_text = "",
     .doc = "... that reboots it, or power-cycles it when it is silent"},
    {.path = "hooks.diag",
     .type = CONFIG_TEXT,
     .default_text = "",
     .doc = "... that looks for what is broken; 0 = it is fit"},
    {.path = "hooks.ticket",
     .type = CONFIG_TEXT,
     .default_text = "",
     .doc = "... that files a ticket for people (rma, network-ticket, storage-ticket)"},
    {.path = "log.level",
     .type = CONFIG_ENUM,
     .words = "debug|info|warn|error",
     .default_text = "info",
     .live = true,
     .doc = "least level that is logged; read again at SIGHUP"},
    {.path = "log.format",
     .type = CONFIG_ENUM,
     .words = "auto|json",
     .default_text = "auto",
     .doc = "auto: text on a terminal, JSON lines elsewhere"},
    {.path = "timing.start_grace",
     .type = CONFIG_DURATION,
     .default_text = "15s",
     .min = 1,
     .max = MS(3600),
     .doc = "after a start nobody is judged for so long"},
    {.path = "timing.start_quiet",
     .type = CONFIG_DURATION,
     .default_text = "3s",
     .min = 1,
     .max = MS(3600),
     .doc = "... and until no new agent came for so long"},
    {.path = "timing.start_grace_max",
     .type = CONFIG_DURATION,
     .default_text = "60s",
     .min = 1,
     .max = MS(3600),
     .doc = "... but at most so long"},
    {.path = "timing.reconnect_grace",
     .type = CONFIG_DURATION,
     .default_text = "3s",
     .min = 1,
     .max = MS(3600),
     .doc = "a closed connection may come back within this"},
    {.path = "timing.beat",
     .type = CONFIG_DURATION,
     .default_text = "1s",
     .min = 100,
     .max = MS(60),
     .doc = "how often agents report"},
    {.path = "timing.probe_timeout",
     .type = CONFIG_DURATION,
     .default_text = "1s",
     .min = 10,
     .max = MS(60),
     .doc = "for a second opinion about a silent node"},
    {.path = "timing.evidence_quiet",
     .type = CONFIG_DURATION,
     .default_text = "2s",
     .min = 1,
     .max = MS(600),
     .doc = "a verdict waits until no new fact came for so long"},
    {.path = "timing.evidence_max",
     .type = CONFIG_DURATION,
     .default_text = "10s",
     .min = 1,
     .max = MS(600),
     .doc = "... but at most so long"},
    {.path = "timing.evidence_gone",
     .type = CONFIG_DURATION,
     .default_text = "300ms",
     .min = 1,
     .max = MS(600),
     .doc = "... and after every rank is proven gone only so long"},
    {.path = "timing.kill_extra",
     .type = CONFIG_DURATION,
     .default_text = "10s",
     .min = 1,
     .max = MS(3600),
     .doc = "beyond the grace until a node that cannot be emptied is given up"},
    {.path = "timing.launch_timeout",
     .type = CONFIG_DURATION,
     .default_text = "20s",
     .min = 1,
     .max = MS(3600),
     .doc = "a node that has not started its ranks by then is replaced"},
    {.path = "timing.check_timeout",
     .type = CONFIG_DURATION,
     .default_text = "5s",
     .min = 1,
     .max = MS(3600),
     .doc = "for the quick check of an incoming node"},
    {.path = "timing.end_grace",
     .type = CONFIG_DURATION,
     .default_text = "10m",
     .min = 1,
     .max = MS(86400),
     .doc = "from the first rank that ended well to the last"},
    {.path = "timing.agent_away",
     .type = CONFIG_DURATION,
     .default_text = "10m",
     .min = 1,
     .max = MS(86400),
     .doc = "a node whose agent is down so long is lost"},
    {.path = "timing.probation",
     .type = CONFIG_DURATION,
     .default_text = "24h",
     .min = 1,
     .max = MS(30 * 86400),
     .doc = "a repaired node is the last choice for so long"},
    {.path = "timing.repair_wait",
     .type = CONFIG_DURATION,
     .default_text = "60s",
     .min = 1,
     .max = MS(86400),
     .doc = "a node with a fault is left alone for so long before a hook mends it; a silent one "
            "twice as long"},
    {.path = "rendezvous.port_low",
     .type = CONFIG_INT,
     .default_text = "29400",
     .min = 1024,
     .max = 65535,
     .doc = "lowest port for the rendezvous of ranks"},
    {.path = "rendezvous.port_high",
     .type = CONFIG_INT,
     .default_text = "29999",
     .min = 1024,
     .max = 65535,
     .doc = "highest of them"},
    {.path = "limits.agents",
     .type = CONFIG_INT,
     .min = 1,
     .max = 20000,
     .doc = "nodes known at a time; needs a file descriptor each, and a quarter more"},
    {.path = "limits.jobs", .type = CONFIG_INT, .min = 1, .max = 512, .doc = "jobs kept"},
    {.path = "limits.slots",
     .type = CONFIG_INT,
     .min = 1,
     .max = 32768,
     .doc = "slots of all jobs that are not over"},
    {.path = "limits.pending_records",
     .type = CONFIG_INT,
     .min = 64,
     .max = STORE_PENDING_MAX / 2,
     .doc = "records that wait for a failing disk before only a cancel is accepted"},
};

const struct config_key *controller_config_keys(size_t *ret_count)
{
    *ret_count = ARRAY_SIZE(keys);
    return keys;
}

/* ---- reading ------------------------------------------------------------------------------- */

static int read_file(const char *path, struct buf *content, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    }
    int result = 0;
    for (;;) {
        char part[4096];
        ssize_t size = read(fd, part, sizeof(part));
        if (size < 0) {
            result = err_set(err, -errno, "%s: %s", path, strerror(errno));
        } else if (size > 0 && buf_put(content, part, (size_t)size) < 0) {
            result = err_set(err, -E2BIG, "%s is longer than %d bytes", path, CONFIG_SIZE_MAX);
        }
        if (size <= 0 || result < 0) {
            break;
        }
    }
    (void)close(fd); /* read only */
    return result;
}

/* A text of the tree into a fixed array; too long is a problem of the file. */
static void take_text(const json_t *tree, const char *path, char *target, size_t size,
                      struct config_report *report)
{
    if (!text_copy(target, size, config_text(tree, path))) {
        config_problem_add(report, config_line(tree, path), 0, path, "", "is longer than %zu bytes",
                           size - 1);
    }
}

static uint32_t take_u32(const json_t *tree, const char *path)
{
    return (uint32_t)config_int(tree, path); /* the table's limits fit */
}

static void take_limit(const json_t *tree, const char *path, uint32_t *target)
{
    if (config_get(tree, path) != NULL) {
        *target = take_u32(tree, path);
    }
}

static void take_core(const json_t *tree, struct controller_config *config)
{
    config->core = (struct core_config){
        .start_grace_ms = take_u32(tree, "timing.start_grace"),
        .start_quiet_ms = take_u32(tree, "timing.start_quiet"),
        .start_grace_max_ms = take_u32(tree, "timing.start_grace_max"),
        .reconnect_grace_ms = take_u32(tree, "timing.reconnect_grace"),
        .beat_ms = take_u32(tree, "timing.beat"),
        .probe_timeout_ms = take_u32(tree, "timing.probe_timeout"),
        .evidence_quiet_ms = take_u32(tree, "timing.evidence_quiet"),
        .evidence_max_ms = take_u32(tree, "timing.evidence_max"),
        .evidence_gone_ms = take_u32(tree, "timing.evidence_gone"),
        .kill_extra_ms = take_u32(tree, "timing.kill_extra"),
        .launch_timeout_ms = take_u32(tree, "timing.launch_timeout"),
        .check_timeout_ms = take_u32(tree, "timing.check_timeout"),
        .end_grace_ms = take_u32(tree, "timing.end_grace"),
        .agent_away_ms = take_u32(tree, "timing.agent_away"),
        .probation_ms = take_u32(tree, "timing.probation"),
        .repair_wait_ms = take_u32(tree, "timing.repair_wait"),
        .port_low = take_u32(tree, "rendezvous.port_low"),
        .port_high = take_u32(tree, "rendezvous.port_high"),
    };
    config->limits = core_limits_default;
    take_limit(tree, "limits.agents", &config->limits.agents);
    take_limit(tree, "limits.jobs", &config->limits.jobs);
    take_limit(tree, "limits.slots", &config->limits.slots);
    take_limit(tree, "limits.pending_records", &config->limits.pending_records);
}

/* A hook's program; anything but an absolute path is a problem of the file. */
static void take_program(const json_t *tree, const char *path, char *target,
                         struct config_report *report)
{
    take_text(tree, path, target, CONTROLLER_PATH_SIZE, report);
    if (target[0] != '\0' && target[0] != '/') {
        config_problem_add(report, config_line(tree, path), 0, path, "",
                           "must be an absolute path");
    }
}

static void take_hooks(const json_t *tree, struct controller_config *config,
                       struct config_report *report)
{
    static const char *const paths[repair_hook_count] = {
        [HOOK_GPU_RESET] = "hooks.gpu_reset",
        [HOOK_REBOOT] = "hooks.reboot",
        [HOOK_DIAG] = "hooks.diag",
        [HOOK_TICKET] = "hooks.ticket",
    };
    take_program(tree, "hooks.fence_node", config->fence_program, report);
    config->core.fence_hook = config->fence_program[0] != '\0';
    for (size_t hook = HOOK_NONE + 1; hook < ARRAY_SIZE(paths); hook++) {
        take_program(tree, paths[hook], config->repair_programs[hook], report);
        config->core.repair_hooks[hook] = config->repair_programs[hook][0] != '\0';
    }
}

static enum log_level level_of(const char *word)
{
    static const char *const words[] = {"debug", "info", "warn", "error"};
    for (size_t index = 0; index < ARRAY_SIZE(words); index++) {
        if (text_equal(word, words[index])) {
            return (enum log_level)index;
        }
    }
    return LOG_INFO;
}

static void take_tree(const json_t *tree, struct controller_config *config,
                      struct config_report *report)
{
    *config = (struct controller_config){.insecure = config_bool(tree, "insecure")};
    take_text(tree, "listen.agents", config->listen_agents, sizeof(config->listen_agents), report);
    take_text(tree, "listen.rest", config->listen_rest, sizeof(config->listen_rest), report);
    take_text(tree, "listen.socket", config->listen_socket, sizeof(config->listen_socket), report);
    take_text(tree, "listen.socket_group", config->socket_group, sizeof(config->socket_group),
              report);
    take_text(tree, "database", config->database, sizeof(config->database), report);
    take_text(tree, "cluster_id", config->cluster_id, sizeof(config->cluster_id), report);
    take_text(tree, "key_file", config->key_file, sizeof(config->key_file), report);
    take_text(tree, "token_file", config->token_file, sizeof(config->token_file), report);
    config->log_level = level_of(config_text(tree, "log.level"));
    config->log_json = text_equal(config_text(tree, "log.format"), "json");
    take_core(tree, config);
    take_hooks(tree, config, report);
    if (config->core.port_low > config->core.port_high) {
        config_problem_add(report, config_line(tree, "rendezvous.port_low"), 0,
                           "rendezvous.port_low", "", "is above rendezvous.port_high");
    }
}

int controller_config_load(const char *path, struct controller_config *ret_config,
                           struct config_report *report, struct err *err)
{
    struct buf content;
    buf_init(&content, CONFIG_SIZE_MAX);
    *report = (struct config_report){.count = 0};
    int result = path != NULL ? read_file(path, &content, err) : 0;
    json_t *tree = NULL;
    if (result == 0) {
        const char *text = path != NULL ? buf_text(&content) : "{}\n";
        size_t size = path != NULL ? content.size : strlen(text);
        result = config_parse_yaml(text, size, keys, ARRAY_SIZE(keys), &tree, report);
        if (result < 0) {
            (void)err_set(err, result, "%s has %zu problems", path, report->total);
        }
    }
    if (result == 0) {
        struct controller_config config;
        take_tree(tree, &config, report);
        if (report->total > 0) {
            result = err_set(err, -EINVAL, "%s has %zu problems", path, report->total);
        } else {
            *ret_config = config;
        }
    }
    json_decref(tree);
    buf_done(&content);
    return result;
}

int controller_config_check(const struct controller_config *config, struct err *err)
{
    struct sockaddr_storage address;
    bool loopback;
    int result = agents_parse_address(config->listen_agents, &address, &loopback, err);
    if (result < 0) {
        return err_wrap(err, "listen.agents");
    }
    if (!loopback && config->key_file[0] == '\0' && !config->insecure) {
        return err_set(err, -EINVAL,
                       "listen.agents %s can be reached from other machines and there is no key: "
                       "make one with `keepstep admin key init` and set key_file, or allow it with "
                       "--insecure",
                       config->listen_agents);
    }
    size_t id_size = strlen(config->cluster_id);
    if (id_size != 0 && (id_size != CLUSTER_ID_SIZE - 1 ||
                         strspn(config->cluster_id, "0123456789abcdef") != id_size)) {
        return err_set(err, -EINVAL, "cluster_id is not 32 hex digits");
    }
    if (config->database[0] == '\0') {
        return err_set(err, -EINVAL, "database is empty: name the file of the journal");
    }
    return 0;
}
