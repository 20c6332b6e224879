/* record_test.c: two states are the same when their digests are: every field of every record, and
 * every element of those that hold several, has to count. */
#include "tests/lib/test.h"

#include <string.h>

#include "controller/core/record.h"
#include "proto/base/hash.h"
#include "tests/lib/record_random.h"

static uint64_t digest_of(const struct record *record)
{
    return record_body_digest(HASH_INIT, record->kind, &record->u);
}

/* The bytes of one element of the field, changed to something else that it may be. */
static void change(struct record *record, const struct record_field *field, uint32_t element)
{
    uint8_t *at = (uint8_t *)&record->u + field->offset;
    switch (field->type) {
    case FIELD_BOOL:
        *at = *at == 0 ? 1 : 0;
        return;
    case FIELD_U32:
    case FIELD_I32:
    case FIELD_U64:
    case FIELD_WORD:
        at[0] ^= 1;
        return;
    case FIELD_TEXT: /* from nothing to one letter, or another one */
        at[0] = at[0] == 'x' ? 'y' : 'x';
        return;
    case FIELD_I32S:
        at[element * sizeof(int32_t)] ^= 1;
        return;
    case FIELD_U64S:
        at[element * sizeof(uint64_t)] ^= 1;
        return;
    }
}

static uint32_t elements_of(const struct record_field *field)
{
    return field->type == FIELD_I32S || field->type == FIELD_U64S ? field->size : 1;
}

/* Found by its number and by its name, and nothing else is. */
static void test_every_kind_is_found(void **state)
{
    (void)state;
#define K(number, word)                                                                            \
    assert_int_equal(record_table(number)->kind, number);                                          \
    assert_int_equal(record_table(number)->size, sizeof(struct record_##word));                    \
    assert_string_equal(record_table(number)->name, #word);                                        \
    assert_ptr_equal(record_table_by_name(#word), record_table(number));
    RECORD_KINDS(K)
#undef K
    assert_null(record_table_by_name("nothing"));
    assert_null(record_table_by_name(""));
}

static void test_every_field_counts(void **state)
{
    (void)state;
    struct prng prng;
    uint32_t fields = 0;
    prng_seed(&prng, 1);
    for (uint16_t kind = 1; kind <= RECORD_KIND_MAX; kind++) {
        const struct record_table *table = record_table(kind);
        for (uint32_t i = 0; table != NULL && i < table->count; i++) {
            for (uint32_t k = 0; k < elements_of(&table->fields[i]); k++) {
                struct record record;
                record_random_any(&prng, kind, &record);
                uint64_t before = digest_of(&record);
                assert_int_equal(digest_of(&record), before);
                change(&record, &table->fields[i], k);
                if (digest_of(&record) == before) {
                    fail_msg("%s: %s [%u] does not count", table->name, table->fields[i].name, k);
                }
                fields++;
            }
        }
    }
    assert_true(fields > 300);
}

/* The same body under another kind, time or subject is another record. */
static void test_what_else_counts(void **state)
{
    (void)state;
    struct record record = {.kind = RECORD_node_back_kind, .service_ms = 1, .wall_ms = 2};
    uint64_t digest = record_digest(HASH_INIT, &record);
    struct record other = record;
    other.kind = RECORD_node_removed_kind;
    assert_int_not_equal(record_digest(HASH_INIT, &other), digest);
    other = record;
    other.service_ms++;
    assert_int_not_equal(record_digest(HASH_INIT, &other), digest);
    other = record;
    other.wall_ms++;
    assert_int_not_equal(record_digest(HASH_INIT, &other), digest);
    other = record;
    other.subject[0] = 'n';
    assert_int_not_equal(record_digest(HASH_INIT, &other), digest);
    assert_int_not_equal(record_digest(HASH_INIT + 1, &record), digest);
    assert_null(record_table(0));
    assert_null(record_table(63));
    assert_null(record_table(RECORD_KIND_MAX + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_is_found),
        cmocka_unit_test(test_every_field_counts),
        cmocka_unit_test(test_what_else_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
