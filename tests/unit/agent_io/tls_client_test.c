/* tls_client_test.c: our client against a GnuTLS server in memory: the right key, a wrong key, and
 * something that is no TLS; and what a key file must be. */
#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/io/tls_client.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"

#define KEY       "00112233445566778899aabbccddeeff"
#define OTHER_KEY "ffffffffffffffffffffffffffffffff"

static void write_key(char path[64], const char *key, mode_t mode)
{
    (void)text_copy(path, 64, "/tmp/keepstep-key.XXXXXX");
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, key, strlen(key)), strlen(key));
    assert_int_equal(fchmod(fd, mode), 0);
    (void)close(fd);
}

/* ---- a server ------------------------------------------------------------------------------- */

struct server {
    gnutls_session_t session;
    gnutls_psk_server_credentials_t credentials;
    struct buf in;
    struct buf out;
    char identity[64];
    bool ready;
};

static int find_key(gnutls_session_t session, const char *name, gnutls_datum_t *ret_key)
{
    const gnutls_datum_t text = {(unsigned char *)(uintptr_t)KEY, sizeof(KEY) - 1};
    struct server *server = gnutls_session_get_ptr(session);
    (void)text_copy(server->identity, sizeof(server->identity), name);
    return gnutls_hex_decode2(&text, ret_key);
}

static ssize_t pull(gnutls_transport_ptr_t pointer, void *target, size_t size)
{
    struct server *server = pointer;
    if (server->in.size == 0) {
        gnutls_transport_set_errno(server->session, EAGAIN);
        return -1;
    }
    const size_t count = size < server->in.size ? size : server->in.size;
    memcpy(target, server->in.data, count);
    buf_consume(&server->in, count);
    return (ssize_t)count;
}

static int pull_timeout(gnutls_transport_ptr_t pointer, unsigned int ms)
{
    (void)ms;
    return ((const struct server *)pointer)->in.size > 0;
}

static ssize_t push(gnutls_transport_ptr_t pointer, const void *data, size_t size)
{
    assert_int_equal(buf_put(&((struct server *)pointer)->out, data, size), 0);
    return (ssize_t)size;
}

static void server_open(struct server *server)
{
    memset(server, 0, sizeof(*server));
    buf_init(&server->in, 1 << 20);
    buf_init(&server->out, 1 << 20);
    assert_int_equal(gnutls_init(&server->session, GNUTLS_SERVER | GNUTLS_NONBLOCK), 0);
    assert_int_equal(gnutls_priority_set_direct(server->session,
                                                "NORMAL:-VERS-ALL:+VERS-TLS1.3:+ECDHE-PSK:+DHE-PSK",
                                                NULL),
                     0);
    assert_int_equal(gnutls_psk_allocate_server_credentials(&server->credentials), 0);
    gnutls_psk_set_server_credentials_function(server->credentials, find_key);
    assert_int_equal(gnutls_credentials_set(server->session, GNUTLS_CRD_PSK, server->credentials),
                     0);
    gnutls_session_set_ptr(server->session, server);
    gnutls_transport_set_ptr(server->session, server);
    gnutls_transport_set_pull_function(server->session, pull);
    gnutls_transport_set_pull_timeout_function(server->session, pull_timeout);
    gnutls_transport_set_push_function(server->session, push);
}

static void server_close(struct server *server)
{
    gnutls_deinit(server->session);
    gnutls_psk_free_server_credentials(server->credentials);
    buf_done(&server->in);
    buf_done(&server->out);
}

/* Carries bytes both ways until neither has any; the client's result. */
static int shake(struct tls_client *tls, struct server *server, struct err *err)
{
    int r = tls_client_feed(tls, NULL, 0, err);
    for (int i = 0; i < 20 && r == 0; i++) {
        struct buf *output = tls_client_output(tls);
        assert_int_equal(buf_put(&server->in, output->data, output->size), 0);
        buf_clear(output);
        if (!server->ready) {
            server->ready = gnutls_handshake(server->session) == GNUTLS_E_SUCCESS;
        }
        if (server->out.size > 0) {
            r = tls_client_feed(tls, server->out.data, server->out.size, err);
            buf_clear(&server->out);
        }
    }
    return r;
}

static struct tls_client_key *load(const char *text)
{
    char path[64];
    struct err err = {0};
    struct tls_client_key *key = NULL;
    write_key(path, text, 0600);
    assert_int_equal(tls_client_key_load(path, "gpu-0007", &key, &err), 0);
    (void)unlink(path);
    return key;
}

/* ---- tests ------------------------------------------------------------------------------------ */

static void test_both_ways(void **state)
{
    struct server server;
    struct tls_client *tls = NULL;
    struct err err = {0};
    char text[32] = "";
    (void)state;
    struct tls_client_key *key = load(KEY "\n");
    server_open(&server);
    assert_int_equal(tls_client_create(key, &tls, &err), 0);
    assert_int_equal(shake(tls, &server, &err), 0);
    assert_true(tls_client_ready(tls) && server.ready);
    assert_string_equal(server.identity, "gpu-0007");
    assert_int_equal(tls_client_write(tls, "hello", 5, &err), 0);
    (void)shake(tls, &server, &err);
    assert_int_equal(gnutls_record_recv(server.session, text, sizeof(text)), 5);
    assert_memory_equal(text, "hello", 5);
    assert_int_equal(gnutls_record_send(server.session, "welcome", 7), 7);
    (void)shake(tls, &server, &err);
    assert_int_equal(tls_client_read(tls, text, sizeof(text), &err), 7);
    assert_int_equal(tls_client_read(tls, text, sizeof(text), &err), -EAGAIN);
    (void)tls_client_free(tls);
    server_close(&server);
    (void)tls_client_key_free(key);
}

static void test_wrong_key(void **state)
{
    struct server server;
    struct tls_client *tls = NULL;
    struct err err = {0};
    (void)state;
    struct tls_client_key *key = load(OTHER_KEY);
    server_open(&server);
    assert_int_equal(tls_client_create(key, &tls, &err), 0);
    (void)shake(tls, &server, &err); /* the server refuses, with or without an alert */
    assert_false(tls_client_ready(tls));
    assert_false(server.ready);
    (void)tls_client_free(tls);
    server_close(&server);
    (void)tls_client_key_free(key);
}

static void test_no_tls(void **state)
{
    struct tls_client *tls = NULL;
    struct err err = {0};
    (void)state;
    struct tls_client_key *key = load(KEY);
    assert_int_equal(tls_client_create(key, &tls, &err), 0);
    assert_int_equal(tls_client_feed(tls, NULL, 0, &err), 0);
    assert_true(tls_client_feed(tls, "HTTP/1.1 400 Bad Request\r\n\r\n", 28, &err) < 0);
    assert_true(err.text[0] != '\0');
    (void)tls_client_free(tls);
    (void)tls_client_key_free(key);
}

static void test_key_files(void **state)
{
    static const struct {
        const char *text;
        mode_t mode;
        int result;
    } cases[] = {
        {KEY, 0640, -EPERM},
        {KEY, 0604, -EPERM},
        {"0011", 0600, -EINVAL},
        {"", 0600, -EINVAL},
        {"not a key at all", 0600, -EINVAL},
        {"ABEiM0RVZneImaq7zN3u/w==", 0600, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char path[64];
        struct err err = {0};
        struct tls_client_key *key = NULL;
        write_key(path, cases[i].text, cases[i].mode);
        assert_int_equal(tls_client_key_load(path, "n", &key, &err), cases[i].result);
        (void)unlink(path);
        (void)tls_client_key_free(key);
    }
    struct err err = {0};
    struct tls_client_key *key = NULL;
    assert_int_equal(tls_client_key_load("/no/such/key", "n", &key, &err), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways),
        cmocka_unit_test(test_wrong_key),
        cmocka_unit_test(test_no_tls),
        cmocka_unit_test(test_key_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
