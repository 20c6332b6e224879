/* kinds.h: what is known of each kind of message: who may send it, how long it may be, its fields.
 * Private to proto/wire and its tests. */
#ifndef KEEPSTEP_WIRE_KINDS_H
#define KEEPSTEP_WIRE_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/wire/fields.h"

struct wire_kind {
    uint8_t from;      /* bit set of enum frame_from: who may send it */
    uint32_t size_max; /* of the body; at most FRAME_BODY_MAX */
    const struct layout *layout;
};

/* NULL for a kind that this version does not know. */
const struct wire_kind *kinds_find(uint8_t kind);

#endif
