/* play.c: see play.h. */
#include "tests/scenario/play.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"

/* What every healthy node says alike. */
static const char *const noise[] = {": first contact, ", "joining -> checking: ", ": took a slot",
                                    ": incarnation "};

void play_init(struct play *play)
{
    memset(play, 0, sizeof *play);
    buf_init(&play->shown, PLAY_SHOWN_MAX);
}

void play_done(struct play *play)
{
    buf_done(&play->shown);
    if (play->rig != NULL) {
        play->rig = rig_free(play->rig);
    }
}

void play_say(struct play *play, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    int code = buf_printf(&play->shown, "%s\n", line);
    CHECK(code == 0);
}

static bool is_noise(const struct play *play, const char *line)
{
    for (size_t i = 0; i < ARRAY_SIZE(noise); i++) {
        if (strstr(line, noise[i]) != NULL) {
            return true;
        }
    }
    return play->hush_nodes && strncmp(line, "node/", 5) == 0;
}

/* One trace line, "[5010] node/n-0001: …", with the time as it counts in the scenario. */
static void show_line(struct play *play, const char *line, size_t size)
{
    char text[1024];
    CHECK(size < sizeof text && line[0] == '[');
    memcpy(text, line, size);
    text[size] = '\0';
    size_t digits = strcspn(text, "]") - 1;
    uint64_t at = 0;
    for (size_t i = 0; i < digits; i++) {
        at = at * 10 + (uint64_t)(text[1 + i] - '0');
    }
    const char *rest = text + digits + 3;
    if (!is_noise(play, rest)) {
        play_say(play, "[%6llu] %s", (unsigned long long)(at - play->start_ms), rest);
    }
}

static void show_trace(struct play *play)
{
    const struct rig *rig = play->rig;
    while (play->trace_at < rig->trace_size) {
        const char *line = rig->trace + play->trace_at;
        size_t size = strcspn(line, "\n");
        show_line(play, line, size);
        play->trace_at += (uint32_t)size + 1;
    }
}

int play_command(struct play *play, const char *command, struct err *err)
{
    struct words words;
    buf_clear(&play->shown);
    play->hush_nodes = false;
    int code = words_split(command, &words, err);
    if (code < 0) {
        return code;
    }
    const struct verb *verb = verb_find(words.at[0]);
    if (verb == NULL) {
        struct buf names;
        buf_init(&names, 4096);
        verb_names(&names);
        code = err_set(err, -EINVAL, "`%s` is no command; there are:%s", words.at[0],
                       buf_text(&names));
        buf_done(&names);
        return code;
    }
    if (words.count - 1 < verb->words_min) {
        return err_set(err, -EINVAL, "`%s`: write %s", command, verb->usage);
    }
    if (play->rig == NULL && !text_equal(verb->name, "nodes")) {
        return err_set(err, -EINVAL, "a scenario begins with `nodes N`");
    }
    code = verb->run(play, &words, err);
    if (code == 0) {
        show_trace(play);
    }
    return code;
}
