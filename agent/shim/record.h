/* record.h: small pieces that both writers of an attempt's folder share. Libc only. */
#ifndef KEEPSTEP_SHIM_RECORD_H
#define KEEPSTEP_SHIM_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/shim/shim.h"

/* FNV-1a 64 of the bytes: against torn writes and accidents, not against people. */
uint64_t shim_record_checksum(const void *data, size_t size);

/* A record's checksum field, over what lies before it. */
uint64_t shim_record_seal(const struct shim_record *record);

/* pwrite of everything at offset; 0 or -errno (-ENOSPC when the system writes nothing). */
int shim_record_write_all(int fd, const void *data, size_t size, off_t offset);

/* Hash of /proc/sys/kernel/random/boot_id, 0 when it cannot be read. */
uint64_t shim_record_boot_hash(void);

/* What /proc/<pid>/stat says; a process is named by (pid, start_ticks). -ESRCH: no such process.
 * Never blocks: stat needs no lock of the process's memory. */
struct shim_process {
    int32_t pid;
    int32_t parent;
    int32_t group;
    char state;      /* R S D T Z X … of the first thread */
    bool leaving;    /* it exits, or a signal ends it; closing its files can take long */
    int32_t threads; /* a Z with more than one still runs */
    uint64_t start_ticks;
};
int shim_record_process(int32_t pid, struct shim_process *ret_process);

#endif
