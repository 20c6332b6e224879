/* core_rig_saves.c: the folder of checkpoints of a rig, as its agents tell of it. */
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig_parts.h"

struct rig_save *rig_lay(struct rig *rig, uint64_t step, uint32_t attempt)
{
    CHECK(rig->save_count < RIG_SAVES_MAX);
    struct rig_save *save = &rig->saves[rig->save_count++];
    memset(save, 0, sizeof *save);
    save->step = step;
    save->attempt = attempt;
    save->written_ms = rig->now_ms;
    text_format(save->hash, HASH_TEXT_SIZE, "%016llx%016x", (unsigned long long)step, attempt);
    text_format(save->directory, PATH_SIZE, "/ckpt/step-%llu", (unsigned long long)step);
    return save;
}

static void say_save(struct rig *rig, const struct rig_node *node, const struct msg_save_ask *ask,
                     const struct msg_save_said *said)
{
    struct message m = {.kind = MSG_SAVE_SAID};
    m.u.save_said = *said;
    m.u.save_said.nonce = ask->nonce;
    m.u.save_said.job = ask->job;
    rig_send(rig, (uint32_t)(node - rig->nodes), &m);
}

static void say_found(struct rig *rig, const struct rig_node *node, const struct msg_save_ask *ask,
                      const struct rig_save *save)
{
    struct msg_save_said said = {.word = SAVE_FOUND,
                                 .ok = !save->spoilt,
                                 .step = save->step,
                                 .attempt = save->attempt,
                                 .parts = save->parts,
                                 .files = 2,
                                 .bytes = 1000,
                                 .age_ms = rig->now_ms - save->written_ms};
    text_copy(said.hash, HASH_TEXT_SIZE, save->hash);
    text_copy(said.directory, PATH_SIZE, save->directory);
    text_copy(said.text, TEXT_SIZE, save->text);
    say_save(rig, node, ask, &said);
}

/* Newest first. */
static void say_all(struct rig *rig, const struct rig_node *node, const struct msg_save_ask *ask)
{
    uint64_t below = UINT64_MAX;
    for (uint32_t n = 0; n < rig->save_count; n++) {
        uint64_t next = 0;
        for (uint32_t i = 0; i < rig->save_count; i++) {
            uint64_t place = rig->saves[i].step * 1000 + rig->saves[i].attempt;
            next = place < below && place > next ? place : next;
        }
        for (uint32_t i = 0; i < rig->save_count; i++) {
            if (rig->saves[i].step * 1000 + rig->saves[i].attempt == next) {
                say_found(rig, node, ask, &rig->saves[i]);
            }
        }
        below = next;
    }
}

static struct rig_save *save_of(struct rig *rig, const struct msg_save_ask *ask)
{
    for (uint32_t i = 0; i < rig->save_count; i++) {
        if (rig->saves[i].step == ask->step && rig->saves[i].attempt == ask->attempt) {
            return &rig->saves[i];
        }
    }
    return NULL;
}

void rig_obey_save(struct rig *rig, struct rig_node *node, const struct msg_save_ask *ask)
{
    struct msg_save_said done = {.word = SAVE_DONE, .error = rig->save_error, .ok = true};
    bool list = ask->task == SAVE_LIST;
    rig->listings += list ? 1 : 0;
    rig->errands += list ? 0 : 1;
    rig->save_ask = list ? rig->save_ask : *ask;
    if (rig->save_silent) {
        return;
    }
    if (rig->save_error != 0) {
        text_copy(done.text, TEXT_SIZE, "storage is sick");
    } else if (list) {
        if ((uint32_t)(node - rig->nodes) + 1 != rig->save_blind) {
            say_all(rig, node, ask);
        }
        text_copy(done.directory, PATH_SIZE, rig->save_place);
    } else {
        struct rig_save *save = save_of(rig, ask);
        done.ok = save != NULL && !save->corrupt;
        text_copy(done.text, TEXT_SIZE, done.ok ? "" : "shard-00001.bin: its hash is wrong");
        if (ask->task == SAVE_REMOVE && save != NULL) {
            *save = rig->saves[--rig->save_count];
        }
    }
    say_save(rig, node, ask, &done);
}

/* ---- the writers ---------------------------------------------------------------------------- */

static struct rig_attempt *writer_of(struct rig_node *node)
{
    for (uint32_t i = 0; i < node->attempt_count; i++) {
        struct rig_attempt *a = &node->attempts[i];
        bool runs = a->report.rank_count > 0 && a->report.ranks[0].state == RANK_RUNNING;
        if (a->report.first_rank == 0 && runs && a->stop_at_ms == 0) {
            return a;
        }
    }
    return NULL;
}

/* A message that finds no controller is sent again at the next tick, as agents do. */
void rig_write(struct rig *rig, uint32_t index)
{
    struct rig_node *node = &rig->nodes[index];
    struct rig_attempt *a = writer_of(node);
    bool ends = a != NULL && a->save_end_ms != 0 && rig->now_ms >= a->save_end_ms;
    bool begins = a != NULL && a->save_end_ms == 0 && a->save_asked > a->save_begun &&
                  a->report.ranks[0].phase == PHASE_STEP;
    if (rig->save_takes_ms == 0 || node->session == 0 || rig->dead || !(ends || begins)) {
        return;
    }
    struct message m = {.kind = MSG_CHECKPOINT};
    struct msg_checkpoint *u = &m.u.checkpoint;
    u->kind = ends ? CHECKPOINT_COMMIT : CHECKPOINT_BEGIN;
    u->job = a->report.job;
    u->attempt = a->report.attempt;
    u->step = ends ? a->save_step : a->report.ranks[0].step;
    u->shard_count = a->world;
    u->parts = 31;
    u->bytes = ends ? 1000 : 0;
    u->stall_ms = ends ? rig->save_stall_ms : 0;
    text_format(u->hash, HASH_TEXT_SIZE, "%016llx%016x", (unsigned long long)u->step, u->attempt);
    text_format(u->directory, PATH_SIZE, "/ckpt/step-%llu.a-%u", (unsigned long long)u->step,
                u->attempt);
    rig_send(rig, index, &m);
    a = writer_of(node); /* what it led to may have moved it */
    if (!rig->dead && a != NULL && a->report.attempt == u->attempt) {
        a->save_begun = a->save_asked;
        a->save_end_ms = ends ? 0 : rig->now_ms + rig->save_takes_ms;
        a->save_step = u->step;
    }
}
