/* show.c: the state of a scenario as text. */
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"
#include "tests/scenario/play.h"

static const char *name_of(const struct rig *rig, uint32_t node)
{
    return node == 0 ? "-" : core_node(rig->core, node)->d.name;
}

static void marks_of(const struct rig *rig, uint32_t node, char text[TEXT_SIZE])
{
    text[0] = '\0';
    for (uint32_t i = 0; i < core_mark_count(rig->core, node); i++) {
        const struct record_image_mark *d = &core_mark(rig->core, node, i)->d;
        size_t used = strlen(text);
        text_format(text + used, TEXT_SIZE - used, " %s/%s", WORD(mark_owner, d->owner), d->code);
    }
}

static void holders_of(const struct rig *rig, const struct job *job, char text[TEXT_SIZE])
{
    text[0] = '\0';
    for (uint32_t i = 0; i < job->slot_count; i++) {
        size_t used = strlen(text);
        text_format(text + used, TEXT_SIZE - used, " %s",
                    name_of(rig, core_slot(rig->core, job, i)->d.node));
    }
}

/* What was chosen for it, where its file says auto, and whether it lacks spares. */
static void show_choices(struct play *play, const struct job *job)
{
    if (job->d.interval_ms != 0) {
        play_say(play, "%s: a save each %llu ms: %u measured, stall %llu ms, save %llu ms, %u %s",
                 job->d.name, (unsigned long long)job->d.interval_ms, job->d.interval_saves,
                 (unsigned long long)job->d.interval_stall_ms,
                 (unsigned long long)job->d.interval_save_ms, job->d.interval_failures,
                 job->d.interval_failures == 1 ? "failure" : "failures");
    }
    if (job->d.reserve_service_ms != 0) {
        play_say(play, "%s: keeps %u: %u lost, away %llu ms", job->d.name, job->d.reserve_wanted,
                 job->d.reserve_losses, (unsigned long long)job->d.reserve_away_ms);
    }
    if (job->d.spares_low) {
        struct core_spares spares;
        core_spares(play->rig->core, job, &spares);
        play_say(play, "%s: spares low, %u ready, %u wanted", job->d.name, spares.ready,
                 spares.wanted);
    }
}

static void show_job(struct play *play, const struct job *job)
{
    char holders[TEXT_SIZE];
    const struct recovery *recovery = core_recovery(play->rig->core, job->d.recovery);
    holders_of(play->rig, job, holders);
    play_say(play, "%s: %s%s%s%s%s, attempt %u, step %llu%s%s", job->d.name,
             WORD(job_state, job->d.state), recovery != NULL ? " in " : "",
             recovery != NULL ? WORD(phase, recovery->d.phase) : "",
             job->d.reason[0] != '\0' ? ": " : "", job->d.reason, job->d.attempt,
             (unsigned long long)job->step, holders[0] != '\0' ? "; slots" : "", holders);
    if (job->would[0] != '\0') {
        play_say(play, "%s: would %s", job->d.name, job->would);
    }
    if (job->waiting_spare && job->d.state == JOB_RECOVERING) {
        play_say(play, "%s: waits, %s", job->d.name, job->wait_text);
    }
    show_choices(play, job);
}

void show_state(struct play *play)
{
    const struct rig *rig = play->rig;
    const struct job *job;
    char spares[TEXT_SIZE] = "";
    if (core_held(rig->core)) {
        play_say(play, "automation held: %s", core_held_text(rig->core));
    }
    if (core_globals(rig->core)->breaker_open) {
        play_say(play, "breaker open");
    }
    for (uint32_t i = 0; (job = core_job_at(rig->core, i)) != NULL; i++) {
        show_job(play, job);
    }
    for (uint32_t id = 1; id <= core_node_count(rig->core); id++) {
        const struct node *node = core_node(rig->core, id);
        char marks[TEXT_SIZE];
        bool star = false;
        if (node->d.removed) {
            continue;
        }
        const char *state = core_node_state_word(rig->core, node, &star);
        const char *role = core_node_role_word(rig->core, node);
        marks_of(rig, id, marks);
        if (text_equal(role, "spare") && text_equal(state, "healthy")) {
            size_t used = strlen(spares);
            text_format(spares + used, sizeof spares - used, " %s%s", node->d.name,
                        node->d.life == NODE_PROBATION ? " (probation)" : "");
        } else if (node->d.repair != REPAIR_NONE) {
            play_say(play, "%s: %s%s, %s%s%s; repair %s: %s", node->d.name, state, star ? "*" : "",
                     role, marks[0] != '\0' ? ", marks" : "", marks,
                     WORD(repair_state, node->d.repair), node->d.repair_text);
        } else if (marks[0] != '\0' || star || !text_equal(state, "healthy")) {
            play_say(play, "%s: %s%s, %s%s%s", node->d.name, state, star ? "*" : "", role,
                     marks[0] != '\0' ? ", marks" : "", marks);
        }
    }
    play_say(play, "spares:%s", spares[0] != '\0' ? spares : " none");
    struct record_image_foreign d;
    const struct foreign *foreign;
    for (uint32_t i = 0; (foreign = core_foreign_at(rig->core, i)) != NULL; i++) {
        d = foreign->d;
        play_say(play, "foreign: job %u attempt %u on %s%s", d.job, d.attempt, name_of(rig, d.node),
                 d.resolved ? ", resolved" : "");
    }
}

void show_outcome(const struct rig *rig, struct buf *buf)
{
    const struct job *job;
    char text[TEXT_SIZE];
    int code = 0;
    for (uint32_t i = 0; code == 0 && (job = core_job_at(rig->core, i)) != NULL; i++) {
        holders_of(rig, job, text);
        code = buf_printf(buf, "%s: %s, attempt %u, slots%s\n", job->d.name,
                          WORD(job_state, job->d.state), job->d.attempt, text);
    }
    for (uint32_t i = 0; code == 0 && i < rig->node_count; i++) {
        uint32_t id = core_node_find(rig->core, rig->nodes[i].name);
        text[0] = '\0';
        if (id != 0) {
            marks_of(rig, id, text);
        }
        code = buf_printf(buf, "%s: %llu processes started, marks%s%s\n", rig->nodes[i].name,
                          (unsigned long long)rig->starts[i], text,
                          rig->fences[i] > 0 ? ", cut off by the hook" : "");
        const struct node *node = core_node(rig->core, id);
        if (code == 0 && node != NULL && node->d.repair_try > 0) {
            code = buf_printf(buf, "%s: repair %s, %s, %u tried\n", rig->nodes[i].name,
                              WORD(repair_state, node->d.repair),
                              WORD(repair_lane, node->d.repair_lane), rig->repairs[i]);
        }
    }
    CHECK(code == 0);
}
