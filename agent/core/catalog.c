/* catalog.c: memory, and how the rows of one more file join those that are there.
 *
 * A file is read into the free half of the rows and behind the used part of the texts. Only when
 * all of it is good do its rows join the others: in the place of a row with the same name or the
 * same match, or as new ones. Then the tables by which lines are looked up are made anew. */
#include "agent/core/catalog.h"

#include <errno.h>
#include <string.h>

#include "agent/core/catalog_parts.h"
#include "agent/core/line_cursor.h"
#include "agent/core/line_pattern.h"
#include "proto/base/check.h"
#include "proto/base/hash.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { TEXT_LIMIT = 1 << 28, ITEMS_LIMIT = 1 << 24 };

void catalog_limits_default(struct catalog_limits *ret_limits)
{
    *ret_limits =
        (struct catalog_limits){.rows = 2048, .text_bytes = 524288, .keys = 8192, .items = 16384};
}

struct catalog *catalog_free(struct catalog *catalog)
{
    if (catalog != NULL) {
        filter_free(&catalog->filter);
        (void)mem_free(catalog->nvlink5);
        (void)mem_free(catalog->order);
        (void)mem_free(catalog->slots);
        (void)mem_free(catalog->items);
        (void)mem_free(catalog->text);
        (void)mem_free(catalog->rows);
    }
    return mem_free(catalog);
}

/* ---- the tables ------------------------------------------------------------------------------ */

static bool is_by_code(const struct match *match)
{
    return match->kind != MATCH_NVLINK5 && match->kind != MATCH_OOM && !match_is_pattern(match);
}

static uint32_t slot_of(const struct catalog *catalog, uint8_t kind, uint8_t variant, int32_t code)
{
    const uint64_t key = (uint64_t)kind << 48 | (uint64_t)variant << 40 | (uint32_t)code;
    return (uint32_t)(hash_u64(HASH_INIT, key) % catalog->slot_count);
}

const struct row *catalog_row_of_code(const struct catalog *catalog, uint8_t kind, uint8_t variant,
                                      int32_t code)
{
    uint32_t slot = slot_of(catalog, kind, variant, code);
    while (catalog->slots[slot] != 0) {
        const struct row *row = &catalog->rows[catalog->slots[slot] - 1];
        if (row->match.kind == kind && row->match.variant == variant && row->match.code == code) {
            return row;
        }
        slot = (slot + 1) % catalog->slot_count;
    }
    return NULL;
}

static void add_code(struct catalog *catalog, uint32_t index)
{
    const struct match *match = &catalog->rows[index].match;
    uint32_t slot = slot_of(catalog, match->kind, match->variant, match->code);
    while (catalog->slots[slot] != 0) {
        slot = (slot + 1) % catalog->slot_count;
    }
    catalog->slots[slot] = (uint16_t)(index + 1);
}

/* The rows of later files first; those of one file as they stand in it. */
static void order_rows(struct catalog *catalog)
{
    catalog->order_count = 0;
    catalog->nvlink5_count = 0;
    memset(catalog->slots, 0, catalog->slot_count * sizeof(catalog->slots[0]));
    for (uint32_t left = catalog->generations; left > 0; left--) {
        for (uint32_t i = 0; i < catalog->count; i++) {
            const struct row *row = &catalog->rows[i];
            if (row->generation != left - 1) {
                continue;
            }
            if (is_by_code(&row->match)) {
                add_code(catalog, i);
            } else if (row->match.kind == MATCH_NVLINK5) {
                catalog->nvlink5[catalog->nvlink5_count++] = (uint16_t)i;
            } else {
                catalog->order[catalog->order_count++] = (uint16_t)i;
            }
        }
    }
}

#define SPECIAL_KEY(constant, key) key,
static const char *const special_keys[] = {CATALOG_SPECIALS(SPECIAL_KEY)};
#undef SPECIAL_KEY

/* Adds the keys of a row to the filter; NULL: only counts. Returns how many there are. */
static uint32_t add_keys(struct filter *filter, const struct match *match, uint32_t mark)
{
    size_t at = 0;
    uint32_t count = 0;
    const char *text;
    size_t size;
    if (!match_is_pattern(match)) {
        return 0;
    }
    const struct line_key key = line_pattern_key(&match->pattern);
    while (line_key_piece(&key, &at, &text, &size)) {
        count++;
        if (filter != NULL) {
            filter_add(filter, text, size, mark);
        }
    }
    return count;
}

static void make_filter(struct catalog *catalog)
{
    struct filter *filter = &catalog->filter;
    filter_clear(filter);
    for (uint32_t i = 0; i < SPECIAL_COUNT; i++) {
        filter_add(filter, special_keys[i], strlen(special_keys[i]), i);
    }
    for (uint32_t i = 0; i < catalog->order_count; i++) {
        const struct match *match = &catalog->rows[catalog->order[i]].match;
        (void)add_keys(filter, match, SPECIAL_COUNT + i); /* their number was checked before */
    }
}

static void make_tables(struct catalog *catalog)
{
    order_rows(catalog);
    make_filter(catalog);
}

int catalog_create(const struct catalog_limits *limits, struct catalog **ret_catalog)
{
    if (limits->rows == 0 || limits->rows > CATALOG_ROWS_LIMIT || limits->text_bytes == 0 ||
        limits->text_bytes > TEXT_LIMIT || limits->keys < SPECIAL_COUNT ||
        limits->keys >= UINT16_MAX || limits->items == 0 || limits->items > ITEMS_LIMIT) {
        return -EINVAL;
    }
    struct catalog *catalog = mem_alloc(1, sizeof(*catalog));
    catalog->limits = *limits;
    catalog->slot_count = limits->rows * CATALOG_SLOTS_PER_ROW;
    catalog->rows = mem_alloc((size_t)limits->rows * 2, sizeof(catalog->rows[0]));
    catalog->text = mem_alloc(limits->text_bytes, 1);
    catalog->items = mem_alloc(limits->items, sizeof(catalog->items[0]));
    catalog->slots = mem_alloc(catalog->slot_count, sizeof(catalog->slots[0]));
    catalog->order = mem_alloc(limits->rows, sizeof(catalog->order[0]));
    catalog->nvlink5 = mem_alloc(limits->rows, sizeof(catalog->nvlink5[0]));
    filter_create(&catalog->filter, limits->keys);
    make_tables(catalog);
    *ret_catalog = catalog;
    return 0;
}

/* ---- reading a file -------------------------------------------------------------------------- */

struct reading {
    struct catalog *catalog;
    const char *origin;
    uint32_t line;
    uint32_t count; /* rows of this file, from catalog->rows[limits.rows] on */
    uint32_t text_used;
    uint32_t items_used;
    uint32_t keys; /* with those of the rows before, at most */
    uint32_t problems;
    bool is_full;
    catalog_problem *problem; /* NULL: only the first one matters, which err has */
    void *context;
    struct err *err;
};

static void complain(struct reading *reading, struct err *what)
{
    (void)err_wrap(what, "%s:%u", reading->origin, reading->line);
    if (reading->problem != NULL) {
        reading->problem(reading->context, what->text);
    }
    if (reading->problems == 0 && reading->err != NULL) {
        *reading->err = *what;
    }
    reading->problems++;
    reading->is_full = reading->is_full || what->code == -ENOSPC;
}

/* NULL: no room. */
static const char *keep_text(struct reading *reading, const char *text, size_t size)
{
    struct catalog *catalog = reading->catalog;
    if (size + 1 > catalog->limits.text_bytes - reading->text_used) {
        return NULL;
    }
    char *kept = catalog->text + reading->text_used;
    memcpy(kept, text, size);
    kept[size] = '\0';
    reading->text_used += (uint32_t)(size + 1);
    return kept;
}

static bool is_same_match(const struct row *a, const struct row *b)
{
    return !a->gone && !b->gone && text_equal(a->column, b->column);
}

/* The row of this file that has the name or the match already. */
static const struct row *twin_of(const struct reading *reading, const struct row *row)
{
    for (uint32_t i = 0; i < reading->count; i++) {
        const struct row *other = &reading->catalog->rows[reading->catalog->limits.rows + i];
        if (text_equal(other->name, row->name) || is_same_match(other, row)) {
            return other;
        }
    }
    return NULL;
}

/* The pattern's items behind those that are kept already. */
static int keep_pattern(struct reading *reading, struct match *match, struct err *err)
{
    struct catalog *catalog = reading->catalog;
    struct line_item items[LINE_ITEMS_MAX];
    size_t count = 0;
    const int r = line_pattern_read(match->text, match->text_size, items, &count, err);
    CHECK(r == 0);
    if (count > catalog->limits.items - reading->items_used) {
        return err_set(err, -ENOSPC, "no room for more than %u parts of patterns",
                       catalog->limits.items);
    }
    struct line_item *kept = catalog->items + reading->items_used;
    memcpy(kept, items, count * sizeof(items[0]));
    reading->items_used += (uint32_t)count;
    match->pattern = (struct line_pattern){.items = kept, .count = count};
    reading->keys += add_keys(NULL, match, 0);
    if (reading->keys > catalog->limits.keys) {
        return err_set(err, -ENOSPC, "no room for more than %u patterns and texts of { }",
                       catalog->limits.keys);
    }
    return 0;
}

/* Its texts into the arena, where the match is read again so that it borrows from there. */
static int keep_texts(struct reading *reading, const struct file_row *file, struct row *row,
                      struct err *err)
{
    row->column = keep_text(reading, file->column, file->column_size);
    row->explain = keep_text(reading, file->explain, file->explain_size);
    if (row->column == NULL || row->explain == NULL) {
        return err_set(err, -ENOSPC, "no room for more than %u bytes of texts",
                       reading->catalog->limits.text_bytes);
    }
    const int r = match_read(row->column, file->column_size, &row->match, err);
    CHECK(r == 0);
    return match_is_pattern(&row->match) ? keep_pattern(reading, &row->match, err) : 0;
}

static int keep_row(struct reading *reading, const struct file_row *file, struct err *err)
{
    struct catalog *catalog = reading->catalog;
    struct row row = file->row;
    if (catalog->count + reading->count >= catalog->limits.rows) {
        return err_set(err, -ENOSPC, "no room for more than %u rows", catalog->limits.rows);
    }
    const int r = row.gone ? 0 : keep_texts(reading, file, &row, err);
    if (r != 0) {
        return r;
    }
    const struct row *twin = twin_of(reading, &row);
    if (twin != NULL) {
        return err_set(err, -EINVAL, "%s '%s' is in this file already; write one of them",
                       text_equal(twin->name, row.name) ? "a row" : "what it matches is of",
                       twin->name);
    }
    row.generation = (uint16_t)catalog->generations;
    catalog->rows[catalog->limits.rows + reading->count++] = row;
    return 0;
}

static void read_line(struct reading *reading, const char *line, size_t size)
{
    struct err err = {0};
    struct file_row file;
    if (size > 0 && line[size - 1] == '\r') {
        size--;
    }
    struct line_cursor cursor = {.text = line, .size = size};
    (void)cursor_take_blanks(&cursor);
    if (cursor_left(&cursor) == 0 || cursor_here(&cursor) == '#') {
        return;
    }
    int r = file_row_read(line, size, &file, &err);
    r = r == 0 ? keep_row(reading, &file, &err) : r;
    if (r != 0) {
        complain(reading, &err);
    }
}

static int check_file(const struct reading *reading, size_t size)
{
    if (size > CATALOG_FILE_MAX) {
        return err_set(reading->err, -ENOSPC, "%s: has %zu bytes, more than %d", reading->origin,
                       size, CATALOG_FILE_MAX);
    }
    if (reading->catalog->generations == UINT16_MAX) {
        return err_set(reading->err, -ENOSPC, "%s: no more than %d files", reading->origin,
                       UINT16_MAX);
    }
    return 0;
}

static int read_lines(struct reading *reading, const char *bytes, size_t size)
{
    reading->text_used = reading->catalog->text_used;
    reading->items_used = reading->catalog->items_used;
    reading->keys = reading->catalog->filter.key_count;
    const int r = check_file(reading, size);
    if (r != 0) {
        reading->problems = 1;
        return r;
    }
    struct line_cursor cursor = {.text = bytes, .size = size};
    while (cursor_left(&cursor) > 0 && !reading->is_full) {
        const size_t length = cursor_span(&cursor, "\n");
        reading->line++;
        read_line(reading, bytes + cursor.at, length);
        cursor.at += length;
        (void)cursor_take_byte(&cursor, '\n');
    }
    return reading->problems == 0 ? 0 : reading->is_full ? -ENOSPC : -EINVAL;
}

/* ---- joining --------------------------------------------------------------------------------- */

enum { NO_ROW = UINT16_MAX };

static uint32_t index_of_name(const struct catalog *catalog, const struct row *row)
{
    for (uint32_t i = 0; i < catalog->count; i++) {
        if (text_equal(catalog->rows[i].name, row->name)) {
            return i;
        }
    }
    return NO_ROW;
}

static uint32_t index_of_match(const struct catalog *catalog, const struct row *row)
{
    for (uint32_t i = 0; i < catalog->count; i++) {
        if (is_same_match(&catalog->rows[i], row)) {
            return i;
        }
    }
    return NO_ROW;
}

static void remove_row(struct catalog *catalog, uint32_t index)
{
    catalog->count--;
    memmove(&catalog->rows[index], &catalog->rows[index + 1],
            (catalog->count - index) * sizeof(catalog->rows[0]));
}

/* In the place of the row that has its name; of another one that has its match nothing is left,
 * unless there is none with the name. */
static void join_row(struct catalog *catalog, const struct row *row)
{
    const uint32_t named = index_of_name(catalog, row);
    if (row->gone) {
        if (named != NO_ROW) {
            remove_row(catalog, named);
        }
        return;
    }
    uint32_t place = named;
    const uint32_t matched = index_of_match(catalog, row);
    if (named == NO_ROW) {
        place = matched;
    } else if (matched != NO_ROW && matched != named) {
        remove_row(catalog, matched);
        place = named > matched ? named - 1 : named;
    }
    if (place == NO_ROW) {
        catalog->rows[catalog->count++] = *row;
        return;
    }
    const uint16_t generation = catalog->rows[place].generation;
    catalog->rows[place] = *row;
    catalog->rows[place].generation = generation;
}

int catalog_read(struct catalog *catalog, const char *origin, const char *bytes, size_t size,
                 struct err *err)
{
    struct reading reading = {.catalog = catalog, .origin = origin, .err = err};
    const int r = read_lines(&reading, bytes, size);
    if (r != 0) {
        return r;
    }
    for (uint32_t i = 0; i < reading.count; i++) {
        join_row(catalog, &catalog->rows[catalog->limits.rows + i]);
    }
    catalog->text_used = reading.text_used;
    catalog->items_used = reading.items_used;
    catalog->generations++;
    make_tables(catalog);
    return 0;
}

uint32_t catalog_check(struct catalog *catalog, const char *origin, const char *bytes, size_t size,
                       catalog_problem *problem, void *context)
{
    struct err err = {0};
    struct reading reading = {
        .catalog = catalog, .origin = origin, .err = &err, .problem = problem, .context = context};
    const int r = read_lines(&reading, bytes, size);
    if (r != 0 && reading.line == 0) {
        problem(context, err.text); /* of the file as a whole */
    }
    return reading.problems;
}

uint32_t catalog_count(const struct catalog *catalog)
{
    return catalog->count;
}

void catalog_row(const struct catalog *catalog, uint32_t index, struct catalog_row *ret_row)
{
    CHECK(index < catalog->count);
    const struct row *row = &catalog->rows[index];
    *ret_row = (struct catalog_row){.name = row->name,
                                    .match = row->column,
                                    .explain = row->explain,
                                    .label = row->label,
                                    .advice = row->advice,
                                    .role = row->role};
}
