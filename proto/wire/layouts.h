/* layouts.h: one layout for each kind of message, layout_hello … layout_peer_reply. Private to
 * proto/wire and its tests. The fields are in the order of keepstep.proto. */
#ifndef KEEPSTEP_WIRE_LAYOUTS_H
#define KEEPSTEP_WIRE_LAYOUTS_H

#include "proto/base/message.h"
#include "proto/wire/fields.h"

#define X(number, upper, lower) extern const struct layout layout_##lower;
MESSAGE_KINDS(X)
#undef X

#endif
