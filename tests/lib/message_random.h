/* message_random.h: random messages that are valid on the wire, for tests of everything that takes
 * messages. The same seed gives the same messages. */
#ifndef KEEPSTEP_TESTS_MESSAGE_RANDOM_H
#define KEEPSTEP_TESTS_MESSAGE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/message.h"
#include "proto/base/prng.h"

enum { MESSAGE_TEXT_MAX = 65536 };

/* All kinds, for loops. */
extern const uint8_t message_kinds[];
extern const size_t message_kind_count;

/* Fills *ret_message with a random message of this kind, padding zeroed: numbers are mostly small,
 * often at a bound, sometimes anything; texts have every length and multi-byte characters.
 * storage (storage_size bytes, at most MESSAGE_TEXT_MAX are used, may be NULL with 0) is where the
 * borrowed text of a message lies: keep it as long as the message. */
void message_random(struct prng *prng, uint8_t kind, char *storage, size_t storage_size,
                    struct message *ret_message);

/* The same with every number, text, count and size as large as it may be on the wire. */
void message_largest(uint8_t kind, char *storage, size_t storage_size, struct message *ret_message);

#endif
