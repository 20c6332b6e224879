/* kmsg_signal.c: see kmsg_signal.h. A record is given to the catalogue as the kernel's, whoever wrote
 * it: whether it is acted on is decided by the reader of the log. */
#include "agent/probe/kmsg_signal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/catalog.h"
#include "agent/probe/list.h"
#include "proto/base/check.h"
#include "proto/base/hash.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { LINE_SIZE = KMSG_RECORD_MAX + 64 };

struct kmsg_signal {
    struct catalog *catalog;
    char files[PROBE_LIST_SIZE];
    uint64_t stamp; /* of the files when they were read */
    struct err problem;
    char line[LINE_SIZE];
};

/* Changes with any of the files. */
static uint64_t stamp_of(const char *files)
{
    char path[PATH_SIZE];
    uint64_t stamp = HASH_INIT;
    while (list_next(&files, path, sizeof(path))) {
        struct stat status = {0};
        stamp = hash_u64(stamp, stat(path, &status) == 0);
        stamp = hash_u64(stamp, (uint64_t)status.st_mtim.tv_sec);
        stamp = hash_u64(stamp, (uint64_t)status.st_mtim.tv_nsec);
        stamp = hash_u64(stamp, (uint64_t)status.st_size);
        stamp = hash_u64(stamp, status.st_ino);
    }
    return stamp;
}

static int read_file(struct catalog *catalog, const char *path, struct err *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    }
    char *bytes = mem_alloc(CATALOG_FILE_MAX + 1, 1);
    size_t size = 0;
    ssize_t got = 1;
    while (got > 0 && size <= CATALOG_FILE_MAX) {
        got = read(fd, bytes + size, CATALOG_FILE_MAX + 1 - size);
        size += got > 0 ? (size_t)got : 0;
    }
    int r = got < 0 ? err_set(err, -errno, "%s: %s", path, strerror(errno)) : 0;
    (void)close(fd); /* opened for reading */
    if (r == 0 && size > CATALOG_FILE_MAX) {
        r = err_set(err, -E2BIG, "%s: longer than a catalogue may be", path);
    }
    r = r == 0 ? catalog_read(catalog, path, bytes, size, err) : r;
    mem_free(bytes);
    return r;
}

struct kmsg_signal *kmsg_signal_create(const char *files, struct err *err)
{
    struct catalog_limits limits;
    struct kmsg_signal *signal = mem_alloc(1, sizeof(*signal));
    catalog_limits_default(&limits);
    int r = catalog_create(&limits, &signal->catalog);
    r = r == 0 ? catalog_read_shipped(signal->catalog, err) : r;
    if (r != 0) {
        return kmsg_signal_free(signal);
    }
    char path[PATH_SIZE];
    (void)text_copy(signal->files, sizeof(signal->files), files);
    signal->stamp = stamp_of(files);
    while (list_next(&files, path, sizeof(path))) {
        struct err one = {0};
        if (read_file(signal->catalog, path, &one) != 0 && signal->problem.text[0] == '\0') {
            signal->problem = one;
        }
    }
    return signal;
}

struct kmsg_signal *kmsg_signal_free(struct kmsg_signal *signal)
{
    if (signal != NULL) {
        (void)catalog_free(signal->catalog);
    }
    return mem_free(signal);
}

const char *kmsg_signal_problem(const struct kmsg_signal *signal)
{
    return signal->problem.text;
}

bool kmsg_signal_is_old(const struct kmsg_signal *signal)
{
    return signal->stamp != stamp_of(signal->files);
}

/* ---- whose words they are ----------------------------------------------------------------------- */

static bool holds(const char *text, size_t size, const char *part)
{
    return memmem(text, size, part, strlen(part)) != NULL;
}

/* "name[123]": how the kernel writes a process, near the beginning of what it says of it. */
static bool begins_with_process(const char *text, size_t size)
{
    enum { WITHIN = 40 };
    const size_t end = size < WITHIN ? size : WITHIN;
    for (size_t i = 0; i < end; i++) {
        size_t digits = i + 1;
        while (text[i] == '[' && digits < size && text[digits] >= '0' && text[digits] <= '9') {
            digits++;
        }
        if (digits > i + 1 && digits < size && text[digits] == ']') {
            return true;
        }
    }
    return false;
}

/* The kernel repeats the names of programs and of their files in what it says of them, and whoever
 * starts a program chooses its name: such a line ends nobody's attempt, whatever it looks like. */
static bool names_a_program(const char *text, size_t size)
{
    static const char *const forms[] = {
        "segfault at", "traps: ", "task=",      "INFO: task ", "Killed process",
        "Comm: ",      "comm=",   "warning: `", "process '"};
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        if (holds(text, size, forms[i])) {
            return true;
        }
    }
    return begins_with_process(text, size);
}

bool kmsg_signal_look(void *context, const struct kmsg_record *record, struct finding *ret_finding)
{
    struct kmsg_signal *self = context;
    struct signal signal;
    struct fact fact;
    /* When it was said matters: some lines only mean something while the machine boots. */
    (void)text_format(self->line, sizeof(self->line), "%u,%llu,%llu,-;%.*s", record->priority,
                      (unsigned long long)record->sequence, (unsigned long long)record->usec,
                      (int)record->size, record->message);
    const size_t size = strlen(self->line);
    if (!catalog_look(self->catalog, STREAM_KERNEL, self->line, size, &signal) ||
        signal.role == ROLE_NOISE) {
        return false;
    }
    signal_fact(&signal, STREAM_KERNEL, self->line, size, &fact);
    if (fact.severity > 1 && names_a_program(record->message, record->size)) {
        fact.severity = 1;
    }
    *ret_finding = (struct finding){.label = fact.label,
                                    .advice = fact.advice,
                                    .role = fact.role,
                                    .source = FACT_LOG,
                                    .severity = fact.severity,
                                    .gpu = fact.gpu,
                                    .port = fact.port,
                                    .code = fact.code};
    (void)text_copy(ret_finding->signal, sizeof(ret_finding->signal), fact.signal);
    (void)text_copy(ret_finding->subject, sizeof(ret_finding->subject), fact.subject);
    (void)text_copy(ret_finding->text, sizeof(ret_finding->text), fact.text);
    return true;
}
