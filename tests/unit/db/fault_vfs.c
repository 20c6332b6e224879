/* fault_vfs.c: see the header. One mutex for everything: tests are not in a hurry. */
#include "tests/unit/db/fault_vfs.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "proto/base/check.h"

struct fault_file {
    sqlite3_file base;
    sqlite3_file *real; /* lies behind this struct */
};

static struct {
    pthread_mutex_t mutex;
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    bool registered;
    enum fault_mode mode;
    uint32_t classes;
    uint64_t nth;
    bool once;
    int rc;
    uint64_t count;
    uint64_t hits;
} layer = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct fault_file *)(void *)file)->real;
}

/* ---- striking ------------------------------------------------------------------------------ */

/* Counts one operation; true when it is to be struck. Called with the mutex. */
static bool strikes(uint32_t class)
{
    if ((layer.classes & class) == 0) {
        return false;
    }
    layer.count++;
    if (layer.mode == FAULT_NONE || layer.count < layer.nth ||
        (layer.once && layer.count != layer.nth)) {
        return false;
    }
    layer.hits++;
    return true;
}

/* SQLITE_OK: go on. */
static int strike(uint32_t class)
{
    pthread_mutex_lock(&layer.mutex);
    int rc = SQLITE_OK;
    if (strikes(class)) {
        if (layer.mode != FAULT_FAIL) {
            _exit(FAULT_EXIT_CODE);
        }
        rc = layer.rc;
    }
    pthread_mutex_unlock(&layer.mutex);
    return rc;
}

/* ---- files --------------------------------------------------------------------------------- */

static int file_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int file_read(sqlite3_file *file, void *data, int size, sqlite3_int64 offset)
{
    int rc = strike(FAULT_READ);
    return rc != SQLITE_OK ? rc : real_of(file)->pMethods->xRead(real_of(file), data, size, offset);
}

static int file_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 offset)
{
    sqlite3_file *real = real_of(file);
    int rc = SQLITE_OK;
    pthread_mutex_lock(&layer.mutex);
    if (strikes(FAULT_WRITE)) {
        if (layer.mode != FAULT_FAIL || layer.rc == SQLITE_FULL) {
            (void)real->pMethods->xWrite(real, data, size / 2, offset); /* torn */
        }
        if (layer.mode != FAULT_FAIL) {
            _exit(FAULT_EXIT_CODE);
        }
        rc = layer.rc;
    }
    pthread_mutex_unlock(&layer.mutex);
    return rc != SQLITE_OK ? rc : real->pMethods->xWrite(real, data, size, offset);
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int rc = strike(FAULT_TRUNCATE);
    return rc != SQLITE_OK ? rc : real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int file_sync(sqlite3_file *file, int flags)
{
    int rc = strike(FAULT_SYNC);
    return rc != SQLITE_OK ? rc : real_of(file)->pMethods->xSync(real_of(file), flags);
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int file_lock(sqlite3_file *file, int level)
{
    int rc = strike(FAULT_LOCK);
    return rc != SQLITE_OK ? rc : real_of(file)->pMethods->xLock(real_of(file), level);
}

static int file_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int file_reserved(sqlite3_file *file, int *result)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), result);
}

static int file_control(sqlite3_file *file, int op, void *argument)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), op, argument);
}

static int file_sector(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int file_device(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int file_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **at)
{
    int rc = strike(FAULT_SHM_MAP);
    return rc != SQLITE_OK
               ? rc
               : real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, at);
}

static int file_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    /* Unlocking never fails. */
    int rc = (flags & SQLITE_SHM_LOCK) != 0 ? strike(FAULT_SHM_LOCK) : SQLITE_OK;
    return rc != SQLITE_OK ? rc
                           : real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
}

static void file_shm_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int file_shm_unmap(sqlite3_file *file, int remove)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), remove);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_device,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
};

/* ---- the layer ----------------------------------------------------------------------------- */

static int layer_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                      int *ret_flags)
{
    (void)vfs;
    struct fault_file *fault = (struct fault_file *)(void *)file;
    file->pMethods = NULL;
    int rc = strike(FAULT_OPEN);
    if (rc != SQLITE_OK) {
        return SQLITE_CANTOPEN;
    }
    fault->real = (sqlite3_file *)(void *)(fault + 1);
    rc = layer.real->xOpen(layer.real, name, fault->real, flags, ret_flags);
    file->pMethods = fault->real->pMethods != NULL ? &methods : NULL;
    return rc;
}

static int layer_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    (void)vfs;
    int rc = strike(FAULT_DELETE);
    return rc != SQLITE_OK ? SQLITE_IOERR_DELETE : layer.real->xDelete(layer.real, name, sync);
}

const char *fault_vfs(void)
{
    if (!layer.registered) {
        layer.real = sqlite3_vfs_find(NULL);
        CHECK(layer.real != NULL);
        layer.vfs = *layer.real; /* what is not about files goes straight through */
        layer.vfs.zName = "fault";
        layer.vfs.pNext = NULL;
        layer.vfs.szOsFile = (int)sizeof(struct fault_file) + layer.real->szOsFile;
        layer.vfs.xOpen = layer_open;
        layer.vfs.xDelete = layer_delete;
        int rc = sqlite3_vfs_register(&layer.vfs, 0);
        CHECK(rc == SQLITE_OK);
        layer.registered = true;
    }
    return layer.vfs.zName;
}

void fault_set(enum fault_mode mode, uint32_t classes, uint64_t nth, bool once, int rc)
{
    pthread_mutex_lock(&layer.mutex);
    layer.mode = mode;
    layer.classes = classes;
    layer.nth = nth;
    layer.once = once;
    layer.rc = rc;
    layer.count = 0;
    layer.hits = 0;
    pthread_mutex_unlock(&layer.mutex);
}

void fault_heal(void)
{
    pthread_mutex_lock(&layer.mutex);
    layer.mode = FAULT_NONE;
    pthread_mutex_unlock(&layer.mutex);
}

uint64_t fault_count(void)
{
    pthread_mutex_lock(&layer.mutex);
    uint64_t count = layer.count;
    pthread_mutex_unlock(&layer.mutex);
    return count;
}

uint64_t fault_hits(void)
{
    pthread_mutex_lock(&layer.mutex);
    uint64_t hits = layer.hits;
    pthread_mutex_unlock(&layer.mutex);
    return hits;
}
