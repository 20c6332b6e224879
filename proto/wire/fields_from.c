/* fields_from.c: unpacked protobuf-c struct -> plain struct. Everything here is a peer's word:
 * what does not fit its member is refused before it is stored, the rest by rules.c. */
#include <errno.h>
#include <string.h>

#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "proto/wire/fields.h"
#include "proto/wire/member.h"
#include "proto/wire/rules.h"
#include "proto/wire/walk.h"

static int get_number(const struct field *field, uint8_t *plain, const uint8_t *proto,
                      struct err *err)
{
    uint64_t value = member_load_uint(proto + field->proto_at, field->proto_size);
    if (field->type == FIELD_BOOL) {
        value = value != 0;
    } else if (field->type == FIELD_ENUM && value > field->max && field->fallback >= 0) {
        value = (uint64_t)field->fallback;
    }
    /* Looked at before it is stored: a wide number must not lose its upper bits in a narrow one. */
    if (field->type != FIELD_INT && value > field->max) {
        return err_set(err, -EBADMSG, "%s: %llu is above %llu", field->name,
                       (unsigned long long)value, (unsigned long long)field->max);
    }
    member_store_uint(plain + field->at, field->size, value);
    return 0;
}

static int get_text(const struct walk *walk, const struct field *field, const char *source,
                    uint8_t *target, struct err *err)
{
    size_t size = walk->text_size(source);
    if (size >= field->size) {
        return err_set(err, -EBADMSG, "%s: %zu bytes of at most %u", field->name, size,
                       field->size - 1);
    }
    if (!text_is_utf8(source, size)) {
        return err_set(err, -EBADMSG, "%s: the text is not UTF-8 or has control bytes",
                       field->name);
    }
    memcpy(target, source, size);
    target[size] = '\0';
    return 0;
}

static int get_count(const struct field *field, uint8_t *plain, size_t count, struct err *err)
{
    if (count > field->max) {
        return err_set(err, -EBADMSG, "%s: %zu of at most %llu", field->name, count,
                       (unsigned long long)field->max);
    }
    member_store_count(field, plain, count);
    return 0;
}

static int get_texts(const struct walk *walk, const struct field *field, uint8_t *plain,
                     const uint8_t *proto, struct err *err)
{
    size_t count = member_load_size(proto + field->proto_count_at);
    const uint8_t *array = member_load_pointer(proto + field->proto_at);
    int r = get_count(field, plain, count, err);
    for (size_t i = 0; i < count && r == 0; i++) {
        r = get_text(walk, field, member_load_pointer(array + i * sizeof(void *)),
                     plain + field->at + i * field->size, err);
    }
    return r;
}

static int get_bytes(const struct field *field, uint8_t *plain, const uint8_t *proto,
                     struct err *err)
{
    ProtobufCBinaryData bytes;
    memcpy(&bytes, proto + field->proto_at, sizeof bytes);
    int r = get_count(field, plain, bytes.len, err);
    if (r < 0 || bytes.len == 0) {
        return r;
    }
    uint8_t *target = plain + field->at;
    if (field->type == FIELD_BLOB) {
        uint8_t *text = mem_try(bytes.len + 1, 1);
        if (text == NULL) {
            return err_set(err, -ENOMEM, "%s: no memory for %zu bytes", field->name, bytes.len);
        }
        member_store_pointer(target, text);
        target = text;
    }
    memcpy(target, bytes.data, bytes.len);
    return 0;
}

static int get_field(struct walk *walk, const struct field *field, uint8_t *plain, uint8_t *proto,
                     struct err *err)
{
    int r = 0;
    switch (field->type) {
    case FIELD_UINT:
    case FIELD_INT:
    case FIELD_BOOL:
    case FIELD_ENUM:
        r = get_number(field, plain, proto, err);
        break;
    case FIELD_TEXT:
        r = get_text(walk, field, member_load_pointer(proto + field->proto_at), plain + field->at,
                     err);
        break;
    case FIELD_TEXTS:
        r = get_texts(walk, field, plain, proto, err);
        break;
    case FIELD_BYTES:
    case FIELD_BLOB:
        r = get_bytes(field, plain, proto, err);
        break;
    case FIELD_MESSAGE:
        break;
    case FIELD_MESSAGES:
        r = get_count(field, plain, member_load_size(proto + field->proto_count_at), err);
        break;
    }
    return r < 0 ? r : rules_check(walk->code, field, plain, err);
}

int fields_from_proto(const struct layout *layout, const ProtobufCMessage *proto,
                      size_t (*text_size)(const char *text), void *ret_plain, struct err *err)
{
    struct walk walk = {.code = -EBADMSG, .text_size = text_size, .visit = get_field};
    walk.levels[0] = (struct walk_level){.layout = layout, .plain = ret_plain};
    member_store_pointer((uint8_t *)&walk.levels[0].proto, proto); /* get_field only reads it */
    return walk_run(&walk, err);
}

void fields_done(const struct layout *layout, void *plain)
{
    for (uint32_t i = 0; i < layout->field_count; i++) {
        const struct field *field = &layout->fields[i];
        if (field->type == FIELD_BLOB) {
            uint8_t *at = (uint8_t *)plain + field->at;
            member_store_pointer(at, mem_free(member_load_pointer(at)));
            member_store_count(field, plain, 0);
        }
    }
}
