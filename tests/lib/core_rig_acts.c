/* core_rig_acts.c: what happens to a rig: requests of operators, failures of nodes and agents,
 * ends of ranks, saves. */
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig_parts.h"

struct job_spec rig_spec(const char *name, uint32_t slots)
{
    struct job_spec spec = {.revision = 1,
                            .priority = 50,
                            .tensor = 1,
                            .context = 1,
                            .pipeline = 1,
                            .data = slots * RIG_RANKS,
                            .ranks_per_node = RIG_RANKS,
                            .save_on_drain = true,
                            .drain_wait_ms = 60000,
                            .stop_grace_ms = 2000,
                            .recovery_grace_ms = 2000,
                            .retries_user = 1,
                            .retries_unknown = 3,
                            .no_progress_limit = 3,
                            .same_node_limit = 2,
                            .restart_codes = {75},
                            .final_codes = {93},
                            .start_timeout_ms = 60000,
                            .init_timeout_ms = 60000,
                            .first_step_ms = 60000,
                            .warmup_steps = 5,
                            .watch_progress = true};
    text_copy(spec.name, NAME_SIZE, name);
    text_copy(spec.user, NAME_SIZE, "train");
    text_copy(spec.order, ORDER_SIZE, "tp-cp-pp-dp");
    return spec;
}

/* The answer to this submit was lost, but its job is there, and may be over by now: a person who
 * looks does not submit it again. */
static bool accepted(struct rig *rig, const struct request *request)
{
    uint32_t id =
        request->verb == REQUEST_SUBMIT ? core_job_find(rig->core, request->spec->name) : 0;
    const struct job *job = core_job(rig->core, id);
    if (job == NULL || request->spec->text_hash == 0 ||
        job->d.text_hash != request->spec->text_hash) {
        return false;
    }
    rig->reply_result = 0;
    rig->reply_job = id;
    return true;
}

int32_t rig_request(struct rig *rig, const struct request *request)
{
    struct request copy = *request;
    struct event event = {.kind = EVENT_REQUEST};
    copy.id = 1;
    text_copy(copy.actor, NAME_SIZE, "sre");
    if (copy.reason[0] == '\0') {
        text_copy(copy.reason, TEXT_SIZE, "test");
    }
    event.u.request = &copy;
    rig->reply_result = -1000;
    do { /* a controller that died has not answered: asked again when it is back */
        rig_run(rig, 0);
        if (!accepted(rig, request)) {
            rig_step(rig, &event);
        }
    } while (rig->dead);
    CHECK(rig->reply_result != -1000); /* every request is answered */
    return rig->reply_result;
}

uint32_t rig_submit(struct rig *rig, const struct job_spec *spec)
{
    struct request request = {.verb = REQUEST_SUBMIT, .spec = spec, .text = "{}", .text_size = 2};
    return rig_request(rig, &request) == 0 ? rig->reply_job : 0;
}

int32_t rig_nodes(struct rig *rig, uint8_t verb, const char *name, uint8_t when)
{
    uint32_t id = core_node_find(rig->core, name);
    struct request request = {.verb = verb, .nodes = &id, .node_count = 1, .when = when};
    return rig_request(rig, &request);
}

int32_t rig_job(struct rig *rig, uint8_t verb, uint32_t job)
{
    struct request request = {.verb = verb, .job = job};
    return rig_request(rig, &request);
}

static void cut(struct rig *rig, struct rig_node *node)
{
    uint64_t session = node->session;
    node->session = 0;
    node->agent_up = false;
    if (session != 0) {
        rig_event(rig, EVENT_CLOSED, session);
    }
}

void rig_kill_node(struct rig *rig, uint32_t index, uint8_t peer)
{
    struct rig_node *node = &rig->nodes[index];
    node->host_up = false;
    node->peer = peer;
    node->attempt_count = 0;
    cut(rig, node);
}

void rig_kill_agent(struct rig *rig, uint32_t index, uint8_t peer)
{
    rig->nodes[index].peer = peer;
    cut(rig, &rig->nodes[index]);
}

void rig_quiet(struct rig *rig, uint32_t index, uint8_t peer)
{
    struct rig_node *node = &rig->nodes[index];
    node->agent_up = false;
    node->host_up = false;
    node->peer = peer;
}

void rig_wake(struct rig *rig, uint32_t index)
{
    struct rig_node *node = &rig->nodes[index];
    node->host_up = true;
    node->agent_up = true;
    if (node->session == 0) {
        rig_connect(rig, index);
    }
}

void rig_end_hook(struct rig *rig, uint32_t index, bool ok, const char *said)
{
    struct rig_node *node = &rig->nodes[index];
    struct event event = {.kind = EVENT_REPAIRED};
    bool reboots = node->repair_hook == HOOK_REBOOT && ok;
    node->repair_end_ms = 0;
    event.u.repaired.node = core_node_find(rig->core, node->name);
    event.u.repaired.order = node->repair_order;
    event.u.repaired.ok = ok;
    text_copy(event.u.repaired.text, TEXT_SIZE, said);
    if (reboots) {
        rig_boot(rig, index, false);
    }
    rig_step(rig, &event);
}

void rig_boot(struct rig *rig, uint32_t index, bool clean)
{
    struct rig_node *node = &rig->nodes[index];
    cut(rig, node);
    node->host_up = true;
    node->clean = clean;
    node->hang = false;
    node->stuck = 0;
    node->ignore_stop = false;
    node->attempt_count = 0;
    node->boot_id[0] = node->boot_id[0] == '9' ? '0' : (char)(node->boot_id[0] + 1);
    rig_connect(rig, index);
}

void rig_end_rank(struct rig *rig, uint32_t index, uint32_t rank, uint8_t state, int32_t code)
{
    struct rig_node *node = &rig->nodes[index];
    for (uint32_t i = 0; i < node->attempt_count; i++) {
        struct rank_report *r = &node->attempts[i].report.ranks[rank];
        if (r->state == RANK_RUNNING) {
            r->state = state;
            r->code = code;
        }
    }
    if (node->agent_up && node->session != 0) {
        rig_beat(rig, index);
    }
}

void rig_end_all(struct rig *rig, uint32_t job, uint8_t state, int32_t code)
{
    const struct job *j = core_job(rig->core, job);
    uint32_t count = j->slot_count;
    uint32_t nodes[RIG_NODES_MAX];
    CHECK(count <= RIG_NODES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        nodes[i] = rig_node_of(rig, job, i);
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < RIG_RANKS; k++) {
            rig_end_rank(rig, nodes[i], k, state, code);
        }
    }
}

void rig_tell(struct rig *rig, uint32_t job, uint32_t rank,
              const struct communicator_report *communicators, uint32_t count)
{
    const uint32_t index = rig_node_of(rig, job, rank / RIG_RANKS);
    struct rig_told *told = &rig->nodes[index].told[rank % RIG_RANKS];
    memset(told, 0, sizeof *told);
    told->next_ms = rig->now_ms;
    told->detail.job = job;
    told->detail.attempt = core_job(rig->core, job)->d.attempt;
    told->detail.rank = rank;
    told->detail.communicator_count = count;
    memcpy(told->detail.communicators, communicators, count * sizeof communicators[0]);
}

void rig_save(struct rig *rig, uint32_t job, uint64_t step)
{
    const struct job *j = core_job(rig->core, job);
    struct message m = {.kind = MSG_CHECKPOINT};
    struct msg_checkpoint *u = &m.u.checkpoint;
    uint32_t slots = j->slot_count;
    u->job = job;
    u->attempt = j->d.attempt;
    u->step = step;
    u->shard_count = slots * RIG_RANKS;
    u->parts = 31;
    text_format(u->directory, PATH_SIZE, "/ckpt/step-%llu.a-%u", (unsigned long long)step,
                u->attempt);
    uint32_t writer = rig_node_of(rig, job, 0);
    u->kind = CHECKPOINT_BEGIN;
    rig_send_sure(rig, writer, &m);
    u->kind = CHECKPOINT_COMMIT;
    u->bytes = 1000;
    text_copy(u->hash, HASH_TEXT_SIZE, "0123456789abcdef0123456789abcdef");
    rig_send_sure(rig, writer, &m);
}
