/* verb_words.c: what the words behind a command mean. */
#include <errno.h>
#include <string.h>

#include "proto/base/text.h"
#include "tests/scenario/verbs.h"

/* The value of `name=value` among the words, NULL when it is not there. */
const char *verb_option(const struct words *words, const char *name)
{
    size_t size = strlen(name);
    for (uint32_t i = 1; i < words->count; i++) {
        if (strncmp(words->at[i], name, size) == 0 && words->at[i][size] == '=') {
            return words->at[i] + size + 1;
        }
    }
    return NULL;
}

int verb_number(const struct words *words, const char *name, uint64_t *value, struct err *err)
{
    const char *text = verb_option(words, name);
    if (text != NULL && text_to_u64(text, UINT32_MAX, value) < 0) {
        return err_set(err, -EINVAL, "%s=%s is no number", name, text);
    }
    return 0;
}

/* "n-0003", or "demo/2": whoever holds that slot now. */
int verb_node(struct play *play, const char *word, uint32_t *ret_index, struct err *err)
{
    struct rig *rig = play->rig;
    char name[NAME_SIZE];
    const char *slash = strchr(word, '/');
    for (uint32_t i = 0; i < rig->node_count && slash == NULL; i++) {
        if (text_equal(rig->nodes[i].name, word)) {
            *ret_index = i;
            return 0;
        }
    }
    uint64_t slot = 0;
    if (slash == NULL || text_to_u64(slash + 1, UINT32_MAX, &slot) < 0) {
        return err_set(err, -EINVAL, "there is no node %s", word);
    }
    text_format(name, sizeof name, "%.*s", (int)(slash - word), word);
    const struct job *job = core_job(rig->core, core_job_find(rig->core, name));
    if (rig->dead && (job == NULL || slot >= job->slot_count ||
                      core_slot(rig->core, job, (uint32_t)slot)->d.node == 0)) {
        rig_run(rig, 0); /* nobody holds it while the controller is away: later, then */
        job = core_job(rig->core, core_job_find(rig->core, name));
    }
    if (job == NULL || slot >= job->slot_count ||
        core_slot(rig->core, job, (uint32_t)slot)->d.node == 0) {
        return err_set(err, -EINVAL, "nobody holds %s", word);
    }
    *ret_index = rig_node_of(rig, job->d.job, (uint32_t)slot);
    return 0;
}

int verb_job(const struct play *play, const char *name, uint32_t *ret_job, struct err *err)
{
    *ret_job = core_job_find(play->rig->core, name);
    return *ret_job != 0 ? 0 : err_set(err, -EINVAL, "there is no job %s", name);
}

int verb_word(const char *const *set, uint32_t count, const char *word, uint8_t *ret_value,
              struct err *err)
{
    for (uint32_t i = 0; i < count; i++) {
        if (text_equal(set[i], word)) {
            *ret_value = (uint8_t)i;
            return 0;
        }
    }
    return err_set(err, -EINVAL, "`%s` is none of the words that may stand there", word);
}

void verb_reply(struct play *play, int32_t result)
{
    const char *name = result == 0         ? "ok"
                       : result == -ENOENT ? "no such thing"
                       : result == -EBUSY  ? "conflict"
                       : result == -ENOSPC ? "no room"
                       : result == -EAGAIN ? "not now"
                                           : "refused";
    play_say(play, "-> %s: %s", name, play->rig->reply_text);
}
