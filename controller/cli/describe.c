/* describe.c: `keepstep describe`, `recover show`, `goodput`: one thing in full. */
#include <stdio.h>
#include <string.h>

#include "controller/cli/cli.h"
#include "proto/base/text.h"

enum { TEXT = 224, LINE = 1024 };

static void line(const char *label, const char *text)
{
    char plain[LINE];
    printf("%-13s %s\n", label, text[0] != '\0' ? harmless(text, plain, sizeof plain) : "-");
}

static int fetch(struct cli *cli, const char *prefix, const char *name, const char *suffix,
                 struct answer *ret_answer)
{
    struct buf path;
    path_start(&path, prefix, name, suffix);
    return path_get(cli, &path, ret_answer);
}

/* "job/demo" and "demo" are the same. */
static const char *bare(const char *word, const char *kind)
{
    size_t size = strlen(kind);
    return strncmp(word, kind, size) == 0 && word[size] == '/' ? word + size + 1 : word;
}

/* ---- job ------------------------------------------------------------------------------------- */

static void print_times(const json_t *time)
{
    const char *kind;
    json_t *seconds;
    printf("Time:\n");
    json_object_foreach(json_object_get(time, "kinds"), kind, seconds)
    {
        double value = json_number_value(seconds);
        if (value > 0) {
            printf("  %-17s %10.1f s\n", kind, value);
        }
    }
    const json_t *goodput = json_object_get(time, "goodput");
    if (json_is_real(goodput)) {
        printf("  goodput           %9.1f %% of %.1f s settled\n", json_real_value(goodput) * 100.0,
               json_number_value(json_object_get(time, "settled_seconds")));
    }
}

static void print_conditions(const json_t *list)
{
    char text[LINE];
    size_t index;
    json_t *one;
    printf("Conditions:\n");
    json_array_foreach(list, index, one)
    {
        printf("  %-16s %-6s %-14s %s\n", member(one, "type"), member(one, "status"),
               member(one, "reason"), harmless(member(one, "message"), text, sizeof text));
    }
}

static void print_layout(const json_t *job)
{
    const json_t *layout = json_object_get(job, "layout");
    long long nodes = number(job, "nodes");
    printf(
        "%-13s %lld tensor x %lld context x %lld pipeline x %lld data, order %s, %lld %s a node, "
        "%lld %s\n",
        "Layout:", number(layout, "tensor"), number(layout, "context"), number(layout, "pipeline"),
        number(layout, "data"), member(layout, "order"), number(layout, "ranks_per_node"),
        plural((uint64_t)number(layout, "ranks_per_node"), "rank", "ranks"), nodes,
        plural((uint64_t)nodes, "node", "nodes"));
}

static void print_missing(const json_t *checkpoint)
{
    const json_t *list = json_object_get(checkpoint, "missing_parts");
    size_t index;
    json_t *part;
    json_array_foreach(list, index, part)
    {
        printf("%s%s", index > 0 ? ", " : "              warning: its manifest lists no ",
               json_string_value(part));
    }
    printf("%s", json_array_size(list) > 0 ? "\n" : "");
}

static void print_progress(const json_t *job)
{
    char a[TEXT];
    const json_t *checkpoint = json_object_get(job, "checkpoint");
    const char *each = seconds_of(job, "step_seconds", a, sizeof a);
    printf("%-13s %lld%s%s%s\n", "Step:", number(job, "step"), each[0] != '\0' ? ", " : "", each,
           each[0] != '\0' ? "/step" : "");
    if (json_is_object(checkpoint)) {
        printf("%-13s step %lld %s%s, %s ago, %s\n", "Checkpoint:", number(checkpoint, "step"),
               member(checkpoint, "state"),
               member(checkpoint, "pinned_by")[0] != '\0' ? ", pinned" : "",
               ago_of(checkpoint, "time", a, sizeof a), member(checkpoint, "directory"));
        print_missing(checkpoint);
    } else {
        line("Checkpoint:", "none yet");
    }
}

static void print_budget(const json_t *budget)
{
    long long without = number(budget, "no_progress") + number(budget, "other_no_progress");
    printf("%-13s user %lld of %lld used, unknown %lld of %lld, %lld %s without progress\n",
           "Budget:", number(budget, "user_used"), number(budget, "user_limit"),
           number(budget, "unknown_used"), number(budget, "unknown_limit"), without,
           plural((uint64_t)without, "recovery", "recoveries"));
}

static const char *time_of(const json_t *object, const char *key, char *target, size_t size)
{
    const char *text = seconds_of(object, key, target, size);
    return text[0] != '\0' ? text : "0 s";
}

/* "each 5m30s (auto), costs 1.20 % of all time; best: each 5m, 1.10 %". */
static void print_interval(const json_t *interval)
{
    char each[TEXT];
    char best[TEXT];
    const char *origin = member(interval, "origin");
    const json_t *cost = json_object_get(interval, "cost");
    bool known = json_is_real(json_object_get(interval, "seconds"));
    printf("%-13s %s%s (%s)", "Interval:", known ? "each " : "not known",
           known ? time_of(interval, "seconds", each, sizeof each) : "", origin);
    if (!text_equal(origin, "program") && !truth(interval, "asks")) {
        printf(", but its program cannot be asked for a save");
    }
    if (json_is_real(cost)) {
        printf(", costs %.2f %% of all time", json_real_value(cost) * 100.0);
    }
    if (json_is_real(json_object_get(interval, "best_seconds"))) {
        printf("; best: each %s, %.2f %%", time_of(interval, "best_seconds", best, sizeof best),
               json_number_value(json_object_get(interval, "best_cost")) * 100.0);
    }
    printf("\n");
    if (number(interval, "saves") > 0) {
        printf("              from a stall of %s, a save of %s,",
               time_of(interval, "stall_seconds", each, sizeof each),
               time_of(interval, "save_seconds", best, sizeof best));
        printf(" a failure each %s (%lld in %s of running)\n",
               time_of(interval, "failure_gap_seconds", each, sizeof each),
               number(interval, "failures"),
               time_of(interval, "observed_seconds", best, sizeof best));
    }
}

static void print_spares(const json_t *spares)
{
    char gap[TEXT];
    char away[TEXT];
    bool is_auto = text_equal(member(spares, "origin"), "auto");
    printf("%-13s %lld reserved%s, %lld ready, %lld wanted%s\n",
           "Spares:", number(spares, "reserve"), is_auto ? " (auto)" : "", number(spares, "ready"),
           number(spares, "wanted"), truth(spares, "low") ? ": LOW" : "");
    if (is_auto) {
        printf("              a node fails each %s and is away for %s\n",
               time_of(spares, "node_gap_seconds", gap, sizeof gap),
               time_of(spares, "away_seconds", away, sizeof away));
    }
}

static void print_job(const struct cli *cli, const json_t *job)
{
    char a[TEXT];
    const json_t *recoveries = json_object_get(job, "recent_recoveries");
    bool moves = member(job, "phase")[0] != '\0';
    line("Name:", member(job, "name"));
    line("User:", member(job, "user"));
    printf("%-13s %s%s%s since %s (attempt %s)\n", "State:", member(job, "state"),
           moves ? ", phase " : "", member(job, "phase"), member(job, "since"),
           text_of(job, "attempt", a, sizeof a));
    if (member(job, "reason")[0] != '\0') {
        line("Reason:", member(job, "reason"));
    }
    print_layout(job);
    print_progress(job);
    print_interval(json_object_get(job, "interval"));
    print_spares(json_object_get(job, "spares"));
    print_budget(json_object_get(job, "budget"));
    print_times(json_object_get(job, "time"));
    print_conditions(json_object_get(job, "conditions"));
    if (json_array_size(recoveries) > 0) {
        printf("Recoveries:\n");
        print_recoveries(cli, recoveries);
    } else {
        line("Recoveries:", "none");
    }
    printf("%-13s keepstep watch events --for job/%s\n", "Events:", member(job, "name"));
}

/* ---- node ------------------------------------------------------------------------------------ */

static void print_events(const json_t *items)
{
    char text[LINE];
    size_t index;
    json_t *one;
    json_array_foreach(items, index, one)
    {
        printf("  %s  %-5s %-20s %s\n", member(one, "time"), member(one, "severity"),
               member(one, "type"), harmless(member(one, "message"), text, sizeof text));
    }
}

static void print_marks(const json_t *marks)
{
    char text[LINE];
    size_t index;
    json_t *mark;
    if (json_array_size(marks) == 0) {
        line("Marks:", "none");
        return;
    }
    printf("Marks:\n");
    json_array_foreach(marks, index, mark)
    {
        printf("  %s/%s, %s, by %s since %s: %s\n", member(mark, "owner"), member(mark, "code"),
               member(mark, "level"), member(mark, "actor"), member(mark, "since"),
               harmless(member(mark, "text"), text, sizeof text));
    }
}

/* What is being done about it, and what comes next. */
static void print_repair(const json_t *repair)
{
    char text[LINE];
    char since[TEXT];
    const char *state = member(repair, "state");
    const char *next = member(repair, "next");
    if (text_equal(state, "none") && member(repair, "text")[0] == '\0') {
        line("Repair:", next[0] != '\0' ? "not begun" : "none");
    } else {
        printf("%-13s %s, %s, try %lld, for %s, since %s: %s\n", "Repair:", state,
               member(repair, "lane"), number(repair, "try"),
               member(repair, "incident")[0] != '\0' ? member(repair, "incident") : "its own mark",
               text_of(repair, "since", since, sizeof since),
               harmless(member(repair, "text"), text, sizeof text));
    }
    if (next[0] != '\0') {
        printf("              next: %s\n", harmless(next, text, sizeof text));
    }
}

static void print_validation(const json_t *validation)
{
    char text[LINE];
    char since[TEXT];
    const char *level = member(validation, "level");
    if (member(validation, "text")[0] == '\0' && text_equal(level, "none")) {
        line("Validation:", "none asked for");
        return;
    }
    printf("%-13s %s%s%s since %s: %s\n",
           "Validation:", text_equal(level, "none") ? "nothing to pass" : "must pass ",
           text_equal(level, "none") ? "" : level,
           truth(validation, "running") ? ", under way," : ",",
           text_of(validation, "since", since, sizeof since),
           harmless(member(validation, "text"), text, sizeof text));
}

static void print_not_used_by(const json_t *jobs)
{
    char text[LINE];
    size_t index;
    json_t *job;
    json_array_foreach(jobs, index, job)
    {
        printf("%-13s %s: two faults of a kind within a day\n",
               "Not used by:", harmless(json_string_value(job), text, sizeof text));
    }
}

static void print_place(const json_t *node)
{
    char a[4][TEXT];
    printf("%-13s rack %s, pool %s, leaf %s, feed %s\n",
           "Place:", text_of(node, "rack", a[0], TEXT), text_of(node, "pool", a[1], TEXT),
           text_of(node, "leaf_group", a[2], TEXT), text_of(node, "power_feed", a[3], TEXT));
}

static void print_node(const json_t *node)
{
    const json_t *agent = json_object_get(node, "agent");
    char a[TEXT];
    line("Name:", member(node, "name"));
    printf("%-13s %s%s, %s, since %s\n", "State:", member(node, "state"),
           truth(node, "connected") ? "" : "* (agent not connected)",
           text_equal(member(node, "role"), "-") ? "no role" : member(node, "role"),
           member(node, "since"));
    if (json_is_integer(json_object_get(node, "slot"))) {
        printf("%-13s %s, slot %lld\n", "Job:", member(node, "job"), number(node, "slot"));
    } else {
        line("Job:", "none");
    }
    print_place(node);
    line("Address:", member(node, "address"));
    printf("%-13s %s, incarnation %lld\n", "Agent:", text_of(agent, "version", a, sizeof a),
           number(agent, "incarnation"));
    print_marks(json_object_get(node, "marks"));
    print_repair(json_object_get(node, "repair"));
    print_validation(json_object_get(node, "validation"));
    print_not_used_by(json_object_get(node, "not_used_by"));
}

static int describe_node(struct cli *cli)
{
    struct answer node;
    struct answer history;
    const char *name = bare(cli->words[2], "node");
    int code = fetch(cli, "/v1/nodes/", name, "", &node);
    if (code != EXIT_DONE) {
        return code;
    }
    if (!say_json(cli, &node)) {
        print_node(node.json);
        code = fetch(cli, "/v1/nodes/", name, "/history", &history);
        if (code == EXIT_DONE) {
            printf("History:\n");
            print_events(json_object_get(history.json, "items"));
            answer_done(&history);
        }
    }
    answer_done(&node);
    return code;
}

/* ---- recovery -------------------------------------------------------------------------------- */

static void print_incident(const json_t *incident)
{
    char text[LINE];
    size_t index;
    json_t *fact;
    const json_t *verdict = json_object_get(incident, "verdict");
    printf("Incident %s: ", member(incident, "id"));
    if (json_is_object(verdict)) {
        printf("%s fault, %s; confidence %s\n  why: %s (rule %s); repair lane %s\n",
               member(verdict, "fault_owner"), member(verdict, "action"),
               member(verdict, "confidence"), member(verdict, "why"), member(verdict, "rule"),
               member(verdict, "repair_lane"));
    } else {
        printf("not judged yet\n");
    }
    json_array_foreach(json_object_get(incident, "facts"), index, fact)
    {
        printf("  %s  %-15s %-12s %s\n", member(fact, "time"), member(fact, "source"),
               member(fact, "node"), harmless(member(fact, "text"), text, sizeof text));
    }
}

static void print_recovery(const json_t *recovery)
{
    char text[LINE];
    size_t index;
    json_t *one;
    printf("%s  %s  cause %s, %s after %.2f s\n", member(recovery, "id"), member(recovery, "job"),
           member(recovery, "cause"), member(recovery, "outcome"),
           (double)number(recovery, "took_ms") / 1000.0);
    printf("Steps      %lld lost: last %lld, restored from %lld\n", number(recovery, "lost_steps"),
           number(recovery, "last_step"), number(recovery, "restore_step"));
    json_array_foreach(json_object_get(recovery, "skipped"), index, one)
    {
        printf("Skipped    step %lld of attempt %lld, %s: %s\n", number(one, "step"),
               number(one, "attempt"), member(one, "state"),
               harmless(member(one, "note"), text, sizeof text));
    }
    json_array_foreach(json_object_get(recovery, "missing_parts"), index, one)
    {
        printf("Warning    its manifest lists no %s\n", json_string_value(one));
    }
    printf("Layout     %lld %s moved, %lld %s shifted\nTimeline   ",
           number(recovery, "moved_nodes"),
           plural((uint64_t)number(recovery, "moved_nodes"), "node", "nodes"),
           number(recovery, "shifted_ranks"),
           plural((uint64_t)number(recovery, "shifted_ranks"), "rank", "ranks"));
    json_array_foreach(json_object_get(recovery, "phases"), index, one)
    {
        printf("|%s %.2fs", member(one, "name"), (double)number(one, "ms") / 1000.0);
    }
    printf("|\n");
    json_array_foreach(json_object_get(recovery, "incidents"), index, one)
    {
        print_incident(one);
    }
}

static int describe_recovery(struct cli *cli, const char *id)
{
    struct answer answer;
    int code = fetch(cli, "/v1/recoveries/", bare(id, "recovery"), "", &answer);
    if (code != EXIT_DONE) {
        return code;
    }
    if (!say_json(cli, &answer)) {
        print_recovery(answer.json);
    }
    answer_done(&answer);
    return EXIT_DONE;
}

static int describe_job(struct cli *cli)
{
    struct answer answer;
    int code = fetch(cli, "/v1/jobs/", bare(cli->words[2], "job"), "", &answer);
    if (code != EXIT_DONE) {
        return code;
    }
    if (!say_json(cli, &answer)) {
        print_job(cli, answer.json);
    }
    answer_done(&answer);
    return EXIT_DONE;
}

int verb_describe(struct cli *cli)
{
    if (cli->count != 3) {
        return say_usage("keepstep describe job|node|recovery NAME");
    }
    if (text_equal(cli->words[1], "job")) {
        return describe_job(cli);
    }
    if (text_equal(cli->words[1], "node")) {
        return describe_node(cli);
    }
    if (text_equal(cli->words[1], "recovery")) {
        return describe_recovery(cli, cli->words[2]);
    }
    return say_usage("describe %s: job, node or recovery", cli->words[1]);
}

int verb_recover(struct cli *cli)
{
    if (cli->count == 3 && text_equal(cli->words[1], "show")) {
        return describe_recovery(cli, cli->words[2]);
    }
    if (cli->count >= 2 && text_equal(cli->words[1], "history")) {
        cli->words[1] = "recoveries";
        return verb_get(cli);
    }
    return say_usage("keepstep recover show ID, or keepstep recover history [JOB]");
}

int verb_goodput(struct cli *cli)
{
    struct answer answer;
    if (cli->count != 2) {
        return say_usage("keepstep goodput JOB");
    }
    int code = fetch(cli, "/v1/jobs/", cli->words[1], "/goodput", &answer);
    if (code != EXIT_DONE) {
        return code;
    }
    if (!say_json(cli, &answer)) {
        print_times(answer.json);
    }
    answer_done(&answer);
    return EXIT_DONE;
}
