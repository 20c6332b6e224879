/* probe_show.c: see probe_show.h. A loop of its own, all probes at a time, each with its deadline. */
#include "agent/io/probe_show.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "agent/core/health.h"
#include "agent/io/options.h"
#include "agent/io/probe_start.h"
#include "agent/probe/list.h"
#include "agent/probe/probe.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { ROWS_MAX = HEALTH_CONDITIONS_MAX, ARGUMENTS_MAX = 64, EXIT_UNKNOWN = 3, TEXT_OUT = 16384 };

struct row {
    const struct probe *probe;
    struct finding finding;
};

struct show;

struct asked {
    struct show *show;
    const struct probe *probe;
    uint32_t count; /* rows of it */
    bool ended;
    char why[TEXT_SIZE];
};

struct show {
    struct child_set children;
    uint32_t running;
    uint32_t row_count;
    struct row rows[ROWS_MAX];
    struct asked asked[HEALTH_PROBES_MAX];
};

static const char usage[] =
    "keepstep-agent probe [NAME...] [-o table|json]: looks at this machine once, with each health\n"
    "probe or with those named; takes the flags of keepstep-agent (--help lists them). Exit "
    "status:\n"
    "0 well, 1 a warning, 2 a failure, 3 usage.\n\n";

/* ---- gathering ---------------------------------------------------------------------------------- */

static void put_row(struct asked *asked, const struct finding *finding)
{
    struct show *show = asked->show;
    if (show->row_count < ROWS_MAX) {
        show->rows[show->row_count++] = (struct row){.probe = asked->probe, .finding = *finding};
        asked->count++;
    }
}

static void line_cb(void *context, const char *text, size_t size)
{
    struct asked *asked = context;
    struct finding_line line;
    if (finding_line_parse(text, size, &line) != 0) {
        return;
    }
    if (line.kind == LINE_STATE) {
        put_row(asked, &line.finding);
    } else if (line.kind == LINE_END) {
        asked->ended = true;
        (void)text_copy(asked->why, sizeof(asked->why), line.text);
    }
}

/* A probe that said nothing of anything has a row of its own. */
static void done_cb(void *context, const struct child_result *result)
{
    struct asked *asked = context;
    struct finding finding;
    asked->show->running--;
    if (result->timed_out) {
        probe_finding(&finding, VERDICT_WARN, HEALTH_PROBE_KEY, "no answer in %u s",
                      asked->probe->deadline_ms / 1000);
    } else if (!asked->ended) {
        probe_finding(&finding, VERDICT_WARN, HEALTH_PROBE_KEY, "ended before it said anything");
    } else {
        probe_finding(&finding, VERDICT_NOT_RUN, HEALTH_PROBE_KEY, "%s",
                      asked->why[0] != '\0' ? asked->why : "nothing to look at");
    }
    if (asked->count == 0 || finding.verdict == VERDICT_WARN) {
        put_row(asked, &finding);
    }
}

static void turn_cb(uv_prepare_t *turn)
{
    struct show *show = turn->data;
    if (show->running == 0 && !uv_is_closing((uv_handle_t *)turn)) {
        children_close(&show->children); /* one that was killed and does not end is left */
        uv_close((uv_handle_t *)turn, NULL);
    }
}

static void gather(struct show *show, const struct agent_options *options, const char *names)
{
    struct asked *asked = show->asked;
    uv_loop_t loop;
    uv_prepare_t turn;
    int r = uv_loop_init(&loop);
    CHECK(r == 0);
    for (uint32_t i = 0; i < HEALTH_PROBES_MAX && probe_at(i) != NULL; i++) {
        const struct probe *probe = probe_at(i);
        asked[i] = (struct asked){.show = show, .probe = probe};
        if (names[0] != '\0' && !list_has(names, probe->name)) {
            continue;
        }
        const struct probe_start start = {.probe = probe,
                                          .config = &options->probe,
                                          .mode = PROBE_ONCE,
                                          .line = line_cb,
                                          .done = done_cb,
                                          .context = &asked[i]};
        r = probe_start(&loop, &show->children, &start);
        show->running += r == 0;
        if (r != 0) {
            struct finding finding;
            probe_finding(&finding, VERDICT_WARN, HEALTH_PROBE_KEY, "cannot be started: %s",
                          uv_strerror(r));
            put_row(&asked[i], &finding);
        }
    }
    r = uv_prepare_init(&loop, &turn);
    CHECK(r == 0);
    turn.data = show;
    r = uv_prepare_start(&turn, turn_cb);
    CHECK(r == 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT); /* until everything is closed */
    r = uv_loop_close(&loop);
    CHECK(r == 0);
}

/* ---- showing -------------------------------------------------------------------------------------- */

static void show_table(const struct show *show)
{
    (void)printf("%-10s %-8s %s\n", "PROBE", "VERDICT", "WHAT");
    for (uint32_t i = 0; i < HEALTH_PROBES_MAX && probe_at(i) != NULL; i++) {
        for (uint32_t k = 0; k < show->row_count; k++) {
            const struct row *row = &show->rows[k];
            if (row->probe == probe_at(i)) {
                (void)printf("%-10s %-8s %s\n", row->probe->name,
                             finding_verdict_word(row->finding.verdict), row->finding.text);
            }
        }
    }
}

static void show_json(const struct show *show)
{
    json_t *items = json_array();
    for (uint32_t k = 0; k < show->row_count; k++) {
        const struct finding *finding = &show->rows[k].finding;
        json_t *item =
            json_pack("{ss ss ss ss ss ss ss ss si si si ss}", "probe", show->rows[k].probe->name,
                      "key", finding->key, "verdict", finding_verdict_word(finding->verdict),
                      "label", signal_label_word(finding->label), "advice",
                      signal_advice_word(finding->advice), "role", signal_role_word(finding->role),
                      "signal", finding->signal, "subject", finding->subject, "gpu", finding->gpu,
                      "port", finding->port, "code", finding->code, "text", finding->text);
        CHECK(item != NULL);
        (void)json_array_append_new(items, item); /* memory is never short: config_memory() */
    }
    json_t *root = json_pack("{so}", "items", items);
    (void)json_dumpf(root, stdout, JSON_INDENT(2));
    (void)printf("\n");
    json_decref(root);
}

static int worst(const struct show *show)
{
    int status = 0;
    for (uint32_t k = 0; k < show->row_count; k++) {
        const uint8_t verdict = show->rows[k].finding.verdict;
        const int one = verdict == VERDICT_FAIL ? 2 : verdict == VERDICT_WARN ? 1 : 0;
        status = one > status ? one : status;
    }
    return status;
}

/* ---- arguments ------------------------------------------------------------------------------------- */

struct arguments {
    bool json;
    char names[PROBE_LIST_SIZE];
    int argc;
    char *argv[ARGUMENTS_MAX]; /* the agent's flags */
};

static int take_name(struct arguments *arguments, const char *name)
{
    const size_t used = strlen(arguments->names);
    if (probe_find(name) == NULL) {
        (void)fprintf(stderr, "probe: there is no probe '%s'; there are:", name);
        for (uint32_t i = 0; probe_at(i) != NULL; i++) {
            (void)fprintf(stderr, " %s", probe_at(i)->name);
        }
        (void)fprintf(stderr, "\n");
        return EXIT_UNKNOWN;
    }
    (void)text_format(arguments->names + used, sizeof(arguments->names) - used, "%s%s",
                      used > 0 ? "," : "", name);
    return 0;
}

static int take_arguments(int argc, char **argv, struct arguments *arguments)
{
    arguments->argv[arguments->argc++] = argv[0];
    for (int i = 2; i < argc; i++) {
        const bool output = text_equal(argv[i], "-o");
        if (output && i + 1 < argc &&
            (text_equal(argv[i + 1], "json") || text_equal(argv[i + 1], "table"))) {
            arguments->json = text_equal(argv[++i], "json");
        } else if (output || arguments->argc + 2 >= ARGUMENTS_MAX) {
            (void)fputs(usage, stderr);
            return EXIT_UNKNOWN;
        } else if (strncmp(argv[i], "--", 2) == 0) {
            arguments->argv[arguments->argc++] = argv[i];
            if (strchr(argv[i], '=') == NULL && i + 1 < argc &&
                agent_options_takes_value(argv[i])) {
                arguments->argv[arguments->argc++] = argv[++i];
            }
        } else if (take_name(arguments, argv[i]) != 0) {
            return EXIT_UNKNOWN;
        }
    }
    return 0;
}

static int show_usage(void)
{
    (void)fputs(usage, stdout);
    for (uint32_t i = 0; probe_at(i) != NULL; i++) {
        (void)printf("  %-10s %s\n", probe_at(i)->name, probe_at(i)->what);
    }
    return 0;
}

static int show_now(const struct arguments *arguments, const struct agent_options *options)
{
    struct show *show = mem_alloc(1, sizeof(*show));
    gather(show, options, arguments->names);
    if (arguments->json) {
        show_json(show);
    } else {
        show_table(show);
    }
    const int status = worst(show);
    mem_free(show);
    return fflush(stdout) == 0 ? status : EXIT_UNKNOWN;
}

int probe_show_main(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct agent_options *options = mem_alloc(1, sizeof(*options));
    char text[TEXT_OUT];
    enum options_result result = OPTIONS_RUN;
    int status = take_arguments(argc, argv, &arguments);
    if (status == 0 && agent_options_parse_tool(arguments.argc, arguments.argv, options, &result,
                                                text, sizeof(text)) != 0) {
        (void)fputs(text, stderr);
        status = EXIT_UNKNOWN;
    }
    if (status == 0) {
        status = result == OPTIONS_RUN ? show_now(&arguments, options) : show_usage();
    }
    mem_free(options);
    return status;
}
