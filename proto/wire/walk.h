/* walk.h: the common part of both directions: one visit for each field, nested messages included.
 * Private to proto/wire. */
#ifndef KEEPSTEP_WIRE_WALK_H
#define KEEPSTEP_WIRE_WALK_H

#include "proto/wire/fields.h"

enum { WALK_DEPTH_MAX = 4 }; /* hello, attempts, ranks, and one to spare */

struct walk_level {
    const struct layout *layout;
    uint8_t *plain;
    uint8_t *proto;
    uint32_t field; /* index of the field that is next */
    uint32_t child; /* of a nested field: how many children are done or begun */
};

struct walk {
    struct walk_level levels[WALK_DEPTH_MAX]; /* the caller fills levels[0] */
    uint32_t depth;
    int code; /* what a broken rule is called: -EINVAL of our own struct, -EBADMSG of a peer's */
    struct fields_arena *arena;            /* to protobuf: where to build */
    size_t (*text_size)(const char *text); /* from protobuf: the true length of a string */
    /* Carries one field over and checks it: 0, or a code and err. */
    int (*visit)(struct walk *walk, const struct field *field, uint8_t *plain, uint8_t *proto,
                 struct err *err);
};

/* Walks to the end: 0, or the first visitor's or rule's code, with the path of the field in front
 * of the text. */
MUST_CHECK int walk_run(struct walk *walk, struct err *err);

#endif
