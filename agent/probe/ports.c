/* ports.c: see ports.h. */
#include "agent/probe/ports.h"

#include <errno.h>
#include <string.h>

#include "agent/probe/list.h"
#include "agent/probe/read.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { PATH_PART_SIZE = 2 * PATH_SIZE };

static const struct {
    const char *path;
    const char *word;
    uint64_t limit;
    const char *signal;
} counters[PORT_COUNTER_COUNT] = {
#define X(upper, path, word, limit, signal) {path, word, limit, signal},
    PORT_COUNTERS(X)
#undef X
};

/* ---- what a reading means ------------------------------------------------------------------------- */

void port_watch_begin(struct port_watch *watch, const char *name, int32_t index)
{
    *watch = (struct port_watch){.index = index, .worst = -1};
    (void)text_copy(watch->name, sizeof(watch->name), name);
}

int port_state_parse(const char *text, uint32_t *ret_state, char ret_text[PORT_WORD_SIZE])
{
    if (text[0] < '0' || text[0] > '9' || text[1] != ':') {
        return -EINVAL;
    }
    const char *word = text + 2 + strspn(text + 2, " ");
    *ret_state = (uint32_t)(text[0] - '0');
    (void)text_format(ret_text, PORT_WORD_SIZE, "%c:%.24s", text[0], word);
    return 0;
}

/* The port, and the switch at its other end where that is known. */
static void put_subject(struct finding *finding, const struct port_watch *watch)
{
    (void)text_format(finding->subject, sizeof(finding->subject), "%.40s%s%s", watch->name,
                      watch->leaf[0] != '\0' ? " leaf=" : "", watch->leaf);
    finding->port = watch->index < PORTS_MAX ? watch->index : -1;
}

static void judge_link(struct port_watch *watch, const struct port_reading *reading,
                       uint64_t now_ms, uint64_t down_ms, uint64_t lost, struct finding *ret_link)
{
    const bool up = reading->state == PORT_ACTIVE && reading->phys_state == PORT_LINK_UP;
    watch->down_since_ms = up ? 0 : watch->down_since_ms > 0 ? watch->down_since_ms : now_ms;
    const uint64_t down = up ? 0 : now_ms - watch->down_since_ms;
    const enum finding_verdict verdict = up                ? VERDICT_OK
                                         : down >= down_ms ? VERDICT_FAIL
                                                           : VERDICT_WARN;
    probe_finding(ret_link, verdict, watch->name, "%s state=%s phys_state=%s link_downed=+%llu",
                  watch->name, reading->state_text, reading->phys_text, (unsigned long long)lost);
    if (up) {
        (void)text_copy(ret_link->signal, sizeof(ret_link->signal), READING_PORT_UP);
    } else {
        probe_blame(ret_link, LABEL_NETWORK, down >= down_ms ? ADVICE_EVICT : ADVICE_WATCH,
                    ROLE_SYMPTOM, READING_PORT_DOWN);
        /* By now the libraries have given up on what went through it. */
        ret_link->severity = down >= down_ms ? 2 : 1;
    }
    ret_link->code = lost < INT32_MAX ? (int32_t)lost : INT32_MAX;
    put_subject(ret_link, watch);
}

/* The counter that is furthest past its limit in this window; -1: none is. */
static int32_t worst_counter(const struct port_watch *watch, const struct port_reading *reading,
                             uint64_t *ret_count)
{
    int32_t worst = -1;
    uint64_t worst_times = 0;
    for (int32_t i = 0; i < PORT_COUNTER_COUNT; i++) {
        const uint64_t before = watch->window[i];
        const uint64_t now = reading->counters[i];
        const uint64_t count = now > before ? now - before : 0; /* set back: a new beginning */
        if (counters[i].limit == 0 || (reading->has & watch->window_has & 1u << i) == 0 ||
            count < counters[i].limit || count / counters[i].limit <= worst_times) {
            continue;
        }
        worst = i;
        worst_times = count / counters[i].limit;
        *ret_count = count;
    }
    return worst;
}

static void window_begin(struct port_watch *watch, const struct port_reading *reading,
                         uint64_t now_ms)
{
    watch->window_ms = now_ms;
    watch->window_has = reading->has;
    memcpy(watch->window, reading->counters, sizeof(watch->window));
}

static void judge_errors(struct port_watch *watch, const struct port_reading *reading,
                         uint64_t now_ms, struct finding *ret_errors)
{
    char key[FINDING_KEY_SIZE];
    if (watch->window_ms == 0) {
        window_begin(watch, reading, now_ms);
    } else if (now_ms - watch->window_ms >= PORT_WINDOW_MS) {
        uint64_t count = 0;
        const int32_t worst = worst_counter(watch, reading, &count);
        watch->calm = worst >= 0 ? 0 : watch->calm + 1;
        if (worst >= 0) {
            watch->worst = worst;
            watch->worst_count = count;
        } else if (watch->calm >= PORT_CALM_WINDOWS) {
            watch->worst = -1;
        }
        window_begin(watch, reading, now_ms);
    }
    (void)text_format(key, sizeof(key), "%s errors", watch->name);
    if (watch->worst < 0) {
        probe_finding(ret_errors, VERDICT_OK, key, "%s no more errors than allowed", watch->name);
    } else {
        probe_finding(ret_errors, VERDICT_WARN, key, "%s %s=+%llu in 10 s", watch->name,
                      counters[watch->worst].word, (unsigned long long)watch->worst_count);
        probe_blame(ret_errors, LABEL_NETWORK, ADVICE_WATCH, ROLE_SYMPTOM,
                    counters[watch->worst].signal);
    }
    put_subject(ret_errors, watch);
}

void port_judge(struct port_watch *watch, const struct port_reading *reading, uint64_t now_ms,
                uint64_t down_ms, struct finding *ret_link, struct finding *ret_errors,
                struct finding *ret_event, bool *ret_unseen)
{
    uint64_t lost = 0;
    watch->gone_rounds = 0;
    if ((reading->has & 1u << PORT_DOWNED) != 0) {
        const uint64_t downed = reading->counters[PORT_DOWNED];
        lost = watch->has_downed && downed > watch->downed ? downed - watch->downed : 0;
        watch->downed = downed;
        watch->has_downed = true;
    }
    const bool was_up = watch->down_since_ms == 0;
    if (watch->owed && lost > 0) {
        lost--;
        watch->owed = false;
    }
    judge_link(watch, reading, now_ms, down_ms, lost, ret_link);
    if (was_up && watch->down_since_ms != 0) {
        watch->owed = lost == 0;
    }
    judge_errors(watch, reading, now_ms, ret_errors);
    /* A link that is down since this reading says so itself; one that was lost and came back between
     * two readings, or whose counter comes late, has no other word. */
    *ret_unseen = lost > 0 && watch->down_since_ms != now_ms;
    if (*ret_unseen) {
        probe_finding(ret_event, VERDICT_WARN, watch->name, "%s", ret_link->text);
        probe_blame(ret_event, LABEL_NETWORK, ADVICE_WATCH, ROLE_SYMPTOM, READING_PORT_DOWN);
        ret_event->code = ret_link->code;
        put_subject(ret_event, watch);
    }
}

/* ---- reading ---------------------------------------------------------------------------------------- */

struct ports {
    uint32_t count;
    struct port_watch watches[PORTS_MAX];
    char management[READ_NAME_SIZE]; /* the interface of the default route; "" */
};

static int read_port(const char *device_path, const char *port, struct port_reading *reading)
{
    char text[64];
    int r = read_text(text, sizeof(text), "%s/ports/%s/state", device_path, port);
    r = r == 0 ? port_state_parse(text, &reading->state, reading->state_text) : r;
    r = r == 0 ? read_text(text, sizeof(text), "%s/ports/%s/phys_state", device_path, port) : r;
    r = r == 0 ? port_state_parse(text, &reading->phys_state, reading->phys_text) : r;
    if (r != 0) {
        return r;
    }
    for (uint32_t i = 0; i < PORT_COUNTER_COUNT; i++) {
        if (read_number(&reading->counters[i], "%s/ports/%s/%s", device_path, port,
                        counters[i].path) == 0) {
            reading->has |= 1u << i;
        }
    }
    uint64_t sent = 0;
    reading->moved =
        read_number(&sent, "%s/ports/%s/counters/port_xmit_data", device_path, port) != 0 ||
        sent > 0;
    return 0;
}

/* "Iface Destination Gateway Flags …": the first row whose destination is 0. */
static void find_management(const char *proc, char ret_interface[READ_NAME_SIZE])
{
    char text[8192];
    ret_interface[0] = '\0';
    if (read_text(text, sizeof(text), "%s/net/route", proc) != 0) {
        return;
    }
    for (const char *line = strchr(text, '\n'); line != NULL; line = strchr(line + 1, '\n')) {
        const size_t length = strcspn(line + 1, "\t\n");
        if (length < READ_NAME_SIZE && strncmp(line + 1 + length, "\t00000000\t", 10) == 0) {
            (void)text_copy(ret_interface, length + 1, line + 1);
            return;
        }
    }
}

static bool is_management(const struct ports *ports, const char *device_path)
{
    struct read_names names;
    if (ports->management[0] == '\0' || read_names(&names, "%s/device/net", device_path) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < names.count; i++) {
        if (text_equal(names.names[i], ports->management)) {
            return true;
        }
    }
    return false;
}

static struct port_watch *watch_find(struct ports *ports, const char *name)
{
    for (uint32_t i = 0; i < ports->count; i++) {
        if (text_equal(ports->watches[i].name, name)) {
            return &ports->watches[i];
        }
    }
    return NULL;
}

/* The index-th name of a list by comma; "" when it has no such. */
static void leaf_of(const char *list, uint32_t index, char ret_leaf[PORT_LEAF_SIZE])
{
    const char *at = list;
    for (uint32_t i = 0; i < index && *at != '\0'; i++) {
        at += strcspn(at, ",");
        at += *at == ',';
    }
    const size_t length = strcspn(at, ",");
    (void)text_copy(ret_leaf, length < PORT_LEAF_SIZE ? length + 1 : PORT_LEAF_SIZE, at);
}

/* A process before this one may have watched it already: then what happened between is told too. */
static struct port_watch *watch_add(struct probe_run *run, struct ports *ports, const char *name)
{
    if (ports->count == PORTS_MAX) {
        return NULL;
    }
    struct port_watch *watch = &ports->watches[ports->count];
    const char *note = probe_note(run, name);
    port_watch_begin(watch, name, (int32_t)ports->count);
    leaf_of(run->config->leaves, ports->count, watch->leaf);
    ports->count++;
    watch->has_downed = note != NULL && read_parse(note, &watch->downed) == 0;
    return watch;
}

static void take_port(struct probe_run *run, struct ports *ports, const char *device_path,
                      const char *device, const char *port)
{
    struct port_reading reading = {0};
    struct finding link;
    struct finding errors;
    struct finding event;
    bool unseen = false;
    (void)text_format(reading.name, sizeof(reading.name), "%.48s/%.8s", device, port);
    struct port_watch *watch = watch_find(ports, reading.name);
    const int r = read_port(device_path, port, &reading);
    const char *list = run->config->ports;
    const bool wanted = list[0] != '\0' ? list_has(list, reading.name)
                                        : r == 0 && reading.moved && reading.state == PORT_ACTIVE &&
                                              !is_management(ports, device_path);
    if (watch == NULL && (wanted || probe_note(run, reading.name) != NULL)) {
        watch = watch_add(run, ports, reading.name);
    }
    if (watch == NULL) {
        return;
    }
    if (r != 0) {
        watch->gone_rounds = 0;
        probe_not_run(run, watch->name, "%s cannot be read: %s", watch->name, strerror(-r));
        return;
    }
    port_judge(watch, &reading, run->now_ms, (uint64_t)run->config->port_down_s * 1000, &link,
               &errors, &event, &unseen);
    probe_state(run, &link);
    probe_state(run, &errors);
    if (unseen) {
        probe_event(run, &event);
    }
    probe_note_put(run, watch->name, "%llu", (unsigned long long)watch->downed);
}

/* One that was there, while others still are: its device has left the bus. */
static void take_gone(struct probe_run *run, struct port_watch *watch)
{
    watch->gone_rounds++;
    if (watch->gone_rounds < PORT_GONE_ROUNDS) {
        probe_not_run(run, watch->name, "%s is not listed", watch->name);
        return;
    }
    struct finding finding;
    probe_finding(&finding, VERDICT_FAIL, watch->name, "%s is gone: no such device any more",
                  watch->name);
    probe_blame(&finding, LABEL_HARDWARE, ADVICE_EVICT, ROLE_ROOT, "port-gone");
    put_subject(&finding, watch);
    probe_state(run, &finding);
}

static void look(struct probe_run *run)
{
    struct read_names devices;
    struct read_names names;
    char path[PATH_PART_SIZE];
    bool seen[PORTS_MAX] = {false};
    uint32_t seen_count = 0;
    struct ports *ports = run->state;
    if (ports == NULL) {
        ports = run->state = mem_alloc(1, sizeof(*ports));
        find_management(run->config->proc, ports->management);
    }
    const int r = read_names(&devices, "%s/class/infiniband", run->config->sys);
    if (r != 0) {
        probe_nothing(run, "no InfiniBand or RoCE device: %s", strerror(-r));
        return;
    }
    for (uint32_t d = 0; d < devices.count; d++) {
        (void)text_format(path, sizeof(path), "%s/class/infiniband/%s", run->config->sys,
                          devices.names[d]);
        if (read_names(&names, "%s/ports", path) != 0) {
            continue;
        }
        const struct read_names own = names; /* is_management reads another folder */
        for (uint32_t p = 0; p < own.count; p++) {
            char name[PORT_NAME_SIZE];
            take_port(run, ports, path, devices.names[d], own.names[p]);
            (void)text_format(name, sizeof(name), "%.48s/%.8s", devices.names[d], own.names[p]);
            const struct port_watch *watch = watch_find(ports, name);
            if (watch != NULL) {
                seen[watch - ports->watches] = true;
                seen_count++;
            }
        }
    }
    if (seen_count == 0) {
        probe_nothing(run,
                      ports->count > 0 ? "no port is listed any more, of %u"
                                       : "no port carries traffic (%u watched)",
                      ports->count);
        return;
    }
    for (uint32_t i = 0; i < ports->count; i++) {
        if (!seen[i]) {
            take_gone(run, &ports->watches[i]);
        }
    }
}

static void done(struct probe_run *run)
{
    run->state = mem_free(run->state);
}

const struct probe probe_ports = {.name = "ports",
                                  .what = "InfiniBand and RoCE ports: state, flaps, errors",
                                  .period_ms = 1000,
                                  .deadline_ms = 5000,
                                  .resident = true,
                                  .stuck_label = LABEL_SOFTWARE,
                                  .stuck_advice = ADVICE_WATCH,
                                  .stuck_role = ROLE_SYMPTOM,
                                  .look = look,
                                  .done = done};
