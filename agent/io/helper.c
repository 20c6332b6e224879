/* helper.c: both ends of the helper. The child touches nothing before it has become the user. */
#include "agent/io/helper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/io/output.h"
#include "agent/io/save_order.h"
#include "agent/io/step_follow.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    GROUPS_TEXT_SIZE = 4096,
    GROUPS_MAX = 256,
    HELPER_ARGUMENTS = 11,
    COPY_SIZE = 65536,
    LINE_MAX_SIZE = 65536,
};

/* ---- the agent's end ----------------------------------------------------------------------------- */

int helper_start(uv_loop_t *loop, struct child_set *set, const struct helper_task *task,
                 uint64_t deadline_ms, child_done *done, void *context)
{
    char program[4096];
    size_t size = sizeof(program) - 1;
    const int r = uv_exepath(program, &size);
    if (r != 0) {
        return r;
    }
    program[size] = '\0';
    char uid[16];
    char gid[16];
    char number[24];
    char number2[16];
    char groups[GROUPS_TEXT_SIZE] = "-";
    size_t used = 0;
    (void)text_format(uid, sizeof(uid), "%u", task->uid);
    (void)text_format(gid, sizeof(gid), "%u", task->gid);
    (void)text_format(number, sizeof(number), "%llu", (unsigned long long)task->number);
    (void)text_format(number2, sizeof(number2), "%u", task->number2);
    for (uint32_t i = 0; i < task->group_count && used + 12 < sizeof(groups); i++) {
        (void)text_format(groups + used, sizeof(groups) - used, "%s%u", i > 0 ? "," : "",
                          task->groups[i]);
        used = strlen(groups);
    }
    const char *const argv[] = {program,
                                HELPER_WORD,
                                task->verb,
                                uid,
                                gid,
                                groups,
                                task->path,
                                number,
                                number2,
                                task->text != NULL ? task->text : "",
                                task->text2 != NULL ? task->text2 : "",
                                NULL};
    const struct child_options options = {.argv = argv,
                                          .capture = 1,
                                          .output_max =
                                              task->line != NULL ? LINE_MAX_SIZE : CHILD_OUTPUT_MAX,
                                          .deadline_ms = deadline_ms,
                                          .patient = task->quiet,
                                          .group = task->line != NULL,
                                          .line = task->line,
                                          .done = done,
                                          .context = context};
    return child_start(loop, set, &options);
}

/* ---- the child's end -------------------------------------------------------------------------------- */

static int complain(const char *what, int code)
{
    (void)printf("%s: %s\n", what, strerror(code));
    (void)fflush(stdout); /* the exit status says the rest */
    return code > 0 && code < 128 ? code : EIO;
}

/* "4,24,27" */
static int parse_groups(const char *text, gid_t groups[GROUPS_MAX], size_t *ret_count)
{
    size_t count = 0;
    while (*text != '\0' && *text != '-') {
        char one[16];
        uint64_t value = 0;
        const size_t length = strcspn(text, ",");
        (void)text_copy(one, length + 1 < sizeof(one) ? length + 1 : sizeof(one), text);
        if (count == GROUPS_MAX || text_to_u64(one, UINT32_MAX, &value) != 0) {
            return -EINVAL;
        }
        groups[count++] = (gid_t)value;
        text += length + (text[length] == ',');
    }
    *ret_count = count;
    return 0;
}

static int become(const char *uid_text, const char *gid_text, const char *groups_text)
{
    uint64_t uid = 0;
    uint64_t gid = 0;
    gid_t groups[GROUPS_MAX];
    size_t count = 0;
    if (text_to_u64(uid_text, UINT32_MAX, &uid) != 0 ||
        text_to_u64(gid_text, UINT32_MAX, &gid) != 0 ||
        parse_groups(groups_text, groups, &count) != 0) {
        return -EINVAL;
    }
    if (geteuid() != 0) {
        return uid == geteuid() ? 0 : -EPERM;
    }
    if (setgroups(count, groups) != 0 || setgid((gid_t)gid) != 0 || setuid((uid_t)uid) != 0) {
        return -errno;
    }
    return geteuid() == uid && getegid() == gid ? 0 : -EPERM;
}

static int copy_out(int fd, uint64_t offset, uint64_t size)
{
    static const char what[] = "standard output";
    uint8_t *bytes = mem_alloc(COPY_SIZE, 1);
    int result = 0;
    while (size > 0 && result == 0) {
        const size_t want = size < COPY_SIZE ? (size_t)size : COPY_SIZE;
        const ssize_t got = pread(fd, bytes, want, (off_t)offset);
        if (got <= 0) {
            result = got < 0 ? complain("read", errno) : 0;
            break;
        }
        for (ssize_t done = 0; done < got && result == 0;) {
            const ssize_t put = write(STDOUT_FILENO, bytes + done, (size_t)(got - done));
            result = put < 0 ? complain(what, errno) : 0;
            done += put > 0 ? put : 0;
        }
        offset += (uint64_t)got;
        size -= (uint64_t)got;
    }
    mem_free(bytes);
    return result;
}

static int read_file(const char *path, uint64_t max)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) {
        return complain(path, errno);
    }
    if (!S_ISREG(status.st_mode)) {
        return complain(path, EINVAL);
    }
    const uint64_t size = (uint64_t)status.st_size;
    if (size > max) {
        return complain(path, EFBIG);
    }
    const int result = copy_out(fd, 0, size);
    (void)close(fd); /* opened for reading */
    return result;
}

static int read_tail(const char *path, uint64_t max)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
    struct output_end end;
    if (fd < 0) {
        return complain(path, errno);
    }
    const int r = output_end_find(fd, max, &end);
    if (r != 0) {
        return complain(path, -r);
    }
    int result = copy_out(fd, end.head_offset, end.head_size);
    if (result == 0 && end.dropped > 0) {
        char note[OUTPUT_NOTE_SIZE];
        output_note(end.dropped, note);
        const ssize_t put = write(STDOUT_FILENO, note, strlen(note));
        result = put < 0 ? complain("standard output", errno) : 0;
    }
    result = result == 0 ? copy_out(fd, end.tail_offset, end.tail_size) : result;
    (void)close(fd); /* opened for reading */
    return result;
}

static int trim_file(const char *path, uint64_t max)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
    struct output_state state;
    if (fd < 0) {
        return complain(path, errno);
    }
    const int r = output_trim(fd, max, &state);
    (void)close(fd); /* nothing that has to last */
    if (r != 0) {
        return complain(path, -r);
    }
    (void)printf("%s %llu %llu\n", state.cut ? "cut" : "kept", (unsigned long long)state.kept,
                 (unsigned long long)state.dropped);
    return fflush(stdout) == 0 ? 0 : EIO;
}

/* True: one byte of it was read; else *code may say why not. */
static bool read_byte(int folder_fd, const char *name, int *code)
{
    struct stat status;
    char byte;
    bool done = false;
    const int fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        *code = errno;
        return false;
    }
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
        const ssize_t got = read(fd, &byte, 1);
        done = got == 1;
        *code = got < 0 ? errno : *code;
    }
    (void)close(fd); /* opened for reading */
    return done;
}

/* Calls try on each entry until one of them succeeds. */
static bool try_entries(int folder_fd, bool (*try)(int, const char *, int *), int *code)
{
    const int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    bool done = false;
    if (folder == NULL) {
        *code = errno;
        if (fd >= 0) {
            (void)close(fd); /* nothing was read */
        }
        return false;
    }
    const struct dirent *entry = readdir(folder);
    for (; entry != NULL && !done; entry = readdir(folder)) {
        const bool self = text_equal(entry->d_name, ".") || text_equal(entry->d_name, "..");
        done = !self && try(fd, entry->d_name, code);
    }
    (void)closedir(folder); /* opened for reading */
    return done;
}

static bool read_within(int folder_fd, const char *name, int *code)
{
    const int fd = openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    const bool done = fd >= 0 && try_entries(fd, read_byte, code);
    if (fd >= 0) {
        (void)close(fd); /* opened for reading */
    }
    return done;
}

/* One byte of it, or of a folder within: that the storage is there, not that it is whole. */
static int read_one_byte(const char *path)
{
    int code = ENODATA;
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return complain(path, errno);
    }
    const bool done = try_entries(fd, read_byte, &code) || try_entries(fd, read_within, &code);
    (void)close(fd); /* opened for reading */
    return done ? 0 : complain(path, code);
}

static int check_storage(const char *path, uint64_t step, uint64_t attempt, const char *directory)
{
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return complain(path, errno);
    }
    errno = 0;
    (void)readdir(folder); /* an empty folder is fine */
    const int code = errno;
    (void)closedir(folder); /* opened for reading */
    if (code != 0) {
        return complain(path, code);
    }
    if (step == 0) {
        return 0;
    }
    if (directory[0] != '\0') {
        return read_one_byte(directory);
    }
    char checkpoint[4096];
    if (!text_format(checkpoint, sizeof(checkpoint), "%s/step-%llu.a-%llu", path,
                     (unsigned long long)step, (unsigned long long)attempt)) {
        return complain(path, ENAMETOOLONG);
    }
    return read_one_byte(checkpoint);
}

/* The site's program sees nothing of the agent's environment, and cannot outlive its deadline. */
static int run_program(const char *program, const char *directory, const char *job)
{
    char path[] = "PATH=/usr/local/bin:/usr/bin:/bin";
    char *environment[] = {path, NULL};
    char *arguments[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)directory,
                         (char *)(uintptr_t)job, NULL}; /* execve does not write to them */
    (void)execve(program, arguments, environment);      /* returns only when it failed */
    return complain(program, errno);
}

/* helper VERB UID GID GROUPS PATH NUMBER NUMBER2 TEXT TEXT2 */
int helper_main(int argc, char **argv)
{
    uint64_t number = 0;
    uint64_t number2 = 0;
    if (argc != HELPER_ARGUMENTS || text_to_u64(argv[7], UINT64_MAX, &number) != 0 ||
        text_to_u64(argv[8], UINT32_MAX, &number2) != 0) {
        return complain("helper", EINVAL);
    }
    const int r = become(argv[3], argv[4], argv[5]);
    if (r != 0) {
        return complain("the job's user", -r);
    }
    if (text_equal(argv[2], "read")) {
        return read_file(argv[6], number);
    }
    if (text_equal(argv[2], "tail")) {
        return read_tail(argv[6], number);
    }
    if (text_equal(argv[2], "trim") && number >= OUTPUT_LIMIT_LEAST) {
        return trim_file(argv[6], number);
    }
    if (text_equal(argv[2], "check")) {
        return check_storage(argv[6], number, number2, argv[9]);
    }
    if (text_equal(argv[2], "follow")) {
        return step_follow(argv[6], argv[9], argv[10]);
    }
    if (text_equal(argv[2], "run")) {
        return run_program(argv[9], argv[6], argv[10]);
    }
    const struct save_order order = {.verb = argv[2],
                                     .path = argv[6],
                                     .number = number,
                                     .number2 = (uint32_t)number2,
                                     .text = argv[9],
                                     .text2 = argv[10]};
    if (save_order_known(&order)) {
        return save_order_run(&order);
    }
    return complain(argv[2], EINVAL);
}
