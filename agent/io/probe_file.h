/* probe_file.h: what outlives the agent of its probes: lines of a text file.
 *
 *     keepstep-probes 1
 *     told PROBE state …          what the controller knows and is not well (finding.h)
 *     note PROBE note NAME VALUE
 *     gpu - gpu INDEX UUID PCI
 *
 * The file may be anything: lines that are none are left out. */
#ifndef KEEPSTEP_AGENT_PROBE_FILE_H
#define KEEPSTEP_AGENT_PROBE_FILE_H

#include "agent/core/finding.h"
#include "proto/base/buf.h"

enum { PROBE_FILE_MAX = 1 << 20 };

/* One line's inner part, with the probe's name before it ("" for a gpu). */
typedef void probe_file_line(void *context, const char *probe, const struct finding_line *line);

/* -ENOENT: there is none; -EINVAL: it is of another version; -errno. */
MUST_CHECK int probe_file_read(const char *folder, probe_file_line *take, void *context);

void probe_file_begin(struct buf *text);
void probe_file_told(struct buf *text, const char *probe, const struct finding *finding);
void probe_file_note(struct buf *text, const char *probe, const char *name, const char *value);
void probe_file_gpu(struct buf *text, uint32_t index, const char *uuid, const char *pci);

/* Replaces the file as one. Blocks: for the pool. -errno. */
MUST_CHECK int probe_file_write(const char *folder, const void *bytes, size_t size,
                                struct err *err);

#endif
