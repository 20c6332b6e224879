/* sim_main.c: keepstep-sim, the simulator's command line; usage() says what it can do. A history is
 * the same whenever its seed is: each one that fails prints first how to repeat it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/sim/sim.h"
#include "controller/tools/simulate.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"

enum { EXIT_USAGE = 2, TRACE_SHOWN = 60 };

struct arguments {
    uint64_t first;
    uint64_t last;
    uint64_t hosts; /* 0: as the seed says */
    uint64_t kill_seed;
    uint64_t kill_record; /* 0: all */
    uint64_t kill_agent;  /* UINT32_MAX: the controller */
    uint64_t old_seed;
    uint64_t keep_ppm;
    bool old_store;
    bool kill;
    bool kill_after;
    bool strike;
    uint64_t strike_kind; /* 0: all */
    bool all_must_strike;
    const char *replay; /* a file of seeds; NULL */
    enum sim_mutation mutation;
    bool hash;
    bool verbose;
    bool quiet;
};

/* What the handler of an assertion may look at: the one run that is under way. */
static struct sim *running;

static void print_line(void *context, const char *line)
{
    (void)context;
    (void)fprintf(stdout, "%s\n", line);
}

struct line_sink {
    uint64_t hash;
    bool print;
};

static void take_line(void *context, const char *line)
{
    struct line_sink *sink = context;
    sink->hash = hash_text(sink->hash, line);
    if (sink->print) {
        print_line(NULL, line);
    }
}

static void print_trace(const struct sim *sim)
{
    uint32_t count = 0;
    while (sim_trace_line(sim, count) != NULL) {
        count++;
    }
    for (uint32_t index = count > TRACE_SHOWN ? count - TRACE_SHOWN : 0; index < count; index++) {
        print_line(NULL, sim_trace_line(sim, index));
    }
}

/* check_failed() has said what was wrong; the process ends here, so that the trace may be printed
 * although a signal handler should not. */
static void on_abort(int signal_number)
{
    (void)signal_number;
    if (running != NULL) {
        print_trace(running);
        (void)fflush(stdout);
    }
    _exit(SIM_CRASH);
}

/* ---- arguments --------------------------------------------------------------------------- */

static int usage(void)
{
    (void)fprintf(
        stderr,
        "usage: keepstep-sim [what] [--nodes N] [--verbose] [--quiet]\n"
        "  --seed S               one history (1); of a fleet of N nodes, at most %d\n"
        "  --seeds A..B           one after the other, then what struck and was judged\n"
        "  --fleets N             seeds 1..N; a fault that never struck, or a judge that was\n"
        "                         never asked, in all of them is a failure too\n"
        "  --replay FILE          the histories of a file of seeds (tests/sim/seeds)\n"
        "  --kill-every-record S  one scenario, each process killed at each of its records;\n"
        "                         --kill N: at this one alone, of the controller or of\n"
        "                         --agent I, before it is written or --after\n"
        "  --strike-every-record S  the same, struck by people and by failures instead;\n"
        "                         --strike KIND --kill N: in this way at this record alone\n"
        "  --old-store S --keep PPM  a controller comes back on the first part of its store\n"
        "  --mutate WORD          a mistake is built in, which a judge must object to\n"
        "  --hash                 prints what two builds must agree on\n"
        "  simulate [OPTION...]   months of one job instead, and what becomes of the time; the\n"
        "                         first word: keepstep-sim simulate --help\n"
        "exit codes: 0 good, 2 usage, 3 a process crashed, 4 it never came to rest, 5 a rule\n"
        "was broken\n",
        SIM_HOSTS_MAX);
    return -1;
}

static int read_range(const char *text, struct arguments *arguments)
{
    char first[32];
    const char *dots = strstr(text, "..");
    if (dots == NULL || (size_t)(dots - text) >= sizeof(first)) {
        return -1;
    }
    memcpy(first, text, (size_t)(dots - text));
    first[dots - text] = '\0';
    return text_to_u64(first, UINT64_MAX - 1, &arguments->first) < 0 ||
                   text_to_u64(dots + 2, UINT64_MAX - 1, &arguments->last) < 0
               ? -1
               : 0;
}

static int read_value(const char *key, const char *value, struct arguments *arguments)
{
    if (text_equal(key, "--seed")) {
        int result = text_to_u64(value, UINT64_MAX - 1, &arguments->first);
        arguments->last = arguments->first;
        return result;
    }
    if (text_equal(key, "--seeds")) {
        return read_range(value, arguments);
    }
    if (text_equal(key, "--fleets")) {
        arguments->first = 1;
        arguments->all_must_strike = true;
        return text_to_u64(value, UINT64_MAX - 1, &arguments->last);
    }
    if (text_equal(key, "--nodes")) {
        return text_to_u64(value, SIM_HOSTS_MAX, &arguments->hosts);
    }
    if (text_equal(key, "--replay")) {
        arguments->replay = value;
        return 0;
    }
    if (text_equal(key, "--mutate")) {
        int mutation = sim_mutation_find(value);
        arguments->mutation = mutation < 0 ? SIM_NO_MUTATION : (enum sim_mutation)mutation;
        return mutation < 0 ? -1 : 0;
    }
    if (text_equal(key, "--kill-every-record")) {
        arguments->kill = true;
        return text_to_u64(value, UINT64_MAX - 1, &arguments->kill_seed);
    }
    if (text_equal(key, "--strike-every-record")) {
        arguments->strike = true;
        return text_to_u64(value, UINT64_MAX - 1, &arguments->kill_seed);
    }
    if (text_equal(key, "--strike")) {
        return text_to_u64(value, 6, &arguments->strike_kind);
    }
    if (text_equal(key, "--old-store")) {
        arguments->old_store = true;
        return text_to_u64(value, UINT64_MAX - 1, &arguments->old_seed);
    }
    if (text_equal(key, "--keep")) {
        return text_to_u64(value, 1000000, &arguments->keep_ppm);
    }
    if (text_equal(key, "--kill")) {
        return text_to_u64(value, UINT32_MAX, &arguments->kill_record);
    }
    if (text_equal(key, "--agent")) {
        return text_to_u64(value, 5, &arguments->kill_agent);
    }
    return -1;
}

static int read_arguments(int argc, char **argv, struct arguments *ret_arguments)
{
    *ret_arguments = (struct arguments){.first = 1, .last = 1, .kill_agent = UINT32_MAX};
    for (int index = 1; index < argc; index++) {
        if (text_equal(argv[index], "--verbose")) {
            ret_arguments->verbose = true;
        } else if (text_equal(argv[index], "--quiet")) {
            ret_arguments->quiet = true;
        } else if (text_equal(argv[index], "--hash")) {
            ret_arguments->hash = true;
        } else if (text_equal(argv[index], "--after")) {
            ret_arguments->kill_after = true;
        } else if (index + 1 == argc ||
                   read_value(argv[index], argv[index + 1], ret_arguments) < 0) {
            return usage();
        } else {
            index++;
        }
    }
    return ret_arguments->first > ret_arguments->last ? usage() : 0;
}

/* ---- statistics -------------------------------------------------------------------------- */

static void add(struct sim_stats *sum, const struct sim_stats *one)
{
    uint64_t *to = (uint64_t *)sum; /* a struct of counters and of nothing else */
    const uint64_t *from = (const uint64_t *)one;
    for (size_t index = 0; index < sizeof(*sum) / sizeof(uint64_t); index++) {
        to[index] += from[index];
    }
}

static uint32_t print_counts(const char *title, const char *const *words, const uint64_t *counts,
                             uint32_t count)
{
    uint32_t zeros = 0;
    (void)printf("%s\n", title);
    for (uint32_t index = 0; index < count; index++) {
        (void)printf("  %-20s %10llu%s", words[index], (unsigned long long)counts[index],
                     index % 3 == 2 || index + 1 == count ? "\n" : "");
        zeros += counts[index] == 0 ? 1 : 0;
    }
    return zeros;
}

static uint32_t print_stats(const struct sim_stats *stats)
{
    (void)printf("%llu events, %llu records, %llu records of agents, %llu messages, %.1f virtual "
                 "hours\n",
                 (unsigned long long)stats->events, (unsigned long long)stats->records,
                 (unsigned long long)stats->agent_records, (unsigned long long)stats->messages,
                 (double)stats->virtual_ms / 3600000.0);
    (void)printf(
        "%llu starts of the controller, %llu recoveries; jobs: %llu succeeded, %llu failed, "
        "%llu cancelled, %llu held\n",
        (unsigned long long)stats->restarts, (unsigned long long)stats->recoveries,
        (unsigned long long)stats->succeeded, (unsigned long long)stats->failed,
        (unsigned long long)stats->cancelled, (unsigned long long)stats->held);
    uint32_t zeros =
        print_counts("faults that struck:", sim_fault_words, stats->struck, SIM_FAULT_COUNT);
    zeros +=
        print_counts("requests of the operator:", sim_verb_words, stats->asked, SIM_VERB_COUNT);
    zeros += print_counts("drains by phase of a recovery:", sim_phase_words, stats->drained,
                          SIM_PHASE_COUNT);
    zeros +=
        print_counts("cancels by phase:", sim_phase_words, stats->cancelled_in, SIM_PHASE_COUNT);
    zeros += print_counts("situations:", sim_situation_words, stats->seen, SIM_SITUATION_COUNT);
    zeros += print_counts("judges asked:", sim_judge_words, stats->judged, SIM_JUDGE_COUNT);
    return zeros;
}

/* ---- runs -------------------------------------------------------------------------------- */

static int run_one(const struct arguments *arguments, uint64_t seed, struct sim_stats *sum)
{
    struct sim_options options;
    struct line_sink sink = {HASH_INIT, arguments->verbose};
    sim_options_draw(&options, seed);
    char nodes[32] = "";
    if (arguments->hosts > 0) {
        sim_options_scale(&options, (uint32_t)arguments->hosts);
        (void)text_format(nodes, sizeof(nodes), " --nodes %u", options.hosts);
    }
    options.mutation = arguments->mutation;
    options.line = arguments->verbose || arguments->hash ? take_line : NULL;
    options.line_context = &sink;
    if (!arguments->quiet) {
        (void)printf("seed %llu: %u nodes, %u jobs; again: keepstep-sim --seed %llu%s --verbose\n",
                     (unsigned long long)seed, options.hosts, options.jobs,
                     (unsigned long long)seed, nodes);
        (void)fflush(stdout);
    }
    running = sim_create(&options);
    enum sim_result result = sim_run(running);
    add(sum, sim_stats_of(running));
    if (result != SIM_GOOD) {
        if (!arguments->verbose) {
            print_trace(running);
        }
        (void)printf("seed %llu: %s\n", (unsigned long long)seed, sim_result_text(running));
    }
    if (arguments->hash) {
        (void)printf("trace %llu%s: %016llx, records %016llx\n", (unsigned long long)seed, nodes,
                     (unsigned long long)sink.hash, (unsigned long long)sim_digest(running));
    }
    running = sim_free(running);
    return (int)result;
}

/* Ends the word at `text` and says where the next one begins. */
static char *next_word(char *text)
{
    char *end = text + strcspn(text, " \t\n");
    char *next = end + strspn(end, " \t\n");
    *end = '\0';
    return next;
}

/* Each line: a seed, its number of nodes or -, why it is here. */
static int replay_line(const struct arguments *arguments, char *line, struct sim_stats *sum)
{
    struct arguments one = *arguments;
    char *nodes = next_word(line);
    (void)next_word(nodes);
    uint64_t seed = 0;
    if (line[0] == '\0' || line[0] == '#') {
        return SIM_GOOD;
    }
    one.hosts = 0;
    if (text_to_u64(line, UINT64_MAX - 1, &seed) < 0 ||
        (!text_equal(nodes, "-") && text_to_u64(nodes, SIM_HOSTS_MAX, &one.hosts) < 0)) {
        (void)fprintf(stderr, "%s: '%s %s' is not a seed and a number of nodes, or -\n",
                      arguments->replay, line, nodes);
        return EXIT_USAGE;
    }
    return run_one(&one, seed, sum);
}

static int run_replay(const struct arguments *arguments)
{
    static struct sim_stats sum;
    char line[512];
    FILE *file = fopen(arguments->replay, "r");
    int result = SIM_GOOD;
    if (file == NULL) {
        (void)fprintf(stderr, "%s cannot be read\n", arguments->replay);
        return EXIT_USAGE;
    }
    while (result == SIM_GOOD && fgets(line, sizeof(line), file) != NULL) {
        result = replay_line(arguments, line, &sum);
    }
    (void)fclose(file);
    return result;
}

static int run_all(const struct arguments *arguments)
{
    static struct sim_stats sum;
    for (uint64_t seed = arguments->first; seed <= arguments->last; seed++) {
        int result = run_one(arguments, seed, &sum);
        if (result != SIM_GOOD) {
            return result;
        }
    }
    uint32_t zeros = print_stats(&sum);
    if (arguments->all_must_strike && zeros > 0) {
        (void)printf("%u of these never came up in %llu fleets: the run proves less than it says\n",
                     zeros, (unsigned long long)(arguments->last - arguments->first + 1));
        return SIM_SAFETY;
    }
    return SIM_GOOD;
}

static int run_old_store(const struct arguments *arguments)
{
    char text[256];
    enum sim_result result =
        sim_old_store(arguments->old_seed, (uint32_t)arguments->keep_ppm, text, print_line, NULL);
    (void)printf("%s\n", text);
    return (int)result;
}

static int run_kill_one(const struct arguments *arguments)
{
    char text[256];
    enum sim_result result = sim_kill_one(arguments->kill_seed, (uint32_t)arguments->kill_agent,
                                          (uint32_t)arguments->kill_record, arguments->kill_after,
                                          text, print_line, NULL);
    (void)printf("%s\n", text);
    return (int)result;
}

static int run_kill(const struct arguments *arguments)
{
    struct sim_kill_report report;
    (void)printf("seed %llu; again: keepstep-sim --kill-every-record %llu\n",
                 (unsigned long long)arguments->kill_seed,
                 (unsigned long long)arguments->kill_seed);
    enum sim_result result = sim_kill_every_record(arguments->kill_seed, &report,
                                                   arguments->verbose ? print_line : NULL, NULL);
    (void)printf("%u runs: controller killed before and after each of %u records, agents at each "
                 "of %u%s%s\n",
                 report.runs, report.controller_records, report.agent_records,
                 report.text[0] != '\0' ? ": " : "", report.text);
    return (int)result;
}

static int run_strike(const struct arguments *arguments)
{
    struct sim_kill_report report;
    char text[256];
    if (arguments->strike_kind > 0) {
        enum sim_result one = sim_strike_one(arguments->kill_seed, (uint8_t)arguments->strike_kind,
                                             arguments->kill_record, text, print_line, NULL);
        (void)printf("%s\n", text);
        return (int)one;
    }
    (void)printf("seed %llu; again: keepstep-sim --strike-every-record %llu\n",
                 (unsigned long long)arguments->kill_seed,
                 (unsigned long long)arguments->kill_seed);
    enum sim_result result = sim_strike_every_record(arguments->kill_seed, &report);
    (void)printf("%u runs: struck in six ways at each of %u records%s%s\n", report.runs,
                 report.controller_records, report.text[0] != '\0' ? ": " : "", report.text);
    return (int)result;
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    if (argc > 1 && text_equal(argv[1], "simulate")) {
        return simulate_main(argc - 1, argv + 1);
    }
    if (read_arguments(argc, argv, &arguments) < 0) {
        return EXIT_USAGE;
    }
    (void)signal(SIGABRT, on_abort);
    if (arguments.replay != NULL) {
        return run_replay(&arguments);
    }
    if (arguments.strike) {
        return run_strike(&arguments);
    }
    if (arguments.old_store) {
        return run_old_store(&arguments);
    }
    if (arguments.kill && arguments.kill_record > 0) {
        return run_kill_one(&arguments);
    }
    return arguments.kill ? run_kill(&arguments) : run_all(&arguments);
}
