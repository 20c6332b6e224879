/* probe_start.c: this program again, with the words of probe_main(). */
#include "agent/io/probe_start.h"

#include <assert.h>
#include <errno.h>

#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    WORDS_MAX = 96, /* of a command line */
    WORD_SIZE = PROBE_LIST_SIZE + NAME_SIZE,
    OUTPUT_MAX = 65536, /* of what is not yet a whole line; one that is so long is the last */
};
static_assert(WORDS_MAX > PROBE_NOTES_MAX + 24, "all notes and all of the configuration");

struct words {
    size_t count;
    const char *argv[WORDS_MAX + 1];
    char text[WORDS_MAX][WORD_SIZE];
};

static int words_put(void *context, const char *word)
{
    struct words *words = context;
    if (words->count == WORDS_MAX) {
        return -E2BIG;
    }
    (void)text_copy(words->text[words->count], WORD_SIZE, word);
    words->argv[words->count] = words->text[words->count];
    words->count++;
    return 0;
}

static int words_fill(struct words *words, const struct probe_start *start)
{
    static const char *const modes[] = {
        [PROBE_ROUND] = "round", [PROBE_STAY] = "stay", [PROBE_ONCE] = "once"};
    char program[PATH_SIZE];
    size_t size = sizeof(program) - 1;
    int r = uv_exepath(program, &size);
    if (r != 0) {
        return r;
    }
    program[size] = '\0';
    r = words_put(words, program);
    r = r == 0 ? words_put(words, PROBE_WORD) : r;
    r = r == 0 ? words_put(words, start->probe->name) : r;
    r = r == 0 ? words_put(words, modes[start->mode]) : r;
    r = r == 0 ? probe_config_words(start->config, words_put, words) : r;
    for (uint32_t i = 0; r == 0 && i < start->note_count; i++) {
        char word[WORD_SIZE];
        (void)text_format(word, sizeof(word), "note:%s=%s", start->notes[i].name,
                          start->notes[i].value);
        r = words_put(words, word);
    }
    return r;
}

int probe_start(uv_loop_t *loop, struct child_set *set, const struct probe_start *start)
{
    struct words *words = mem_alloc(1, sizeof(*words));
    int r = words_fill(words, start);
    const struct child_options options = {.argv = words->argv,
                                          .capture = 1,
                                          .output_max = OUTPUT_MAX,
                                          .deadline_ms = start->probe->deadline_ms,
                                          .patient = start->mode == PROBE_STAY,
                                          .group = true,
                                          .line = start->line,
                                          .done = start->done,
                                          .context = start->context};
    r = r == 0 ? child_start(loop, set, &options) : r;
    mem_free(words);
    return r;
}
