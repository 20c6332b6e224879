/* launch_spec.h: from a job file's tree and an order to what the shim is given.
 *
 * The only place of the agent that reads a job file. It is the controller's JSON (checked there, so
 * a wrong type here is a version that does not fit, and an error). All calls may block in the user
 * database: make them on the pool. */
#ifndef KEEPSTEP_AGENT_LAUNCH_SPEC_H
#define KEEPSTEP_AGENT_LAUNCH_SPEC_H

#include <stddef.h>
#include <stdint.h>

#include "agent/rank/mailbox.h"
#include "agent/shim/shim.h"
#include "proto/base/err.h"
#include "proto/base/message.h"

struct launch_spec;

MUST_CHECK int launch_spec_parse(const char *text, size_t size, struct launch_spec **ret_spec,
                                 struct err *err);
struct launch_spec *launch_spec_free(struct launch_spec *spec);

/* Borrowed from the spec; "" when the job file has none. */
const char *launch_spec_env_file(const struct launch_spec *spec);
const char *launch_spec_checkpoint_dir(const struct launch_spec *spec);
const char *launch_spec_checkpoint_format(const struct launch_spec *spec);
const char *launch_spec_checkpoint_marker(const struct launch_spec *spec);
const char *launch_spec_checkpoint_reader(const struct launch_spec *spec);
/* tensor x pipeline: in how many pieces the model lies; 0 when the file does not say. */
uint64_t launch_spec_model_parts(const struct launch_spec *spec);

/* Whom the ranks run as. */
struct launch_user {
    uint32_t uid;
    uint32_t gid;
    uint32_t group_count;
    uint32_t groups[SHIM_GROUPS_MAX];
    char name[NAME_SIZE];
    char home[PATH_SIZE];
    char shell[PATH_SIZE];
};
/* run.user, or whom this process runs as. -EPERM: root without run.allow_root, or another user than
 * ours when we are not root; -ENOENT: no such user. */
MUST_CHECK int launch_spec_user(const struct launch_spec *spec, struct launch_user *ret_user,
                                struct err *err);

struct launch_input {
    const struct msg_desired *desired;
    const char *cluster_id;
    const char *node;
    const char *log_dir;        /* folder of this attempt's output */
    const char *mail_dir;       /* folder of mailboxes */
    const char *cookie;         /* of this attempt: 32 hex digits */
    const char *cgroup;         /* of this attempt, or "" */
    const char *env_text;       /* what env_file holds, or NULL */
    const char *const *environ; /* of the agent, for run.inherit_env; NULL-terminated */
};

/* Everything of one launch: the shim's parameters, and a mailbox order and names for each rank.
 * One allocation tree; launch_plan_free frees all. */
struct launch_plan {
    struct shim_launch launch;
    struct mailbox_order orders[RANKS_PER_NODE_MAX];
    const char *mailboxes[RANKS_PER_NODE_MAX];   /* file names in mail_dir */
    bool own_output;                             /* output lies in log_dir: made beforehand */
    const char *error_files[RANKS_PER_NODE_MAX]; /* absolute, in log_dir */
    char **texts;
    size_t text_count;
    size_t text_capacity;
};
/* -EINVAL: run.command is missing, a value has a wrong type, too long … */
MUST_CHECK int launch_plan_build(const struct launch_spec *spec, const struct launch_user *user,
                                 const struct launch_input *input, struct launch_plan **ret_plan,
                                 struct err *err);
struct launch_plan *launch_plan_free(struct launch_plan *plan);

/* Coordinates of a global rank for an order such as "tp-cp-pp-dp", innermost first; words that are
 * no dimension of ours ("ep") count as one wide. -EINVAL: a word is missing or comes twice. */
MUST_CHECK int launch_coordinates(const char *order, uint32_t rank,
                                  const struct mailbox_coordinates *sizes,
                                  struct mailbox_coordinates *ret_coordinates);

/* The folder to restore from: the order's, else DIR/step-S.a-A; "" = from the beginning. */
void launch_restore_directory(const char *checkpoint_dir, const struct msg_desired *desired,
                              char *target, size_t size);

#endif
