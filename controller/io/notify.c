/* notify.c: see notify.h. The protocol is sd_notify(3)'s. */
#include "controller/io/notify.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *socket_path(void)
{
    static const char name[] = "NOTIFY_SOCKET=";
    for (char *const *entry = environ; entry != NULL && *entry != NULL; entry++) {
        if (strncmp(*entry, name, sizeof(name) - 1) == 0) {
            return *entry + sizeof(name) - 1;
        }
    }
    return NULL;
}

void notify_manager(const char *state)
{
    const char *path = socket_path();
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = path != NULL ? strlen(path) : 0;
    if (size < 2 || size >= sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@')) {
        return;
    }
    memcpy(address.sun_path, path, size);
    if (path[0] == '@') {
        address.sun_path[0] = '\0'; /* the abstract namespace */
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return;
    }
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size));
    (void)close(fd);
}
