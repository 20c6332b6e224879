/* folders.h: the agent's folders and what the shims left in them. Everything here blocks on a local
 * disk: call it on libuv's pool.
 *
 *   STATE/ranks/job-<id>/attempt-<n>/    0700, the shim's (agent/shim/shim.h)
 *   STATE/logs/job-<id>/attempt-<n>/     0711, ours; rank-<r>.log belongs to the job's user
 *   RUN/mail/                            0711; one mailbox for each running rank */
#ifndef KEEPSTEP_AGENT_FOLDERS_H
#define KEEPSTEP_AGENT_FOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/io/launch_spec.h"
#include "agent/shim/shim.h"
#include "proto/base/err.h"
#include "proto/base/message.h"
#include "proto/base/step_pattern.h"

enum { FOLDERS_MAX = 256, FOLDER_PATH_SIZE = PATH_SIZE + 64 };

struct folder_name {
    uint32_t job;
    uint32_t attempt;
};

/* What one attempt's folder tells. */
struct folder_info {
    bool exists;
    bool launch_known;                           /* the fields marked L are filled in */
    bool alive;                                  /* its shim holds the lock */
    bool begun;                                  /* a first record exists: ranks may have run */
    bool empty;                                  /* the shim's last record: nothing was left */
    struct shim_status status;                   /* folded from the records; when begun */
    char cluster_id[CLUSTER_ID_SIZE];            /* L */
    char job_name[NAME_SIZE];                    /* L */
    uint32_t uid;                                /* L */
    uint32_t gid;                                /* L */
    uint32_t first_rank;                         /* L */
    uint32_t rank_count;                         /* L */
    uint64_t log_max;                            /* L: bytes of each output; 0 = no limit */
    char outputs[RANKS_PER_NODE_MAX][PATH_SIZE]; /* L: absolute, or relative to workdir */
    char workdir[PATH_SIZE];                     /* L */
    char cgroup[FOLDER_PATH_SIZE];               /* L: of its ranks; "" = none was asked for */
    char log_pattern[STEP_PATTERN_SIZE];         /* L: of the steps in its outputs; "" = none */
    bool log_alone;                              /* L: … and nothing else tells of steps */
};

void folder_path(const char *state_dir, uint32_t job, uint32_t attempt,
                 char ret_path[FOLDER_PATH_SIZE]);
void folder_log_path(const char *state_dir, uint32_t job, uint32_t attempt,
                     char ret_path[FOLDER_PATH_SIZE]);
void folders_logs_path(const char *state_dir, char ret_path[FOLDER_PATH_SIZE]); /* of all logs */
void folder_mail_path(const char *run_dir, char ret_path[FOLDER_PATH_SIZE]);

/* STATE, RUN and the fixed folders in them. */
MUST_CHECK int folders_make(const char *state_dir, const char *run_dir, struct err *err);

/* All attempts of job (0: of all jobs) that have a folder; at most FOLDERS_MAX. */
size_t folders_list(const char *state_dir, uint32_t job, struct folder_name *ret_names);

void folder_inspect(const char *state_dir, uint32_t job, uint32_t attempt,
                    struct folder_info *ret_info);

/* Makes the folders, the mailboxes and the output files of a plan and writes the launch file. What
 * exists from a start that was cut off is used again, the launch file first of all; an attempt that
 * was begun is left as it is. */
MUST_CHECK int folder_prepare(const char *state_dir, const char *run_dir,
                              const struct launch_plan *plan, struct err *err);

/* A new cookie: 32 random hex digits. */
MUST_CHECK int folder_cookie(char ret_cookie[SHIM_COOKIE_SIZE]);

/* Makes a launch that was never begun impossible. */
void folder_disarm(const char *state_dir, uint32_t job, uint32_t attempt);

/* Removes the folder, its cgroup and the mailboxes, and the logs of all but the `kept` newest attempts. */
void folder_forget(const char *state_dir, const char *run_dir, uint32_t job, uint32_t attempt,
                   uint32_t kept);

/* Where cgroups of ranks go: `wanted` when it is an absolute path; else below this process's own
 * cgroup in the v2 hierarchy; "" when there is none or wanted is "none". */
void folder_cgroup_parent(const char *wanted, char ret_path[FOLDER_PATH_SIZE]);

#endif
