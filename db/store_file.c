/* store_file.c: may this file be opened? All refusals are made here, before anything is written.
 *
 * A store is for one process. Its lock is flock on the file itself: it needs no second file, it
 * goes with the process however that ends, and it does not meet SQLite's own locks, so that
 * `sqlite3 keepstep.db` works beside a running controller. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "db/store_internal.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    HEADER_SIZE = 100,
    HEADER_VERSION_AT = 60,
    HEADER_APPLICATION_AT = 68,
    FILE_PATH_MAX = 4096,
    LOCKS_LINE_SIZE = 256,
};

/* ---- file systems -------------------------------------------------------------------------- */

/* Where a lock or an fsync may not mean what it says. Magic numbers that linux/magic.h lacks are
 * those of statfs(2) and of the file systems' own sources. */
static const struct {
    int64_t magic;
    const char *name;
} network_systems[] = {
    {NFS_SUPER_MAGIC, "NFS"},     {0x0bd00bd0, "Lustre"},   {FUSE_SUPER_MAGIC, "FUSE"},
    {SMB_SUPER_MAGIC, "SMB"},     {0xff534d42, "CIFS"},     {0xfe534d42, "SMB2"},
    {0x00c36400, "Ceph"},         {0x47504653, "GPFS"},     {AFS_SUPER_MAGIC, "AFS"},
    {0x6b414653, "AFS"},          {V9FS_MAGIC, "9P"},       {CODA_SUPER_MAGIC, "Coda"},
    {OCFS2_SUPER_MAGIC, "OCFS2"}, {0x01161970, "GFS2"},     {0x19830326, "BeeGFS"},
    {0xaad7aaea, "PanFS"},        {NCP_SUPER_MAGIC, "NCP"},
};

static int check_file_system(int fd, const char *path, const struct store_options *options,
                             struct err *err)
{
    int64_t type = 0;
    if (options->file_system != NULL) {
        type = options->file_system(fd, options->file_system_context);
    } else {
        struct statfs status;
        if (fstatfs(fd, &status) < 0) {
            return err_set(err, -errno, "the file system of %s cannot be looked at: %s", path,
                           strerrordesc_np(errno));
        }
        type = (int64_t)status.f_type;
    }
    for (size_t i = 0; i < ARRAY_SIZE(network_systems); i++) {
        if (network_systems[i].magic == type) {
            return err_set(err, -EREMOTE,
                           "the database %s is on %s, where locks and syncs cannot be relied on: "
                           "put it on a local disk",
                           path, network_systems[i].name);
        }
    }
    return 0;
}

/* ---- paths --------------------------------------------------------------------------------- */

/* The folder part of a path, "." when there is none. */
static void folder_of(const char *path, char *target, size_t size)
{
    (void)text_copy(target, size, path); /* callers have checked the length */
    char *slash = strrchr(target, '/');
    if (slash == NULL) {
        (void)text_copy(target, size, ".");
    } else {
        slash[slash == target ? 1 : 0] = '\0';
    }
}

static int check_folder(const char *path, const struct store_options *options, struct err *err)
{
    char folder[FILE_PATH_MAX];
    if (strlen(path) + 64 > sizeof(folder)) {
        return err_set(err, -ENAMETOOLONG, "the database path '%.64s…' is too long", path);
    }
    folder_of(path, folder, sizeof(folder));
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        int code = -errno;
        return err_set(err, code,
                       "the folder %s of the database cannot be opened (%s): make it, "
                       "or name another",
                       folder, strerrordesc_np(-code));
    }
    int code = check_file_system(fd, path, options, err);
    if (code == 0 && faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0) {
        code = err_set(err, errno == EROFS ? -EROFS : -EACCES,
                       "the folder %s of the database is not writable (%s): give it to the user "
                       "that the controller runs as",
                       folder, strerrordesc_np(errno));
    }
    (void)close(fd); /* opened for reading: nothing to lose */
    return code;
}

/* ---- the lock ------------------------------------------------------------------------------ */

/* Whether this descriptor of a process holds a flock for writing. */
static bool descriptor_locks(long process, const char *descriptor)
{
    char path[96];
    (void)text_format(path, sizeof(path), "/proc/%ld/fdinfo/%s", process, descriptor);
    FILE *info = fopen(path, "re");
    bool found = false;
    char line[LOCKS_LINE_SIZE];
    while (!found && info != NULL && fgets(line, sizeof(line), info) != NULL) {
        found = strncmp(line, "lock:", 5) == 0 && strstr(line, " FLOCK ") != NULL &&
                strstr(line, " WRITE ") != NULL;
    }
    if (info != NULL) {
        (void)fclose(info); /* read only */
    }
    return found;
}

static bool process_locks(long process, const struct stat *file)
{
    char path[64];
    (void)text_format(path, sizeof(path), "/proc/%ld/fd", process);
    DIR *folder = opendir(path);
    bool found = false;
    const struct dirent *entry = NULL;
    while (!found && folder != NULL && (entry = readdir(folder)) != NULL) {
        struct stat status;
        found = fstatat(dirfd(folder), entry->d_name, &status, 0) == 0 &&
                status.st_dev == file->st_dev && status.st_ino == file->st_ino &&
                descriptor_locks(process, entry->d_name);
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return found;
}

/* The process that holds a flock on the file, 0 when /proc does not say. /proc/locks alone does not
 * tell: the device that it names is not the one that stat() names on an overlay. */
static long lock_holder(int fd)
{
    struct stat status;
    FILE *locks = fstat(fd, &status) == 0 ? fopen("/proc/locks", "re") : NULL;
    if (locks == NULL) {
        return 0;
    }
    long holder = 0;
    char line[LOCKS_LINE_SIZE];
    while (holder == 0 && fgets(line, sizeof(line), locks) != NULL) {
        long process = 0;
        if (sscanf(line, "%*s FLOCK ADVISORY WRITE %ld", &process) == 1 &&
            process_locks(process, &status)) {
            holder = process;
        }
    }
    (void)fclose(locks); /* read only */
    return holder;
}

static int take_lock(int fd, const char *path, struct err *err)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        return 0;
    }
    if (errno != EWOULDBLOCK) {
        return err_set(err, -errno, "the database %s cannot be locked: %s", path,
                       strerrordesc_np(errno));
    }
    long holder = lock_holder(fd);
    char who[48] = "";
    if (holder > 0) {
        (void)text_format(who, sizeof(who), " (process %ld)", holder);
    }
    return err_set(err, -EBUSY,
                   "another controller%s has the database %s open: it was started twice; stop one, "
                   "or give this one a database of its own",
                   who, path);
}

/* ---- the header ---------------------------------------------------------------------------- */

static uint32_t big_endian(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static int refuse_newer(const char *path, int64_t version, struct err *err)
{
    return err_set(err, -EPROTONOSUPPORT,
                   "the database %s has schema %lld, this version knows up to %d: install the "
                   "newer keepstep again, or restore the copy from before the upgrade",
                   path, (long long)version, STORE_SCHEMA_VERSION);
}

static int refuse_foreign(const char *path, struct err *err)
{
    return err_set(err, -EMEDIUMTYPE,
                   "the database %s belongs to another program: name another file", path);
}

/* Whether SQLite has left a file of this ending beside it: "-wal" and somebody has the database
 * open, or ended without closing it; "-journal" and the change to a WAL was not finished. */
static bool has_beside(const char *path, const char *ending)
{
    char name[FILE_PATH_MAX + 16];
    (void)text_format(name, sizeof(name), "%s%s", path, ending); /* path was measured */
    struct stat status;
    return stat(name, &status) == 0;
}

/* Of a file that is whole by itself. Else its first page may be torn, where the power went while it
 * was written; SQLite has it in the other file, and store_file_check() looks at what it makes of
 * that. */
static int check_header(int fd, const char *path, struct err *err)
{
    uint8_t header[HEADER_SIZE];
    ssize_t size = pread(fd, header, sizeof(header), 0);
    if (size < 0) {
        return err_set(err, -errno, "the database %s cannot be read: %s", path,
                       strerrordesc_np(errno));
    }
    if (size == 0) {
        return err_set(err, -EMEDIUMTYPE,
                       "the file %s is empty: restore the database from a copy, or remove the file "
                       "to begin a new one",
                       path);
    }
    if (size < HEADER_SIZE || memcmp(header, "SQLite format 3", 16) != 0) {
        return err_set(err, -EMEDIUMTYPE,
                       "the file %s is no SQLite database, or its beginning is damaged: restore it "
                       "from a copy, or name another",
                       path);
    }
    if (big_endian(header + HEADER_APPLICATION_AT) != STORE_APPLICATION_ID) {
        return refuse_foreign(path, err);
    }
    uint32_t version = big_endian(header + HEADER_VERSION_AT);
    return version > STORE_SCHEMA_VERSION ? refuse_newer(path, version, err) : 0;
}

/* ---- opening ------------------------------------------------------------------------------- */

static int open_file(const char *path, int *ret_fd, struct err *err)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        struct stat status;
        if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
            *ret_fd = fd;
            return 0;
        }
        (void)close(fd);
        return err_set(err, -EMEDIUMTYPE, "the database %s is not a regular file", path);
    }
    int code = errno == EPERM ? -EACCES : -errno;
    if (code == -ENOENT) {
        return err_set(err, code, "the database %s is not there: check the path (database.path)",
                       path);
    }
    return err_set(err, code,
                   "the database %s cannot be opened for writing (%s): check its owner "
                   "and that its disk is not mounted read-only",
                   path, strerrordesc_np(-code));
}

int store_file_lock(const char *path, const struct store_options *options, char **ret_path,
                    int *ret_fd, struct err *err)
{
    char real[FILE_PATH_MAX];
    const char *found = realpath(path, real) != NULL ? real : path;
    int code = check_folder(found, options, err);
    int fd = -1;
    code = code == 0 ? open_file(found, &fd, err) : code;
    if (code < 0) {
        return code;
    }
    code = check_file_system(fd, found, options, err);
    code = code == 0 ? take_lock(fd, found, err) : code;
    if (code == 0 && !has_beside(found, "-wal") && !has_beside(found, "-journal")) {
        code = check_header(fd, found, err);
    }
    if (code < 0) {
        (void)close(fd);
        return code;
    }
    *ret_path = mem_strdup(found);
    *ret_fd = fd;
    return 0;
}

int store_file_is_same(const char *path, int fd, struct err *err)
{
    struct stat ours;
    struct stat there;
    if (fstat(fd, &ours) < 0 || stat(path, &there) < 0) {
        return err_set(err, -ENOENT, "the database %s was moved away or deleted: put it back",
                       path);
    }
    if (ours.st_dev != there.st_dev || ours.st_ino != there.st_ino) {
        return err_set(err, -ESTALE,
                       "another file was put in the place of the database %s under the running "
                       "controller",
                       path);
    }
    return 0;
}

/* ---- a look inside ------------------------------------------------------------------------- */

static int damaged(const char *path, const char *what, bool rebuild, struct err *err)
{
    return err_set(err, -EUCLEAN, "the database %s is damaged (%.80s): restore it from a copy%s",
                   path, what, rebuild ? "" : ", or try --rebuild");
}

/* Anything but damage is of the disk or the memory, and says nothing about the file. */
static int cannot_read(const char *path, int code, const struct err *reason, bool rebuild,
                       struct err *err)
{
    return code == -EUCLEAN
               ? damaged(path, reason->text, rebuild, err)
               : err_set(err, code, "the database %s cannot be read: %s", path, reason->text);
}

/* What quick_check says of a page that it could not even get ends in SQLite's code: -EUCLEAN is a
 * page that is wrong, all others are of the disk or the memory. */
static int code_of_finding(const char *finding)
{
    const char *at = strstr(finding, "error code=");
    uint64_t rc = 0;
    return at != NULL && text_to_u64(at + strlen("error code="), INT32_MAX, &rc) == 0 && rc > 0
               ? sql_code((int)rc)
               : -EUCLEAN;
}

static int check_pages(sqlite3 *db, const char *path, bool rebuild, struct err *err)
{
    /* The journal alone is what a rebuild needs. */
    const char *sql = rebuild ? "PRAGMA quick_check('journal')" : "PRAGMA quick_check(1)";
    sqlite3_stmt *statement = NULL;
    struct err reason = {0};
    int code = sql_prepare(db, sql, &statement, &reason);
    if (code < 0) {
        return cannot_read(path, code, &reason, rebuild, err);
    }
    int rc = sqlite3_step(statement);
    if (rc != SQLITE_ROW) {
        code = sql_error(db, rc, &reason, "checking its pages");
    } else if (!text_equal(sql_column_text(statement, 0), "ok")) {
        const char *finding = sql_column_text(statement, 0);
        code = err_set(&reason, code_of_finding(finding), "%s", finding);
    }
    (void)sqlite3_finalize(statement); /* repeats the error of step */
    return code < 0 ? cannot_read(path, code, &reason, rebuild, err) : 0;
}

/* The journal must end where its last writer said. */
static int check_end(sqlite3 *db, const char *path, struct err *err)
{
    struct err reason = {0};
    struct store_place place;
    int64_t last = 0;
    int code = store_place_read(db, &place, &reason);
    if (code == 0) {
        code = sql_integer(db, "SELECT coalesce(max(seq), 0) FROM journal", &last, &reason);
    }
    bool missing = code == -EUCLEAN || code == -ENODATA ||
                   (sqlite3_errcode(db) & 0xff) == SQLITE_ERROR; /* no such table, or column */
    if (code < 0 && !missing) {
        return cannot_read(path, code, &reason, false, err);
    }
    if (code < 0) {
        return err_set(err, -EUCLEAN,
                       "the database %s has no readable journal (%.80s): restore it "
                       "from a copy",
                       path, reason.text);
    }
    if ((uint64_t)last != place.sequence) {
        return err_set(err, -EUCLEAN,
                       "the journal in %s ends at record %lld, but record %llu was written last: "
                       "rows were added or removed by hand; restore it from a copy",
                       path, (long long)last, (unsigned long long)place.sequence);
    }
    return 0;
}

static int check_inside(sqlite3 *db, const char *path, bool rebuild, int64_t *ret_version,
                        struct err *err)
{
    int64_t application = 0;
    int64_t version = 0;
    struct err reason = {0};
    int code = sql_integer(db, "PRAGMA application_id", &application, &reason);
    code = code == 0 ? sql_integer(db, "PRAGMA user_version", &version, &reason) : code;
    if (code < 0) {
        return cannot_read(path, code, &reason, rebuild, err);
    }
    if (application != STORE_APPLICATION_ID) {
        return refuse_foreign(path, err);
    }
    if (version > STORE_SCHEMA_VERSION) {
        return refuse_newer(path, version, err);
    }
    code = check_pages(db, path, rebuild, err);
    code = code == 0 ? check_end(db, path, err) : code;
    if (code == 0) {
        *ret_version = version;
    }
    return code;
}

int store_file_check(const char *path, const struct store_options *options, bool rebuild,
                     int64_t *ret_version, struct err *err)
{
    /* Without a WAL nobody has the file open, and it can be read without leaving a trace. */
    enum sql_open_mode mode = has_beside(path, "-journal") ? SQL_MENDER
                              : has_beside(path, "-wal")   ? SQL_READER
                                                           : SQL_IMMUTABLE;
    sqlite3 *db = NULL;
    struct err reason = {0};
    int code = sql_open(path, mode, options->vfs, &db, &reason);
    if (code < 0) {
        return code == -EUCLEAN
                   ? damaged(path, reason.text, rebuild, err)
                   : err_set(err, code, "the database %s cannot be opened: %s", path, reason.text);
    }
    code = check_inside(db, path, rebuild, ret_version, err);
    (void)sql_close(db);
    return code;
}

/* ---- a new one ----------------------------------------------------------------------------- */

static int fill_new(const char *path, const struct store_options *options, struct err *err)
{
    sqlite3 *db = NULL;
    int code = sql_open(path, SQL_NEW, options->vfs, &db, err);
    if (code == 0) {
        code = store_schema_create(db, err);
        (void)sql_close(db);
    }
    return code;
}

static int sync_folder(const char *path, struct err *err)
{
    char folder[FILE_PATH_MAX];
    folder_of(path, folder, sizeof(folder));
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int code = fd >= 0 && fsync(fd) == 0 ? 0 : -errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    return code == 0 ? 0
                     : err_set(err, code, "the folder %s cannot be synced: %s", folder,
                               strerrordesc_np(-code));
}

/* A name beside the path that nobody else uses. */
static void temporary_name(const char *path, char *target, size_t size)
{
    uint64_t number = 0;
    ssize_t got = getrandom(&number, sizeof(number), 0);
    CHECK(got == (ssize_t)sizeof(number)); /* cannot fail for 8 bytes on a running system */
    (void)text_format(target, size, "%s.new-%016llx", path, (unsigned long long)number);
}

static void remove_temporary(const char *name)
{
    char journal[FILE_PATH_MAX + 16];
    (void)unlink(name); /* what is left over harms nobody */
    (void)text_format(journal, sizeof(journal), "%s-journal", name);
    (void)unlink(journal);
}

/* Made under another name and moved into place whole, so that a half-made store never exists. */
int store_file_create(const char *path, const struct store_options *options, struct err *err)
{
    int code = check_folder(path, options, err);
    if (code < 0) {
        return code;
    }
    char name[FILE_PATH_MAX];
    temporary_name(path, name, sizeof(name));
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        code = -errno;
        return err_set(err, code, "the database %s cannot be made: %s", path,
                       strerrordesc_np(-code));
    }
    (void)close(fd); /* nothing was written */
    struct err reason = {0};
    code = fill_new(name, options, &reason);
    if (code == 0 && renameat2(AT_FDCWD, name, AT_FDCWD, path, RENAME_NOREPLACE) < 0 &&
        errno != EEXIST) { /* EEXIST: somebody was faster; the lock decides who has it */
        code = err_set(&reason, -errno, "%s", strerrordesc_np(errno));
    }
    remove_temporary(name);
    if (code < 0) {
        return err_set(err, code, "the database %s cannot be made: %s", path, reason.text);
    }
    return sync_folder(path, err);
}
