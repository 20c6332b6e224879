/* crash_vfs.h: a disk that may lose whatever was not synced, under SQLite's own file layer.
 *
 * Everything goes through to real files, so that the store works as ever. Beside them lies what
 * would be on the platter: of each file the bytes as of its last sync and the changes since, of the
 * folder the names as of its last sync and the changes since. Of the changes since, a cut of the
 * power leaves any: each write whole, not at all, or with some of its sectors old, zeroed or
 * random; each truncation, creation, removal and renaming done or not; by a seed, in any
 * combination, so that a later one may be there without an earlier one.
 *
 * crash_begin -> the store lives on crash_vfs() -> at its n-th change or sync the power goes: every
 * later one fails -> crash_lay_out writes what is left into another folder, for the plain file
 * layer to open -> crash_end.
 *
 * Folders are synced by SQLite's file layer when it says so itself (its openDirectory is listened
 * to) and by fsync of a folder; renameat2, unlink and fsync of the store are seen because the
 * program is linked with --wrap for them. One folder at a time; shared memory (-shm) is never on a
 * platter: what is laid out of it is nothing, or noise. */
#ifndef KEEPSTEP_TESTS_FAULT_CRASH_VFS_H
#define KEEPSTEP_TESTS_FAULT_CRASH_VFS_H

#include <stdbool.h>
#include <stdint.h>

/* What a cut did with the changes that no sync had covered. */
struct crash_figures {
    uint64_t kept;
    uint64_t dropped;
    uint64_t garbled;
    uint64_t names_undone; /* of creations, removals and renamings */
};

/* Registers the layer, once; its name for store_options.vfs. */
const char *crash_vfs(void);
/* An empty disk. The power goes at operation `at`, counted from 1; 0: never. */
void crash_begin(uint64_t at);
bool crash_is_cut(void);
uint64_t crash_operations(void); /* changes and syncs since crash_begin */
/* Which of them created, removed or renamed a file, in order; 0: there are no more. */
uint64_t crash_name_operation(uint32_t index);
/* Writes what the cut left into an existing, empty folder; without a cut, as if it were now. */
void crash_lay_out(const char *folder, uint64_t seed, struct crash_figures *figures);
/* Forgets the disk; all its files have been closed. */
void crash_end(void);

#endif
