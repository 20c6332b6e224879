/* tokens.c: see tokens.h. GnuTLS gives the hash. */
#include "controller/api/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "controller/api/http.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { HASH_SIZE = 32, LINE_SIZE = 256, FILE_MAX = TOKENS_MAX * LINE_SIZE };

struct token {
    uint8_t role;
    char name[NAME_SIZE];
    uint8_t hash[HASH_SIZE];
};

struct tokens {
    uint32_t count;
    struct token items[TOKENS_MAX];
};

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hash(const char *text, uint8_t hash[HASH_SIZE])
{
    if (strlen(text) != 2 * HASH_SIZE) {
        return false;
    }
    for (size_t i = 0; i < HASH_SIZE; i++) {
        int high = hex_digit(text[2 * i]);
        int low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        hash[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

static uint8_t role_of(const char *word)
{
    if (text_equal(word, "viewer")) {
        return ROLE_VIEWER;
    }
    if (text_equal(word, "submitter")) {
        return ROLE_SUBMITTER;
    }
    return text_equal(word, "operator") ? ROLE_OPERATOR : ROLE_NONE;
}

/* The next word of a line, cut out of it; "" at its end. */
static const char *take_word(char **rest)
{
    char *word = *rest + strspn(*rest, " \t\r");
    size_t size = strcspn(word, " \t\r");
    *rest = word[size] == '\0' ? word + size : word + size + 1;
    word[size] = '\0';
    return word;
}

static bool is_twice(const struct tokens *tokens, const struct token *token)
{
    for (uint32_t i = 0; i < tokens->count; i++) {
        if (memcmp(tokens->items[i].hash, token->hash, HASH_SIZE) == 0) {
            return true;
        }
    }
    return false;
}

static int read_line(struct tokens *tokens, char *line, int number, const char *path,
                     struct err *err)
{
    const char *role = take_word(&line);
    const char *name = take_word(&line);
    const char *hash = take_word(&line);
    if (role[0] == '\0' || role[0] == '#') {
        return 0;
    }
    if (tokens->count == TOKENS_MAX) {
        return err_set(err, -E2BIG, "%s: more than %d tokens", path, TOKENS_MAX);
    }
    struct token *token = &tokens->items[tokens->count];
    token->role = role_of(role);
    if (token->role == ROLE_NONE || !text_is_name(name, NAME_SIZE) ||
        !read_hash(hash, token->hash) || take_word(&line)[0] != '\0') {
        return err_set(err, -EINVAL,
                       "%s:%d: not \"ROLE NAME SHA256\"; role is viewer, submitter or "
                       "operator, the hash 64 hex digits (printf %%s TOKEN | sha256sum)",
                       path, number);
    }
    if (is_twice(tokens, token)) {
        return err_set(err, -EINVAL, "%s:%d: this token is in the file twice", path, number);
    }
    text_copy(token->name, sizeof token->name, name);
    tokens->count++;
    return 0;
}

static int check_file(const char *path, const struct stat *info, struct err *err)
{
    if (!S_ISREG(info->st_mode)) {
        return err_set(err, -EINVAL, "token file %s is no regular file", path);
    }
    if (info->st_uid != 0 && info->st_uid != geteuid()) {
        return err_set(err, -EACCES, "token file %s belongs to uid %u; it must be ours or root's",
                       path, (unsigned)info->st_uid);
    }
    if ((info->st_mode & 077) != 0) {
        return err_set(err, -EACCES, "token file %s may be read by others; chmod 600 %s", path,
                       path);
    }
    return info->st_size < FILE_MAX
               ? 0
               : err_set(err, -EFBIG, "token file %s is over %d bytes", path, FILE_MAX);
}

static int read_all(int fd, char *text, struct err *err)
{
    size_t size = 0;
    while (size < FILE_MAX - 1) {
        ssize_t got = read(fd, text + size, FILE_MAX - 1 - size);
        if (got < 0 && errno != EINTR) {
            return err_set(err, -errno, "token file: %s", strerror(errno));
        }
        if (got == 0) {
            break;
        }
        size += got > 0 ? (size_t)got : 0;
    }
    text[size] = '\0';
    return 0;
}

static int read_file(const char *path, char *text, struct err *err)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO would hold us up */
    if (fd < 0 || fstat(fd, &info) != 0) {
        int code = -errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        return err_set(err, code, "token file %s: %s", path, strerror(-code));
    }
    int code = check_file(path, &info, err);
    code = code < 0 ? code : read_all(fd, text, err);
    (void)close(fd);
    return code;
}

int tokens_load(const char *path, struct tokens **ret_tokens, struct err *err)
{
    CLEANUP_FREE char *text = mem_alloc(FILE_MAX, 1);
    int code = read_file(path, text, err);
    if (code < 0) {
        return code;
    }
    struct tokens *tokens = mem_alloc(1, sizeof *tokens);
    int number = 0;
    for (char *line = text; code == 0 && *line != '\0';) {
        size_t size = strcspn(line, "\n");
        char *next = line[size] == '\n' ? line + size + 1 : line + size;
        line[size] = '\0';
        code = read_line(tokens, line, ++number, path, err);
        line = next;
    }
    if (code < 0) {
        tokens_free(tokens);
        return code;
    }
    *ret_tokens = tokens;
    return 0;
}

struct tokens *tokens_free(struct tokens *tokens)
{
    return mem_free(tokens);
}

uint8_t tokens_role(const struct tokens *tokens, const char *token, const char **ret_name)
{
    uint8_t hash[HASH_SIZE];
    uint8_t role = ROLE_NONE;
    if (tokens == NULL || gnutls_hash_fast(GNUTLS_DIG_SHA256, token, strlen(token), hash) != 0) {
        return ROLE_NONE;
    }
    for (uint32_t i = 0; i < tokens->count; i++) {
        if (gnutls_memcmp(hash, tokens->items[i].hash, HASH_SIZE) == 0) {
            role = tokens->items[i].role;
            *ret_name = tokens->items[i].name;
        }
    }
    return role;
}
