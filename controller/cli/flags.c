/* flags.c: the flags of all verbs, in one table. */
#include <assert.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "controller/cli/cli.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

enum flag_kind { FLAG_TEXT, FLAG_SWITCH, FLAG_OUTPUT, FLAG_NOTHING };

enum { LONG_ONLY = 256, NAMES_SIZE = 512 };

struct flag {
    const char *name;
    char letter; /* 0: none */
    bool global; /* every verb takes it */
    uint8_t kind;
    size_t offset; /* of a const char * or bool in struct cli */
};

#define TEXT(name, letter, global, field)                                                          \
    {                                                                                              \
        name, letter, global, FLAG_TEXT, offsetof(struct cli, field)                               \
    }
#define SWITCH(name, letter, global, field)                                                        \
    {                                                                                              \
        name, letter, global, FLAG_SWITCH, offsetof(struct cli, field)                             \
    }

static const struct flag flags[] = {
    TEXT("server", 's', true, server),
    TEXT("token-file", 0, true, token_file),
    {"output", 'o', true, FLAG_OUTPUT, 0},
    SWITCH("yes", 'y', true, yes),
    SWITCH("no-input", 0, true, no_input),
    SWITCH("quiet", 'q', true, quiet),
    SWITCH("help", 'h', true, help),
    {"color", 0, true, FLAG_NOTHING, 0}, /* tables are plain */
    SWITCH("dry-run", 0, false, dry_run),
    SWITCH("follow", 'f', false, follow),
    SWITCH("hold", 0, false, hold),
    SWITCH("wait", 0, false, wait),
    SWITCH("all", 0, false, all),
    SWITCH("problems", 0, false, problems),
    SWITCH("accept-inventory", 0, false, accept_inventory),
    SWITCH("skip-validation", 0, false, skip_validation),
    SWITCH("after-checkpoint", 0, false, after_checkpoint),
    TEXT("reason", 0, false, reason),
    TEXT("when", 0, false, when),
    TEXT("clear", 0, false, clear),
    TEXT("state", 0, false, state),
    TEXT("user", 0, false, user),
    TEXT("job", 0, false, job),
    TEXT("node", 0, false, node),
    TEXT("since", 0, false, since),
    TEXT("since-revision", 0, false, since_revision),
    TEXT("for", 0, false, subject),
    TEXT("type", 0, false, type),
    TEXT("severity", 0, false, severity),
    TEXT("timeout", 0, false, timeout),
    TEXT("limit", 0, false, limit),
    TEXT("rank", 0, false, rank),
    TEXT("attempt", 0, false, attempt),
    TEXT("tail", 0, false, tail),
    TEXT("level", 0, false, level),
};
static_assert(ARRAY_SIZE(flags) <= 64, "one bit each in cli.flags");

/* ---- parsing --------------------------------------------------------------------------------- */

static bool takes_argument(const struct flag *flag)
{
    return flag->kind != FLAG_SWITCH;
}

/* What getopt_long wants: its own table, and the letters. */
static void fill_options(struct option options[ARRAY_SIZE(flags) + 1], char *letters, size_t size)
{
    size_t used = (size_t)(text_copy(letters, size, ":") ? 1 : 0); /* we say what is wrong */
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
        options[i] = (struct option){flags[i].name,
                                     takes_argument(&flags[i]) ? required_argument : no_argument,
                                     NULL, LONG_ONLY + (int)i};
        if (flags[i].letter != 0) {
            (void)text_format(letters + used, size - used, "%c%s", flags[i].letter,
                              takes_argument(&flags[i]) ? ":" : "");
            used += strlen(letters + used);
        }
    }
    options[ARRAY_SIZE(flags)] = (struct option){NULL, 0, NULL, 0};
}

static int take_output(struct cli *cli, const char *word)
{
    static const char *const words[] = {"table", "wide", "json", "jsonl", "name"};
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (text_equal(words[i], word)) {
            cli->output = (enum output)i;
            return EXIT_DONE;
        }
    }
    return say_usage("-o %s: table, wide, json, jsonl or name", word);
}

static int take(struct cli *cli, size_t index, const char *argument)
{
    char *field = (char *)cli + flags[index].offset;
    cli->flags |= 1ull << index;
    switch ((enum flag_kind)flags[index].kind) {
    case FLAG_TEXT:
        memcpy(field, &argument, sizeof argument);
        return EXIT_DONE;
    case FLAG_SWITCH:
        *(bool *)field = true;
        return EXIT_DONE;
    case FLAG_OUTPUT:
        return take_output(cli, argument);
    case FLAG_NOTHING:
        return EXIT_DONE;
    }
    return EXIT_USAGE;
}

static size_t index_of(int value)
{
    for (size_t i = 0; i < ARRAY_SIZE(flags) && value < LONG_ONLY; i++) {
        if (flags[i].letter == value) {
            return i;
        }
    }
    return value >= LONG_ONLY ? (size_t)(value - LONG_ONLY) : ARRAY_SIZE(flags);
}

static int refuse(const char *argument, bool lacks_argument)
{
    const char *names[ARRAY_SIZE(flags)];
    if (lacks_argument) {
        return say_usage("%s wants a value behind it", argument);
    }
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
        names[i] = flags[i].name;
    }
    char word[64];
    text_copy(word, sizeof word, argument + strspn(argument, "-"));
    word[strcspn(word, "=")] = '\0';
    const char *closest = text_closest(word, names, ARRAY_SIZE(names));
    return closest != NULL
               ? say_usage("there is no flag %s; did you mean --%s?", argument, closest)
               : say_usage("there is no flag %s; keepstep help VERB lists them", argument);
}

int flags_parse(struct cli *cli, int count, char **arguments)
{
    struct option options[ARRAY_SIZE(flags) + 1];
    char letters[2 * ARRAY_SIZE(flags) + 2];
    int value;
    int code = EXIT_DONE;
    fill_options(options, letters, sizeof letters);
    opterr = 0;
    while (code == EXIT_DONE &&
           (value = getopt_long(count, arguments, letters, options, NULL)) != -1) {
        code = value == '?' || value == ':' ? refuse(arguments[optind - 1], value == ':')
                                            : take(cli, index_of(value), optarg);
    }
    for (int i = optind; i < count && code == EXIT_DONE; i++) {
        if (cli->count == ARGUMENTS_MAX) {
            return say_usage("more than %d words; use a hostlist such as gpu-[0001-0099]",
                             ARGUMENTS_MAX);
        }
        cli->words[cli->count++] = arguments[i];
    }
    return code;
}

/* ---- which verb takes which ------------------------------------------------------------------ */

static bool is_listed(const char *list, const char *name)
{
    size_t size = strlen(name);
    for (const char *at = list; *at != '\0';) {
        size_t one = strcspn(at, "|");
        if (one == size && memcmp(at, name, size) == 0) {
            return true;
        }
        at += one + (at[one] == '|' ? 1 : 0);
    }
    return false;
}

int flags_check(const struct cli *cli, const char *verb, const char *takes)
{
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
        bool given = (cli->flags >> i & 1) != 0;
        if (given && !flags[i].global && !is_listed(takes, flags[i].name)) {
            return say_usage("keepstep %s takes no --%s; keepstep help %s", verb, flags[i].name,
                             verb);
        }
    }
    return EXIT_DONE;
}
