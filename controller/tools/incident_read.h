/* incident_read.h: the files of `keepstep diagnose incident`: what was seen of one or more
 * incidents, one line each, with a tab between the columns:
 *
 *     incident  t_ms  node  stream  line
 *
 * The first line names the columns, in any order, others beside them are passed over; `line` may
 * hold tabs when it is the last. t_ms is when the line was received, of one clock for all nodes.
 * stream is kmsg, stderr, agent or ctl; rows come in any order. A row that cannot be read is told
 * of, and left out. */
#ifndef KEEPSTEP_TOOLS_INCIDENT_READ_H
#define KEEPSTEP_TOOLS_INCIDENT_READ_H

#include "controller/tools/names.h"
#include "proto/base/err.h"

enum {
    INCIDENT_FILE_MAX = 256 * 1024 * 1024, /* bytes */
    INCIDENT_ROWS_MAX = 4 * 1024 * 1024,
    INCIDENT_LINE_MAX = 65536, /* what is behind is cut off */
    INCIDENT_NAME_MAX = 63,    /* of an incident or a node */
};

enum incident_stream { INCIDENT_KMSG, INCIDENT_STDERR, INCIDENT_AGENT, INCIDENT_CTL };

struct incident_row {
    uint32_t incident; /* number among the file's names, from 1 */
    uint32_t number;   /* of its line in the file, from 1 */
    uint64_t t_ms;     /* INCIDENT_T_BASE is the file's 0 */
    uint8_t stream;    /* enum incident_stream */
    const char *node;  /* borrowed from the file's bytes, as `line`; NUL-terminated */
    const char *line;
    size_t size;
};
#define INCIDENT_T_BASE (1ull << 52)

/* Rows by incident, in the order in which the incidents first came, then by time, then as they
 * stood in the file. */
struct incident_file {
    struct names incidents;
    struct incident_row *rows;
    uint32_t count;
};

/* Says that a line is left out, or what was done about it. */
typedef void incident_warn(void *context, uint32_t number, const char *text);

/* bytes: of the file, with one NUL behind, written over, and needed as long as the result is used.
 * -EINVAL: no column names; -E2BIG: too many rows; -ENOMEM. */
MUST_CHECK int incident_read(char *bytes, size_t size, incident_warn *warn, void *context,
                             struct incident_file *ret_file, struct err *err);
void incident_file_done(struct incident_file *file);

#endif
