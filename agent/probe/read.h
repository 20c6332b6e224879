/* read.h: small files of the kernel, and folders of them, read by probes. Nothing here can be told
 * to stop: it runs in a probe's own process. */
#ifndef KEEPSTEP_PROBE_READ_H
#define KEEPSTEP_PROBE_READ_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"
#include "proto/base/message.h"

enum { READ_PATH_SIZE = 4 * PATH_SIZE, READ_NAMES_MAX = 512, READ_NAME_SIZE = 64 };

/* The file's first size - 1 bytes as a text without white space at its end. -errno. */
MUST_CHECK int read_text(char *target, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Its number, decimal or with 0x; what stands behind a space is left alone. -EINVAL: none. */
MUST_CHECK int read_number(uint64_t *ret_number, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Names in a folder but those that begin with a dot, in natural order (mlx5_2 before mlx5_10). */
struct read_names {
    uint32_t count;
    uint32_t left_out; /* past READ_NAMES_MAX, or too long */
    char names[READ_NAMES_MAX][READ_NAME_SIZE];
};
MUST_CHECK int read_names(struct read_names *ret_names, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Text to a number as read_number does. */
MUST_CHECK int read_parse(const char *text, uint64_t *ret_number);
/* "3 0 17" to so many numbers and no more. */
MUST_CHECK int read_parse_list(const char *text, uint64_t *ret_numbers, uint32_t count);

#endif
