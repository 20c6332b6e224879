/* line_pattern.c: a pattern falls into segments between its stars; each segment is looked for
 * behind the one before, leftmost first, and within a segment there is one way to go. */
#include "agent/core/line_pattern.h"

#include <errno.h>
#include <string.h>

#include "agent/core/line_cursor.h"
#include "proto/base/check.h"

enum { DIGITS_MAX = 18 };

struct reader {
    const char *text;
    size_t size;
    size_t at;
};

/* The next text between the | of a choice, or all of what is none, from *at on. */
static bool next_text(const struct line_key *key, size_t *at, const char **ret_text,
                      size_t *ret_size)
{
    size_t end = *at;
    if (*at > key->size) {
        return false;
    }
    while (end < key->size && !(key->is_choice && key->text[end] == '|')) {
        end++;
    }
    *ret_text = key->text + *at;
    *ret_size = end - *at;
    *at = end + 1;
    return true;
}

/* ---- reading a pattern --------------------------------------------------------------------- */

/* The number of %> and %&, which follows its sign. Returns its digits. */
static size_t read_limit(const char *text, size_t size, bool hex, uint64_t *ret_limit)
{
    size_t count = 0;
    uint64_t value = 0;
    while (count < size && count < DIGITS_MAX - 4 &&
           (hex ? line_hex_of(text[count]) >= 0 : line_is_digit(text[count]))) {
        value = value * (hex ? 16 : 10) + (uint64_t)line_hex_of(text[count]);
        count++;
    }
    *ret_limit = value;
    return count;
}

static int read_class(struct reader *in, struct line_item *item, struct err *err)
{
    static const char plain[] = "dxsDRGSP_";
    static const char literal[] = "%*{^$";
    const char *text = in->text + in->at;
    const size_t left = in->size - in->at;
    if (left < 2) {
        return err_set(err, -EINVAL, "ends in %%; a percent sign is written twice");
    }
    const char class = text[1];
    in->at += 2;
    for (size_t i = 0; i + 1 < sizeof(literal); i++) {
        if (class == literal[i]) {
            *item = (struct line_item){.class = ITEM_TEXT, .body = text + 1, .body_size = 1};
            return 0;
        }
    }
    *item = (struct line_item){.class = class};
    for (size_t i = 0; i + 1 < sizeof(plain); i++) {
        if (class == plain[i]) {
            return 0;
        }
    }
    if (class != '>' && class != '&') {
        return err_set(err, -EINVAL,
                       "%%%c is not known; behind %% stands one of d x s _ D R G S P > &",
                       class >= ' ' && class <= '~' ? class : '?');
    }
    const size_t digits = read_limit(text + 2, left - 2, class == '&', &item->limit);
    in->at += digits;
    return digits > 0 ? 0 : err_set(err, -EINVAL, "%%%c needs a number behind it", class);
}

/* Choices that can never be taken, since an earlier one takes all that they would. */
static int check_choice(const struct line_item *item, struct err *err)
{
    const struct line_key all = {.text = item->body, .size = item->body_size, .is_choice = true};
    size_t at = 0;
    const char *text;
    size_t size;
    while (next_text(&all, &at, &text, &size)) {
        size_t behind = at;
        const char *later;
        size_t later_size;
        while (next_text(&all, &behind, &later, &later_size)) {
            if (later_size >= size && memcmp(later, text, size) == 0) {
                return err_set(err, -EINVAL,
                               "in { } '%.*s' can never be taken behind '%.*s': longer ones first",
                               (int)later_size, later, (int)size, text);
            }
        }
    }
    return 0;
}

static int read_choice(struct reader *in, struct line_item *item, struct err *err)
{
    const char *text = in->text + in->at;
    const size_t left = in->size - in->at;
    size_t end = 1;
    while (end < left && text[end] != '}') {
        if (text[end] == '{' || text[end] == '%' || text[end] == '*') {
            return err_set(err, -EINVAL, "between { and } stands plain text only, no %c",
                           text[end]);
        }
        end++;
    }
    if (end == left) {
        return err_set(err, -EINVAL, "a { is not closed; write %%{ for the character");
    }
    *item = (struct line_item){.class = '{', .body = text + 1, .body_size = (uint8_t)(end - 1)};
    in->at += end + 1;
    return check_choice(item, err);
}

/* Plain bytes, as many as there are. */
static void read_text(struct reader *in, struct line_item *item)
{
    size_t end = in->at;
    while (end < in->size && in->text[end] != '%' && in->text[end] != '{' && in->text[end] != '*' &&
           !(in->text[end] == '$' && end + 1 == in->size)) {
        end++;
    }
    *item = (struct line_item){
        .class = ITEM_TEXT, .body = in->text + in->at, .body_size = (uint8_t)(end - in->at)};
    in->at = end;
}

static int read_item(struct reader *in, struct line_item *item, struct err *err)
{
    const char byte = in->text[in->at];
    const bool is_begin = byte == '^' && in->at == 0;
    const bool is_end = byte == '$' && in->at + 1 == in->size;
    if (byte == '%') {
        return read_class(in, item, err);
    }
    if (byte == '{') {
        return read_choice(in, item, err);
    }
    if (byte == '*' || is_begin || is_end) {
        *item = (struct line_item){.class = byte};
        in->at++;
        return 0;
    }
    read_text(in, item);
    return 0;
}

/* The bytes that the shortest piece has; 0 when one has others than printable ASCII. */
static size_t key_worth(const struct line_key *key)
{
    size_t at = 0;
    size_t worth = LINE_KEY_MAX;
    const char *text;
    size_t size;
    while (line_key_piece(key, &at, &text, &size)) {
        worth = size < worth ? size : worth;
        for (size_t i = 0; i < size; i++) {
            worth = text[i] >= ' ' && text[i] <= '~' ? worth : 0;
        }
    }
    return worth;
}

static void prefer(struct line_key *best, const struct line_key *key)
{
    if (key_worth(key) > key_worth(best)) {
        *best = *key;
    }
}

/* The best key, which may be worth nothing. */
static struct line_key find_key(const struct line_pattern *pattern)
{
    struct line_key best = {.text = ""};
    for (size_t i = 0; i < pattern->count; i++) {
        const struct line_item *item = &pattern->items[i];
        if (item->class == ITEM_TEXT || item->class == '{') {
            const struct line_key key = {
                .text = item->body, .size = item->body_size, .is_choice = item->class == '{'};
            prefer(&best, &key);
        }
    }
    return best;
}

int line_pattern_read(const char *text, size_t size, struct line_item *items, size_t *ret_count,
                      struct err *err)
{
    struct reader in = {.text = text, .size = size};
    size_t count = 0;
    if (size == 0 || size > LINE_PATTERN_MAX) {
        return err_set(err, -EINVAL, "a pattern has 1 to %d bytes, not %zu", LINE_PATTERN_MAX,
                       size);
    }
    while (in.at < size) {
        CHECK(count < LINE_ITEMS_MAX); /* each item is a byte at least */
        const int r = read_item(&in, &items[count], err);
        if (r != 0) {
            return r;
        }
        count++;
    }
    const struct line_pattern pattern = {.items = items, .count = count};
    const struct line_key key = find_key(&pattern);
    if (key_worth(&key) < LINE_KEY_MIN) {
        return err_set(err, -EINVAL,
                       "needs at least %d characters in a row that stand in every such line: plain "
                       "ones, or each text of a { }",
                       LINE_KEY_MIN);
    }
    *ret_count = count;
    return 0;
}

struct line_key line_pattern_key(const struct line_pattern *pattern)
{
    const struct line_key key = find_key(pattern);
    CHECK(key_worth(&key) >= LINE_KEY_MIN);
    return key;
}

bool line_key_piece(const struct line_key *key, size_t *at, const char **ret_text, size_t *ret_size)
{
    if (!next_text(key, at, ret_text, ret_size)) {
        return false;
    }
    *ret_size = *ret_size < LINE_KEY_MAX ? *ret_size : LINE_KEY_MAX;
    return true;
}

/* ---- what stands at a place of a line ------------------------------------------------------- */

struct place {
    const char *line;
    size_t size;
    size_t at;
};

static size_t digits_at(const struct place *place, size_t at)
{
    size_t count = 0;
    while (at + count < place->size && count < DIGITS_MAX &&
           line_is_digit(place->line[at + count])) {
        count++;
    }
    return count;
}

static bool take_decimal(struct place *place, int64_t *ret_value)
{
    const bool minus = place->at < place->size && place->line[place->at] == '-';
    const size_t from = place->at + (minus ? 1 : 0);
    const size_t count = digits_at(place, from);
    int64_t value = 0;
    for (size_t i = 0; i < count; i++) {
        value = value * 10 + (place->line[from + i] - '0');
    }
    *ret_value = minus ? -value : value;
    place->at = from + count;
    return count > 0;
}

/* "12", "0.5", "1e3" is 1 here: exponents are not for limits. */
static bool take_at_least(struct place *place, uint64_t limit)
{
    int64_t value = 0;
    if (!take_decimal(place, &value)) {
        return false;
    }
    if (place->at < place->size && place->line[place->at] == '.') {
        place->at += 1 + digits_at(place, place->at + 1);
    }
    return value >= (int64_t)limit;
}

static bool take_hex(struct place *place, uint64_t *ret_value)
{
    const char *text = place->line + place->at;
    const size_t left = place->size - place->at;
    size_t at = left > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 2 : 0;
    const size_t from = at;
    uint64_t value = 0;
    while (at < left && at - from < 16 && line_hex_of(text[at]) >= 0) {
        value = value << 4 | (uint64_t)line_hex_of(text[at]);
        at++;
    }
    *ret_value = value;
    place->at += at;
    return at > from;
}

/* Up to a blank or the byte that the pattern wants next; 0: the pattern wants no certain byte. */
static size_t word_at(const struct place *place, char stop)
{
    size_t count = 0;
    while (place->at + count < place->size && count < LINE_WORD_MAX) {
        const char byte = place->line[place->at + count];
        if (line_is_blank(byte) || (stop != '\0' && byte == stop)) {
            break;
        }
        count++;
    }
    return count;
}

static size_t hex_run(const char *text, size_t size, size_t at, size_t most)
{
    size_t count = 0;
    while (at + count < size && count <= most && line_hex_of(text[at + count]) >= 0) {
        count++;
    }
    return count <= most ? count : 0;
}

size_t line_pci_size(const char *text, size_t size)
{
    const size_t first = hex_run(text, size, 0, 8);
    if (first < 2 || first == size || text[first] != ':') {
        return 0;
    }
    const size_t second = hex_run(text, size, first + 1, 2);
    size_t at = first + 1 + second;
    if (second != 2) {
        return 0;
    }
    if (at < size && text[at] == ':' && hex_run(text, size, at + 1, 2) == 2) {
        at += 3;
    } else if (first != 2) {
        return 0;
    }
    if (at + 1 < size && text[at] == '.' && text[at + 1] >= '0' && text[at + 1] <= '7') {
        at += 2;
    }
    return at;
}

static bool take_choice(struct place *place, const struct line_item *item)
{
    size_t from = 0;
    while (from <= item->body_size) {
        size_t end = from;
        while (end < item->body_size && item->body[end] != '|') {
            end++;
        }
        const size_t size = end - from;
        if (place->size - place->at >= size &&
            memcmp(place->line + place->at, item->body + from, size) == 0) {
            place->at += size;
            return true;
        }
        from = end + 1;
    }
    return false;
}

static bool take_blanks(struct place *place)
{
    const size_t from = place->at;
    while (place->at < place->size && line_is_blank(place->line[place->at])) {
        place->at++;
    }
    return place->at > from;
}

/* ---- matching ------------------------------------------------------------------------------- */

static int32_t narrow(int64_t value)
{
    return value > INT32_MAX ? INT32_MAX : value < -INT32_MAX ? -INT32_MAX : (int32_t)value;
}

static bool take_number(struct place *place, char class, struct line_found *found)
{
    int64_t value = 0;
    if (!take_decimal(place, &value)) {
        return false;
    }
    switch (class) {
    case 'D':
        found->has_code = true;
        found->code = narrow(value);
        break;
    case 'R':
        found->has_rank = true;
        found->rank = narrow(value);
        break;
    case 'G':
        found->has_gpu = true;
        found->gpu = narrow(value);
        break;
    default:
        break;
    }
    return true;
}

static bool take_word(struct place *place, const struct line_item *item, char stop,
                      struct line_found *found)
{
    const size_t size = item->class == 'P'
                            ? line_pci_size(place->line + place->at, place->size - place->at)
                            : word_at(place, stop);
    if (item->class == 'S') {
        found->subject = place->line + place->at;
        found->subject_size = size;
    } else if (item->class == 'P') {
        found->pci = place->line + place->at;
        found->pci_size = size;
    }
    place->at += size;
    return size > 0;
}

/* `next`: the byte that follows the item in the pattern, where a certain one does. */
static bool take_item(struct place *place, const struct line_item *item, char next,
                      struct line_found *found)
{
    uint64_t bits = 0;
    switch (item->class) {
    case ITEM_TEXT:
        if (place->size - place->at < item->body_size ||
            memcmp(place->line + place->at, item->body, item->body_size) != 0) {
            return false;
        }
        place->at += item->body_size;
        return true;
    case '{':
        return take_choice(place, item);
    case '_':
        return take_blanks(place);
    case '>':
        return take_at_least(place, item->limit);
    case 'x':
        return take_hex(place, &bits);
    case '&':
        return take_hex(place, &bits) && (bits & item->limit) != 0;
    case 's':
    case 'S':
    case 'P':
        return take_word(place, item, next, found);
    default:
        return take_number(place, item->class, found);
    }
}

static bool begins_choice(const struct line_item *item, char byte)
{
    for (size_t at = 0; at <= item->body_size; at++) {
        if (at == 0 || item->body[at - 1] == '|') {
            const bool is_empty = at == item->body_size || item->body[at] == '|';
            if (is_empty || item->body[at] == byte) {
                return true;
            }
        }
    }
    return false;
}

/* Whether the item can begin with the byte: a quick look, before it is tried in earnest. */
static bool may_begin(const struct line_item *item, char byte)
{
    switch (item->class) {
    case ITEM_TEXT:
        return item->body[0] == byte;
    case '{':
        return begins_choice(item, byte);
    case '_':
        return line_is_blank(byte);
    case 'x':
    case '&':
    case 'P':
        return line_hex_of(byte) >= 0;
    case 's':
    case 'S':
        return !line_is_blank(byte);
    case '$':
        return false;
    default:
        return line_is_digit(byte) || byte == '-';
    }
}

/* Where in a pattern. */
struct segment {
    const struct line_item *at;
    const struct line_item *end; /* of the whole pattern */
};

/* The byte that must stand where the item begins; 0: no certain one. */
static char first_byte(const struct segment *segment)
{
    return segment->at < segment->end && segment->at->class == ITEM_TEXT ? segment->at->body[0]
                                                                         : '\0';
}

/* The items up to the next star, from place->at on. Both move behind it when it fits. */
static bool take_segment(struct segment *segment, struct place *place, struct line_found *found)
{
    struct segment items = *segment;
    struct place line = *place;
    struct line_found seen = *found;
    while (items.at < items.end && items.at->class != '*') {
        const struct line_item *item = items.at++;
        if (item->class == '$' ? line.at != line.size
                               : !take_item(&line, item, first_byte(&items), &seen)) {
            return false;
        }
    }
    *segment = items;
    *place = line;
    *found = seen;
    return true;
}

/* The first place at or behind place->at where the segment, which is not empty, fits. */
static bool find_segment(struct segment *segment, struct place *place, struct line_found *found)
{
    const struct line_item *first = segment->at;
    for (size_t at = place->at; at <= place->size; at++) {
        if (at < place->size && !may_begin(first, place->line[at])) {
            continue;
        }
        struct place try = *place;
        try.at = at;
        if (take_segment(segment, &try, found)) {
            *place = try;
            return true;
        }
    }
    return false;
}

/* What joins the lines of one message. */
static bool is_join(char byte)
{
    return byte == '|' || byte == '\n';
}

static size_t behind_blanks(const char *line, size_t size, size_t at)
{
    while (at < size && line_is_blank(line[at])) {
        at++;
    }
    return at;
}

/* The first segment where the message begins, or one that was joined to it. */
static bool find_beginning(struct segment *segment, struct place *place, size_t begin,
                           struct line_found *found)
{
    for (size_t at = begin; at <= place->size; at++) {
        if (at != begin && !is_join(place->line[at - 1])) {
            continue;
        }
        struct place try = *place;
        try.at = behind_blanks(place->line, place->size, at);
        if (take_segment(segment, &try, found)) {
            *place = try;
            return true;
        }
    }
    return false;
}

bool line_pattern_match(const struct line_pattern *pattern, const char *line, size_t size,
                        size_t begin, struct line_found *ret_found)
{
    struct segment rest = {.at = pattern->items, .end = pattern->items + pattern->count};
    struct line_found found = {0};
    while (size > 0 && line_is_blank(line[size - 1])) {
        size--;
    }
    struct place place = {.line = line, .size = size};
    bool fits = true;
    if (rest.at < rest.end && rest.at->class == '^') {
        rest.at++;
        fits = begin <= size && find_beginning(&rest, &place, begin, &found);
    }
    while (fits && rest.at < rest.end) {
        while (rest.at < rest.end && rest.at->class == '*') {
            rest.at++;
        }
        fits = rest.at == rest.end || find_segment(&rest, &place, &found);
    }
    if (fits) {
        *ret_found = found;
    }
    return fits;
}
