/* fault_preload.c: preloaded into a real program, makes its n-th call of one kind fail.
 *
 *     LD_PRELOAD=fault_preload.so KEEPSTEP_FAULT=KIND:N[:ever][:places] program …
 *
 * KIND:
 *     memory   malloc calloc realloc posix_memalign aligned_alloc            ENOMEM
 *     file     write pwrite writev fsync fdatasync ftruncate of files        ENOSPC
 *              (but for the standard streams: what is said must be heard)
 *     socket   socket connect accept4 send* recv*, read and write of one     ECONNRESET
 *     open     open openat of files and folders, and what makes descriptors  EMFILE
 *     child    fork posix_spawn                                              EAGAIN
 *
 * `ever`: from the n-th on. `places`: only calls from a place (a stack of return addresses) that
 * has not called yet are counted, so that a loop over n ends soon and still comes everywhere.
 * KEEPSTEP_FAULT_PROGRAM: only in a program of this file name; its children inherit the rest.
 * KEEPSTEP_FAULT_COUNT: a file of two 64-bit numbers, kept up to date: calls counted, calls failed.
 * KEEPSTEP_FAULT_SHOW=1: the stack of the n-th call goes to stderr, for whoever looks for a mistake.
 * The file is opened once; processes of one name count together. */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { NOTHING, MEMORY, FILES, SOCKETS, OPENS, CHILDREN };
enum { STACK_DEPTH = 12, PLACES_MAX = 16384, TEXT_LENGTH = 64 };

struct counts {
    _Atomic uint64_t calls;
    _Atomic uint64_t failed;
};

static struct {
    enum kind kind;
    uint64_t nth;
    bool ever;
    bool by_place;
    bool show;
    struct counts own; /* where no file was named */
    struct counts *counts;
    _Atomic uint64_t places[PLACES_MAX]; /* a hash table of stacks; 0: free */
} fault;

/* Finding a place may itself allocate; such calls are nobody's. */
static _Thread_local bool looking;

/* ---- which call ---------------------------------------------------------------------------- */

/* glibc itself crashes when its first look at nsswitch.conf gets no memory: nobody's to mend here. */
static bool is_hopeless(void *const *stack, int depth)
{
    for (int i = 0; i < depth; i++) {
        Dl_info info;
        if (dladdr(stack[i], &info) != 0 && info.dli_sname != NULL &&
            strcmp(info.dli_sname, "__nss_database_get") == 0) {
            return true;
        }
    }
    return false;
}

static uint64_t stack_hash(void *const *stack, int depth)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 2; i < depth; i++) {
        hash = (hash ^ (uint64_t)(uintptr_t)stack[i]) * UINT64_C(0x100000001b3);
    }
    return hash | 1;
}

/* Whether nobody has called from here yet. A full table knows everybody. */
static bool is_new_place(void *const *stack, int depth)
{
    uint64_t hash = stack_hash(stack, depth);
    for (uint64_t i = 0; i < PLACES_MAX; i++) {
        _Atomic uint64_t *slot = &fault.places[(hash + i) % PLACES_MAX];
        uint64_t found = 0;
        if (atomic_compare_exchange_strong(slot, &found, hash)) {
            return true;
        }
        if (found == hash) {
            return false;
        }
    }
    return false;
}

static void show_stack(void)
{
    void *stack[2 * STACK_DEPTH];
    looking = true;
    backtrace_symbols_fd(stack, backtrace(stack, 2 * STACK_DEPTH), STDERR_FILENO);
    looking = false;
}

/* A call that counts is the n-th, or in a loop for ever a later one. */
static bool is_struck(bool counts)
{
    uint64_t call =
        counts ? atomic_fetch_add(&fault.counts->calls, 1) + 1 : atomic_load(&fault.counts->calls);
    if (call == fault.nth && counts && fault.show) {
        show_stack();
    }
    return fault.ever ? call >= fault.nth : counts && call == fault.nth;
}

static bool place_is_struck(void)
{
    void *stack[STACK_DEPTH];
    looking = true;
    int depth = backtrace(stack, STACK_DEPTH);
    bool is_new = is_new_place(stack, depth);
    /* A dear question, so it is asked once of a place, and before each blow. */
    bool struck = (!is_new || !is_hopeless(stack, depth)) && is_struck(is_new) &&
                  (is_new || !is_hopeless(stack, depth));
    looking = false;
    return struck;
}

static bool strikes(enum kind kind, int number)
{
    if (fault.kind != kind || looking || fault.counts == NULL) {
        return false;
    }
    bool struck = fault.by_place ? place_is_struck() : is_struck(true);
    if (struck) {
        atomic_fetch_add(&fault.counts->failed, 1);
        errno = number;
    }
    return struck;
}

/* ---- what is asked for --------------------------------------------------------------------- */

static uint64_t number_at(const char *text)
{
    uint64_t number = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        number = number * 10 + (uint64_t)(*text - '0');
    }
    return number;
}

static enum kind kind_named(const char *text)
{
    static const struct {
        const char *name;
        enum kind kind;
    } names[] = {{"memory:", MEMORY},
                 {"file:", FILES},
                 {"socket:", SOCKETS},
                 {"open:", OPENS},
                 {"child:", CHILDREN}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strncmp(text, names[i].name, strlen(names[i].name)) == 0) {
            return names[i].kind;
        }
    }
    return NOTHING;
}

static struct counts *shared_counts(const char *path)
{
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    void *memory = MAP_FAILED;
    if (fd >= 0) {
        memory = mmap(NULL, sizeof(struct counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        (void)close(fd);
    }
    return memory != MAP_FAILED ? memory : &fault.own;
}

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("KEEPSTEP_FAULT");
    const char *program = getenv("KEEPSTEP_FAULT_PROGRAM");
    if (text == NULL || (program != NULL && strcmp(program, program_invocation_short_name) != 0)) {
        return;
    }
    void *first[2];
    (void)backtrace(first, 2); /* loads what it needs */
    const char *number = strchr(text, ':');
    fault.nth = number != NULL ? number_at(number + 1) : 0;
    fault.ever = strstr(text, ":ever") != NULL;
    fault.show = getenv("KEEPSTEP_FAULT_SHOW") != NULL;
    fault.by_place = strstr(text, ":places") != NULL;
    fault.counts = shared_counts(getenv("KEEPSTEP_FAULT_COUNT"));
    fault.kind = kind_named(text); /* last: from now on */
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Beside a sanitizer, which has an allocator of its own, this kind is left out. */
#if !defined(WITHOUT_MEMORY)
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
    return strikes(MEMORY, ENOMEM) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return strikes(MEMORY, ENOMEM) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    return strikes(MEMORY, ENOMEM) ? NULL : __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return strikes(MEMORY, ENOMEM) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **ret_memory, size_t alignment, size_t size)
{
    void *memory = strikes(MEMORY, ENOMEM) ? NULL : __libc_memalign(alignment, size);
    if (memory == NULL) {
        return ENOMEM;
    }
    *ret_memory = memory;
    return 0;
}
#endif

/* ---- files and sockets --------------------------------------------------------------------- */

/* The function of that name that we stand in front of. */
#define NEXT(type, name)                                                                           \
    static _Atomic(uintptr_t) found;                                                               \
    if (atomic_load(&found) == 0) {                                                                \
        looking = true;                                                                            \
        atomic_store(&found, (uintptr_t)dlsym(RTLD_NEXT, name));                                   \
        looking = false;                                                                           \
    }                                                                                              \
    __typeof__(type) next = (__typeof__(type))atomic_load(&found)

static bool is_mode(int fd, mode_t mode)
{
    struct stat status;
    int kept = errno;
    bool is = fstat(fd, &status) == 0 && (status.st_mode & S_IFMT) == mode;
    errno = kept;
    return is;
}

static bool file_fails(int fd)
{
    return fault.kind == FILES && fd > STDERR_FILENO && is_mode(fd, S_IFREG) &&
           strikes(FILES, ENOSPC);
}

static bool socket_fails(int fd)
{
    return fault.kind == SOCKETS && is_mode(fd, S_IFSOCK) && strikes(SOCKETS, ECONNRESET);
}

static bool data_fails(int fd)
{
    return file_fails(fd) || socket_fails(fd);
}

/* name, result, parameters, their names, the condition under which it fails */
#define FRONT(result, name, parameters, names, fails)                                              \
    result name parameters                                                                         \
    {                                                                                              \
        NEXT(result(*) parameters, #name);                                                         \
        return (fails) ? (result)-1 : next names;                                                  \
    }

FRONT(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), data_fails(fd))
FRONT(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at),
      file_fails(fd))
FRONT(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at),
      file_fails(fd))
FRONT(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count),
      data_fails(fd))
FRONT(int, fsync, (int fd), (fd), file_fails(fd))
FRONT(int, fdatasync, (int fd), (fd), file_fails(fd))
FRONT(int, ftruncate, (int fd, off_t size), (fd, size), file_fails(fd))
FRONT(int, ftruncate64, (int fd, off64_t size), (fd, size), file_fails(fd))

FRONT(int, socket, (int domain, int type, int protocol), (domain, type, protocol),
      strikes(SOCKETS, EMFILE))
FRONT(int, connect, (int fd, __CONST_SOCKADDR_ARG address, socklen_t size), (fd, address, size),
      strikes(SOCKETS, ECONNREFUSED))
FRONT(ssize_t, read, (int fd, void *data, size_t size), (fd, data, size), socket_fails(fd))
FRONT(ssize_t, readv, (int fd, const struct iovec *parts, int count), (fd, parts, count),
      socket_fails(fd))
FRONT(ssize_t, send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags),
      strikes(SOCKETS, ECONNRESET))
FRONT(ssize_t, sendto,
      (int fd, const void *data, size_t size, int flags, __CONST_SOCKADDR_ARG to, socklen_t length),
      (fd, data, size, flags, to, length), strikes(SOCKETS, ECONNRESET))
FRONT(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags),
      strikes(SOCKETS, ECONNRESET))
FRONT(ssize_t, recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags),
      strikes(SOCKETS, ECONNRESET))
FRONT(ssize_t, recvfrom,
      (int fd, void *data, size_t size, int flags, __SOCKADDR_ARG from, socklen_t *length),
      (fd, data, size, flags, from, length), strikes(SOCKETS, ECONNRESET))
FRONT(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags),
      strikes(SOCKETS, ECONNRESET))

/* Who had dialled is gone, as the kernel would say; else it would say so again and again. */
int accept4(int fd, __SOCKADDR_ARG address, socklen_t *size, int flags)
{
    NEXT(int (*)(int, __SOCKADDR_ARG, socklen_t *, int), "accept4");
    int taken = next(fd, address, size, flags);
    if (taken >= 0 && strikes(SOCKETS, ECONNABORTED)) {
        (void)close(taken);
        errno = ECONNABORTED;
        return -1;
    }
    return taken;
}

/* ---- descriptors and children -------------------------------------------------------------- */

#define MODE_OF(flags)                                                                             \
    mode_t mode = 0;                                                                               \
    if (((flags) & (O_CREAT | O_TMPFILE)) != 0) {                                                  \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode = va_arg(more, mode_t);                                                               \
        va_end(more);                                                                              \
    }

#define FRONT_OPEN(name)                                                                           \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        NEXT(int (*)(const char *, int, ...), #name);                                              \
        MODE_OF(flags)                                                                             \
        return strikes(OPENS, EMFILE) ? -1 : next(path, flags, mode);                              \
    }
#define FRONT_OPENAT(name)                                                                         \
    int name(int folder, const char *path, int flags, ...)                                         \
    {                                                                                              \
        NEXT(int (*)(int, const char *, int, ...), #name);                                         \
        MODE_OF(flags)                                                                             \
        return strikes(OPENS, EMFILE) ? -1 : next(folder, path, flags, mode);                      \
    }

FRONT_OPEN(open)
FRONT_OPEN(open64)
FRONT_OPENAT(openat)
FRONT_OPENAT(openat64)
FRONT(int, eventfd, (unsigned int count, int flags), (count, flags), strikes(OPENS, EMFILE))
FRONT(int, timerfd_create, (int clock, int flags), (clock, flags), strikes(OPENS, EMFILE))
FRONT(int, pipe2, (int ends[2], int flags), (ends, flags), strikes(OPENS, EMFILE))

FRONT(pid_t, fork, (void), (), strikes(CHILDREN, EAGAIN))

int posix_spawn(pid_t *ret_pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const *arguments,
                char *const *environment)
{
    NEXT(int (*)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                 const posix_spawnattr_t *, char *const *, char *const *),
         "posix_spawn");
    return strikes(CHILDREN, EAGAIN)
               ? EAGAIN
               : next(ret_pid, path, actions, attributes, arguments, environment);
}
