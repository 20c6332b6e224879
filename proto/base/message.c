/* message.c: names of message kinds, for logs and traces. */
#include "proto/base/message.h"

#include "proto/base/check.h"

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

const char *communicator_axis_word(uint32_t axis)
{
    static const char *const words[] = {"other", "world", "tensor", "context", "pipeline", "data"};
    return axis < ARRAY_SIZE(words) ? words[axis] : words[AXIS_OTHER];
}

const char *collective_operation_word(uint32_t operation)
{
    static const char *const words[] = {
        "none",   "other",      "all-reduce", "all-gather", "reduce-scatter", "broadcast",
        "reduce", "all-to-all", "send",       "receive",    "barrier",
    };
    return operation < ARRAY_SIZE(words) ? words[operation] : words[OPERATION_OTHER];
}
