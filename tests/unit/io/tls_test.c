/* tls_test.c: the key file, and two sessions that talk through buffers. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "controller/io/tls.h"
#include "proto/base/text.h"

#define HEX_KEY    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define OTHER_KEY  "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define BASE64_KEY "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

static const char *write_key(const char *text, mode_t mode)
{
    static char path[] = "/tmp/keepstep-tls-XXXXXX";
    memcpy(path + sizeof(path) - 7, "XXXXXX", 6);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    (void)close(fd);
    return path;
}

static struct tls_key *load(const char *text, enum tls_side side, const char *identity)
{
    struct tls_key *key = NULL;
    struct err err = {0};
    const char *path = write_key(text, 0600);
    int result = tls_key_load(path, side, identity, &key, &err);
    (void)unlink(path);
    if (result < 0) {
        fail_msg("%s", err.text);
    }
    return key;
}

static int load_result(const char *text, mode_t mode)
{
    struct tls_key *key = NULL;
    struct err err = {0};
    const char *path = write_key(text, mode);
    int result = tls_key_load(path, TLS_SERVER, NULL, &key, &err);
    (void)unlink(path);
    assert_true(result == 0 || err.text[0] != '\0');
    (void)tls_key_free(key);
    return result;
}

static void test_key_file(void **state)
{
    (void)state;
    assert_int_equal(load_result(HEX_KEY "\n", 0600), 0);
    assert_int_equal(load_result(BASE64_KEY, 0400), 0);
    assert_int_equal(load_result(HEX_KEY, 0640), -EPERM);
    assert_int_equal(load_result(HEX_KEY, 0604), -EPERM);
    assert_int_equal(load_result("0011", 0600), -EINVAL);
    assert_int_equal(load_result("", 0600), -EINVAL);
    assert_int_equal(load_result("not a key at all!", 0600), -EINVAL);
    struct tls_key *key = NULL;
    struct err err = {0};
    assert_int_equal(tls_key_load("/nonexistent/key", TLS_SERVER, NULL, &key, &err), -ENOENT);
    assert_int_equal(tls_key_load("/tmp", TLS_SERVER, NULL, &key, &err), -EINVAL);
}

/* Moves what one side wants to send to the other; the first failure of either is returned. */
static int pump(struct tls *from, struct tls *to, struct err *err)
{
    struct buf *output = tls_output(from);
    int result = 0;
    if (output->size > 0) {
        result = tls_feed(to, output->data, output->size, err);
        buf_clear(output);
    }
    return result == 0 ? tls_advance(to, err) : result;
}

struct pair {
    struct tls_key *server_key;
    struct tls_key *client_key;
    struct tls *server;
    struct tls *client;
};

static void open_pair(struct pair *pair, const char *server, const char *client,
                      const char *identity)
{
    struct err err = {0};
    pair->server_key = load(server, TLS_SERVER, NULL);
    pair->client_key = load(client, TLS_CLIENT, identity);
    assert_int_equal(tls_create(pair->server_key, &pair->server, &err), 0);
    assert_int_equal(tls_create(pair->client_key, &pair->client, &err), 0);
}

static void close_pair(struct pair *pair)
{
    (void)tls_free(pair->server);
    (void)tls_free(pair->client);
    (void)tls_key_free(pair->server_key);
    (void)tls_key_free(pair->client_key);
}

static int shake_hands(struct pair *pair, struct err *err)
{
    int result = tls_advance(pair->client, err);
    for (int round = 0; round < 8 && result == 0; round++) {
        result = pump(pair->client, pair->server, err);
        if (result == 0) {
            result = pump(pair->server, pair->client, err);
        }
    }
    return result;
}

static void test_talk(void **state)
{
    (void)state;
    struct pair pair;
    struct err err = {0};
    open_pair(&pair, HEX_KEY, BASE64_KEY, "gpu-0001"); /* the same key, written in two ways */
    assert_int_equal(tls_write(pair.server, "x", 1, &err), -EAGAIN);
    assert_int_equal(shake_hands(&pair, &err), 0);
    assert_true(tls_ready(pair.server));
    assert_true(tls_ready(pair.client));
    assert_string_equal(tls_identity(pair.server), "gpu-0001");

    static uint8_t sent[100000];
    static uint8_t got[sizeof(sent) + 1]; /* one more than comes */
    for (size_t index = 0; index < sizeof(sent); index++) {
        sent[index] = (uint8_t)(index * 7);
    }
    assert_int_equal(tls_write(pair.server, sent, sizeof(sent), &err), 0);
    assert_true(tls_output(pair.server)->size > sizeof(sent));
    /* Nothing of it goes over in the clear. */
    assert_null(memmem(tls_output(pair.server)->data, tls_output(pair.server)->size, sent, 64));
    assert_int_equal(pump(pair.server, pair.client, &err), 0);
    size_t size = 0;
    int part;
    while ((part = tls_read(pair.client, got + size, sizeof(got) - size, &err)) > 0) {
        size += (size_t)part;
    }
    assert_int_equal(part, -EAGAIN);
    assert_int_equal(size, sizeof(sent));
    assert_memory_equal(got, sent, sizeof(sent));

    tls_bye(pair.client);
    assert_int_equal(pump(pair.client, pair.server, &err), 0);
    assert_int_equal(tls_read(pair.server, got, sizeof(got), &err), 0);
    close_pair(&pair);
}

static void test_wrong_key(void **state)
{
    (void)state;
    struct pair pair;
    struct err err = {0};
    open_pair(&pair, HEX_KEY, OTHER_KEY, "gpu-0001");
    assert_int_equal(shake_hands(&pair, &err), -EACCES);
    assert_false(tls_ready(pair.server));
    close_pair(&pair);
}

static void test_bad_identity(void **state)
{
    (void)state;
    struct pair pair;
    struct err err = {0};
    open_pair(&pair, HEX_KEY, HEX_KEY, "../etc");
    assert_true(shake_hands(&pair, &err) < 0);
    assert_false(tls_ready(pair.server));
    close_pair(&pair);
}

static void test_garbage(void **state)
{
    (void)state;
    struct pair pair;
    struct err err = {0};
    open_pair(&pair, HEX_KEY, HEX_KEY, "keepstep");
    uint8_t garbage[512];
    memset(garbage, 'G', sizeof(garbage));
    assert_int_equal(tls_feed(pair.server, garbage, sizeof(garbage), &err), 0);
    assert_true(tls_advance(pair.server, &err) < 0);
    assert_false(tls_ready(pair.server));
    close_pair(&pair);
}

/* A record that was changed on the way ends the session. */
static void test_tampered(void **state)
{
    (void)state;
    struct pair pair;
    struct err err = {0};
    open_pair(&pair, HEX_KEY, HEX_KEY, "keepstep");
    assert_int_equal(shake_hands(&pair, &err), 0);
    assert_int_equal(tls_write(pair.client, "hello", 5, &err), 0);
    tls_output(pair.client)->data[8] ^= 1;
    assert_int_equal(pump(pair.client, pair.server, &err), 0);
    char text[16];
    assert_int_equal(tls_read(pair.server, text, sizeof(text), &err), -EACCES);
    close_pair(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key_file),  cmocka_unit_test(test_talk),
        cmocka_unit_test(test_wrong_key), cmocka_unit_test(test_bad_identity),
        cmocka_unit_test(test_garbage),   cmocka_unit_test(test_tampered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
