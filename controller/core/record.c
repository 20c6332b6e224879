/* record.c: the field tables of record.h, made from its lists. */
#include "controller/core/record.h"

#include <string.h>

#include "proto/base/check.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"

#define ROW_AT(S, type, name, size, words, count)                                                  \
    {#name, type, (uint32_t)offsetof(struct record_##S, name), size, words, count},
#define ROW_U32(S, name, argument)  ROW_AT(S, FIELD_U32, name, 1, NULL, 0)
#define ROW_I32(S, name, argument)  ROW_AT(S, FIELD_I32, name, 1, NULL, 0)
#define ROW_U64(S, name, argument)  ROW_AT(S, FIELD_U64, name, 1, NULL, 0)
#define ROW_BOOL(S, name, argument) ROW_AT(S, FIELD_BOOL, name, 1, NULL, 0)
#define ROW_WORD(S, name, argument)                                                                \
    ROW_AT(S, FIELD_WORD, name, 1, argument##_words, argument##_count)
#define ROW_TEXT(S, name, argument)  ROW_AT(S, FIELD_TEXT, name, argument, NULL, 0)
#define ROW_I32S(S, name, argument)  ROW_AT(S, FIELD_I32S, name, argument, NULL, 0)
#define ROW_U64S(S, name, argument)  ROW_AT(S, FIELD_U64S, name, argument, NULL, 0)
#define ROW(S, type, name, argument) ROW_##type(S, name, argument)

#define K(number, name)                                                                            \
    static const struct record_field fields_##name[] = {RECORD_##name(ROW, name)};
RECORD_KINDS(K)
#undef K

static const struct record_table tables[] = {
#define K(number, name)                                                                            \
    {number, #name, fields_##name, ARRAY_SIZE(fields_##name), sizeof(struct record_##name)},
    RECORD_KINDS(K)
#undef K
};

const struct record_table *record_table(uint16_t kind)
{
    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        if (tables[i].kind == kind) {
            return &tables[i];
        }
    }
    return NULL;
}

const struct record_table *record_table_by_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        if (text_equal(tables[i].name, name)) {
            return &tables[i];
        }
    }
    return NULL;
}

enum record_owner record_owner(uint16_t kind)
{
    switch (kind) {
    case RECORD_node_joined_kind:
    case RECORD_node_session_kind:
    case RECORD_node_moved_kind:
    case RECORD_node_lost_kind:
    case RECORD_node_back_kind:
    case RECORD_node_removed_kind:
    case RECORD_inventory_accepted_kind:
    case RECORD_mark_set_kind:
    case RECORD_mark_cleared_kind:
    case RECORD_strike_kind:
    case RECORD_node_fence_kind:
    case RECORD_repair_moved_kind:
    case RECORD_validation_set_kind:
        return RECORD_OF_NODE;
    case RECORD_acted_kind:
    case RECORD_foreign_seen_kind: /* said again with the next report */
    case RECORD_foreign_resolved_kind:
        return RECORD_OF_NOBODY;
    case RECORD_store_opened_kind:
    case RECORD_term_began_kind:
    case RECORD_automation_kind:
    case RECORD_breaker_kind:
        return RECORD_OF_CLUSTER;
    default:
        return kind >= RECORD_FIRST_IMAGE ? RECORD_OF_CLUSTER : RECORD_OF_JOB;
    }
}

static uint64_t field_digest(uint64_t hash, const struct record_field *field, const uint8_t *at)
{
    switch (field->type) {
    case FIELD_U32:
        return hash_u64(hash, *(const uint32_t *)(const void *)at);
    case FIELD_I32:
        return hash_u64(hash, (uint64_t)(int64_t) * (const int32_t *)(const void *)at);
    case FIELD_U64:
        return hash_u64(hash, *(const uint64_t *)(const void *)at);
    case FIELD_BOOL:
        return hash_u64(hash, *(const bool *)(const void *)at ? 1 : 0);
    case FIELD_WORD:
        return hash_u64(hash, *at);
    case FIELD_TEXT:
        return hash_text(hash, (const char *)at);
    case FIELD_I32S:
        for (uint32_t i = 0; i < field->size; i++) {
            hash = hash_u64(hash, (uint64_t)(int64_t)((const int32_t *)(const void *)at)[i]);
        }
        return hash;
    case FIELD_U64S:
        for (uint32_t i = 0; i < field->size; i++) {
            hash = hash_u64(hash, ((const uint64_t *)(const void *)at)[i]);
        }
        return hash;
    }
    return hash;
}

uint64_t record_body_digest(uint64_t hash, uint16_t kind, const void *body)
{
    const struct record_table *table = record_table(kind);
    CHECK(table != NULL);
    for (uint32_t i = 0; i < table->count; i++) {
        hash =
            field_digest(hash, &table->fields[i], (const uint8_t *)body + table->fields[i].offset);
    }
    return hash;
}

uint64_t record_digest(uint64_t hash, const struct record *record)
{
    hash = hash_u64(hash, record->kind);
    hash = hash_u64(hash, record->service_ms);
    hash = hash_u64(hash, record->wall_ms);
    hash = hash_text(hash, record->subject);
    return record_body_digest(hash, record->kind, &record->u);
}
