/* words.h: the enums of the domain and the words that people read for them. Pure.
 *
 * One table each: the enum, its count (a constant outside the enum, so that -Wswitch finds a
 * missing case) and its words. The words are the same in code, journal, database, JSON, metrics and
 * CLI. */
#ifndef KEEPSTEP_CORE_WORDS_H
#define KEEPSTEP_CORE_WORDS_H

#include <stdint.h>

/* Node life. The moves are in node.c beside their diagram. */
#define NODE_LIFE(X)                                                                               \
    X(NODE_JOINING, "joining")                                                                     \
    X(NODE_CHECKING, "checking")                                                                   \
    X(NODE_READY, "ready")                                                                         \
    X(NODE_ACTIVE, "active")                                                                       \
    X(NODE_LEAVING, "leaving")                                                                     \
    X(NODE_OUT, "out")                                                                             \
    X(NODE_PROBATION, "probation")

#define MARK_OWNER(X)                                                                              \
    X(MARK_OPERATOR, "operator")                                                                   \
    X(MARK_HEALTH, "health")                                                                       \
    X(MARK_RECOVERY, "recovery")                                                                   \
    X(MARK_REPAIR, "repair")

#define MARK_LEVEL(X)                                                                              \
    X(MARK_NO_NEW, "no-new")                                                                       \
    X(MARK_LEAVE, "leave")

#define LEAVE_WHEN(X)                                                                              \
    X(WHEN_CHECKPOINT, "checkpoint")                                                               \
    X(WHEN_NOW, "now")                                                                             \
    X(WHEN_JOB_END, "job-end")

#define JOB_STATE(X)                                                                               \
    X(JOB_PENDING, "pending")                                                                      \
    X(JOB_STARTING, "starting")                                                                    \
    X(JOB_RUNNING, "running")                                                                      \
    X(JOB_RECOVERING, "recovering")                                                                \
    X(JOB_HELD, "held")                                                                            \
    X(JOB_STOPPING, "stopping")                                                                    \
    X(JOB_SUCCEEDED, "succeeded")                                                                  \
    X(JOB_FAILED, "failed")                                                                        \
    X(JOB_CANCELLED, "cancelled")

/* Phases of a recovery, in order; a launch begins with the fifth. */
#define PHASE(X)                                                                                   \
    X(PHASE_DETECT, "detect")                                                                      \
    X(PHASE_STOP, "stop")                                                                          \
    X(PHASE_PLAN, "plan")                                                                          \
    X(PHASE_CHECK, "check")                                                                        \
    X(PHASE_LAUNCH, "launch")                                                                      \
    X(PHASE_INITIALISE, "init")                                                                    \
    X(PHASE_RESTORING, "restore")                                                                  \
    X(PHASE_FIRST_STEP, "first_step")

/* Why a recovery began. `start` is the first launch of a job: the same sequence, from `plan`. */
#define CAUSE(X)                                                                                   \
    X(CAUSE_START, "start")                                                                        \
    X(CAUSE_NODE, "node")                                                                          \
    X(CAUSE_RANK, "rank")                                                                          \
    X(CAUSE_HANG, "hang")                                                                          \
    X(CAUSE_PLANNED, "planned")

#define OUTCOME(X)                                                                                 \
    X(OUTCOME_OPEN, "open")                                                                        \
    X(OUTCOME_RECOVERED, "recovered")                                                              \
    X(OUTCOME_HELD, "held")                                                                        \
    X(OUTCOME_FAILED, "failed")                                                                    \
    X(OUTCOME_CANCELLED, "cancelled")                                                              \
    X(OUTCOME_SUCCEEDED, "succeeded")

/* Who is at fault; budgets are by this. `software` is what runs on a node and is not the job's:
 * driver, daemons, what an earlier job left behind; `monitor` is what watches the node. */
#define FAULT_OWNER(X)                                                                             \
    X(OWNER_UNKNOWN, "unknown")                                                                    \
    X(OWNER_HARDWARE, "hardware")                                                                  \
    X(OWNER_NETWORK, "network")                                                                    \
    X(OWNER_STORAGE, "storage")                                                                    \
    X(OWNER_FACILITY, "facility")                                                                  \
    X(OWNER_USER, "user")                                                                          \
    X(OWNER_MONITOR, "monitor")                                                                    \
    X(OWNER_PLANNED, "planned")                                                                    \
    X(OWNER_SOFTWARE, "software")

#define JOB_ACTION(X)                                                                              \
    X(DO_NONE, "none")                                                                             \
    X(DO_RESTART, "restart-in-place")                                                              \
    X(DO_EVICT, "evict-and-swap")                                                                  \
    X(DO_HOLD, "hold")                                                                             \
    X(DO_FAIL, "fail-job")

#define REPAIR_LANE(X)                                                                             \
    X(LANE_NONE, "none")                                                                           \
    X(LANE_GPU_RESET, "gpu-reset")                                                                 \
    X(LANE_REBOOT, "reboot")                                                                       \
    X(LANE_DIAG, "diag")                                                                           \
    X(LANE_RMA, "rma")                                                                             \
    X(LANE_NETWORK, "network-ticket")                                                              \
    X(LANE_STORAGE, "storage-ticket")                                                              \
    X(LANE_CLEAN, "clean")

#define CONFIDENCE(X)                                                                              \
    X(CONFIDENCE_LOW, "low")                                                                       \
    X(CONFIDENCE_MEDIUM, "medium")                                                                 \
    X(CONFIDENCE_HIGH, "high")

#define CHECKPOINT_STATE(X)                                                                        \
    X(CKPT_WRITING, "writing")                                                                     \
    X(CKPT_COMPLETE, "complete")                                                                   \
    X(CKPT_VERIFIED, "verified")                                                                   \
    X(CKPT_INCOMPLETE, "incomplete")                                                               \
    X(CKPT_CORRUPT, "corrupt")                                                                     \
    X(CKPT_SUSPECT, "suspect")

/* checkpoint.format: who tells which checkpoints are there. "none": the job has no folder. The
 * first two are told of by the program through the library; the others are found by looking. */
#define SAVE_READER(X)                                                                             \
    X(READER_NONE, "none")                                                                         \
    X(READER_KEEPSTEP, "keepstep")                                                                 \
    X(READER_MEGATRON, "megatron")                                                                 \
    X(READER_TORCH_DCP, "torch-dcp")                                                               \
    X(READER_MARKER, "marker")                                                                     \
    X(READER_COMMAND, "command")

/* hang.progress and hang.log_pattern: whether steps are read from the ranks' output. "else": where
 * no rank uses the library. */
#define LOG_STEPS(X)                                                                               \
    X(LOG_STEPS_NEVER, "never")                                                                    \
    X(LOG_STEPS_ELSE, "else")                                                                      \
    X(LOG_STEPS_ALONE, "alone")

/* Every second of a job has one kind. */
#define TIME_KIND(X)                                                                               \
    X(TIME_PENDING, "pending")                                                                     \
    X(TIME_STARTING, "starting")                                                                   \
    X(TIME_PRODUCTIVE, "productive")                                                               \
    X(TIME_LOST_WORK, "lost_work")                                                                 \
    X(TIME_DETECT, "detect")                                                                       \
    X(TIME_STOP, "stop")                                                                           \
    X(TIME_PLAN, "plan")                                                                           \
    X(TIME_CHECK, "check")                                                                         \
    X(TIME_LAUNCH, "launch")                                                                       \
    X(TIME_INIT, "init")                                                                           \
    X(TIME_RESTORE, "restore")                                                                     \
    X(TIME_FIRST_STEP, "first_step")                                                               \
    X(TIME_CHECKPOINT_STALL, "checkpoint_stall")                                                   \
    X(TIME_WAIT_SPARE, "wait_spare")                                                               \
    X(TIME_HELD, "held")                                                                           \
    X(TIME_PLANNED, "planned")                                                                     \
    X(TIME_STOPPING, "stopping")

/* Who decides how often a job saves, how many spares it keeps. */
#define CHOICE_ORIGIN(X)                                                                           \
    X(ORIGIN_PROGRAM, "program")                                                                   \
    X(ORIGIN_FILE, "file")                                                                         \
    X(ORIGIN_AUTO, "auto")

#define ON_EXHAUSTED(X)                                                                            \
    X(EXHAUSTED_WAIT, "wait")                                                                      \
    X(EXHAUSTED_SHRINK, "shrink")                                                                  \
    X(EXHAUSTED_FAIL, "fail")

#define RESTORE_POLICY(X)                                                                          \
    X(RESTORE_LATEST_COMPLETE, "latest-complete")                                                  \
    X(RESTORE_LATEST_VERIFIED, "latest-verified")                                                  \
    X(RESTORE_FIXED_STEP, "step")

#define SEVERITY(X)                                                                                \
    X(SEVERITY_INFO, "info")                                                                       \
    X(SEVERITY_WARN, "warn")                                                                       \
    X(SEVERITY_ERROR, "error")

/* Where evidence comes from: the words of enum fact_source in proto/base/message.h, same order. */
#define FACT_SOURCE(X)                                                                             \
    X(SOURCE_CONNECTION, "connection-lost")                                                        \
    X(SOURCE_AGENT_DOWN, "agent-down")                                                             \
    X(SOURCE_RANK_END, "rank-end")                                                                 \
    X(SOURCE_NO_PROGRESS, "no-progress")                                                           \
    X(SOURCE_PROBE, "probe")                                                                       \
    X(SOURCE_LOG, "log")                                                                           \
    X(SOURCE_OPERATOR, "operator")                                                                 \
    X(SOURCE_CHECK, "check")                                                                       \
    X(SOURCE_LAUNCH, "launch")

/* What became of the site's hook that cuts a node off. */
#define FENCE_STATE(X)                                                                             \
    X(FENCE_NONE, "none")                                                                          \
    X(FENCE_ASKED, "asked")                                                                        \
    X(FENCE_DONE, "done")                                                                          \
    X(FENCE_FAILED, "failed")

/* How a node was lost. */
#define LOST_HOW(X)                                                                                \
    X(LOST_SILENT, "host silent")                                                                  \
    X(LOST_AGENT_DOWN, "agent down and its ranks ended")                                           \
    X(LOST_FROZEN, "agent frozen and no step completed")                                           \
    X(LOST_AGENT_LONG, "agent away too long")                                                      \
    X(LOST_REBOOTED, "rebooted")                                                                   \
    X(LOST_GONE, "said goodbye")

/* How far a node's repair is. The moves are in repair.c beside their diagram. */
#define REPAIR_STATE(X)                                                                            \
    X(REPAIR_NONE, "none")                                                                         \
    X(REPAIR_WAITING, "waiting")                                                                   \
    X(REPAIR_ORDERED, "ordered")                                                                   \
    X(REPAIR_VALIDATING, "validating")                                                             \
    X(REPAIR_PERSON, "person")

/* The site's programs that mend nodes: the keys hooks.WORD of the controller's file. */
#define REPAIR_HOOK(X)                                                                             \
    X(HOOK_NONE, "none")                                                                           \
    X(HOOK_GPU_RESET, "gpu_reset")                                                                 \
    X(HOOK_REBOOT, "reboot")                                                                       \
    X(HOOK_DIAG, "diag")                                                                           \
    X(HOOK_TICKET, "ticket")

/* What a node must show before it may be used again. */
#define VALIDATION(X)                                                                              \
    X(VALIDATION_NONE, "none")                                                                     \
    X(VALIDATION_QUICK, "quick")                                                                   \
    X(VALIDATION_FULL, "full")

#define WORD_SETS(X)                                                                               \
    X(node_life, NODE_LIFE)                                                                        \
    X(mark_owner, MARK_OWNER)                                                                      \
    X(mark_level, MARK_LEVEL)                                                                      \
    X(leave_when, LEAVE_WHEN)                                                                      \
    X(job_state, JOB_STATE)                                                                        \
    X(phase, PHASE)                                                                                \
    X(cause, CAUSE)                                                                                \
    X(outcome, OUTCOME)                                                                            \
    X(fault_owner, FAULT_OWNER)                                                                    \
    X(job_action, JOB_ACTION)                                                                      \
    X(repair_lane, REPAIR_LANE)                                                                    \
    X(confidence, CONFIDENCE)                                                                      \
    X(checkpoint_state, CHECKPOINT_STATE)                                                          \
    X(save_reader, SAVE_READER)                                                                    \
    X(log_steps, LOG_STEPS)                                                                        \
    X(time_kind, TIME_KIND)                                                                        \
    X(choice_origin, CHOICE_ORIGIN)                                                                \
    X(on_exhausted, ON_EXHAUSTED)                                                                  \
    X(restore_policy, RESTORE_POLICY)                                                              \
    X(severity, SEVERITY)                                                                          \
    X(fact_source, FACT_SOURCE)                                                                    \
    X(fence_state, FENCE_STATE)                                                                    \
    X(lost_how, LOST_HOW)                                                                          \
    X(repair_state, REPAIR_STATE)                                                                  \
    X(repair_hook, REPAIR_HOOK)                                                                    \
    X(validation, VALIDATION)

#define WORDS_ENUM(constant, word)  constant,
#define WORDS_COUNT(constant, word) +1
/* enum node_life_word { NODE_JOINING, … }; enum { node_life_count = 7 }; … */
#define X(name, list)                                                                              \
    enum name##_word{list(WORDS_ENUM)};                                                            \
    enum { name##_count = 0 list(WORDS_COUNT) };                                                   \
    extern const char *const name##_words[];
WORD_SETS(X)
#undef X

/* The word of a value, "?" when it is out of range. */
#define WORD(set, value) word_of(set##_words, set##_count, (uint32_t)(value))
const char *word_of(const char *const *words, uint32_t count, uint32_t value);

#endif
