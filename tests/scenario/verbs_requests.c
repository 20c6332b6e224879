/* verbs_requests.c: the commands of a scenario that are requests of people. */
#include <errno.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"
#include "tests/scenario/verbs.h"

enum spec_type { SPEC_U32, SPEC_U64, SPEC_BOOL, SPEC_WORD, SPEC_TEXT, SPEC_I32S };
struct spec_field {
    const char *name;
    enum spec_type type;
    size_t offset;
    size_t size;
    const char *const *words;
    uint32_t word_count;
};
#define FIELD_AT(type, name, size, words, count)                                                   \
    {#name, type, offsetof(struct job_spec, name), size, words, count},
#define FIELD_U32(name, argument)      FIELD_AT(SPEC_U32, name, 1, NULL, 0)
#define FIELD_U64(name, argument)      FIELD_AT(SPEC_U64, name, 1, NULL, 0)
#define FIELD_BOOL(name, argument)     FIELD_AT(SPEC_BOOL, name, 1, NULL, 0)
#define FIELD_TEXT(name, argument)     FIELD_AT(SPEC_TEXT, name, argument, NULL, 0)
#define FIELD_I32S(name, argument)     FIELD_AT(SPEC_I32S, name, argument, NULL, 0)
#define FIELD_WORD(name, argument)     FIELD_AT(SPEC_WORD, name, 1, argument##_words, argument##_count)
#define FIELD(S, type, name, argument) FIELD_##type(name, argument)

static int spec_put(struct job_spec *spec, const struct spec_field *field, const char *value,
                    struct err *err)
{
    void *at = (char *)spec + field->offset;
    uint64_t number = 0;
    uint8_t word = 0;
    if (field->type == SPEC_TEXT) {
        text_copy(at, field->size, value);
        return 0;
    }
    if (field->type == SPEC_WORD) {
        int code = verb_word(field->words, field->word_count, value, &word, err);
        memcpy(at, &word, sizeof word);
        return code;
    }
    if (text_to_u64(value, UINT32_MAX, &number) < 0) {
        return err_set(err, -EINVAL, "%s=%s is no number", field->name, value);
    }
    uint32_t small = (uint32_t)number;
    bool yes = number != 0;
    memcpy(at,
           field->type == SPEC_U64    ? (void *)&number
           : field->type == SPEC_BOOL ? (void *)&yes
                                      : (void *)&small,
           field->type == SPEC_U64    ? sizeof number
           : field->type == SPEC_BOOL ? sizeof yes
                                      : sizeof small);
    return 0;
}

/* Any field of a job's spec by its name; durations in ms, flags 0 or 1. */
static int spec_option(struct job_spec *spec, const char *word, struct err *err)
{
    static const struct spec_field fields[] = {JOB_SPEC_FIELDS(FIELD, unused)};
    size_t size = strcspn(word, "=");
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
        if (strlen(fields[i].name) == size && memcmp(fields[i].name, word, size) == 0 &&
            word[size] == '=') {
            return spec_put(spec, &fields[i], word + size + 1, err);
        }
    }
    return err_set(err, -EINVAL, "a job has no `%s`", word);
}

/* submit NAME SLOTS [field=value...] */
int verb_submit(struct play *play, const struct words *words, struct err *err)
{
    uint64_t slots;
    int code = text_to_u64(words->at[2], RIG_NODES_MAX, &slots);
    if (code < 0) {
        return err_set(err, code, "submit: %s slots", words->at[2]);
    }
    struct job_spec spec = rig_spec(words->at[1], (uint32_t)slots);
    for (uint32_t i = 3; i < words->count; i++) {
        code = spec_option(&spec, words->at[i], err);
        if (code < 0) {
            return code;
        }
    }
    spec.text_hash = hash_text(HASH_INIT, words->at[1]);
    (void)rig_submit(play->rig, &spec);
    verb_reply(play, play->rig->reply_result);
    return 0;
}

struct named_verb {
    const char *name;
    uint8_t verb;
};

static int named(const struct named_verb *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (text_equal(list[i].name, name)) {
            return list[i].verb;
        }
    }
    return -1;
}

/* drain|undrain|cordon|uncordon|remove NODE... [when] [clear=CODE] */
int verb_nodes_request(struct play *play, const struct words *words, struct err *err)
{
    static const struct named_verb verbs[] = {
        {"drain", REQUEST_DRAIN},   {"undrain", REQUEST_UNDRAIN},
        {"cordon", REQUEST_CORDON}, {"uncordon", REQUEST_UNCORDON},
        {"remove", REQUEST_REMOVE}, {"validate", REQUEST_VALIDATE}};
    uint32_t ids[SCRIPT_WORDS_MAX];
    struct request request = {
        .nodes = ids, .when = WHEN_CHECKPOINT, .validation = VALIDATION_QUICK};
    request.verb = (uint8_t)named(verbs, ARRAY_SIZE(verbs), words->at[0]);
    for (uint32_t i = 1; i < words->count; i++) {
        uint32_t node;
        if (text_equal(words->at[i], "skip-validation")) {
            request.skip_validation = true;
            continue;
        }
        if (verb_word(leave_when_words, leave_when_count, words->at[i], &request.when, err) == 0 ||
            verb_word(validation_words, validation_count, words->at[i], &request.validation, err) ==
                0 ||
            strncmp(words->at[i], "clear=", 6) == 0) {
            continue;
        }
        int code = verb_node(play, words->at[i], &node, err);
        if (code < 0) {
            return code;
        }
        ids[request.node_count++] = core_node_find(play->rig->core, play->rig->nodes[node].name);
    }
    if (verb_option(words, "clear") != NULL) {
        text_copy(request.clear_code, NAME_SIZE, verb_option(words, "clear"));
    }
    verb_reply(play, rig_request(play->rig, &request));
    return 0;
}

/* cancel|hold|release|restart|ask-save JOB [after-checkpoint] */
int verb_job_request(struct play *play, const struct words *words, struct err *err)
{
    static const struct named_verb verbs[] = {{"cancel", REQUEST_CANCEL},
                                              {"hold", REQUEST_HOLD},
                                              {"release", REQUEST_RELEASE},
                                              {"restart", REQUEST_RESTART},
                                              {"ask-save", REQUEST_CHECKPOINT}};
    struct request request = {0};
    request.verb = (uint8_t)named(verbs, ARRAY_SIZE(verbs), words->at[0]);
    request.after_checkpoint = words->count > 2 && text_equal(words->at[2], "after-checkpoint");
    int code = verb_job(play, words->at[1], &request.job, err);
    if (code == 0) {
        verb_reply(play, rig_request(play->rig, &request));
    }
    return code;
}

/* pause | resume | observe | act | adopt | stop-foreign */
int verb_cluster_request(struct play *play, const struct words *words, struct err *err)
{
    static const struct named_verb words_of[] = {{"pause", AUTOMATION_PAUSE},
                                                 {"resume", AUTOMATION_RESUME},
                                                 {"observe", AUTOMATION_OBSERVE},
                                                 {"act", AUTOMATION_ACT}};
    (void)err;
    struct request request = {.verb = REQUEST_AUTOMATION};
    int word = named(words_of, ARRAY_SIZE(words_of), words->at[0]);
    if (word < 0) {
        request.verb = text_equal(words->at[0], "adopt") ? REQUEST_ADOPT : REQUEST_STOP_FOREIGN;
    } else {
        request.automation = (uint8_t)word;
    }
    verb_reply(play, rig_request(play->rig, &request));
    return 0;
}
