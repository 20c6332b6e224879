/* diagnose_incident.c: `keepstep diagnose incident FILE`: reads what was seen of incidents, judges
 * each as the controller would, and prints one line for it. Warnings go to standard error. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "controller/tools/diagnose.h"
#include "controller/tools/incident_case.h"
#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/hostlist.h"
#include "proto/base/text.h"

enum { READ_SIZE = 65536, NODES_TEXT_SIZE = 16384, SHOWN_FACTS = 12, WARNINGS_MAX = 20 };

struct run {
    const struct diagnose_options *options;
    uint32_t warnings;
    struct incident_case *one;
};

static void usage(void)
{
    (void)fputs(
        "usage: keepstep diagnose incident [FILE] [OPTION...]\n"
        "Who is at fault, and what to do, by the same rules as in a running controller. FILE (or\n"
        "standard input) holds what was seen of one or more incidents, a line each, with a tab\n"
        "between the columns, and their names in the first line:\n"
        "  incident  t_ms  node  stream  line\n"
        "t_ms is when the line was received, stream is kmsg, stderr, agent or ctl, rows come in\n"
        "any order. One line is printed for each incident:\n"
        "  incident  fault_owner  action  nodes\n"
        "  -v, --verbose       also why: the rule, the lines it looked at, what was ruled out\n"
        "  --catalog FILE      this site's own rows, which win over the shipped ones\n"
        "  --layout 8x16x128   sizes of tensor, pipeline and data parallelism, eight ranks a\n"
        "                      node: the node named nodeNNNN holds slot NNNN\n"
        "  -o table|json       json: an array of objects, with all that -v says\n"
        "exit codes: 0 done, 1 it could not be read or printed to its end, 2 usage or a bad file\n",
        stdout);
}

/* ---- words -------------------------------------------------------------------------------- */

/* Nobody is at fault where nothing happened, or only something that passes. */
static const char *owner_word(const struct judge_verdict *v)
{
    if (v->owner == OWNER_UNKNOWN && v->advice == ADVICE_NONE) {
        return signal_label_word(LABEL_BENIGN);
    }
    if (v->owner == OWNER_UNKNOWN && v->advice == ADVICE_WATCH) {
        return signal_label_word(LABEL_TRANSIENT);
    }
    return signal_label_word(judge_label_of(v->owner));
}

static void nodes_text(const struct incident_case *one, char *text, size_t size)
{
    const char *names[JUDGE_BLAMED_MAX];
    const struct judge_verdict *v = &one->verdict;
    for (uint32_t index = 0; index < v->blamed_count; index++) {
        names[index] = names_at(&one->nodes, v->blamed[index]);
    }
    text[0] = '\0';
    (void)hostlist_fold(names, v->blamed_count, text, size);
}

/* ---- text --------------------------------------------------------------------------------- */

static void print_fact(const struct incident_case *one, const struct fact *fact)
{
    int64_t t_ms = (int64_t)(fact->receive_ms - INCIDENT_T_BASE);
    const char *name = names_at(&one->nodes, fact->node);
    (void)printf("    %9lld.%03lld %-10s %-20s %s\n", (long long)(t_ms / 1000),
                 (long long)(t_ms < 0 ? -t_ms : t_ms) % 1000, name[0] != '\0' ? name : "ctl",
                 fact->signal[0] != '\0' ? fact->signal : "-", fact->text);
}

static void print_why(const struct incident_case *one)
{
    struct judge_explanation told;
    judge_explain(&one->input, &told);
    const struct judge_rule_text *rule = judge_rule_text(told.rule);
    (void)printf("  rule   %s: %s\n", rule->name, rule->when);
    (void)printf("  so     %s\n", rule->then);
    (void)printf("  why    %s\n", one->verdict.why);
    (void)printf("  facts  %u used of %u; %u only follow, %u mean nothing\n",
                 one->verdict.facts_used, one->input.fact_count, told.followers, told.noise);
    for (uint32_t index = 0; index < told.used_count && index < SHOWN_FACTS; index++) {
        print_fact(one, &one->input.facts[told.used[index]]);
    }
    for (uint32_t index = 0; index < told.rule; index++) {
        if (told.seen[index] > 0) {
            (void)printf("  not    %s, though %u %s of its kind: %s\n",
                         judge_rule_text(index)->name, told.seen[index],
                         text_plural(told.seen[index], "fact is", "facts are"),
                         judge_rule_text(index)->when);
        }
    }
    (void)printf("  never  ");
    const char *between = "";
    for (uint32_t index = 0; index < told.rule; index++) {
        if (told.seen[index] == 0) {
            (void)printf("%s%s", between, judge_rule_text(index)->name);
            between = ", ";
        }
    }
    (void)printf("\n");
}

static void print_verdict(const struct run *run, const char *name)
{
    const struct incident_case *one = run->one;
    char nodes[NODES_TEXT_SIZE];
    nodes_text(one, nodes, sizeof(nodes));
    (void)printf("%s\t%s\t%s\t%s\n", name, owner_word(&one->verdict),
                 signal_advice_word(one->verdict.advice), nodes);
    if (run->options->verbose) {
        print_why(one);
    }
}

/* ---- JSON --------------------------------------------------------------------------------- */

static json_t *json_fact(const struct incident_case *one, const struct fact *fact)
{
    return json_pack("{s:I, s:s, s:s, s:s, s:s}", "t_ms",
                     (json_int_t)(fact->receive_ms - INCIDENT_T_BASE), "node",
                     names_at(&one->nodes, fact->node), "signal", fact->signal, "subject",
                     fact->subject, "text", fact->text);
}

static json_t *json_verdict(const struct incident_case *one, const char *name)
{
    const struct judge_verdict *v = &one->verdict;
    struct judge_explanation told;
    judge_explain(&one->input, &told);
    char nodes[NODES_TEXT_SIZE];
    nodes_text(one, nodes, sizeof(nodes));
    json_t *facts = json_array();
    json_t *out = json_array();
    for (uint32_t index = 0; index < told.used_count; index++) {
        const struct fact *fact = &one->input.facts[told.used[index]];
        (void)json_array_append_new(facts, json_fact(one, fact));
    }
    for (uint32_t index = 0; index < told.rule; index++) {
        const struct judge_rule_text *rule = judge_rule_text(index);
        (void)json_array_append_new(out, json_pack("{s:s, s:s, s:i}", "rule", rule->name, "when",
                                                   rule->when, "facts", (int)told.seen[index]));
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:o, s:o}", "incident",
                     name, "fault_owner", owner_word(v), "action", signal_advice_word(v->advice),
                     "nodes", nodes, "confidence", WORD(confidence, v->confidence), "rule", v->rule,
                     "why", v->why, "facts_used", (int)v->facts_used, "followers",
                     (int)told.followers, "noise", (int)told.noise, "facts", facts, "ruled_out",
                     out);
}

/* ---- the file ----------------------------------------------------------------------------- */

static void warn(void *context, uint32_t number, const char *text)
{
    struct run *run = context;
    if (run->warnings++ < WARNINGS_MAX) {
        (void)fprintf(stderr, "keepstep diagnose incident: line %u is left out: %s\n", number,
                      text);
    }
}

static int read_all(const char *path, struct buf *ret_bytes, struct err *err)
{
    const bool given = text_equal(path, "-");
    int descriptor = given ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        return err_set(err, -errno, "%.150s: %s", path, strerror(errno));
    }
    int r = 1;
    while (r > 0) {
        char block[READ_SIZE];
        ssize_t size = read(descriptor, block, sizeof(block));
        if (size < 0 && errno == EINTR) {
            continue;
        }
        r = size < 0 ? -errno : size > 0;
        if (size > 0 && buf_put(ret_bytes, block, (size_t)size) < 0) {
            r = -EFBIG;
        }
    }
    if (r < 0) {
        (void)err_set(err, r, "%.150s: %s", path,
                      r == -EFBIG ? "it is larger than 256 MiB; give its incidents in parts"
                                  : strerror(-r));
    }
    if (!given) {
        (void)close(descriptor);
    }
    return r;
}

static void judge_file(struct run *run, const struct incident_file *file)
{
    const bool json = run->options->output == DIAGNOSE_JSON;
    json_t *all = json ? json_array() : NULL;
    for (uint32_t first = 0; first < file->count;) {
        uint32_t end = first;
        while (end < file->count && file->rows[end].incident == file->rows[first].incident) {
            end++;
        }
        const char *name = names_at(&file->incidents, file->rows[first].incident);
        incident_case_judge(run->one, &file->rows[first], end - first);
        if (json) {
            (void)json_array_append_new(all, json_verdict(run->one, name));
        } else {
            print_verdict(run, name);
        }
        first = end;
    }
    if (json) {
        (void)json_dumpf(all, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
        (void)printf("\n");
        json_decref(all);
    }
}

static int judge_bytes(struct run *run, struct buf *bytes, struct err *err)
{
    struct incident_file file;
    const size_t size = bytes->size;
    /* it is ours to write over */
    int r = incident_read((char *)(uintptr_t)buf_text(bytes), size, warn, run, &file, err);
    if (r < 0) {
        return r;
    }
    if (run->options->output == DIAGNOSE_TEXT) {
        (void)printf("incident\tfault_owner\taction\tnodes\n");
    }
    judge_file(run, &file);
    incident_file_done(&file);
    if (run->warnings > WARNINGS_MAX) {
        (void)fprintf(stderr, "keepstep diagnose incident: and %u more lines\n",
                      run->warnings - WARNINGS_MAX);
    }
    return diagnose_flush(err);
}

/* tensor, pipeline, data */
static int read_layout(const char *text, unsigned sizes[3], struct err *err)
{
    int end = 0;
    if (text != NULL &&
        (sscanf(text, "%4ux%4ux%6u%n", &sizes[0], &sizes[1], &sizes[2], &end) != 3 ||
         text[end] != '\0')) {
        return err_set(err, -EINVAL, "--layout takes three sizes, as 8x16x128, not '%.40s'", text);
    }
    return 0;
}

static int work(struct run *run, struct catalog *catalog, struct err *err)
{
    unsigned sizes[3] = {8, 16, 128};
    struct buf bytes;
    buf_init(&bytes, INCIDENT_FILE_MAX);
    int r = run->options->output == DIAGNOSE_JSONL
                ? err_set(err, -EINVAL, "-o takes table or json here")
                : read_layout(run->options->layout, sizes, err);
    r = r == 0
            ? incident_case_create(catalog, sizes[0], sizes[1], sizes[2], warn, run, &run->one, err)
            : r;
    r = r == 0 ? read_all(run->options->file, &bytes, err) : r;
    r = r == 0 ? judge_bytes(run, &bytes, err) : r;
    run->one = incident_case_free(run->one);
    buf_done(&bytes);
    return r;
}

int diagnose_incident(int argc, char **argv)
{
    struct diagnose_options options;
    struct catalog *catalog = NULL;
    struct err err = {0};
    if (diagnose_parse(argc, argv, &options) != DIAGNOSE_DONE) {
        return DIAGNOSE_USAGE;
    }
    if (options.help) {
        usage();
        return DIAGNOSE_DONE;
    }
    struct run run = {.options = &options};
    int r = diagnose_catalog(&options, &catalog, &err);
    r = r == 0 ? work(&run, catalog, &err) : r;
    if (r != 0) {
        (void)fprintf(stderr, "keepstep diagnose incident: %s\n", err.text);
    }
    (void)catalog_free(catalog);
    return diagnose_exit(r);
}
