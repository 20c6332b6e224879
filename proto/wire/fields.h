/* fields.h: moves one message between its plain struct and its protobuf-c struct, by a table.
 *
 * Private to proto/wire and its tests. A layout lists the fields of one struct once; the same list
 * packs, unpacks and checks, so the two directions cannot drift apart. The tables are in
 * layouts.c. What is checked is the plain struct, in both directions: numbers within their range,
 * texts terminated and of their rule, counts within their arrays, and last the layout's own rule.
 *
 * Nothing here trusts the protobuf-c struct beyond what its unpacker promises: pointers are valid
 * and counts are true; contents are anything. Pure but for the blobs (see fields_from_proto). */
#ifndef KEEPSTEP_WIRE_FIELDS_H
#define KEEPSTEP_WIRE_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "proto/base/err.h"

enum field_type {
    FIELD_UINT,     /* uint8_t … uint64_t <-> uint32, uint64; 0 … max */
    FIELD_INT,      /* int32_t <-> sint32; min … max */
    FIELD_BOOL,     /* bool <-> bool */
    FIELD_ENUM,     /* uint8_t, uint16_t or a C enum <-> enum; 0 … max, others become fallback */
    FIELD_TEXT,     /* char[size] <-> string, by rule */
    FIELD_TEXTS,    /* char[][size] and its count <-> repeated string, by rule */
    FIELD_BYTES,    /* uint8_t[max] and its size <-> bytes */
    FIELD_BLOB,     /* borrowed const char * and its size <-> bytes; not terminated by the sender */
    FIELD_MESSAGE,  /* a struct <-> a message; an absent one is all zero */
    FIELD_MESSAGES, /* struct[] and its count <-> repeated message */
};

enum text_rule {
    TEXT_SENTENCE, /* UTF-8, no control bytes but tab and newline; a sender's bad bytes become ? */
    TEXT_NAME,     /* text_is_name() */
    TEXT_NAME_OPT, /* … or "" */
    TEXT_WORD,     /* printable ASCII without blanks, not "" */
    TEXT_WORD_OPT,
    TEXT_HEX_OPT,     /* exactly size - 1 lower-case hex digits, or "" */
    TEXT_ADDRESS_OPT, /* a numeric address, with or without %zone, or "" */
    TEXT_LINE,        /* UTF-8 without any control byte, not "" */
    TEXT_LINE_OPT,
};

enum blob_rule {
    BLOB_ANY,
    BLOB_UTF8,
};

enum { ENUM_REFUSE = -1 }; /* fallback: an unknown value refuses the message */

struct layout;

struct field {
    const char *name;
    enum field_type type;
    uint8_t rule;      /* enum text_rule, enum blob_rule */
    uint32_t at;       /* offset in the plain struct */
    uint32_t size;     /* of the member; of one element where there are several */
    uint32_t proto_at; /* the same in the protobuf-c struct */
    uint32_t proto_size;
    uint32_t count_at; /* TEXTS, MESSAGES, BYTES, BLOB: the uint32_t count or size */
    uint32_t proto_count_at;
    int32_t min;
    int32_t fallback;
    uint64_t max; /* largest value, count or size */
    const struct layout *nested;
};

struct layout {
    const char *name;
    size_t size; /* of the plain struct */
    const ProtobufCMessageDescriptor *descriptor;
    const struct field *fields;
    uint32_t field_count;
    /* Rules between fields; NULL = none. Called once all fields are good; -EBADMSG and the text. */
    int (*check)(const void *plain, struct err *err);
};

/* A fixed piece of memory that fields_to_proto() builds in. Its size is enough for the largest
 * message that the tables allow; tests hold it to that. */
enum { FIELDS_ARENA_SIZE = 16384 };

struct fields_arena {
    size_t used;
    _Alignas(max_align_t) uint8_t memory[FIELDS_ARENA_SIZE];
};

/* Checks *plain and builds the protobuf-c message for it in arena. *ret_proto points into the
 * arena and into *plain and lives as long as both. -EINVAL with the field's path ("attempts[2].
 * ranks[0].state: …") when *plain breaks a rule. */
MUST_CHECK int fields_to_proto(const struct layout *layout, const void *plain,
                               struct fields_arena *arena, ProtobufCMessage **ret_proto,
                               struct err *err);

/* Fills *ret_plain, which must be all zero, from a message that the unpacker made. text_size tells
 * how many bytes a string of the unpacked message really has, so that one with a NUL inside is
 * refused. Blobs are copied into memory that fields_done() frees, terminated by a NUL that their
 * size does not count. On failure *ret_plain is left in part filled: call fields_done() in any
 * case. -EBADMSG with the field's path, -ENOMEM. */
MUST_CHECK int fields_from_proto(const struct layout *layout, const ProtobufCMessage *proto,
                                 size_t (*text_size)(const char *text), void *ret_plain,
                                 struct err *err);

/* Frees the blobs of what fields_from_proto() filled. */
void fields_done(const struct layout *layout, void *plain);

#endif
