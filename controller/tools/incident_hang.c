/* incident_hang.c: who is waited for, by the same search as in a running job.
 *
 * A file tells of a few ranks only. Those that it says nothing about are taken to move, so that they
 * are neither guilty nor witnesses. */
#include <string.h>

#include "controller/core/words.h"
#include "controller/tools/incident_case.h"
#include "proto/base/mem.h"
#include "proto/base/sort.h"
#include "proto/base/text.h"

enum { GROUPS_MAX = 256 }; /* readings whose communicators are looked at one by one */

/* Newest reading of each rank and communicator, those of one rank in a row. */
static int by_rank(const void *a, const void *b, const void *context)
{
    (void)context;
    const struct rank_reading *x = a;
    const struct rank_reading *y = b;
    int order = strncmp(x->communicator.name, y->communicator.name, COMMUNICATOR_NAME_SIZE);
    return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1)
           : order != 0       ? order
           : x->t_ms != y->t_ms
               ? (x->t_ms > y->t_ms ? -1 : 1)
               : memcmp(&x->communicator, &y->communicator, sizeof(x->communicator));
}

/* Fills one rank of the search; returns how many readings were its. */
static uint32_t fill_rank(struct incident_case *one, uint32_t first,
                          struct communicator_report *reports, uint32_t *report_count)
{
    const uint32_t rank = one->readings[first].rank;
    struct hang_rank *told = &one->hang->ranks[rank];
    *told = (struct hang_rank){.communicators = &reports[*report_count]};
    uint32_t index = first;
    while (index < one->reading_count && one->readings[index].rank == rank) {
        const struct rank_reading *reading = &one->readings[index];
        bool older = index > first && text_equal(reading->communicator.name,
                                                 one->readings[index - 1].communicator.name);
        told->silent = told->silent || (!older && reading->state == TOLD_SILENT);
        if (!older && told->communicator_count < COMMUNICATORS_MAX) {
            reports[(*report_count)++] = reading->communicator;
            told->communicator_count++;
        }
        index++;
    }
    if (told->silent) {
        told->communicator_count = 0;
    }
    return index - first;
}

static void say_root(const struct hang_root *root, struct fact *fact)
{
    static const char *const kinds[] = {"is silent",
                                        "has nothing under way",
                                        "has not completed what all others have",
                                        "waits for an end that does not come",
                                        "is in an operation that nobody completes",
                                        "is behind"};
    (void)text_format(fact->text, TEXT_SIZE, "rank %u %s, in %.15s", root->rank,
                      root->kind < sizeof(kinds) / sizeof(kinds[0]) ? kinds[root->kind] : "",
                      root->name[0] != '\0' ? root->name : "its job");
}

static struct fact *add_fact(struct incident_case *one, uint32_t slot, uint32_t rank, uint8_t label,
                             uint8_t confidence, uint64_t t_ms)
{
    uint32_t node = incident_node_of_slot(one, slot);
    struct fact *fact = incident_fact_add(one, 0, FACT_NO_PROGRESS, node, t_ms);
    incident_fact_label(fact, READING_WAIT_ROOT, label, ADVICE_EVICT_DIAG, ROLE_ROOT);
    fact->severity = 2;
    fact->rank = (int32_t)rank;
    fact->code = confidence;
    return fact;
}

/* All that are in an operation that nobody completes are of one slot: it is that node. */
static bool is_one_group(const struct hang_found *found)
{
    return found->slot_count == 1 && found->roots[0].kind == HANG_GROUP;
}

static void add_root(struct incident_case *one, const struct hang_found *found, uint32_t index,
                     uint64_t t_ms)
{
    const struct hang_root *root = &found->roots[index];
    bool named =
        root->kind == HANG_SILENT || root->kind == HANG_BEFORE || root->kind == HANG_INSIDE;
    bool pair = root->kind == HANG_PAIR;
    struct fact *fact = add_fact(one, root->slot, root->rank, pair ? LABEL_NETWORK : LABEL_HARDWARE,
                                 named                         ? CONFIDENCE_HIGH
                                 : pair || is_one_group(found) ? CONFIDENCE_MEDIUM
                                                               : CONFIDENCE_LOW,
                                 t_ms);
    say_root(root, fact);
}

/* What one communicator's ranks told, all of them together. */
struct group_told {
    uint32_t told;
    uint32_t waiting; /* in an operation, all of them in the same one … */
    uint64_t head;    /* … which is this */
    bool same;
    uint32_t slots[2]; /* the first two different ones */
    uint32_t slot_count;
    uint32_t ranks[2];
};

static struct group_told read_group(const struct incident_case *one, const char *name)
{
    struct group_told told = {.same = true};
    uint32_t last = UINT32_MAX;
    for (uint32_t index = 0; index < one->reading_count; index++) {
        const struct rank_reading *reading = &one->readings[index];
        const struct communicator_report *report = &reading->communicator;
        if (!text_equal(report->name, name) || reading->rank == last) {
            continue; /* of another one, or an older reading */
        }
        last = reading->rank;
        told.told++;
        bool waits = report->enqueued > report->completed;
        told.head = told.waiting == 0 ? report->completed : told.head;
        told.same = told.same && waits && report->completed == told.head;
        told.waiting += waits ? 1 : 0;
        uint32_t slot = reading->rank / one->shape.ranks_per_node;
        bool known = told.slot_count > 0 && told.slots[(told.slot_count - 1) % 2] == slot;
        if (!known && told.slot_count < 2) {
            told.slots[told.slot_count] = slot;
            told.ranks[told.slot_count] = reading->rank;
        }
        told.slot_count += known ? 0 : 1;
    }
    return told;
}

/* The one rank of a communicator that has not completed what all others of it have. */
static bool add_late(struct incident_case *one, const char *name, uint64_t t_ms)
{
    const struct rank_reading *late = NULL;
    uint32_t told = 0;
    bool all = true;
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t index = 0; index < one->reading_count; index++) {
            const struct rank_reading *reading = &one->readings[index];
            const struct communicator_report *report = &reading->communicator;
            if (!text_equal(report->name, name)) {
                continue;
            }
            if (round == 0) {
                told++;
                late = late == NULL || report->completed < late->communicator.completed ? reading
                                                                                        : late;
            } else if (reading != late) {
                all = all && report->completed > late->communicator.completed;
            }
        }
    }
    if (told < 3 || !all || late->communicator.enqueued <= late->communicator.completed) {
        return false;
    }
    struct fact *fact = add_fact(one, late->rank / one->shape.ranks_per_node, late->rank,
                                 LABEL_HARDWARE, CONFIDENCE_MEDIUM, t_ms);
    (void)text_format(fact->text, TEXT_SIZE,
                      "rank %u has not completed what all others of %.15s have", late->rank, name);
    return true;
}

/* No rank is found that the others wait for. Some of a node that tell nothing while all others of it
 * wait are such ranks; and where both ends of a transfer wait, nothing comes through. */
static bool add_by_group(struct incident_case *one, const struct communicator_report *report,
                         uint64_t t_ms)
{
    if (add_late(one, report->name, t_ms)) {
        return true;
    }
    struct group_told told = read_group(one, report->name);
    bool all_wait = told.same && told.waiting == told.told;
    if (all_wait && report->axis == AXIS_TENSOR && told.slot_count == 1 &&
        told.told * 2 >= one->shape.tensor && told.told < one->shape.tensor) {
        struct fact *fact =
            add_fact(one, told.slots[0], told.ranks[0], LABEL_HARDWARE, CONFIDENCE_MEDIUM, t_ms);
        (void)text_format(fact->text, TEXT_SIZE, "%u of %u ranks of %.15s tell nothing",
                          one->shape.tensor - told.told, one->shape.tensor, report->name);
        return true;
    }
    if (all_wait && report->axis == AXIS_PIPELINE && told.slot_count == 2) {
        for (uint32_t end = 0; end < 2; end++) {
            struct fact *fact = add_fact(one, told.slots[end], told.ranks[end], LABEL_NETWORK,
                                         CONFIDENCE_MEDIUM, t_ms);
            (void)text_format(fact->text, TEXT_SIZE, "ranks %u and %u of %.15s wait for each other",
                              told.ranks[0], told.ranks[1], report->name);
        }
        return true;
    }
    return false;
}

/* The only one that runs, with nothing under way, while others wait. */
static bool add_runner(struct incident_case *one, uint64_t t_ms)
{
    const struct rank_reading *runner = NULL;
    uint32_t waiting = 0;
    for (uint32_t index = 0; index < one->reading_count; index++) {
        const struct rank_reading *reading = &one->readings[index];
        bool idle = reading->communicator.enqueued <= reading->communicator.completed;
        waiting += reading->state == TOLD_WAITING ? 1 : 0;
        if (reading->state == TOLD_RUNNING && idle) {
            if (runner != NULL && runner->rank != reading->rank) {
                return false;
            }
            runner = reading;
        }
    }
    if (runner == NULL || waiting == 0) {
        return false;
    }
    struct fact *fact = add_fact(one, runner->rank / one->shape.ranks_per_node, runner->rank,
                                 LABEL_HARDWARE, CONFIDENCE_MEDIUM, t_ms);
    (void)text_format(fact->text, TEXT_SIZE, "rank %u has nothing under way, and all others wait",
                      runner->rank);
    return true;
}

static bool add_by_groups(struct incident_case *one, uint64_t t_ms)
{
    if (add_runner(one, t_ms)) {
        return true;
    }
    for (uint32_t index = 0; index < one->reading_count && index < GROUPS_MAX; index++) {
        if (add_by_group(one, &one->readings[index].communicator, t_ms)) {
            return true;
        }
    }
    return false;
}

void incident_hang_read(struct incident_case *one)
{
    if (one->reading_count == 0) {
        return;
    }
    for (uint32_t rank = 0; rank < one->world; rank++) {
        one->hang->ranks[rank] = (struct hang_rank){.moved = true};
    }
    struct communicator_report *reports = mem_alloc(one->reading_count, sizeof(reports[0]));
    uint32_t report_count = 0;
    uint64_t t_ms = UINT64_MAX;
    for (uint32_t index = 0; index < one->reading_count; index++) {
        t_ms = one->readings[index].t_ms < t_ms ? one->readings[index].t_ms : t_ms;
    }
    sort_any(one->readings, one->reading_count, sizeof(one->readings[0]), by_rank, NULL);
    for (uint32_t index = 0; index < one->reading_count;) {
        index += fill_rank(one, index, reports, &report_count);
    }
    struct hang_found found;
    hang_find(&one->shape, one->hang, &found);
    if (found.named_count == 0 && !add_by_groups(one, t_ms)) { /* that is news too */
        struct fact *fact = incident_fact_add(one, 0, FACT_PROBE, 0, t_ms);
        incident_fact_label(fact, "ranks-move", LABEL_BENIGN, ADVICE_NONE, ROLE_NOISE);
        (void)text_copy(fact->text, TEXT_SIZE, "nobody waits for a rank that was told of");
    }
    for (uint32_t index = 0; index < found.named_count; index++) {
        add_root(one, &found, index, t_ms);
    }
    mem_free(reports);
}
