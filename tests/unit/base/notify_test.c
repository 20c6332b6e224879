/* notify_test.c: what arrives at the service manager's socket. */
#include "tests/lib/test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/base/notify.h"
#include "proto/base/text.h"

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t size = strlen(path);
    assert_true(size < sizeof(address.sun_path));
    memcpy(address.sun_path, path, size);
    if (path[0] == '@') {
        address.sun_path[0] = '\0';
    }
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size)),
                     0);
    return fd;
}

static void assert_receives(int fd, const char *expected)
{
    char text[256] = "";
    const ssize_t size = recv(fd, text, sizeof(text) - 1, 0);
    if (expected == NULL) {
        assert_int_equal(size, -1);
        return;
    }
    assert_int_equal(size, strlen(expected));
    assert_string_equal(text, expected);
}

static int setup(void **state)
{
    static char dir[64];
    memcpy(dir, "/tmp/notify-test-XXXXXX", sizeof("/tmp/notify-test-XXXXXX"));
    *state = mkdtemp(dir);
    (void)unsetenv("WATCHDOG_PID");
    (void)unsetenv("WATCHDOG_USEC");
    return *state == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    (void)unsetenv("NOTIFY_SOCKET");
    return rmdir(*state);
}

static void test_a_datagram_arrives(void **state)
{
    char path[96];
    assert_true(text_format(path, sizeof(path), "%s/socket", (const char *)*state));
    const int fd = listen_at(path);
    (void)setenv("NOTIFY_SOCKET", path, 1);
    notify_manager("READY=1\nSTATUS=running");
    notify_manager("STOPPING=1");
    assert_receives(fd, "READY=1\nSTATUS=running");
    assert_receives(fd, "STOPPING=1");
    assert_receives(fd, NULL);
    (void)close(fd);
    (void)unlink(path);
    notify_manager("WATCHDOG=1"); /* the manager is gone: nobody notices */
}

static void test_an_abstract_name(void **state)
{
    char path[96];
    assert_true(text_format(path, sizeof(path), "@%s", (const char *)*state));
    const int fd = listen_at(path);
    (void)setenv("NOTIFY_SOCKET", path, 1);
    notify_manager("WATCHDOG=1");
    assert_receives(fd, "WATCHDOG=1");
    (void)close(fd);
}

static void test_names_that_are_none(void **state)
{
    char path[200];
    (void)state;
    memset(path, 'x', sizeof(path) - 1);
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    const char *const names[] = {"", "/", "relative", path, "vsock:2:1234"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)setenv("NOTIFY_SOCKET", names[i], 1);
        notify_manager("READY=1");
    }
}

static void test_how_often_the_watchdog_wants_to_hear(void **state)
{
    char pid[24];
    (void)state;
    assert_true(text_format(pid, sizeof(pid), "%d", (int)getpid()));
    assert_int_equal(notify_watchdog_ms(), 0);
    (void)setenv("WATCHDOG_USEC", "20000000", 1);
    assert_int_equal(notify_watchdog_ms(), 0); /* nobody to tell */
    (void)setenv("NOTIFY_SOCKET", "/run/somewhere", 1);
    assert_int_equal(notify_watchdog_ms(), 10000);
    (void)setenv("WATCHDOG_PID", pid, 1);
    assert_int_equal(notify_watchdog_ms(), 10000);
    (void)setenv("WATCHDOG_PID", "1", 1); /* it watches another process */
    assert_int_equal(notify_watchdog_ms(), 0);
    (void)setenv("WATCHDOG_PID", pid, 1);
    (void)setenv("WATCHDOG_USEC", "1", 1);
    assert_int_equal(notify_watchdog_ms(), 1);
    (void)setenv("WATCHDOG_USEC", "soon", 1);
    assert_int_equal(notify_watchdog_ms(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_datagram_arrives, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_abstract_name, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_that_are_none, setup, teardown),
        cmocka_unit_test_setup_teardown(test_how_often_the_watchdog_wants_to_hear, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
