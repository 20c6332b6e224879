/* kmsg_signal.c: see kmsg_signal.h. A record is given to the catalogue as the kernel's, whoever wrote
 * it: whether it is acted on is decided by the reader of the log. */
#include "agent/probe/kmsg_signal.h"

#include <string.h>
#include <sys/stat.h>

#include "agent/core/catalog.h"
#include "agent/probe/catalog_file.h"
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

/* Shipped rows and those of all files that are right; *ret_problem of the first that is not. */
static struct catalog *read_all(const char *files, struct err *ret_problem, struct err *err)
{
    struct catalog_limits limits;
    struct catalog *catalog = NULL;
    char path[PATH_SIZE];
    catalog_limits_default(&limits);
    int r = catalog_create(&limits, &catalog);
    r = r == 0 ? catalog_read_shipped(catalog, err) : r;
    if (r != 0) {
        return catalog_free(catalog);
    }
    while (list_next(&files, path, sizeof(path))) {
        struct err one = {0};
        if (catalog_file_read(catalog, path, &one) != 0 && ret_problem->text[0] == '\0') {
            *ret_problem = one;
        }
    }
    return catalog;
}

struct kmsg_signal *kmsg_signal_create(const char *files, struct err *err)
{
    struct kmsg_signal *signal = mem_alloc(1, sizeof(*signal));
    (void)text_copy(signal->files, sizeof(signal->files), files);
    signal->stamp = stamp_of(files);
    signal->catalog = read_all(files, &signal->problem, err);
    return signal->catalog != NULL ? signal : kmsg_signal_free(signal);
}

void kmsg_signal_refresh(struct kmsg_signal *signal)
{
    const uint64_t stamp = stamp_of(signal->files);
    struct err err = {0};
    if (stamp == signal->stamp) {
        return;
    }
    signal->stamp = stamp;
    signal->problem = (struct err){0};
    struct catalog *catalog = read_all(signal->files, &signal->problem, &err);
    if (catalog == NULL || signal->problem.text[0] != '\0') {
        signal->problem = catalog == NULL ? err : signal->problem;
        (void)catalog_free(catalog);
        return;
    }
    (void)catalog_free(signal->catalog);
    signal->catalog = catalog;
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
