/* fields_to.c: plain struct -> protobuf-c struct, ready to be packed.
 *
 * Nothing is copied but numbers: strings and bytes of the protobuf-c struct point into the plain
 * one. Messages and arrays of pointers are built in the caller's arena. */
#include <errno.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"
#include "proto/wire/fields.h"
#include "proto/wire/member.h"
#include "proto/wire/rules.h"
#include "proto/wire/walk.h"

static void *arena_take(struct fields_arena *arena, size_t size)
{
    size_t rounded = (size + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
    CHECK(rounded <= sizeof arena->memory - arena->used);
    void *memory = arena->memory + arena->used;
    arena->used += rounded;
    return memory;
}

static void *arena_message(struct fields_arena *arena, const struct layout *layout)
{
    ProtobufCMessage *message = arena_take(arena, layout->descriptor->sizeof_message);
    layout->descriptor->message_init(message);
    return message;
}

/* A sentence must not keep a beat from leaving: what is not UTF-8 (a cut character, a raw kernel
 * line) becomes question marks. */
static const char *clean_sentence(struct fields_arena *arena, const char *text)
{
    size_t size = strlen(text);
    if (text_is_utf8(text, size)) {
        return text;
    }
    char *clean = arena_take(arena, size + 1);
    size_t i = 0;
    while (i < size) {
        size_t width = 1;
        while (width < 4 && i + width < size && !text_is_utf8(text + i, width)) {
            width++;
        }
        if (text_is_utf8(text + i, width)) {
            memcpy(clean + i, text + i, width);
            i += width;
        } else {
            clean[i++] = '?';
        }
    }
    clean[size] = '\0';
    return clean;
}

static const char *text_to_send(struct walk *walk, const struct field *field, const char *text)
{
    return field->rule == TEXT_SENTENCE ? clean_sentence(walk->arena, text) : text;
}

/* Makes an array of pointers for a repeated field, or leaves it NULL when there is none. */
static uint8_t *put_array(struct walk *walk, const struct field *field, uint32_t count,
                          uint8_t *proto)
{
    size_t size = count;
    uint8_t *array = count > 0 ? arena_take(walk->arena, size * sizeof(void *)) : NULL;
    memcpy(proto + field->proto_count_at, &size, sizeof size);
    member_store_pointer(proto + field->proto_at, array);
    return array;
}

static void put_bytes(const struct field *field, const uint8_t *plain, uint8_t *proto)
{
    ProtobufCBinaryData bytes = {.len = member_load_count(field, plain)};
    const uint8_t *data =
        field->type == FIELD_BLOB ? member_load_pointer(plain + field->at) : plain + field->at;
    member_store_pointer((uint8_t *)&bytes.data, bytes.len > 0 ? data : NULL);
    memcpy(proto + field->proto_at, &bytes, sizeof bytes);
}

static int put_field(struct walk *walk, const struct field *field, uint8_t *plain, uint8_t *proto,
                     struct err *err)
{
    int r = rules_check(walk->code, field, plain, err);
    if (r < 0) {
        return r;
    }
    const char *text = (const char *)plain + field->at;
    uint8_t *array;
    switch (field->type) {
    case FIELD_UINT:
    case FIELD_INT:
    case FIELD_BOOL:
    case FIELD_ENUM:
        member_store_uint(proto + field->proto_at, field->proto_size,
                          member_load_uint(plain + field->at, field->size));
        break;
    case FIELD_TEXT:
        member_store_pointer(proto + field->proto_at, text_to_send(walk, field, text));
        break;
    case FIELD_TEXTS:
        array = put_array(walk, field, member_load_count(field, plain), proto);
        for (uint32_t i = 0; i < member_load_count(field, plain); i++) {
            member_store_pointer(array + i * sizeof(void *),
                                 text_to_send(walk, field, text + (size_t)i * field->size));
        }
        break;
    case FIELD_BYTES:
    case FIELD_BLOB:
        put_bytes(field, plain, proto);
        break;
    case FIELD_MESSAGE:
        member_store_pointer(proto + field->proto_at, arena_message(walk->arena, field->nested));
        break;
    case FIELD_MESSAGES:
        array = put_array(walk, field, member_load_count(field, plain), proto);
        for (uint32_t i = 0; i < member_load_count(field, plain); i++) {
            member_store_pointer(array + i * sizeof(void *),
                                 arena_message(walk->arena, field->nested));
        }
        break;
    }
    return 0;
}

int fields_to_proto(const struct layout *layout, const void *plain, struct fields_arena *arena,
                    ProtobufCMessage **ret_proto, struct err *err)
{
    arena->used = 0;
    struct walk walk = {.code = -EINVAL, .arena = arena, .visit = put_field};
    ProtobufCMessage *message = arena_message(arena, layout);
    walk.levels[0] = (struct walk_level){.layout = layout, .proto = (uint8_t *)message};
    member_store_pointer((uint8_t *)&walk.levels[0].plain, plain); /* put_field only reads it */
    int r = walk_run(&walk, err);
    if (r == 0) {
        *ret_proto = message;
    }
    return r;
}
