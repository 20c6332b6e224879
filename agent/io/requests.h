/* requests.h: what the controller asks this node to look at: checks, logs, snapshots.
 *
 * Everything that lies on a path of the job is looked at by a helper child that runs as the job's
 * user and has a deadline; one that does not come back is itself the result. */
#ifndef KEEPSTEP_AGENT_REQUESTS_H
#define KEEPSTEP_AGENT_REQUESTS_H

#include "agent/io/agent_io.h"

enum {
    REQUESTS_MAX = 32,
    REQUESTS_CHECK_MS = 5000,
    REQUESTS_LOG_MS = 10000,
    REQUESTS_LOG_MAX = 1 << 20,
};

struct agent_requests *requests_create(struct agent_io *io);
void requests_close(struct agent_requests *requests);
struct agent_requests *requests_free(struct agent_requests *requests);

void requests_check(struct agent_requests *requests, const struct msg_check *check);
void requests_log_read(struct agent_requests *requests, const struct msg_log_read *read);
void requests_snapshot(struct agent_requests *requests, const struct msg_snapshot_ask *ask);

#endif
