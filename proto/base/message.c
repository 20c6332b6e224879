/* message.c: names of message kinds, for logs and traces. */
#include "proto/base/message.h"

const char *message_kind_name(uint8_t kind)
{
    switch (kind) {
#define X(number, upper, lower)                                                                    \
    case MSG_##upper:                                                                              \
        return #lower;
        MESSAGE_KINDS(X)
#undef X
    }
    return "unknown"; /* a byte from a peer, not necessarily one of ours */
}
