/* index.c: who has this name, who has this session? Asked with every message of every agent, so that
 * neither may cost a walk over the fleet.
 *
 * Names never leave the core (a node that is removed keeps its number), so their table only grows.
 * A session's place is a hint: its number modulo the size, and the node that had such a number last.
 * Whether it has it still is read in the node itself. The driver's numbers end in a place of its own
 * table, so that two sessions of one moment never share a hint; where they do, all nodes are asked. */
#include "controller/core/impl.h"
#include "proto/base/mem.h"

enum { PLACES_PER_NODE = 4, PLACES_MIN = 64 };

void index_create(struct core *core)
{
    uint32_t places = PLACES_MIN;
    while (places < PLACES_PER_NODE * core->limits.agents) {
        places *= 2;
    }
    core->index.mask = places - 1;
    core->index.by_name = mem_alloc(places, sizeof core->index.by_name[0]);
    core->index.by_session = mem_alloc(places, sizeof core->index.by_session[0]);
}

void index_free(struct core *core)
{
    core->index.by_name = mem_free(core->index.by_name);
    core->index.by_session = mem_free(core->index.by_session);
}

/* Where the name is, or the free place where it belongs: there always is one. */
static uint32_t place_of(const struct core *core, const char *name)
{
    uint64_t hash = hash_text(HASH_INIT, name);
    uint32_t place = (uint32_t)(hash ^ hash >> 32) & core->index.mask;
    while (core->index.by_name[place] != 0 &&
           !text_equal(core->nodes[core->index.by_name[place] - 1].d.name, name)) {
        place = (place + 1) & core->index.mask;
    }
    return place;
}

void index_name(struct core *core, const struct node *node)
{
    core->index.by_name[place_of(core, node->d.name)] = node->d.node;
}

uint32_t core_node_find(const struct core *core, const char *name)
{
    return core->index.by_name[place_of(core, name)];
}

void index_session(struct core *core, const struct node *node)
{
    core->index.by_session[node->session & core->index.mask] = node->d.node;
}

struct node *node_by_session(struct core *core, uint64_t session)
{
    uint32_t hint = core->index.by_session[session & core->index.mask];
    if (hint != 0 && core->nodes[hint - 1].session == session) {
        return &core->nodes[hint - 1];
    }
    for (uint32_t i = 0; i < core->node_count; i++) {
        if (core->nodes[i].session == session) {
            return &core->nodes[i];
        }
    }
    return NULL;
}
