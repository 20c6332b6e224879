/* show_checkpoint.c: checkpoints as JSON: what they are, what they lack, who reads them now. */
#include <string.h>

#include "controller/api/show.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

enum { SKIPPED_SHOWN_MAX = 32 }; /* of one recovery */

static json_t *part_words(uint32_t parts)
{
    static const struct {
        uint32_t bit;
        const char *word;
    } words[] = {
        {PART_WEIGHTS, "weights"},
        {PART_OPTIMIZER, "optimizer"},
        {PART_SCHEDULER, "scheduler"},
        {PART_DATA, "data"},
        {PART_RNG, "rng"},
    };
    json_t *list = json_array();
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if ((parts & words[i].bit) != 0) {
            json_array_append_new(list, json_string(words[i].word));
        }
    }
    return list;
}

/* What a checkpoint has, and lacks. One that does not say lacks nothing that we know of. */
void show_set_parts(json_t *object, uint32_t parts)
{
    json_object_set_new(object, "parts", part_words(parts));
    json_object_set_new(object, "missing_parts", part_words(parts != 0 ? PARTS_ALL & ~parts : 0));
}

/* How far a node is that reads it again or removes it; null when nobody does. */
static json_t *errand_of(const struct core *core, const struct job *job,
                         const struct record_image_checkpoint *d)
{
    const struct save_errand *work = job != NULL ? &job->saves.work : NULL;
    if (work == NULL || work->nonce == 0 || work->step != d->step || work->attempt != d->attempt) {
        return json_null();
    }
    json_t *object = json_object();
    show_set_text(object, "task", work->task == SAVE_VERIFY ? "verify" : "remove");
    json_object_set_new(object, "node", show_node_name(core, work->node));
    show_set_number(object, "bytes", work->bytes);
    show_set_number(object, "bytes_done", work->bytes_done);
    return object;
}

json_t *show_checkpoint(const struct checkpoint *checkpoint, const struct core *core)
{
    json_t *object = json_object();
    const struct record_image_checkpoint *d = &checkpoint->d;
    const struct job *job = core_job(core, d->job);
    show_set_number(object, "step", d->step);
    show_set_number(object, "attempt", d->attempt);
    show_set_text(object, "state", WORD(checkpoint_state, d->state));
    json_object_set_new(object, "job", job != NULL ? show_text(job->d.name) : json_null());
    json_object_set_new(object, "time", show_time(d->at_wall_ms));
    show_set_number(object, "shards", d->shards);
    show_set_number(object, "bytes", d->bytes);
    json_object_set_new(object, "took_seconds", show_seconds(d->took_ms));
    json_object_set_new(object, "stall_seconds", show_seconds(d->stall_ms));
    show_set_text(object, "hash", d->hash);
    show_set_text(object, "directory", d->directory);
    show_set_text(object, "note", d->note);
    show_set_parts(object, d->parts);
    json_object_set_new(object, "pinned_by",
                        d->pinned_by[0] != '\0' ? show_text(d->pinned_by) : json_null());
    show_set_text(object, "pinned_why", d->pinned_why);
    json_object_set_new(object, "errand", errand_of(core, job, d));
    return object;
}

/* The checkpoints that the plan passed over, newest first, each with its reason. */
json_t *show_skipped(const struct core *core, const struct recovery *recovery)
{
    json_t *list = json_array();
    uint64_t below = UINT64_MAX;
    const struct checkpoint *next;
    do {
        const struct checkpoint *one;
        next = NULL;
        for (uint32_t i = 0; (one = core_checkpoint_at(core, i)) != NULL; i++) {
            if (core_recovery_skipped(recovery, one) && one->d.step < below &&
                (next == NULL || one->d.step > next->d.step)) {
                next = one;
            }
        }
        if (next != NULL) {
            json_t *object = json_object();
            below = next->d.step;
            show_set_number(object, "step", next->d.step);
            show_set_number(object, "attempt", next->d.attempt);
            show_set_text(object, "state", WORD(checkpoint_state, next->d.state));
            show_set_text(object, "note", next->d.note);
            json_array_append_new(list, object);
        }
    } while (next != NULL && json_array_size(list) < SKIPPED_SHOWN_MAX);
    return list;
}
