/* journal.c: append-only lines with a checksum each. */
#include "agent/io/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/hash.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

#define JOURNAL_NAME     "agent.journal"
#define JOURNAL_NEW_NAME "agent.journal.new"
#define LOCK_NAME        "agent.lock"
#define JOURNAL_HEADER   "keepstep-agent-journal 1\n"
enum { HEX_DIGITS = 16, LOCK_TRIES = 60, LOCK_WAIT_MS = 50 };

struct agent_journal {
    int dir_fd;
    int lock_fd;
    int fd;
    uint64_t size; /* of the good part */
    size_t lines;
    uint64_t appended; /* by this process */
    bool crash_before;
    uint64_t crash_at;
    char path[PATH_SIZE + 32]; /* for messages */
};

/* ---- a line ----------------------------------------------------------------------------------- */

static bool is_plain(unsigned char byte)
{
    return byte > ' ' && byte < 0x7f && byte != '%';
}

static bool escape(const char *text, char *target, size_t size)
{
    static const char hex[] = "0123456789abcdef";
    size_t used = 0;
    if (text[0] == '\0' || text_equal(text, "-")) {
        return text_copy(target, size, text[0] == '\0' ? "-" : "%2d");
    }
    for (const char *at = text; *at != '\0'; at++) {
        const unsigned char byte = (unsigned char)*at;
        if (used + 4 > size) {
            return false;
        }
        if (is_plain(byte)) {
            target[used++] = *at;
        } else {
            target[used++] = '%';
            target[used++] = hex[byte >> 4];
            target[used++] = hex[byte & 15];
        }
    }
    target[used] = '\0';
    return true;
}

static int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static bool unescape(const char *text, char *target, size_t size)
{
    size_t used = 0;
    if (text_equal(text, "-")) {
        target[0] = '\0';
        return true;
    }
    while (*text != '\0') {
        if (used + 1 >= size) {
            return false;
        }
        if (*text != '%') {
            target[used++] = *text++;
            continue;
        }
        const int high = hex_value(text[1]);
        const int low = high < 0 ? -1 : hex_value(text[2]);
        if (low < 0 || (high == 0 && low == 0)) {
            return false;
        }
        target[used++] = (char)(high * 16 + low);
        text += 3;
    }
    target[used] = '\0';
    return true;
}

bool agent_journal_format(const struct agent_record *record, char line[AGENT_JOURNAL_LINE_MAX])
{
    char name[3 * NAME_SIZE + 1];
    char text[3 * TEXT_SIZE + 1];
    char body[AGENT_JOURNAL_LINE_MAX - HEX_DIGITS - 1];
    const char *word = agent_record_word(record->kind);
    CHECK(word != NULL);
    if (!escape(record->name, name, sizeof(name)) || !escape(record->text, text, sizeof(text))) {
        return false;
    }
    return text_format(body, sizeof(body), "%s %llu %llu %u %u %u %u %s %s", word,
                       (unsigned long long)record->wall_ms, (unsigned long long)record->number,
                       record->job, record->attempt, record->first_rank, record->rank_count, name,
                       text) &&
           text_format(line, AGENT_JOURNAL_LINE_MAX, "%016llx %s",
                       (unsigned long long)hash_bytes(HASH_INIT, body, strlen(body)), body);
}

/* Cuts the next word off *text, in place; NULL at the end. */
static char *next_word(char **text)
{
    char *word = *text;
    if (word == NULL || *word == '\0') {
        return NULL;
    }
    char *blank = strchr(word, ' ');
    if (blank != NULL) {
        *blank = '\0';
    }
    *text = blank != NULL ? blank + 1 : NULL;
    return word;
}

static bool word_u64(char **text, uint64_t max, uint64_t *ret_value)
{
    const char *word = next_word(text);
    return word != NULL && text_to_u64(word, max, ret_value) == 0;
}

static bool word_u32(char **text, uint32_t *ret_value)
{
    uint64_t value = 0;
    if (!word_u64(text, UINT32_MAX, &value)) {
        return false;
    }
    *ret_value = (uint32_t)value;
    return true;
}

static uint8_t kind_of_word(const char *word)
{
    for (uint8_t kind = 1; agent_record_word(kind) != NULL; kind++) {
        if (text_equal(agent_record_word(kind), word)) {
            return kind;
        }
    }
    return 0;
}

static bool parse_body(char *body, struct agent_record *record)
{
    const char *word = next_word(&body);
    record->kind = word != NULL ? kind_of_word(word) : 0;
    if (record->kind == 0 || !word_u64(&body, UINT64_MAX, &record->wall_ms) ||
        !word_u64(&body, UINT64_MAX, &record->number) || !word_u32(&body, &record->job) ||
        !word_u32(&body, &record->attempt) || !word_u32(&body, &record->first_rank) ||
        !word_u32(&body, &record->rank_count)) {
        return false;
    }
    const char *name = next_word(&body);
    const char *text = next_word(&body);
    return name != NULL && text != NULL && body == NULL &&
           unescape(name, record->name, sizeof(record->name)) &&
           unescape(text, record->text, sizeof(record->text));
}

int agent_journal_parse(const char *line, size_t size, struct agent_record *ret_record)
{
    char body[AGENT_JOURNAL_LINE_MAX];
    if (size <= HEX_DIGITS + 1 || size - HEX_DIGITS - 1 >= sizeof(body) ||
        line[HEX_DIGITS] != ' ') {
        return -EBADMSG;
    }
    uint64_t checksum = 0;
    for (size_t i = 0; i < HEX_DIGITS; i++) {
        const int value = hex_value(line[i]);
        if (value < 0) {
            return -EBADMSG;
        }
        checksum = checksum << 4 | (uint64_t)value;
    }
    const size_t body_size = size - HEX_DIGITS - 1;
    memcpy(body, line + HEX_DIGITS + 1, body_size);
    body[body_size] = '\0';
    if (hash_bytes(HASH_INIT, body, body_size) != checksum || strlen(body) != body_size) {
        return -EBADMSG;
    }
    struct agent_record record = {0};
    if (!parse_body(body, &record)) {
        return -EBADMSG;
    }
    *ret_record = record;
    return 0;
}

/* ---- the file ---------------------------------------------------------------------------------- */

/* The lock of an agent that was just killed is still held for a moment where a child of it has not
 * reached its exec yet. */
static int take_lock(struct agent_journal *journal, struct err *err)
{
    journal->lock_fd = openat(journal->dir_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (journal->lock_fd < 0) {
        return err_set(err, -errno, "%s: the lock cannot be made: %s", journal->path,
                       strerror(errno));
    }
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(journal->lock_fd, LOCK_EX | LOCK_NB) == 0) {
            return 0;
        }
        const struct timespec wait = {.tv_nsec = LOCK_WAIT_MS * 1000000L};
        (void)nanosleep(&wait, NULL); /* cut short: tried once more, sooner */
    }
    return err_set(err, -EBUSY, "%s: another agent uses this state folder", journal->path);
}

static int write_all(int fd, const uint8_t *data, size_t size, uint64_t offset)
{
    while (size > 0) {
        const ssize_t done = pwrite(fd, data, size, (off_t)offset);
        if (done < 0 && errno != EINTR) {
            return -errno;
        }
        if (done > 0) {
            data += done;
            size -= (size_t)done;
            offset += (uint64_t)done;
        }
    }
    return 0;
}

static int open_file(struct agent_journal *journal, struct err *err)
{
    journal->fd =
        openat(journal->dir_fd, JOURNAL_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat status;
    if (journal->fd < 0 || fstat(journal->fd, &status) != 0) {
        return err_set(err, -errno, "%s: %s", journal->path, strerror(errno));
    }
    if (status.st_size > AGENT_JOURNAL_SIZE_MAX) {
        return err_set(err, -EFBIG, "%s is larger than %d bytes", journal->path,
                       AGENT_JOURNAL_SIZE_MAX);
    }
    journal->size = (uint64_t)status.st_size;
    return 0;
}

int agent_journal_open(const char *dir, struct agent_journal **ret_journal, struct err *err)
{
    if (mkdir(dir, 0711) != 0 && errno != EEXIST) {
        return err_set(err, -errno, "state folder '%s': %s", dir, strerror(errno));
    }
    struct agent_journal *journal = mem_alloc(1, sizeof(*journal));
    journal->lock_fd = -1;
    journal->fd = -1;
    (void)text_format(journal->path, sizeof(journal->path), "%s/%s", dir, JOURNAL_NAME);
    journal->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = 0;
    if (journal->dir_fd < 0) {
        r = err_set(err, -errno, "state folder '%s': %s", dir, strerror(errno));
    }
    r = r == 0 ? take_lock(journal, err) : r;
    r = r == 0 ? open_file(journal, err) : r;
    if (r != 0) {
        (void)agent_journal_free(journal);
        return r;
    }
    *ret_journal = journal;
    return 0;
}

struct agent_journal *agent_journal_free(struct agent_journal *journal)
{
    if (journal == NULL) {
        return NULL;
    }
    const int fds[] = {journal->fd, journal->lock_fd, journal->dir_fd};
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]); /* what counts was synced */
        }
    }
    return mem_free(journal);
}

static int read_all(const struct agent_journal *journal, char **ret_text, struct err *err)
{
    char *text = mem_alloc((size_t)journal->size + 1, 1);
    size_t used = 0;
    while (used < journal->size) {
        const ssize_t got = pread(journal->fd, text + used, journal->size - used, (off_t)used);
        if (got <= 0) {
            const int code = got < 0 ? -errno : -EIO;
            mem_free(text);
            return err_set(err, code, "%s cannot be read: %s", journal->path, strerror(-code));
        }
        used += (size_t)got;
    }
    *ret_text = text;
    return 0;
}

/* A line that is bad counts as torn only when nothing good stands behind it. */
static bool good_line_follows(const char *text, size_t size)
{
    struct agent_record record;
    while (size > 0) {
        const char *end = memchr(text, '\n', size);
        if (end == NULL) {
            return false;
        }
        const size_t length = (size_t)(end - text);
        if (agent_journal_parse(text, length, &record) == 0) {
            return true;
        }
        text += length + 1;
        size -= length + 1;
    }
    return false;
}

static int visit_lines(struct agent_journal *journal, const char *text, agent_record_visit *visit,
                       void *context, struct err *err)
{
    const size_t header = strlen(JOURNAL_HEADER);
    size_t at = header;
    while (at < journal->size) {
        const char *end = memchr(text + at, '\n', journal->size - at);
        struct agent_record record;
        const size_t length = end != NULL ? (size_t)(end - (text + at)) : 0;
        if (end == NULL || agent_journal_parse(text + at, length, &record) != 0) {
            if (end != NULL && good_line_follows(end + 1, journal->size - at - length - 1)) {
                return err_set(err, -EBADMSG, "%s: line %zu is damaged", journal->path,
                               journal->lines + 2);
            }
            break;
        }
        const int r = visit(&record, context);
        if (r != 0) {
            return err_set(err, r, "%s: line %zu cannot follow the ones before it", journal->path,
                           journal->lines + 2);
        }
        journal->lines++;
        at += length + 1;
    }
    if (at < journal->size && ftruncate(journal->fd, (off_t)at) != 0) {
        return err_set(err, -errno, "%s: the torn end cannot be cut off: %s", journal->path,
                       strerror(errno));
    }
    journal->size = at;
    return 0;
}

static int begin_file(struct agent_journal *journal, struct err *err)
{
    int r = ftruncate(journal->fd, 0) != 0 ? -errno : 0;
    r = r == 0 ? write_all(journal->fd, (const uint8_t *)JOURNAL_HEADER, strlen(JOURNAL_HEADER), 0)
               : r;
    if (r == 0 && (fsync(journal->fd) != 0 || fsync(journal->dir_fd) != 0)) {
        r = -errno;
    }
    if (r != 0) {
        return err_set(err, r, "%s cannot be begun: %s", journal->path, strerror(-r));
    }
    journal->size = strlen(JOURNAL_HEADER);
    return 0;
}

int agent_journal_replay(struct agent_journal *journal, agent_record_visit *visit, void *context,
                         struct err *err)
{
    const size_t header = strlen(JOURNAL_HEADER);
    char *text = NULL;
    int r = read_all(journal, &text, err);
    if (r != 0) {
        return r;
    }
    journal->lines = 0;
    const size_t shorter = journal->size < header ? journal->size : header;
    if (memcmp(text, JOURNAL_HEADER, shorter) != 0) {
        r = err_set(err, -EBADMSG, "%s is no journal of this version", journal->path);
    } else if (journal->size < header) {
        r = begin_file(journal, err);
    } else {
        r = visit_lines(journal, text, visit, context, err);
    }
    mem_free(text);
    return r;
}

/* ---- writing ------------------------------------------------------------------------------------ */

static int put_records(struct buf *out, const struct agent_record *records, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char line[AGENT_JOURNAL_LINE_MAX];
        const bool fits = agent_journal_format(&records[i], line);
        CHECK(fits);
        const int r = buf_printf(out, "%s\n", line);
        if (r != 0) {
            return r;
        }
    }
    return 0;
}

static int append_once(struct agent_journal *journal, const struct agent_record *records,
                       size_t count, struct err *err)
{
    struct buf lines;
    buf_init(&lines, AGENT_JOURNAL_SIZE_MAX);
    int r = put_records(&lines, records, count);
    r = r == 0 ? write_all(journal->fd, lines.data, lines.size, journal->size) : r;
    if (r == 0 && fdatasync(journal->fd) != 0) {
        r = -errno;
    }
    if (r == 0) {
        journal->size += lines.size;
        journal->lines += count;
        journal->appended += count;
    } else {
        (void)ftruncate(journal->fd, (off_t)journal->size); /* else the next try writes over it */
        (void)err_set(err, r, "%s cannot be written: %s", journal->path, strerror(-r));
    }
    buf_done(&lines);
    return r;
}

int agent_journal_append(struct agent_journal *journal, const struct agent_record *records,
                         size_t count, struct err *err)
{
    const uint64_t at = journal->crash_at;
    if (at <= journal->appended || at > journal->appended + count) {
        return append_once(journal, records, count, err);
    }
    const size_t first = (size_t)(at - journal->appended) - (journal->crash_before ? 1 : 0);
    const int r = first > 0 ? append_once(journal, records, first, err) : 0;
    if (r == 0) {
        (void)raise(SIGKILL);
    }
    return r;
}

int agent_journal_rewrite(struct agent_journal *journal, const struct agent_record *records,
                          size_t count, bool *ret_replaced, struct err *err)
{
    struct buf text;
    buf_init(&text, AGENT_JOURNAL_SIZE_MAX);
    int r = buf_put(&text, JOURNAL_HEADER, strlen(JOURNAL_HEADER));
    r = r == 0 ? put_records(&text, records, count) : r;
    const int fd = openat(journal->dir_fd, JOURNAL_NEW_NAME,
                          O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    r = r == 0 && fd < 0 ? -errno : r;
    r = r == 0 ? write_all(fd, text.data, text.size, 0) : r;
    r = r == 0 && fsync(fd) != 0 ? -errno : r;
    if (r == 0 && renameat(journal->dir_fd, JOURNAL_NEW_NAME, journal->dir_fd, JOURNAL_NAME) != 0) {
        r = -errno;
    }
    const bool renamed = r == 0;
    *ret_replaced = renamed;
    r = r == 0 && fsync(journal->dir_fd) != 0 ? -errno : r;
    if (renamed) { /* from now on this is the file, also when the folder could not be synced */
        (void)close(journal->fd);
        journal->fd = fd;
        journal->size = text.size;
        journal->lines = count;
    } else if (fd >= 0) {
        (void)close(fd);                                      /* given up */
        (void)unlinkat(journal->dir_fd, JOURNAL_NEW_NAME, 0); /* if there is none, good */
    }
    if (r != 0) {
        (void)err_set(err, r, "%s cannot be rewritten: %s", journal->path, strerror(-r));
    }
    buf_done(&text);
    return r;
}

size_t agent_journal_lines(const struct agent_journal *journal)
{
    return journal->lines;
}

void agent_journal_crash_at(struct agent_journal *journal, bool before, uint64_t at)
{
    journal->crash_before = before;
    journal->crash_at = at;
}
