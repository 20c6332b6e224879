/* wire.c: packs and unpacks, with protobuf-c's own code between our plain structs and the bytes.
 *
 * Unpacking is where a peer could make us take memory: two bytes on the wire are a whole struct
 * here. All memory of one unpacking therefore comes from an allocator with a budget. It puts the
 * size in front of each block, which also tells how long a string really was: protobuf-c takes a
 * NUL inside a string without a word. */
#include "proto/wire/wire.h"

#include <errno.h>
#include <stdalign.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/wire/fields.h"
#include "proto/wire/frame.h"
#include "proto/wire/kinds.h"

enum {
    UNPACK_FACTOR = 4, /* memory for unpacking, as a multiple of the kind's longest body */
    ARENA_SIZE = 8192, /* … of which so much comes from the stack: a beat needs no allocation */
};

bool wire_protocol_fits(uint32_t protocol)
{
    int distance = (int)(protocol & 0xffff) - WIRE_MINOR;
    return protocol >> 16 == WIRE_MAJOR && distance >= -1 && distance <= 1;
}

/* ---- encode --------------------------------------------------------------------------------- */

struct sink {
    ProtobufCBuffer base;
    struct buf *out;
};

static void sink_append(ProtobufCBuffer *base, size_t size, const uint8_t *data)
{
    struct sink *sink = (struct sink *)base;    /* its first member */
    CHECK(buf_put(sink->out, data, size) == 0); /* the whole frame was seen to fit */
}

int wire_encode(const struct message *message, struct buf *out, struct err *err)
{
    const struct wire_kind *kind = kinds_find(message->kind);
    if (kind == NULL) {
        return err_set(err, -ENOTSUP, "there is no message of kind %u", message->kind);
    }
    const char *name = message_kind_name(message->kind);
    struct fields_arena arena;
    ProtobufCMessage *proto;
    int r = fields_to_proto(kind->layout, &message->u, &arena, &proto, err);
    if (r < 0) {
        (void)err_wrap(err, "%s", name);
        return r;
    }
    size_t size = protobuf_c_message_get_packed_size(proto);
    CHECK(size <= kind->size_max); /* the bounds of the fields see to it */
    size_t room = out->overflow ? 0 : out->size_max - out->size;
    if (FRAME_HEADER_SIZE + size > room) {
        return err_set(err, -EMSGSIZE, "%s: a frame of %zu bytes, room for %zu", name,
                       FRAME_HEADER_SIZE + size, room);
    }
    uint8_t header[FRAME_HEADER_SIZE];
    frame_header_write(header, message->kind, (uint32_t)size);
    struct sink sink = {.base = {.append = sink_append}, .out = out};
    sink_append(&sink.base, sizeof header, header);
    CHECK(protobuf_c_message_pack_to_buffer(proto, &sink.base) == size);
    return 0;
}

/* ---- decode --------------------------------------------------------------------------------- */

/* Counts what was ever given out and not what is still in use: that too bounds the work. */
struct budget {
    size_t left;
    size_t arena_used;
    uint8_t *arena; /* of the caller's stack: what unpacks into little costs no allocation */
    bool spent;     /* a request went beyond it */
    bool refused;   /* the system had no memory */
};

union block {
    size_t size;
    max_align_t align;
};

static void *budget_alloc(void *data, size_t size)
{
    struct budget *budget = data;
    if (size > budget->left || budget->left - size < sizeof(union block)) {
        budget->spent = true;
        return NULL;
    }
    size_t whole = (sizeof(union block) + size + sizeof(union block) - 1) / sizeof(union block) *
                   sizeof(union block);
    union block *block = NULL;
    if (whole <= ARENA_SIZE - budget->arena_used) {
        block = (union block *)(void *)(budget->arena + budget->arena_used);
        budget->arena_used += whole;
    } else {
        block = mem_try(1, sizeof *block + size);
    }
    if (block == NULL) {
        budget->refused = true;
        return NULL;
    }
    budget->left -= sizeof *block + size;
    block->size = size;
    return block + 1;
}

static void budget_free(void *data, void *pointer)
{
    const struct budget *budget = data;
    uintptr_t offset = (uintptr_t)pointer - (uintptr_t)budget->arena; /* wraps below it */
    bool in_arena = offset < ARENA_SIZE;
    if (pointer != NULL && !in_arena) {
        (void)mem_free((union block *)pointer - 1);
    }
}

/* The bytes of an unpacked string, without the NUL that protobuf-c added. */
static size_t budget_text_size(const char *text)
{
    if (text == protobuf_c_empty_string) {
        return 0; /* what an absent string is; not from our allocator */
    }
    union block block;
    memcpy(&block, text - sizeof block, sizeof block);
    CHECK(block.size > 0);
    return block.size - 1;
}

static int unpack_failure(const struct budget *budget, struct err *err)
{
    if (budget->refused) {
        return err_set(err, -ENOMEM, "no memory to unpack it");
    }
    if (budget->spent) {
        return err_set(err, -EMSGSIZE, "it unpacks into more memory than its kind may");
    }
    return err_set(err, -EBADMSG, "the body is not a protobuf message of this kind");
}

static int decode(const struct wire_kind *kind, const uint8_t *body, size_t size, void *ret_plain,
                  struct err *err)
{
    if (size > kind->size_max) {
        return err_set(err, -EMSGSIZE, "%zu bytes, at most %u", size, kind->size_max);
    }
    alignas(union block) uint8_t arena[ARENA_SIZE];
    struct budget budget = {.left = (size_t)kind->size_max * UNPACK_FACTOR, .arena = arena};
    ProtobufCAllocator allocator = {
        .alloc = budget_alloc, .free = budget_free, .allocator_data = &budget};
    const uint8_t nothing = 0;
    ProtobufCMessage *proto = protobuf_c_message_unpack(kind->layout->descriptor, &allocator, size,
                                                        size > 0 ? body : &nothing);
    if (proto == NULL) {
        return unpack_failure(&budget, err);
    }
    int r = fields_from_proto(kind->layout, proto, budget_text_size, ret_plain, err);
    protobuf_c_message_free_unpacked(proto, &allocator);
    if (r < 0) {
        fields_done(kind->layout, ret_plain);
    }
    return r;
}

int wire_decode(uint8_t kind_number, const uint8_t *body, size_t size, struct message *ret_message,
                struct err *err)
{
    const struct wire_kind *kind = kinds_find(kind_number);
    if (kind == NULL) {
        return err_set(err, -ENOTSUP, "there is no message of kind %u", kind_number);
    }
    struct message message;
    memset(&message, 0, sizeof message); /* padding too, so that equal messages are equal bytes */
    message.kind = kind_number;
    int r = decode(kind, body, size, &message.u, err);
    if (r < 0) {
        (void)err_wrap(err, "%s", message_kind_name(kind_number));
        return r;
    }
    memcpy(ret_message, &message, sizeof message);
    return 0;
}

void message_done(struct message *message)
{
    const struct wire_kind *kind = message != NULL ? kinds_find(message->kind) : NULL;
    if (kind != NULL) {
        fields_done(kind->layout, &message->u);
    }
}
