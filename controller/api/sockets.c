/* sockets.c: the two listening sockets of the server. Failures name the address and what to do. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "controller/api/internal.h"
#include "proto/base/text.h"

enum { BACKLOG = 512 };

static int listen_on(int fd, const struct sockaddr *address, socklen_t size, const char *name,
                     struct err *err)
{
    if (bind(fd, address, size) == 0 && listen(fd, BACKLOG) == 0) {
        return fd;
    }
    int code = -errno;
    (void)close(fd);
    return err_set(err, code, "cannot listen on %s: %s%s", name, strerror(-code),
                   code == -EADDRINUSE ? "; is another controller running?" : "");
}

/* ---- Unix ------------------------------------------------------------------------------------ */

/* 0 when nobody listens there any more. Never blocks: a full backlog is somebody, too. */
static int probe(const struct sockaddr_un *address, const char *path, struct err *err)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return err_set(err, -errno, "socket: %s", strerror(errno));
    }
    int code = connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 ? 0 : errno;
    (void)close(fd);
    if (code == ECONNREFUSED || code == ENOENT) {
        return 0;
    }
    return err_set(err, -EADDRINUSE, "another controller answers on %s", path);
}

/* A socket file that a killed controller left behind is removed; one that answers is not. */
static int remove_stale(const struct sockaddr_un *address, const char *path, struct err *err)
{
    struct stat info;
    if (lstat(path, &info) != 0) {
        return 0;
    }
    if (!S_ISSOCK(info.st_mode)) {
        return err_set(err, -EEXIST, "%s is there and is no socket; remove it or set listen.socket",
                       path);
    }
    int code = probe(address, path, err);
    if (code == 0) {
        (void)unlink(path); /* bind says so if it could not be removed */
    }
    return code;
}

int sockets_open_unix(const char *path, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!text_copy(address.sun_path, sizeof address.sun_path, path)) {
        return err_set(err, -ENAMETOOLONG, "listen.socket: %s is longer than %zu bytes", path,
                       sizeof address.sun_path - 1);
    }
    int code = remove_stale(&address, path, err);
    if (code < 0) {
        return code;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return err_set(err, -errno, "socket: %s", strerror(errno));
    }
    fd = listen_on(fd, (const struct sockaddr *)&address, sizeof address, path, err);
    if (fd >= 0) {
        (void)chmod(path, 0666); /* anyone may connect and read; peer credentials decide the rest */
    }
    return fd;
}

/* ---- TCP ------------------------------------------------------------------------------------- */

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
        return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
    }
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* "host:port", "[::1]:port". An IPv6 address without brackets would be ambiguous. */
static int split_address(const char *text, char *host, size_t size, const char **ret_port,
                         struct err *err)
{
    const char *colon = strrchr(text, ':');
    bool whole = colon != NULL && colon > text && (size_t)(colon - text) < size && colon[1] != '\0';
    bool bracket = whole && text[0] == '[' && colon[-1] == ']' && colon - text > 2;
    bool bare = whole && memchr(text, ':', (size_t)(colon - text)) == NULL &&
                memchr(text, '[', (size_t)(colon - text)) == NULL;
    if (!bracket && !bare) {
        return err_set(err, -EINVAL, "listen.rest: %s is not HOST:PORT", text);
    }
    size_t length = (size_t)(colon - text) - (bracket ? 2 : 0);
    memcpy(host, text + (bracket ? 1 : 0), length);
    host[length] = '\0';
    *ret_port = colon + 1;
    return 0;
}

static int listen_tcp(const struct addrinfo *found, const char *text, struct err *err)
{
    int on = 1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return err_set(err, -errno, "socket: %s", strerror(errno));
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* only a quick restart */
    return listen_on(fd, found->ai_addr, found->ai_addrlen, text, err);
}

int sockets_open_tcp(const char *address, bool has_tokens, bool *ret_loopback, struct err *err)
{
    char host[128];
    const char *port = NULL;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int code = split_address(address, host, sizeof host, &port, err);
    if (code < 0) {
        return code;
    }
    int failed = getaddrinfo(host, port, &hints, &found);
    if (failed != 0) {
        return err_set(err, -EINVAL, "listen.rest: %s: %s", address, gai_strerror(failed));
    }
    *ret_loopback = is_loopback(found->ai_addr);
    if (!*ret_loopback && !has_tokens) {
        code = err_set(err, -EACCES,
                       "listen.rest: %s is not loopback: set token_file, so that requests need a "
                       "token",
                       address);
    } else {
        code = listen_tcp(found, address, err);
    }
    freeaddrinfo(found);
    return code;
}
