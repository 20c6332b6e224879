"""planted.py: mistakes in the cores that would harm a running job, one line each."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Planted:
    """old: in the file at `path` exactly once; new: what stands there instead."""

    name: str
    path: str
    old: str
    new: str


CONTROLLER = "controller/core/"
AGENT = "agent/core/"
PLANTED = (
    Planted("a new attempt does not wait until the old one is gone or fenced",
            CONTROLLER + "recovery.c",
            "all = all && (slot->gone || (fenced && !node_fence_waits(core, node)));",
            "all = all && (slot->gone || !fenced || !node_fence_waits(core, node));"),
    Planted("a node is fenced though the breaker says that the silence may be ours",
            CONTROLLER + "recovery.c",
            "bool blocked = core->g.breaker_open || core_held(core) || !core_ready(core);",
            "bool blocked = core_held(core) || !core_ready(core);"),
    Planted("uncordon takes everybody's marks away",
            CONTROLLER + "request_nodes.c",
            'mark_clear(core, node, MARK_OPERATOR, "drain", request->actor, request->reason);',
            "for (uint8_t owner = 0; owner < mark_owner_count; owner++) {\n"
            '        mark_clear(core, node, owner, "drain", request->actor, request->reason);\n'
            '        mark_clear(core, node, owner, "probation", request->actor, "");\n'
            '        mark_clear(core, node, owner, "unproven", request->actor, "");\n'
            "    }"),
    # That a marked node is not `usable` is a second lock: node_settle() has put it out before.
    Planted("a node that is marked to leave keeps its slot in the next attempt",
            CONTROLLER + "plan.c",
            "(node_leaves(core, node, &when) && when != WHEN_JOB_END);",
            "(node_leaves(core, node, &when) && when == WHEN_CHECKPOINT);"),
    Planted("a node on which an old attempt still runs is given a slot",
            CONTROLLER + "view.c",
            "!node->set_aside && report_empty(node) && !node_marked(core, node);",
            "!node->set_aside && !node_marked(core, node);"),
    Planted("a spare that was given away stays on the list",
            CONTROLLER + "layout.c",
            "        *count -= 1;\n"
            "        memmove(&list[position], &list[position + 1], "
            "(*count - position) * sizeof(list[0]));\n",
            ""),
    Planted("off by one in the layout",
            CONTROLLER + "layout.c",
            "ret_digits->stride[index] = stride;",
            "ret_digits->stride[index] = stride + (index == 2 ? 1 : 0);"),
    Planted("a checkpoint that is still being written is restored",
            CONTROLLER + "view.c",
            "checkpoint->d.state == CKPT_VERIFIED ||",
            "checkpoint->d.state == CKPT_VERIFIED || checkpoint->d.state == CKPT_WRITING ||"),
    Planted("an older checkpoint is restored",
            CONTROLLER + "view.c",
            "bool newer = best == NULL || one->d.step > best->d.step ||",
            "bool newer = best == NULL || one->d.step < best->d.step ||"),
    Planted("a late save of an old attempt is committed",
            CONTROLLER + "checkpoint.c",
            "if (!job->d.attempted || message->attempt != job->d.attempt || !job->d.launched) {",
            "if (!job->d.attempted || message->attempt > job->d.attempt) {"),
    Planted("replay forgets what the budget has paid",
            CONTROLLER + "fold_job.c",
            "    } else if (u->owner == OWNER_USER) {\n        job->d.used_user = u->used;",
            "    } else if (u->owner == OWNER_USER && core->started) {\n"
            "        job->d.used_user = u->used;"),
    Planted("the breaker opens for a single node",
            CONTROLLER + "link.c",
            "limit = limit > BREAKER_FLOOR ? limit : BREAKER_FLOOR;",
            "limit = limit > 0 ? limit : 0;"),
    Planted("the breaker for silence never opens",
            CONTROLLER + "link.c",
            "        if (!local) {\n            core->quiet_ms = 0;",
            "        if (!local && core->g.paused) {\n            core->quiet_ms = 0;"),
    Planted("a late report of a replaced node is obeyed",
            CONTROLLER + "report.c",
            "node->d.job == job->d.job && report->attempt == job->d.attempt && job->d.launched;",
            "report->attempt <= job->d.attempt && job->d.launched;"),
    Planted("silence of a node whose ranks ended well ends the job",
            CONTROLLER + "job.c",
            "return job->slots_done > 0 && core->t < job->end_ms + core->config.end_grace_ms;",
            "return false;"),
    Planted("an earlier start of an agent wins",
            CONTROLLER + "node.c",
            "if (same_boot && hello->incarnation < node->d.incarnation) {",
            "if (same_boot && hello->incarnation > node->d.incarnation &&\n"
            "        node->d.incarnation != 0) {"),
    Planted("the job succeeds before its last slot is done",
            CONTROLLER + "job.c",
            "    bool done = job->slot_count > 0 && job->slots_done == job->slot_count;",
            "    bool done = job->slot_count > 0 && job->slots_done + 1 >= job->slot_count;"),
    Planted("whoever runs what an old store does not know is told to stop",
            CONTROLLER + "desired.c",
            "if (job->d.quarantined || node->set_aside || core->old_store || !job->d.attempted ||",
            "if (job->d.quarantined || node->set_aside || !job->d.attempted ||"),
    Planted("the agent obeys a controller whose term is over",
            AGENT + "agent_order.c",
            "    if (desired->term < core->term) {",
            "    if (desired->term + 1 < core->term) {"),
    Planted("the agent starts an attempt that was stopped before",
            AGENT + "agent_order.c",
            "    if (desired->attempt >= floor) {",
            "    if (desired->attempt + 1 >= floor) {"),
)
