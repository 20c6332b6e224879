/* peers.h: questions between agents, "are you there, and have you your controller?".
 *
 * The port: a peer connects, sends one PEER_QUESTION, gets one PEER_REPLY and is closed; whoever
 * sends anything else, or nothing for PEERS_TIMEOUT_MS, is closed. At most PEERS_MAX at a time.
 *
 * A probe: connect, ask, wait. What each outcome proves:
 *   answered by that name      PEER_ANSWERS
 *   answered by another name   PEER_LEFT
 *   connection refused, reset  PEER_REFUSED: the host lives, the agent does not
 *   connected, no answer       PEER_SILENT: the process is stopped
 *   no connection in time      PEER_NOTHING */
#ifndef KEEPSTEP_AGENT_PEERS_H
#define KEEPSTEP_AGENT_PEERS_H

#include "agent/io/agent_io.h"
#include "proto/base/err.h"

enum { PEERS_MAX = 64, PEERS_TIMEOUT_MS = 2000, PEERS_BACKLOG = 128 };

/* Listens; *ret_port is the port in fact. -EADDRINUSE … with a text. */
MUST_CHECK int peers_create(struct agent_io *io, struct agent_peers **ret_peers, uint16_t *ret_port,
                            struct err *err);
void peers_close(struct agent_peers *peers);
struct agent_peers *peers_free(struct agent_peers *peers);

void peers_probe(struct agent_peers *peers, const struct agent_probe *probe);
void peers_reply(struct agent_peers *peers, uint64_t token, const struct msg_peer_reply *reply);

#endif
