/* kinds.c: see kinds.h. The limits leave room for fields that later versions add: the largest
 * message of today fills at most half of each small one, which a test watches. */
#include "proto/wire/kinds.h"

#include <assert.h>
#include <stddef.h>

#include "proto/base/check.h"
#include "proto/base/message.h"
#include "proto/wire/frame.h"
#include "proto/wire/layouts.h"

enum {
    SMALL = 4 * 1024,
    DETAIL = 8 * 1024,           /* what one rank's program says */
    REPORT = 16 * 1024,          /* attempts with their ranks */
    VALUE = 12 * 1024,           /* one exchanged value */
    TEXT = 64 * 1024 + 4 * 1024, /* one borrowed text and what goes with it */
};

static_assert((int)TEXT <= (int)FRAME_BODY_MAX && (int)EXCHANGE_VALUE_MAX <= (int)VALUE / 2,
              "limits fit");
static_assert(SPEC_TEXT_MAX <= 65536 && LOG_CHUNK_MAX <= 65536 && SNAPSHOT_TEXT_MAX <= 65536,
              "texts fit their frames");

enum {
    AGENT = FRAME_FROM_AGENT,
    CONTROLLER = FRAME_FROM_CONTROLLER,
    BOTH = FRAME_FROM_AGENT | FRAME_FROM_CONTROLLER,
};

static const struct wire_kind kinds[] = {
    [MSG_HELLO] = {AGENT, REPORT, &layout_hello},
    [MSG_BEAT] = {AGENT, REPORT, &layout_beat},
    [MSG_GOODBYE] = {AGENT, SMALL, &layout_goodbye},
    [MSG_RANK_ENDS] = {AGENT, REPORT, &layout_rank_ends},
    [MSG_FACT] = {AGENT, SMALL, &layout_fact},
    [MSG_PEER_SAID] = {AGENT, SMALL, &layout_peer_said},
    [MSG_CHECKPOINT] = {AGENT, SMALL, &layout_checkpoint},
    [MSG_EXCHANGE] = {BOTH, VALUE, &layout_exchange},
    [MSG_CHECK_RESULT] = {AGENT, SMALL, &layout_check_result},
    [MSG_LOG_DATA] = {AGENT, TEXT, &layout_log_data},
    [MSG_SNAPSHOT_DATA] = {AGENT, TEXT, &layout_snapshot_data},
    [MSG_RANK_DETAIL] = {AGENT, DETAIL, &layout_rank_detail},
    [MSG_SAVE_SAID] = {AGENT, SMALL, &layout_save_said},
    [MSG_VALIDATED] = {AGENT, SMALL, &layout_validated},
    [MSG_WELCOME] = {CONTROLLER, SMALL, &layout_welcome},
    [MSG_ACK] = {CONTROLLER, SMALL, &layout_ack},
    [MSG_DESIRED] = {CONTROLLER, TEXT, &layout_desired},
    [MSG_CHECK] = {CONTROLLER, TEXT, &layout_check},
    [MSG_CHECKPOINT_ANSWER] = {CONTROLLER, SMALL, &layout_checkpoint_answer},
    [MSG_PEER_ASK] = {CONTROLLER, SMALL, &layout_peer_ask},
    [MSG_LOG_READ] = {CONTROLLER, SMALL, &layout_log_read},
    [MSG_SNAPSHOT_ASK] = {CONTROLLER, SMALL, &layout_snapshot_ask},
    [MSG_PEERS] = {CONTROLLER, SMALL, &layout_peers},
    [MSG_SAVE_ASK] = {CONTROLLER, TEXT, &layout_save_ask},
    [MSG_VALIDATE] = {CONTROLLER, SMALL, &layout_validate},
    [MSG_PEER_QUESTION] = {FRAME_FROM_ASKER, SMALL, &layout_peer_question},
    [MSG_PEER_REPLY] = {FRAME_FROM_PEER, SMALL, &layout_peer_reply},
};

const struct wire_kind *kinds_find(uint8_t kind)
{
    return kind < ARRAY_SIZE(kinds) && kinds[kind].layout != NULL ? &kinds[kind] : NULL;
}
