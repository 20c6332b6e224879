/* job_keys.c: the keys of a job file. */
#include "controller/api/job_spec.h"
#include "proto/base/check.h"

#define SECOND 1000ll
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)
#define GIB    (1ll << 30)

/* path, type, required, live, default, min, max, words, doc */
static const struct config_key keys[] = {
    {"version", CONFIG_INT, false, false, "1", 1, 1, NULL, "schema version of this file"},
    {"name", CONFIG_NAME, true, false, NULL, 0, 0, NULL, "unique among jobs that are not over"},
    {"comment", CONFIG_TEXT, false, true, "", 0, 0, NULL, "one line for people"},
    {"labels", CONFIG_TEXT_MAP, false, true, NULL, 0, 0, NULL, "free keys and values"},
    {"priority", CONFIG_INT, false, false, "50", 0, 100, NULL, "for spares and pending jobs"},

    {"run", CONFIG_GROUP, true, false, NULL, 0, 0, NULL, "what each rank runs"},
    {"run.command", CONFIG_TEXT_LIST, true, false, NULL, 1, 512, NULL, "program and arguments"},
    {"run.workdir", CONFIG_TEXT, false, false, "/", 0, 0, NULL, "folder the ranks start in"},
    {"run.user", CONFIG_NAME, false, false, NULL, 0, 0, NULL,
     "ranks run as this user; default: who submits"},
    {"run.allow_root", CONFIG_BOOL, false, false, "false", 0, 0, NULL, "let ranks run as root"},
    {"run.inherit_env", CONFIG_TEXT_LIST, false, false, NULL, 0, 256, NULL,
     "variables taken over from the agent"},
    {"run.compat", CONFIG_TEXT_LIST, false, false, NULL, 0, 8, NULL,
     "slurm: also the SLURM_ variables that scripts read"},
    {"run.env", CONFIG_TEXT_MAP, false, false, NULL, 0, 0, NULL, "variables of the ranks"},
    {"run.env_file", CONFIG_TEXT, false, false, NULL, 0, 0, NULL,
     "file of KEY=VALUE on each node, kept out of the store"},
    {"run.umask", CONFIG_TEXT, false, false, "0022", 0, 0, NULL, "octal"},
    {"run.output", CONFIG_TEXT, false, false, NULL, 0, 0, NULL,
     "path for output; default: node-local files"},
    {"run.log_max", CONFIG_SIZE, false, false, "1GiB", 1 << 20, 1024 * GIB, NULL,
     "kept of each node-local output, head and tail"},
    {"run.numa", CONFIG_ENUM, false, false, "none", 0, 0, "none|node|socket", "binding of ranks"},
    {"run.core", CONFIG_BOOL, false, false, "false", 0, 0, NULL, "allow core dumps"},

    {"layout", CONFIG_GROUP, true, false, NULL, 0, 0, NULL, "how the ranks are numbered"},
    {"layout.tensor", CONFIG_INT, false, false, "1", 1, 1024, NULL, "tensor parallel"},
    {"layout.context", CONFIG_INT, false, false, "1", 1, 1024, NULL, "context parallel"},
    {"layout.pipeline", CONFIG_INT, false, false, "1", 1, 1024, NULL, "pipeline stages"},
    {"layout.data", CONFIG_INT, false, false, "1", 1, 65535, NULL, "data parallel replicas"},
    {"layout.order", CONFIG_TEXT, false, false, "tp-cp-pp-dp", 0, 0, NULL, "innermost first"},
    {"layout.ranks_per_node", CONFIG_INT, false, false, "8", 1, RANKS_PER_NODE_MAX, NULL,
     "ranks of one slot"},

    {"placement", CONFIG_GROUP, false, false, NULL, 0, 0, NULL, "which nodes"},
    {"placement.pool", CONFIG_NAME, false, false, NULL, 0, 0, NULL, "only nodes of this pool"},
    {"placement.exclude", CONFIG_TEXT, false, false, NULL, 0, 0, NULL, "hostlist never to use"},

    {"spares", CONFIG_GROUP, false, false, NULL, 0, 0, NULL, "hot spares"},
    {"spares.reserve", CONFIG_AUTO_INT, false, true, "0", 0, 4096, NULL,
     "ready nodes that no other job gets; auto: by the failure rate and repair times"},
    {"spares.min_ready", CONFIG_INT, false, true, "0", 0, 4096, NULL,
     "SparesLow when fewer are ready; 0: below the reserve"},
    {"spares.recheck", CONFIG_DURATION, false, true, "1h", MINUTE, 7 * DAY, NULL,
     "a spare is ready only while its last check is younger"},
    {"spares.on_exhausted", CONFIG_ENUM, false, true, "wait", 0, 0, "wait|fail",
     "no spare is left: wait for one, or fail"},

    {"checkpoint", CONFIG_GROUP, false, false, NULL, 0, 0, NULL, "saves"},
    {"checkpoint.dir", CONFIG_TEXT, false, false, NULL, 0, 0, NULL, "where checkpoints live"},
    {"checkpoint.format", CONFIG_ENUM, false, false, "keepstep", 0, 0,
     "keepstep|megatron|torch-dcp|marker|command", "what the program leaves there"},
    {"checkpoint.marker", CONFIG_TEXT, false, false, NULL, 0, 0, NULL,
     "format marker: the file that is written last into each folder"},
    {"checkpoint.reader", CONFIG_NAME, false, false, NULL, 0, 0, NULL,
     "format command: which of the checkpoint_readers in the agents' file"},
    {"checkpoint.interval", CONFIG_AUTO_DURATION, false, true, NULL, SECOND, 7 * DAY, NULL,
     "rank 0 is asked for a save that often; auto: what costs least; default: never"},
    {"checkpoint.on_drain", CONFIG_ENUM, false, true, "request", 0, 0, "request|none",
     "ask for a save before a planned stop"},
    {"checkpoint.drain_wait", CONFIG_DURATION, false, true, "3m", 0, DAY, NULL,
     "how long such a save is waited for"},
    {"checkpoint.restore", CONFIG_TEXT, false, false, "latest-complete", 0, 0, NULL,
     "latest-complete, latest-verified, or a step number"},
    {"checkpoint.keep_last", CONFIG_INT, false, true, "0", 0, 100000, NULL,
     "the newest so many stay, older ones are removed; 0 = nothing ever is"},
    {"checkpoint.keep_every", CONFIG_DURATION, false, true, NULL, MINUTE, 365 * DAY, NULL,
     "with keep_last: one of each such span stays too"},
    {"checkpoint.max_lost", CONFIG_INT, false, true, "2000", 0, INT64_MAX, NULL,
     "steps; above it a person approves the rollback; 0 = no limit"},

    {"signals", CONFIG_GROUP, false, false, NULL, 0, 0, NULL, "how ranks are stopped"},
    {"signals.stop_grace", CONFIG_DURATION, false, true, "30s", 0, HOUR, NULL,
     "between TERM and KILL at a planned stop or cancel"},
    {"signals.recovery_grace", CONFIG_DURATION, false, true, "2s", 0, HOUR, NULL,
     "between TERM and KILL after a failure"},

    {"recovery", CONFIG_GROUP, false, false, NULL, 0, 0, NULL, "what failures may cost"},
    {"recovery.mode", CONFIG_ENUM, false, false, "process", 0, 0, "process",
     "how survivors are restarted"},
    {"recovery.retries", CONFIG_GROUP, false, true, NULL, 0, 0, NULL, "budgets by cause"},
    {"recovery.retries.user", CONFIG_INT, false, true, "1", 0, 1000, NULL, "for the job's faults"},
    {"recovery.retries.unknown", CONFIG_INT, false, true, "3", 0, 1000, NULL, "for unknown ones"},
    {"recovery.no_progress_limit", CONFIG_INT, false, true, "3", 1, 1000, NULL,
     "recoveries without a newer checkpoint"},
    {"recovery.same_node_limit", CONFIG_INT, false, true, "2", 1, 1000, NULL,
     "a node blamed this often in 24 h is not used again"},
    {"recovery.restart_exit_codes", CONFIG_INT_LIST, false, true, "75", 0, EXIT_CODES_MAX, NULL,
     "always restart, free"},
    {"recovery.no_restart_exit_codes", CONFIG_INT_LIST, false, true, "93", 0, EXIT_CODES_MAX, NULL,
     "never restart"},
    {"recovery.start_timeout", CONFIG_DURATION, false, true, "20m", SECOND, DAY, NULL,
     "loading the state"},
    {"recovery.init_timeout", CONFIG_DURATION, false, true, "5m", SECOND, DAY, NULL,
     "launch to communicators up"},

    {"hang", CONFIG_GROUP, false, false, NULL, 0, 0, NULL, "when no step is a hang"},
    {"hang.progress", CONFIG_ENUM, false, true, "auto", 0, 0, "auto|mailbox|log|none",
     "where steps are read; auto: the library, without it the output"},
    {"hang.log_pattern", CONFIG_TEXT, false, false, NULL, 0, 0, NULL,
     "the step in a line of output: POSIX extended with \\d \\s, one group"},
    {"hang.first_step", CONFIG_DURATION, false, true, "20m", SECOND, DAY, NULL, "first step"},
    {"hang.step_timeout", CONFIG_AUTO_DURATION, false, true, "auto", SECOND, DAY, NULL,
     "auto: 5 x median step, at least 30 s"},
    {"hang.warmup_steps", CONFIG_INT, false, true, "5", 0, 100000, NULL,
     "after each start: these may take as long as the first; not with step_timeout"},
};

const struct config_key *job_spec_keys(size_t *ret_count)
{
    *ret_count = ARRAY_SIZE(keys);
    return keys;
}
