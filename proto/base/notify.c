/* notify.c: see notify.h. The protocol is sd_notify(3)'s. */
#include "proto/base/notify.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/base/text.h"

static const char *variable(const char *name)
{
    const size_t size = strlen(name);
    for (char *const *entry = environ; entry != NULL && *entry != NULL; entry++) {
        if (strncmp(*entry, name, size) == 0 && (*entry)[size] == '=') {
            return *entry + size + 1;
        }
    }
    return NULL;
}

void notify_manager(const char *state)
{
    const char *path = variable("NOTIFY_SOCKET");
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

uint64_t notify_watchdog_ms(void)
{
    const char *pid_text = variable("WATCHDOG_PID");
    const char *period_text = variable("WATCHDOG_USEC");
    uint64_t pid = 0;
    uint64_t period_us = 0;
    if (variable("NOTIFY_SOCKET") == NULL || period_text == NULL ||
        text_to_u64(period_text, UINT64_MAX, &period_us) != 0 || period_us == 0) {
        return 0;
    }
    if (pid_text != NULL &&
        (text_to_u64(pid_text, UINT32_MAX, &pid) != 0 || pid != (uint64_t)getpid())) {
        return 0;
    }
    const uint64_t half_ms = period_us / 2000;
    return half_ms > 0 ? half_ms : 1;
}
