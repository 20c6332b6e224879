/* layouts_test.c: the tables against both structs that they describe: every field of every
 * protobuf message is in its table, and every byte of every plain struct but padding travels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/base/check.h"
#include "proto/base/message.h"
#include "proto/wire/fields.h"
#include "proto/wire/kinds.h"
#include "proto/wire/layouts.h"
#include "tests/lib/message_random.h"

static const struct field *find_field(const struct layout *layout, const char *name)
{
    const struct field *found = NULL;
    for (uint32_t i = 0; i < layout->field_count; i++) {
        if (strcmp(layout->fields[i].name, name) == 0) {
            assert_null(found); /* twice in the table */
            found = &layout->fields[i];
        }
    }
    return found;
}

static bool type_fits(const struct field *field, const ProtobufCFieldDescriptor *proto)
{
    bool repeated = proto->label == PROTOBUF_C_LABEL_REPEATED;
    switch (field->type) {
    case FIELD_UINT:
        return proto->type ==
                   (field->size == 8 ? PROTOBUF_C_TYPE_UINT64 : PROTOBUF_C_TYPE_UINT32) &&
               field->proto_size == (field->size == 8 ? 8 : 4);
    case FIELD_INT:
        return proto->type == PROTOBUF_C_TYPE_SINT32 && field->size == 4 && field->proto_size == 4;
    case FIELD_BOOL:
        return proto->type == PROTOBUF_C_TYPE_BOOL && field->size == 1 && field->proto_size == 4;
    case FIELD_ENUM:
        return proto->type == PROTOBUF_C_TYPE_ENUM && field->proto_size == 4;
    case FIELD_TEXT:
        return proto->type == PROTOBUF_C_TYPE_STRING && !repeated;
    case FIELD_TEXTS:
        return proto->type == PROTOBUF_C_TYPE_STRING && repeated &&
               proto->quantifier_offset == field->proto_count_at;
    case FIELD_BYTES:
    case FIELD_BLOB:
        return proto->type == PROTOBUF_C_TYPE_BYTES;
    case FIELD_MESSAGE:
        return proto->type == PROTOBUF_C_TYPE_MESSAGE && !repeated &&
               proto->descriptor == field->nested->descriptor;
    case FIELD_MESSAGES:
        return proto->type == PROTOBUF_C_TYPE_MESSAGE && repeated &&
               proto->quantifier_offset == field->proto_count_at &&
               proto->descriptor == field->nested->descriptor && field->size == field->nested->size;
    }
    return false;
}

/* Depth is that of the messages: three. */
static void compare_with_proto(const struct layout *layout)
{
    const ProtobufCMessageDescriptor *descriptor = layout->descriptor;
    assert_int_equal(layout->field_count, descriptor->n_fields);
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *proto = &descriptor->fields[i];
        const struct field *field = find_field(layout, proto->name);
        if (field == NULL || field->proto_at != proto->offset || !type_fits(field, proto)) {
            fail_msg("%s.%s is not as in the .proto", descriptor->name, proto->name);
        } else if (field->nested != NULL) {
            compare_with_proto(field->nested);
        }
    }
}

static void test_tables_match_proto(void **state)
{
    (void)state;
    for (size_t i = 0; i < message_kind_count; i++) {
        compare_with_proto(kinds_find(message_kinds[i])->layout);
    }
}

/* The enum bounds in the tables are the last values of the .proto, and fallbacks are values. */
static void compare_enums(const struct layout *layout)
{
    for (uint32_t i = 0; i < layout->field_count; i++) {
        const struct field *field = &layout->fields[i];
        if (field->nested != NULL) {
            compare_enums(field->nested);
        }
        if (field->type != FIELD_ENUM) {
            continue;
        }
        const ProtobufCFieldDescriptor *proto =
            protobuf_c_message_descriptor_get_field_by_name(layout->descriptor, field->name);
        const ProtobufCEnumDescriptor *values = proto->descriptor;
        assert_int_equal(values->n_values, field->max + 1);
        for (unsigned v = 0; v < values->n_values; v++) {
            assert_non_null(protobuf_c_enum_descriptor_get_value(values, (int)v));
        }
        assert_true(field->fallback >= ENUM_REFUSE && field->fallback <= (int64_t)field->max);
    }
}

static void test_enums_match_proto(void **state)
{
    (void)state;
    for (size_t i = 0; i < message_kind_count; i++) {
        compare_enums(kinds_find(message_kinds[i])->layout);
    }
}

#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
#define CAN_SEE_PADDING 1
#endif
#endif

#ifdef CAN_SEE_PADDING

/* Zeroes the bytes at base that the layout carries. */
static void clear_carried(const struct layout *layout, uint8_t *base)
{
    for (uint32_t i = 0; i < layout->field_count; i++) {
        const struct field *field = &layout->fields[i];
        bool many = field->type == FIELD_TEXTS || field->type == FIELD_MESSAGES;
        size_t copies = many ? field->max : 1;
        if (many || field->type == FIELD_BYTES || field->type == FIELD_BLOB) {
            memset(base + field->count_at, 0, sizeof(uint32_t));
        }
        for (size_t copy = 0; copy < copies; copy++) {
            uint8_t *member = base + field->at + copy * field->size;
            if (field->nested != NULL) {
                clear_carried(field->nested, member);
            } else {
                memset(member, 0, field->size);
            }
        }
    }
}

static void expect_clear(const char *name, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0) {
            fail_msg("%s: the member at byte %zu of message.h is in no table", name, i);
        }
    }
}

static void test_every_member_travels(void **state)
{
    (void)state;
    struct message message;
#define X(number, upper, lower)                                                                    \
    memset(&message.u.lower, 0xff, sizeof message.u.lower);                                        \
    __builtin_clear_padding(&message.u.lower);                                                     \
    clear_carried(&layout_##lower, (uint8_t *)&message.u.lower);                                   \
    if (MSG_##upper == MSG_FACT) { /* the receiver's own two */                                    \
        message.u.fact.fact.node = 0;                                                              \
        message.u.fact.fact.receive_ms = 0;                                                        \
    }                                                                                              \
    expect_clear(#lower, (const uint8_t *)&message.u.lower, sizeof message.u.lower);
    MESSAGE_KINDS(X)
#undef X
}

#else

static void test_every_member_travels(void **state)
{
    (void)state;
    print_message("skipped: this compiler cannot tell padding from members\n");
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_match_proto),
        cmocka_unit_test(test_enums_match_proto),
        cmocka_unit_test(test_every_member_travels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
