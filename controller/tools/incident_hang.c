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

static void add_root(struct incident_case *one, const struct hang_root *root, uint64_t t_ms)
{
    uint32_t node = incident_node_of_slot(one, root->slot);
    struct fact *fact = incident_fact_add(one, 0, FACT_NO_PROGRESS, node, t_ms);
    bool named =
        root->kind == HANG_SILENT || root->kind == HANG_BEFORE || root->kind == HANG_INSIDE;
    bool pair = root->kind == HANG_PAIR;
    incident_fact_label(fact, READING_WAIT_ROOT, pair ? LABEL_NETWORK : LABEL_HARDWARE,
                        ADVICE_EVICT_DIAG, ROLE_ROOT);
    fact->severity = 2;
    fact->rank = (int32_t)root->rank;
    fact->code = named ? CONFIDENCE_HIGH : pair ? CONFIDENCE_MEDIUM : CONFIDENCE_LOW;
    say_root(root, fact);
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
    if (found.named_count == 0) { /* that is news too */
        struct fact *fact = incident_fact_add(one, 0, FACT_PROBE, 0, t_ms);
        incident_fact_label(fact, "ranks-move", LABEL_BENIGN, ADVICE_NONE, ROLE_NOISE);
        (void)text_copy(fact->text, TEXT_SIZE, "nobody waits for a rank that was told of");
    }
    for (uint32_t index = 0; index < found.named_count; index++) {
        add_root(one, &found.roots[index], t_ms);
    }
    mem_free(reports);
}
