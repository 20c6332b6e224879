/* duration.h: times and sizes as people write them. Pure.
 * "250ms" "90s" "10m" "1h30m" "7d"; "0" is zero. Sizes: "64KiB" "1GiB" "10MB" or plain bytes. */
#ifndef KEEPSTEP_BASE_DURATION_H
#define KEEPSTEP_BASE_DURATION_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

enum { DURATION_TEXT_SIZE = 32 };

MUST_CHECK int duration_parse(const char *text, uint64_t *ret_ms,
                              struct err *err); /* max 100 years */
MUST_CHECK int size_parse(const char *text, uint64_t *ret_bytes, struct err *err);
/* Two units at most: "2m28s", "4.2s" under a minute, "850ms" under a second. */
void duration_format(uint64_t ms, char target[DURATION_TEXT_SIZE]);
/* wall_ms since 1970 as RFC 3339 UTC, "2026-11-29T17:29:01.250Z"; proleptic Gregorian, integer. */
enum { TIME_TEXT_SIZE = 32 };
void time_format(uint64_t wall_ms, char target[TIME_TEXT_SIZE]);

#endif
