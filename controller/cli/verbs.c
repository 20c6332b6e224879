/* verbs.c: the verbs, and what `keepstep help` says of them. */
#include <stdio.h>
#include <string.h>

#include "controller/cli/cli.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

static const struct verb verbs[] = {
    {"submit", verb_submit, "FILE|-", "start a job", "dry-run|hold|wait|follow",
     "keepstep submit llama.yaml --dry-run      what would it do?\n"
     "keepstep submit llama.yaml\n"
     "keepstep submit llama.yaml --wait         the exit code says how it ended\n"},
    {"get", verb_get, "jobs|nodes|spares|checkpoints|recoveries|attempts [NAME...]", "list things",
     "all|job|limit|problems|state|user",
     "keepstep get jobs\n"
     "keepstep get nodes                        folded by state\n"
     "keepstep get nodes gpu-[0001-0003]\n"
     "keepstep get nodes --problems             what is broken, and why\n"
     "keepstep get checkpoints llama\n"
     "keepstep get recoveries llama -o json\n"},
    {"describe", verb_describe, "job|node|recovery NAME", "everything about one", "",
     "keepstep describe job llama\n"
     "keepstep describe node gpu-0417\n"
     "keepstep describe recovery r-0132\n"},
    {"watch", verb_watch, "events|job NAME|node NAME", "see events as they happen",
     "for|severity|since|since-revision|type",
     "keepstep watch job llama\n"
     "keepstep watch events --since 3h --for node/gpu-0417\n"
     "keepstep watch events --severity warn -o jsonl\n"},
    {"wait", verb_wait, "job NAME", "until a job is there", "for|timeout",
     "keepstep wait job llama                   until it is over\n"
     "keepstep wait job llama --for running --timeout 10m\n"
     "keepstep wait job llama --for step=1000\n"},
    {"logs", verb_logs, "JOB", "a rank's output", "attempt|follow|node|rank|tail",
     "keepstep logs llama                       rank 0, the last 64 KiB\n"
     "keepstep logs llama --rank 4252 --tail 50\n"
     "keepstep logs llama --rank 7 --attempt 3 --node gpu-0417\n"
     "keepstep logs llama -f\n"},
    {"drain", verb_node_action, "NODES", "take nodes out; a running job moves to spares",
     "dry-run|reason|when",
     "keepstep drain gpu-[1184-1190] --reason \"swap DIMMs, DC-4520\"\n"
     "keepstep drain gpu-1190 --reason slow --when now --dry-run\n"
     "keepstep drain gpu-1190 --reason \"rack work\" --when job-end -y\n"},
    {"undrain", verb_node_action, "NODES", "let nodes back in, after checks",
     "accept-inventory|clear|dry-run|reason|skip-validation",
     "keepstep undrain gpu-0417 --reason \"GPU 3 replaced, DC-4519\"\n"
     "keepstep undrain gpu-0417 --clear xid-79 --reason \"replaced\"\n"
     "keepstep undrain gpu-0417 --skip-validation --reason \"was only a cable\"\n"},
    {"validate", verb_node_action, "NODES", "have nodes without a slot show that they are fit",
     "dry-run|level|reason",
     "keepstep validate gpu-0417\n"
     "keepstep validate gpu-[0400-0431] --level full\n"},
    {"cordon", verb_node_action, "NODES", "no new use; a running job keeps its slots",
     "dry-run|reason", "keepstep cordon gpu-[0992-1023] --reason \"power work tonight\"\n"},
    {"uncordon", verb_node_action, "NODES", "undo cordon", "dry-run|reason",
     "keepstep uncordon gpu-[0992-1023]\n"},
    {"remove", verb_node_action, "NODES", "forget nodes that are gone for good", "dry-run|reason",
     "keepstep remove gpu-0733 --reason \"scrapped\"\n"},
    {"cancel", verb_job_action, "JOB", "stop a job for good", "dry-run|reason",
     "keepstep cancel llama\n"},
    {"hold", verb_job_action, "JOB", "stop it after the next checkpoint, keep it", "dry-run|reason",
     "keepstep hold llama --reason \"cooling\"\n"},
    {"release", verb_job_action, "JOB", "let a held job go on", "dry-run|reason",
     "keepstep release llama\n"},
    {"restart", verb_job_action, "JOB", "planned restart from the last checkpoint",
     "after-checkpoint|dry-run|reason",
     "keepstep restart llama --after-checkpoint --reason \"new driver\"\n"},
    {"checkpoint", verb_checkpoint, "now JOB | pin|unpin|verify JOB [STEP]",
     "ask for a save; keep one, read one again", "dry-run|reason|wait",
     "keepstep checkpoint now llama\n"
     "keepstep checkpoint pin llama 184000 --reason \"before lr change\"\n"
     "keepstep checkpoint unpin llama 184000\n"
     "keepstep checkpoint verify llama           the newest usable one\n"
     "keepstep checkpoint verify llama 184000 --wait\n"},
    {"recover", verb_recover, "show ID | history [JOB]", "what happened, why, what it cost",
     "job|limit",
     "keepstep recover history llama\n"
     "keepstep recover show r-0132\n"},
    {"explain", verb_explain, "verdict INCIDENT | rules",
     "which rule decided, by which facts, and what was ruled out", "",
     "keepstep explain verdict I-0042\n"
     "keepstep explain rules\n"},
    {"layout", verb_layout, "table JOB", "which node holds which slot", "",
     "keepstep layout table llama\n"},
    {"where", verb_where, "JOB RANK...", "where a rank runs", "", "keepstep where llama 4252\n"},
    {"goodput", verb_goodput, "JOB", "where the time went", "", "keepstep goodput llama\n"},
    {"status", verb_status, "", "the controller and its nodes in one look", "",
     "keepstep status\n"},
    {"automation", verb_automation, "status|pause|resume|observe|act",
     "what Keepstep may do by itself", "dry-run|reason",
     "keepstep automation status\n"
     "keepstep automation pause --reason \"network work\"\n"},
    {"admin", verb_admin, "adopt|stop-foreign | key init FILE", "rare things", "dry-run|reason",
     "keepstep admin key init /etc/keepstep/agents.key\n"
     "keepstep admin adopt --reason \"database restored\"\n"},
    {"diagnose", verb_tool, "log|incident [FILE] [OPTION...]",
     "what lines of a log mean, and who is at fault, without a controller", "",
     "keepstep diagnose --help                  its verbs\n"
     "keepstep diagnose incident night.tsv -v\n"
     "keepstep diagnose log dmesg.txt --known -v\n"
     "dmesg | keepstep diagnose log -o jsonl\n"},
    {"simulate", verb_tool, "[OPTION...]",
     "months of a fleet in virtual time: what is lost, and why", "",
     "keepstep simulate --help                  its options\n"
     "keepstep simulate --preset llama3 --days 54\n"
     "keepstep simulate --nodes 544 --spares 32 --mtbf 9h --save-stall 5s --sweep "
     "interval=5..60\n"},
    {"version", verb_version, "", "of this program and of the controller", "",
     "keepstep version\n"},
    {"help", verb_help, "[VERB]", "this", "", "keepstep help drain\n"},
};

const struct verb *verbs_all(size_t *ret_count)
{
    *ret_count = ARRAY_SIZE(verbs);
    return verbs;
}

const struct verb *verbs_find(const char *name)
{
    const char *names[ARRAY_SIZE(verbs)];
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
        names[i] = verbs[i].name;
        if (text_equal(verbs[i].name, name)) {
            return &verbs[i];
        }
    }
    const char *closest = text_closest(name, names, ARRAY_SIZE(names));
    if (closest != NULL) {
        (void)say_usage("there is no verb %s; did you mean %s?", name, closest);
    } else {
        (void)say_usage("there is no verb %s; keepstep help lists them", name);
    }
    return NULL;
}

/* main.c starts the tool before it reads any flag: here the verb came after one. */
int verb_tool(struct cli *cli)
{
    return say_usage("%s is the first word: keepstep %s --help", cli->words[0], cli->words[0]);
}

/* ---- help ------------------------------------------------------------------------------------ */

/* What each flag wants and means; the same for every verb that takes it. */
static const struct {
    const char *name;
    const char *form;
    const char *doc;
} flag_docs[] = {
    {"accept-inventory", "", "what the node reports now is what it has"},
    {"after-checkpoint", "", "ask for a save first, so that no step is done again"},
    {"all", "", "jobs that are over, too"},
    {"attempt", "N", "of an earlier attempt; default: the current one"},
    {"clear", "CODE", "take this mark away, whoever set it"},
    {"dry-run", "", "say what would happen; exit code 10 when something would"},
    {"follow", "", "-f: go on with what comes"},
    {"for", "WHAT", "job/NAME, node/NAME, recovery/ID; of wait: running, succeeded, step=N"},
    {"hold", "", "submit it held; keepstep release starts it"},
    {"job", "NAME", "only of this job"},
    {"level", "WORD", "quick (default): its own probes; full: the site's programs, too"},
    {"limit", "N", "at most so many"},
    {"node", "NAME", "read it where it ran"},
    {"problems", "", "only nodes that are not healthy"},
    {"rank", "N", "default: 0"},
    {"reason", "TEXT", "why; kept with who and when"},
    {"severity", "WORD", "info, warn or error, and worse"},
    {"since", "DURATION", "begin so long ago: 90s, 3h, 7d"},
    {"since-revision", "N", "begin after this one"},
    {"skip-validation", "", "you vouch for it: it is used without a check; needs --reason"},
    {"state", "WORD", "only in this state"},
    {"tail", "LINES", "only the last ones"},
    {"timeout", "DURATION", "then exit code 7"},
    {"type", "NAME", "only events of this type, such as NodeLost"},
    {"user", "NAME", "only of this user"},
    {"wait", "", "until it is over; of a job: 0 succeeded, 20 failed, 21 cancelled, 23 held"},
    {"when", "WORD", "checkpoint (default), now, job-end"},
};

static void print_flag(const char *name, size_t size)
{
    for (size_t i = 0; i < ARRAY_SIZE(flag_docs); i++) {
        if (strlen(flag_docs[i].name) == size && memcmp(flag_docs[i].name, name, size) == 0) {
            char form[64];
            text_format(form, sizeof form, "--%s %s", flag_docs[i].name, flag_docs[i].form);
            printf("  %-26s %s\n", form, flag_docs[i].doc);
            return;
        }
    }
    CHECK(false); /* a verb takes a flag that has no row above */
}

static void print_verb(const struct verb *verb)
{
    const char *line = verb->examples;
    printf("keepstep %s %s\n    %s\n\nExamples:\n", verb->name, verb->form, verb->doc);
    while (*line != '\0') {
        size_t size = strcspn(line, "\n");
        printf("  %.*s\n", (int)size, line);
        line += size + 1;
    }
    if (verb->flags[0] != '\0') {
        printf("\nFlags:\n");
    }
    for (const char *flag = verb->flags; *flag != '\0';) {
        size_t size = strcspn(flag, "|");
        print_flag(flag, size);
        flag += size + (flag[size] == '|' ? 1 : 0);
    }
    printf("\nGlobal flags: keepstep help\n");
}

static void print_overview(void)
{
    printf("keepstep keeps a giant synchronous training job alive.\n\n"
           "  keepstep submit job.yaml          start a job\n"
           "  keepstep get jobs                 how are they?\n"
           "  keepstep get nodes --problems     what is broken?\n"
           "  keepstep drain gpu-[0001-0004] --reason \"swap DIMMs\"\n\n"
           "Verbs (keepstep help VERB shows examples and flags):\n");
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
        printf("  %-11s %s\n", verbs[i].name, verbs[i].doc);
    }
    printf("\nGlobal flags:\n"
           "  -s, --server URL      unix:PATH or http://HOST:PORT; else KEEPSTEP_SERVER, else\n"
           "                        unix:/run/keepstep/api.sock\n"
           "  --token-file FILE     whose first line is a token; else KEEPSTEP_TOKEN_FILE\n"
           "  -o, --output FORM     table, wide, json (the REST body), jsonl, name\n"
           "  -y, --yes             do not ask; needed where nobody can be asked\n"
           "  --no-input            never ask\n"
           "  -q, --quiet           only what was asked for\n"
           "\nExit codes: 0 done, 1 failed, 2 usage, 3 no such object, 4 changed meanwhile,\n"
           "5 not allowed, 6 controller unreachable, 7 timeout, 8 refused, 10 would change\n");
}

int verb_help(struct cli *cli)
{
    if (cli->count < 2) {
        print_overview();
        return EXIT_DONE;
    }
    const struct verb *verb = verbs_find(cli->words[1]);
    if (verb == NULL) {
        return EXIT_USAGE;
    }
    print_verb(verb);
    return EXIT_DONE;
}
