/* catalogs.h: the catalogue of log lines that this agent uses: the shipped rows, then those of the
 * site's own file, which win. */
#ifndef KEEPSTEP_AGENT_CATALOGS_H
#define KEEPSTEP_AGENT_CATALOGS_H

#include "agent/core/catalog.h"
#include "proto/base/err.h"

#define CATALOGS_WORD "catalog"

/* path "": the shipped rows alone. The caller owns the result: catalog_free(). */
MUST_CHECK int catalogs_load(const char *path, struct catalog **ret_catalog, struct err *err);

/* `keepstep-agent catalog check FILE` and `catalog show [FILE]`: argv[1] is the word. 0; 2 when
 * the command is wrong, the file cannot be read or a line of it is wrong; 1 when nothing can be
 * printed. */
int catalogs_main(int argc, char **argv);

#endif
