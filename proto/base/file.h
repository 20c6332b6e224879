/* file.h: a whole file into memory, with a limit. For files that people name: the error says which
 * one, what is wrong with it and, where that helps, what to do. */
#ifndef KEEPSTEP_BASE_FILE_H
#define KEEPSTEP_BASE_FILE_H

#include <stddef.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"

/* Appends the file's bytes to buf; what has no end of its own (a pipe, a device) is read to its end
 * too. -EISDIR: a folder; -EFBIG: more than size_max bytes; or what the system said. */
MUST_CHECK int file_read(const char *path, size_t size_max, struct buf *buf, struct err *err);

#endif
