/* simulate.c: months of a fleet in virtual time, from the command line. */
#include "controller/tools/simulate.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "controller/core/estimate.h"
#include "proto/base/check.h"
#include "proto/base/duration.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { EXIT_USAGE = 2, SEEDS_MAX = 1000, SWEEP_POINTS = 6 };

void simulate_usage(FILE *file)
{
    (void)fputs(
        "usage: keepstep simulate [--preset llama3|field] [options]\n"
        "Months of a training job in virtual time, with the decision code that really runs.\n"
        "\n"
        "  --nodes N --spares N|auto --ranks N   the fleet; the rest of the nodes hold the job;\n"
        "                                        auto: enough 99 % of the time, by what is given\n"
        "                                        before it of nodes, failures and repair\n"
        "  --days N --seeds N|A..B               how long, and how many times\n"
        "  --failures N                          of a node, in a million days\n"
        "  --mtbf TIME                           between failures of the whole job, instead\n"
        "  --drains N                            planned, of a node, in a million days\n"
        "  --lost-evidence N                     so many of 100 signs never reach the controller\n"
        "  --save-stall TIME --save-time TIME    training stands for a save; until it is durable\n"
        "  --step-time TIME --interval N|auto    a step; steps between saves\n"
        "  --stop TIME --plan TIME --launch TIME --init TIME --load TIME    of a recovery\n"
        "  --repair TIME                         of every node, in place of each kind's own\n"
        "  --only KIND                           no other failures than these\n"
        "  --trace FILE                          given failures: day,node,kind on each line\n"
        "  --sweep KEY=A..B | KEY=A,B,C          one run for each value of an option above\n"
        "  --plot FILE                           the sweep as a picture (SVG)\n"
        "  --full-heartbeats                     step every beat of every node: slow, same "
        "records\n"
        "  -o table|json\n",
        file);
}

/* ---- options ------------------------------------------------------------------------------- */

enum kind { COUNT, TIME_U32, DAYS, GAP, INTERVAL, ONLY, SPARES, PERCENT };

struct option {
    const char *key;
    enum kind kind;
    size_t offset;
};

#define AT(field) offsetof(struct goodput_options, field)
static const struct option options_known[] = {
    {"nodes", COUNT, AT(nodes)},
    {"spares", SPARES, AT(spares)},
    {"ranks", COUNT, AT(ranks_per_node)},
    {"days", DAYS, AT(wall_ms)},
    {"failures", COUNT, AT(failures_ppm)}, /* 64 bits: see set_count */
    {"drains", COUNT, AT(drains_ppm)},
    {"mtbf", GAP, AT(failures_ppm)},
    {"save-stall", TIME_U32, AT(stall_ms)},
    {"save-time", TIME_U32, AT(save_ms)},
    {"step-time", TIME_U32, AT(step_ms)},
    {"interval", INTERVAL, AT(interval_steps)},
    {"stop", TIME_U32, AT(stop_ms)},
    {"plan", TIME_U32, AT(plan_ms)},
    {"launch", TIME_U32, AT(launch_ms)},
    {"init", TIME_U32, AT(init_ms)},
    {"load", TIME_U32, AT(load_ms)},
    {"repair", TIME_U32, AT(repair_ms)},
    {"lost-evidence", PERCENT, AT(lost_ppm)},
    {"only", ONLY, 0},
};

static int set_count(struct goodput_options *options, const struct option *option,
                     const char *value, struct err *err)
{
    uint64_t number = 0;
    if (text_to_u64(value, UINT32_MAX, &number) < 0) {
        return err_set(err, -EINVAL, "--%s takes a whole number%s, not '%.40s'", option->key,
                       option->kind == SPARES ? " or auto" : "", value);
    }
    char *field = (char *)options + option->offset;
    if (option->offset == AT(failures_ppm) || option->offset == AT(drains_ppm)) {
        memcpy(field, &number, sizeof(number));
    } else {
        uint32_t narrow = (uint32_t)number;
        memcpy(field, &narrow, sizeof(narrow));
    }
    return 0;
}

static int read_time(const struct option *option, const char *value, uint64_t most_ms,
                     uint64_t *ret_ms, struct err *err)
{
    struct err why = {0};
    if (duration_parse(value, ret_ms, &why) < 0) {
        return err_set(err, -EINVAL, "--%s takes a time such as 30s: %s", option->key, why.text);
    }
    if (*ret_ms > most_ms) {
        return err_set(err, -ERANGE, "--%s %.40s is too long", option->key, value);
    }
    return 0;
}

static int set_time(struct goodput_options *options, const struct option *option, const char *value,
                    struct err *err)
{
    uint64_t ms = 0;
    int code = read_time(option, value, UINT32_MAX, &ms, err);
    if (code == 0) {
        uint32_t narrow = (uint32_t)ms;
        memcpy((char *)options + option->offset, &narrow, sizeof(narrow));
    }
    return code;
}

static int set_days(struct goodput_options *options, const char *value, struct err *err)
{
    uint64_t days = 0;
    if (text_to_u64(value, GOODPUT_DAYS_MAX, &days) < 0 || days == 0) {
        return err_set(err, -ERANGE, "--days takes 1 to %d, not '%.40s'", GOODPUT_DAYS_MAX, value);
    }
    options->wall_ms = days * 86400000;
    return 0;
}

static int set_percent(struct goodput_options *options, const struct option *option,
                       const char *value, struct err *err)
{
    uint64_t percent = 0;
    if (text_to_u64(value, 100, &percent) < 0) {
        return err_set(err, -ERANGE, "--%s takes 0 to 100, not '%.40s'", option->key, value);
    }
    uint32_t ppm = (uint32_t)percent * 10000;
    memcpy((char *)options + option->offset, &ppm, sizeof(ppm));
    return 0;
}

static int set_gap(struct goodput_options *options, const struct option *option, const char *value,
                   struct err *err)
{
    uint64_t ms = 0;
    int code = read_time(option, value, UINT32_MAX, &ms, err);
    if (code < 0) {
        return code;
    }
    if (ms == 0 || options->nodes <= options->spares) {
        return err_set(err, -ERANGE, "--mtbf takes a time over 0, after --nodes and --spares");
    }
    options->failures_ppm = 86400000ull * 1000000 / ms / (options->nodes - options->spares);
    return 0;
}

static int set_interval(struct goodput_options *options, const char *value, struct err *err)
{
    uint64_t steps = 0;
    if (!text_equal(value, "auto") && (text_to_u64(value, 1000000, &steps) < 0 || steps == 0)) {
        return err_set(err, -EINVAL, "--interval takes a number of steps or auto, not '%.40s'",
                       value);
    }
    options->interval_steps = (uint32_t)steps;
    return 0;
}

/* As the controller chooses a reserve: by how often a failure takes a node, and for how long. */
static uint32_t best_spares(const struct goodput_options *options)
{
    uint64_t all = 0;
    uint64_t taking = 0;
    uint64_t away_ms = 0;
    for (uint32_t index = 0; index < options->category_count; index++) {
        const struct goodput_category *one = &options->category[index];
        bool takes = one->repair_ms > 0;
        uint32_t repair_ms = options->repair_ms > 0 ? options->repair_ms : one->repair_ms;
        if (one->how != GOODPUT_PLANNED) {
            all += one->count;
            taking += takes ? one->count : 0;
            away_ms += takes ? (uint64_t)one->count * repair_ms : 0;
        }
    }
    if (taking == 0 || options->failures_ppm == 0) {
        return 0;
    }
    struct estimate_spares_input input = {.nodes = options->nodes,
                                          .node_gap_ms = 86400000ull * 1000000 /
                                                         options->failures_ppm * all / taking,
                                          .away_ms = away_ms / taking,
                                          .enough_q32 = ESTIMATE_Q32_99};
    return estimate_spares(&input);
}

static int set_spares(struct goodput_options *options, const struct option *option,
                      const char *value, struct err *err)
{
    if (text_equal(value, "auto")) {
        options->spares = best_spares(options);
        return 0;
    }
    return set_count(options, option, value, err);
}

static int set_only(struct goodput_options *options, const char *value, struct err *err)
{
    bool found = false;
    for (uint32_t index = 0; index < options->category_count; index++) {
        struct goodput_category *category = &options->category[index];
        bool it = text_equal(category->word, value) && category->how != GOODPUT_PLANNED;
        found = found || it;
        category->count = it ? category->count : 0;
    }
    options->drains_ppm = 0;
    return found ? 0
                 : err_set(err, -EINVAL, "--only %.40s: there is no such kind of failure", value);
}

int simulate_set(struct goodput_options *options, const char *key, const char *value,
                 struct err *err)
{
    for (size_t index = 0; index < ARRAY_SIZE(options_known); index++) {
        const struct option *option = &options_known[index];
        if (!text_equal(option->key, key)) {
            continue;
        }
        switch (option->kind) {
        case COUNT:
            return set_count(options, option, value, err);
        case TIME_U32:
            return set_time(options, option, value, err);
        case DAYS:
            return set_days(options, value, err);
        case GAP:
            return set_gap(options, option, value, err);
        case INTERVAL:
            return set_interval(options, value, err);
        case SPARES:
            return set_spares(options, option, value, err);
        case PERCENT:
            return set_percent(options, option, value, err);
        case ONLY:
            return set_only(options, value, err);
        }
    }
    return err_set(err, -EINVAL, "there is no option --%.40s", key);
}

/* ---- sweeps -------------------------------------------------------------------------------- */

static int add_point(struct simulate_sweep *sweep, const char *text, size_t size, struct err *err)
{
    if (size == 0 || size >= sizeof(sweep->text[0]) || sweep->count == SIMULATE_POINTS_MAX) {
        return err_set(err, -EINVAL, "--sweep takes KEY=A..B or KEY=A,B,C with at most %d values",
                       SIMULATE_POINTS_MAX);
    }
    memcpy(sweep->text[sweep->count], text, size);
    sweep->text[sweep->count][size] = '\0';
    sweep->count++;
    return 0;
}

static int add_list(struct simulate_sweep *sweep, const char *text, struct err *err)
{
    int code = 0;
    while (code == 0) {
        const char *comma = strchr(text, ',');
        code = add_point(sweep, text, comma != NULL ? (size_t)(comma - text) : strlen(text), err);
        if (comma == NULL) {
            break;
        }
        text = comma + 1;
    }
    return code;
}

/* A number, or a time; which of them it was. */
static int read_bound(const char *text, size_t size, uint64_t *ret_value, bool *ret_time)
{
    char copy[32];
    if (size == 0 || size >= sizeof(copy)) {
        return -EINVAL;
    }
    memcpy(copy, text, size);
    copy[size] = '\0';
    *ret_time = text_to_u64(copy, UINT32_MAX, ret_value) < 0;
    return *ret_time ? duration_parse(copy, ret_value, NULL) : 0;
}

/* Both ends and four between them, evenly. */
static int add_range(struct simulate_sweep *sweep, const char *text, const char *dots,
                     struct err *err)
{
    uint64_t from = 0;
    uint64_t to = 0;
    bool time_from = false;
    bool time_to = false;
    if (read_bound(text, (size_t)(dots - text), &from, &time_from) < 0 ||
        read_bound(dots + 2, strlen(dots + 2), &to, &time_to) < 0 || time_from != time_to ||
        from >= to) {
        return err_set(err, -EINVAL,
                       "--sweep %.60s: A..B must be two numbers or two times, the "
                       "smaller first",
                       text);
    }
    uint64_t steps = to - from < SWEEP_POINTS - 1 ? to - from : SWEEP_POINTS - 1;
    for (uint64_t step = 0; step <= steps; step++) {
        char point[32];
        uint64_t value = from + (to - from) * step / steps;
        (void)text_format(point, sizeof(point), time_from ? "%llums" : "%llu",
                          (unsigned long long)value);
        int code = add_point(sweep, point, strlen(point), err);
        if (code < 0) {
            return code;
        }
    }
    return 0;
}

static int read_sweep(struct simulate *simulate, char *text, struct err *err)
{
    char *equals = strchr(text, '=');
    if (equals == NULL || simulate->sweep.key != NULL) {
        return err_set(err, -EINVAL, "--sweep takes KEY=A..B or KEY=A,B,C, and is given once");
    }
    *equals = '\0';
    simulate->sweep.key = text;
    const char *dots = strstr(equals + 1, "..");
    return dots != NULL ? add_range(&simulate->sweep, equals + 1, dots, err)
                        : add_list(&simulate->sweep, equals + 1, err);
}

/* ---- the command line ---------------------------------------------------------------------- */

static int read_seeds(struct simulate *simulate, const char *text, struct err *err)
{
    uint64_t last = 0;
    const char *dots = strstr(text, "..");
    char first[24] = "1";
    if (dots != NULL && (size_t)(dots - text) < sizeof(first)) {
        memcpy(first, text, (size_t)(dots - text));
        first[dots - text] = '\0';
    }
    if (text_to_u64(first, UINT32_MAX, &simulate->first_seed) < 0 ||
        text_to_u64(dots != NULL ? dots + 2 : text, UINT32_MAX, &last) < 0 ||
        last < simulate->first_seed || last - simulate->first_seed >= SEEDS_MAX) {
        return err_set(err, -EINVAL, "--seeds takes how many, or A..B, at most %d: not '%.40s'",
                       SEEDS_MAX, text);
    }
    simulate->seeds = (uint32_t)(last - simulate->first_seed + 1);
    return 0;
}

static int read_output(struct simulate *simulate, const char *text, struct err *err)
{
    simulate->json = text_equal(text, "json");
    return simulate->json || text_equal(text, "table")
               ? 0
               : err_set(err, -EINVAL, "-o takes table or json, not '%.40s'", text);
}

/* Options that are no part of the world. trace waits until all others are known. */
static int read_other(struct simulate *simulate, const char *key, char *value,
                      const char **ret_trace, struct err *err)
{
    if (text_equal(key, "--seeds")) {
        return read_seeds(simulate, value, err);
    }
    if (text_equal(key, "-o") || text_equal(key, "--output")) {
        return read_output(simulate, value, err);
    }
    if (text_equal(key, "--sweep")) {
        return read_sweep(simulate, value, err);
    }
    if (text_equal(key, "--plot")) {
        simulate->plot = value;
        return 0;
    }
    if (text_equal(key, "--trace")) {
        *ret_trace = value;
        return 0;
    }
    if (strncmp(key, "--", 2) != 0) {
        return err_set(err, -EINVAL, "'%.40s' is no option", key);
    }
    return simulate_set(&simulate->options, key + 2, value, err);
}

/* The preset comes first, wherever it stands: options change it. */
static int read_preset(int argc, char **argv, struct simulate *simulate, struct err *err)
{
    simulate->preset = "llama3";
    for (int index = 1; index + 1 < argc; index++) {
        simulate->preset = text_equal(argv[index], "--preset") ? argv[index + 1] : simulate->preset;
    }
    return goodput_preset(&simulate->options, simulate->preset) == 0
               ? 0
               : err_set(err, -EINVAL, "--preset is llama3 or field, not '%.40s'",
                         simulate->preset);
}

static int read_all(int argc, char **argv, struct simulate *simulate, struct err *err)
{
    const char *trace = NULL;
    int code = read_preset(argc, argv, simulate, err);
    for (int index = 1; index < argc && code == 0; index++) {
        if (text_equal(argv[index], "--full-heartbeats")) {
            simulate->options.full_heartbeats = true;
        } else if (text_equal(argv[index], "--help") || text_equal(argv[index], "-h")) {
            simulate->help = true;
        } else if (index + 1 == argc) {
            code = err_set(err, -EINVAL, "%.40s takes a value", argv[index]);
        } else if (text_equal(argv[index], "--preset")) {
            index++;
        } else {
            code = read_other(simulate, argv[index], argv[index + 1], &trace, err);
            index++;
        }
    }
    if (code == 0 && simulate->plot != NULL && simulate->sweep.key == NULL) {
        code = err_set(err, -EINVAL, "--plot shows a sweep: give --sweep KEY=A..B too");
    }
    if (code == 0 && trace != NULL) {
        code = simulate_read_trace(trace, &simulate->options, &simulate->given,
                                   &simulate->options.given_count, err);
        simulate->options.given = simulate->given;
    }
    return code;
}

int simulate_parse(int argc, char **argv, struct simulate *ret_simulate)
{
    struct err err = {0};
    *ret_simulate = (struct simulate){.first_seed = 1, .seeds = 1};
    int code = read_all(argc, argv, ret_simulate, &err);
    if (code == 0 && !ret_simulate->help && ret_simulate->sweep.key == NULL) {
        code = goodput_check(&ret_simulate->options, &err);
    }
    if (code < 0) {
        (void)fprintf(stderr,
                      "keepstep simulate: %s\n(keepstep simulate --help lists the options)\n",
                      err.text);
        return EXIT_USAGE;
    }
    return 0;
}

/* ---- running ------------------------------------------------------------------------------- */

static void add_result(struct simulate_point *point, const struct goodput_result *one)
{
    double goodput = (double)one->useful_ms / (double)one->wall_ms;
    struct goodput_result *sum = &point->sum;
    point->least = point->seeds == 0 || goodput < point->least ? goodput : point->least;
    point->most = point->seeds == 0 || goodput > point->most ? goodput : point->most;
    point->goodput = (point->goodput * point->seeds + goodput) / (point->seeds + 1);
    if (point->seeds == 0) {
        point->seeds = 1;
        *sum = *one;
        return;
    }
    point->seeds++;
    goodput_add(sum, one);
}

static void run_point(const struct simulate *simulate, struct simulate_point *point)
{
    struct timespec begin;
    struct timespec end;
    struct goodput_result result;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    for (uint32_t seed = 0; seed < simulate->seeds; seed++) {
        point->options.seed = simulate->first_seed + seed;
        goodput_run(&point->options, &result);
        add_result(point, &result);
    }
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    goodput_form(&point->options, &point->form);
    point->seconds =
        (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
}

/* All settings are looked at before the first of them runs. */
static int make_points(const struct simulate *simulate, struct simulate_point *points,
                       uint32_t count, struct err *err)
{
    for (uint32_t index = 0; index < count; index++) {
        points[index].options = simulate->options;
        if (simulate->sweep.key != NULL) {
            points[index].text = simulate->sweep.text[index];
            int code = simulate_set(&points[index].options, simulate->sweep.key,
                                    simulate->sweep.text[index], err);
            code = code == 0 ? goodput_check(&points[index].options, err) : code;
            if (code < 0) {
                return err_wrap(err, "%s=%s", simulate->sweep.key, simulate->sweep.text[index]);
            }
        }
    }
    return 0;
}

static int run_all(const struct simulate *simulate, struct simulate_point *points, uint32_t count)
{
    struct err err = {0};
    if (make_points(simulate, points, count, &err) < 0) {
        (void)fprintf(stderr, "keepstep simulate: %s\n", err.text);
        return EXIT_USAGE;
    }
    if (!simulate->json) {
        simulate_print_assumptions(simulate);
        (void)fflush(stdout);
    }
    for (uint32_t index = 0; index < count; index++) {
        run_point(simulate, &points[index]);
    }
    if (simulate->json) {
        simulate_print_json(simulate, points, count);
    } else if (simulate->sweep.key != NULL) {
        simulate_print_sweep(simulate, points);
    } else {
        simulate_print_point(points);
    }
    if (simulate->plot != NULL && simulate_plot(simulate, points, &err) < 0) {
        (void)fprintf(stderr, "keepstep simulate: %s\n", err.text);
        return 1;
    }
    return 0;
}

int simulate_main(int argc, char **argv)
{
    struct simulate simulate;
    int code = simulate_parse(argc, argv, &simulate);
    if (code != 0) {
        return code;
    }
    if (simulate.help) {
        simulate_usage(stdout);
        return 0;
    }
    uint32_t count = simulate.sweep.key != NULL ? simulate.sweep.count : 1;
    struct simulate_point *points = mem_alloc(count, sizeof(points[0]));
    code = run_all(&simulate, points, count);
    mem_free(points);
    mem_free(simulate.given);
    return code;
}
