/* message_test.c: the names and numbers of the wire's messages, which never change. */
#include "tests/lib/test.h"

#include <string.h>

#include "proto/base/check.h"
#include "proto/base/message.h"

static void kinds_keep_their_numbers(void **state)
{
    (void)state;
    const struct {
        uint8_t kind;
        const char *name;
    } kinds[] = {
        {1, "hello"},          {2, "beat"},
        {3, "goodbye"},        {4, "rank_ends"},
        {5, "fact"},           {6, "peer_said"},
        {7, "checkpoint"},     {8, "exchange"},
        {9, "check_result"},   {10, "log_data"},
        {11, "snapshot_data"}, {12, "rank_detail"},
        {13, "save_said"},     {14, "validated"},
        {42, "validate"},      {32, "welcome"},
        {33, "ack"},           {34, "desired"},
        {35, "check"},         {36, "checkpoint_answer"},
        {37, "peer_ask"},      {38, "log_read"},
        {39, "snapshot_ask"},  {40, "peers"},
        {41, "save_ask"},      {64, "peer_question"},
        {65, "peer_reply"},
    };
    unsigned named = 0;
    for (size_t index = 0; index < ARRAY_SIZE(kinds); index++) {
        assert_string_equal(message_kind_name(kinds[index].kind), kinds[index].name);
    }
    for (unsigned kind = 0; kind < 256; kind++) {
        named += strcmp(message_kind_name((uint8_t)kind), "unknown") != 0;
    }
    assert_int_equal(named, ARRAY_SIZE(kinds)); /* a new kind belongs into this table */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_keep_their_numbers),
    };
    return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}
