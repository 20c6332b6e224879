/* verbs.c: the commands of a scenario, one small function each, but for what people ask
 * (verbs_requests.c); the table at the end says how they are written. */
#include <errno.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/duration.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"
#include "tests/scenario/verbs.h"

/* ---- words ---------------------------------------------------------------------------------- */

static int peer_ref(const struct words *words, uint32_t at, uint8_t *ret_peer, struct err *err)
{
    static const char *const peers[] = {"ok", "refused", "silent", "nothing"};
    *ret_peer = RIG_PEER_REFUSED;
    return words->count > at ? verb_word(peers, ARRAY_SIZE(peers), words->at[at], ret_peer, err)
                             : 0;
}

/* "exit=1" or "signal=9" */
static int end_ref(const struct words *words, uint8_t *ret_state, int32_t *ret_code,
                   struct err *err)
{
    uint64_t code = 0;
    *ret_state = verb_option(words, "signal") != NULL ? RANK_SIGNALED : RANK_EXITED;
    int result = verb_number(words, *ret_state == RANK_SIGNALED ? "signal" : "exit", &code, err);
    *ret_code = (int32_t)code;
    return result;
}

/* ---- the world ------------------------------------------------------------------------------ */

static int run_nodes(struct play *play, const struct words *words, struct err *err)
{
    struct core_limits limits = {.agents = 64,
                                 .jobs = 8,
                                 .slots = 256,
                                 .incidents = 64,
                                 .facts = 512,
                                 .recoveries = 64,
                                 .checkpoints = 64,
                                 .foreign = 32,
                                 .pending_records = 100000};
    struct core_config config = {0};
    uint64_t count = 0;
    uint64_t limit = 0;
    uint64_t rack = 2;
    uint64_t grace = 0;
    uint64_t others = 0; /* the last so many are of another pool than "train" */
    const char *text = verb_option(words, "grace");
    static const char *const fences[] = {"works", "fails", "hangs"};
    const char *fence = verb_option(words, "fence");
    const char *hooks = verb_option(words, "hooks");
    uint8_t hook = RIG_FENCE_WORKS;
    int code = text_to_u64(words->at[1], RIG_NODES_MAX, &count);
    code = code < 0 ? code : verb_number(words, "limit", &limit, err);
    code = code < 0 ? code : verb_number(words, "rack", &rack, err);
    code = code < 0 ? code : verb_number(words, "others", &others, err);
    code = code < 0 || text == NULL ? code : duration_parse(text, &grace, err);
    code =
        code < 0 || fence == NULL ? code : verb_word(fences, ARRAY_SIZE(fences), fence, &hook, err);
    if (code < 0 || play->rig != NULL || rack == 0) {
        return err_set(err, -EINVAL, "nodes: once, and at most %d", RIG_NODES_MAX);
    }
    limits.agents = limit != 0 ? (uint32_t)limit : count > 64 ? (uint32_t)count : 64;
    config.start_grace_ms = (uint32_t)grace;
    config.fence_hook = fence != NULL;
    for (uint8_t i = HOOK_NONE + 1; i < repair_hook_count && hooks != NULL; i++) {
        config.repair_hooks[i] = strstr(hooks, repair_hook_words[i]) != NULL;
    }
    play->rig = rig_create_with((uint32_t)count, 1, &limits, &config);
    play->rig->synchronous = true;
    play->rig->fence = hook;
    play->start_ms = play->rig->now_ms;
    for (uint32_t i = 0; i < count; i++) {
        text_format(play->rig->nodes[i].rack, NAME_SIZE, "r%02u", i / (uint32_t)rack + 1);
        text_copy(play->rig->nodes[i].pool, NAME_SIZE, i + others < count ? "train" : "other");
    }
    play->rig->kill_at = play->kill_at;
    play->rig->kill_before = play->kill_before;
    return 0;
}

static int run_connect(struct play *play, const struct words *words, struct err *err)
{
    if (words->count == 1) {
        play->hush_nodes = true;
        rig_connect_all(play->rig);
        return 0;
    }
    int code = 0;
    for (uint32_t i = 1; i < words->count && code == 0; i++) {
        uint32_t node;
        code = verb_node(play, words->at[i], &node, err);
        if (code == 0) {
            rig_connect(play->rig, node);
        }
    }
    return code;
}

static int run_run(struct play *play, const struct words *words, struct err *err)
{
    uint64_t ms;
    int code = duration_parse(words->at[1], &ms, err);
    if (code == 0) {
        rig_run(play->rig, ms);
    }
    return code;
}

static bool wait_for_step(struct rig *rig, uint32_t job, uint64_t step, uint64_t limit_ms)
{
    uint64_t lost = rig->lost_ms;
    for (uint64_t end = rig->now_ms + limit_ms; rig->now_ms < end + (rig->lost_ms - lost);) {
        if (!rig->dead && core_job(rig->core, job)->step >= step) {
            return true;
        }
        rig_run(rig, 10);
    }
    return false;
}

/* until JOB STATE LIMIT | until JOB phase PHASE LIMIT | until JOB step N LIMIT */
static int run_until(struct play *play, const struct words *words, struct err *err)
{
    uint32_t job;
    uint8_t word = 0;
    uint64_t ms = 0;
    uint64_t step = 0;
    bool reached;
    bool phase = text_equal(words->at[2], "phase");
    bool steps = text_equal(words->at[2], "step");
    int code = verb_job(play, words->at[1], &job, err);
    code = code < 0 ? code : duration_parse(words->at[words->count - 1], &ms, err);
    if (code < 0 || ((phase || steps) && words->count < 5)) {
        return err_set(err, -EINVAL, "until: no such job, or no limit");
    }
    if (phase) {
        code = verb_word(phase_words, phase_count, words->at[3], &word, err);
        reached = code == 0 && rig_until_phase(play->rig, job, word, ms);
    } else if (steps) {
        code = text_to_u64(words->at[3], UINT32_MAX, &step);
        reached = code == 0 && wait_for_step(play->rig, job, step, ms);
    } else {
        code = verb_word(job_state_words, job_state_count, words->at[2], &word, err);
        reached = code == 0 && rig_until(play->rig, job, word, ms);
    }
    if (code == 0 && !reached) {
        play_say(play, "-> not within %s", words->at[words->count - 1]);
    }
    return code;
}

/* set saves DURATION [stall=MS]: programs save when they are asked to, and it takes so long */
static int set_saves(struct rig *rig, const struct words *words, struct err *err)
{
    uint64_t takes = 0;
    uint64_t stall = 0;
    int code = duration_parse(words->at[2], &takes, err);
    code = code < 0 ? code : verb_number(words, "stall", &stall, err);
    rig->save_takes_ms = (uint32_t)takes;
    rig->save_stall_ms = (uint32_t)stall;
    return code;
}

/* set step|init|restore DURATION | set print STEPS | set spins|unread on|off */
static int run_set(struct play *play, const struct words *words, struct err *err)
{
    uint64_t ms;
    bool on = text_equal(words->at[2], "on");
    if (text_equal(words->at[1], "print")) {
        play->rig->no_library = true;
        return text_to_u64(words->at[2], UINT32_MAX, &play->rig->print_every);
    }
    if (text_equal(words->at[1], "saves")) {
        return set_saves(play->rig, words, err);
    }
    if (text_equal(words->at[1], "spins") || text_equal(words->at[1], "unread")) {
        *(words->at[1][0] == 's' ? &play->rig->spins : &play->rig->output_unread) = on;
        return 0;
    }
    int code = duration_parse(words->at[2], &ms, err);
    if (code < 0) {
        return code;
    }
    if (text_equal(words->at[1], "step")) {
        play->rig->step_ms = ms;
    } else if (text_equal(words->at[1], "init")) {
        play->rig->init_ms = ms;
    } else if (text_equal(words->at[1], "restore")) {
        play->rig->restore_ms = ms;
    } else {
        return err_set(err, -EINVAL, "set step, init, restore, print, saves, spins or unread");
    }
    return 0;
}

/* node NODE in PHASE: its ranks stay in this phase; in step: they go on */
static int run_node_in(struct rig_node *node, const struct words *words, struct err *err)
{
    static const char *const phases[] = {"init", "restore", "step", "checkpoint", "eval", "idle"};
    if (words->count < 4) {
        return err_set(err, -EINVAL, "node NODE in PHASE");
    }
    int code = verb_word(phases, ARRAY_SIZE(phases), words->at[3], &node->stuck_phase, err);
    node->hang = code == 0 && node->stuck_phase != PHASE_STEP;
    node->stuck = node->hang ? UINT8_MAX : 0;
    return code;
}

/* node NODE WHAT [off] */
static int run_node(struct play *play, const struct words *words, struct err *err)
{
    uint32_t index;
    int code = verb_node(play, words->at[1], &index, err);
    if (code < 0) {
        return code;
    }
    struct rig_node *node = &play->rig->nodes[index];
    if (text_equal(words->at[2], "in")) {
        return run_node_in(node, words, err);
    }
    const struct {
        const char *name;
        bool *flag;
    } flags[] = {
        {"hangs", &node->hang},
        {"ignores-stop", &node->ignore_stop},
        {"fails-check", &node->check_fails},
        {"ignores-check", &node->ignore_check},
        {"fails-validation", &node->validation_fails},
        {"ignores-validation", &node->ignore_validation},
        {"ignores-run", &node->ignore_run},
        {"cannot-launch", &node->no_launch},
        {"hides-from-peers", &node->no_peer},
        {"has-port-taken", &node->port_taken},
    };
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
        if (text_equal(flags[i].name, words->at[2])) {
            *flags[i].flag = words->count < 4 || !text_equal(words->at[3], "off");
            return 0;
        }
    }
    return err_set(err, -EINVAL, "a node does not know `%s`", words->at[2]);
}

/* Commands that strike one node, `VERB NODE [how]`. */
static int run_strike(struct play *play, const struct words *words, struct err *err)
{
    uint32_t node;
    uint8_t peer;
    const char *verb = words->at[0];
    int code = verb_node(play, words->at[1], &node, err);
    code = code < 0 ? code : peer_ref(words, 2, &peer, err);
    if (code < 0) {
        return code;
    }
    if (text_equal(verb, "kill-node")) {
        rig_kill_node(play->rig, node, peer);
    } else if (text_equal(verb, "kill-agent")) {
        rig_kill_agent(play->rig, node, peer);
    } else if (text_equal(verb, "silent")) {
        rig_quiet(play->rig, node, RIG_PEER_NOTHING);
    } else if (text_equal(verb, "freeze-agent")) {
        play->rig->nodes[node].agent_up = false;
        play->rig->nodes[node].peer = RIG_PEER_SILENT;
    } else if (text_equal(verb, "freeze")) {
        rig_quiet(play->rig, node, RIG_PEER_SILENT);
    } else {
        rig_wake(play->rig, node);
    }
    return 0;
}

/* unplug NODE...: their connections go quiet, the nodes live on; plug NODE... */
static int run_unplug(struct play *play, const struct words *words, struct err *err)
{
    bool off = text_equal(words->at[0], "unplug");
    int code = 0;
    for (uint32_t i = 1; i < words->count && code == 0; i++) {
        uint32_t node;
        code = verb_node(play, words->at[i], &node, err);
        if (code == 0 && off) {
            play->rig->nodes[node].agent_up = false;
            play->rig->nodes[node].peer = RIG_PEER_NOTHING;
        } else if (code == 0) {
            rig_wake(play->rig, node);
        }
    }
    return code;
}

static int run_boot(struct play *play, const struct words *words, struct err *err)
{
    uint32_t node;
    bool unclean = words->count > 2 && text_equal(words->at[2], "unclean");
    int code = verb_node(play, words->at[1], &node, err);
    if (code == 0) {
        rig_boot(play->rig, node, !unclean);
    }
    return code;
}

/* end-rank NODE INDEX exit=N|signal=N */
static int run_end_rank(struct play *play, const struct words *words, struct err *err)
{
    uint32_t node;
    uint64_t rank;
    uint8_t state;
    int32_t value;
    int code = verb_node(play, words->at[1], &node, err);
    code = code < 0 ? code : text_to_u64(words->at[2], RIG_RANKS - 1, &rank);
    code = code < 0 ? code : end_ref(words, &state, &value, err);
    if (code == 0) {
        rig_end_rank(play->rig, node, (uint32_t)rank, state, value);
    }
    return code;
}

static int run_end_all(struct play *play, const struct words *words, struct err *err)
{
    uint32_t job;
    uint8_t state;
    int32_t value;
    int code = verb_job(play, words->at[1], &job, err);
    code = code < 0 ? code : end_ref(words, &state, &value, err);
    if (code == 0) {
        rig_end_all(play->rig, job, state, value);
    }
    return code;
}

/* save JOB [step=N]: rank 0 begins and commits a save, of the present step unless told. */
static int run_save(struct play *play, const struct words *words, struct err *err)
{
    uint32_t job;
    int code = verb_job(play, words->at[1], &job, err);
    if (code < 0) {
        return code;
    }
    uint64_t step = core_job(play->rig->core, job)->step;
    code = verb_number(words, "step", &step, err);
    if (code == 0) {
        rig_save(play->rig, job, step);
    }
    return code;
}

/* "data:data:all-reduce:41:40" or "pp:pipeline:receive:9:8:1": name, axis, operation, how many are
 * enqueued and completed, peer */
static int communicator_ref(const char *word, struct communicator_report *ret, struct err *err)
{
    char fields[6][COMMUNICATOR_NAME_SIZE];
    uint64_t numbers[3] = {0, 0, 0};
    uint32_t count = 0;
    for (const char *at = word; count < ARRAY_SIZE(fields); count++) {
        const size_t size = strcspn(at, ":");
        text_format(fields[count], sizeof fields[0], "%.*s", (int)size, at);
        at += size;
        if (*at++ == '\0') {
            count++;
            break;
        }
    }
    for (uint32_t i = 3; i < count; i++) {
        if (text_to_u64(fields[i], UINT32_MAX, &numbers[i - 3]) < 0) {
            return err_set(err, -EINVAL, "%s: %s is no number", word, fields[i]);
        }
    }
    *ret = (struct communicator_report){.enqueued = numbers[0],
                                        .completed = numbers[1],
                                        .peer = count > 5 ? (int32_t)numbers[2] : -1};
    text_copy(ret->name, sizeof ret->name, fields[0]);
    while (ret->axis < AXIS_DATA && !text_equal(communicator_axis_word(ret->axis), fields[1])) {
        ret->axis++;
    }
    while (ret->operation < OPERATION_BARRIER &&
           !text_equal(collective_operation_word(ret->operation), fields[2])) {
        ret->operation++;
    }
    bool known = count >= 5 && text_equal(communicator_axis_word(ret->axis), fields[1]) &&
                 text_equal(collective_operation_word(ret->operation), fields[2]);
    return known ? 0 : err_set(err, -EINVAL, "%s is no communicator", word);
}

/* "0,2-4" at *at: the next range; false: there is none */
static bool take_ranks(const char **at, uint64_t *ret_first, uint64_t *ret_last)
{
    char word[32];
    const size_t size = strcspn(*at, ",");
    text_format(word, sizeof word, "%.*s", (int)size, *at);
    char *dash = strchr(word, '-');
    if (dash != NULL) {
        *dash = '\0';
    }
    *at += size + ((*at)[size] == ',' ? 1 : 0);
    return text_to_u64(word, UINT32_MAX, ret_first) == 0 &&
           text_to_u64(dash == NULL ? word : dash + 1, UINT32_MAX, ret_last) == 0;
}

/* tell JOB RANKS COMMUNICATOR...: from now on these ranks tell these communicators */
static int run_tell(struct play *play, const struct words *words, struct err *err)
{
    struct communicator_report communicators[SCRIPT_WORDS_MAX];
    uint32_t job;
    uint64_t first;
    uint64_t last;
    int code = verb_job(play, words->at[1], &job, err);
    for (uint32_t i = 3; i < words->count && code == 0; i++) {
        code = communicator_ref(words->at[i], &communicators[i - 3], err);
    }
    if (code < 0 || words->count - 3 > COMMUNICATORS_MAX) {
        return code < 0 ? code : err_set(err, -EINVAL, "tell: too many communicators");
    }
    for (const char *at = words->at[2]; *at != '\0';) {
        const struct job *j = core_job(play->rig->core, job);
        if (!take_ranks(&at, &first, &last) || last >= (uint64_t)j->slot_count * RIG_RANKS) {
            return err_set(err, -EINVAL, "tell: the ranks are not %s's", words->at[1]);
        }
        for (uint64_t rank = first; rank <= last; rank++) {
            rig_run(play->rig, 0); /* a controller that died is back first */
            rig_tell(play->rig, job, (uint32_t)rank, communicators, words->count - 3);
        }
    }
    return 0;
}

/* begin-save JOB: rank 0 begins a save of the present step and never commits it. */
static int run_begin_save(struct play *play, const struct words *words, struct err *err)
{
    uint32_t job;
    int code = verb_job(play, words->at[1], &job, err);
    if (code < 0) {
        return code;
    }
    const struct job *j = core_job(play->rig->core, job);
    struct message m = {.kind = MSG_CHECKPOINT};
    m.u.checkpoint.kind = CHECKPOINT_BEGIN;
    m.u.checkpoint.job = job;
    m.u.checkpoint.attempt = j->d.attempt;
    m.u.checkpoint.step = j->step;
    m.u.checkpoint.shard_count = j->slot_count * RIG_RANKS;
    rig_send_sure(play->rig, rig_node_of(play->rig, job, 0), &m);
    return 0;
}

/* hook NAME works|fails|hangs [20s] */
static int run_hook(struct play *play, const struct words *words, struct err *err)
{
    static const char *const ways[] = {"works", "fails", "hangs"};
    uint8_t hook;
    uint64_t ms = play->rig->hook_ms;
    int code = verb_word(repair_hook_words, repair_hook_count, words->at[1], &hook, err);
    code = code < 0 ? code
                    : verb_word(ways, ARRAY_SIZE(ways), words->at[2], &play->rig->hooks[hook], err);
    code = code < 0 || words->count < 4 ? code : duration_parse(words->at[3], &ms, err);
    play->rig->hook_ms = (uint32_t)ms;
    return code;
}

/* until-repair NODE STATE LANE LIMIT */
static int run_until_repair(struct play *play, const struct words *words, struct err *err)
{
    uint32_t index;
    uint8_t state;
    uint8_t lane;
    uint64_t ms = 0;
    int code = verb_node(play, words->at[1], &index, err);
    code = code < 0 ? code
                    : verb_word(repair_state_words, repair_state_count, words->at[2], &state, err);
    code =
        code < 0 ? code : verb_word(repair_lane_words, repair_lane_count, words->at[3], &lane, err);
    code = code < 0 ? code : duration_parse(words->at[4], &ms, err);
    struct rig *rig = play->rig;
    const uint64_t lost = rig->lost_ms;
    for (uint64_t end = rig->now_ms + ms; code == 0; rig_run(rig, 10)) {
        const struct node *node =
            core_node(rig->core, core_node_find(rig->core, rig->nodes[index].name));
        if (!rig->dead && node->d.repair == state && node->d.repair_lane == lane) {
            return 0;
        }
        if (rig->now_ms >= end + (rig->lost_ms - lost)) {
            return err_set(err, -ETIMEDOUT, "the repair of %s is %s, %s", node->d.name,
                           WORD(repair_state, node->d.repair),
                           WORD(repair_lane, node->d.repair_lane));
        }
    }
    return code;
}

/* ---- messages that no obedient agent sends --------------------------------------------------- */

/* late-report NODE JOB ATTEMPT exit=N: a beat that speaks of an attempt that is over */
static int run_late_report(struct play *play, const struct words *words, struct err *err)
{
    uint32_t index;
    uint32_t job;
    uint64_t attempt;
    struct message m = {.kind = MSG_BEAT};
    struct attempt_report *late = &m.u.beat.attempts[0];
    int32_t value;
    uint8_t state;
    int code = verb_node(play, words->at[1], &index, err);
    code = code < 0 ? code : verb_job(play, words->at[2], &job, err);
    code = code < 0 ? code : text_to_u64(words->at[3], UINT32_MAX, &attempt);
    code = code < 0 ? code : end_ref(words, &state, &value, err);
    if (code < 0) {
        return code;
    }
    struct rig_node *node = &play->rig->nodes[index];
    late->job = job;
    late->attempt = (uint32_t)attempt;
    late->rank_count = RIG_RANKS;
    late->first_rank =
        core_node(play->rig->core, core_node_find(play->rig->core, node->name))->d.slot * RIG_RANKS;
    late->empty = true;
    for (uint32_t i = 0; i < RIG_RANKS; i++) {
        late->ranks[i].state = state;
        late->ranks[i].code = value;
    }
    m.u.beat.sequence = ++node->beat;
    m.u.beat.checks_ok = true;
    m.u.beat.attempt_count = 1;
    for (uint32_t i = 0; i < node->attempt_count && i + 1 < ATTEMPTS_PER_NODE_MAX; i++) {
        m.u.beat.attempts[m.u.beat.attempt_count++] = node->attempts[i].report;
    }
    rig_send(play->rig, index, &m);
    return 0;
}

/* old-beat NODE: an early beat of this session arrives late, and says that a rank had ended */
static int run_old_beat(struct play *play, const struct words *words, struct err *err)
{
    uint32_t index;
    int code = verb_node(play, words->at[1], &index, err);
    if (code < 0) {
        return code;
    }
    const struct rig_node *node = &play->rig->nodes[index];
    struct message m = {.kind = MSG_BEAT};
    m.u.beat.sequence = 1;
    m.u.beat.checks_ok = false;
    for (uint32_t i = 0; i < node->attempt_count; i++) {
        m.u.beat.attempts[i] = node->attempts[i].report;
        m.u.beat.attempts[i].ranks[0].state = RANK_EXITED;
        m.u.beat.attempts[i].ranks[0].code = 1;
    }
    m.u.beat.attempt_count = node->attempt_count;
    rig_send(play->rig, index, &m);
    return 0;
}

/* late-commit NODE JOB ATTEMPT STEP: rank 0 of an attempt commits a save */
static int run_late_commit(struct play *play, const struct words *words, struct err *err)
{
    uint32_t node;
    uint32_t job;
    uint64_t attempt;
    uint64_t step;
    struct message m = {.kind = MSG_CHECKPOINT};
    int code = verb_node(play, words->at[1], &node, err);
    code = code < 0 ? code : verb_job(play, words->at[2], &job, err);
    code = code < 0 ? code : text_to_u64(words->at[3], UINT32_MAX, &attempt);
    code = code < 0 ? code : text_to_u64(words->at[4], UINT32_MAX, &step);
    if (code == 0) {
        m.u.checkpoint.kind = CHECKPOINT_COMMIT;
        m.u.checkpoint.job = job;
        m.u.checkpoint.attempt = (uint32_t)attempt;
        m.u.checkpoint.step = step;
        rig_send(play->rig, node, &m);
    }
    return code;
}

/* hello NODE incarnation=N | hello NODE boot=other: somebody says hello by this node's name */
static int run_hello(struct play *play, const struct words *words, struct err *err)
{
    uint32_t index;
    uint64_t incarnation;
    char boot[BOOT_ID_SIZE];
    int code = verb_node(play, words->at[1], &index, err);
    if (code < 0) {
        return code;
    }
    const struct rig_node *node = &play->rig->nodes[index];
    incarnation = node->incarnation;
    code = verb_number(words, "incarnation", &incarnation, err);
    text_copy(boot, sizeof boot, node->boot_id);
    if (verb_option(words, "boot") != NULL) {
        boot[0] = 'f';
    }
    if (code == 0) {
        rig_hello(play->rig, index, play->rig->next_session++, incarnation, boot);
    }
    return code;
}

static int run_goodbye(struct play *play, const struct words *words, struct err *err)
{
    static const char *const kinds[] = {"restart", "reboot", "gone"};
    uint32_t node;
    struct message m = {.kind = MSG_GOODBYE};
    int code = verb_node(play, words->at[1], &node, err);
    code =
        code < 0 ? code : verb_word(kinds, ARRAY_SIZE(kinds), words->at[2], &m.u.goodbye.kind, err);
    if (code == 0) {
        text_format(m.u.goodbye.text, TEXT_SIZE, "said %s", words->at[2]);
        play->rig->nodes[node].clean = true;
        rig_send_sure(play->rig, node, &m);
    }
    return code;
}

/* fact NODE severity=3 xid=79 text=fallen_off_the_bus */
static int run_fact(struct play *play, const struct words *words, struct err *err)
{
    uint32_t index;
    uint64_t severity = 3;
    uint64_t xid = 0;
    struct message m = {.kind = MSG_FACT};
    struct fact *fact = &m.u.fact.fact;
    int code = verb_node(play, words->at[1], &index, err);
    code = code < 0 ? code : verb_number(words, "severity", &severity, err);
    code = code < 0 ? code : verb_number(words, "xid", &xid, err);
    if (code < 0) {
        return code;
    }
    fact->source = FACT_PROBE;
    fact->severity = (uint8_t)severity;
    fact->rank = -1;
    fact->gpu = 0;
    fact->port = -1;
    fact->code = (int32_t)xid;
    fact->sequence = ++play->rig->nodes[index].fact_sequence;
    text_copy(fact->text, TEXT_SIZE,
              verb_option(words, "text") != NULL ? verb_option(words, "text") : "");
    for (char *at = fact->text; *at != '\0'; at++) {
        *at = *at == '_' ? ' ' : *at;
    }
    rig_send_sure(play->rig, index, &m);
    return 0;
}

/* ---- the controller itself ------------------------------------------------------------------ */

/* restart-controller DURATION [store=backup|empty] */
static int run_restart_controller(struct play *play, const struct words *words, struct err *err)
{
    uint64_t ms;
    const char *store = verb_option(words, "store");
    int code = duration_parse(words->at[1], &ms, err);
    if (code < 0) {
        return code;
    }
    if (store != NULL) {
        play->rig->record_count = text_equal(store, "backup") ? play->backup : 0;
    }
    play->hush_nodes = true;
    rig_restart(play->rig, ms);
    return 0;
}

static int run_backup(struct play *play, const struct words *words, struct err *err)
{
    (void)words;
    (void)err;
    play->backup = play->rig->record_count;
    return 0;
}

/* The controller stands still: nothing arrives, then all at once. */
static int run_stall(struct play *play, const struct words *words, struct err *err)
{
    uint64_t ms;
    int code = duration_parse(words->at[1], &ms, err);
    if (code == 0) {
        play->rig->now_ms += ms;
        rig_run(play->rig, 10);
    }
    return code;
}

static int run_ask(struct play *play, const struct words *words, struct err *err)
{
    if (text_equal(words->at[1], "state")) {
        show_state(play);
    } else if (text_equal(words->at[1], "outcome")) {
        show_outcome(play->rig, &play->shown);
    } else {
        return err_set(err, -EINVAL, "ask state, or ask outcome");
    }
    return 0;
}

/* ---- the table ------------------------------------------------------------------------------ */

static const struct verb verbs[] = {
    {"nodes", run_nodes, 1,
     "nodes N [limit=N] [rack=N] [others=N] [grace=1s] "
     "[fence=works|fails|hangs] [hooks=gpu_reset,reboot,diag,ticket]"},
    {"until-repair", run_until_repair, 4, "until-repair NODE STATE LANE LIMIT"},
    {"hook", run_hook, 2, "hook NAME works|fails|hangs [20s]: what becomes of it from now on"},
    {"connect", run_connect, 0, "connect [NODE...]"},
    {"run", run_run, 1, "run 500ms"},
    {"until", run_until, 3, "until JOB STATE|phase PHASE|step N LIMIT"},
    {"set", run_set, 2,
     "set step|init|restore 200ms, print 5, saves 3s [stall=MS], spins|unread on|off"},
    {"node", run_node, 2,
     "node NODE hangs|ignores-stop|fails-check|cannot-launch|… [off] | in PHASE"},
    {"kill-node", run_strike, 1, "kill-node NODE [refused|silent|nothing]"},
    {"kill-agent", run_strike, 1, "kill-agent NODE [refused|silent|nothing]"},
    {"silent", run_strike, 1, "silent NODE"},
    {"freeze", run_strike, 1, "freeze NODE"},
    {"freeze-agent", run_strike, 1, "freeze-agent NODE"},
    {"wake", run_strike, 1, "wake NODE"},
    {"unplug", run_unplug, 1, "unplug NODE..."},
    {"plug", run_unplug, 1, "plug NODE..."},
    {"boot", run_boot, 1, "boot NODE [unclean]"},
    {"end-rank", run_end_rank, 3, "end-rank NODE 0 exit=1|signal=9"},
    {"end-all", run_end_all, 2, "end-all JOB exit=0|signal=9"},
    {"save", run_save, 1, "save JOB [step=N]"},
    {"begin-save", run_begin_save, 1, "begin-save JOB"},
    {"tell", run_tell, 3, "tell JOB RANKS NAME:AXIS:OPERATION:ENQUEUED:COMPLETED[:PEER]..."},
    {"late-report", run_late_report, 4, "late-report NODE JOB ATTEMPT exit=1"},
    {"old-beat", run_old_beat, 1, "old-beat NODE"},
    {"late-commit", run_late_commit, 4, "late-commit NODE JOB ATTEMPT STEP"},
    {"hello", run_hello, 2, "hello NODE incarnation=N|boot=other"},
    {"goodbye", run_goodbye, 2, "goodbye NODE restart|reboot|gone"},
    {"fact", run_fact, 1, "fact NODE severity=3 xid=79 text=words_like_this"},
    {"restart-controller", run_restart_controller, 1, "restart-controller 500ms [store=backup]"},
    {"backup", run_backup, 0, "backup"},
    {"stall", run_stall, 1, "stall 40s"},
    {"submit", verb_submit, 2, "submit NAME SLOTS [field=value...]"},
    {"drain", verb_nodes_request, 1, "drain NODE... [now|checkpoint|job-end]"},
    {"undrain", verb_nodes_request, 1, "undrain NODE... [clear=CODE] [skip-validation]"},
    {"cordon", verb_nodes_request, 1, "cordon NODE..."},
    {"uncordon", verb_nodes_request, 1, "uncordon NODE..."},
    {"remove", verb_nodes_request, 1, "remove NODE..."},
    {"validate", verb_nodes_request, 1, "validate NODE... [quick|full]"},
    {"cancel", verb_job_request, 1, "cancel JOB"},
    {"hold", verb_job_request, 1, "hold JOB"},
    {"release", verb_job_request, 1, "release JOB"},
    {"restart", verb_job_request, 1, "restart JOB [after-checkpoint]"},
    {"ask-save", verb_job_request, 1, "ask-save JOB"},
    {"pause", verb_cluster_request, 0, "pause"},
    {"resume", verb_cluster_request, 0, "resume"},
    {"observe", verb_cluster_request, 0, "observe"},
    {"act", verb_cluster_request, 0, "act"},
    {"adopt", verb_cluster_request, 0, "adopt"},
    {"stop-foreign", verb_cluster_request, 0, "stop-foreign"},
    {"ask", run_ask, 1, "ask state|outcome"},
};

const struct verb *verb_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
        if (text_equal(verbs[i].name, name)) {
            return &verbs[i];
        }
    }
    return NULL;
}

void verb_names(struct buf *buf)
{
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
        int code = buf_printf(buf, " %s", verbs[i].name);
        CHECK(code == 0);
    }
}
