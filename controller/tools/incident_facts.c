/* incident_facts.c: rows into facts. Log lines go through the catalogue, as on a node; what agents
 * and the controller tell is read word by word. */
#include <stdio.h>
#include <string.h>

#include "agent/core/log_line.h"
#include "controller/tools/incident_case.h"
#include "proto/base/check.h"
#include "proto/base/hostlist.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    BEATS_LOST = 3,           /* so many are missed by a node that is lost */
    SILENT_AGAIN_MS = 180000, /* the same line after such a silence is news */
    HINT_BASE = 100,          /* 10.40.4.12 is node 4 x 100 + 12 */
};

/* ---- nodes -------------------------------------------------------------------------------- */

/* The slot that a name of the form nodeNNNN tells; -1: none. */
static int32_t slot_of_name(const struct incident_case *one, const char *name)
{
    unsigned slot = 0;
    int end = 0;
    if (sscanf(name, "node%5u%n", &slot, &end) != 1 || name[end] != '\0' || slot >= one->slots) {
        return -1;
    }
    return (int32_t)slot;
}

uint32_t incident_node(struct incident_case *one, const char *name, size_t size)
{
    uint32_t id = names_take(&one->nodes, name, size);
    if (id >= one->node_room) {
        uint32_t room = one->node_room * 2 > id ? one->node_room * 2 : id + 1;
        one->rack_of = mem_grow(one->rack_of, room, sizeof(one->rack_of[0]));
        one->slot_of = mem_grow(one->slot_of, room, sizeof(one->slot_of[0]));
        for (uint32_t index = one->node_room; index < room; index++) {
            one->rack_of[index] = 0;
            one->slot_of[index] = -2; /* not looked at yet */
        }
        one->node_room = room;
    }
    if (one->slot_of[id] == -2) {
        one->slot_of[id] = slot_of_name(one, names_at(&one->nodes, id));
    }
    return id;
}

uint32_t incident_node_of_slot(struct incident_case *one, uint32_t slot)
{
    if (slot < one->slots && one->holder[slot] != 0) {
        return one->holder[slot];
    }
    char name[16];
    int size = snprintf(name, sizeof(name), "node%04u", slot);
    return slot < one->slots ? incident_node(one, name, (size_t)size) : 0;
}

/* A rank was seen on this node: where that is not the one of its slot, it has taken its place. */
static void rank_seen(struct incident_case *one, uint32_t node, int64_t rank)
{
    int64_t slot = rank / one->shape.ranks_per_node;
    if (node == 0 || rank < 0 || slot >= one->slots || one->slot_of[node] >= 0) {
        return;
    }
    one->holder[slot] = node;
}

static uint32_t node_by_address(struct incident_case *one, const char *text, size_t size)
{
    uint32_t known = names_find(&one->addresses, text, size);
    if (known != 0) {
        return one->address_node[known];
    }
    unsigned a;
    unsigned b;
    unsigned c;
    unsigned d;
    char copied[40];
    (void)text_format(copied, sizeof(copied), "%.*s", (int)(size < 39 ? size : 39), text);
    if (sscanf(copied, "%3u.%3u.%3u.%3u", &a, &b, &c, &d) != 4 || d >= HINT_BASE) {
        return 0;
    }
    return c * HINT_BASE + d < one->slots ? incident_node_of_slot(one, c * HINT_BASE + d) : 0;
}

/* A peer as libraries print it: "node0412.ib<53512>", "10.40.4.12<54862>". */
uint32_t incident_peer(struct incident_case *one, const char *peer)
{
    size_t size = strcspn(peer, "<>:/ ");
    uint32_t id = names_find(&one->nodes, peer, size);
    if (size == 0 || id != 0) {
        return id;
    }
    if (strspn(peer, "0123456789.") == size) {
        return node_by_address(one, peer, size);
    }
    for (size_t end = size; end > 0; end--) {
        char name[INCIDENT_NAME_MAX + 1];
        if ((end < size && peer[end] != '.') || end >= sizeof(name)) {
            continue;
        }
        (void)text_format(name, sizeof(name), "%.*s", (int)end, peer);
        id = names_find(&one->nodes, name, end);
        if (id == 0 && slot_of_name(one, name) >= 0) {
            id = incident_node(one, name, end);
        }
        if (id != 0) {
            return id;
        }
    }
    return 0;
}

/* What a library prints about its own addresses: "Using [0]mlx5_0:1/IB …; OOB eth0:10.1.0.7<0>". */
static void learn_addresses(struct incident_case *one, uint32_t node, const char *line, size_t size)
{
    char copied[1024];
    (void)text_format(copied, sizeof(copied), "%.*s", (int)(size < 1023 ? size : 1023), line);
    const char *at = strstr(copied, "NCCL INFO") != NULL ? strstr(copied, "Using ") : NULL;
    while (at != NULL && (at = strpbrk(at, "0123456789")) != NULL) {
        size_t length = strspn(at, "0123456789.");
        bool address = at[length] == '<' && memchr(at, '.', length) != NULL;
        if (address) {
            uint32_t number = names_take(&one->addresses, at, length);
            if (number >= one->address_room) {
                one->address_room = one->address_room * 2 > number ? one->address_room * 2 : 64;
                one->address_node =
                    mem_grow(one->address_node, one->address_room, sizeof(one->address_node[0]));
            }
            one->address_node[number] = node;
        }
        at += length;
    }
}

/* ---- facts -------------------------------------------------------------------------------- */

struct fact *incident_fact_add(struct incident_case *one, uint32_t number, uint8_t source,
                               uint32_t node, uint64_t t_ms)
{
    static struct fact spare; /* written to and never read, when there is no room */
    if (one->fact_count == CASE_FACTS_MAX) {
        if (!one->too_many) {
            one->warn(one->context, number,
                      "the incident has too many lines: from here they are "
                      "left out");
            one->too_many = true;
        }
        return &spare;
    }
    struct fact *fact = &one->facts[one->fact_count++];
    *fact = (struct fact){.source = source,
                          .severity = 2,
                          .node = node,
                          .rank = -1,
                          .gpu = -1,
                          .port = -1,
                          .receive_ms = t_ms,
                          .sequence = number};
    return fact;
}

void incident_fact_label(struct fact *fact, const char *signal, uint8_t label, uint8_t advice,
                         uint8_t role)
{
    fact->label = label;
    fact->advice = advice;
    fact->role = role;
    fact->severity = signal_severity(label, advice, role);
    (void)text_copy(fact->signal, sizeof(fact->signal), signal);
}

static void say(struct fact *fact, const struct incident_row *row)
{
    (void)text_sentence(fact->text, sizeof(fact->text), "%.*s",
                        (int)(row->size < TEXT_SIZE ? row->size : TEXT_SIZE), row->line);
}

static struct fact *reading(struct incident_case *one, const struct incident_row *row,
                            uint32_t node, const char *signal, uint8_t label)
{
    struct fact *fact = incident_fact_add(one, row->number, FACT_PROBE, node, row->t_ms);
    incident_fact_label(fact, signal, label, ADVICE_WATCH, ROLE_ROOT);
    say(fact, row);
    return fact;
}

/* ---- logs --------------------------------------------------------------------------------- */

/* Thousands of ranks say the same: one of them each is enough, and one more after a silence. */
static bool is_known(const struct incident_case *one, const struct fact *fact)
{
    enum { LOOK_BACK = 256 };
    uint32_t first = one->fact_count > LOOK_BACK ? one->fact_count - LOOK_BACK : 0;
    for (uint32_t index = first; index + 1 < one->fact_count; index++) {
        const struct fact *other = &one->facts[index];
        if (other->node == fact->node && other->rank == fact->rank && other->gpu == fact->gpu &&
            text_equal(other->signal, fact->signal) && text_equal(other->subject, fact->subject) &&
            fact->receive_ms - other->receive_ms <= SILENT_AGAIN_MS) {
            return true;
        }
    }
    return false;
}

static void read_log(struct incident_case *one, const struct incident_row *row, uint32_t node)
{
    enum line_stream stream = row->stream == INCIDENT_KMSG     ? STREAM_KERNEL
                              : row->stream == INCIDENT_STDERR ? STREAM_OUTPUT
                                                               : STREAM_AGENT;
    struct signal signal;
    bool known = catalog_look(one->catalog, stream, row->line, row->size, &signal);
    struct fact fact;
    signal_fact(&signal, stream, row->line, row->size, &fact);
    if (!known && stream == STREAM_AGENT) {
        one->warn(one->context, row->number, "it is no reading of an agent that is known");
        return;
    }
    char subject[SIGNAL_SUBJECT_SIZE];
    bool value = (fact.label == LABEL_TRANSIENT || !known) && stream == STREAM_OUTPUT &&
                 told_value(row->line, row->size, subject);
    if (!known && value && strstr(subject, "value=nan") == NULL) {
        value = false; /* a line that tells of a number as any other does */
    }
    struct fact *kept = incident_fact_add(one, row->number, fact.source, node, row->t_ms);
    fact.node = node;
    fact.receive_ms = row->t_ms;
    fact.sequence = row->number;
    *kept = fact;
    if (value) {
        (void)text_copy(kept->subject, sizeof(kept->subject), subject);
    }
    if (value && !known) {
        incident_fact_label(kept, "value", LABEL_TRANSIENT, ADVICE_WATCH, ROLE_ROOT);
    }
    if (kept->rank < 0) { /* of a line that no row knows */
        struct log_line bare;
        log_line_strip(row->line, row->size, &bare);
        kept->rank = bare.rank;
    }
    rank_seen(one, node, kept->rank);
    if (stream == STREAM_OUTPUT) {
        learn_addresses(one, node, row->line, row->size);
    }
    if (is_known(one, kept)) {
        one->fact_count--;
    }
}

/* ---- agent -------------------------------------------------------------------------------- */

static void take_reading(struct incident_case *one, const struct incident_row *row,
                         const struct told *told)
{
    if (one->reading_count == CASE_READINGS_MAX || told->rank >= one->world) {
        one->warn(one->context, row->number, "its rank is none of the layout, or one too many");
        return;
    }
    struct rank_reading *kept = &one->readings[one->reading_count++];
    *kept = (struct rank_reading){
        .rank = (uint32_t)told->rank, .t_ms = row->t_ms, .state = told->state};
    struct communicator_report *report = &kept->communicator;
    report->enqueued = told->enqueued >= 0 ? (uint64_t)told->enqueued : 0;
    report->completed = told->completed >= 0 ? (uint64_t)told->completed : 0;
    report->peer = -1;
    report->operation = OPERATION_OTHER;
    report->axis = strncmp(told->name, "world/", 6) == 0 ? AXIS_WORLD
                   : strncmp(told->name, "tp/", 3) == 0  ? AXIS_TENSOR
                   : strncmp(told->name, "cp/", 3) == 0  ? AXIS_CONTEXT
                   : strncmp(told->name, "pp/", 3) == 0  ? AXIS_PIPELINE
                   : strncmp(told->name, "dp/", 3) == 0  ? AXIS_DATA
                                                         : AXIS_OTHER;
    (void)text_format(report->name, sizeof(report->name), "%.15s", told->name);
}

static void read_agent(struct incident_case *one, const struct incident_row *row, uint32_t node)
{
    struct told told;
    told_read_agent(row->line, row->size, &told);
    struct fact *fact;
    switch ((enum told_kind)told.kind) {
    case TOLD_PORT:
        fact =
            reading(one, row, node, told.up ? READING_PORT_UP : READING_PORT_DOWN, LABEL_NETWORK);
        fact->code = told.count > 0 && told.count < INT32_MAX ? (int32_t)told.count : 0;
        (void)text_format(fact->subject, sizeof(fact->subject), "%.24s%s%.24s", told.name,
                          told.place[0] != '\0' ? " leaf=" : "", told.place);
        return;
    case TOLD_CLOCKS:
        fact = reading(one, row, node, READING_CLOCKS, LABEL_FACILITY);
        fact->gpu = (int32_t)(told.gpu < GPUS_MAX ? told.gpu : -1);
        return;
    case TOLD_GPU_COUNT:
        if (told.expected > told.count) {
            fact = reading(one, row, node, "gpu-count", LABEL_HARDWARE);
            incident_fact_label(fact, "gpu-count", LABEL_HARDWARE, ADVICE_EVICT_REBOOT, ROLE_ROOT);
        }
        return;
    case TOLD_GPU_LOST:
        fact = reading(one, row, node, "gpu-lost", LABEL_HARDWARE);
        incident_fact_label(fact, "gpu-lost", LABEL_HARDWARE,
                            told.count == 0 ? ADVICE_EVICT_REBOOT : ADVICE_EVICT_RESET, ROLE_ROOT);
        return;
    case TOLD_UNREADABLE:
        (void)reading(one, row, node, READING_NONE, LABEL_SOFTWARE);
        return;
    case TOLD_RANK:
        rank_seen(one, node, told.rank);
        take_reading(one, row, &told);
        return;
    case TOLD_PACE:
        rank_seen(one, node, told.rank);
        fact = reading(one, row, node, READING_SLOW, LABEL_HARDWARE);
        fact->rank = told.rank < INT32_MAX ? (int32_t)told.rank : -1;
        fact->code = told.compute_ms / told.median_ms < INT32_MAX / 1000
                         ? (int32_t)(told.compute_ms * 1000 / told.median_ms)
                         : INT32_MAX;
        return;
    default:
        read_log(one, row, node);
    }
}

/* ---- controller --------------------------------------------------------------------------- */

struct minority {
    struct incident_case *one;
    const struct incident_row *row;
    const struct told *told;
    uint32_t count; /* replicas; 0 while they are counted */
    bool counting;
};

static int take_replica(const char *name, void *context)
{
    struct minority *minority = context;
    struct incident_case *one = minority->one;
    int64_t replica = -1;
    if (text_to_i64(name + 1, 0, one->shape.data - 1, &replica) < 0) {
        return 0;
    }
    if (minority->counting) {
        minority->count++;
        return 0;
    }
    const struct told *told = minority->told;
    const uint32_t slot = (uint32_t)(replica * one->shape.pipeline + told->stage);
    struct fact *fact =
        reading(one, minority->row, incident_node_of_slot(one, slot), READING_HASH, LABEL_HARDWARE);
    fact->code = (int32_t)minority->count;
    (void)text_format(fact->subject, sizeof(fact->subject), "step=%lld stage=%lld tp=%lld",
                      (long long)told->step, (long long)told->stage, (long long)told->tensor);
    return 0;
}

static void read_minority(struct incident_case *one, const struct incident_row *row,
                          const struct told *told)
{
    char list[NAME_SIZE + 8];
    struct minority minority = {.one = one, .row = row, .told = told, .counting = true};
    struct err err;
    (void)text_format(list, sizeof(list), "d[%s]", told->name);
    if (told->stage >= one->shape.pipeline ||
        hostlist_each(list, take_replica, &minority, &err) < 0 || minority.count == 0) {
        one->warn(one->context, row->number, "its stage or replicas are none of the layout");
        return;
    }
    minority.counting = false;
    (void)hostlist_each(list, take_replica, &minority, &err);
}

static void read_end(struct incident_case *one, const struct incident_row *row, uint32_t node,
                     const struct told *told)
{
    if (node == 0 && told->rank >= 0 && told->rank < one->world) {
        node = incident_node_of_slot(one, (uint32_t)told->rank / one->shape.ranks_per_node);
    }
    struct fact *fact = incident_fact_add(one, row->number, FACT_RANK_END, node, row->t_ms);
    fact->rank = told->rank >= 0 && told->rank < INT32_MAX ? (int32_t)told->rank : -1;
    fact->code = told->count > INT32_MIN && told->count < INT32_MAX ? (int32_t)told->count : 1;
    fact->attempt = told->attempt >= 0 ? (uint32_t)told->attempt : 0;
    fact->job = (uint32_t)told->job;
    say(fact, row);
    bool new = told->attempt >= 0 && one->ended_count < CASE_PAST_MAX;
    for (uint32_t index = 0; new &&index < one->ended_count; index++) {
        new = one->ended[index].attempt != (uint32_t)told->attempt;
    }
    if (new) {
        one->ended[one->ended_count++] =
            (struct attempt_end){.attempt = (uint32_t)told->attempt, .t_ms = row->t_ms};
    }
}

static void read_beats(struct incident_case *one, const struct incident_row *row, uint32_t node,
                       const struct told *told)
{
    if (told->place[0] != '\0' && node != 0) {
        one->rack_of[node] = names_take(&one->racks, told->place, strlen(told->place));
    }
    struct fact *fact = reading(one, row, node, READING_BEATS, LABEL_HARDWARE);
    fact->source = told->count >= BEATS_LOST ? FACT_CONNECTION : FACT_PROBE;
    (void)text_format(fact->subject, sizeof(fact->subject), "bmc=%s",
                      told->up ? "reachable" : "unreachable");
}

/* The job that failed is the one that it is about; else one that makes steps; else any. */
static void take_job(struct incident_case *one, const struct told *told)
{
    uint8_t sure = told->kind == TOLD_ENDED ? 3 : told->kind == TOLD_STEP ? 2 : 1;
    if (told->job > 0 && told->job <= UINT32_MAX && sure > one->job_sure) {
        one->job = (uint32_t)told->job;
        one->job_sure = sure;
    }
}

static void read_ctl(struct incident_case *one, const struct incident_row *row, uint32_t node)
{
    struct told told;
    told_read_ctl(row->line, row->size, &told);
    struct fact *fact;
    take_job(one, &told);
    switch ((enum told_kind)told.kind) {
    case TOLD_BEATS:
        read_beats(one, row, node, &told);
        return;
    case TOLD_STOP:
        fact = reading(one, row, 0, READING_STOP, LABEL_OPERATOR);
        fact->job = (uint32_t)told.job;
        return;
    case TOLD_ENDED:
        read_end(one, row, node, &told);
        return;
    case TOLD_STEP:
        fact = reading(one, row, 0, READING_STEP, LABEL_BENIGN);
        fact->severity = 0;
        fact->job = (uint32_t)told.job;
        return;
    case TOLD_HASH:
        read_minority(one, row, &told);
        return;
    default:
        one->warn(one->context, row->number, "it is nothing that a controller tells");
    }
}

void incident_facts_read(struct incident_case *one, const struct incident_row *rows, uint32_t count)
{
    /* Who is there first, so that a peer's name finds it whatever the order. */
    for (uint32_t index = 0; index < count; index++) {
        if (!text_equal(rows[index].node, "ctl")) {
            (void)incident_node(one, rows[index].node, strlen(rows[index].node));
        }
    }
    for (uint32_t index = 0; index < count; index++) {
        const struct incident_row *row = &rows[index];
        uint32_t node =
            text_equal(row->node, "ctl") ? 0 : incident_node(one, row->node, strlen(row->node));
        switch ((enum incident_stream)row->stream) {
        case INCIDENT_KMSG:
        case INCIDENT_STDERR:
            read_log(one, row, node);
            break;
        case INCIDENT_AGENT:
            read_agent(one, row, node);
            break;
        case INCIDENT_CTL:
            read_ctl(one, row, node);
            break;
        }
    }
}
