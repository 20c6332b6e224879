/* tool.c: verbs that need no controller are programs of their own, and take their options as they
 * are: they lie beside this program, or in libexec/keepstep of the same installation. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "controller/cli/cli.h"
#include "proto/base/text.h"

/* Where this program lies, without the name; false: the system does not say. */
static bool own_folder(char *path, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    if (length <= 0) {
        return false;
    }
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return false;
    }
    *slash = '\0';
    return true;
}

/* execv() returns only when it did not work. */
static int start(const char *name, char **arguments)
{
    char folder[PATH_MAX];
    char path[PATH_MAX + 64];
    if (!own_folder(folder, sizeof(folder))) {
        (void)fprintf(stderr, "where this program lies is not known: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    if (text_format(path, sizeof(path), "%s/%s", folder, name)) {
        (void)execv(path, arguments);
    }
    if (text_format(path, sizeof(path), "%s/../libexec/keepstep/%s", folder, name)) {
        (void)execv(path, arguments);
    }
    (void)fprintf(stderr, "%s is not there, neither in %s nor in %s/../libexec/keepstep: %s\n",
                  name, folder, folder, strerror(errno));
    return EXIT_FAILED;
}

/* The program with these words behind its name. */
static int start_with(char *program, char **arguments)
{
    char *with[ARGUMENTS_MAX + 2] = {program};
    uint32_t count = 1;
    for (uint32_t index = 0; arguments[index] != NULL; index++) {
        if (count == ARGUMENTS_MAX) {
            return say_usage("at most %d words", ARGUMENTS_MAX);
        }
        with[count++] = arguments[index];
    }
    return start(program, with);
}

int tool_start(char **arguments)
{
    char simulate[] = "keepstep-sim";
    char diagnose[] = "keepstep-diagnose";
    if (text_equal(arguments[0], "simulate")) {
        return start_with(simulate, arguments); /* one verb of several */
    }
    return start_with(diagnose, arguments + 1);
}

bool tool_has(const char *verb)
{
    return text_equal(verb, "simulate") || text_equal(verb, "diagnose");
}
