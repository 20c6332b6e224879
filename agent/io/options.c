/* options.c: one table of keys for the file and for the flags. A flag --peer-listen is the key
 * peer_listen; flags become a document of their own, so both are read by the one strict reader and
 * have the same types and the same messages. */
#include "agent/io/options.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "agent/probe/inventory.h"
#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/config.h"
#include "proto/base/log.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

static const struct config_key option_keys[] = {
    {.path = "node", .type = CONFIG_NAME, .doc = "name of this node; default: the host's name"},
    {.path = "controller", .type = CONFIG_TEXT, .doc = "HOST:PORT of the controller"},
    {.path = "state", .type = CONFIG_TEXT, .doc = "folder that outlives a reboot"},
    {.path = "run", .type = CONFIG_TEXT, .doc = "folder on tmpfs"},
    {.path = "peer_listen", .type = CONFIG_TEXT, .doc = "ADDRESS:PORT for peers' questions"},
    {.path = "address", .type = CONFIG_TEXT, .doc = "numeric address that other nodes reach"},
    {.path = "rendezvous", .type = CONFIG_TEXT, .doc = "interface or CIDR to take the address of"},
    {.path = "rack", .type = CONFIG_NAME, .doc = "label"},
    {.path = "feed", .type = CONFIG_NAME, .doc = "label: power feed"},
    {.path = "pool", .type = CONFIG_NAME, .doc = "label"},
    {.path = "pod", .type = CONFIG_NAME, .doc = "label"},
    {.path = "leaf", .type = CONFIG_TEXT, .doc = "leaf switch of each port, by comma"},
    {.path = "key", .type = CONFIG_TEXT, .doc = "file of the pre-shared key"},
    {.path = "insecure", .type = CONFIG_BOOL, .doc = "no TLS although not on loopback"},
    {.path = "shim", .type = CONFIG_TEXT, .doc = "keepstep-ranks; default: beside this program"},
    {.path = "cgroup", .type = CONFIG_TEXT, .doc = "parent cgroup of the ranks, or none"},
    {.path = "gpus", .type = CONFIG_INT, .min = 0, .max = GPUS_MAX, .doc = "GPUs of this node"},
    {.path = "fence_after",
     .type = CONFIG_DURATION,
     .doc = "cut off so long, standing ranks end; 0 = never"},
    {.path = "peer", .type = CONFIG_TEXT, .doc = "NAME=ADDRESS:PORT by comma, more peers to ask"},
    {.path = "checkpoint_readers",
     .type = CONFIG_TEXT,
     .doc = "NAME=/PROGRAM by comma: what checkpoint.reader of a job file may name"},
    {.path = "catalog",
     .type = CONFIG_TEXT,
     .doc = "file of this site's rows for lines of logs; read again at SIGHUP"},
    {.path = "probes", .type = CONFIG_TEXT, .doc = "health probes: all, none, or names by comma"},
    {.path = "kmsg", .type = CONFIG_TEXT, .doc = "kernel log; default /dev/kmsg"},
    {.path = "kmsg_user",
     .type = CONFIG_ENUM,
     .words = "show|act",
     .doc = "its lines written by programs; act: only in tests"},
    {.path = "sysfs", .type = CONFIG_TEXT, .doc = "default /sys"},
    {.path = "procfs", .type = CONFIG_TEXT, .doc = "default /proc, for probes alone"},
    {.path = "runfs", .type = CONFIG_TEXT, .doc = "default /run, for probes alone"},
    {.path = "nvml", .type = CONFIG_TEXT, .doc = "library; default libnvidia-ml.so.1"},
    {.path = "mounts", .type = CONFIG_TEXT, .doc = "paths by comma, watched as network mounts are"},
    {.path = "ports",
     .type = CONFIG_TEXT,
     .doc = "DEV/PORT by comma to watch; default: those with traffic"},
    {.path = "health_programs",
     .type = CONFIG_TEXT,
     .doc = "NAME=/PROGRAM by comma: the site's checks, exit 0 to 3 as Nagios"},
    {.path = "port_down",
     .type = CONFIG_DURATION,
     .min = 1000,
     .max = 3600000,
     .doc = "a port down so long is out; default 30s"},
    {.path = "validate_programs",
     .type = CONFIG_TEXT,
     .doc = "/PROGRAM by comma, with the exit codes of Nagios: what a node passes in full"},
    {.path = "log_level", .type = CONFIG_ENUM, .words = "debug|info", .doc = "what is logged"},
    {.path = "crash_at", .type = CONFIG_TEXT, .doc = "tests: before:N or after:N"},
};

/* ---- flags to a document --------------------------------------------------------------------- */

static const struct config_key *key_of_flag(const char *flag, size_t length)
{
    for (size_t i = 0; i < ARRAY_SIZE(option_keys); i++) {
        const char *path = option_keys[i].path;
        bool same = strlen(path) == length;
        for (size_t k = 0; same && k < length; k++) {
            same = path[k] == (flag[k] == '-' ? '_' : flag[k]);
        }
        if (same) {
            return &option_keys[i];
        }
    }
    return NULL;
}

static int put_quoted(struct buf *document, const char *key, const char *value)
{
    int r = buf_printf(document, "%s: \"", key);
    for (const char *at = value; r == 0 && *at != '\0'; at++) {
        r = (*at == '"' || *at == '\\') ? buf_put(document, "\\", 1) : 0;
        r = r == 0 ? buf_put(document, at, 1) : r;
    }
    return r == 0 ? buf_put(document, "\"\n", 2) : r;
}

struct flag {
    const char *name; /* behind the dashes */
    size_t length;
    const char *value; /* NULL: none is attached */
};

static bool split_flag(const char *argument, struct flag *ret_flag)
{
    if (strncmp(argument, "--", 2) != 0 || argument[2] == '\0') {
        return false;
    }
    const char *equals = strchr(argument, '=');
    ret_flag->name = argument + 2;
    ret_flag->length = equals != NULL ? (size_t)(equals - argument) - 2 : strlen(argument + 2);
    ret_flag->value = equals != NULL ? equals + 1 : NULL;
    return true;
}

static bool flag_is(const struct flag *flag, const char *name)
{
    return strlen(name) == flag->length && strncmp(flag->name, name, flag->length) == 0;
}

struct flags {
    struct buf document;
    const char *config; /* path or NULL */
    enum options_result result;
};

static int take_flags(int argc, char **argv, struct flags *flags, struct err *err)
{
    for (int i = 1; i < argc; i++) {
        struct flag flag;
        if (!split_flag(argv[i], &flag)) {
            return err_set(err, -EINVAL, "'%s' is not a flag; see --help", argv[i]);
        }
        if (flag_is(&flag, "help") || flag_is(&flag, "version")) {
            flags->result = flag_is(&flag, "help") ? OPTIONS_HELP : OPTIONS_VERSION;
            return 0;
        }
        const bool config = flag_is(&flag, "config");
        const struct config_key *key = key_of_flag(flag.name, flag.length);
        if (!config && key == NULL) {
            return err_set(err, -EINVAL, "%s: no such flag; see --help", argv[i]);
        }
        const bool word = key != NULL && key->type == CONFIG_BOOL;
        if (flag.value == NULL && !word) {
            if (i + 1 >= argc) {
                return err_set(err, -EINVAL, "%s needs a value", argv[i]);
            }
            flag.value = argv[++i];
        }
        if (config) {
            flags->config = flag.value;
            continue;
        }
        const int r =
            put_quoted(&flags->document, key->path, flag.value != NULL ? flag.value : "true");
        if (r != 0) {
            return err_set(err, r, "the flags are too long");
        }
    }
    return 0;
}

/* ---- documents to options -------------------------------------------------------------------- */

static int split_host_port(const char *text, char *host, size_t host_size, uint16_t *ret_port)
{
    const char *colon = strrchr(text, ':');
    uint64_t port = 0;
    if (colon == NULL || text_to_u64(colon + 1, UINT16_MAX, &port) != 0) {
        return -EINVAL;
    }
    size_t length = (size_t)(colon - text);
    if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    }
    if (length == 0 || length >= host_size) {
        return -EINVAL;
    }
    memcpy(host, text, length);
    host[length] = '\0';
    *ret_port = (uint16_t)port;
    return 0;
}

static int take_peers(struct agent_options *options, const char *text, struct err *err)
{
    while (*text != '\0') {
        const size_t length = strcspn(text, ",");
        char one[NAME_SIZE + ADDRESS_SIZE + 8];
        (void)text_copy(one, length + 1 < sizeof(one) ? length + 1 : sizeof(one), text);
        char *equals = strchr(one, '=');
        if (equals == NULL || options->peer_count == AGENT_PEERS_MAX) {
            return err_set(err, -EINVAL,
                           "peer: '%s' is not NAME=ADDRESS:PORT, or there are over %d", one,
                           AGENT_PEERS_MAX);
        }
        *equals = '\0';
        struct known_peer *peer = &options->peers[options->peer_count];
        if (!text_copy(peer->name, sizeof(peer->name), one) ||
            split_host_port(equals + 1, peer->address, sizeof(peer->address), &peer->port) != 0) {
            return err_set(err, -EINVAL, "peer: '%s' has no ADDRESS:PORT", one);
        }
        options->peer_count++;
        text += length + (text[length] == ',');
    }
    return 0;
}

/* "/A,/B" */
static int take_programs(struct agent_options *options, const char *text, struct err *err)
{
    uint32_t count = 0;
    memset(options->validate_programs, 0, sizeof(options->validate_programs));
    while (*text != '\0') {
        const size_t length = strcspn(text, ",");
        const bool fits =
            count < VALIDATE_PROGRAMS_MAX && length < sizeof(options->validate_programs[0]);
        if (!fits || text[0] != '/') {
            return err_set(err, -EINVAL,
                           "validate_programs: '%.64s' is no absolute path, or there are over %d",
                           text, VALIDATE_PROGRAMS_MAX);
        }
        (void)text_copy(options->validate_programs[count], length + 1, text); /* that much of it */
        count++;
        text += length + (text[length] == ',');
    }
    return 0;
}

static int take_readers(struct agent_options *options, const char *text, struct err *err)
{
    uint32_t count = 0;
    memset(options->readers, 0, sizeof(options->readers));
    while (*text != '\0') {
        const size_t length = strcspn(text, ",");
        char *one = options->readers[count < READERS_MAX ? count : 0];
        const bool fits = count < READERS_MAX && length < sizeof(options->readers[0]);
        if (fits) {
            (void)text_copy(one, length + 1, text);
        }
        char *equals = fits ? strchr(one, '=') : NULL;
        if (equals == NULL || equals[1] != '/') {
            return err_set(err, -EINVAL,
                           "checkpoint_readers: '%.64s' is not NAME=/PROGRAM, or there are over %d",
                           text, READERS_MAX);
        }
        *equals = '\0';
        const bool named = text_is_name(one, NAME_SIZE);
        *equals = '=';
        if (!named) {
            return err_set(err, -EINVAL, "checkpoint_readers: '%.64s' begins with no name", one);
        }
        count++;
        text += length + (text[length] == ',');
    }
    return 0;
}

const char *agent_options_reader(const struct agent_options *options, const char *name)
{
    const size_t size = strlen(name);
    for (uint32_t i = 0; size > 0 && i < READERS_MAX; i++) {
        if (strncmp(options->readers[i], name, size) == 0 && options->readers[i][size] == '=') {
            return options->readers[i] + size + 1;
        }
    }
    return NULL;
}

static void take_leaves(struct agent_options *options, const char *text)
{
    options->leaf_count = 0;
    while (*text != '\0' && options->leaf_count < PORTS_MAX) {
        const size_t length = strcspn(text, ",");
        char *leaf = options->leaves[options->leaf_count++];
        (void)text_copy(leaf, length + 1 < NAME_SIZE ? length + 1 : NAME_SIZE, text);
        text += length + (text[length] == ',');
    }
}

static int take_crash(struct agent_options *options, const char *text, struct err *err)
{
    const bool before = strncmp(text, "before:", 7) == 0;
    const bool after = strncmp(text, "after:", 6) == 0;
    const char *number = text + (before ? 7 : 6);
    if ((!before && !after) || text_to_u64(number, UINT32_MAX, &options->crash_at) != 0) {
        return err_set(err, -EINVAL, "crash_at: '%s' is neither before:N nor after:N", text);
    }
    options->crash_before = before;
    return 0;
}

static void take_text(const json_t *tree, const char *path, char *target, size_t size)
{
    if (config_get(tree, path) != NULL) {
        (void)text_copy(target, size, config_text(tree, path));
    }
}

static int take_addresses(struct agent_options *options, const json_t *tree, struct err *err)
{
    int r = 0;
    if (config_get(tree, "controller") != NULL) {
        r = split_host_port(config_text(tree, "controller"), options->controller_host,
                            sizeof(options->controller_host), &options->controller_port);
        if (r != 0 || options->controller_port == 0) {
            return err_set(err, -EINVAL, "controller: '%s' is not HOST:PORT",
                           config_text(tree, "controller"));
        }
    }
    if (config_get(tree, "peer_listen") != NULL) {
        r = split_host_port(config_text(tree, "peer_listen"), options->peer_address,
                            sizeof(options->peer_address), &options->peer_port);
        if (r != 0) {
            return err_set(err, -EINVAL, "peer_listen: '%s' is not ADDRESS:PORT",
                           config_text(tree, "peer_listen"));
        }
    }
    take_text(tree, "address", options->address, sizeof(options->address));
    if (config_get(tree, "rendezvous") != NULL) {
        return inventory_address(config_text(tree, "rendezvous"), options->address, err);
    }
    return 0;
}

static void take_probes(struct agent_options *options, const json_t *tree)
{
    struct probe_config *probe = &options->probe;
    take_text(tree, "probes", options->probes, sizeof(options->probes));
    take_text(tree, "kmsg", probe->kmsg, sizeof(probe->kmsg));
    take_text(tree, "sysfs", probe->sys, sizeof(probe->sys));
    take_text(tree, "procfs", probe->proc, sizeof(probe->proc));
    take_text(tree, "runfs", probe->run, sizeof(probe->run));
    take_text(tree, "nvml", probe->nvml, sizeof(probe->nvml));
    take_text(tree, "mounts", probe->mounts, sizeof(probe->mounts));
    take_text(tree, "ports", probe->ports, sizeof(probe->ports));
    take_text(tree, "health_programs", probe->programs, sizeof(probe->programs));
    if (config_get(tree, "kmsg_user") != NULL) {
        probe->kmsg_user = text_equal(config_text(tree, "kmsg_user"), "act");
    }
    if (config_get(tree, "port_down") != NULL) {
        probe->port_down_s = (uint32_t)(config_int(tree, "port_down") / 1000);
    }
}

static int take_tree(struct agent_options *options, const json_t *tree, struct err *err)
{
    take_probes(options, tree);
    take_text(tree, "node", options->node, sizeof(options->node));
    take_text(tree, "state", options->state_dir, sizeof(options->state_dir));
    take_text(tree, "run", options->run_dir, sizeof(options->run_dir));
    take_text(tree, "shim", options->shim, sizeof(options->shim));
    take_text(tree, "key", options->key_file, sizeof(options->key_file));
    take_text(tree, "cgroup", options->cgroup, sizeof(options->cgroup));
    take_text(tree, "catalog", options->catalog, sizeof(options->catalog));
    take_text(tree, "rack", options->labels.rack, sizeof(options->labels.rack));
    take_text(tree, "feed", options->labels.feed, sizeof(options->labels.feed));
    take_text(tree, "pool", options->labels.pool, sizeof(options->labels.pool));
    take_text(tree, "pod", options->labels.pod, sizeof(options->labels.pod));
    if (config_get(tree, "leaf") != NULL) {
        take_text(tree, "leaf", options->probe.leaves, sizeof(options->probe.leaves));
        take_leaves(options, config_text(tree, "leaf"));
    }
    if (config_get(tree, "insecure") != NULL) {
        options->insecure = config_bool(tree, "insecure");
    }
    if (config_get(tree, "gpus") != NULL) {
        options->gpus = (uint32_t)config_int(tree, "gpus");
    }
    if (config_get(tree, "fence_after") != NULL) {
        options->fence_after_ms = (uint64_t)config_int(tree, "fence_after");
    }
    if (config_get(tree, "log_level") != NULL) {
        options->debug = text_equal(config_text(tree, "log_level"), "debug");
    }
    int r = take_addresses(options, tree, err);
    if (r == 0 && config_get(tree, "peer") != NULL) {
        r = take_peers(options, config_text(tree, "peer"), err);
    }
    if (r == 0 && config_get(tree, "validate_programs") != NULL) {
        r = take_programs(options, config_text(tree, "validate_programs"), err);
    }
    if (r == 0 && config_get(tree, "checkpoint_readers") != NULL) {
        r = take_readers(options, config_text(tree, "checkpoint_readers"), err);
    }
    if (r == 0 && config_get(tree, "crash_at") != NULL) {
        r = take_crash(options, config_text(tree, "crash_at"), err);
    }
    return r;
}

/* All problems of one document, a line each: file:line:column: key: text. */
static void list_problems(const char *name, const struct config_report *report, char *target,
                          size_t size)
{
    size_t used = strlen(target);
    for (size_t i = 0; i < report->count && used + 1 < size; i++) {
        const struct config_problem *problem = &report->problems[i];
        (void)text_format(target + used, size - used, "%s:%d:%d: %s: %s%s%s%s\n", name,
                          problem->line, problem->column, problem->path, problem->text,
                          problem->hint[0] != '\0' ? "; did you mean \"" : "", problem->hint,
                          problem->hint[0] != '\0' ? "\"?" : "");
        used = strlen(target);
    }
}

static int take_document(struct agent_options *options, const char *name, const char *text,
                         size_t size, char *problems, size_t problems_size)
{
    struct config_report report = {0};
    json_t *tree = NULL;
    int r = config_parse_yaml(text, size, option_keys, ARRAY_SIZE(option_keys), &tree, &report);
    if (r != 0) {
        list_problems(name, &report, problems, problems_size);
        return r;
    }
    struct err err = {0};
    r = take_tree(options, tree, &err);
    json_decref(tree);
    if (r != 0) {
        (void)text_format(problems, problems_size, "%s: %s\n", name, err.text);
    }
    return r;
}

static int take_file(struct agent_options *options, const char *path, char *problems, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        (void)text_format(problems, size, "%s: %s\n", path, strerror(errno));
        return -errno;
    }
    char *text = mem_alloc(CONFIG_SIZE_MAX + 1, 1);
    size_t used = 0;
    ssize_t got = 1;
    while (got > 0 && used <= CONFIG_SIZE_MAX) {
        got = read(fd, text + used, CONFIG_SIZE_MAX + 1 - used);
        used += got > 0 ? (size_t)got : 0;
    }
    (void)close(fd); /* opened for reading */
    const int r = take_document(options, path, text, used, problems, size);
    mem_free(text);
    return r;
}

/* ---- defaults --------------------------------------------------------------------------------- */

bool agent_options_is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || text_equal(host, "::1") ||
           text_equal(host, "localhost");
}

static void default_shim(struct agent_options *options)
{
    char path[PATH_SIZE];
    size_t size = sizeof(path) - 32;
    if (uv_exepath(path, &size) != 0) {
        return;
    }
    path[size] = '\0';
    char *slash = strrchr(path, '/');
    if (slash != NULL) {
        *slash = '\0';
        (void)text_format(options->shim, sizeof(options->shim), "%s/keepstep-ranks", path);
    }
}

static int check_options(struct agent_options *options, struct err *err)
{
    if (options->controller_host[0] == '\0') {
        return err_set(err, -EINVAL, "controller: not given; use --controller HOST:PORT");
    }
    if (!text_is_name(options->node, sizeof(options->node))) {
        return err_set(err, -EINVAL, "node: '%s' is no name for a node", options->node);
    }
    if (options->state_dir[0] != '/' || options->run_dir[0] != '/') {
        return err_set(err, -EINVAL, "state and run must be absolute paths");
    }
    if (options->key_file[0] == '\0' && !options->insecure &&
        !agent_options_is_loopback(options->controller_host)) {
        return err_set(err, -EINVAL,
                       "controller '%s' is not on loopback: give --key FILE, or --insecure",
                       options->controller_host);
    }
    return 0;
}

static int fill_defaults(struct agent_options *options, bool tool, struct err *err)
{
    if (options->node[0] == '\0') {
        size_t size = sizeof(options->node);
        const int r = uv_os_gethostname(options->node, &size);
        if (r != 0) {
            return err_set(err, r, "node: not given, and the host's name cannot be read");
        }
    }
    (void)text_copy(options->probe.catalog, sizeof(options->probe.catalog), options->catalog);
    options->probe.gpus = options->gpus;
    (void)text_copy(options->probe.cookie, sizeof(options->probe.cookie), options->node);
    (void)text_copy(options->probe.cgroup, sizeof(options->probe.cgroup), options->cgroup);
    if (tool) {
        return 0;
    }
    if (options->shim[0] == '\0') {
        default_shim(options);
    }
    if (options->address[0] == '\0' && agent_options_is_loopback(options->controller_host)) {
        (void)text_copy(options->address, sizeof(options->address), "127.0.0.1");
    } else if (options->address[0] == '\0') {
        const int r = inventory_address("", options->address, err);
        if (r != 0) {
            return r;
        }
    }
    if (options->peer_address[0] == '\0') {
        (void)text_copy(options->peer_address, sizeof(options->peer_address), options->address);
    }
    return check_options(options, err);
}

static int parse(int argc, char **argv, bool tool, struct agent_options *ret_options,
                 enum options_result *ret_result, char *problems, size_t size)
{
    struct agent_options options = {.peer_port = 7445, .fence_after_ms = 600000};
    struct flags flags = {.result = OPTIONS_RUN};
    struct err err = {0};
    probe_config_default(&options.probe);
    problems[0] = '\0';
    (void)text_copy(options.state_dir, sizeof(options.state_dir), "/var/lib/keepstep-agent");
    (void)text_copy(options.run_dir, sizeof(options.run_dir), "/run/keepstep-agent");
    buf_init(&flags.document, CONFIG_SIZE_MAX);
    int r = take_flags(argc, argv, &flags, &err);
    if (r == 0 && flags.result == OPTIONS_RUN) {
        r = flags.config != NULL ? take_file(&options, flags.config, problems, size) : 0;
        if (r == 0 && flags.document.size > 0) {
            r = take_document(&options, "flags", buf_text(&flags.document), flags.document.size,
                              problems, size);
        }
        r = r == 0 ? fill_defaults(&options, tool, &err) : r;
    }
    buf_done(&flags.document);
    if (r != 0 && problems[0] == '\0') {
        (void)text_format(problems, size, "%s\n", err.text);
    }
    *ret_options = options;
    *ret_result = flags.result;
    return r;
}

int agent_options_parse(int argc, char **argv, struct agent_options *ret_options,
                        enum options_result *ret_result, char *problems, size_t size)
{
    return parse(argc, argv, false, ret_options, ret_result, problems, size);
}

int agent_options_parse_tool(int argc, char **argv, struct agent_options *ret_options,
                             enum options_result *ret_result, char *problems, size_t size)
{
    return parse(argc, argv, true, ret_options, ret_result, problems, size);
}

bool agent_options_takes_value(const char *flag)
{
    struct flag parts;
    if (!split_flag(flag, &parts) || parts.value != NULL) {
        return false;
    }
    const struct config_key *key = key_of_flag(parts.name, parts.length);
    return flag_is(&parts, "config") || (key != NULL && key->type != CONFIG_BOOL);
}

void agent_options_help(char *target, size_t size)
{
    (void)text_format(target, size, "%s",
                      "keepstep-agent: runs a node for Keepstep.\n\n"
                      "  keepstep-agent --node gpu-0001 --controller 10.0.0.1:7444 --key FILE\n"
                      "  keepstep-agent catalog check FILE         is a site's catalogue good?\n"
                      "  keepstep-agent catalog show [FILE]        all rows, with those of FILE\n"
                      "  keepstep-agent probe [NAME...] [-o json]   looks at this machine once\n\n"
                      "  --config FILE         YAML with the keys below; flags win over it\n");
    for (size_t i = 0; i < ARRAY_SIZE(option_keys); i++) {
        char flag[NAME_SIZE];
        (void)text_copy(flag, sizeof(flag), option_keys[i].path);
        for (char *at = flag; *at != '\0'; at++) {
            *at = *at == '_' ? '-' : *at;
        }
        const size_t used = strlen(target);
        (void)text_format(target + used, size - used, "  --%-19s %s\n", flag, option_keys[i].doc);
    }
}
