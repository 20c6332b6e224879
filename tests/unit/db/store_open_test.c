/* store_open_test.c: which files are opened, and what the refusals say. A refused file is byte for
 * byte what it was, and nothing lies beside it that was not there before. */
#include "tests/unit/db/db_help.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/hash.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

static int folder_up(void **state)
{
    struct folder *folder = mem_alloc(1, sizeof(*folder));
    folder_make(folder);
    *state = folder;
    return 0;
}

static int folder_down(void **state)
{
    folder_remove(*state);
    (void)mem_free(*state);
    return 0;
}

static int count_files(const struct folder *folder)
{
    DIR *files = opendir(folder->path);
    assert_non_null(files);
    int count = 0;
    while (readdir(files) != NULL) {
        count++;
    }
    (void)closedir(files);
    return count - 2;
}

static uint64_t digest_of(const char *path)
{
    size_t size = 0;
    char *text = contents_of(path, &size);
    uint64_t digest = hash_bytes(HASH_INIT, text, size);
    (void)mem_free(text);
    return digest;
}

static void put_file(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* A closed store with a little history. */
static void make_store(const struct folder *folder)
{
    struct store *store = open_store(folder, STORE_CREATE, NULL);
    struct record_random *world = world_new(3);
    append_history(store, world, 300, 40);
    (void)mem_free(world);
    close_store(store);
}

/* Opening must fail with this code and these words, and leave everything as it is. */
static void refused(const struct folder *folder, enum store_mode mode,
                    const struct store_options *options, int code, const char *says)
{
    struct stat status;
    bool there = stat(folder->database, &status) == 0 && S_ISREG(status.st_mode);
    uint64_t before = there ? digest_of(folder->database) : 0;
    int files = count_files(folder);
    struct store *store = NULL;
    struct err err = {0};
    assert_int_equal(store_open(folder->database, mode, options, &store, &err), code);
    assert_null(store);
    if (strstr(err.text, says) == NULL || strstr(err.text, folder->path) == NULL) {
        fail_msg("'%s' does not say '%s' and where", err.text, says);
    }
    assert_int_equal(count_files(folder), files);
    assert_true(before == (there ? digest_of(folder->database) : 0));
}

static void a_new_store_is_made(void **state)
{
    const struct folder *folder = *state;
    mode_t mask = umask(0);
    struct store *store = open_store(folder, STORE_CREATE, NULL);
    (void)umask(mask);
    assert_true(store_is_empty(store));
    struct stat status;
    assert_int_equal(stat(folder->database, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600); /* whatever the umask */
    close_store(store);
    assert_int_equal(count_files(folder), 1);
    assert_int_equal(number_of(folder, "PRAGMA application_id"), STORE_APPLICATION_ID);
    assert_int_equal(number_of(folder, "PRAGMA user_version"), STORE_SCHEMA_VERSION);
    assert_int_equal(number_of(folder,
                               "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND "
                               "sql NOT LIKE '%STRICT%' AND name NOT LIKE 'sqlite%'"),
                     0);
    store = open_store(folder, STORE_READ_WRITE, NULL);
    assert_true(store_is_empty(store));
    close_store(store);
}

static void it_writes_ahead_and_syncs(void **state)
{
    const struct folder *folder = *state;
    struct store *store = open_store(folder, STORE_CREATE, NULL);
    int64_t value = 0;
    assert_int_equal(sql_integer(store->db, "PRAGMA synchronous", &value, NULL), 0);
    assert_int_equal(value, 2); /* FULL */
    assert_int_equal(sql_integer(store->db, "PRAGMA foreign_keys", &value, NULL), 0);
    assert_int_equal(value, 1);
    assert_int_equal(number_of(folder, "SELECT count(*) FROM pragma_journal_mode "
                                       "WHERE journal_mode = 'wal'"),
                     1);
    close_store(store);
}

static void a_missing_one_is_not_made_by_others(void **state)
{
    refused(*state, STORE_READ_WRITE, NULL, -ENOENT, "is not there");
    refused(*state, STORE_REBUILD, NULL, -ENOENT, "is not there");
}

static void a_missing_folder(void **state)
{
    struct folder folder = *(const struct folder *)*state;
    (void)text_format(folder.database, sizeof(folder.database), "%s/no/such/keepstep.db",
                      folder.path);
    refused(&folder, STORE_CREATE, NULL, -ENOENT, "make it, or name another");
}

static void an_empty_file_is_not_a_new_store(void **state)
{
    const struct folder *folder = *state;
    put_file(folder->database, "", 0);
    refused(folder, STORE_CREATE, NULL, -EMEDIUMTYPE, "is empty");
}

static void something_else(void **state)
{
    const struct folder *folder = *state;
    char text[300];
    memset(text, 'x', sizeof(text));
    put_file(folder->database, text, sizeof(text));
    refused(folder, STORE_CREATE, NULL, -EMEDIUMTYPE, "no SQLite database");
    put_file(folder->database, "SQLite format 3", 16);
    refused(folder, STORE_CREATE, NULL, -EMEDIUMTYPE, "no SQLite database");
}

static void a_folder_in_its_place(void **state)
{
    const struct folder *folder = *state;
    assert_int_equal(mkdir(folder->database, 0700), 0);
    refused(folder, STORE_CREATE, NULL, -EISDIR, "cannot be opened for writing");
}

static void a_database_of_another_program(void **state)
{
    const struct folder *folder = *state;
    sqlite3 *db = NULL;
    put_file(folder->database, "", 0);
    assert_int_equal(sql_open(folder->database, SQL_NEW, NULL, &db, NULL), 0);
    assert_int_equal(sql_exec(db, "CREATE TABLE recipes (name TEXT)", NULL), 0);
    (void)sql_close(db);
    refused(folder, STORE_CREATE, NULL, -EMEDIUMTYPE, "another program");
}

/* As the first version made them: without what was added to the projections since. */
static void an_older_schema(void **state)
{
    const struct folder *folder = *state;
    make_store(folder);
    const int64_t rows = number_of(folder, "SELECT count(*) FROM spares_log");
    change_file(folder, "DROP TABLE interval_log; DROP TABLE reserve_log; DROP TABLE spares_log;"
                        "PRAGMA user_version=1");
    close_store(open_store(folder, STORE_READ_WRITE, NULL));
    assert_int_equal(number_of(folder, "PRAGMA user_version"), STORE_SCHEMA_VERSION);
    assert_int_equal(number_of(folder, "SELECT count(*) FROM spares_log"), rows);
}

static void a_newer_schema(void **state)
{
    const struct folder *folder = *state;
    make_store(folder);
    change_file(folder, "PRAGMA user_version=3");
    refused(folder, STORE_CREATE, NULL, -EPROTONOSUPPORT, "install the newer keepstep");
}

/* The header still says the old one: the change is only in the write-ahead log, as after a crash. */
static void a_newer_schema_in_the_log_alone(void **state)
{
    const struct folder *folder = *state;
    make_store(folder);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        sqlite3 *db = NULL;
        int code = sql_open(folder->database, SQL_WRITER, NULL, &db, NULL);
        code = code == 0 ? sql_exec(db, "PRAGMA user_version=3", NULL) : code;
        _exit(code == 0 ? 0 : 1); /* without closing */
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    (void)close(ready[0]);
    (void)close(ready[1]);
    struct store *store = NULL;
    struct err err = {0};
    assert_int_equal(store_open(folder->database, STORE_CREATE, NULL, &store, &err),
                     -EPROTONOSUPPORT);
    assert_int_equal(number_of(folder, "PRAGMA user_version"), 3);
}

static void damage(void **state)
{
    const struct folder *folder = *state;
    make_store(folder);
    size_t size = 0;
    char *text = contents_of(folder->database, &size);
    memset(text + size / 2, 0xa5, 8192);
    put_file(folder->database, text, size);
    (void)mem_free(text);
    refused(folder, STORE_CREATE, NULL, -EUCLEAN, "is damaged");
}

static void a_file_that_was_cut(void **state)
{
    const struct folder *folder = *state;
    make_store(folder);
    struct stat status;
    assert_int_equal(stat(folder->database, &status), 0);
    assert_int_equal(truncate(folder->database, status.st_size / 2), 0);
    refused(folder, STORE_CREATE, NULL, -EUCLEAN, "restore it from a copy");
}

/* Damage in a projection is no loss: a rebuild makes it good again. */
static void damage_of_a_projection_alone(void **state)
{
    const struct folder *folder = *state;
    make_store(folder);
    char *before = dump_of(folder, NULL);
    int64_t page = number_of(folder, "SELECT rootpage FROM sqlite_schema WHERE name = 'actions'");
    size_t size = 0;
    char *text = contents_of(folder->database, &size);
    memset(text + (page - 1) * 4096, 0xa5, 4096);
    put_file(folder->database, text, size);
    (void)mem_free(text);
    refused(folder, STORE_CREATE, NULL, -EUCLEAN, "--rebuild");
    struct store *store = NULL;
    struct err err = {0};
    int code = store_open(folder->database, STORE_REBUILD, NULL, &store, &err);
    if (code < 0) {
        fail_msg("%s", err.text);
    }
    close_store(store);
    assert_int_equal(number_of(folder, "SELECT count(*) FROM pragma_quick_check "
                                       "WHERE quick_check = 'ok'"),
                     1);
    char *after = dump_of(folder, NULL);
    assert_string_equal(after, before);
    (void)mem_free(before);
    (void)mem_free(after);
}

static void a_tail_removed_by_hand(void **state)
{
    const struct folder *folder = *state;
    make_store(folder);
    change_file(folder, "DELETE FROM journal WHERE seq > 290");
    refused(folder, STORE_CREATE, NULL, -EUCLEAN, "by hand");
}

static void no_tables_of_ours(void **state)
{
    const struct folder *folder = *state;
    make_store(folder);
    change_file(folder, "DROP TABLE writer");
    refused(folder, STORE_CREATE, NULL, -EUCLEAN, "no readable journal");
}

static void the_second_controller(void **state)
{
    const struct folder *folder = *state;
    struct store *store = open_store(folder, STORE_CREATE, NULL);
    refused(folder, STORE_CREATE, NULL, -EBUSY, "started twice");
    char who[64];
    (void)text_format(who, sizeof(who), "(process %d)", getpid());
    refused(folder, STORE_REBUILD, NULL, -EBUSY, who);
    /* Through another name of the same file, too. */
    struct folder other = *folder;
    (void)text_format(other.database, sizeof(other.database), "%s/alias.db", folder->path);
    assert_int_equal(symlink(folder->database, other.database), 0);
    refused(&other, STORE_CREATE, NULL, -EBUSY, "started twice");
    assert_int_equal(unlink(other.database), 0);
    close_store(store);
    store = open_store(folder, STORE_READ_WRITE, NULL);
    close_store(store);
}

/* An overlay at `path`/merged of two file systems, seen by this process alone. */
static bool mount_overlay(const char *path)
{
    static const char *const folders[] = {"lower", "merged", "top", "top/upper", "top/work"};
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        return false;
    }
    char place[HELP_PATH_SIZE * 2];
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
        (void)text_format(place, sizeof(place), "%s/%s", path, folders[i]);
        if (mkdir(place, 0700) != 0 ||
            (text_equal(folders[i], "top") && mount("tmpfs", place, "tmpfs", 0, NULL) != 0)) {
            return false;
        }
    }
    char options[HELP_PATH_SIZE * 4];
    (void)text_format(options, sizeof(options),
                      "lowerdir=%s/lower,upperdir=%s/top/upper,workdir=%s/top/work", path, path,
                      path);
    (void)text_format(place, sizeof(place), "%s/merged", path);
    return mount("overlay", place, "overlay", 0, options) == 0;
}

enum { CANNOT = 2 };

static int second_on_overlay(const struct folder *folder)
{
    if (!mount_overlay(folder->path)) {
        return CANNOT;
    }
    char database[HELP_PATH_SIZE * 2];
    (void)text_format(database, sizeof(database), "%s/merged/keepstep.db", folder->path);
    struct store *first = NULL;
    struct store *second = NULL;
    struct err err = {0};
    char who[64];
    (void)text_format(who, sizeof(who), "(process %d)", getpid());
    if (store_open(database, STORE_CREATE, NULL, &first, &err) != 0) {
        return 1;
    }
    bool told = store_open(database, STORE_CREATE, NULL, &second, &err) == -EBUSY &&
                strstr(err.text, who) != NULL;
    (void)store_close(first, HELP_WAIT_MS, NULL); /* the process ends anyway */
    return told ? 0 : 1;
}

/* The device of a file on an overlay has two names: the holder of the lock is told all the same. */
static void the_second_controller_on_an_overlay(void **state)
{
    const struct folder *folder = *state;
    pid_t child = fork();
    if (child == 0) {
        _exit(second_on_overlay(folder));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT) {
        print_message("skipped: no overlay can be mounted here\n");
        skip();
    }
    assert_int_equal(status, 0);
}

static void the_lock_goes_with_its_process(void **state)
{
    const struct folder *folder = *state;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct store *store = NULL;
        int code = store_open(folder->database, STORE_CREATE, NULL, &store, NULL);
        char byte = code == 0 ? 'y' : 'n';
        _exit(write(ready[1], &byte, 1) == 1 && pause() != 0 ? 0 : 1);
    }
    char byte = 'n';
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    struct store *store = NULL;
    struct err err = {0};
    assert_int_equal(store_open(folder->database, STORE_CREATE, NULL, &store, &err), -EBUSY);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close_store(open_store(folder, STORE_CREATE, NULL));
    (void)close(ready[0]);
    (void)close(ready[1]);
}

static int64_t says_what_it_is_told(int fd, void *context)
{
    (void)fd;
    return *(int64_t *)context;
}

static void network_file_systems(void **state)
{
    static const struct {
        int64_t magic;
        const char *name;
    } systems[] = {{0x6969, "NFS"},      {0x0bd00bd0, "Lustre"}, {0x65735546, "FUSE"},
                   {0xff534d42, "CIFS"}, {0x00c36400, "Ceph"},   {0x01021997, "9P"},
                   {0x47504653, "GPFS"}, {0x19830326, "BeeGFS"}};
    const struct folder *folder = *state;
    for (size_t i = 0; i < sizeof(systems) / sizeof(systems[0]); i++) {
        int64_t magic = systems[i].magic;
        struct store_options options = {.file_system = says_what_it_is_told,
                                        .file_system_context = &magic};
        refused(folder, STORE_CREATE, &options, -EREMOTE, systems[i].name);
    }
    make_store(folder);
    int64_t nfs = 0x6969;
    struct store_options options = {.file_system = says_what_it_is_told,
                                    .file_system_context = &nfs};
    refused(folder, STORE_READ_WRITE, &options, -EREMOTE, "put it on a local disk");
    int64_t ext4 = 0xef53;
    options.file_system_context = &ext4;
    close_store(open_store(folder, STORE_READ_WRITE, &options));
}

/* Permissions do not bind root: be somebody else for a moment. */
static void as_nobody(const struct folder *folder, int code, const char *says)
{
    bool root = geteuid() == 0;
    assert_int_equal(root ? seteuid(65534) : 0, 0);
    struct store *store = NULL;
    struct err err = {0};
    int result = store_open(folder->database, STORE_CREATE, NULL, &store, &err);
    assert_int_equal(root ? seteuid(0) : 0, 0);
    assert_int_equal(result, code);
    if (strstr(err.text, says) == NULL) {
        fail_msg("'%s' does not say '%s'", err.text, says);
    }
}

static void what_may_not_be_written(void **state)
{
    const struct folder *folder = *state;
    assert_int_equal(chmod(folder->path, 0555), 0);
    as_nobody(folder, -EACCES, "is not writable");
    assert_int_equal(chmod(folder->path, 0777), 0);
    make_store(folder);
    assert_int_equal(chmod(folder->database, 0444), 0);
    as_nobody(folder, -EACCES, "cannot be opened for writing");
    assert_int_equal(chmod(folder->path, 0000), 0);
    as_nobody(folder, -EACCES, "cannot be opened");
    assert_int_equal(chmod(folder->path, 0700), 0);
}

static void odd_characters_in_the_path(void **state)
{
    struct folder folder = *(const struct folder *)*state;
    (void)text_format(folder.database, sizeof(folder.database), "%s/a %%41?mode=ro#b&c'\".db",
                      folder.path);
    make_store(&folder);
    assert_int_equal(count_files(&folder), 1);
    assert_int_equal(number_of(&folder, "SELECT count(*) FROM journal"), 300);
}

/* Somebody's sqlite3 has a transaction open: opening waits, then says so. */
static void another_program_writes(void **state)
{
    const struct folder *folder = *state;
    make_store(folder);
    sqlite3 *db = NULL;
    assert_int_equal(sql_open(folder->database, SQL_WRITER, NULL, &db, NULL), 0);
    assert_int_equal(sql_exec(db, "BEGIN IMMEDIATE", NULL), 0);
    struct store *store = NULL;
    struct err err = {0};
    assert_int_equal(store_open(folder->database, STORE_REBUILD, NULL, &store, &err), -EBUSY);
    assert_non_null(strstr(err.text, "locked"));
    assert_int_equal(sql_exec(db, "ROLLBACK", NULL), 0);
    (void)sql_close(db);
    close_store(open_store(folder, STORE_REBUILD, NULL));
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_up, folder_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(a_new_store_is_made),
        IN_A_FOLDER(it_writes_ahead_and_syncs),
        IN_A_FOLDER(a_missing_one_is_not_made_by_others),
        IN_A_FOLDER(a_missing_folder),
        IN_A_FOLDER(an_empty_file_is_not_a_new_store),
        IN_A_FOLDER(something_else),
        IN_A_FOLDER(a_folder_in_its_place),
        IN_A_FOLDER(a_database_of_another_program),
        IN_A_FOLDER(an_older_schema),
        IN_A_FOLDER(a_newer_schema),
        IN_A_FOLDER(a_newer_schema_in_the_log_alone),
        IN_A_FOLDER(damage),
        IN_A_FOLDER(a_file_that_was_cut),
        IN_A_FOLDER(damage_of_a_projection_alone),
        IN_A_FOLDER(a_tail_removed_by_hand),
        IN_A_FOLDER(no_tables_of_ours),
        IN_A_FOLDER(the_second_controller),
        IN_A_FOLDER(the_second_controller_on_an_overlay),
        IN_A_FOLDER(the_lock_goes_with_its_process),
        IN_A_FOLDER(network_file_systems),
        IN_A_FOLDER(what_may_not_be_written),
        IN_A_FOLDER(odd_characters_in_the_path),
        IN_A_FOLDER(another_program_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
