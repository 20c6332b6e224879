/* finding.c: see finding.h. Fields are cut at tabs; each kind of line has a fixed number of them. */
#include "agent/core/finding.h"

#include <errno.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"

static const char *const verdict_words[] = {
#define X(upper, word) word,
    FINDING_VERDICTS(X)
#undef X
};

const char *finding_verdict_word(uint8_t verdict)
{
    return verdict < ARRAY_SIZE(verdict_words) ? verdict_words[verdict] : "?";
}

void finding_clean(char *text)
{
    for (char *at = text; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            *at = ' ';
        }
    }
    text_mend(text);
}

/* ---- reading ----------------------------------------------------------------------------------- */

struct fields {
    uint32_t count;
    const char *start[FINDING_FIELDS_MAX];
    size_t size[FINDING_FIELDS_MAX];
};

static int cut(const char *line, size_t size, struct fields *ret_fields)
{
    ret_fields->count = 0;
    size_t start = 0;
    for (size_t at = 0; at <= size; at++) {
        if (at < size && line[at] != '\t') {
            continue;
        }
        if (ret_fields->count == FINDING_FIELDS_MAX) {
            return -EINVAL;
        }
        ret_fields->start[ret_fields->count] = line + start;
        ret_fields->size[ret_fields->count] = at - start;
        ret_fields->count++;
        start = at + 1;
    }
    return 0;
}

static bool field_is(const struct fields *fields, uint32_t index, const char *word)
{
    return fields->size[index] == strlen(word) &&
           memcmp(fields->start[index], word, fields->size[index]) == 0;
}

static bool is_one_line(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\n') {
            return false;
        }
    }
    return text_is_utf8(text, size);
}

static int take_text(const struct fields *fields, uint32_t index, char *target, size_t size)
{
    const char *start = fields->start[index];
    const size_t length = fields->size[index];
    if (length >= size || !is_one_line(start, length)) {
        return -EINVAL;
    }
    memcpy(target, start, length);
    target[length] = '\0';
    return 0;
}

static int take_number(const struct fields *fields, uint32_t index, int64_t min, int64_t max,
                       int32_t *ret_value)
{
    char digits[16];
    int64_t value = 0;
    int r = take_text(fields, index, digits, sizeof(digits));
    r = r == 0 ? text_to_i64(digits, min, max, &value) : r;
    if (r == 0) {
        *ret_value = (int32_t)value;
    }
    return r == 0 ? 0 : -EINVAL;
}

static int take_verdict(const struct fields *fields, uint32_t index, uint8_t *ret_verdict)
{
    for (uint8_t i = 0; i < ARRAY_SIZE(verdict_words); i++) {
        if (field_is(fields, index, verdict_words[i])) {
            *ret_verdict = i;
            return 0;
        }
    }
    return -EINVAL;
}

static int take_word(const struct fields *fields, uint32_t index,
                     int (*number_of)(const char *, size_t), uint8_t *ret_number)
{
    const int number = number_of(fields->start[index], fields->size[index]);
    if (number < 0) {
        return -EINVAL;
    }
    *ret_number = (uint8_t)number;
    return 0;
}

static int source_of(const char *word, size_t size)
{
    if (size == 5 && memcmp(word, "probe", 5) == 0) {
        return FACT_PROBE;
    }
    return size == 3 && memcmp(word, "log", 3) == 0 ? FACT_LOG : -1;
}

/* state KEY VERDICT LABEL ADVICE ROLE SIGNAL SUBJECT SOURCE GPU PORT CODE SEVERITY TEXT */
static int take_finding(const struct fields *fields, struct finding *finding)
{
    enum { COUNT = 14 };
    int32_t severity = 0;
    if (fields->count != COUNT || fields->size[1] == 0) {
        return -EINVAL;
    }
    int r = take_text(fields, 1, finding->key, sizeof(finding->key));
    r = r == 0 ? take_verdict(fields, 2, &finding->verdict) : r;
    r = r == 0 ? take_word(fields, 3, signal_label_of, &finding->label) : r;
    r = r == 0 ? take_word(fields, 4, signal_advice_of, &finding->advice) : r;
    r = r == 0 ? take_word(fields, 5, signal_role_of, &finding->role) : r;
    r = r == 0 ? take_text(fields, 6, finding->signal, sizeof(finding->signal)) : r;
    r = r == 0 && finding->signal[0] != '\0' && !text_is_name(finding->signal, SIGNAL_NAME_SIZE)
            ? -EINVAL
            : r;
    r = r == 0 ? take_text(fields, 7, finding->subject, sizeof(finding->subject)) : r;
    r = r == 0 ? take_word(fields, 8, source_of, &finding->source) : r;
    r = r == 0 ? take_number(fields, 9, -1, GPUS_MAX - 1, &finding->gpu) : r;
    r = r == 0 ? take_number(fields, 10, -1, PORTS_MAX - 1, &finding->port) : r;
    r = r == 0 ? take_number(fields, 11, INT32_MIN, INT32_MAX, &finding->code) : r;
    r = r == 0 ? take_number(fields, 12, 0, 3, &severity) : r;
    r = r == 0 ? take_text(fields, 13, finding->text, sizeof(finding->text)) : r;
    finding->severity = (uint8_t)severity;
    return r;
}

static int take_pair(const struct fields *fields, uint32_t first, struct finding_line *line)
{
    const int r = take_text(fields, first, line->name, sizeof(line->name));
    return r == 0 ? take_text(fields, first + 1, line->value, sizeof(line->value)) : r;
}

static int take_gpu(const struct fields *fields, struct finding_line *line)
{
    int32_t index = 0;
    int r = take_number(fields, 1, 0, GPUS_MAX - 1, &index);
    r = r == 0 ? take_pair(fields, 2, line) : r;
    line->index = (uint32_t)index;
    return r;
}

int finding_line_parse(const char *line, size_t size, struct finding_line *ret_line)
{
    struct fields fields;
    struct finding_line parsed;
    memset(&parsed, 0, sizeof(parsed));
    int r = size <= FINDING_LINE_MAX ? cut(line, size, &fields) : -EINVAL;
    if (r != 0) {
        return r;
    }
    r = -EINVAL;
    if (fields.count == 1 && field_is(&fields, 0, "begin")) {
        parsed.kind = LINE_BEGIN;
        r = 0;
    } else if (field_is(&fields, 0, "state") || field_is(&fields, 0, "event")) {
        parsed.kind = field_is(&fields, 0, "state") ? LINE_STATE : LINE_EVENT;
        r = take_finding(&fields, &parsed.finding);
    } else if (fields.count == 3 && field_is(&fields, 0, "note")) {
        parsed.kind = LINE_NOTE;
        r = take_pair(&fields, 1, &parsed);
    } else if (fields.count == 4 && field_is(&fields, 0, "gpu")) {
        parsed.kind = LINE_GPU;
        r = take_gpu(&fields, &parsed);
    } else if (fields.count == 2 && field_is(&fields, 0, "end")) {
        parsed.kind = LINE_END;
        r = take_text(&fields, 1, parsed.text, sizeof(parsed.text));
    }
    if (r == 0) {
        *ret_line = parsed;
    }
    return r;
}

/* ---- writing ------------------------------------------------------------------------------------ */

bool finding_line_format(enum finding_line_kind kind, const struct finding *finding, char *target,
                         size_t size)
{
    struct finding clean = *finding;
    CHECK(kind == LINE_STATE || kind == LINE_EVENT);
    finding_clean(clean.key);
    finding_clean(clean.signal);
    finding_clean(clean.subject);
    finding_clean(clean.text);
    return text_format(target, size, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%u\t%s",
                       kind == LINE_STATE ? "state" : "event", clean.key,
                       finding_verdict_word(clean.verdict), signal_label_word(clean.label),
                       signal_advice_word(clean.advice), signal_role_word(clean.role), clean.signal,
                       clean.subject, clean.source == FACT_LOG ? "log" : "probe", clean.gpu,
                       clean.port, clean.code, clean.severity, clean.text);
}

void finding_fact(const struct finding *finding, struct fact *ret_fact)
{
    *ret_fact = (struct fact){.source = finding->source,
                              .severity = finding->severity,
                              .rank = -1,
                              .gpu = finding->gpu,
                              .port = finding->port,
                              .code = finding->code,
                              .label = finding->label,
                              .advice = finding->advice,
                              .role = finding->role};
    (void)text_copy(ret_fact->signal, sizeof(ret_fact->signal), finding->signal);
    (void)text_copy(ret_fact->subject, sizeof(ret_fact->subject), finding->subject);
    (void)text_copy(ret_fact->text, sizeof(ret_fact->text), finding->text);
}
