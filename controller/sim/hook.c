/* hook.c: the site's programs that mend nodes.
 *
 * Each start of an order runs for a while and then works, or does not; a reboot that works is one. As
 * a good hook does, a second start of the same order joins the first one while that runs, and the
 * answer goes to whoever asked last: to nobody, when that controller is dead by then. */
#include "controller/sim/world.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

enum { HOOK_WORKS_PPM = 600000, HOOK_LEAST_MS = 500, HOOK_MOST_MS = 120000 };

static struct sim_host *host_of(struct sim *sim, const struct action *action)
{
    const struct node *node = core_node(sim->ctl.core, action->node);
    for (uint32_t index = 0; node != NULL && index < sim->host_count; index++) {
        if (text_equal(sim->hosts[index].name, node->d.name)) {
            return &sim->hosts[index];
        }
    }
    return NULL;
}

void hook_start(struct sim *sim, const struct action *action)
{
    struct sim_host *host = host_of(sim, action);
    CHECK(host != NULL);
    struct sim_hook *hook = &host->hook;
    const bool joins = hook->order == action->u.repair.order && sim->now_ms < hook->end_ms;
    hook->asker = sim->ctl.life;
    hook->node = action->node;
    if (joins) {
        return;
    }
    hook->order = action->u.repair.order;
    hook->hook = action->u.repair.hook;
    hook->works = sim_chance(sim, HOOK_WORKS_PPM);
    hook->end_ms = sim->now_ms + sim_between(sim, HOOK_LEAST_MS, HOOK_MOST_MS);
    sim_at(sim, hook->end_ms,
           (struct sim_event){
               .kind = SIM_EV_HOOK, .host = (uint32_t)(host - sim->hosts), .id = hook->order});
}

void hook_end(struct sim *sim, const struct sim_event *event)
{
    struct sim_host *host = &sim->hosts[event->host];
    const struct sim_hook *hook = &host->hook;
    if (event->id != hook->order) {
        return; /* of a node that was removed meanwhile, whose numbers began anew */
    }
    sim_trace(sim, "hook %s of %s %s", WORD(repair_hook, hook->hook), host->name,
              hook->works ? "works" : "fails");
    if (hook->works && hook->hook == HOOK_REBOOT) {
        host_down(sim, event->host, sim_between(sim, 1000, 60000), false, "rebooted by its hook");
    } else if (hook->works) {
        host->bad_check = false;
    }
    if (sim->ctl.running && sim->ctl.life == hook->asker) {
        ctl_input(sim, SIM_IN_REPAIRED, (uint64_t)hook->node << 32 | hook->order, hook->works,
                  NULL);
    }
}
