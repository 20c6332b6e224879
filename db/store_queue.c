/* store_queue.c: records on their way to the disk. Each is copied into one block of memory: the row
 * with its body and texts, and the JSON that the journal gets, made by the appending thread so that
 * the commit thread only writes. */
#include <string.h>

#include "db/journal_json.h"
#include "db/store_internal.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"

struct store_batch *store_batch_create(void)
{
    return mem_alloc(1, sizeof(struct store_batch));
}

struct store_batch *store_batch_free(struct store_batch *batch)
{
    if (batch == NULL) {
        return NULL;
    }
    for (struct store_entry *entry = batch->first; entry != NULL;) {
        struct store_entry *next = entry->next;
        (void)mem_free(entry);
        entry = next;
    }
    return mem_free(batch);
}

/* Copies into the block at *at and moves on; every copy is followed by a NUL. */
static const char *keep(char **at, const void *data, size_t size)
{
    char *copy = *at;
    memcpy(copy, data, size);
    copy[size] = '\0';
    *at += size + 1;
    return copy;
}

static struct store_entry *entry_of(const struct store_row *row, const char *json, size_t json_size)
{
    size_t body_size = row->table != NULL ? row->table->size : 0;
    size_t texts[] = {strlen(row->kind), strlen(row->subject), strlen(row->event),
                      strlen(row->message)};
    size_t size = sizeof(struct store_entry) + body_size + json_size + 1;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        size += texts[i] + 1;
    }
    size += row->text != NULL ? row->text_size + 1 : 0;
    struct store_entry *entry = mem_alloc(1, size);
    *entry = (struct store_entry){.size = size, .json_size = json_size, .row = *row};
    char *at = (char *)(entry + 1); /* the body first: it has the strictest alignment */
    if (body_size > 0) {
        memcpy(at, row->body, body_size);
        entry->row.body = at;
        at += body_size;
    }
    entry->json = keep(&at, json, json_size);
    entry->row.kind = keep(&at, row->kind, texts[0]);
    entry->row.subject = keep(&at, row->subject, texts[1]);
    entry->row.event = keep(&at, row->event, texts[2]);
    entry->row.message = keep(&at, row->message, texts[3]);
    if (row->text != NULL) {
        entry->row.text = keep(&at, row->text, row->text_size);
    }
    CHECK(at == (char *)entry + size);
    return entry;
}

static void count_in(struct store_batch *batch, const struct store_entry *entry)
{
    batch->count++;
    batch->bytes += entry->size;
}

void store_batch_add(struct store_batch *batch, const struct record *record, struct buf *scratch)
{
    struct store_row row;
    store_row_of(record, &row);
    buf_clear(scratch);
    int code = journal_encode(row.table, row.body, scratch);
    CHECK(code == 0); /* every struct of ours fits */
    struct store_entry *entry = entry_of(&row, (const char *)scratch->data, scratch->size);
    if (batch->last == NULL) {
        batch->first = entry;
    } else {
        batch->last->next = entry;
    }
    batch->last = entry;
    count_in(batch, entry);
}

void store_batch_mark(struct store_batch *batch, const char *kind, const char *json, bool at_front)
{
    CHECK(batch->first != NULL);
    struct store_row row = {
        .kind = kind,
        .version = RECORD_VERSION,
        .service_ms = batch->first->row.service_ms,
        .wall_ms = batch->first->row.wall_ms,
        .subject = "",
        .event = "",
        .message = "",
    };
    struct store_entry *entry = entry_of(&row, json, strlen(json));
    if (at_front) {
        entry->next = batch->first;
        batch->first = entry;
    } else {
        batch->last->next = entry;
        batch->last = entry;
    }
    count_in(batch, entry);
}
