/* fuse_dstate.c: a file system that takes requests and never answers.
 *
 *     fuse_dstate FOLDER      mounts there, prints "mounted", unmounts at SIGTERM
 *
 * Whoever touches a path in it waits; once killed it stands in D state and survives even SIGKILL,
 * until this program ends (the connection is then aborted). Speaks to /dev/fuse itself; needs root.
 * Ends with 77 and `skipped: why` where that cannot be. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/uio.h>
#include <unistd.h>

enum { REQUEST_SIZE = 1 << 20, SKIPPED = 77 };

static int skip(const char *what)
{
    (void)printf("skipped: %s: %s\n", what, strerror(errno));
    return SKIPPED;
}

/* The one answer: the kernel asks which protocol is spoken. */
static int init_answer(int fd, const struct fuse_in_header *in)
{
    struct fuse_init_out init = {
        .major = FUSE_KERNEL_VERSION,
        .minor = FUSE_KERNEL_MINOR_VERSION,
        .max_write = 4096,
    };
    struct fuse_out_header out = {.len = sizeof(out) + sizeof(init), .unique = in->unique};
    struct iovec parts[] = {{&out, sizeof(out)}, {&init, sizeof(init)}};
    return writev(fd, parts, 2) == (ssize_t)out.len ? 0 : -errno;
}

static int requests_take(int fd, int signal_fd)
{
    static char request[REQUEST_SIZE];
    struct pollfd events[] = {{.fd = fd, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN}};
    while (poll(events, 2, -1) >= 0) {
        if (events[1].revents != 0) {
            return 0;
        }
        ssize_t got = read(fd, request, sizeof(request));
        if (got < (ssize_t)sizeof(struct fuse_in_header)) {
            return errno == ENODEV ? 0 : 1;
        }
        struct fuse_in_header in;
        memcpy(&in, request, sizeof(in));
        if (in.opcode == FUSE_INIT) {
            if (init_answer(fd, &in) != 0) {
                return 1;
            }
            (void)printf("mounted\n");
        } else {
            (void)printf("asked\n"); /* only now does a signal no longer end who asked */
        }
        (void)fflush(stdout);
    }
    return 1;
}

int main(int argc, char **argv)
{
    char options[128];
    sigset_t set;
    if (argc != 2) {
        (void)fprintf(stderr, "usage: fuse_dstate FOLDER\n");
        return 2;
    }
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return skip("/dev/fuse");
    }
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN); /* who started it may not read on */
    int signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    (void)snprintf(options, sizeof(options),
                   "fd=%d,rootmode=40000,user_id=%u,group_id=%u,allow_other", fd, getuid(),
                   getgid());
    if (mount("dstate", argv[1], "fuse", MS_NOSUID | MS_NODEV, options) != 0) {
        return skip("mount");
    }
    int result = requests_take(fd, signal_fd);
    (void)umount2(argv[1], MNT_DETACH);
    return result;
}
