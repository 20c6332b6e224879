/* catalog_look.c: a line -> a signal.
 *
 * The filter goes over the line once. Nearly always it finds nothing, and that is all. Else what
 * has a parser comes first, since it knows codes; then patterns, in their order, of which only
 * those are tried whose key is there. */
#include <assert.h>
#include <string.h>

#include "agent/core/catalog_parts.h"
#include "agent/core/line_cursor.h"
#include "agent/core/line_pattern.h"
#include "agent/core/log_line.h"
#include "agent/core/nccl_line.h"
#include "agent/core/nvidia_line.h"
#include "agent/core/oom_line.h"
#include "agent/core/torch_line.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

static_assert((int)NVIDIA_PCI_SIZE <= (int)SIGNAL_PCI_SIZE, "an address fits");
static_assert((int)TORCH_OPERATION_SIZE <= (int)SIGNAL_OPERATION_SIZE, "an operation fits");

enum { BITS_WORD = 64, MARK_WORDS = (SPECIAL_COUNT + CATALOG_ROWS_LIMIT) / BITS_WORD + 1 };

struct looking {
    const struct catalog *catalog;
    enum line_stream stream;
    const char *line;
    size_t size;
    struct log_line bare;
    const uint64_t *marks;
    struct signal *signal;
};

static bool has_mark(const struct looking *looking, uint32_t mark)
{
    return (looking->marks[mark / BITS_WORD] >> (mark % BITS_WORD) & 1) != 0;
}

static bool may_be_kernel(const struct looking *looking)
{
    return looking->stream == STREAM_ANY || looking->stream == STREAM_KERNEL;
}

static bool may_be_output(const struct looking *looking)
{
    return looking->stream == STREAM_ANY || looking->stream == STREAM_OUTPUT;
}

static void set_row(struct signal *signal, const struct row *row)
{
    memcpy(signal->name, row->name, sizeof(signal->name));
    signal->label = row->label;
    signal->advice = row->advice;
    signal->role = row->role;
    signal->explain = row->explain;
}

/* What another line has said already can be a symptom of it, but not where it began. */
static void weaken(struct signal *signal)
{
    signal->role = signal->role == ROLE_ROOT ? ROLE_SYMPTOM : signal->role;
}

/* ---- the NVIDIA drivers ---------------------------------------------------------------------- */

static const struct row *nvlink5_row(const struct catalog *catalog, const struct nvidia_line *line)
{
    for (uint32_t i = 0; i < catalog->nvlink5_count && line->word_count >= 2; i++) {
        const struct row *row = &catalog->rows[catalog->nvlink5[i]];
        const struct match *match = &row->match;
        const uint32_t interrupt = line->words[0];
        const bool fits = (interrupt & match->before_r575.mask) == match->before_r575.value ||
                          (interrupt & match->since_r575.mask) == match->since_r575.value;
        if (fits && (uint32_t)match->code == line->code &&
            (!match->has_status || match->status == line->words[1])) {
            return row;
        }
    }
    return NULL;
}

static uint8_t variant_of(const struct nvidia_line *line)
{
    return line->severity == NVIDIA_FATAL      ? VARIANT_FATAL
           : line->severity == NVIDIA_NONFATAL ? VARIANT_NONFATAL
                                               : VARIANT_NONE;
}

/* The code with the severity that the line says, else the code alone, else what is said of any. */
static const struct row *code_row(const struct catalog *catalog, uint8_t kind,
                                  const struct nvidia_line *line)
{
    const uint8_t variant = variant_of(line);
    const int32_t codes[] = {(int32_t)line->code, CATALOG_CODE_ANY};
    for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
        const struct row *row = catalog_row_of_code(catalog, kind, variant, codes[i]);
        if (row == NULL && variant != VARIANT_NONE) {
            row = catalog_row_of_code(catalog, kind, VARIANT_NONE, codes[i]);
        }
        if (row != NULL) {
            return row;
        }
    }
    return NULL;
}

static const struct row *xid_row(const struct catalog *catalog, const struct nvidia_line *line,
                                 struct signal *signal)
{
    const struct row *row = NULL;
    signal->kind = SIGNAL_XID;
    if (line->code == XID_RECOVERY && line->action_to >= 0) {
        signal->kind = SIGNAL_RECOVERY;
        signal->code = line->action_to;
        row = catalog_row_of_code(catalog, MATCH_RECOVERY, VARIANT_NONE, line->action_to);
    } else if (line->code >= NVLINK5_FIRST && line->code <= NVLINK5_LAST) {
        signal->kind = SIGNAL_NVLINK5;
        row = nvlink5_row(catalog, line);
    }
    return row != NULL ? row : code_row(catalog, MATCH_XID, line);
}

/* Where repeats count for the same thing only if it is the same part of the GPU. */
static void name_device(const struct nvidia_line *line, struct signal *signal)
{
    (void)text_copy(signal->pci, sizeof(signal->pci), line->pci);
    if (line->gpc >= 0 && line->tpc >= 0) {
        (void)text_format(signal->subject, sizeof(signal->subject), "%s GPC %d TPC %d", line->pci,
                          line->gpc, line->tpc);
    } else {
        (void)text_copy(signal->subject, sizeof(signal->subject), line->pci);
    }
}

static bool look_nvidia(struct looking *looking)
{
    struct nvidia_line line;
    struct signal *signal = looking->signal;
    if (!nvidia_line_read(looking->bare.text, looking->bare.size, &line)) {
        return false;
    }
    signal->code = (int32_t)line.code;
    signal->kind = SIGNAL_SXID;
    const struct row *row = line.is_switch ? code_row(looking->catalog, MATCH_SXID, &line)
                                           : xid_row(looking->catalog, &line, signal);
    signal->previous = line_small(line.previous);
    signal->link = line.link;
    name_device(&line, signal);
    if (row == NULL) {
        return false;
    }
    set_row(signal, row);
    if (line.is_detail) {
        signal->label = LABEL_BENIGN;
        signal->advice = ADVICE_NONE;
        signal->role = ROLE_NOISE;
    } else if (line.follows || line.previous > 0) {
        weaken(signal);
    }
    return true;
}

/* ---- NCCL, PyTorch, the kernel's memory ------------------------------------------------------ */

static bool look_completion(struct looking *looking)
{
    struct nccl_completion completion;
    struct signal *signal = looking->signal;
    if (!nccl_completion_read(looking->bare.text, looking->bare.size, &completion)) {
        return false;
    }
    const struct row *row =
        catalog_row_of_code(looking->catalog, MATCH_COMPLETION, VARIANT_NONE, completion.status);
    if (row == NULL) {
        row =
            catalog_row_of_code(looking->catalog, MATCH_COMPLETION, VARIANT_NONE, CATALOG_CODE_ANY);
    }
    if (row == NULL) {
        return false;
    }
    set_row(signal, row);
    signal->kind = SIGNAL_COMPLETION;
    signal->code = completion.status;
    (void)text_copy(signal->subject, sizeof(signal->subject), completion.peer);
    return true;
}

static bool look_work(struct looking *looking)
{
    struct torch_work work;
    struct signal *signal = looking->signal;
    if (!torch_work_read(looking->line, looking->size, &work)) {
        return false;
    }
    const uint8_t variant = work.differs ? VARIANT_DIFFERS : VARIANT_NONE;
    const struct row *row = catalog_row_of_code(looking->catalog, MATCH_WATCHDOG, variant, 0);
    if (row == NULL) {
        return false;
    }
    set_row(signal, row);
    signal->kind = SIGNAL_WATCHDOG;
    signal->sequence = work.sequence;
    (void)text_copy(signal->operation, sizeof(signal->operation), work.operation);
    if (signal->rank < 0 && work.group <= 0) {
        signal->rank = work.rank; /* of the first group it is the rank in the job */
    }
    char group[24] = "";
    if (work.group >= 0) {
        (void)text_format(group, sizeof(group), " pg=%d", work.group);
    }
    (void)text_format(signal->subject, sizeof(signal->subject), "seq=%lld op=%s%s",
                      (long long)work.sequence, work.operation, group);
    return true;
}

static bool fits_oom(const struct match *match, const struct oom_line *line)
{
    const bool fits =
        match->variant == OOM_EITHER || (match->variant == OOM_GROUP) == line->of_cgroup;
    return fits && match_has_victim(match, line->victim);
}

static bool look_oom(struct looking *looking)
{
    struct oom_line line;
    struct signal *signal = looking->signal;
    const struct catalog *catalog = looking->catalog;
    if (!oom_line_read(looking->bare.text, looking->bare.size, &line)) {
        return false;
    }
    for (uint32_t i = 0; i < catalog->order_count; i++) {
        const struct row *row = &catalog->rows[catalog->order[i]];
        if (row->match.kind == MATCH_OOM && fits_oom(&row->match, &line)) {
            set_row(signal, row);
            signal->kind = SIGNAL_OOM;
            (void)text_copy(signal->subject, sizeof(signal->subject), line.victim);
            return true;
        }
    }
    return false;
}

/* What has a parser: true when its code has a row too. */
static bool look_special(struct looking *looking)
{
    if (may_be_kernel(looking)) {
        if ((has_mark(looking, SPECIAL_XID) || has_mark(looking, SPECIAL_BUS) ||
             has_mark(looking, SPECIAL_CHANNELS)) &&
            look_nvidia(looking)) {
            return true;
        }
        if ((has_mark(looking, SPECIAL_OOM) || has_mark(looking, SPECIAL_KILL)) &&
            look_oom(looking)) {
            return true;
        }
    }
    if (may_be_output(looking)) {
        return (has_mark(looking, SPECIAL_COMPLETION) && look_completion(looking)) ||
               (has_mark(looking, SPECIAL_WORK) && look_work(looking));
    }
    return false;
}

/* ---- patterns -------------------------------------------------------------------------------- */

static bool is_of_stream(const struct looking *looking, uint8_t kind)
{
    switch (kind) {
    case MATCH_KERNEL:
        return may_be_kernel(looking);
    case MATCH_BOOT:
        return may_be_kernel(looking) && looking->bare.has_uptime &&
               looking->bare.uptime_ms < CATALOG_BOOT_MS;
    case MATCH_OUTPUT:
        return may_be_output(looking);
    case MATCH_AGENT:
        return looking->stream == STREAM_ANY || looking->stream == STREAM_AGENT;
    default:
        return true;
    }
}

static void set_found(struct signal *signal, const struct line_found *found)
{
    if (found->has_code) {
        signal->code = found->code;
    }
    if (found->has_rank) {
        signal->rank = found->rank;
    }
    if (found->has_gpu) {
        signal->gpu = found->gpu;
    }
    if (found->pci != NULL) {
        line_copy(signal->pci, sizeof(signal->pci), found->pci, found->pci_size);
        line_copy(signal->subject, sizeof(signal->subject), found->pci, found->pci_size);
    }
    if (found->subject != NULL) {
        line_copy(signal->subject, sizeof(signal->subject), found->subject, found->subject_size);
    }
}

static bool try_pattern(struct looking *looking, const struct row *row)
{
    struct line_found found;
    if (!is_of_stream(looking, row->match.kind) ||
        !line_pattern_match(&row->match.pattern, looking->line, looking->size,
                            (size_t)(looking->bare.text - looking->line), &found)) {
        return false;
    }
    set_row(looking->signal, row);
    set_found(looking->signal, &found);
    return true;
}

/* The number of the lowest bit of a word that has one. */
static uint32_t lowest_bit(uint64_t word)
{
    uint32_t bit = 0;
    for (uint32_t half = BITS_WORD / 2; half > 0; half /= 2) {
        if (word << (BITS_WORD - half) == 0) {
            word >>= half;
            bit += half;
        }
    }
    return bit;
}

static bool look_patterns(struct looking *looking)
{
    const struct catalog *catalog = looking->catalog;
    const uint32_t end = SPECIAL_COUNT + catalog->order_count;
    for (uint32_t from = 0; from < end; from += BITS_WORD) {
        for (uint64_t left = looking->marks[from / BITS_WORD]; left != 0; left &= left - 1) {
            const uint32_t mark = from + lowest_bit(left);
            if (mark >= SPECIAL_COUNT &&
                try_pattern(looking, &catalog->rows[catalog->order[mark - SPECIAL_COUNT]])) {
                return true;
            }
        }
    }
    return false;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void nothing_known(struct signal *signal)
{
    *signal = (struct signal){
        .code = SIGNAL_NO_CODE, .rank = -1, .gpu = -1, .link = -1, .sequence = -1, .explain = ""};
}

static void set_carrier(struct signal *signal, const struct log_line *bare)
{
    signal->rank = bare->rank;
    signal->gpu = bare->gpu;
    if (bare->kmsg) {
        signal->from_user = bare->facility != 0;
        signal->kmsg_sequence = bare->sequence;
        signal->kmsg_usec = bare->usec;
    }
}

bool catalog_look(const struct catalog *catalog, enum line_stream stream, const char *line,
                  size_t size, struct signal *ret_signal)
{
    uint64_t marks[MARK_WORDS];
    const size_t looked_at = size < CATALOG_LOOK_MAX ? size : CATALOG_LOOK_MAX;
    struct looking looking = {.catalog = catalog,
                              .stream = stream,
                              .line = line,
                              .size = looked_at,
                              .marks = marks,
                              .signal = ret_signal};
    nothing_known(ret_signal);
    memset(marks, 0, ((SPECIAL_COUNT + catalog->order_count) / BITS_WORD + 1) * sizeof(marks[0]));
    if (!filter_run(&catalog->filter, line, looked_at, marks)) {
        return false;
    }
    log_line_strip(line, looked_at, &looking.bare);
    set_carrier(ret_signal, &looking.bare);
    return look_special(&looking) || look_patterns(&looking);
}

void signal_fact(const struct signal *signal, enum line_stream stream, const char *line,
                 size_t size, struct fact *ret_fact)
{
    struct log_line bare;
    struct fact fact = {.source = stream == STREAM_AGENT ? FACT_PROBE : FACT_LOG,
                        .rank = signal->rank,
                        .gpu = signal->gpu,
                        .port = -1,
                        .code = signal->code == SIGNAL_NO_CODE ? 0 : signal->code,
                        .label = signal->label,
                        .advice = signal->advice,
                        .role = signal->role};
    log_line_strip(line, size < CATALOG_LOOK_MAX ? size : CATALOG_LOOK_MAX, &bare);
    if (signal->from_user) {
        fact.role = ROLE_NOISE;
    }
    fact.severity = signal_severity(fact.label, fact.advice, fact.role);
    (void)text_copy(fact.signal, sizeof(fact.signal), signal->name);
    (void)text_copy(fact.subject, sizeof(fact.subject), signal->subject);
    (void)text_sentence(fact.text, sizeof(fact.text), "%.*s",
                        (int)(bare.size < TEXT_SIZE ? bare.size : TEXT_SIZE), bare.text);
    *ret_fact = fact;
}
