/* fault_vfs.h: SQLite's own file layer with something between it and the disk that breaks.
 *
 * Operations of the chosen classes are counted. At the n-th one:
 *   - FAULT_FAIL: it fails with the given result code, once or until fault_heal;
 *   - FAULT_KILL: the process ends in its middle (of a write, half is written).
 * What a machine without power may leave behind is tests/fault/crash_vfs.h. */
#ifndef KEEPSTEP_TESTS_UNIT_DB_FAULT_VFS_H
#define KEEPSTEP_TESTS_UNIT_DB_FAULT_VFS_H

#include <stdbool.h>
#include <stdint.h>

enum fault_class {
    FAULT_WRITE = 1,
    FAULT_SYNC = 2,
    FAULT_TRUNCATE = 4,
    FAULT_OPEN = 8,
    FAULT_DELETE = 16,
    FAULT_SHM_MAP = 32,
    FAULT_SHM_LOCK = 64,
    FAULT_READ = 128,
    FAULT_LOCK = 256,
    FAULT_CHANGES = FAULT_WRITE | FAULT_SYNC | FAULT_TRUNCATE | FAULT_DELETE,
};

enum fault_mode { FAULT_NONE, FAULT_FAIL, FAULT_KILL };
enum { FAULT_EXIT_CODE = 9 };

/* Registers the layer, once; its name for store_options.vfs. */
const char *fault_vfs(void);
/* From now on; nth counts from 1. rc: an SQLite result code, for FAULT_FAIL. */
void fault_set(enum fault_mode mode, uint32_t classes, uint64_t nth, bool once, int rc);
void fault_heal(void);      /* FAULT_NONE; the count stays */
uint64_t fault_count(void); /* operations of the classes since fault_set */
uint64_t fault_hits(void);  /* how many were struck since fault_set */

#endif
