/* core_rig_parts.h: what the files of the rig share; tests include core_rig.h alone. */
#ifndef KEEPSTEP_TESTS_CORE_RIG_PARTS_H
#define KEEPSTEP_TESTS_CORE_RIG_PARTS_H

#include "tests/lib/core_rig.h"

enum { RIG_TICK_MS = 10 };

/* ---- core_rig.c ---- */
void rig_beat(struct rig *rig, uint32_t node); /* at once */

/* ---- core_rig_agents.c ---- */
void rig_deliver(struct rig *rig, struct rig_node *node, const struct message *message);
/* One tick of the node's ranks; true when something changed that an agent would report at once. */
bool rig_live(struct rig *rig, struct rig_node *node);
/* What the node's ranks tell, where it is due again. */
void rig_repeat(struct rig *rig, uint32_t node);

/* ---- core_rig_saves.c ---- */
/* Rank 0 of this node, if it has one, saves as it was asked to. */
void rig_write(struct rig *rig, uint32_t node);
void rig_obey_save(struct rig *rig, struct rig_node *node, const struct msg_save_ask *ask);

#endif
