/* read.c: see read.h. */
#include "agent/probe/read.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/sort.h"
#include "proto/base/text.h"

static int read_file(char *target, size_t size, const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return -errno;
    }
    size_t used = 0;
    ssize_t got = 1;
    while (got > 0 && used < size - 1) {
        got = read(fd, target + used, size - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    }
    const int code = got < 0 ? -errno : 0;
    (void)close(fd); /* opened for reading */
    while (used > 0 && isspace((unsigned char)target[used - 1])) {
        used--;
    }
    target[used] = '\0';
    return code;
}

int read_text(char *target, size_t size, const char *format, ...)
{
    char path[READ_PATH_SIZE];
    va_list arguments;
    va_start(arguments, format);
    const bool fits = text_format_list(path, sizeof(path), format, arguments);
    va_end(arguments);
    target[0] = '\0';
    return fits ? read_file(target, size, path) : -ENAMETOOLONG;
}

int read_parse(const char *text, uint64_t *ret_number)
{
    const bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const uint64_t base = hex ? 16 : 10;
    const char *at = text + (hex ? 2 : 0);
    uint64_t number = 0;
    uint32_t digits = 0;
    for (; isxdigit((unsigned char)*at) && (hex || isdigit((unsigned char)*at)); at++) {
        const uint64_t digit = isdigit((unsigned char)*at)
                                   ? (uint64_t)(*at - '0')
                                   : (uint64_t)(tolower((unsigned char)*at) - 'a' + 10);
        if (number > (UINT64_MAX - digit) / base) {
            return -ERANGE;
        }
        number = number * base + digit;
        digits++;
    }
    if (digits == 0 || (*at != '\0' && !isspace((unsigned char)*at))) {
        return -EINVAL;
    }
    *ret_number = number;
    return 0;
}

int read_parse_list(const char *text, uint64_t *ret_numbers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const int r = read_parse(text, &ret_numbers[i]);
        text += strcspn(text, " ");
        if (r != 0 || (*text == '\0') != (i + 1 == count)) {
            return -EINVAL;
        }
        text += *text == ' ';
    }
    return 0;
}

int read_number(uint64_t *ret_number, const char *format, ...)
{
    char path[READ_PATH_SIZE];
    char text[64];
    va_list arguments;
    va_start(arguments, format);
    const bool fits = text_format_list(path, sizeof(path), format, arguments);
    va_end(arguments);
    const int r = fits ? read_file(text, sizeof(text), path) : -ENAMETOOLONG;
    return r == 0 ? read_parse(text, ret_number) : r;
}

static int by_name(const void *a, const void *b, const void *context)
{
    const struct read_names *names = context;
    return text_order(names->names[*(const uint32_t *)a], names->names[*(const uint32_t *)b]);
}

static void sort_names(struct read_names *names)
{
    uint32_t order[READ_NAMES_MAX];
    struct read_names sorted = *names;
    for (uint32_t i = 0; i < names->count; i++) {
        order[i] = i;
    }
    sort_u32(order, names->count, by_name, names);
    for (uint32_t i = 0; i < names->count; i++) {
        (void)text_copy(sorted.names[i], READ_NAME_SIZE, names->names[order[i]]);
    }
    *names = sorted;
}

int read_names(struct read_names *ret_names, const char *format, ...)
{
    char path[READ_PATH_SIZE];
    va_list arguments;
    va_start(arguments, format);
    const bool fits = text_format_list(path, sizeof(path), format, arguments);
    va_end(arguments);
    DIR *folder = fits ? opendir(path) : NULL;
    if (folder == NULL) {
        return fits ? -errno : -ENAMETOOLONG;
    }
    ret_names->count = 0;
    ret_names->left_out = 0;
    errno = 0;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        if (ret_names->count == READ_NAMES_MAX ||
            !text_copy(ret_names->names[ret_names->count], READ_NAME_SIZE, entry->d_name)) {
            ret_names->left_out++;
            continue;
        }
        ret_names->count++;
    }
    const int code = errno;
    (void)closedir(folder); /* opened for reading */
    sort_names(ret_names);
    return code != 0 ? -code : 0;
}
