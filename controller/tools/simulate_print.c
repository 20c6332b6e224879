/* simulate_print.c: what was assumed, and what came of it: for people, and as JSON. */
#include <string.h>

#include "controller/tools/simulate.h"
#include "proto/base/duration.h"

static void print_time(const char *label, uint64_t ms)
{
    char text[DURATION_TEXT_SIZE];
    duration_format(ms, text);
    (void)printf("%s %s", label, text);
}

static uint64_t mean_gap_ms(const struct goodput_options *options)
{
    uint64_t slots = options->nodes - options->spares;
    return options->failures_ppm == 0 ? 0 : 86400000ull * 1000000 / options->failures_ppm / slots;
}

static void print_how_failures_come(const struct goodput_options *options)
{
    if (options->given != NULL) {
        (void)printf("  failures     %u, as given\n", options->given_count);
        return;
    }
    (void)printf("  failures     %s",
                 options->bursts ? "in bursts (Weibull, shape 0.7)" : "Poisson");
    print_time(", one every", mean_gap_ms(options));
    (void)printf("; planned drains %.2f a day\n",
                 (double)options->drains_ppm / 1e6 * (options->nodes - options->spares));
    if (options->lost_ppm > 0) {
        (void)printf("               %.0f%% of the signs never arrive\n", options->lost_ppm / 1e4);
    }
    if (options->lemons) {
        (void)printf("               nodes differ (lognormal, 0.75); %.0f%% take 8 hosts at once; "
                     "%.0f%% come again after the repair\n",
                     options->together_ppm / 1e4, options->repeat_ppm / 1e4);
    }
}

void simulate_print_assumptions(const struct simulate *simulate)
{
    const struct goodput_options *o = &simulate->options;
    (void)printf("preset %s: %u nodes, %u of them spare, %u rank%s a node, %llu days",
                 simulate->preset, o->nodes, o->spares, o->ranks_per_node,
                 o->ranks_per_node == 1 ? "" : "s", (unsigned long long)(o->wall_ms / 86400000));
    (void)printf(", seeds %llu..%llu\nassumed:\n", (unsigned long long)simulate->first_seed,
                 (unsigned long long)(simulate->first_seed + simulate->seeds - 1));
    print_time("  program      step", o->step_ms);
    print_time(", init", o->init_ms);
    print_time(", load", o->load_ms);
    print_time("\n  saves        stall", o->stall_ms);
    print_time(", durable after", o->save_ms);
    (void)printf(", every %u steps%s\n", goodput_interval(o),
                 o->interval_steps == 0 ? " (auto)" : "");
    print_time("  recovery     ranks end in", o->stop_ms);
    print_time(", evidence closed", o->plan_ms);
    print_time(" after, launch", o->launch_ms);
    (void)printf("\n");
    print_how_failures_come(o);
    print_time("  repair       ", o->repair_ms);
    (void)printf("%s\n", o->repair_ms != 0 ? " for every node"
                         : o->repair_drawn ? " = by kind, drawn (lognormal), parts in 7 to 14 days"
                                           : " = by kind: 1 h to 48 h");
    print_time("  person       releases a held job after", o->person_ms);
    (void)printf(
        "\n               a rank that a watchdog ends is cured by its restart; the program "
        "skips saves\n               that it found to be corrupt by itself\n");
}

/* ---- one setting --------------------------------------------------------------------------- */

static double percent(uint64_t ms, const struct goodput_result *sum)
{
    return 100.0 * (double)ms / (double)sum->wall_ms;
}

static uint64_t cost_ms(const struct goodput_cost *cost)
{
    return cost->redo_ms + cost->detect_ms + cost->down_ms;
}

static void print_causes(const struct simulate_point *point)
{
    const struct goodput_result *sum = &point->sum;
    (void)printf("\n%-22s %8s %9s %9s %9s %9s %9s %9s\n", "LOSS BY CAUSE", "COUNT", "REDO",
                 "DETECT", "RESTART", "ALL", "THEORY", "DIFF");
    for (uint32_t index = 0; index <= GOODPUT_CATEGORIES_MAX; index++) {
        const struct goodput_cost *cost = &sum->cost[index];
        bool known = index < point->options.category_count;
        if (cost->count == 0 && cost_ms(cost) == 0) {
            continue;
        }
        double theory = known ? 100.0 * point->form.cost[index] : 0;
        double all = percent(cost_ms(cost), sum);
        (void)printf("%-22s %8u %8.3f%% %8.3f%% %8.3f%% %8.3f%% %8.3f%% %+8.3f%%\n",
                     known ? point->options.category[index].word : "other", cost->count,
                     percent(cost->redo_ms, sum), percent(cost->detect_ms, sum),
                     percent(cost->down_ms, sum), all, theory, all - theory);
    }
    (void)printf("%-22s %8s %9s %9s %9s %8.3f%% %8.3f%% %+8.3f%%\n", "stall of saves", "", "", "",
                 "", percent(sum->stall_ms, sum), 100 * point->form.stall,
                 percent(sum->stall_ms, sum) - 100 * point->form.stall);
    (void)printf("%-22s %8s %9s %9s %9s %8.3f%%\n", "start, unfinished end", "", "", "", "",
                 percent(sum->start_ms + sum->unsettled_ms, sum));
}

/* Precision: of the nodes that left for failures of this kind, those that were at fault. Recall: of
 * the failures, those whose first verdict was what it should be. */
static void print_verdicts(const struct simulate_point *point)
{
    (void)printf("\n%-22s %8s %8s %9s %9s %9s\n", "VERDICTS", "JUDGED", "RIGHT", "RECALL",
                 "EVICTED", "PRECISION");
    for (uint32_t index = 0; index < point->options.category_count; index++) {
        const struct goodput_cost *cost = &point->sum.cost[index];
        if (cost->judged == 0 && cost->evicted == 0) {
            continue;
        }
        (void)printf("%-22s %8u %8u", point->options.category[index].word, cost->judged,
                     cost->right);
        if (cost->judged > 0) {
            (void)printf(" %8.1f%%", 100.0 * cost->right / cost->judged);
        } else {
            (void)printf(" %9s", "-");
        }
        (void)printf(" %9u", cost->evicted);
        if (cost->evicted > 0) {
            (void)printf(" %8.1f%%", 100.0 * cost->evicted_well / cost->evicted);
        } else {
            (void)printf(" %9s", "-");
        }
        (void)printf("\n");
    }
}

static void print_kinds(const struct goodput_result *sum)
{
    (void)printf("\nAS THE CONTROLLER BOOKED IT\n");
    uint32_t shown = 0;
    for (uint32_t kind = 0; kind < time_kind_count; kind++) {
        if (sum->booked_ms[kind] > 0) {
            shown++;
            (void)printf("  %-16s %7.3f%%%s", time_kind_words[kind],
                         100.0 * (double)sum->booked_ms[kind] / (double)sum->booked_wall_ms,
                         shown % 4 == 0 ? "\n" : "");
        }
    }
    (void)printf("%s", shown % 4 == 0 ? "" : "\n");
}

static void print_phase(const char *word, const struct goodput_phase *phase)
{
    (void)printf("  %-12s %6u %10.1fs %10.1fs\n", word, phase->count, phase->p50_ms / 1e3,
                 phase->p99_ms / 1e3);
}

static void print_phases(const struct goodput_result *sum)
{
    (void)printf("\nPHASES OF UNPLANNED RECOVERIES\n  %-12s %6s %11s %11s\n", "", "COUNT", "P50",
                 "P99");
    for (uint32_t phase = 0; phase < phase_count; phase++) {
        print_phase(phase_words[phase], &sum->phase[phase]);
    }
    print_phase("whole", &sum->total);
}

static void print_counts(const struct simulate_point *point)
{
    const struct goodput_result *sum = &point->sum;
    (void)printf("\n%u failures, %u drains, %u recoveries, %u failures during one\n", sum->failures,
                 sum->drains, sum->recoveries, sum->merged);
    (void)printf("%u false evictions, %u wrong verdicts, %u restores of a save that was suspect\n",
                 sum->false_evictions, sum->wrong_verdicts, sum->suspect_restores);
    (void)printf("%u manual interventions, %u nodes given back, spares at the lowest %u of %u\n",
                 sum->interventions, sum->returns, sum->spares_least, point->options.spares);
    (void)printf("%llu saves; %llu calls of core_step, %llu of the agents' core, %llu records "
                 "(%016llx), %llu beats\n",
                 (unsigned long long)sum->saves, (unsigned long long)sum->core_steps,
                 (unsigned long long)sum->agent_steps, (unsigned long long)sum->records,
                 (unsigned long long)sum->records_hash, (unsigned long long)sum->beats);
    (void)printf("%.3f%% of the time slept through in %llu stretches; %.1f s of processor\n",
                 percent(sum->slept_ms, sum), (unsigned long long)sum->sleeps, point->seconds);
}

void simulate_print_point(const struct simulate_point *point)
{
    (void)printf("\ngoodput  %.2f%%   (steps that stand x step time / wall; %u run%s: %.2f%% to "
                 "%.2f%%)\n",
                 100 * point->goodput, point->seeds, point->seeds == 1 ? "" : "s",
                 100 * point->least, 100 * point->most);
    (void)printf("theory   %.2f%%   (closed form), difference %+.2f points\n",
                 100 * point->form.goodput, 100 * (point->goodput - point->form.goodput));
    if (point->sum.ended) {
        (void)printf("the job FAILED before the end of a run: the rest of it counts as lost\n");
    }
    print_causes(point);
    print_verdicts(point);
    print_kinds(&point->sum);
    print_phases(&point->sum);
    print_counts(point);
}

/* ---- a sweep ------------------------------------------------------------------------------- */

struct parts {
    double redo;
    double detect;
    double restart;
};

static struct parts parts_of(const struct goodput_result *sum)
{
    struct parts parts = {0};
    for (uint32_t index = 0; index <= GOODPUT_CATEGORIES_MAX; index++) {
        parts.redo += percent(sum->cost[index].redo_ms, sum);
        parts.detect += percent(sum->cost[index].detect_ms, sum);
        parts.restart += percent(sum->cost[index].down_ms, sum);
    }
    return parts;
}

void simulate_print_sweep(const struct simulate *simulate, const struct simulate_point *points)
{
    uint32_t best = 0;
    for (uint32_t index = 1; index < simulate->sweep.count; index++) {
        best = points[index].goodput > points[best].goodput ? index : best;
    }
    (void)printf("\n%-16s %8s %8s %10s %8s %8s %11s %14s %7s\n", simulate->sweep.key, "GOODPUT",
                 "THEORY", "LOST WORK", "DETECT", "RESTART", "SAVE STALL", "WAIT FOR SPARE",
                 "SPARES");
    for (uint32_t index = 0; index < simulate->sweep.count; index++) {
        const struct simulate_point *point = &points[index];
        const struct goodput_result *sum = &point->sum;
        struct parts parts = parts_of(sum);
        double wait = 100.0 * (double)sum->booked_ms[TIME_WAIT_SPARE] / (double)sum->wall_ms;
        (void)printf("%-16s %7.2f%% %7.2f%% %9.2f%% %7.2f%% %7.2f%% %10.2f%% %13.2f%% %7u%s\n",
                     point->text, 100 * point->goodput, 100 * point->form.goodput, parts.redo,
                     parts.detect, parts.restart, percent(sum->stall_ms, sum), wait,
                     sum->spares_least, index == best ? "  <- best" : "");
    }
}

/* ---- JSON ---------------------------------------------------------------------------------- */

/* All words here are ours or numbers that were read: nothing needs to be escaped. */
static void json_costs(const struct simulate_point *point)
{
    bool first = true;
    (void)printf("\"loss_by_cause\":{");
    for (uint32_t index = 0; index <= GOODPUT_CATEGORIES_MAX; index++) {
        const struct goodput_cost *cost = &point->sum.cost[index];
        bool known = index < point->options.category_count;
        if (cost->count == 0 && cost_ms(cost) == 0) {
            continue;
        }
        (void)printf(
            "%s\"%s\":{\"count\":%u,\"redo_ms\":%llu,\"detect_ms\":%llu,\"restart_ms\":%llu,"
            "\"theory\":%.6f,\"judged\":%u,\"right\":%u,\"evicted\":%u,\"evicted_well\":%u}",
            first ? "" : ",", known ? point->options.category[index].word : "other", cost->count,
            (unsigned long long)cost->redo_ms, (unsigned long long)cost->detect_ms,
            (unsigned long long)cost->down_ms, known ? point->form.cost[index] : 0, cost->judged,
            cost->right, cost->evicted, cost->evicted_well);
        first = false;
    }
    (void)printf("},");
}

static void json_kinds(const struct goodput_result *sum)
{
    (void)printf("\"booked_ms\":{");
    for (uint32_t kind = 0; kind < time_kind_count; kind++) {
        (void)printf("%s\"%s\":%llu", kind == 0 ? "" : ",", time_kind_words[kind],
                     (unsigned long long)sum->booked_ms[kind]);
    }
    (void)printf("},\"phases\":{");
    for (uint32_t phase = 0; phase <= phase_count; phase++) {
        const struct goodput_phase *one = phase < phase_count ? &sum->phase[phase] : &sum->total;
        (void)printf("%s\"%s\":{\"count\":%u,\"p50_ms\":%u,\"p99_ms\":%u}", phase == 0 ? "" : ",",
                     phase < phase_count ? phase_words[phase] : "whole", one->count, one->p50_ms,
                     one->p99_ms);
    }
    (void)printf("},");
}

static void json_counts(const struct goodput_result *sum)
{
    const struct {
        const char *word;
        uint64_t value;
    } rows[] = {
        {"wall_ms", sum->wall_ms},
        {"useful_ms", sum->useful_ms},
        {"stall_ms", sum->stall_ms},
        {"start_ms", sum->start_ms},
        {"unsettled_ms", sum->unsettled_ms},
        {"interval_steps", sum->interval_steps},
        {"failures", sum->failures},
        {"drains", sum->drains},
        {"recoveries", sum->recoveries},
        {"failures_during_recovery", sum->merged},
        {"false_evictions", sum->false_evictions},
        {"wrong_verdicts", sum->wrong_verdicts},
        {"suspect_restores", sum->suspect_restores},
        {"manual_interventions", sum->interventions},
        {"nodes_given_back", sum->returns},
        {"spares_least", sum->spares_least},
        {"saves", sum->saves},
        {"core_steps", sum->core_steps},
        {"agent_steps", sum->agent_steps},
        {"records", sum->records},
        {"beats", sum->beats},
    };
    for (size_t index = 0; index < sizeof(rows) / sizeof(rows[0]); index++) {
        (void)printf("\"%s\":%llu,", rows[index].word, (unsigned long long)rows[index].value);
    }
    (void)printf("\"records_hash\":\"%016llx\",\"job_failed\":%s",
                 (unsigned long long)sum->records_hash, sum->ended ? "true" : "false");
}

static void json_point(const struct simulate_point *point)
{
    (void)printf("\"goodput\":%.6f,\"goodput_least\":%.6f,\"goodput_most\":%.6f,\"theory\":%.6f,"
                 "\"runs\":%u,\"processor_seconds\":%.2f,",
                 point->goodput, point->least, point->most, point->form.goodput, point->seeds,
                 point->seconds);
    json_costs(point);
    json_kinds(&point->sum);
    json_counts(&point->sum);
}

static void json_assumptions(const struct simulate *simulate)
{
    const struct goodput_options *o = &simulate->options;
    (void)printf("\"assumptions\":{\"preset\":\"%s\",\"nodes\":%u,\"spares\":%u,\"days\":%llu,"
                 "\"step_ms\":%u,\"save_stall_ms\":%u,\"save_ms\":%u,\"stop_ms\":%u,\"plan_ms\":%u,"
                 "\"launch_ms\":%u,\"init_ms\":%u,\"load_ms\":%u,\"repair_ms\":%u,"
                 "\"failures_per_million_node_days\":%llu,\"lost_evidence_percent\":%u,"
                 "\"full_heartbeats\":%s}",
                 simulate->preset, o->nodes, o->spares, (unsigned long long)(o->wall_ms / 86400000),
                 o->step_ms, o->stall_ms, o->save_ms, o->stop_ms, o->plan_ms, o->launch_ms,
                 o->init_ms, o->load_ms, o->repair_ms, (unsigned long long)o->failures_ppm,
                 o->lost_ppm / 10000, o->full_heartbeats ? "true" : "false");
}

void simulate_print_json(const struct simulate *simulate, const struct simulate_point *points,
                         uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t index = 1; index < count; index++) {
        best = points[index].goodput > points[best].goodput ? index : best;
    }
    (void)printf("{");
    if (simulate->sweep.key == NULL) {
        json_point(points);
        (void)printf(",");
    } else { /* on top the best of the sweep */
        (void)printf("\"goodput\":%.6f,\"best\":\"%s\",\"sweep\":{\"key\":\"%s\",\"points\":[",
                     points[best].goodput, points[best].text, simulate->sweep.key);
        for (uint32_t index = 0; index < count; index++) {
            (void)printf("%s{\"value\":\"%s\",", index == 0 ? "" : ",", points[index].text);
            json_point(&points[index]);
            (void)printf("}");
        }
        (void)printf("]},");
    }
    json_assumptions(simulate);
    (void)printf("}\n");
}
