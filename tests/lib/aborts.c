/* aborts.c: a child process for a call that should not come back. */
#include "tests/lib/aborts.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

bool aborts(void (*function)(void *context), void *context)
{
    pid_t child = fork();
    if (child == 0) {
        /* No core file, no message, and no sanitizer's own handler in between. */
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(SIGABRT, SIG_DFL);
        int silent = open("/dev/null", O_WRONLY | O_CLOEXEC);
        (void)dup2(silent, STDERR_FILENO);
        function(context);
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        return false;
    }
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
