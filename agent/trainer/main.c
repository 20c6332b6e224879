/* main.c: keepstep-trainer: options in, exit code out. The codes are those of fail.h. */
#include <stdio.h>

#include "agent/rank/keepstep.h"
#include "agent/trainer/fail.h"
#include "agent/trainer/options.h"
#include "agent/trainer/train.h"

/* The job's layout, when an agent started us. */
static const struct comm_layout *ordered_layout(struct comm_layout *layout)
{
    struct keepstep_restore order;
    /* Without an agent, or with one of another version, every call is a no-op. */
    (void)keepstep_init();
    if (keepstep_restore_info(&order) != 1) {
        return NULL;
    }
    *layout = (struct comm_layout){order.tensor, order.context, order.pipeline, order.data};
    return layout;
}

int main(int argc, char *argv[], char *envp[])
{
    struct fail fail = {0};
    struct options options;
    int exit_code = EXIT_DONE;
    (void)argc;
    /* A line is whole in the log at once, also when the next moment kills the process. */
    (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    struct comm_layout layout;
    int code = options_parse((const char *const *)argv, (const char *const *)envp,
                             ordered_layout(&layout), &fail, &options);
    if (code == 0 && options.help) {
        (void)fputs(options_help(), stdout);
        return EXIT_DONE;
    }
    if (code < 0) {
        fprintf(stderr, "keepstep-trainer: %s\n", fail.text);
        return fail.exit_code;
    }
    code = train_run(&options, &fail, &exit_code);
    if (code < 0) {
        fprintf(stderr, "rank %u: %s\n", options.rank, fail.text);
        return fail.exit_code;
    }
    return exit_code;
}
