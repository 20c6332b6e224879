/* raw.h: writes protobuf fields by hand, for bodies that no honest sender makes. */
#ifndef KEEPSTEP_TESTS_RAW_H
#define KEEPSTEP_TESTS_RAW_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"

void raw_varint(struct buf *buf, uint32_t field, uint64_t value);
void raw_bytes(struct buf *buf, uint32_t field, const void *data, size_t size);
void raw_text(struct buf *buf, uint32_t field, const char *text);
/* Everything that `inner` holds, as one nested message. */
void raw_message(struct buf *buf, uint32_t field, const struct buf *inner);

#endif
