/* nccl_line.c: the parts of a completion stand in one order, but with "=", a blank or a name in
 * front of their numbers. */
#include "agent/core/nccl_line.h"

#include "agent/core/line_cursor.h"

/* "12", "IBV_WC_RETRY_EXC_ERR(12)" */
static bool take_value(struct line_cursor *cursor, int32_t *ret_value)
{
    uint64_t value = 0;
    struct line_cursor plain = *cursor;
    if (!cursor_take_number(&plain, &value)) {
        plain = *cursor;
        (void)cursor_take_name(&plain, CURSOR_DIGITS_MAX * 3);
        if (!cursor_take(&plain, "(") || !cursor_take_number(&plain, &value)) {
            return false;
        }
    }
    *cursor = plain;
    *ret_value = line_small(value);
    return true;
}

/* The number behind a word and "=" or a blank; -1: there is none. */
static int32_t number_behind(struct line_cursor rest, const char *word)
{
    int32_t value = -1;
    if (cursor_find(&rest, word) &&
        (cursor_take_byte(&rest, '=') || cursor_take_byte(&rest, ' '))) {
        (void)take_value(&rest, &value);
    }
    return value;
}

/* "10.40.2.5<33092>", "node044.ib<53512>", or one of IPv6 with its interface */
static void read_peer(struct line_cursor rest, struct nccl_completion *completion)
{
    if (!cursor_take(&rest, "from peer ")) {
        return;
    }
    const size_t size = cursor_span(&rest, "< ");
    if (rest.at + size < rest.size && rest.text[rest.at + size] == '<') {
        line_copy(completion->peer, sizeof(completion->peer), rest.text + rest.at, size);
    }
}

bool nccl_completion_read(const char *text, size_t size, struct nccl_completion *ret_completion)
{
    struct line_cursor cursor = {.text = text, .size = size};
    struct nccl_completion completion = {.opcode = -1, .vendor = -1};
    if (!cursor_find(&cursor, "Got completion ")) {
        return false;
    }
    read_peer(cursor, &completion);
    if (!cursor_find(&cursor, "with ") ||
        !(cursor_take(&cursor, "error ") || cursor_take(&cursor, "status=")) ||
        !take_value(&cursor, &completion.status)) {
        return false;
    }
    completion.opcode = number_behind(cursor, "opcode");
    completion.vendor = number_behind(cursor, "vendor err");
    if (completion.vendor < 0) {
        completion.vendor = number_behind(cursor, "vendor_err");
    }
    if (cursor_find(&cursor, " hca ")) {
        line_copy(completion.device, sizeof(completion.device), cursor.text + cursor.at,
                  cursor_span(&cursor, " \n|"));
    }
    *ret_completion = completion;
    return true;
}
