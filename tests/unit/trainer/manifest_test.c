/* manifest_test: what is written is read back; what is cut, edited or foreign is not. */
#include "agent/trainer/manifest.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

enum { SHARDS = 2 };

static struct manifest sample(struct durable_file *shards)
{
    struct manifest manifest = {
        .head =
            {
                .job = "demo",
                .attempt = 3,
                .step = 20,
                .layout = {1, 1, 1, SHARDS},
                .shape = {.context = 32, .layers = 2, .width = 32},
                .weights = 42880,
                .text_size = 237320,
                .text_hash = 0x00b48185d2391c6full,
                .batch = 16,
                .seed = 1,
            },
        .shard_count = SHARDS,
        .shards = shards,
    };
    for (int i = 0; i < SHARDS; i++) {
        shards[i].size = 257344;
        durable_hash(&i, sizeof(i), shards[i].hash);
    }
    return manifest;
}

static char *sample_text(size_t *ret_size)
{
    struct durable_file shards[SHARDS];
    struct fail fail;
    char *text = NULL;
    const struct manifest manifest = sample(shards);
    assert_int_equal(manifest_format(&manifest, &fail, &text, ret_size), 0);
    return text;
}

static void reads_back_what_it_wrote(void **state)
{
    (void)state;
    struct durable_file shards[SHARDS];
    struct fail fail;
    struct manifest found;
    size_t size = 0;
    char *text = sample_text(&size);
    const struct manifest expected = sample(shards);
    assert_int_equal(manifest_parse(text, size, "m", &fail, &found), 0);
    assert_int_equal(manifest_compare(&expected.head, &found.head, "m", &fail), 0);
    assert_int_equal(found.shard_count, SHARDS);
    for (int i = 0; i < SHARDS; i++) {
        assert_int_equal(found.shards[i].size, shards[i].size);
        assert_string_equal(found.shards[i].hash, shards[i].hash);
    }
    manifest_done(&found);
    free(text);
}

/* Every length but the whole one. */
static void every_cut_is_refused(void **state)
{
    (void)state;
    size_t size = 0;
    char *text = sample_text(&size);
    for (size_t cut = 0; cut < size; cut++) {
        struct fail fail = {0};
        struct manifest found;
        char *part = malloc(cut + 1); /* of exactly this size, so that a read past it shows */
        assert_non_null(part);
        memcpy(part, text, cut);
        assert_true(manifest_parse(part, cut, "m", &fail, &found) < 0);
        assert_int_equal(fail.exit_code, EXIT_CHECKPOINT);
        assert_non_null(strstr(fail.text, "m: line "));
        free(part);
    }
    free(text);
}

/* Every byte, changed: either it is refused, or it reads as other values than the right ones. */
static void every_changed_byte_is_seen(void **state)
{
    (void)state;
    struct durable_file shards[SHARDS];
    const struct manifest expected = sample(shards);
    size_t size = 0;
    char *text = sample_text(&size);
    for (size_t at = 0; at < size; at++) {
        struct fail fail = {0};
        struct manifest found;
        text[at] ^= 1;
        if (manifest_parse(text, size, "m", &fail, &found) == 0) {
            const bool same = manifest_compare(&expected.head, &found.head, "m", &fail) == 0;
            assert_false(same && found.shard_count == SHARDS &&
                         memcmp(found.shards, shards, sizeof(shards)) == 0);
            manifest_done(&found);
        }
        text[at] ^= 1;
    }
    free(text);
}

static void what_follows_it_is_refused(void **state)
{
    (void)state;
    struct fail fail;
    struct manifest found;
    size_t size = 0;
    char *text = sample_text(&size);
    text = realloc(text, size + 2);
    assert_non_null(text);
    text[size] = '\n';
    assert_true(manifest_parse(text, size + 1, "m", &fail, &found) < 0);
    free(text);
}

static void differences_are_named(void **state)
{
    (void)state;
    struct durable_file shards[SHARDS];
    const struct manifest expected = sample(shards);
    struct fail fail;
    struct manifest_head other = expected.head;
    memcpy(other.job, "else", sizeof("else"));
    assert_true(manifest_compare(&expected.head, &other, "place", &fail) < 0);
    assert_string_equal(fail.text, "place: job is 'else', expected 'demo'");
    assert_int_equal(fail.exit_code, EXIT_CHECKPOINT);
    other = expected.head;
    other.layout.data = 4;
    assert_true(manifest_compare(&expected.head, &other, "place", &fail) < 0);
    assert_string_equal(fail.text,
                        "place: layout.data is 4, expected 2: it was saved with tp 1 cp 1 "
                        "pp 1 dp 4 and fits no other layout");
    other = expected.head;
    other.text_hash = 1;
    assert_true(manifest_compare(&expected.head, &other, "place", &fail) < 0);
    assert_string_equal(fail.text,
                        "place: data.hash is 0000000000000001, expected 00b48185d2391c6f");
    other = expected.head;
    other.seed = 9;
    assert_true(manifest_compare(&expected.head, &other, "place", &fail) < 0);
    assert_string_equal(fail.text, "place: rng.seed is 9, expected 1");
}

static void impossible_worlds_are_refused(void **state)
{
    (void)state;
    static const char *const layouts[] = {
        "{\"tensor\": 0, \"context\": 1, \"pipeline\": 1, \"data\": 2}",
        "{\"tensor\": 4294967295, \"context\": 4294967295, \"pipeline\": 1, \"data\": 2}",
        "{\"tensor\": 1024, \"context\": 1024, \"pipeline\": 1024, \"data\": 1024}",
    };
    static const char mine[] = "{\"tensor\": 1, \"context\": 1, \"pipeline\": 1, \"data\": 2}";
    size_t size = 0;
    char *text = sample_text(&size);
    const char *at = strstr(text, mine);
    assert_non_null(at);
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        char edited[4096];
        struct fail fail;
        struct manifest found;
        const int length = snprintf(edited, sizeof(edited), "%.*s%s%s", (int)(at - text), text,
                                    layouts[i], at + strlen(mine));
        assert_true(manifest_parse(edited, (size_t)length, "m", &fail, &found) < 0);
        assert_non_null(strstr(fail.text, "layout"));
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_back_what_it_wrote),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(every_changed_byte_is_seen),
        cmocka_unit_test(what_follows_it_is_refused),
        cmocka_unit_test(differences_are_named),
        cmocka_unit_test(impossible_worlds_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
