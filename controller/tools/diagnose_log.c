/* diagnose_log.c: `keepstep diagnose log [FILE]`: what each line of a log means. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "controller/tools/diagnose.h"
#include "proto/base/mem.h"

struct log_run {
    const struct diagnose_options *options;
    struct catalog *catalog;
    uint64_t printed;
    struct err err;
};

static void print_text(const struct log_run *run, const struct diagnose_line *line,
                       const struct signal *signal)
{
    (void)printf("%s\t%s\t%s", signal_label_word(signal->label), signal_advice_word(signal->advice),
                 signal_role_word(signal->role));
    if (run->options->verbose) {
        char *text = diagnose_mended(line->text, line->size);
        (void)printf("\t%llu\t%s\t%s\t%s", (unsigned long long)line->number, signal->name,
                     signal->subject, text);
        (void)mem_free(text);
    }
    (void)putchar('\n');
}

/* An array grows line by line, so that a log of any length can be read. */
static void print_json(const struct log_run *run, const struct diagnose_line *line,
                       const struct signal *signal)
{
    json_t *object = diagnose_signal(signal);
    char *text = diagnose_mended(line->text, line->size);
    (void)json_object_set_new(object, "line", json_integer((json_int_t)line->number));
    (void)json_object_set_new(object, "text", json_string(text));
    if (line->dropped > 0) {
        (void)json_object_set_new(object, "dropped_bytes", json_integer((json_int_t)line->dropped));
    }
    char *dump = json_dumps(object, JSON_COMPACT);
    mem_needed(dump);
    if (run->options->output == DIAGNOSE_JSON) {
        (void)fputs(run->printed == 0 ? "[\n" : ",\n", stdout);
    }
    (void)fputs(dump, stdout);
    if (run->options->output == DIAGNOSE_JSONL) {
        (void)putchar('\n');
    }
    (void)mem_free(dump); /* jansson's memory is ours: config_memory() */
    (void)mem_free(text);
    json_decref(object);
}

static int take_line(void *context, const struct diagnose_line *line)
{
    struct log_run *run = context;
    struct signal signal;
    const bool known =
        catalog_look(run->catalog, run->options->stream, line->text, line->size, &signal);
    if (!known && run->options->known) {
        return 0;
    }
    if (run->options->output == DIAGNOSE_TEXT) {
        print_text(run, line, &signal);
    } else {
        print_json(run, line, &signal);
    }
    run->printed++;
    return ferror(stdout) != 0 ? diagnose_flush(&run->err) : 0;
}

/* What waits for more to come should show what has come. */
static int idle(void *context)
{
    struct log_run *run = context;
    return diagnose_flush(&run->err);
}

static int read_log(struct log_run *run)
{
    int r = diagnose_read(run->options->file, take_line, idle, run, &run->err);
    if (r == 0 && run->options->output == DIAGNOSE_JSON) {
        (void)fputs(run->printed == 0 ? "[]\n" : "\n]\n", stdout);
    }
    return r == 0 ? diagnose_flush(&run->err) : r;
}

static void usage(void)
{
    (void)fputs(
        "usage: keepstep diagnose log [FILE] [OPTION...]\n"
        "What each line of a log means: label, action and role, with a tab between them; unknown,\n"
        "none and noise when no row of the catalogue knows the line. Without a FILE, or with -,\n"
        "standard input. A kernel log, the output of ranks and launchers, and mixtures will do, "
        "in\n"
        "any carrier; lines of one message may be joined by |.\n"
        "  -v, --verbose        also the line's number, the row, what it is about, and the line\n"
        "  --known              only lines that a row knows\n"
        "  --stream any|kernel|output|agent   where the lines come from (any)\n"
        "  --catalog FILE       this site's own rows, which win over the shipped ones\n"
        "  -o table|json|jsonl  json: one array; jsonl: an object a line\n"
        "exit codes: 0 done, 1 it could not be read or printed to its end, 2 usage or a bad file\n",
        stdout);
}

int diagnose_log(int argc, char **argv)
{
    struct diagnose_options options;
    if (diagnose_parse(argc, argv, &options) != DIAGNOSE_DONE) {
        return DIAGNOSE_USAGE;
    }
    if (options.help) {
        usage();
        return DIAGNOSE_DONE;
    }
    struct log_run run = {.options = &options};
    int r = diagnose_catalog(&options, &run.catalog, &run.err);
    r = r == 0 ? read_log(&run) : r;
    if (r != 0) {
        (void)fprintf(stderr, "keepstep diagnose log: %s\n", run.err.text);
    }
    (void)catalog_free(run.catalog);
    return diagnose_exit(r);
}
