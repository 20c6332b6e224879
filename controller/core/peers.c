/* peers.c: whom an agent may ask when it has lost its controller, before it may think that it
 * alone is cut off.
 *
 * An agent that is cut off right after its start knows nobody by itself. So in each session, and with
 * each order to run, it is told of a few others. What makes one eligible is durable: after a restart
 * of the controller the first agent that is back gets the same list as before, and not an empty one.
 * The list is spread over the cluster, other racks first: who loses a rack's switch must not ask
 * behind it. A choice costs a bounded walk, since all nodes of a job are told at its launch. */
#include "controller/core/impl.h"

enum { WALK_MAX = 256 };

static bool may_be_asked(const struct node *node)
{
    return !node->d.removed && !node->d.lost && node->d.peer_port != 0 &&
           node->d.address[0] != '\0';
}

static bool is_chosen(const struct action *action, uint32_t node)
{
    for (uint32_t i = 0; i < action->u.peers.count; i++) {
        if (action->u.peers.nodes[i] == node) {
            return true;
        }
    }
    return false;
}

/* The first eligible node from that place on. */
static void choose_one(const struct core *core, const struct node *node, uint32_t from,
                       bool other_rack, struct action *action)
{
    const uint32_t walk = core->node_count < WALK_MAX ? core->node_count : WALK_MAX;
    for (uint32_t i = 0; i < walk && action->u.peers.count < PEERS_KNOWN_MAX; i++) {
        const struct node *peer = &core->nodes[(from + i) % core->node_count];
        if (peer != node && may_be_asked(peer) && !is_chosen(action, peer->d.node) &&
            !(other_rack && text_equal(peer->d.rack, node->d.rack))) {
            action->u.peers.nodes[action->u.peers.count++] = peer->d.node;
            return;
        }
    }
}

static void choose(const struct core *core, const struct node *node, struct action *action)
{
    const uint32_t next = node->d.node; /* its own place is this less one */
    for (uint32_t i = 0; i < PEERS_KNOWN_MAX; i++) {
        const uint64_t apart = (uint64_t)i * core->node_count / PEERS_KNOWN_MAX;
        choose_one(core, node, next + (uint32_t)apart, true, action);
    }
    for (uint32_t i = 0; i < PEERS_KNOWN_MAX; i++) {
        choose_one(core, node, next, false, action);
    }
}

static uint64_t fingerprint(const struct core *core, const struct action *action)
{
    uint64_t hash = HASH_INIT;
    for (uint32_t i = 0; i < action->u.peers.count; i++) {
        const struct node *peer = core_node(core, action->u.peers.nodes[i]);
        hash = hash_u64(hash, peer->d.node);
        hash = hash_text(hash, peer->d.address);
        hash = hash_u64(hash, peer->d.peer_port);
    }
    return hash;
}

void peers_tell(struct core *core, struct node *node)
{
    struct action found = {.u.peers.count = 0};
    choose(core, node, &found);
    const uint64_t hash = fingerprint(core, &found);
    if (found.u.peers.count == 0 || hash == node->peers_told) {
        return;
    }
    node->peers_told = hash;
    action_send(core, node, MSG_PEERS)->u.peers = found.u.peers;
}
