/* goodput_form.c: what theory expects, for comparison. Never in the path of events.
 *
 * With failures as a Poisson process of mean gap M, work tau between saves, a stall w for each, and L
 * from a save's begin until it is durable, a failure costs its detection D, the restart R, and on
 * average the work of L + tau/2 done again; the stall costs w/(tau + w) of what is left (Daly 2006, to
 * first order, and Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research
 * Clusters", HPCA 2025, with the stall and L added). A failure during a restart makes that part
 * happen again: R becomes M (e^(R/M) - 1), of which two terms are kept. */
#include "controller/sim/goodput.h"

static double restart_ms(const struct goodput_options *o, const struct goodput_category *category)
{
    double stop = category->how == GOODPUT_EXIT ? 0 : o->stop_ms;
    double plan = category->how == GOODPUT_PLANNED ? 0 : o->plan_ms;
    return stop + plan + o->launch_ms + o->init_ms + o->load_ms;
}

void goodput_form(const struct goodput_options *options, struct goodput_form *ret_form)
{
    double step_ms = options->step_ms;
    double tau = goodput_interval(options) * step_ms;
    double slots = options->nodes - options->spares;
    double day_ms = 86400e3;
    double rate = (double)options->failures_ppm / 1e6 * slots / day_ms; /* a ms */
    double drain_rate = (double)options->drains_ppm / 1e6 * slots / day_ms;
    double all = 0;
    double lost = 0;
    *ret_form = (struct goodput_form){0};
    for (uint32_t i = 0; i < options->category_count; i++) {
        all += options->category[i].how == GOODPUT_PLANNED ? 0 : options->category[i].count;
    }
    for (uint32_t i = 0; i < options->category_count; i++) {
        const struct goodput_category *category = &options->category[i];
        bool planned = category->how == GOODPUT_PLANNED;
        double restart = restart_ms(options, category);
        double often = planned ? drain_rate : rate * category->count / all;
        /* A corruption is found while steps go on: its detection is work done again. A planned stop
         * waits for its save and takes back nothing. */
        double redo = planned ? 0 : options->save_ms + tau / 2;
        double detect = planned ? options->save_ms : category->detect_ms;
        double down = detect + restart * (1 + rate * restart / 2);
        ret_form->cost[i] = often * (redo + down);
        lost += ret_form->cost[i];
    }
    ret_form->goodput = (1 - lost) / (1 + options->stall_ms / tau);
    ret_form->stall = 1 - lost - ret_form->goodput;
}
