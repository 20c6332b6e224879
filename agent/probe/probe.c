/* probe.c: what every probe's process does: rounds, and lines about them; see probe.h. */
#include "agent/probe/probe.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { EXIT_USAGE = 2, FIRST_WORD = 4 };

static uint64_t monotonic_ms(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- what a probe says ------------------------------------------------------------------------------ */

void probe_finding(struct finding *finding, enum finding_verdict verdict, const char *key,
                   const char *format, ...)
{
    va_list arguments;
    *finding =
        (struct finding){.verdict = (uint8_t)verdict, .source = FACT_PROBE, .gpu = -1, .port = -1};
    (void)text_copy(finding->key, sizeof(finding->key), key);
    va_start(arguments, format);
    (void)text_sentence_list(finding->text, sizeof(finding->text), format, arguments);
    va_end(arguments);
}

void probe_blame(struct finding *finding, enum signal_label label, enum signal_advice advice,
                 enum signal_role role, const char *signal)
{
    finding->label = (uint8_t)label;
    finding->advice = (uint8_t)advice;
    finding->role = (uint8_t)role;
    finding->severity = signal_severity(finding->label, finding->advice, finding->role);
    (void)text_copy(finding->signal, sizeof(finding->signal), signal);
}

/* Lines past the round's maximum are left out: then the end says so. */
static void put_line(struct probe_run *run, const char *line)
{
    if (run->out.size + strlen(line) + 1 > run->out.size_max) {
        (void)text_copy(run->why, sizeof(run->why), "there was more to say than fits");
        return;
    }
    const int r = buf_printf(&run->out, "%s\n", line);
    CHECK(r == 0);
}

static void put_finding(struct probe_run *run, enum finding_line_kind kind,
                        const struct finding *finding)
{
    char line[FINDING_LINE_MAX + 1];
    const bool fits = finding_line_format(kind, finding, line, sizeof(line));
    CHECK(fits);
    put_line(run, line);
}

void probe_state(struct probe_run *run, const struct finding *finding)
{
    run->readings++;
    put_finding(run, LINE_STATE, finding);
}

void probe_event(struct probe_run *run, const struct finding *finding)
{
    put_finding(run, LINE_EVENT, finding);
}

void probe_ok(struct probe_run *run, const char *key, const char *format, ...)
{
    char text[TEXT_SIZE];
    struct finding finding;
    va_list arguments;
    va_start(arguments, format);
    (void)text_sentence_list(text, sizeof(text), format, arguments);
    va_end(arguments);
    probe_finding(&finding, VERDICT_OK, key, "%s", text);
    probe_state(run, &finding);
}

void probe_not_run(struct probe_run *run, const char *key, const char *format, ...)
{
    char text[TEXT_SIZE];
    struct finding finding;
    va_list arguments;
    va_start(arguments, format);
    (void)text_sentence_list(text, sizeof(text), format, arguments);
    va_end(arguments);
    probe_finding(&finding, VERDICT_NOT_RUN, key, "%s", text);
    probe_blame(&finding, LABEL_SOFTWARE, ADVICE_WATCH, ROLE_NOISE, READING_NONE);
    probe_state(run, &finding);
}

void probe_nothing(struct probe_run *run, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)text_sentence_list(run->why, sizeof(run->why), format, arguments);
    va_end(arguments);
}

/* ---- notes -------------------------------------------------------------------------------------------- */

static struct probe_note *note_find(const struct probe_run *run, const char *name)
{
    for (uint32_t i = 0; i < run->note_count; i++) {
        if (text_equal(run->notes[i].name, name)) {
            return (struct probe_note *)(uintptr_t)&run->notes[i];
        }
    }
    return NULL;
}

static void note_keep(struct probe_run *run, const char *name, const char *value)
{
    struct probe_note *note = note_find(run, name);
    if (note == NULL && run->note_count < PROBE_NOTES_MAX) {
        note = &run->notes[run->note_count++];
        (void)text_copy(note->name, sizeof(note->name), name);
    }
    if (note != NULL) {
        (void)text_copy(note->value, sizeof(note->value), value);
    }
}

void probe_note_put(struct probe_run *run, const char *name, const char *format, ...)
{
    char value[NOTE_VALUE_SIZE];
    char line[FINDING_LINE_MAX + 1];
    va_list arguments;
    va_start(arguments, format);
    (void)text_format_list(value, sizeof(value), format, arguments);
    va_end(arguments);
    finding_clean(value);
    const struct probe_note *before = note_find(run, name);
    if (before != NULL && text_equal(before->value, value)) {
        return;
    }
    note_keep(run, name, value);
    (void)text_format(line, sizeof(line), "note\t%s\t%s", name, value);
    put_line(run, line);
}

const char *probe_note(const struct probe_run *run, const char *name)
{
    const struct probe_note *note = note_find(run, name);
    return note != NULL ? note->value : NULL;
}

void probe_gpu(struct probe_run *run, uint32_t index, const char *uuid, const char *pci)
{
    char line[FINDING_LINE_MAX + 1];
    (void)text_format(line, sizeof(line), "gpu\t%u\t%.63s\t%.63s", index, uuid, pci);
    put_line(run, line);
}

/* ---- rounds -------------------------------------------------------------------------------------------- */

bool probe_flush(struct probe_run *run)
{
    size_t done = 0;
    while (done < run->out.size) {
        const ssize_t put = write(STDOUT_FILENO, run->out.data + done, run->out.size - done);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return false;
        }
        done += (size_t)put;
    }
    buf_clear(&run->out);
    return true;
}

static bool round_do(const struct probe *probe, struct probe_run *run)
{
    char line[FINDING_LINE_MAX + 1];
    run->why[0] = '\0';
    run->readings = 0;
    run->now_ms = monotonic_ms();
    put_line(run, "begin");
    if (!probe_flush(run)) { /* now, so that the deadline counts from here */
        return false;
    }
    probe->look(run);
    run->round++;
    finding_clean(run->why);
    (void)text_format(line, sizeof(line), "end\t%s", run->why);
    run->out.size_max += sizeof(line);
    put_line(run, line);
    const bool listened = probe_flush(run);
    run->out.size_max -= sizeof(line);
    return listened;
}

/* Until the next round is due. false: whoever read what we say is gone. */
static bool wait_for(uint64_t ms)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    const int r = poll(&out, 1, (int)ms);
    return r == 0 || (r < 0 && errno == EINTR);
}

static int take_word(struct probe_config *config, struct probe_run *run, const char *word)
{
    char name[NOTE_NAME_SIZE];
    const char *equals = strchr(word, '=');
    if (strncmp(word, "note:", 5) != 0) {
        return probe_config_take(config, word);
    }
    const size_t length = equals != NULL ? (size_t)(equals - word) - 5 : 0;
    if (length == 0 || length >= sizeof(name)) {
        return -EINVAL;
    }
    (void)text_copy(name, length + 1, word + 5);
    note_keep(run, name, equals + 1);
    return 0;
}

/* probe-run NAME once|stay WORD… */
int probe_main(int argc, char **argv)
{
    struct probe_config config;
    const struct probe *probe = argc >= FIRST_WORD ? probe_find(argv[2]) : NULL;
    const bool stay = argc >= FIRST_WORD && text_equal(argv[3], "stay");
    struct probe_run *run = mem_alloc(1, sizeof(*run));
    probe_config_default(&config);
    run->config = &config;
    run->once = argc >= FIRST_WORD && text_equal(argv[3], "once");
    int result = probe != NULL ? 0 : EXIT_USAGE;
    for (int i = FIRST_WORD; result == 0 && i < argc; i++) {
        result = take_word(&config, run, argv[i]) == 0 ? 0 : EXIT_USAGE;
    }
    if (result != 0) {
        (void)fprintf(stderr, "keepstep-agent " PROBE_WORD ": not for people\n");
        return EXIT_USAGE;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody is left to listen */
    buf_init(&run->out, PROBE_OUTPUT_MAX);
    bool listened = round_do(probe, run);
    while (stay && listened && (probe->period_ms == 0 || wait_for(probe->period_ms))) {
        listened = round_do(probe, run);
    }
    if (probe->done != NULL) {
        probe->done(run);
    }
    buf_done(&run->out);
    mem_free(run);
    return 0;
}
