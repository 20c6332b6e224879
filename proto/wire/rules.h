/* rules.h: whether one field of a plain struct is as its table says. Private to proto/wire.
 *
 * Both directions use it, so that what a sender may build is what a receiver takes. */
#ifndef KEEPSTEP_WIRE_RULES_H
#define KEEPSTEP_WIRE_RULES_H

#include "proto/wire/fields.h"

/* 0, or code (negative) with "name: what is wrong". Children of nested fields are not looked at. */
MUST_CHECK int rules_check(int code, const struct field *field, const uint8_t *plain,
                           struct err *err);

#endif
