/* node_action.c: drain, undrain, cordon, uncordon, validate, remove: many nodes, one transaction. */
#include <stdio.h>
#include <string.h>

#include "controller/cli/cli.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { SENTENCE = 4096, NODES_MAX = 65536 };

static bool is(const struct cli *cli, const char *verb)
{
    return text_equal(cli->words[0], verb);
}

/* ---- the plan -------------------------------------------------------------------------------- */

static const json_t *plan_of(const json_t *answer)
{
    return json_object_get(answer, "plan");
}

static uint64_t slots_of(const json_t *plan)
{
    uint64_t slots = 0;
    size_t index;
    json_t *job;
    json_array_foreach(json_object_get(plan, "jobs"), index, job)
    {
        slots += (uint64_t)number(job, "slots");
    }
    return slots;
}

static void print_holding(const json_t *plan)
{
    char nodes[SENTENCE];
    size_t index;
    json_t *job;
    uint64_t count = (uint64_t)number(plan, "node_count");
    nodes_format(member(plan, "nodes"), count, nodes, sizeof nodes);
    if (slots_of(plan) == 0) {
        printf("%s %s no slot of any job: nothing has to move.\n", nodes,
               plural(count, "holds", "hold"));
        return;
    }
    printf("%s %s", nodes, plural(count, "holds", "hold"));
    json_array_foreach(json_object_get(plan, "jobs"), index, job)
    {
        uint64_t slots = (uint64_t)number(job, "slots");
        printf("%s %llu %s of %s", index > 0 ? " and" : "", (unsigned long long)slots,
               plural(slots, "slot", "slots"), member(job, "job"));
    }
    printf(".\n");
}

static void print_spares(const json_t *plan)
{
    uint64_t slots = slots_of(plan);
    uint64_t ready = (uint64_t)number(plan, "spares_ready");
    if (slots > 0) {
        printf("Spares: %llu of %llu ready would take %s.\n", (unsigned long long)slots,
               (unsigned long long)ready, plural(slots, "it", "them"));
    }
}

static void print_when(const json_t *plan)
{
    const char *when = member(plan, "when");
    if (text_equal(when, "now")) {
        printf("When:   now.\n");
    } else if (text_equal(when, "job-end")) {
        printf("When:   when the job ends; until then it keeps running there.\n");
    } else {
        printf("When:   after the next checkpoint, which is asked for at once.\n");
    }
}

static void print_cost(const json_t *plan)
{
    bool now = text_equal(member(plan, "when"), "now");
    size_t index;
    json_t *job;
    json_array_foreach(json_object_get(plan, "jobs"), index, job)
    {
        long long lost = number(job, "step") - number(job, "checkpoint_step");
        char ranks[32];
        count_format((uint64_t)number(job, "ranks"), ranks, sizeof ranks);
        printf("Cost:   one restart of the %s ranks of %s", ranks, member(job, "job"));
        if (now && lost >= 0) {
            printf(", and about %lld %s done again", lost, plural((uint64_t)lost, "step", "steps"));
        }
        printf(".\n");
    }
}

static void print_drain(const json_t *plan)
{
    print_holding(plan);
    if (slots_of(plan) > 0) {
        bool at_end = text_equal(member(plan, "when"), "job-end");
        if (!at_end) {
            print_spares(plan);
        }
        print_when(plan);
        if (!at_end) {
            print_cost(plan);
        }
    }
}

static void show_plan(const struct cli *cli, const json_t *answer)
{
    if (is(cli, "drain")) {
        print_drain(plan_of(answer));
    } else {
        print_holding(plan_of(answer));
    }
}

/* ---- what was done, and what comes next ------------------------------------------------------ */

static void follow_hint(const struct cli *cli, const json_t *plan)
{
    const json_t *job = json_array_get(json_object_get(plan, "jobs"), 0);
    if (job != NULL) {
        say_next(cli, "Follow it:", "keepstep watch events --for job/%s", member(job, "job"));
    }
}

static void done_drain(const struct cli *cli, const json_t *plan, const char *nodes)
{
    bool waits = slots_of(plan) > 0;
    printf("%s: %s.\n", nodes, waits ? "draining" : "drained");
    follow_hint(cli, plan);
    say_next(cli, "Take it back:", "keepstep undrain %s", member(plan, "nodes"));
}

static void done_cordon(const struct cli *cli, const json_t *plan, const char *nodes)
{
    uint64_t count = (uint64_t)number(plan, "node_count");
    printf(
        "%s: cordoned. %s not be chosen again%s.\n", nodes, plural(count, "It will", "They will"),
        slots_of(plan) > 0 ? plural(count, "; it keeps its slot", "; they keep their slots") : "");
    if (slots_of(plan) > 0) {
        say_next(cli, "Move the job:", "keepstep drain %s --reason \"...\"", member(plan, "nodes"));
    }
    say_next(cli, "Take it back:", "keepstep uncordon %s", member(plan, "nodes"));
}

/* What the controller says of the nodes: behind "1 node: " or "2 nodes; ". */
static const char *said_of(const json_t *answer)
{
    const char *text = member(answer, "result");
    const size_t size = strcspn(text, ":;");
    return text[size] != '\0' && text[size + 1] == ' ' ? text + size + 2 : text;
}

/* Marks of other owners may remain: then the controller's own sentence says which. */
static void done_undrain(const struct cli *cli, const json_t *answer, const char *nodes)
{
    const json_t *plan = plan_of(answer);
    if (strstr(member(answer, "result"), "still marked") != NULL) {
        printf("%s\n", member(answer, "result"));
        say_next(cli, "See why:", "keepstep get nodes %s", member(plan, "nodes"));
        say_next(cli, "Clear a mark:", "keepstep undrain %s --clear CODE --reason \"...\"",
                 member(plan, "nodes"));
    } else if (is(cli, "uncordon")) {
        printf("%s: may be chosen again.\n", nodes);
    } else {
        printf("%s: %s.\n", nodes, said_of(answer));
        say_next(cli, "Look:", "keepstep get nodes %s", member(plan, "nodes"));
    }
}

static void done_validate(const struct cli *cli, const json_t *plan, const char *nodes)
{
    printf("%s: validating (%s).\n", nodes, cli->level != NULL ? cli->level : "quick");
    if (number(plan, "node_count") == 1) {
        say_next(cli, "How it ends:", "keepstep describe node %s", member(plan, "nodes"));
    } else {
        say_next(cli, "How it ends:", "keepstep get nodes %s", member(plan, "nodes"));
    }
}

static void print_done(const struct cli *cli, const json_t *answer)
{
    char nodes[SENTENCE];
    const json_t *plan = plan_of(answer);
    nodes_format(member(plan, "nodes"), (uint64_t)number(plan, "node_count"), nodes, sizeof nodes);
    if (!truth(answer, "changed")) {
        printf("%s\n", member(answer, "result"));
    } else if (is(cli, "drain")) {
        done_drain(cli, plan, nodes);
    } else if (is(cli, "cordon")) {
        done_cordon(cli, plan, nodes);
    } else if (is(cli, "validate")) {
        done_validate(cli, plan, nodes);
    } else if (is(cli, "remove")) {
        printf("%s: removed. A node that comes back under that name joins as a new one.\n", nodes);
    } else {
        done_undrain(cli, answer, nodes);
    }
}

static void print_dry(const struct cli *cli, const json_t *answer)
{
    show_plan(cli, answer);
    printf("Nothing was changed.\n");
}

/* ---- the verb -------------------------------------------------------------------------------- */

static json_t *body_of(const struct cli *cli)
{
    struct buf nodes;
    buf_init(&nodes, NODES_MAX);
    for (uint32_t i = 1; i < cli->count; i++) {
        const char *word = cli->words[i];
        word += strncmp(word, "node/", 5) == 0 ? 5 : 0;
        (void)!buf_printf(&nodes, "%s%s", i > 1 ? "," : "", word);
    }
    json_t *body = nodes.overflow
                       ? NULL
                       : json_pack("{s:s, s:s, s:s}", "nodes", buf_text(&nodes), "action",
                                   cli->words[0], "reason", cli->reason != NULL ? cli->reason : "");
    buf_done(&nodes);
    if (body != NULL && cli->when != NULL) {
        json_object_set_new(body, "when", json_string(cli->when));
    }
    if (body != NULL && cli->clear != NULL) {
        json_object_set_new(body, "clear", json_string(cli->clear));
    }
    if (body != NULL && cli->accept_inventory) {
        json_object_set_new(body, "accept_inventory", json_true());
    }
    if (body != NULL && cli->skip_validation) {
        json_object_set_new(body, "skip_validation", json_true());
    }
    if (body != NULL && cli->level != NULL) {
        json_object_set_new(body, "level", json_string(cli->level));
    }
    return body;
}

/* A drain that moves slots, and what cannot be taken back, are agreed to first. */
static const char *question(const struct cli *cli, const json_t *answer)
{
    const json_t *plan = plan_of(answer);
    if (is(cli, "drain")) {
        bool moves = slots_of(plan) > 0 && !text_equal(member(plan, "when"), "job-end");
        return moves ? "Drain?" : NULL;
    }
    return "Remove for good?";
}

static int act(struct cli *cli, const char *body, size_t size)
{
    struct answer answer;
    struct change change = {.method = "POST",
                            .path = "/v1/node-actions",
                            .type = "application/json",
                            .body = body,
                            .size = size,
                            .question = is(cli, "drain") || is(cli, "remove") ? question : NULL,
                            .show_plan = show_plan};
    int code = change_confirm(cli, &change);
    code = code == EXIT_DONE ? change_send(cli, &change, &answer) : code;
    if (code != EXIT_DONE) {
        return code;
    }
    if (!say_json(cli, &answer) && !cli->quiet) {
        if (cli->dry_run) {
            print_dry(cli, answer.json);
        } else {
            print_done(cli, answer.json);
        }
    }
    code = change_code(cli, &answer);
    answer_done(&answer);
    return code;
}

int verb_node_action(struct cli *cli)
{
    const char *verb = cli->words[0];
    size_t size = 0;
    bool needs_reason =
        is(cli, "drain") || is(cli, "cordon") || is(cli, "remove") || cli->skip_validation;
    if (cli->count < 2) {
        return say_usage("keepstep %s NODES: which? A hostlist such as gpu-[0001-0004]", verb);
    }
    if (needs_reason && (cli->reason == NULL || cli->reason[0] == '\0')) {
        return say_usage("keepstep %s %s --reason \"why\": a reason is required", verb,
                         cli->words[1]);
    }
    char *body = change_body(body_of(cli), &size);
    if (body == NULL) {
        return EXIT_USAGE;
    }
    int code = act(cli, body, size);
    mem_free(body);
    return code;
}
