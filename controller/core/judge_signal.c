/* judge_signal.c: what labelled facts say. */
#include "controller/core/judge_signal.h"

#include <string.h>

#include "proto/base/check.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"

enum {
    FLAP_SHORT_MS = 5 * 60 * 1000,
    FLAP_LONG_MS = 60 * 60 * 1000,
    FLAPS_SHORT = 2,
    FLAPS_LONG = 3,
    FLAPS_KEPT = 8,
    PAIRS_MAX = 256,
};

/* ---- one fact ---------------------------------------------------------------------------- */

/* Where `part` begins in a subject; NULL: nowhere. */
static const char *find(const char *subject, const char *part)
{
    const size_t size = strlen(part);
    for (; strlen(subject) >= size; subject++) {
        if (memcmp(subject, part, size) == 0) {
            return subject;
        }
    }
    return NULL;
}

bool fact_is_labelled(const struct fact *fact)
{
    return fact->label != LABEL_UNKNOWN;
}

bool fact_named(const struct fact *fact, const char *name)
{
    return text_equal(fact->signal, name);
}

bool fact_named_like(const struct fact *fact, const char *begin)
{
    return strncmp(fact->signal, begin, strlen(begin)) == 0;
}

bool fact_is_reading(const struct fact *fact)
{
    static const char *const names[] = {
        READING_PORT_DOWN, READING_PORT_UP, READING_NONE, READING_CLOCKS, READING_STEP,
        READING_WAIT_ROOT, READING_SLOW,    READING_HASH, READING_STOP,   READING_BEATS};
    for (size_t index = 0; index < ARRAY_SIZE(names); index++) {
        if (fact_named(fact, names[index])) {
            return true;
        }
    }
    return false;
}

/* A severity of 0 is what a line has that a program wrote into the kernel's log. */
static bool has_role(const struct fact *fact, uint8_t role, uint8_t advice)
{
    return fact_is_labelled(fact) && fact->role == role && fact->advice >= advice &&
           fact->severity > 0 && fact->label != LABEL_CASCADE && fact->label != LABEL_BENIGN &&
           (fact->source == FACT_PROBE || fact->source == FACT_LOG) && !fact_is_reading(fact);
}

bool fact_is_root(const struct fact *fact)
{
    return has_role(fact, ROLE_ROOT, ADVICE_RESTART);
}

uint64_t fact_device(const struct fact *fact)
{
    if (fact->subject[0] != '\0') {
        return hash_u64(hash_text(HASH_INIT, fact->subject), fact->node);
    }
    if (fact->gpu < 0) {
        return 0;
    }
    return hash_u64(hash_u64(hash_text(HASH_INIT, "gpu"), (uint64_t)fact->gpu), fact->node);
}

static bool is_reading(const struct fact *fact, const char *name)
{
    return fact_is_labelled(fact) && fact_named(fact, name);
}

bool fact_is_recovery_action(const struct evidence *evidence, const struct fact *fact)
{
    return fact_is_fatal(evidence, fact) && fact_named_like(fact, "recovery-");
}

/* A GPU driver's code, however the catalogue tells its kinds apart. */
bool fact_is_code(const struct fact *fact)
{
    return fact_named_like(fact, "xid-") || fact_named_like(fact, "sxid-") ||
           fact_named_like(fact, "nvlink5-");
}

bool fact_is_switch(const struct evidence *evidence, const struct fact *fact)
{
    return fact_named_like(fact, "sxid-") && fact->advice >= ADVICE_EVICT && fact->node != 0 &&
           (fact_is_root(fact) || fact_is_symptom(evidence, fact));
}

bool fact_is_gpu_user(const struct evidence *evidence, const struct fact *fact)
{
    if (fact_is_labelled(fact)) {
        return fact_is_root(fact) && fact->label == LABEL_USER && fact->node != 0 &&
               fact_named_like(fact, "xid-");
    }
    return fact_is_user_fault(evidence, fact);
}

bool fact_is_user(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact_is_root(fact) && fact->label == LABEL_USER;
}

bool fact_is_storage(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact->label == LABEL_STORAGE &&
           (fact_is_root(fact) || has_role(fact, ROLE_SYMPTOM, ADVICE_RESTART));
}

bool fact_is_hung_rank(const struct evidence *evidence, const struct fact *fact)
{
    static const char *const daemons[] = {"jfs",     "nfs",  "mount", "ll_",    "ptlrpc",
                                          "kworker", "ldlm", "mmfs",  "beegfs", "ceph",
                                          "rpc",     "jbd2", "xfs",   "kthread"};
    for (size_t index = 0; index < ARRAY_SIZE(daemons); index++) {
        if (strncmp(fact->subject, daemons[index], strlen(daemons[index])) == 0) {
            return false;
        }
    }
    return fact_is_storage(evidence, fact) && fact_named(fact, "hung-task") &&
           fact->subject[0] != '\0';
}

bool fact_is_clean(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact_is_root(fact) && fact->advice == ADVICE_CLEAN && fact->node != 0;
}

bool fact_is_port(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact->node != 0 &&
           (is_reading(fact, READING_PORT_DOWN) || is_reading(fact, READING_PORT_UP));
}

bool fact_is_network(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact_is_root(fact) && fact->label == LABEL_NETWORK && fact->advice >= ADVICE_EVICT &&
           fact->node != 0;
}

bool fact_is_peer(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact_is_root(fact) && fact->label == LABEL_NETWORK && fact->advice == ADVICE_RESTART &&
           fact->node != 0;
}

static uint32_t peer_of(const struct evidence *evidence, const struct fact *fact)
{
    const struct judge_input *in = evidence->in;
    if (in->peer_of == NULL || fact->subject[0] == '\0') {
        return 0;
    }
    uint32_t node = in->peer_of(in->context, fact->subject);
    return node != fact->node ? node : 0;
}

bool fact_is_peer_lost(const struct evidence *evidence, const struct fact *fact)
{
    return fact_is_labelled(fact) && fact->role == ROLE_CASCADE && fact->node != 0 &&
           peer_of(evidence, fact) != 0;
}

bool fact_is_unreadable(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return is_reading(fact, READING_NONE);
}

bool fact_is_step(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return is_reading(fact, READING_STEP);
}

bool fact_is_stop(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return is_reading(fact, READING_STOP) ||
           (fact->label == LABEL_OPERATOR && fact->role == ROLE_ROOT &&
            fact->advice == ADVICE_STOP_EXPECTED && fact->severity > 0);
}

bool fact_is_wait_root(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return is_reading(fact, READING_WAIT_ROOT) && fact->node != 0;
}

bool fact_is_slow(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return is_reading(fact, READING_SLOW) && fact->node != 0;
}

bool fact_is_hash(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return is_reading(fact, READING_HASH) && fact->node != 0;
}

bool fact_is_value(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact_is_labelled(fact) && strncmp(fact->subject, "step=", 5) == 0 &&
           find(fact->subject, " value=") != NULL && fact->role >= ROLE_SYMPTOM &&
           fact->severity > 0 && fact->node != 0 && !fact_is_reading(fact);
}

bool fact_is_rerun(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact_is_labelled(fact) && fact->severity > 0 && fact->node != 0 &&
           (fact_named(fact, "torch-rerun-persistent") || fact_named(fact, "torch-rerun-correct"));
}

bool fact_is_watchdog(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact_is_labelled(fact) && fact->rank >= 0 && strncmp(fact->subject, "seq=", 4) == 0 &&
           find(fact->subject, " op=") != NULL;
}

bool fact_is_clocks(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return is_reading(fact, READING_CLOCKS) && fact->node != 0;
}

bool fact_is_symptom(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return has_role(fact, ROLE_SYMPTOM, ADVICE_RESTART) && fact->node != 0;
}

bool fact_is_transient(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact_is_root(fact) && fact->advice == ADVICE_RESTART;
}

bool fact_is_told_to_end(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return has_role(fact, ROLE_SYMPTOM, ADVICE_STOP_EXPECTED) &&
           fact->advice == ADVICE_STOP_EXPECTED;
}

bool fact_is_degraded(const struct evidence *evidence, const struct fact *fact)
{
    return (has_role(fact, ROLE_ROOT, ADVICE_WATCH) ||
            has_role(fact, ROLE_SYMPTOM, ADVICE_WATCH)) &&
           (fact->label == LABEL_HARDWARE || fact->label == LABEL_SOFTWARE) &&
           evidence->first_end != NULL && fact->node == evidence->first_end->node &&
           fact->node != 0 && fact->advice == ADVICE_WATCH;
}

bool fact_is_warning(const struct evidence *evidence, const struct fact *fact)
{
    return has_role(fact, ROLE_ROOT, ADVICE_WATCH) || has_role(fact, ROLE_SYMPTOM, ADVICE_WATCH) ||
           fact_is_clocks(evidence, fact) || fact_is_port(evidence, fact);
}

/* ---- ports ------------------------------------------------------------------------------- */

/* "mlx5_3/1" of "mlx5_3/1 leaf=NAME" */
static size_t port_size(const struct fact *fact)
{
    const char *end = find(fact->subject, " ");
    return end != NULL ? (size_t)(end - fact->subject) : strlen(fact->subject);
}

static bool same_port(const struct fact *a, const struct fact *b)
{
    size_t size = port_size(a);
    return a->node == b->node && size == port_size(b) && memcmp(a->subject, b->subject, size) == 0;
}

bool port_begins(const struct evidence *evidence, const struct fact *fact)
{
    uint32_t index = 0;
    const struct fact *other;
    while ((other = evidence_next(evidence, fact_is_port, &index)) != NULL) {
        if (same_port(other, fact) && fact_before(other, fact)) {
            return false;
        }
    }
    return true;
}

/* The next reading of the same port. */
static const struct fact *port_next(const struct evidence *evidence, const struct fact *fact)
{
    const struct fact *next = NULL;
    const struct fact *other;
    uint32_t index = 0;
    while ((other = evidence_next(evidence, fact_is_port, &index)) != NULL) {
        if (same_port(other, fact) && fact_before(fact, other) &&
            (next == NULL || fact_before(other, next))) {
            next = other;
        }
    }
    return next;
}

struct flaps {
    uint64_t at_ms[FLAPS_KEPT]; /* the newest ones, in order */
    uint32_t count;
};

static void flapped(struct flaps *flaps, uint64_t at_ms)
{
    if (flaps->count == FLAPS_KEPT) {
        memmove(flaps->at_ms, flaps->at_ms + 1, (FLAPS_KEPT - 1) * sizeof(flaps->at_ms[0]));
        flaps->count--;
    }
    flaps->at_ms[flaps->count++] = at_ms;
}

static uint64_t port_mark(const struct fact *fact)
{
    return hash_bytes(hash_text(HASH_INIT, READING_PORT_DOWN), fact->subject, port_size(fact));
}

/* `wanted` of them, those that are remembered too, within the span. */
static bool too_often(const struct evidence *evidence, const struct fact *fact,
                      const struct flaps *flaps, uint32_t wanted, uint64_t span_ms)
{
    uint32_t past = evidence_marks(evidence, port_mark(fact), fact->node, span_ms, false);
    if (flaps->count > 0 && past + 1 >= wanted) {
        return true;
    }
    for (uint32_t last = wanted - 1; last < flaps->count; last++) {
        if (flaps->at_ms[last] - flaps->at_ms[last + 1 - wanted] <= span_ms) {
            return true;
        }
    }
    return false;
}

void port_story(const struct evidence *evidence, const struct fact *first,
                struct port_story *ret_story)
{
    struct flaps flaps = {0};
    uint64_t since_ms = 0;
    *ret_story = (struct port_story){0};
    for (const struct fact *fact = first; fact != NULL; fact = port_next(evidence, fact)) {
        bool down = fact_named(fact, READING_PORT_DOWN);
        /* A reading may tell of more than one, or of one that was over before it was seen. */
        uint32_t count = fact->code > 0 && fact->code < FLAPS_KEPT ? (uint32_t)fact->code : 0;
        count = count == 0 && down && !ret_story->down ? 1 : count;
        if (!down && ret_story->down && count > 0) {
            count--; /* counted when it went down */
        }
        while (count-- > 0) {
            flapped(&flaps, fact->receive_ms);
        }
        if (!down && ret_story->down && fact->receive_ms - since_ms > ret_story->longest_ms) {
            ret_story->longest_ms = fact->receive_ms - since_ms;
        }
        since_ms = down && !ret_story->down ? fact->receive_ms : since_ms;
        ret_story->down = down;
    }
    ret_story->seen = flaps.count > 0 || ret_story->down;
    ret_story->flaps = too_often(evidence, first, &flaps, FLAPS_SHORT, FLAP_SHORT_MS) ||
                       too_often(evidence, first, &flaps, FLAPS_LONG, FLAP_LONG_MS);
}

uint64_t port_leaf(const struct evidence *evidence, const struct fact *fact)
{
    const char *leaf = find(fact->subject, " leaf=");
    if (leaf != NULL) {
        return hash_text(HASH_INIT, leaf);
    }
    const struct judge_input *in = evidence->in;
    return in->leaf_of != NULL ? in->leaf_of(in->context, fact->node) : 0;
}

/* ---- pairs ------------------------------------------------------------------------------- */

struct pair {
    const struct fact *fact;
    uint32_t peer;
};

static bool same_pair(const struct pair *a, const struct pair *b)
{
    if (a->fact->node == b->fact->node) {
        return a->peer == b->peer &&
               (a->peer != 0 || text_equal(a->fact->subject, b->fact->subject));
    }
    return a->peer == b->fact->node && b->peer == a->fact->node;
}

/* Different ones, in the order of the facts; at most PAIRS_MAX. */
static uint32_t collect_pairs(const struct evidence *evidence, fact_test *test, struct pair *pairs)
{
    uint32_t count = 0;
    uint32_t index = 0;
    const struct fact *fact;
    while ((fact = evidence_next(evidence, test, &index)) != NULL) {
        const struct pair pair = {fact, peer_of(evidence, fact)};
        bool known = count == PAIRS_MAX;
        for (uint32_t other = 0; other < count; other++) {
            known = known || same_pair(&pairs[other], &pair);
        }
        if (!known) {
            pairs[count++] = pair;
        }
    }
    return count;
}

static bool in_all(const struct pair *pairs, uint32_t count, uint32_t node)
{
    for (uint32_t index = 0; index < count; index++) {
        if (pairs[index].fact->node != node && pairs[index].peer != node) {
            return false;
        }
    }
    return node != 0;
}

void evidence_pairs(const struct evidence *evidence, fact_test *test, struct pair_found *ret_found)
{
    struct pair pairs[PAIRS_MAX];
    uint32_t count = collect_pairs(evidence, test, pairs);
    *ret_found = (struct pair_found){.pairs = count};
    if (count == 0) {
        return;
    }
    ret_found->a = pairs[0].fact->node;
    ret_found->b = pairs[0].peer;
    if (count > 1) {
        ret_found->common = in_all(pairs, count, ret_found->b)   ? ret_found->b
                            : in_all(pairs, count, ret_found->a) ? ret_found->a
                                                                 : 0;
    }
}

/* ---- what is remembered ------------------------------------------------------------------ */

bool judge_is_value(const struct fact *fact)
{
    return fact_is_value(NULL, fact);
}

uint64_t judge_mark_of(const struct fact *fact)
{
    if (!fact_is_labelled(fact) || fact->severity == 0 || fact->role < ROLE_SYMPTOM ||
        fact->subject[0] == '\0' || fact_named(fact, READING_PORT_UP)) {
        return 0;
    }
    return fact_named(fact, READING_PORT_DOWN)
               ? port_mark(fact)
               : hash_text(hash_text(HASH_INIT, fact->signal), fact->subject);
}

uint32_t evidence_marks(const struct evidence *evidence, uint64_t what, uint32_t node,
                        uint64_t age_ms, bool elsewhere)
{
    const struct judge_input *in = evidence->in;
    uint32_t count = 0;
    for (uint32_t index = 0; what != 0 && index < in->mark_count; index++) {
        const struct judge_mark *mark = &in->marks[index];
        bool there = elsewhere ? mark->node != node && mark->job == in->job : mark->node == node;
        count += mark->what == what && mark->age_ms <= age_ms && there ? 1 : 0;
    }
    return count;
}
