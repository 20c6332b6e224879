/* explain.c: `keepstep explain verdict I-0042`: the rule that decided, the facts that it looked at,
 * and what was ruled out; `keepstep explain rules`: the whole table. */
#include <stdio.h>
#include <string.h>

#include "controller/cli/cli.h"
#include "proto/base/text.h"

enum { LINE = 512 };

static void print_fact(const json_t *fact, const char *mark)
{
    char text[LINE];
    const char *signal = member(fact, "signal");
    (void)printf("  %s %s  %-12s %-20s %s\n", mark, member(fact, "time"), member(fact, "node"),
                 signal[0] != '\0' ? signal : member(fact, "source"),
                 harmless(member(fact, "text"), text, sizeof text));
}

static bool has_index(const json_t *list, size_t wanted)
{
    size_t index;
    json_t *one;
    json_array_foreach(list, index, one)
    {
        if (json_integer_value(one) == (json_int_t)wanted) {
            return true;
        }
    }
    return false;
}

/* Those of whose kind something was seen, each with its reason; then the names of the others. */
static void print_ruled_out(const json_t *list)
{
    size_t index;
    json_t *one;
    json_array_foreach(list, index, one)
    {
        long long count = number(one, "facts");
        if (count > 0) {
            (void)printf("Ruled out  %s: %lld %s of its kind, but it needs: %s\n",
                         member(one, "rule"), count, plural((uint64_t)count, "fact", "facts"),
                         member(one, "when"));
        }
    }
    (void)printf("Not seen  ");
    json_array_foreach(list, index, one)
    {
        if (number(one, "facts") == 0) {
            (void)printf(" %s", member(one, "rule"));
        }
    }
    (void)printf("\n");
}

static void print_verdict(const json_t *incident)
{
    char text[LINE];
    const json_t *verdict = json_object_get(incident, "verdict");
    const json_t *told = json_object_get(incident, "explanation");
    (void)printf("Incident %s of %s, attempt %lld, step %lld\n", member(incident, "id"),
                 member(incident, "job"), number(incident, "attempt"), number(incident, "step"));
    if (!json_is_object(verdict)) {
        (void)printf("Not judged yet: evidence is still collected.\n");
        return;
    }
    (void)printf("Verdict    %s fault, %s, repair %s, confidence %s\n",
                 member(verdict, "fault_owner"), member(verdict, "action"),
                 member(verdict, "repair_lane"), member(verdict, "confidence"));
    (void)printf("Why        %s\n", harmless(member(verdict, "why"), text, sizeof text));
    if (!json_is_object(told)) {
        (void)printf("Rule       %s, which this controller's table does not have\n",
                     member(verdict, "rule"));
        return;
    }
    (void)printf("Rule       %s: %s\nThen       %s\n", member(told, "rule"), member(told, "when"),
                 member(told, "then"));
    const json_t *used = json_object_get(told, "facts_used");
    (void)printf(
        "Facts      %zu in all; * the rule looked at, %lld only follow, %lld mean nothing\n",
        json_array_size(json_object_get(incident, "facts")), number(told, "followers"),
        number(told, "noise"));
    size_t index;
    json_t *fact;
    json_array_foreach(json_object_get(incident, "facts"), index, fact)
    {
        print_fact(fact, has_index(used, index) ? "*" : " ");
    }
    print_ruled_out(json_object_get(told, "ruled_out"));
}

static void print_rules(const json_t *answer)
{
    size_t index;
    json_t *one;
    (void)printf("The first that matches decides.\n");
    json_array_foreach(json_object_get(answer, "items"), index, one)
    {
        (void)printf("%2zu %-20s %s\n   %-20s -> %s\n", index + 1, member(one, "rule"),
                     member(one, "when"), "", member(one, "then"));
    }
}

int verb_explain(struct cli *cli)
{
    const bool rules = cli->count == 2 && text_equal(cli->words[1], "rules");
    if (!rules && (cli->count != 3 || !text_equal(cli->words[1], "verdict"))) {
        return say_usage("keepstep explain verdict INCIDENT, or keepstep explain rules");
    }
    struct buf path;
    struct answer answer;
    path_start(&path, rules ? "/v1/rules" : "/v1/incidents/", rules ? "" : cli->words[2], "");
    int code = path_get(cli, &path, &answer);
    if (code != EXIT_DONE) {
        return code;
    }
    if (!say_json(cli, &answer)) {
        (rules ? print_rules : print_verdict)(answer.json);
    }
    answer_done(&answer);
    return EXIT_DONE;
}
