/* crash_vfs.c: see the header. One mutex for everything: tests are not in a hurry.
 *
 * A file's changes and the folder's are two kinds of list, oldest first; a sync folds its list into
 * what is durable. An inode lives as long as the disk, since a name that was removed may come back
 * with it. */
#include "tests/fault/crash_vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/prng.h"
#include "proto/base/text.h"

enum {
    SECTOR = 512,
    NAMES_MAX = 16,
    NAME_LENGTH = 96,
    PATH_LENGTH = 512,
    SHM_NOISE = 32768,
    NAMED_MAX = 64
};

/* A write; without data, a truncation to `offset`. */
struct change {
    struct change *next;
    size_t offset;
    size_t size;
    unsigned char data[];
};

struct inode {
    struct inode *next;
    unsigned char *bytes; /* as of the last sync */
    size_t size;
    struct change *first;
    struct change *last;
};

struct name {
    char text[NAME_LENGTH]; /* without its folder */
    struct inode *inode;    /* NULL: no such file */
};

/* What one call did to the folder: a renaming changes two names at once. */
struct name_change {
    struct name_change *next;
    uint32_t count;
    struct name names[2];
};

struct names {
    uint32_t count;
    struct name list[NAMES_MAX];
};

struct crash_file {
    sqlite3_file base;
    sqlite3_file *real;  /* lies behind this struct */
    struct inode *inode; /* NULL: a temporary file without a name */
};

static struct {
    pthread_mutex_t mutex;
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    int (*open_folder)(const char *path, int *ret_fd); /* of SQLite's file layer */
    bool registered;
    bool begun;
    bool cut;
    uint64_t at;
    uint64_t operations;
    uint64_t named[NAMED_MAX]; /* operations on names */
    uint32_t named_count;
    struct inode *inodes;
    struct names now;     /* what processes see */
    struct names durable; /* as of the folder's last sync */
    struct name_change *first;
    struct name_change *last;
} disk = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* SQLite's file layer has opened the folder, in the call that goes on, to sync it. */
static _Thread_local bool folder_opened;

/* ---- files, with the mutex ----------------------------------------------------------------- */

static void apply(unsigned char **bytes, size_t *size, const struct change *change)
{
    size_t end = change->offset + change->size;
    if (end > *size || change->size == 0) {
        *bytes = mem_grow(*bytes, end > 0 ? end : 1, 1);
        if (end > *size) {
            memset(*bytes + *size, 0, end - *size);
        }
        *size = end;
    }
    memcpy(*bytes + change->offset, change->data, change->size);
}

static void add_change(struct inode *inode, size_t offset, const void *data, size_t size)
{
    struct change *change = mem_alloc(1, sizeof(*change) + size);
    change->offset = offset;
    change->size = size;
    if (size > 0) {
        memcpy(change->data, data, size);
    }
    if (inode->last != NULL) {
        inode->last->next = change;
    } else {
        inode->first = change;
    }
    inode->last = change;
}

static void free_changes(struct inode *inode)
{
    while (inode->first != NULL) {
        struct change *next = inode->first->next;
        (void)mem_free(inode->first);
        inode->first = next;
    }
    inode->last = NULL;
}

static void sync_file(struct inode *inode)
{
    for (const struct change *change = inode->first; change != NULL; change = change->next) {
        apply(&inode->bytes, &inode->size, change);
    }
    free_changes(inode);
}

static struct inode *new_inode(void)
{
    struct inode *inode = mem_alloc(1, sizeof(*inode));
    inode->next = disk.inodes;
    disk.inodes = inode;
    return inode;
}

/* ---- names, with the mutex ----------------------------------------------------------------- */

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static struct inode *find(const struct names *names, const char *text)
{
    for (uint32_t i = 0; i < names->count; i++) {
        if (text_equal(names->list[i].text, text)) {
            return names->list[i].inode;
        }
    }
    return NULL;
}

static void put(struct names *names, const struct name *name)
{
    for (uint32_t i = 0; i < names->count; i++) {
        if (text_equal(names->list[i].text, name->text)) {
            names->list[i].inode = name->inode;
            return;
        }
    }
    CHECK(names->count < NAMES_MAX);
    names->list[names->count] = *name;
    names->count++;
}

static void put_all(struct names *names, const struct name_change *change)
{
    for (uint32_t i = 0; i < change->count; i++) {
        put(names, &change->names[i]);
    }
}

static struct name_change *add_name_change(void)
{
    struct name_change *change = mem_alloc(1, sizeof(*change));
    if (disk.last != NULL) {
        disk.last->next = change;
    } else {
        disk.first = change;
    }
    disk.last = change;
    return change;
}

static void add_name(struct name_change *change, const char *path, struct inode *inode)
{
    struct name *name = &change->names[change->count];
    CHECK(text_copy(name->text, sizeof(name->text), last_part(path)));
    name->inode = inode;
    change->count++;
    put(&disk.now, name);
}

static void free_name_changes(void)
{
    while (disk.first != NULL) {
        struct name_change *next = disk.first->next;
        (void)mem_free(disk.first);
        disk.first = next;
    }
    disk.last = NULL;
}

static void sync_folder(void)
{
    for (const struct name_change *change = disk.first; change != NULL; change = change->next) {
        put_all(&disk.durable, change);
    }
    free_name_changes();
}

/* ---- the cut ------------------------------------------------------------------------------- */

/* Counts one operation, with the mutex; true when the power is gone. */
static bool strikes(void)
{
    if (disk.begun && !disk.cut) {
        disk.operations++;
        disk.cut = disk.operations == disk.at;
    }
    return disk.cut;
}

static bool is_cut(void)
{
    pthread_mutex_lock(&disk.mutex);
    bool cut = disk.cut;
    pthread_mutex_unlock(&disk.mutex);
    return cut;
}

/* The folder was synced, if it was opened for that. false: the power went before. */
static bool folder_was_synced(void)
{
    bool good = true;
    if (folder_opened) {
        folder_opened = false;
        pthread_mutex_lock(&disk.mutex);
        good = !strikes();
        if (good) {
            sync_folder();
        }
        pthread_mutex_unlock(&disk.mutex);
    }
    return good;
}

/* The same of an operation on names. */
static bool strikes_name(void)
{
    bool cut = strikes();
    if (disk.begun && disk.named_count < NAMED_MAX) {
        disk.named[disk.named_count] = disk.operations;
        disk.named_count++;
    }
    return cut;
}

/* ---- one open file ------------------------------------------------------------------------- */

static struct crash_file *of(sqlite3_file *file)
{
    return (struct crash_file *)(void *)file;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return of(file)->real;
}

static int file_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int file_read(sqlite3_file *file, void *data, int size, sqlite3_int64 offset)
{
    return is_cut() ? SQLITE_IOERR_READ
                    : real_of(file)->pMethods->xRead(real_of(file), data, size, offset);
}

/* The change is on its way before the power goes: it may be among those that stay. */
static bool change(sqlite3_file *file, sqlite3_int64 offset, const void *data, int size)
{
    struct inode *inode = of(file)->inode;
    if (inode == NULL) {
        return !is_cut();
    }
    pthread_mutex_lock(&disk.mutex);
    bool good = !disk.cut;
    if (good) {
        add_change(inode, (size_t)offset, data, (size_t)size);
        good = !strikes();
    }
    pthread_mutex_unlock(&disk.mutex);
    return good;
}

static int file_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 offset)
{
    return change(file, offset, data, size)
               ? real_of(file)->pMethods->xWrite(real_of(file), data, size, offset)
               : SQLITE_IOERR_WRITE;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return change(file, size, NULL, 0) ? real_of(file)->pMethods->xTruncate(real_of(file), size)
                                       : SQLITE_IOERR_TRUNCATE;
}

static int file_sync(sqlite3_file *file, int flags)
{
    struct inode *inode = of(file)->inode;
    pthread_mutex_lock(&disk.mutex);
    bool good = !disk.cut && !strikes();
    if (good && inode != NULL) {
        sync_file(inode);
    }
    pthread_mutex_unlock(&disk.mutex);
    if (!good) {
        return SQLITE_IOERR_FSYNC;
    }
    folder_opened = false;
    int rc = real_of(file)->pMethods->xSync(real_of(file), flags);
    return folder_was_synced() ? rc : SQLITE_IOERR_DIR_FSYNC;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int file_lock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
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
    return real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, at);
}

static int file_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    return real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
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

/* A name that nobody has opened yet is a file that was just made, by this call or by a plain open()
 * before it. false: the power goes with its creation. */
static bool know(const char *path, struct inode **ret_inode)
{
    pthread_mutex_lock(&disk.mutex);
    struct inode *inode = find(&disk.now, last_part(path));
    bool good = !disk.cut;
    if (inode == NULL) {
        inode = new_inode();
        add_name(add_name_change(), path, inode);
        good = !strikes_name();
    }
    *ret_inode = inode;
    pthread_mutex_unlock(&disk.mutex);
    return good;
}

static int layer_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags,
                      int *ret_flags)
{
    (void)vfs;
    struct crash_file *own = of(file);
    file->pMethods = NULL;
    if (is_cut()) {
        return SQLITE_CANTOPEN;
    }
    own->inode = NULL;
    own->real = (sqlite3_file *)(void *)(own + 1);
    int rc = disk.real->xOpen(disk.real, path, own->real, flags, ret_flags);
    file->pMethods = own->real->pMethods != NULL ? &methods : NULL;
    if (rc == SQLITE_OK && disk.begun && path != NULL && !know(path, &own->inode)) {
        file->pMethods = NULL;
        (void)own->real->pMethods->xClose(own->real);
        return SQLITE_CANTOPEN;
    }
    return rc;
}

/* Takes the name away, then asks for it; false when the power went. */
static bool forget(const char *path)
{
    pthread_mutex_lock(&disk.mutex);
    bool good = !disk.cut;
    if (good && find(&disk.now, last_part(path)) != NULL) {
        add_name(add_name_change(), path, NULL);
        good = !strikes_name();
    }
    pthread_mutex_unlock(&disk.mutex);
    return good;
}

static int layer_delete(sqlite3_vfs *vfs, const char *path, int sync)
{
    (void)vfs;
    if (!forget(path)) {
        return SQLITE_IOERR_DELETE;
    }
    folder_opened = false;
    int rc = disk.real->xDelete(disk.real, path, sync);
    return folder_was_synced() ? rc : SQLITE_IOERR_DIR_FSYNC;
}

static int open_folder(const char *path, int *ret_fd)
{
    folder_opened = true;
    return disk.open_folder(path, ret_fd);
}

const char *crash_vfs(void)
{
    if (!disk.registered) {
        disk.real = sqlite3_vfs_find(NULL);
        CHECK(disk.real != NULL && disk.real->iVersion >= 3);
        disk.open_folder = (int (*)(const char *, int *))(void (*)(void))disk.real->xGetSystemCall(
            disk.real, "openDirectory");
        CHECK(disk.open_folder != NULL);
        int rc = disk.real->xSetSystemCall(disk.real, "openDirectory",
                                           (sqlite3_syscall_ptr)(void (*)(void))open_folder);
        CHECK(rc == SQLITE_OK);
        disk.vfs = *disk.real; /* what is not about files goes straight through */
        disk.vfs.zName = "crash";
        disk.vfs.pNext = NULL;
        disk.vfs.szOsFile = (int)sizeof(struct crash_file) + disk.real->szOsFile;
        disk.vfs.xOpen = layer_open;
        disk.vfs.xDelete = layer_delete;
        rc = sqlite3_vfs_register(&disk.vfs, 0);
        CHECK(rc == SQLITE_OK);
        disk.registered = true;
    }
    return disk.vfs.zName;
}

/* ---- what the store does to names itself --------------------------------------------------- */

int __real_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __real_fsync(int fd);
int __wrap_fsync(int fd);

static int no_power(void)
{
    errno = EIO;
    return -1;
}

int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    pthread_mutex_lock(&disk.mutex);
    struct inode *inode = find(&disk.now, last_part(from));
    bool good = !disk.cut;
    if (good && inode != NULL) {
        struct name_change *change = add_name_change();
        add_name(change, from, NULL);
        add_name(change, to, inode);
        good = !strikes_name();
    }
    pthread_mutex_unlock(&disk.mutex);
    return good ? __real_renameat2(from_fd, from, to_fd, to, flags) : no_power();
}

int __wrap_unlink(const char *path)
{
    return forget(path) ? __real_unlink(path) : no_power();
}

int __wrap_fsync(int fd)
{
    struct stat status;
    folder_opened = fstat(fd, &status) == 0 && S_ISDIR(status.st_mode) && disk.begun;
    return folder_was_synced() ? __real_fsync(fd) : no_power();
}

/* ---- what is left -------------------------------------------------------------------------- */

/* How whole the changes come through: all, none, up to one of them, or each by itself. */
enum fate { FATE_ALL, FATE_NONE, FATE_FIRST, FATE_EACH, FATE_COUNT };

static void garble(struct prng *prng, struct change *change)
{
    for (size_t at = 0; at < change->size; at += SECTOR) {
        size_t size = change->size - at < SECTOR ? change->size - at : SECTOR;
        uint64_t what = prng_below(prng, 3);
        for (size_t i = 0; what != 0 && i < size; i++) {
            change->data[at + i] = what == 1 ? 0 : (unsigned char)prng_next(prng);
        }
    }
}

static void survive(struct prng *prng, struct inode *inode, struct crash_figures *figures)
{
    enum fate fate = (enum fate)prng_below(prng, FATE_COUNT);
    bool over = false; /* of FATE_FIRST: the one at which the power went is behind us */
    for (struct change *change = inode->first; change != NULL; change = change->next) {
        bool torn = false;
        bool kept = fate == FATE_ALL;
        if (fate == FATE_EACH) {
            kept = prng_below(prng, 3) > 0;
            torn = prng_below(prng, 3) == 0;
        } else if (fate == FATE_FIRST && !over) {
            kept = true;
            torn = over = prng_below(prng, 4) == 0;
        }
        if (kept && torn) {
            garble(prng, change);
        }
        if (kept) {
            apply(&inode->bytes, &inode->size, change);
        }
        figures->kept += kept && !torn ? 1 : 0;
        figures->garbled += kept && torn ? 1 : 0;
        figures->dropped += kept ? 0 : 1;
    }
    free_changes(inode);
}

static void survive_names(struct prng *prng, struct crash_figures *figures)
{
    enum fate fate = (enum fate)prng_below(prng, FATE_COUNT);
    bool over = false;
    for (const struct name_change *change = disk.first; change != NULL; change = change->next) {
        over = over || (fate == FATE_FIRST && prng_below(prng, 4) == 0);
        bool kept = fate == FATE_ALL || (fate == FATE_FIRST && !over) ||
                    (fate == FATE_EACH && prng_below(prng, 2) == 0);
        if (kept) {
            put_all(&disk.durable, change);
        }
        figures->names_undone += kept ? 0 : 1;
    }
    free_name_changes();
}

static void write_file(const char *folder, const char *name, const void *bytes, size_t size)
{
    char path[PATH_LENGTH];
    CHECK(text_format(path, sizeof(path), "%s/%s", folder, name));
    FILE *file = fopen(path, "we");
    CHECK(file != NULL);
    CHECK(fwrite(bytes, 1, size, file) == size);
    CHECK(fclose(file) == 0);
}

void crash_lay_out(const char *folder, uint64_t seed, struct crash_figures *figures)
{
    struct prng prng;
    prng_seed(&prng, seed);
    pthread_mutex_lock(&disk.mutex);
    for (struct inode *inode = disk.inodes; inode != NULL; inode = inode->next) {
        survive(&prng, inode, figures);
    }
    survive_names(&prng, figures);
    for (uint32_t i = 0; i < disk.durable.count; i++) {
        const struct name *name = &disk.durable.list[i];
        if (name->inode != NULL) {
            write_file(folder, name->text, name->inode->bytes, name->inode->size);
        }
    }
    if (prng_below(&prng, 2) == 0 && find(&disk.durable, "keepstep.db") != NULL) {
        unsigned char noise[SHM_NOISE];
        for (size_t i = 0; i < sizeof(noise); i++) {
            noise[i] = (unsigned char)prng_next(&prng);
        }
        write_file(folder, "keepstep.db-shm", noise, sizeof(noise));
    }
    pthread_mutex_unlock(&disk.mutex);
}

/* ---- a disk's life ------------------------------------------------------------------------- */

void crash_end(void)
{
    pthread_mutex_lock(&disk.mutex);
    while (disk.inodes != NULL) {
        struct inode *next = disk.inodes->next;
        free_changes(disk.inodes);
        (void)mem_free(disk.inodes->bytes);
        (void)mem_free(disk.inodes);
        disk.inodes = next;
    }
    free_name_changes();
    disk.now = (struct names){0};
    disk.durable = (struct names){0};
    disk.begun = false;
    disk.cut = false;
    pthread_mutex_unlock(&disk.mutex);
}

void crash_begin(uint64_t at)
{
    crash_end();
    pthread_mutex_lock(&disk.mutex);
    disk.begun = true;
    disk.at = at;
    disk.operations = 0;
    disk.named_count = 0;
    pthread_mutex_unlock(&disk.mutex);
}

bool crash_is_cut(void)
{
    return is_cut();
}

uint64_t crash_operations(void)
{
    pthread_mutex_lock(&disk.mutex);
    uint64_t operations = disk.operations;
    pthread_mutex_unlock(&disk.mutex);
    return operations;
}

uint64_t crash_name_operation(uint32_t index)
{
    pthread_mutex_lock(&disk.mutex);
    uint64_t operation = index < disk.named_count ? disk.named[index] : 0;
    pthread_mutex_unlock(&disk.mutex);
    return operation;
}
