/* mailboxes.h: the mailboxes of the ranks here, read and answered.
 *
 * A rank rings (a write to its file, seen by inotify) after a request and at a change of phase; then
 * and once a second its status is read; where its counts moved, what is new is read as well. All
 * tables are read when the mailbox is opened, at the ranks' end, and every MAILBOXES_FULL_MS in case
 * a bell was lost. Everything is level state: what was
 * handed to the core before is not handed in again by this process, and all of it again by the next.
 * A mailbox that is missing, cut or garbage is a rank without the library. */
#ifndef KEEPSTEP_AGENT_MAILBOXES_H
#define KEEPSTEP_AGENT_MAILBOXES_H

#include "agent/io/agent_io.h"
#include "proto/base/buf.h"

enum { MAILBOXES_READ_MS = 1000, MAILBOXES_FULL_MS = 10000, MAILBOXES_RING_MS = 5 };

struct agent_mailboxes *mailboxes_create(struct agent_io *io);
void mailboxes_close(struct agent_mailboxes *mailboxes);
struct agent_mailboxes *mailboxes_free(struct agent_mailboxes *mailboxes);

/* Opened once; later calls for the same attempt do nothing. */
void mailboxes_open(struct agent_mailboxes *mailboxes, uint32_t job, uint32_t attempt,
                    uint32_t first_rank, uint32_t rank_count);
/* A full look now: what a rank said last must be known before its end is. */
void mailboxes_look(struct agent_mailboxes *mailboxes, uint32_t job, uint32_t attempt);
/* Its ranks are gone: one last full look, then only answers. */
void mailboxes_ended(struct agent_mailboxes *mailboxes, uint32_t job, uint32_t attempt);
void mailboxes_forget(struct agent_mailboxes *mailboxes, uint32_t job, uint32_t attempt);

void mailboxes_answer(struct agent_mailboxes *mailboxes, uint32_t job, uint32_t attempt,
                      const struct agent_mail_answer *answer);
void mailboxes_request(struct agent_mailboxes *mailboxes, uint32_t job, uint32_t attempt,
                       const struct agent_mail_request *request);

/* Tells every rank of the attempt that it is over: what hangs in a collective may be aborted. */
void mailboxes_abort(struct agent_mailboxes *mailboxes, uint32_t job, uint32_t attempt);

/* JSON for a snapshot: what each rank of (job, attempt) says now. */
void mailboxes_describe(struct agent_mailboxes *mailboxes, uint32_t job, uint32_t attempt,
                        struct buf *out);

#endif
