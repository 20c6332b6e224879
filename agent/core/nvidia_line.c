/* nvidia_line.c: a cursor goes over the line once, from "Xid (" on; what is told in free text
 * behind the code is looked for by the few words that only one code uses. */
#include "agent/core/nvidia_line.h"

#include "agent/core/line_cursor.h"
#include "agent/core/line_pattern.h"
#include "proto/base/check.h"

/* ---- the head: "(PCI:0000:3b:00 GPU-I:01): 79, pid=…, name=…, " ------------------------------ */

/* An Xid is of the whole device, so a function digit, which copies of logs have, is left out. */
static bool take_device(struct line_cursor *cursor, struct nvidia_line *line)
{
    uint64_t number = 0;
    (void)cursor_take(cursor, "PCI:");
    const size_t size = line_pci_size(cursor->text + cursor->at, cursor->size - cursor->at);
    if (size == 0) {
        return false;
    }
    const char *pci = cursor->text + cursor->at;
    line_copy(line->pci, sizeof(line->pci), pci,
              !line->is_switch && pci[size - 2] == '.' ? size - 2 : size);
    cursor->at += size;
    (void)cursor_take_blanks(cursor);
    if (cursor_take(cursor, "GPU-I:") && cursor_take_number(cursor, &number)) {
        line->instance = line_small(number);
        (void)cursor_take_blanks(cursor);
    }
    if (cursor_take(cursor, "GPU-CI:")) {
        (void)cursor_take_number(cursor, &number);
    }
    return cursor_take(cursor, ")");
}

/* Up to a comma and a blank, or the end; quotes around it and "unknown" mean nothing. */
static size_t field_size(const struct line_cursor *cursor)
{
    size_t at = cursor->at;
    while (at < cursor->size &&
           !(cursor->text[at] == ',' && at + 1 < cursor->size && cursor->text[at + 1] == ' ')) {
        at++;
    }
    return at - cursor->at;
}

static void take_separator(struct line_cursor *cursor)
{
    if (cursor_take(cursor, ",")) {
        (void)cursor_take_blanks(cursor);
    }
}

static void take_process(struct line_cursor *cursor, struct nvidia_line *line)
{
    uint64_t pid = 0;
    if (!cursor_take(cursor, "pid=")) {
        return;
    }
    struct line_cursor number = *cursor;
    if (cursor_take_number(&number, &pid)) {
        line->pid = (int64_t)pid;
    }
    cursor->at += field_size(cursor);
    take_separator(cursor);
    if (!cursor_take(cursor, "name=")) {
        return;
    }
    const char *name = cursor->text + cursor->at;
    const size_t size = field_size(cursor);
    if (!line_equal(name, size, "<unknown>") && !line_equal(name, size, "'<unknown>'") &&
        !line_equal(name, size, "<n/a>")) {
        line_copy(line->process, sizeof(line->process), name, size);
    }
    cursor->at += size;
    take_separator(cursor);
}

/* ---- what single codes tell ------------------------------------------------------------------ */

static void read_previous(struct line_cursor rest, struct nvidia_line *line)
{
    uint64_t code = 0;
    if (cursor_find(&rest, "caused by previous Xid ") && cursor_take_number(&rest, &code)) {
        line->previous = (uint32_t)line_small(code);
    }
}

static void read_recovery(struct line_cursor rest, struct nvidia_line *line)
{
    uint32_t value = 0;
    if (cursor_find(&rest, "changed from ") && cursor_take_hex(&rest, &value)) {
        line->action_from = line_small(value);
    }
    if (cursor_find(&rest, " to ") && cursor_take_hex(&rest, &value)) {
        line->action_to = line_small(value);
    }
}

/* "link 14(0x0, 0x0, …)", "Link 09 (0x025525c6 0x0 …)", "Link -1 (…)", "(Link 5)" */
static void read_link(struct line_cursor rest, struct nvidia_line *line)
{
    uint64_t link = 0;
    struct line_cursor lower = rest;
    if (!cursor_find(&rest, "Link ")) {
        rest = lower;
        if (!cursor_find(&rest, "link ")) {
            return;
        }
    }
    (void)cursor_take_blanks(&rest);
    if (cursor_take_number(&rest, &link)) {
        line->link = line_small(link);
    }
}

/* The first parenthesis with hexadecimal words in it. */
static void read_words(struct line_cursor rest, struct nvidia_line *line)
{
    while (line->word_count == 0 && cursor_find(&rest, "(")) {
        struct line_cursor inside = rest;
        while (line->word_count < NVIDIA_WORDS_MAX && cursor_take(&inside, "0x")) {
            inside.at -= 2;
            if (!cursor_take_hex(&inside, &line->words[line->word_count])) {
                break;
            }
            line->word_count++;
            (void)cursor_take(&inside, ",");
            (void)cursor_take_blanks(&inside);
        }
    }
}

/* "NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (" */
static void read_nvlink5(struct line_cursor rest, struct nvidia_line *line)
{
    size_t size = 0;
    while (rest.at + size < rest.size && rest.text[rest.at + size] != ' ' &&
           rest.text[rest.at + size] != ',') {
        size++;
    }
    line_copy(line->unit, sizeof(line->unit), rest.text + rest.at, size);
    struct line_cursor severity = rest;
    if (cursor_find(&severity, "Nonfatal") || cursor_find(&severity, "Non-fatal")) {
        line->severity = NVIDIA_NONFATAL;
    } else if (cursor_find(&severity, "Fatal")) {
        line->severity = NVIDIA_FATAL;
    }
    read_link(rest, line);
    read_words(rest, line);
}

static uint8_t read_answer(struct line_cursor rest, const char *word)
{
    if (!cursor_find(&rest, word)) {
        return NVIDIA_NOT_SAID;
    }
    return cursor_take(&rest, "Yes")  ? NVIDIA_YES
           : cursor_take(&rest, "No") ? NVIDIA_NO
                                      : NVIDIA_NOT_SAID;
}

static void read_containment(struct line_cursor rest, struct nvidia_line *line)
{
    struct line_cursor word = rest;
    line->contained = cursor_find(&word, "Uncontained") ? NVIDIA_NO
                      : cursor_take(&rest, "Contained") ? NVIDIA_YES
                                                        : NVIDIA_NOT_SAID;
    line->reset_needed = read_answer(rest, " RST: ");
    line->drain_needed = read_answer(rest, "D-RST: ");
}

static int32_t read_index(struct line_cursor rest, const char *word)
{
    uint64_t index = 0;
    return cursor_find(&rest, word) && cursor_take_number(&rest, &index) ? line_small(index) : -1;
}

static void read_details(struct line_cursor rest, struct nvidia_line *line)
{
    read_previous(rest, line);
    if (line->code == XID_RECOVERY) {
        read_recovery(rest, line);
    } else if (line->code >= NVLINK5_FIRST && line->code <= NVLINK5_LAST) {
        read_nvlink5(rest, line);
    } else if (line->code == 74 || line->code == 136) {
        read_link(rest, line);
        read_words(rest, line);
    } else if (line->code == 94 || line->code == 95) {
        read_containment(rest, line);
    } else {
        line->gpc = read_index(rest, "GPC ");
        line->tpc = read_index(rest, "TPC ");
        line->sm = read_index(rest, ", SM ");
    }
}

/* ---- the kinds of lines ---------------------------------------------------------------------- */

static bool take_code(struct line_cursor *cursor, struct nvidia_line *line)
{
    uint64_t code = 0;
    if (!take_device(cursor, line) || !cursor_take(cursor, ":")) {
        return false;
    }
    (void)cursor_take_blanks(cursor);
    if (!cursor_take_number(cursor, &code) || code > INT32_MAX) {
        return false;
    }
    line->code = (uint32_t)code;
    take_separator(cursor);
    return true;
}

static bool read_xid(struct line_cursor cursor, struct nvidia_line *line)
{
    if (!cursor_find(&cursor, "NVRM: Xid (") || !take_code(&cursor, line)) {
        return false;
    }
    take_process(&cursor, line);
    line->text = cursor.text + cursor.at;
    line->text_size = cursor.size - cursor.at;
    read_details(cursor, line);
    return true;
}

/* Behind the first line of an SXid come two with its registers. */
static bool read_sxid(struct line_cursor cursor, struct nvidia_line *line)
{
    line->is_switch = true;
    if (!cursor_find(&cursor, "SXid (") || !take_code(&cursor, line)) {
        return false;
    }
    struct line_cursor rest = cursor;
    line->is_detail = cursor_take(&rest, "Severity ") || cursor_take(&rest, "Data {");
    if (cursor_take(&cursor, "Non-fatal") || cursor_take(&cursor, "Nonfatal")) {
        line->severity = NVIDIA_NONFATAL;
    } else if (cursor_take(&cursor, "Fatal")) {
        line->severity = NVIDIA_FATAL;
    }
    take_separator(&cursor);
    line->text = cursor.text + cursor.at;
    line->text_size = cursor.size - cursor.at;
    read_link(cursor, line);
    return true;
}

static void read_address(struct line_cursor cursor, const char *word, struct nvidia_line *line)
{
    if (!cursor_find(&cursor, word)) {
        return;
    }
    const size_t size = line_pci_size(cursor.text + cursor.at, cursor.size - cursor.at);
    if (size > 0) {
        const char *pci = cursor.text + cursor.at;
        line_copy(line->pci, sizeof(line->pci), pci, pci[size - 2] == '.' ? size - 2 : size);
    }
}

/* "NVRM: GPU 0000:29:00.0: GPU has fallen off the bus.", and in three lines, which may have been
 * joined: "The NVIDIA GPU 0000:18:00.0", "(PCI ID: …) installed in this system has", "fallen off
 * the bus and is not responding to commands." */
static bool read_off_the_bus(struct line_cursor cursor, struct nvidia_line *line)
{
    if (!cursor_find(&cursor, "NVRM: ")) {
        return false;
    }
    struct line_cursor words = cursor;
    if (!cursor_find(&words, "fallen off the bus")) {
        return false;
    }
    line->code = XID_OFF_THE_BUS;
    line->inferred = true;
    line->text = cursor.text + cursor.at;
    line->text_size = cursor.size - cursor.at;
    read_address(cursor, "GPU ", line);
    return true;
}

/* "NVRM: krcRcAndNotifyAllChannels_IMPL: RC all channels for critical error 79." */
static bool read_all_channels(struct line_cursor cursor, struct nvidia_line *line)
{
    uint64_t code = 0;
    if (!cursor_find(&cursor, "NVRM: ") ||
        !cursor_find(&cursor, "RC all channels for critical error ") ||
        !cursor_take_number(&cursor, &code) || code > INT32_MAX) {
        return false;
    }
    line->code = (uint32_t)code;
    line->follows = true;
    line->text = cursor.text + cursor.at;
    line->text_size = cursor.size - cursor.at;
    return true;
}

bool nvidia_line_read(const char *text, size_t size, struct nvidia_line *ret_line)
{
    typedef bool reader(struct line_cursor cursor, struct nvidia_line * line);
    static reader *const readers[] = {read_xid, read_sxid, read_all_channels, read_off_the_bus};
    const struct line_cursor cursor = {.text = text, .size = size};
    for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
        struct nvidia_line line = {.pid = -1,
                                   .instance = -1,
                                   .action_from = -1,
                                   .action_to = -1,
                                   .link = -1,
                                   .contained = NVIDIA_NOT_SAID,
                                   .reset_needed = NVIDIA_NOT_SAID,
                                   .drain_needed = NVIDIA_NOT_SAID,
                                   .gpc = -1,
                                   .tpc = -1,
                                   .sm = -1};
        if (readers[i](cursor, &line)) {
            *ret_line = line;
            return true;
        }
    }
    return false;
}

bool nvidia_bits_fit(const char *pattern, uint32_t word)
{
    for (uint32_t i = 0; i < 32; i++) {
        const char bit = (word >> (31 - i) & 1) != 0 ? '1' : '0';
        if (pattern[i] != '-' && pattern[i] != bit) {
            return false;
        }
    }
    return true;
}
