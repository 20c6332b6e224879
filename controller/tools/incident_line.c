/* incident_line.c: lines are read word by word; a number that is none is -1. */
#include "controller/tools/incident_line.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/text.h"

enum { LINE_MAX_READ = 1024, SIGNAL_OFFSET = 128 };

/* A copy that ends with a NUL. */
static const char *copy(char target[LINE_MAX_READ], const char *line, size_t size)
{
    size_t kept = size < LINE_MAX_READ - 1 ? size : LINE_MAX_READ - 1;
    memcpy(target, line, kept);
    target[kept] = '\0';
    return target;
}

/* Where the value of "key=" begins, as a word of its own; NULL. */
static const char *value_of(const char *line, const char *key)
{
    size_t size = strlen(key);
    for (const char *at = strstr(line, key); at != NULL; at = strstr(at + 1, key)) {
        if (at == line || strchr(" ;,(", at[-1]) != NULL) {
            return at + size;
        }
    }
    return NULL;
}

/* Digits, with a sign before them or without; -1: none, or too many. */
static int64_t number_at(const char *text)
{
    if (text == NULL) {
        return -1;
    }
    text += *text == '+' ? 1 : 0;
    size_t digits = strspn(text, "0123456789");
    char copied[24];
    int64_t value;
    if (digits == 0 || digits >= 18) {
        return -1;
    }
    (void)text_format(copied, sizeof(copied), "%.*s", (int)digits, text);
    return text_to_i64(copied, 0, INT64_MAX, &value) == 0 ? value : -1;
}

static int64_t number_of(const char *line, const char *key)
{
    return number_at(value_of(line, key));
}

/* Up to the next separator. */
static void word_at(const char *text, char *target, size_t size)
{
    size_t length = text != NULL ? strcspn(text, " ;,)") : 0;
    (void)text_format(target, size, "%.*s", (int)(length < size ? length : size - 1),
                      text != NULL ? text : "");
}

static bool begins(const char *line, const char *word)
{
    return strncmp(line, word, strlen(word)) == 0;
}

/* ---- agent -------------------------------------------------------------------------------- */

static void read_port(const char *line, struct told *told)
{
    const char *state = value_of(line, "state=");
    size_t length = strcspn(line, " ");
    if (state == NULL || length >= sizeof(told->name) || memchr(line, '/', length) == NULL) {
        return;
    }
    told->kind = TOLD_PORT;
    (void)text_format(told->name, sizeof(told->name), "%.*s", (int)length, line);
    /* 4 is ACTIVE; a port that is only initialised carries nothing */
    told->up = state[0] == '4' || begins(state, "ACTIVE");
    told->count = number_of(line, "link_downed=");
    word_at(value_of(line, "leaf="), told->place, sizeof(told->place));
}

/* The bits that say that a GPU is held back by more than its own limit of power. */
static bool is_held_back(const char *reasons)
{
    unsigned long long bits = 0;
    return sscanf(reasons, "%20llx", &bits) == 1 && (bits & 0xe8) != 0;
}

static void read_count(const char *line, struct told *told)
{
    told->count = number_of(line, "gpu_count=");
    told->expected = number_of(line, "expected=");
    /* None at all, or a number that nobody can say: the reading failed, not all devices. */
    told->kind = told->count > 0 ? TOLD_GPU_COUNT : TOLD_UNREADABLE;
}

/* What the library says of itself proves nothing; what it says of a GPU does. */
static void read_library(const char *line, struct told *told)
{
    bool lost = strstr(line, "lost") != NULL || strstr(line, "LOST") != NULL;
    bool reset = strstr(line, "eset required") != NULL || strstr(line, "RESET_REQUIRED") != NULL;
    told->kind = lost || reset ? TOLD_GPU_LOST : TOLD_UNREADABLE;
    told->count = lost ? 0 : 1;
}

static void read_rank(const char *line, struct told *told)
{
    const char *state = value_of(line, "state=");
    const char *communicator = value_of(line, "comm=");
    told->rank = number_of(line, "rank=");
    told->step = number_of(line, "step=");
    told->compute_ms = number_of(line, "compute_ms=");
    told->median_ms = number_of(line, "peers_median_compute_ms=");
    if (told->rank < 0) {
        return;
    }
    if (told->compute_ms >= 0 && told->median_ms > 0) {
        told->kind = TOLD_PACE;
        return;
    }
    if (state == NULL) {
        return;
    }
    told->kind = TOLD_RANK;
    told->state = begins(state, "silent")    ? TOLD_SILENT
                  : begins(state, "waiting") ? TOLD_WAITING
                                             : TOLD_RUNNING;
    told->enqueued = number_of(line, "last_enqueued=");
    told->completed = number_of(line, "last_completed=");
    word_at(communicator, told->name, sizeof(told->name));
}

void told_read_agent(const char *line, size_t size, struct told *ret_told)
{
    char copied[LINE_MAX_READ];
    line = copy(copied, line, size);
    line += begins(line, "agent: ") ? strlen("agent: ") : 0;
    *ret_told = (struct told){.rank = -1, .gpu = number_of(line, "gpu=")};
    const char *reasons = value_of(line, "clocks_event_reasons=");
    if (reasons != NULL) {
        ret_told->kind = is_held_back(reasons) ? TOLD_CLOCKS : TOLD_OTHER;
    } else if (begins(line, "gpu_count=")) {
        read_count(line, ret_told);
    } else if (begins(line, "nvml: ")) {
        read_library(line, ret_told);
    } else if (begins(line, "rank=")) {
        read_rank(line, ret_told);
    } else {
        read_port(line, ret_told);
    }
}

/* ---- ctl ---------------------------------------------------------------------------------- */

static int64_t exit_code(const char *line)
{
    static const char *const words[] = {" exit ", " code ", " exitcode "};
    const char *by_signal = strstr(line, " signal ");
    if (by_signal != NULL) {
        return -number_at(by_signal + strlen(" signal "));
    }
    for (size_t index = 0; index < sizeof(words) / sizeof(words[0]); index++) {
        const char *at = strstr(line, words[index]);
        if (at == NULL) {
            continue;
        }
        at += strlen(words[index]);
        int64_t code = *at == '-' ? -number_at(at + 1) : number_at(at);
        /* shells tell a signal so */
        return code > SIGNAL_OFFSET && code < SIGNAL_OFFSET + 65 ? SIGNAL_OFFSET - code : code;
    }
    return 0;
}

static void read_job(const char *line, struct told *told)
{
    told->job = number_at(line + strlen("job "));
    const char *attempt = strstr(line, " attempt ");
    const char *rank = strstr(line, " rank ");
    const char *step = strstr(line, " step ");
    if (told->job < 0) {
        return;
    }
    if (strstr(line, " requested") != NULL || strstr(line, " cancelled") != NULL ||
        strstr(line, " canceled") != NULL) {
        const char *who = strstr(line, "operator ");
        told->kind = TOLD_STOP;
        word_at(who != NULL ? who + strlen("operator ") : NULL, told->name, sizeof(told->name));
    } else if (attempt != NULL && strstr(line, " ended") != NULL) {
        told->kind = TOLD_ENDED;
        told->attempt = number_at(attempt + strlen(" attempt "));
        told->rank = rank != NULL ? number_at(rank + strlen(" rank ")) : -1;
        told->count = exit_code(line);
    } else if (step != NULL && strstr(line, " ok") != NULL) {
        told->kind = TOLD_STEP;
        told->step = number_at(step + strlen(" step "));
    }
}

static void read_beats(const char *line, struct told *told)
{
    const char *bmc = value_of(line, "bmc=");
    told->count = number_at(line + strlen("heartbeat missed "));
    told->kind = told->count >= 0 ? TOLD_BEATS : TOLD_OTHER;
    told->up = bmc == NULL || !begins(bmc, "unreachable");
    word_at(value_of(line, "rack="), told->place, sizeof(told->place));
}

static void read_hash(const char *line, struct told *told)
{
    const char *replicas = value_of(line, "dp=");
    told->step = number_of(line, "step=");
    told->stage = number_of(line, "stage=");
    told->tensor = number_of(line, "tp=");
    if (replicas != NULL && *replicas == '[') {
        replicas++;
    }
    size_t length = replicas != NULL ? strcspn(replicas, " ;)]") : 0;
    if (length == 0 || length >= sizeof(told->name) || told->stage < 0) {
        return;
    }
    told->kind = TOLD_HASH;
    (void)text_format(told->name, sizeof(told->name), "%.*s", (int)length, replicas);
}

void told_read_ctl(const char *line, size_t size, struct told *ret_told)
{
    char copied[LINE_MAX_READ];
    line = copy(copied, line, size);
    *ret_told = (struct told){.rank = -1, .gpu = -1, .job = -1, .attempt = -1, .step = -1};
    if (begins(line, "job ")) {
        read_job(line, ret_told);
    } else if (begins(line, "heartbeat missed ")) {
        read_beats(line, ret_told);
    } else if (begins(line, "hash ")) {
        read_hash(line, ret_told);
    }
}

/* ---- values ------------------------------------------------------------------------------- */

static char lower(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

static bool is_letter(char byte)
{
    return lower(byte) >= 'a' && lower(byte) <= 'z';
}

/* A word that stands alone, whatever the case of its letters; the text is in small ones. */
static const char *whole_word(const char *text, const char *word)
{
    size_t size = strlen(word);
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        if ((at == text || !is_letter(at[-1])) && !is_letter(at[size])) {
            return at;
        }
    }
    return NULL;
}

static int64_t step_of(const char *text)
{
    static const char *const words[] = {"iteration", "iter", "step"};
    for (size_t index = 0; index < sizeof(words) / sizeof(words[0]); index++) {
        const char *at = whole_word(text, words[index]);
        if (at != NULL) {
            at += strlen(words[index]);
            at += strspn(at, " \t:=#");
            int64_t step = number_at(at);
            if (step >= 0) {
                return step;
            }
        }
    }
    return -1;
}

/* "nan", "inf", or the number after the name of what is measured. */
static bool value_in(const char *text, char *target, size_t size)
{
    static const char *const none[] = {"nan", "inf"};
    static const char *const measured[] = {"unexpected result", "grad norm", "grad_norm", "loss"};
    for (size_t index = 0; index < sizeof(none) / sizeof(none[0]); index++) {
        const char *at = whole_word(text, none[index]);
        if (at != NULL && strncmp(at, "nan iterations", 14) != 0) {
            return text_copy(target, size, none[index]);
        }
    }
    for (size_t index = 0; index < sizeof(measured) / sizeof(measured[0]); index++) {
        const char *at = whole_word(text, measured[index]);
        if (at != NULL) {
            at += strlen(measured[index]);
            at += strspn(at, " \t:=");
            size_t length = strspn(at, "0123456789.e+-");
            if (length > 0) {
                return text_format(target, size, "%.*s", (int)length, at);
            }
        }
    }
    return false;
}

bool told_value(const char *line, size_t size, char subject[SIGNAL_SUBJECT_SIZE])
{
    char text[LINE_MAX_READ];
    char value[24];
    (void)copy(text, line, size);
    for (char *at = text; *at != '\0'; at++) {
        *at = lower(*at);
    }
    int64_t step = step_of(text);
    bool all = whole_word(text, "loss") != NULL && whole_word(text, "local") == NULL;
    return step >= 0 && value_in(text, value, sizeof(value)) &&
           text_format(subject, SIGNAL_SUBJECT_SIZE, "step=%lld value=%s%s", (long long)step, value,
                       all ? " all" : "");
}
