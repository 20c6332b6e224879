/* simulate.h: `keepstep-sim simulate`, which `keepstep simulate` starts: months of a fleet in virtual
 * time, from the command line. */
#ifndef KEEPSTEP_TOOLS_SIMULATE_H
#define KEEPSTEP_TOOLS_SIMULATE_H

#include <stdio.h>

#include "controller/sim/goodput.h"

enum { SIMULATE_POINTS_MAX = 64 };

/* Values of the key that a sweep runs through; key NULL: there is no sweep. */
struct simulate_sweep {
    const char *key;
    uint32_t count;
    char text[SIMULATE_POINTS_MAX][32]; /* as it would be given */
};

/* One setting, over all seeds. Means are over seeds; counts are sums. */
struct simulate_point {
    const char *text; /* of the swept key; NULL */
    struct goodput_options options;
    struct goodput_form form;
    struct goodput_result sum;
    uint32_t seeds;
    double goodput; /* mean */
    double least;
    double most;
    double seconds; /* of this machine, for all seeds */
};

struct simulate {
    const char *preset;
    struct goodput_options options;
    uint64_t first_seed;
    uint32_t seeds;
    struct simulate_sweep sweep;
    bool json;
    bool help;
    const char *plot; /* file for the SVG; NULL */
    struct goodput_given *given;
};

/* argv[0] is the verb. 0, or 2 after saying on stderr what is wrong and what to do. */
int simulate_parse(int argc, char **argv, struct simulate *ret_simulate);
/* One option of the list, by its key and value, into options; shared with the sweep. */
MUST_CHECK int simulate_set(struct goodput_options *options, const char *key, const char *value,
                            struct err *err);
void simulate_usage(FILE *file);
/* The whole program: parse, run, print. Returns its exit code. */
int simulate_main(int argc, char **argv);

/* simulate_trace.c: a file of given failures, one a line: "day[.fraction],node,category". */
MUST_CHECK int simulate_read_trace(const char *path, const struct goodput_options *options,
                                   struct goodput_given **ret_given, uint32_t *ret_count,
                                   struct err *err);

/* simulate_print.c, simulate_plot.c */
void simulate_print_assumptions(const struct simulate *simulate);
void simulate_print_point(const struct simulate_point *point);
void simulate_print_sweep(const struct simulate *simulate, const struct simulate_point *points);
void simulate_print_json(const struct simulate *simulate, const struct simulate_point *points,
                         uint32_t count);
MUST_CHECK int simulate_plot(const struct simulate *simulate, const struct simulate_point *points,
                             struct err *err);

#endif
