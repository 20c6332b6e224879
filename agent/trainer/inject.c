/* inject.c: the words, and what each of them does to this process. */
#include "agent/trainer/inject.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { CHILD_LIFE_S = 600, WORD_SIZE = 32 };

struct word {
    const char *name;
    enum inject_kind kind;
    bool value; /* takes =VALUE */
    bool step;  /* may have @STEP … */
    bool needs_step;
};

static const struct word words[] = {
    {"crash", INJECT_CRASH, false, true, true},
    {"hang", INJECT_HANG, false, true, true},
    {"exit", INJECT_EXIT, true, true, true},
    {"slow", INJECT_SLOW, true, true, false},
    {"stall", INJECT_STALL, true, true, true},
    {"ignore-term", INJECT_IGNORE_TERM, false, false, false},
    {"fork-child", INJECT_FORK_CHILD, false, true, false},
    {"hold-port", INJECT_HOLD_PORT, false, false, false},
    {"cut", INJECT_CUT, true, true, false},
};

/* ---- reading -------------------------------------------------------------------------------- */

/* Digits at *at; moves it behind them. */
static bool take_number(const char **at, uint64_t max, uint64_t *ret_value)
{
    const char *start = *at;
    uint64_t value = 0;
    while (**at >= '0' && **at <= '9') {
        const uint64_t digit = (uint64_t)(**at - '0');
        if (value > (max - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
        (*at)++;
    }
    *ret_value = value;
    return *at > start;
}

static bool take_literal(const char **at, const char *literal)
{
    const size_t size = strlen(literal);
    if (strncmp(*at, literal, size) != 0) {
        return false;
    }
    *at += size;
    return true;
}

static bool take_axis(const char **at, struct inject *inject)
{
    static const struct {
        const char *name;
        enum comm_axis axis;
    } axes[] = {{"tp", COMM_TENSOR}, {"pp", COMM_PIPELINE}, {"dp", COMM_DATA}};
    for (size_t i = 0; i < sizeof(axes) / sizeof(axes[0]); i++) {
        if (take_literal(at, axes[i].name)) {
            inject->axis = axes[i].axis;
            return true;
        }
    }
    return false;
}

static bool take_value(const char **at, const struct word *word, struct inject *inject)
{
    if (!word->value) {
        return true;
    }
    char *end = NULL;
    if (!take_literal(at, "=")) {
        return false;
    }
    if (word->kind == INJECT_CUT) {
        return take_axis(at, inject);
    }
    inject->value = strtod(*at, &end);
    const bool some = end != *at;
    *at = end;
    if (word->kind == INJECT_EXIT) {
        return some && inject->value >= 0.0 && inject->value <= 255.0 &&
               inject->value == (double)(int)inject->value;
    }
    return some && inject->value >= 1.0 && inject->value <= 1000.0;
}

static bool take_selectors(const char **at, struct inject *inject)
{
    while (**at != '\0') {
        uint64_t number = 0;
        int64_t *target = NULL;
        if (take_literal(at, ":rank=")) {
            target = &inject->rank;
        } else if (take_literal(at, ":attempt=")) {
            target = &inject->attempt;
        }
        if (target == NULL || !take_number(at, UINT32_MAX, &number)) {
            return false;
        }
        *target = (int64_t)number;
    }
    return true;
}

static const struct word *take_word(const char **at)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (take_literal(at, words[i].name)) {
            return &words[i];
        }
    }
    return NULL;
}

int inject_parse(const char *text, struct fail *fail, struct inject *ret_inject)
{
    struct inject inject = {.rank = -1, .attempt = -1};
    const char *at = text;
    const struct word *word = take_word(&at);
    if (word == NULL) {
        return fail_set(
            fail, EXIT_BAD_CONFIG, -EINVAL,
            "--inject %s: not one of crash@K hang@K exit=C@K slow=X stall=S@K ignore-term "
            "fork-child hold-port cut=tp|pp|dp",
            text);
    }
    inject.kind = word->kind;
    bool good = take_value(&at, word, &inject);
    const bool has_step = good && word->step && take_literal(&at, "@");
    if (has_step) {
        good = take_number(&at, UINT64_MAX, &inject.step) && inject.step > 0;
    }
    good = good && (has_step || !word->needs_step) && take_selectors(&at, &inject);
    if (!good) {
        return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL, "--inject %s: cannot read '%s'%s", text, at,
                        word->needs_step && !has_step ? " (it needs @STEP)" : "");
    }
    *ret_inject = inject;
    return 0;
}

bool inject_is_for(const struct inject *inject, uint32_t rank, uint32_t attempt)
{
    return (inject->rank < 0 || inject->rank == (int64_t)rank) &&
           (inject->attempt < 0 || inject->attempt == (int64_t)attempt);
}

/* ---- doing ---------------------------------------------------------------------------------- */

/* Becomes a process that nobody waits for: own session, no descriptor but 0, 1, 2 and keep. */
static void leave_child(int keep)
{
    fflush(NULL); /* the child must not print our lines a second time */
    const pid_t child = fork();
    if (child != 0) {
        printf("injected: child %ld\n", (long)child);
        return;
    }
    (void)setsid(); /* fails only for a group leader, which a new child is not */
    if (keep >= 0) {
        (void)dup2(keep, 3);
    }
    (void)close_range(keep >= 0 ? 4 : 3, ~0u, 0); /* peers must see our connections close */
    (void)signal(SIGALRM, SIG_DFL);
    (void)alarm(CHILD_LIFE_S);
    for (;;) {
        (void)pause();
    }
}

static void crash(void)
{
    const struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none); /* a core file of an ordered crash helps nobody */
    (void)signal(SIGSEGV, SIG_DFL);
    (void)raise(SIGSEGV);
}

static void hang(void)
{
    sigset_t all;
    (void)sigfillset(&all);
    for (;;) {
        (void)sigprocmask(SIG_SETMASK, &all, NULL);
        (void)sigsuspend(&all);
    }
}

void inject_start(const struct inject *list, size_t count, uint32_t rank, uint32_t attempt)
{
    for (size_t i = 0; i < count; i++) {
        if (!inject_is_for(&list[i], rank, attempt)) {
            continue;
        }
        if (list[i].kind == INJECT_IGNORE_TERM) {
            (void)signal(SIGTERM, SIG_IGN);
        } else if (list[i].kind == INJECT_FORK_CHILD && list[i].step == 0) {
            leave_child(-1);
        }
    }
}

bool inject_wants_port(const struct inject *list, size_t count, uint32_t rank, uint32_t attempt)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i].kind == INJECT_HOLD_PORT && inject_is_for(&list[i], rank, attempt)) {
            return true;
        }
    }
    return false;
}

void inject_hold_port(int listener)
{
    if (listener >= 0) {
        leave_child(listener);
        (void)close(listener); /* the child has it */
    }
}

void inject_step(const struct inject *list, size_t count, uint32_t rank, uint32_t attempt,
                 uint64_t step)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i].step != step || !inject_is_for(&list[i], rank, attempt)) {
            continue;
        }
        switch (list[i].kind) {
        case INJECT_CRASH:
            crash();
            break;
        case INJECT_HANG:
            hang();
            break;
        case INJECT_EXIT:
            _exit((int)list[i].value);
        case INJECT_FORK_CHILD:
            leave_child(-1);
            break;
        case INJECT_SLOW:
        case INJECT_STALL:
        case INJECT_IGNORE_TERM:
        case INJECT_HOLD_PORT:
        case INJECT_CUT:
            break; /* not of a moment */
        }
    }
}

double inject_slowness(const struct inject *list, size_t count, uint32_t rank, uint32_t attempt,
                       uint64_t step)
{
    double slowness = 1.0;
    for (size_t i = 0; i < count; i++) {
        if (list[i].kind == INJECT_SLOW && list[i].step <= step &&
            inject_is_for(&list[i], rank, attempt)) {
            slowness *= list[i].value;
        }
    }
    return slowness;
}

uint32_t inject_stall_ms(const struct inject *list, size_t count, uint32_t rank, uint32_t attempt,
                         uint64_t step)
{
    uint32_t ms = 0;
    for (size_t i = 0; i < count; i++) {
        if (list[i].kind == INJECT_STALL && list[i].step == step &&
            inject_is_for(&list[i], rank, attempt)) {
            ms += (uint32_t)(list[i].value * 1000.0);
        }
    }
    return ms;
}

bool inject_cuts(const struct inject *list, size_t count, uint32_t rank, uint32_t attempt,
                 uint64_t step, enum comm_axis axis)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i].kind == INJECT_CUT && list[i].axis == axis && list[i].step <= step &&
            inject_is_for(&list[i], rank, attempt)) {
            return true;
        }
    }
    return false;
}
