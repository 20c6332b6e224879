/* launch.c: the launch file, written once by an agent and read once by the shim.
 *
 * Layout: magic, version, size, checksum (24 bytes), then the fields in the order of struct
 * shim_launch. Numbers are in host order (the file never leaves its host); a text is its length,
 * its bytes and a NUL that is not counted; a list is a count and its texts. Decoding runs twice
 * over the same code: once to count the list elements and check everything, once to fill them in,
 * so that one allocation of the right size is enough. Whatever the bytes say, the decoder reads
 * only inside of them and checks the same rules that the encoder checks. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/shim/record.h"
#include "agent/shim/shim.h"

#define LAUNCH_MAGIC     0x313048434e4c534bull /* "KSLNCH01" */
#define LAUNCH_TEMPORARY "launch.tmp"
enum { LAUNCH_VERSION = 1, LAUNCH_HEAD = 24 };

/* ---- rules ------------------------------------------------------------------------------ */

static bool cookie_is_valid(const char cookie[SHIM_COOKIE_SIZE])
{
    for (size_t i = 0; i + 1 < SHIM_COOKIE_SIZE; i++) {
        char letter = cookie[i];
        if (!((letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f'))) {
            return false;
        }
    }
    return cookie[SHIM_COOKIE_SIZE - 1] == '\0';
}

static bool path_climbs(const char *path)
{
    for (const char *part = path; part != NULL && *part != '\0'; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0')) {
            return true;
        }
    }
    return false;
}

static bool env_is_valid(const struct shim_list *env)
{
    for (uint32_t i = 0; i < env->count; i++) {
        const char *item = env->items[i];
        const char *equals = strchr(item, '=');
        if (equals == NULL || equals == item ||
            strncmp(item, SHIM_COOKIE_KEY "=", sizeof(SHIM_COOKIE_KEY)) == 0) {
            return false;
        }
    }
    return true;
}

static bool rank_is_valid(const struct shim_launch *launch, uint32_t index)
{
    const struct shim_launch_rank *rank = &launch->ranks[index];
    for (uint32_t i = 0; i < index; i++) {
        if (launch->ranks[i].rank == rank->rank) {
            return false;
        }
    }
    return rank->argv.count > 0 && rank->argv.items[0][0] != '\0' && env_is_valid(&rank->env) &&
           strlen(rank->output) < SHIM_PATH_SIZE;
}

/* Everything that a launch must be; the lists are filled in. */
static int launch_check(const struct shim_launch *launch)
{
    if (!cookie_is_valid(launch->cookie) || launch->umask > 0777 || launch->uid == UINT32_MAX ||
        launch->gid == UINT32_MAX || launch->group_count > SHIM_GROUPS_MAX) {
        return -EINVAL;
    }
    if (launch->uid == 0 && !launch->allow_root) {
        return -EINVAL;
    }
    if (launch->workdir[0] != '/' || strlen(launch->workdir) >= SHIM_PATH_SIZE ||
        strlen(launch->cgroup) >= SHIM_PATH_SIZE) {
        return -EINVAL;
    }
    if (launch->cgroup[0] != '\0' && (launch->cgroup[0] != '/' || path_climbs(launch->cgroup))) {
        return -EINVAL;
    }
    if (launch->rank_count == 0 || launch->rank_count > SHIM_RANKS_MAX ||
        !env_is_valid(&launch->env)) {
        return -EINVAL;
    }
    for (uint32_t i = 0; i < launch->rank_count; i++) {
        if (!rank_is_valid(launch, i)) {
            return -EINVAL;
        }
    }
    return 0;
}

/* ---- encoding --------------------------------------------------------------------------- */

/* With bytes == NULL it only measures. */
struct writer {
    uint8_t *bytes;
    size_t size;
    int error;
};

static void write_bytes(struct writer *writer, const void *data, size_t size)
{
    if (writer->error != 0) {
        return;
    }
    if (size > SHIM_LAUNCH_MAX - writer->size) {
        writer->error = -EINVAL;
        return;
    }
    if (writer->bytes != NULL) {
        memcpy(writer->bytes + writer->size, data, size);
    }
    writer->size += size;
}

static void write_u32(struct writer *writer, uint32_t value)
{
    write_bytes(writer, &value, sizeof(value));
}

static void write_text(struct writer *writer, const char *text)
{
    size_t length = text == NULL ? SIZE_MAX : strnlen(text, SHIM_TEXT_MAX + 1);
    if (length > SHIM_TEXT_MAX) {
        writer->error = -EINVAL;
        return;
    }
    write_u32(writer, (uint32_t)length);
    write_bytes(writer, text, length + 1);
}

static void write_list(struct writer *writer, const struct shim_list *list)
{
    if (list->count > SHIM_LIST_MAX) {
        writer->error = -EINVAL;
        return;
    }
    write_u32(writer, list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        write_text(writer, list->items[i]);
    }
}

static void write_launch(struct writer *writer, const struct shim_launch *launch)
{
    uint32_t group_count =
        launch->group_count > SHIM_GROUPS_MAX ? SHIM_GROUPS_MAX : launch->group_count;
    uint32_t rank_count = launch->rank_count > SHIM_RANKS_MAX ? SHIM_RANKS_MAX : launch->rank_count;

    write_u32(writer, launch->job);
    write_u32(writer, launch->attempt);
    write_bytes(writer, launch->cookie, SHIM_COOKIE_SIZE - 1);
    write_u32(writer, launch->uid);
    write_u32(writer, launch->gid);
    write_u32(writer, group_count);
    write_bytes(writer, launch->groups, group_count * sizeof(launch->groups[0]));
    write_u32(writer, launch->allow_root ? 1 : 0);
    write_u32(writer, launch->umask);
    write_bytes(writer, &launch->core_bytes, sizeof(launch->core_bytes));
    write_text(writer, launch->workdir);
    write_text(writer, launch->cgroup);
    write_list(writer, &launch->env);
    write_u32(writer, rank_count);
    for (uint32_t i = 0; i < rank_count; i++) {
        write_u32(writer, launch->ranks[i].rank);
        write_list(writer, &launch->ranks[i].argv);
        write_list(writer, &launch->ranks[i].env);
        write_text(writer, launch->ranks[i].output);
    }
}

int shim_launch_encode(const struct shim_launch *launch, uint8_t **ret_bytes, size_t *ret_size)
{
    static const uint8_t head[LAUNCH_HEAD] = {0};
    struct writer writer = {0};

    write_bytes(&writer, head, sizeof(head));
    write_launch(&writer, launch);
    if (writer.error != 0) {
        return writer.error;
    }
    int result = launch_check(launch);
    if (result != 0) {
        return result;
    }
    writer.bytes = malloc(writer.size);
    if (writer.bytes == NULL) {
        return -ENOMEM;
    }
    writer.size = 0;
    write_bytes(&writer, head, sizeof(head));
    write_launch(&writer, launch);

    uint64_t magic = LAUNCH_MAGIC;
    uint32_t version = LAUNCH_VERSION;
    uint32_t size = (uint32_t)writer.size;
    uint64_t checksum = shim_record_checksum(writer.bytes + LAUNCH_HEAD, writer.size - LAUNCH_HEAD);
    memcpy(writer.bytes, &magic, 8);
    memcpy(writer.bytes + 8, &version, 4);
    memcpy(writer.bytes + 12, &size, 4);
    memcpy(writer.bytes + 16, &checksum, 8);
    *ret_bytes = writer.bytes;
    *ret_size = writer.size;
    return 0;
}

/* ---- decoding --------------------------------------------------------------------------- */

/* With pointers == NULL it only counts. */
struct reader {
    const uint8_t *bytes;
    size_t size;
    size_t at;
    const char **pointers;
    size_t pointer_count;
    int error;
};

static const void *read_bytes(struct reader *reader, size_t size)
{
    if (reader->error != 0 || size > reader->size - reader->at) {
        reader->error = -EBADMSG;
        return NULL;
    }
    const void *data = reader->bytes + reader->at;
    reader->at += size;
    return data;
}

static uint32_t read_u32(struct reader *reader)
{
    uint32_t value = 0;
    const void *data = read_bytes(reader, sizeof(value));
    if (data != NULL) {
        memcpy(&value, data, sizeof(value));
    }
    return value;
}

static const char *read_text(struct reader *reader)
{
    uint32_t length = read_u32(reader);
    if (length > SHIM_TEXT_MAX) {
        reader->error = -EBADMSG;
    }
    const char *text = reader->error == 0 ? read_bytes(reader, (size_t)length + 1) : NULL;
    if (text == NULL || memchr(text, '\0', (size_t)length + 1) != text + length) {
        reader->error = -EBADMSG;
        return "";
    }
    return text;
}

static void read_list(struct reader *reader, struct shim_list *ret_list)
{
    uint32_t count = read_u32(reader);
    if (count > SHIM_LIST_MAX) {
        reader->error = -EBADMSG;
    }
    ret_list->count = 0;
    ret_list->items = NULL;
    if (reader->error != 0) {
        return;
    }
    const char **items = reader->pointers == NULL ? NULL : reader->pointers + reader->pointer_count;
    reader->pointer_count += (size_t)count + 1;
    for (uint32_t i = 0; i < count && reader->error == 0; i++) {
        const char *text = read_text(reader);
        if (items != NULL) {
            items[i] = text;
        }
    }
    if (items != NULL) {
        items[count] = NULL;
        ret_list->count = count;
        ret_list->items = items;
    }
}

static void read_launch(struct reader *reader, struct shim_launch *ret_launch)
{
    memset(ret_launch, 0, sizeof(*ret_launch));
    ret_launch->job = read_u32(reader);
    ret_launch->attempt = read_u32(reader);
    const void *cookie = read_bytes(reader, SHIM_COOKIE_SIZE - 1);
    if (cookie != NULL) {
        memcpy(ret_launch->cookie, cookie, SHIM_COOKIE_SIZE - 1);
    }
    ret_launch->uid = read_u32(reader);
    ret_launch->gid = read_u32(reader);
    ret_launch->group_count = read_u32(reader);
    if (ret_launch->group_count > SHIM_GROUPS_MAX) {
        reader->error = -EBADMSG;
        return;
    }
    for (uint32_t i = 0; i < ret_launch->group_count; i++) {
        ret_launch->groups[i] = read_u32(reader);
    }
    ret_launch->allow_root = read_u32(reader) != 0;
    ret_launch->umask = read_u32(reader);
    const void *core_bytes = read_bytes(reader, sizeof(ret_launch->core_bytes));
    if (core_bytes != NULL) {
        memcpy(&ret_launch->core_bytes, core_bytes, sizeof(ret_launch->core_bytes));
    }
    ret_launch->workdir = read_text(reader);
    ret_launch->cgroup = read_text(reader);
    read_list(reader, &ret_launch->env);
    ret_launch->rank_count = read_u32(reader);
    if (ret_launch->rank_count > SHIM_RANKS_MAX) {
        reader->error = -EBADMSG;
        return;
    }
    for (uint32_t i = 0; i < ret_launch->rank_count; i++) {
        ret_launch->ranks[i].rank = read_u32(reader);
        read_list(reader, &ret_launch->ranks[i].argv);
        read_list(reader, &ret_launch->ranks[i].env);
        ret_launch->ranks[i].output = read_text(reader);
    }
    if (reader->at != reader->size) {
        reader->error = -EBADMSG;
    }
}

static int head_check(const uint8_t *bytes, size_t size)
{
    uint64_t magic;
    uint32_t version;
    uint32_t size_said;
    uint64_t checksum;

    if (size < LAUNCH_HEAD || size > SHIM_LAUNCH_MAX) {
        return -EBADMSG;
    }
    memcpy(&magic, bytes, 8);
    memcpy(&version, bytes + 8, 4);
    memcpy(&size_said, bytes + 12, 4);
    memcpy(&checksum, bytes + 16, 8);
    if (magic != LAUNCH_MAGIC) {
        return -EBADMSG;
    }
    if (version != LAUNCH_VERSION) {
        return -EPROTO;
    }
    if (size_said != size ||
        checksum != shim_record_checksum(bytes + LAUNCH_HEAD, size - LAUNCH_HEAD)) {
        return -EBADMSG;
    }
    return 0;
}

/* Number of list slots that decoding needs, or -errno. */
static int slots_count(const uint8_t *bytes, size_t size, size_t *ret_count)
{
    struct shim_launch launch;
    struct reader reader = {.bytes = bytes, .size = size, .at = LAUNCH_HEAD};
    int result = head_check(bytes, size);
    if (result != 0) {
        return result;
    }
    read_launch(&reader, &launch);
    *ret_count = reader.pointer_count;
    return reader.error;
}

static int slots_fill(const uint8_t *bytes, size_t size, const char **slots,
                      struct shim_launch *ret_launch)
{
    struct reader reader = {.bytes = bytes, .size = size, .at = LAUNCH_HEAD, .pointers = slots};
    struct shim_launch launch;

    read_launch(&reader, &launch);
    int result = reader.error != 0 ? reader.error : launch_check(&launch);
    if (result == 0) {
        *ret_launch = launch;
    }
    return result;
}

int shim_launch_decode(const uint8_t *bytes, size_t size, struct shim_launch *ret_launch,
                       void **ret_memory)
{
    size_t count = 0;
    int result = slots_count(bytes, size, &count);
    if (result != 0) {
        return result;
    }
    const char **slots = malloc(count * sizeof(*slots));
    if (slots == NULL) {
        return -ENOMEM;
    }
    result = slots_fill(bytes, size, slots, ret_launch);
    if (result != 0) {
        free(slots);
        return result;
    }
    *ret_memory = slots;
    return 0;
}

/* ---- the file --------------------------------------------------------------------------- */

/* The whole file, malloc'ed. -ENOENT, -EBADMSG when it is empty, too long or not a file. */
static int file_read(int dir_fd, const char *name, uint8_t **ret_bytes, size_t *ret_size)
{
    struct stat info;
    uint8_t *bytes = NULL;
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return -errno;
    }
    int result = fstat(fd, &info) != 0 ? -errno : 0;
    if (result == 0 &&
        (!S_ISREG(info.st_mode) || info.st_size <= 0 || info.st_size > SHIM_LAUNCH_MAX)) {
        result = -EBADMSG;
    }
    size_t size = result == 0 ? (size_t)info.st_size : 0;
    if (result == 0) {
        bytes = malloc(size);
        result = bytes == NULL ? -ENOMEM : 0;
    }
    if (result == 0) {
        ssize_t got = pread(fd, bytes, size, 0);
        result = got < 0 ? -errno : (size_t)got != size ? -EBADMSG : 0;
    }
    (void)close(fd); /* opened for reading: nothing to lose */
    if (result != 0) {
        free(bytes);
        return result;
    }
    *ret_bytes = bytes;
    *ret_size = size;
    return 0;
}

int shim_launch_read(int dir_fd, struct shim_launch *ret_launch, void **ret_memory)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    size_t count = 0;
    int result = file_read(dir_fd, SHIM_FILE_LAUNCH, &bytes, &size);
    if (result != 0) {
        return result;
    }
    result = slots_count(bytes, size, &count);
    /* One block: the list slots, then the bytes that they point into. */
    const char **slots = result == 0 ? malloc(count * sizeof(*slots) + size) : NULL;
    if (result == 0 && slots == NULL) {
        result = -ENOMEM;
    }
    if (result == 0) {
        uint8_t *copy = (uint8_t *)(slots + count);
        memcpy(copy, bytes, size);
        result = slots_fill(copy, size, slots, ret_launch);
    }
    free(bytes);
    if (result != 0) {
        free(slots);
        return result;
    }
    *ret_memory = slots;
    return 0;
}

/* A whole durable file under the temporary name. */
static int temporary_write(int dir_fd, const uint8_t *bytes, size_t size)
{
    int fd = openat(dir_fd, LAUNCH_TEMPORARY, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                    0600);
    if (fd < 0) {
        return -errno;
    }
    int result = shim_record_write_all(fd, bytes, size, 0);
    if (result == 0 && fsync(fd) != 0) {
        result = -errno;
    }
    if (close(fd) != 0 && result == 0) {
        result = -errno;
    }
    return result;
}

int shim_launch_write(int dir_fd, const struct shim_launch *launch)
{
    uint8_t *bytes = NULL;
    uint8_t *old = NULL;
    size_t size = 0;
    size_t old_size = 0;
    int result = shim_launch_encode(launch, &bytes, &size);
    if (result != 0) {
        return result;
    }
    result = file_read(dir_fd, SHIM_FILE_LAUNCH, &old, &old_size);
    if (result == 0) {
        result = old_size == size && memcmp(old, bytes, size) == 0 ? 0 : -EEXIST;
    } else if (result == -ENOENT) {
        result = temporary_write(dir_fd, bytes, size);
        if (result == 0 &&
            renameat2(dir_fd, LAUNCH_TEMPORARY, dir_fd, SHIM_FILE_LAUNCH, RENAME_NOREPLACE) != 0) {
            result = -errno;
        }
        if (result == 0 && fsync(dir_fd) != 0) {
            result = -errno;
        }
        if (result != 0) {
            (void)unlinkat(dir_fd, LAUNCH_TEMPORARY, 0); /* what is left is overwritten next time */
        }
    }
    free(old);
    free(bytes);
    return result;
}
