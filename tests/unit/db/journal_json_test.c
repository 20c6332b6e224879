/* journal_json_test.c: bodies as JSON and back: every kind, any content; and what is refused. */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include "db/journal_json.h"
#include "proto/base/hash.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "tests/lib/record_random.h"

enum { ROUNDS = 60 };

struct rig {
    struct buf out;
    struct record *written;
    struct record *read;
};

static int rig_up(void **state)
{
    struct rig *rig = mem_alloc(1, sizeof(*rig));
    buf_init(&rig->out, JOURNAL_JSON_MAX);
    rig->written = mem_alloc(1, sizeof(*rig->written));
    rig->read = mem_alloc(1, sizeof(*rig->read));
    *state = rig;
    return 0;
}

static int rig_down(void **state)
{
    struct rig *rig = *state;
    buf_done(&rig->out);
    (void)mem_free(rig->written);
    (void)mem_free(rig->read);
    (void)mem_free(rig);
    return 0;
}

static int decode(struct rig *rig, uint16_t kind, const char *json, struct err *err)
{
    return journal_decode(record_table(kind), json, strlen(json), &rig->read->u, err);
}

static void any_record_comes_back(void **state)
{
    struct rig *rig = *state;
    struct prng prng;
    prng_seed(&prng, 1);
    for (uint16_t kind = 0; kind <= RECORD_KIND_MAX; kind++) {
        const struct record_table *table = record_table(kind);
        for (int round = 0; table != NULL && round < ROUNDS; round++) {
            record_random_any(&prng, kind, rig->written);
            buf_clear(&rig->out);
            assert_int_equal(journal_encode(table, &rig->written->u, &rig->out), 0);
            struct err err = {0};
            if (decode(rig, kind, buf_text(&rig->out), &err) < 0) {
                fail_msg("%s: %s: %s", table->name, err.text, buf_text(&rig->out));
            }
            assert_int_equal(record_body_digest(HASH_INIT, kind, &rig->read->u),
                             record_body_digest(HASH_INIT, kind, &rig->written->u));
        }
    }
}

static void the_form_is_what_people_expect(void **state)
{
    struct rig *rig = *state;
    memset(rig->written, 0, sizeof(*rig->written));
    struct record_mark_set *u = &rig->written->u.mark_set;
    u->node = 12;
    u->owner = MARK_HEALTH;
    u->level = MARK_LEAVE;
    (void)text_copy(u->code, sizeof(u->code), "xid-79");
    (void)text_copy(u->text, sizeof(u->text), "said \"off the bus\"\n");
    assert_int_equal(journal_encode(record_table(RECORD_mark_set_kind), u, &rig->out), 0);
    assert_string_equal(
        buf_text(&rig->out),
        "{\"node\":12,\"owner\":\"health\",\"code\":\"xid-79\",\"level\":\"leave\","
        "\"when\":\"checkpoint\",\"incident\":0,\"job\":0,\"attempt\":0,"
        "\"waived\":false,\"fact_sequence\":0,\"lane\":\"none\",\"fault\":\"unknown\","
        "\"text\":\"said \\\"off the bus\\\"\\n\"}");
}

static void wide_numbers_are_strings(void **state)
{
    struct rig *rig = *state;
    memset(rig->written, 0, sizeof(*rig->written));
    struct record_inventory_accepted *u = &rig->written->u.inventory_accepted;
    u->inventory_hash = UINT64_MAX;
    assert_int_equal(journal_encode(record_table(RECORD_inventory_accepted_kind), u, &rig->out), 0);
    assert_non_null(strstr(buf_text(&rig->out), "\"inventory_hash\":\"18446744073709551615\""));
    buf_clear(&rig->out);
    u->inventory_hash = INT64_MAX;
    assert_int_equal(journal_encode(record_table(RECORD_inventory_accepted_kind), u, &rig->out), 0);
    assert_non_null(strstr(buf_text(&rig->out), "\"inventory_hash\":9223372036854775807"));
}

static void bytes_that_are_no_text_survive(void **state)
{
    struct rig *rig = *state;
    memset(rig->written, 0, sizeof(*rig->written));
    char *text = rig->written->u.acted.reason;
    for (int byte = 97; byte <= 255; byte++) {
        text[byte - 97] = (char)byte;
    }
    (void)text_copy(rig->written->u.acted.result, TEXT_SIZE,
                    "\xee\xbe\x80\xee\xbf\xbf\xee\xbd\xbf");
    const struct record_table *table = record_table(RECORD_acted_kind);
    assert_int_equal(journal_encode(table, &rig->written->u, &rig->out), 0);
    json_t *parsed = json_loadb((const char *)rig->out.data, rig->out.size, 0, NULL);
    assert_non_null(parsed); /* strict UTF-8 */
    json_decref(parsed);
    assert_int_equal(decode(rig, RECORD_acted_kind, buf_text(&rig->out), NULL), 0);
    assert_memory_equal(&rig->read->u.acted, &rig->written->u.acted, sizeof(rig->read->u.acted));
}

static void absent_is_nothing_and_strangers_are_passed_over(void **state)
{
    struct rig *rig = *state;
    memset(rig->read, 0xff, sizeof(*rig->read));
    assert_int_equal(decode(rig, RECORD_mark_set_kind, "{\"node\":3,\"colour\":[1,{}]}", NULL), 0);
    assert_int_equal(rig->read->u.mark_set.node, 3);
    assert_int_equal(rig->read->u.mark_set.owner, 0);
    assert_string_equal(rig->read->u.mark_set.text, "");
    assert_int_equal(decode(rig, RECORD_job_submitted_kind, "{\"restart_codes\":[75,-9]}", NULL),
                     0);
    assert_int_equal(rig->read->u.job_submitted.restart_codes[1], -9);
    assert_int_equal(rig->read->u.job_submitted.restart_codes[2], 0);
}

static void wrong_bodies_are_refused_with_the_field(void **state)
{
    static const struct {
        uint16_t kind;
        const char *json;
        const char *says;
    } cases[] = {
        {RECORD_mark_set_kind, "", "JSON object"},
        {RECORD_mark_set_kind, "[]", "JSON object"},
        {RECORD_mark_set_kind, "{\"node\":1", "JSON object"},
        {RECORD_mark_set_kind, "{\"node\":1,\"node\":2}", "JSON object"},
        {RECORD_mark_set_kind, "{\"node\":-1}", "'node'"},
        {RECORD_mark_set_kind, "{\"node\":4294967296}", "'node' is too large"},
        {RECORD_mark_set_kind, "{\"node\":1.5}", "'node'"},
        {RECORD_mark_set_kind, "{\"node\":null}", "'node'"},
        {RECORD_mark_set_kind, "{\"owner\":\"nobody\"}", "'owner'"},
        {RECORD_mark_set_kind, "{\"owner\":1}", "'owner'"},
        {RECORD_mark_set_kind, "{\"code\":7}", "'code'"},
        {RECORD_blamed_kind, "{\"slot\":2147483648}", "'slot'"},
        {RECORD_breaker_kind, "{\"open\":1}", "'open'"},
        {RECORD_checkpoint_moved_kind, "{\"bytes\":\"12x\"}", "'bytes'"},
        {RECORD_checkpoint_moved_kind, "{\"bytes\":\"18446744073709551616\"}", "'bytes'"},
        {RECORD_job_submitted_kind, "{\"final_codes\":[1,2,3,4,5,6,7,8,9]}", "'final_codes'"},
        {RECORD_job_submitted_kind, "{\"final_codes\":[\"a\"]}", "'final_codes'"},
        {RECORD_job_submitted_kind, "{\"order\":\"tp-cp-pp-dp-and-more\"}", "'order' is too long"},
    };
    struct rig *rig = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err err = {0};
        assert_int_equal(decode(rig, cases[i].kind, cases[i].json, &err), -EINVAL);
        if (strstr(err.text, cases[i].says) == NULL) {
            fail_msg("'%s' does not speak of %s", err.text, cases[i].says);
        }
    }
}

static void the_longest_record_fits(void **state)
{
    struct rig *rig = *state;
    size_t longest = 0;
    for (uint16_t kind = 0; kind <= RECORD_KIND_MAX; kind++) {
        const struct record_table *table = record_table(kind);
        if (table == NULL) {
            continue;
        }
        memset(&rig->written->u, 0, sizeof(rig->written->u));
        for (uint32_t i = 0; i < table->count; i++) {
            const struct record_field *field = &table->fields[i];
            char *at = (char *)&rig->written->u + field->offset;
            if (field->type == FIELD_TEXT) {
                memset(at, 1, field->size - 1); /* six characters each in JSON */
            }
        }
        buf_clear(&rig->out);
        assert_int_equal(journal_encode(table, &rig->written->u, &rig->out), 0);
        longest = rig->out.size > longest ? rig->out.size : longest;
    }
    assert_in_range(longest, 1000, JOURNAL_JSON_MAX);
}

static void a_full_buffer_is_noticed(void **state)
{
    struct rig *rig = *state;
    struct buf small;
    buf_init(&small, 20);
    memset(rig->written, 0, sizeof(*rig->written));
    assert_int_equal(journal_encode(record_table(RECORD_mark_set_kind), &rig->written->u, &small),
                     -EMSGSIZE);
    buf_done(&small);
}

static void text_for_people_is_made_valid(void **state)
{
    (void)state;
    json_t *value = journal_json_text("a\xff"
                                      "b\xc3",
                                      4);
    assert_string_equal(json_string_value(value), "a\xef\xbf\xbd"
                                                  "b\xef\xbf\xbd");
    json_decref(value);
    value = journal_json_text("grün", strlen("grün"));
    assert_string_equal(json_string_value(value), "grün");
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_record_comes_back, rig_up, rig_down),
        cmocka_unit_test_setup_teardown(the_form_is_what_people_expect, rig_up, rig_down),
        cmocka_unit_test_setup_teardown(wide_numbers_are_strings, rig_up, rig_down),
        cmocka_unit_test_setup_teardown(bytes_that_are_no_text_survive, rig_up, rig_down),
        cmocka_unit_test_setup_teardown(absent_is_nothing_and_strangers_are_passed_over, rig_up,
                                        rig_down),
        cmocka_unit_test_setup_teardown(wrong_bodies_are_refused_with_the_field, rig_up, rig_down),
        cmocka_unit_test_setup_teardown(the_longest_record_fits, rig_up, rig_down),
        cmocka_unit_test_setup_teardown(a_full_buffer_is_noticed, rig_up, rig_down),
        cmocka_unit_test(text_for_people_is_made_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
