/* journal.h: the agent's durable facts in one small file, STATE/agent.journal.
 *
 * Text, one record a line, so that a person can read it:
 *
 *   keepstep-agent-journal 1
 *   <16 hex digits of FNV-1a over the rest> order <wall_ms> <number> <job> <attempt> <first_rank>
 *       <rank_count> <name> <text>
 *
 * Words are separated by one blank; name and text have blanks, %, control and non-ASCII bytes as
 * %XX, and an empty one is "-". A record counts when its line is whole and its checksum is right.
 * A bad last line is a torn write: it was never acted on and is cut off. A bad line with good ones
 * behind it is damage, and the file is refused.
 *
 * Blocking calls: the driver makes them on libuv's pool, one at a time; only opening and replaying
 * happen before the loop runs. */
#ifndef KEEPSTEP_AGENT_JOURNAL_H
#define KEEPSTEP_AGENT_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/agent_core.h"
#include "proto/base/err.h"

enum {
    AGENT_JOURNAL_LINE_MAX = 2048,
    AGENT_JOURNAL_SIZE_MAX = 64 << 20,
    AGENT_JOURNAL_REWRITE = 4096, /* lines after which the driver rewrites it */
};

struct agent_journal;

/* Opens or makes the file and takes the folder's lock. dir is made when missing (0711). Errors:
 * -EBUSY another agent has the folder, -EBADMSG damage or another format, -errno of the system. */
MUST_CHECK int agent_journal_open(const char *dir, struct agent_journal **ret_journal,
                                  struct err *err);
struct agent_journal *agent_journal_free(struct agent_journal *journal);

/* Hands every good record to visit, in order; visit's non-zero result ends it and is returned. */
MUST_CHECK int agent_journal_replay(struct agent_journal *journal, agent_record_visit *visit,
                                    void *context, struct err *err);

/* Appends and makes durable, all or nothing: on failure the file is as before and the same call may
 * be repeated. */
MUST_CHECK int agent_journal_append(struct agent_journal *journal,
                                    const struct agent_record *records, size_t count,
                                    struct err *err);

/* Replaces all by these records: temporary file, fsync, rename, fsync of the folder. On failure
 * *ret_replaced says which file is the journal now: the old one as it was, which can be appended to as
 * before, or the new one, whose name may not be durable yet: call again. */
MUST_CHECK int agent_journal_rewrite(struct agent_journal *journal,
                                     const struct agent_record *records, size_t count,
                                     bool *ret_replaced, struct err *err);

size_t agent_journal_lines(const struct agent_journal *journal);

/* Tests: die by SIGKILL before or after the at-th record (from 1) that this process appends. */
void agent_journal_crash_at(struct agent_journal *journal, bool before, uint64_t at);

/* One line of the format above, without newline; false when it does not fit. And back: 0 or
 * -EBADMSG. For the file and for tests. */
bool agent_journal_format(const struct agent_record *record, char line[AGENT_JOURNAL_LINE_MAX]);
MUST_CHECK int agent_journal_parse(const char *line, size_t size, struct agent_record *ret_record);

#endif
