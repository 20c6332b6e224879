/* catalog_file.h: a file of the site's rows, read over those that a catalogue has. */
#ifndef KEEPSTEP_PROBE_CATALOG_FILE_H
#define KEEPSTEP_PROBE_CATALOG_FILE_H

#include "agent/core/catalog.h"
#include "proto/base/err.h"

/* As catalog_read(); also what file_read() refuses. */
MUST_CHECK int catalog_file_read(struct catalog *catalog, const char *path, struct err *err);

#endif
