/* show_choices.c: what is chosen for a job as JSON: how often it saves, how many spares it keeps; who
 * decides, what that was concluded from, and what the best choice would be now. */
#include "controller/api/show.h"
#include "proto/base/text.h"

static json_t *seconds_or_null(uint64_t ms)
{
    return ms > 0 ? show_seconds(ms) : json_null();
}

static json_t *part(uint32_t ppm)
{
    return json_real((double)ppm / 1e6);
}

/* The choice that is in force, and its inputs as they were when it was made. */
static json_t *chosen_interval(const struct record_image_job *d)
{
    if (!d->save_auto || d->interval_ms == 0) {
        return json_null();
    }
    json_t *object = json_object();
    json_object_set_new(object, "seconds", show_seconds(d->interval_ms));
    show_set_number(object, "saves", d->interval_saves);
    json_object_set_new(object, "stall_seconds", show_seconds(d->interval_stall_ms));
    json_object_set_new(object, "save_seconds", show_seconds(d->interval_save_ms));
    show_set_number(object, "failures", d->interval_failures);
    json_object_set_new(object, "observed_seconds", show_seconds(d->interval_span_ms));
    json_object_set_new(object, "failure_gap_seconds", show_seconds(d->interval_gap_ms));
    return object;
}

json_t *show_interval(const struct core *core, const struct job *job)
{
    struct core_interval now;
    core_interval(core, job, &now);
    json_t *object = json_object();
    bool known = now.cost_ppm > 0;
    show_set_text(object, "origin", WORD(choice_origin, now.origin));
    json_object_set_new(object, "seconds", seconds_or_null(now.each_ms));
    json_object_set_new(object, "asks", json_boolean(now.asks));
    json_object_set_new(object, "chosen", chosen_interval(&job->d));
    show_set_number(object, "saves", now.saves);
    json_object_set_new(object, "stall_seconds", show_seconds(now.stall_ms));
    json_object_set_new(object, "save_seconds", show_seconds(now.save_ms));
    show_set_number(object, "failures", now.failures);
    json_object_set_new(object, "observed_seconds", show_seconds(now.span_ms));
    json_object_set_new(object, "failure_gap_seconds", show_seconds(now.gap_ms));
    json_object_set_new(object, "best_seconds", seconds_or_null(now.best_ms));
    json_object_set_new(object, "cost", known ? part(now.cost_ppm) : json_null());
    json_object_set_new(object, "best_cost",
                        now.best_cost_ppm > 0 ? part(now.best_cost_ppm) : json_null());
    bool gains = known && now.cost_ppm > now.best_cost_ppm;
    json_object_set_new(object, "gain",
                        known ? part(gains ? now.cost_ppm - now.best_cost_ppm : 0) : json_null());
    return object;
}

static json_t *chosen_reserve(const struct record_image_job *d)
{
    if (!d->reserve_auto || d->reserve_service_ms == 0) {
        return json_null();
    }
    json_t *object = json_object();
    show_set_number(object, "count", d->reserve_wanted);
    show_set_number(object, "losses", d->reserve_losses);
    json_object_set_new(object, "observed_seconds", show_seconds(d->reserve_span_ms));
    json_object_set_new(object, "node_gap_seconds", show_seconds(d->reserve_gap_ms));
    json_object_set_new(object, "away_seconds", show_seconds(d->reserve_away_ms));
    return object;
}

json_t *show_spares(const struct core_spares *spares, const struct job *job)
{
    json_t *object = json_object();
    show_set_text(object, "origin", WORD(choice_origin, spares->origin));
    show_set_number(object, "reserve", spares->reserve);
    show_set_number(object, "wanted", spares->wanted);
    show_set_number(object, "ready", spares->ready);
    json_object_set_new(object, "low", json_boolean(spares->low));
    json_object_set_new(object, "chosen", chosen_reserve(&job->d));
    show_set_number(object, "best", spares->best);
    show_set_number(object, "losses", spares->losses);
    json_object_set_new(object, "observed_seconds", show_seconds(spares->span_ms));
    json_object_set_new(object, "node_gap_seconds", show_seconds(spares->gap_ms));
    json_object_set_new(object, "away_seconds", show_seconds(spares->away_ms));
    return object;
}

/* Of a job that is to have spares, or of which it was said that it lacks some. */
void show_add_protected(json_t *conditions, const struct core_spares *spares)
{
    char text[TEXT_SIZE];
    if (!spares->keeps || (spares->wanted == 0 && !spares->low)) {
        return;
    }
    core_spares_say(spares->low, spares->ready, spares->wanted, text);
    show_condition(conditions, "Protected", !spares->low, spares->low ? "SparesLow" : "SparesReady",
                   text);
}
