/* kmsg.c: see kmsg.h. A round lasts five seconds, in which lines are said as they come. */
#include "agent/probe/kmsg.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/probe/kmsg_signal.h"
#include "agent/probe/read.h"
#include "proto/base/check.h"
#include "proto/base/hash.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    ROUND_MS = 5000,
    ONCE_MS = 1000,
    NEW_MS = 2000,     /* the kernel's clock for lines may differ so much from ours */
    FILE_LOOK_MS = 50, /* a file says by itself when it has grown to nobody */
    SLICE_MS = 100,
    SLICE_CPU_NS = 5000000,
    SLICE_RECORDS = 32, /* between two looks at the clock */
    LOST_SHOWN_MS = 60000,
    BUFFER_SIZE = 4 * KMSG_RECORD_MAX,
    CURSOR_BOOT_SIZE = BOOT_ID_SIZE - 1,
};

/* ---- records ------------------------------------------------------------------------------------- */

static const char *take_digits(const char *at, const char *end, uint64_t *ret_number)
{
    uint64_t number = 0;
    const char *start = at;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        if (number > (UINT64_MAX - 9) / 10) {
            return NULL;
        }
        number = number * 10 + (uint64_t)(*at - '0');
    }
    *ret_number = number;
    return at > start && at < end ? at : NULL;
}

int kmsg_record_parse(const char *record, size_t size, struct kmsg_record *ret_record)
{
    const char *end = record + size;
    uint64_t numbers[3];
    const char *at = record;
    for (uint32_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        at = take_digits(at, end, &numbers[i]);
        if (at == NULL || *at != ',') {
            return -EINVAL;
        }
        at++;
    }
    const char *text = memchr(at, ';', (size_t)(end - at));
    if (text == NULL || numbers[0] > UINT32_MAX || memchr(at, '\n', (size_t)(text - at)) != NULL) {
        return -EINVAL;
    }
    text++;
    const char *line_end = memchr(text, '\n', (size_t)(end - text));
    *ret_record = (struct kmsg_record){
        .priority = (uint32_t)numbers[0] & 7,
        .facility = (uint32_t)(numbers[0] >> 3),
        .sequence = numbers[1],
        .usec = numbers[2],
        .message = text,
        .size = (size_t)((line_end != NULL ? line_end : end) - text),
    };
    return 0;
}

/* The place of lines like this one: the one that was said longest ago when there is none. */
static struct kmsg_alike *alike_of(struct kmsg *kmsg, uint64_t key)
{
    struct kmsg_alike *oldest = &kmsg->alike[0];
    for (uint32_t i = 0; i < KMSG_ALIKE_MAX; i++) {
        struct kmsg_alike *alike = &kmsg->alike[i];
        if (alike->at_ms != 0 && alike->key == key) {
            return alike;
        }
        oldest = alike->at_ms < oldest->at_ms ? alike : oldest;
    }
    *oldest = (struct kmsg_alike){.key = key};
    return oldest;
}

/* Shown only: whoever is to blame, it is not said by this line. */
static void only_show(struct finding *finding, const char *why)
{
    char text[TEXT_SIZE];
    finding->advice = ADVICE_NONE;
    finding->role = ROLE_NOISE;
    finding->severity = 0;
    (void)text_sentence(text, sizeof(text), "%s: %s", why, finding->text);
    (void)text_copy(finding->text, sizeof(finding->text), text);
}

/* False: one like it was said a moment ago; what a program writes is never like what the kernel does. */
static bool is_news(struct kmsg *kmsg, uint64_t now_ms, bool user, struct finding *finding)
{
    char name[SIGNAL_NAME_SIZE + SIGNAL_SUBJECT_SIZE + 32];
    (void)text_format(name, sizeof(name), "%s %d %s%s", finding->signal, finding->code,
                      finding->subject, user ? " by a program" : "");
    struct kmsg_alike *alike =
        alike_of(kmsg, hash_bytes(HASH_INIT ^ kmsg->old, name, strlen(name)));
    if (alike->at_ms != 0 && now_ms < alike->at_ms + KMSG_AGAIN_MS) {
        alike->count++;
        return false;
    }
    if (alike->count > 0) {
        char text[TEXT_SIZE];
        (void)text_sentence(text, sizeof(text), "%.150s (and %u like it before)", finding->text,
                            alike->count);
        (void)text_copy(finding->text, sizeof(finding->text), text);
    }
    alike->at_ms = now_ms;
    alike->count = 0;
    return true;
}

bool kmsg_take(struct kmsg *kmsg, const char *record, size_t size, uint64_t now_ms,
               struct finding *ret_finding)
{
    struct kmsg_record line;
    if (kmsg_record_parse(record, size, &line) != 0) {
        kmsg->odd++;
        return false;
    }
    if (kmsg->has_last && line.sequence <= kmsg->last) {
        return false; /* seen, by us or by the process before */
    }
    if (kmsg->has_last && line.sequence > kmsg->last + 1) {
        kmsg->lost += line.sequence - kmsg->last - 1;
        kmsg->lost_ms = now_ms;
    }
    kmsg->has_last = true;
    kmsg->last = line.sequence;
    kmsg->lines++;
    kmsg->old = kmsg->old && (kmsg->new_usec == 0 || line.usec < kmsg->new_usec);
    const bool user = line.facility != 0;
    struct finding finding;
    memset(&finding, 0, sizeof(finding));
    if (!kmsg->look(kmsg->context, &line, &finding)) {
        return false;
    }
    if (!is_news(kmsg, now_ms, user && !kmsg->act_on_user, &finding)) {
        return false;
    }
    if (user && !kmsg->act_on_user) {
        only_show(&finding, "written by a program");
    } else if (kmsg->old) {
        only_show(&finding, "before this agent");
    }
    const uint32_t most = finding.severity >= 2 ? 2 * KMSG_EVENTS_PER_ROUND : KMSG_EVENTS_PER_ROUND;
    if (kmsg->said >= most) {
        kmsg->unsaid++;
        return false;
    }
    kmsg->said++;
    finding.verdict = VERDICT_WARN;
    (void)text_format(finding.key, sizeof(finding.key), "%s %s", finding.signal, finding.subject);
    *ret_finding = finding;
    return true;
}

/* ---- the source ------------------------------------------------------------------------------------- */

struct source {
    struct kmsg kmsg;
    struct kmsg_signal *signal;
    int fd;
    mode_t type;
    char boot[BOOT_ID_SIZE];
    uint64_t slice_ms; /* when this slice began */
    int64_t slice_cpu; /* of it, used before */
    size_t used;
    char buffer[BUFFER_SIZE];
};

static uint64_t clock_ms(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int64_t cpu_ns(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now); /* cannot fail for this clock */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* "BOOT SEQUENCE" of the process before, if that was on this boot. Else what is there is old, to the
 * end of it; how long the reading takes says nothing, for a large buffer outlasts our budget. In a
 * flood that never ends, lines that were written since are new. */
static void take_cursor(struct probe_run *run, struct source *source)
{
    const char *note = probe_note(run, "cursor");
    uint64_t sequence = 0;
    source->kmsg.old = true;
    source->kmsg.new_usec = (clock_ms() + NEW_MS) * 1000;
    if (note == NULL || strlen(note) <= CURSOR_BOOT_SIZE || note[CURSOR_BOOT_SIZE] != ' ' ||
        strncmp(note, source->boot, CURSOR_BOOT_SIZE) != 0 ||
        read_parse(note + CURSOR_BOOT_SIZE + 1, &sequence) != 0) {
        return;
    }
    source->kmsg.old = false;
    source->kmsg.has_last = true;
    source->kmsg.last = sequence;
}

static int source_open(struct probe_run *run, struct source *source)
{
    struct stat status;
    const char *path = run->config->kmsg;
    if (stat(path, &status) != 0) {
        return -errno;
    }
    /* A pipe is opened for writing too, so that it does not end with the one who wrote into it. */
    const int mode = S_ISFIFO(status.st_mode) ? O_RDWR : O_RDONLY;
    source->fd = open(path, mode | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (source->fd < 0) {
        return -errno;
    }
    source->type = status.st_mode & S_IFMT;
    source->kmsg.context = source->signal;
    source->kmsg.look = kmsg_signal_look;
    source->kmsg.act_on_user = run->config->kmsg_user;
    (void)read_text(source->boot, sizeof(source->boot), "%s/sys/kernel/random/boot_id",
                    run->config->proc);
    take_cursor(run, source);
    return 0;
}

static void put_event(struct probe_run *run, struct source *source, const char *record, size_t size,
                      uint64_t now_ms)
{
    struct finding finding;
    if (kmsg_take(&source->kmsg, record, size, now_ms, &finding)) {
        probe_event(run, &finding);
    }
}

/* Of a pipe or file: every whole record; the lines that belong to one begin with a space. */
static void take_stream(struct probe_run *run, struct source *source, uint64_t now_ms)
{
    size_t start = 0;
    for (;;) {
        const char *at = source->buffer + start;
        const char *end = memchr(at, '\n', source->used - start);
        if (end == NULL) {
            break;
        }
        if (*at != ' ') {
            put_event(run, source, at, (size_t)(end - at), now_ms);
        }
        start = (size_t)(end - source->buffer) + 1;
    }
    if (start == 0 && source->used == sizeof(source->buffer)) {
        source->kmsg.odd++;
        start = source->used; /* no record is so long */
    }
    memmove(source->buffer, source->buffer + start, source->used - start);
    source->used -= start;
}

/* One read. 1: something came; 0: nothing is left; -errno. */
static int take_some(struct probe_run *run, struct source *source)
{
    const ssize_t got =
        read(source->fd, source->buffer + source->used,
             source->type == S_IFCHR ? KMSG_RECORD_MAX : sizeof(source->buffer) - source->used);
    const uint64_t now_ms = clock_ms();
    if (got < 0 && errno == EPIPE) {
        return 1; /* overwritten: the next sequence number says how many */
    }
    if (got < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    }
    if (source->type == S_IFCHR) {
        put_event(run, source, source->buffer, (size_t)got, now_ms);
    } else {
        source->used += (size_t)got;
        take_stream(run, source, now_ms);
    }
    return got > 0;
}

/* What processor time is left in this slice of time; a new one begins by itself. */
static bool has_budget(struct source *source, uint64_t now_ms)
{
    if (now_ms >= source->slice_ms + SLICE_MS) {
        source->slice_ms = now_ms;
        source->slice_cpu = cpu_ns();
    }
    return cpu_ns() - source->slice_cpu < SLICE_CPU_NS;
}

static int drain(struct probe_run *run, struct source *source)
{
    int r = 1;
    while (r > 0 && has_budget(source, clock_ms())) {
        for (uint32_t i = 0; r > 0 && i < SLICE_RECORDS; i++) {
            r = take_some(run, source);
        }
    }
    if (r == 0) {
        source->kmsg.old = false;
    }
    return r;
}

/* False: whoever reads what we say is gone. */
static bool wait_more(const struct source *source, bool more, uint64_t until_ms)
{
    const uint64_t now_ms = clock_ms();
    struct pollfd events[] = {{.fd = STDOUT_FILENO}, {.fd = source->fd, .events = POLLIN}};
    uint64_t wait_ms = until_ms > now_ms ? until_ms - now_ms : 0;
    nfds_t count = 2;
    if (more) { /* the budget is used up */
        const uint64_t slice_ms = source->slice_ms + SLICE_MS;
        const uint64_t rest_ms = slice_ms > now_ms ? slice_ms - now_ms : 0;
        wait_ms = rest_ms < wait_ms ? rest_ms : wait_ms;
        count = 1;
    } else if (source->type == S_IFREG) { /* always readable */
        wait_ms = wait_ms < FILE_LOOK_MS ? wait_ms : FILE_LOOK_MS;
        count = 1;
    }
    const int r = poll(events, count, (int)wait_ms);
    return r <= 0 || events[0].revents == 0;
}

static void say_state(struct probe_run *run, const struct source *source)
{
    const struct kmsg *kmsg = &source->kmsg;
    struct finding finding;
    if (kmsg->lost > 0 && clock_ms() < kmsg->lost_ms + LOST_SHOWN_MS) {
        probe_finding(&finding, VERDICT_WARN, "kmsg",
                      "kernel log: %llu lines were overwritten before they could be read",
                      (unsigned long long)kmsg->lost);
        probe_blame(&finding, LABEL_UNKNOWN, ADVICE_WATCH, ROLE_SYMPTOM, "kernel-log-flood");
    } else {
        probe_finding(&finding, VERDICT_OK, "kmsg",
                      "%llu lines read, %llu overwritten, %llu of no known shape",
                      (unsigned long long)kmsg->lines, (unsigned long long)kmsg->lost,
                      (unsigned long long)kmsg->odd);
    }
    if (kmsg->unsaid > 0) {
        const size_t used = strlen(finding.text);
        (void)text_sentence(finding.text + used, sizeof(finding.text) - used,
                            "; %llu that mean something not said, for their number",
                            (unsigned long long)kmsg->unsaid);
    }
    probe_state(run, &finding);
}

/* The catalogue of the site's files as they are now; files that are wrong are told of. */
static bool catalog_ready(struct probe_run *run, struct source *source, struct err *err)
{
    struct finding finding;
    const char *files = run->config->catalog;
    if (source->signal != NULL) {
        kmsg_signal_refresh(source->signal);
    } else {
        source->signal = kmsg_signal_create(files, err);
        if (source->signal == NULL) {
            return false;
        }
        source->kmsg.context = source->signal;
    }
    const char *problem = kmsg_signal_problem(source->signal);
    if (problem[0] != '\0') {
        probe_finding(&finding, VERDICT_WARN, "catalog", "%s", problem);
        probe_blame(&finding, LABEL_SOFTWARE, ADVICE_WATCH, ROLE_SYMPTOM, "catalog-file");
        probe_state(run, &finding);
    } else if (files[0] != '\0') {
        probe_ok(run, "catalog", "the site's catalogue files are read");
    }
    return true;
}

/* Nothing can be read: the time of a round passes all the same, since nobody else waits between two
 * of them. It ends early with whoever reads what we say. */
static void pass_round(const struct probe_run *run)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    if (!run->once) {
        (void)poll(&out, 1, ROUND_MS); /* whatever ended it */
    }
}

static void look(struct probe_run *run)
{
    struct source *source = run->state;
    struct err err = {0};
    if (source == NULL) {
        source = run->state = mem_alloc(1, sizeof(*source));
        source->fd = -1;
    }
    if (!catalog_ready(run, source, &err)) {
        probe_nothing(run, "no catalogue: %s", err.text);
        pass_round(run);
        return;
    }
    const int opened = source->fd < 0 ? source_open(run, source) : 0;
    if (opened != 0) {
        probe_nothing(run, "%s: %s", run->config->kmsg, strerror(-opened));
        pass_round(run);
        return;
    }
    const uint64_t until_ms = clock_ms() + (run->once ? ONCE_MS : ROUND_MS);
    source->kmsg.said = 0;
    int r = 1;
    bool listened = true;
    while (listened && r >= 0 && clock_ms() < until_ms) {
        r = drain(run, source);
        if (source->kmsg.has_last) {
            probe_note_put(run, "cursor", "%s %llu", source->boot,
                           (unsigned long long)source->kmsg.last);
        }
        listened = probe_flush(run);
        if (run->once && r == 0) {
            break;
        }
        listened = listened && (r < 0 || wait_more(source, r > 0, until_ms));
    }
    if (r < 0) {
        probe_nothing(run, "%s: %s", run->config->kmsg, strerror(-r));
        (void)close(source->fd); /* opened for reading */
        source->fd = -1;
        pass_round(run);
        return;
    }
    say_state(run, source);
}

static void done(struct probe_run *run)
{
    struct source *source = run->state;
    if (source != NULL) {
        source->signal = kmsg_signal_free(source->signal);
        if (source->fd >= 0) {
            (void)close(source->fd); /* opened for reading */
        }
    }
    run->state = mem_free(source);
}

const struct probe probe_kmsg = {.name = "kmsg",
                                 .what = "the kernel's log, against the catalogue",
                                 .period_ms = 0,
                                 .deadline_ms = 15000,
                                 .resident = true,
                                 .stuck_label = LABEL_SOFTWARE,
                                 .stuck_advice = ADVICE_WATCH,
                                 .stuck_role = ROLE_SYMPTOM,
                                 .look = look,
                                 .done = done};
