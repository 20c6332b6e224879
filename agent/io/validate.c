/* validate.c: one validation at a time: begun --deferred, out of the action--> all probes look once
 * more -> one program after the other -> the core is told. A failure of any kind is an answer; the
 * deadline of the whole is the deadline of what is under way. */
#include "agent/io/validate.h"

#include <string.h>

#include "agent/io/child.h"
#include "agent/io/driver.h"
#include "agent/io/probes.h"
#include "proto/base/log.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { OUTPUT_MAX = 4096 };

struct agent_validate {
    struct agent_io *io;
    struct child_set children;
    bool running;
    bool deferred; /* next_cb is on its way */
    struct msg_validate ask;
    uint64_t end_ms;
    uint32_t next; /* index of the program that is to be run */
    uint32_t warnings;
    char warning[TEXT_SIZE]; /* the first */
};

static void next(struct agent_validate *v);

struct agent_validate *validate_create(struct agent_io *io)
{
    struct agent_validate *v = mem_alloc(1, sizeof(*v));
    v->io = io;
    return v;
}

static void tell(struct agent_validate *v, bool ok, const char *text)
{
    v->running = false;
    struct agent_event event = {
        .kind = AGENT_EVENT_VALIDATED, .nonce = v->ask.nonce, .ok = ok, .text = text};
    log_line(ok ? LOG_INFO : LOG_WARN, "validated", text, "level",
             v->ask.level == VALIDATE_FULL ? "full" : "quick", "fit", ok ? "yes" : "no", NULL);
    driver_step(v->io->driver, &event);
}

static void tell_good(struct agent_validate *v)
{
    char text[TEXT_SIZE] = "";
    if (v->warnings > 0) {
        (void)text_sentence(text, sizeof(text), "%u %s, the first: %s", v->warnings,
                            text_plural(v->warnings, "warning", "warnings"), v->warning);
    } else if (v->ask.level == VALIDATE_FULL && v->next > 0) {
        (void)text_sentence(text, sizeof(text), "%u %s of the site", v->next,
                            text_plural(v->next, "program", "programs"));
    } else if (v->ask.level == VALIDATE_FULL) {
        (void)text_copy(text, sizeof(text), "the site has no validate_programs here");
    }
    tell(v, true, text);
}

/* "/opt/site/check-gpu: GPU 3: ECC": the program and what it says of itself. */
static void say_program(const struct agent_validate *v, const char *what,
                        const struct child_result *result, char text[TEXT_SIZE])
{
    const char *said = result != NULL ? result->output : "";
    const int size = (int)strcspn(said, "\r\n|"); /* behind a bar are figures */
    const char *program = v->io->options->validate_programs[v->next];
    (void)text_sentence(text, TEXT_SIZE, "%.80s: %s%s%.*s", program, what,
                        size > 0 && what[0] != '\0' ? ": " : "", size, said);
}

static void done_cb(void *context, const struct child_result *result)
{
    struct agent_validate *v = context;
    char text[TEXT_SIZE];
    const bool exited = !result->timed_out && result->signal == 0;
    if (exited && result->exit_status <= 1) {
        if (result->exit_status == 1) {
            say_program(v, "", result, text);
            (void)text_copy(v->warning, sizeof(v->warning), v->warnings > 0 ? v->warning : text);
            v->warnings++;
        }
        v->next++;
        next(v);
        return;
    }
    char how[32] = "";
    if (result->timed_out) {
        (void)text_copy(how, sizeof(how), "not done in time");
    } else if (result->signal != 0) {
        (void)text_format(how, sizeof(how), "signal %d", result->signal);
    } else if (result->exit_status != 2) {
        (void)text_format(how, sizeof(how), "unknown (%d)", (int)result->exit_status);
    }
    say_program(v, how, result, text);
    tell(v, false, text);
}

static void next(struct agent_validate *v)
{
    const char *program =
        v->next < VALIDATE_PROGRAMS_MAX ? v->io->options->validate_programs[v->next] : "";
    if (v->ask.level != VALIDATE_FULL || program[0] == '\0') {
        tell_good(v);
        return;
    }
    const uint64_t now_ms = agent_io_now_ms();
    const char *const argv[] = {program, NULL};
    const struct child_options options = {.argv = argv,
                                          .capture = 1,
                                          .output_max = OUTPUT_MAX,
                                          .deadline_ms =
                                              v->end_ms > now_ms ? v->end_ms - now_ms : 1,
                                          .group = true,
                                          .done = done_cb,
                                          .context = v};
    const int r = child_start(v->io->loop, &v->children, &options);
    if (r != 0) {
        char how[64];
        char text[TEXT_SIZE];
        (void)text_format(how, sizeof(how), "cannot be started: %s", uv_strerror(r));
        say_program(v, how, NULL, text);
        tell(v, false, text);
    }
}

static void looked_cb(void *context, const char *late)
{
    struct agent_validate *v = context;
    char text[TEXT_SIZE];
    const char *broken = probes_broken(v->io->probes);
    if (!v->running || v->io->closing) {
        return; /* given up meanwhile */
    }
    if (broken != NULL) {
        tell(v, false, broken);
    } else if (late != NULL) {
        (void)text_sentence(text, sizeof(text), "its probe %s has not come round in time", late);
        tell(v, false, text);
    } else {
        next(v);
    }
}

static void begin_cb(void *context)
{
    struct agent_validate *v = context;
    v->deferred = false;
    if (v->running && !v->io->closing) {
        probes_look(v->io->probes, v->end_ms, looked_cb, v);
    }
}

void validate_begin(struct agent_validate *v, const struct msg_validate *ask)
{
    child_cancel(&v->children, v);
    v->running = true;
    v->ask = *ask;
    v->end_ms = agent_io_now_ms() + ask->timeout_ms;
    v->next = 0;
    v->warnings = 0;
    v->warning[0] = '\0';
    if (!v->deferred) {
        v->deferred = true;
        driver_defer(v->io->driver, begin_cb, v);
    }
}

void validate_close(struct agent_validate *v)
{
    v->running = false;
    children_close(&v->children);
}

struct agent_validate *validate_free(struct agent_validate *v)
{
    return mem_free(v);
}
