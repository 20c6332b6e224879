/* main.c: `keepstep`: reads the flags, finds the verb, calls it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/cli/cli.h"
#include "proto/base/config.h"
#include "proto/base/text.h"

#define DEFAULT_SERVER "unix:/run/keepstep/api.sock"

/* With a connection, which is made when it is first needed. */
static int call(struct cli *cli, const struct verb *verb)
{
    struct err err = {0};
    if (flags_check(cli, verb->name, verb->flags) != EXIT_DONE) {
        return EXIT_USAGE;
    }
    if (client_create(cli, &err) < 0) {
        return say_usage("%s", err.text);
    }
    int code = verb->call(cli);
    cli->client = client_free(cli->client);
    return code;
}

static int run(struct cli *cli)
{
    if (cli->count == 0) {
        (void)verb_help(cli);
        return cli->help ? EXIT_DONE : EXIT_USAGE;
    }
    const struct verb *verb = verbs_find(cli->words[0]);
    if (verb == NULL) {
        return EXIT_USAGE;
    }
    if (cli->help) {
        cli->words[1] = cli->words[0];
        cli->count = 2;
        return verb_help(cli);
    }
    return verb->call == verb_help ? verb_help(cli) : call(cli, verb);
}

int main(int count, char **arguments)
{
    config_memory();
    if (count > 1 && tool_has(arguments[1])) {
        return tool_start(arguments + 1); /* its options are not ours */
    }
    struct cli cli = {.server = getenv("KEEPSTEP_SERVER"),
                      .token_file = getenv("KEEPSTEP_TOKEN_FILE")};
    int code = flags_parse(&cli, count, arguments);
    if (code != EXIT_DONE) {
        return code;
    }
    cli.server = cli.server != NULL && cli.server[0] != '\0' ? cli.server : DEFAULT_SERVER;
    code = run(&cli);
    if ((fflush(stdout) != 0 || ferror(stdout) != 0) && code == EXIT_DONE) {
        fprintf(stderr, "the output could not be written: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    return code;
}
