/* index.c: who has this name, who has this session, what number has this label? Asked with every
 * message of every agent, and of every node in a plan: none of it may cost a walk over the fleet.
 *
 * Names never leave the core (a node that is removed keeps its number), so their table only grows.
 * A session's place is a hint: its number modulo the size, and the node that had such a number last.
 * Whether it has it still is read in the node itself. The driver's numbers end in a place of its own
 * table, so that two sessions of one moment never share a hint; where they do, all nodes are asked. */
#include <assert.h>

#include "controller/core/impl.h"
#include "proto/base/mem.h"

enum { PLACES_PER_NODE = 4, PLACES_MIN = 64, LABEL_PLACES = 2 * LABELS_MAX };
static_assert((LABEL_PLACES & (LABEL_PLACES - 1)) == 0, "a power of two");

void index_create(struct core *core)
{
    uint32_t places = PLACES_MIN;
    while (places < PLACES_PER_NODE * core->limits.agents) {
        places *= 2;
    }
    core->index.mask = places - 1;
    core->index.by_name = mem_alloc(places, sizeof core->index.by_name[0]);
    core->index.by_session = mem_alloc(places, sizeof core->index.by_session[0]);
    core->index.by_label = mem_alloc(LABEL_PLACES, sizeof core->index.by_label[0]);
}

void index_free(struct core *core)
{
    core->index.by_name = mem_free(core->index.by_name);
    core->index.by_session = mem_free(core->index.by_session);
    core->index.by_label = mem_free(core->index.by_label);
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

uint32_t index_label(struct core *core, const char *label)
{
    if (label[0] == '\0') {
        return 0;
    }
    uint64_t hash = hash_text(HASH_INIT, label);
    uint32_t place = (uint32_t)(hash ^ hash >> 32) & (LABEL_PLACES - 1);
    uint32_t number;
    while ((number = core->index.by_label[place]) != 0) {
        if (text_equal(core->labels[number - 1], label)) {
            return number;
        }
        place = (place + 1) & (LABEL_PLACES - 1);
    }
    if (core->label_count == LABELS_MAX) {
        return 0; /* near to nothing: placement is still right, only less local */
    }
    text_copy(core->labels[core->label_count], NAME_SIZE, label);
    core->index.by_label[place] = ++core->label_count;
    return core->label_count;
}
