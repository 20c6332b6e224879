/* diagnose_main.c: keepstep-diagnose, the catalogue and the judge on files. */
#include <stdio.h>
#include <string.h>

#include "controller/tools/diagnose.h"
#include "proto/base/check.h"
#include "proto/base/config.h"
#include "proto/base/text.h"

static const struct {
    const char *name;
    int (*call)(int argc, char **argv);
    const char *doc;
} verbs[] = {
    {"log", diagnose_log, "[FILE]   what each line of a log means"},
    {"incident", diagnose_incident, "[FILE]   who is at fault, by what many nodes said"},
};

static int usage(FILE *file)
{
    (void)fputs("usage: keepstep diagnose VERB [FILE] [OPTION...]\n", file);
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
        (void)fprintf(file, "  %-10s %s\n", verbs[i].name, verbs[i].doc);
    }
    (void)fputs("keepstep diagnose VERB --help lists the options of a verb\n", file);
    return DIAGNOSE_USAGE;
}

int main(int argc, char **argv)
{
    config_memory();
    const char *word = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
        if (text_equal(word, verbs[i].name)) {
            return verbs[i].call(argc - 1, argv + 1);
        }
    }
    if (text_equal(word, "--help") || text_equal(word, "-h")) {
        (void)usage(stdout);
        return DIAGNOSE_DONE;
    }
    if (word[0] != '\0') {
        (void)fprintf(stderr, "keepstep diagnose: there is no verb '%.40s'\n", word);
    }
    return usage(stderr);
}
