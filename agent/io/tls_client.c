/* tls_client.c: GnuTLS between two buffers. It pulls encrypted bytes from `input` and pushes them to
 * `output`; an empty input is EAGAIN to it, so it never waits. Only TLS 1.3 with an external
 * pre-shared key and an ephemeral Diffie-Hellman exchange is offered. */
#include "agent/io/tls_client.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/mem.h"

#define TLS_PRIORITY                                                                               \
    "NONE:+VERS-TLS1.3:+AEAD:+CIPHER-ALL:+GROUP-ALL:+SIGN-ALL:+ECDHE-PSK:+DHE-PSK:%NO_TICKETS"

enum {
    KEY_SIZE_MIN = 16,
    KEY_SIZE_MAX = 64,
    KEY_FILE_MAX = 512,
    INPUT_MAX = 1 << 20,
    OUTPUT_MAX = 8 << 20,
};

struct tls_client_key {
    gnutls_psk_client_credentials_t credentials;
    gnutls_priority_t priority;
};

struct tls_client {
    gnutls_session_t session;
    struct buf input;
    struct buf output;
    bool ready;
};

/* ---- the key file ------------------------------------------------------------------------------ */

static int read_key_file(const char *path, char text[KEY_FILE_MAX], size_t *ret_size,
                         struct err *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    struct stat status;
    int result = 0;
    if (fd < 0) {
        return err_set(err, -errno, "key file '%s': %s", path, strerror(errno));
    }
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        result = err_set(err, -EINVAL, "key file '%s' is not a regular file", path);
    } else if (status.st_uid != geteuid() && status.st_uid != 0) {
        result = err_set(err, -EPERM, "key file '%s' must belong to this user or to root", path);
    } else if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        result = err_set(err, -EPERM, "key file '%s' can be read by others; run: chmod 600 %s",
                         path, path);
    } else {
        const ssize_t size = read(fd, text, KEY_FILE_MAX);
        if (size < 0 || size == KEY_FILE_MAX) {
            result = err_set(err, -EINVAL, "key file '%s' cannot be read as one key", path);
        } else {
            *ret_size = (size_t)size;
        }
    }
    (void)close(fd); /* opened for reading */
    return result;
}

/* Hex first: nobody writes base64 with hex digits alone. */
static int decode_secret(const char *text, size_t size, gnutls_datum_t *ret_secret)
{
    const gnutls_datum_t source = {(unsigned char *)(uintptr_t)text, (unsigned int)size};
    gnutls_datum_t secret = {NULL, 0};
    if (gnutls_hex_decode2(&source, &secret) != GNUTLS_E_SUCCESS &&
        gnutls_base64_decode2(&source, &secret) != GNUTLS_E_SUCCESS) {
        return -EINVAL;
    }
    if (secret.size < KEY_SIZE_MIN || secret.size > KEY_SIZE_MAX) {
        gnutls_memset(secret.data, 0, secret.size);
        gnutls_free(secret.data);
        return -EINVAL;
    }
    *ret_secret = secret;
    return 0;
}

static int set_credentials(struct tls_client_key *key, const char *identity,
                           const gnutls_datum_t *secret, struct err *err)
{
    int code = gnutls_priority_init(&key->priority, TLS_PRIORITY, NULL);
    if (code == GNUTLS_E_SUCCESS) {
        code = gnutls_psk_allocate_client_credentials(&key->credentials);
    }
    if (code == GNUTLS_E_SUCCESS) {
        code = gnutls_psk_set_client_credentials(key->credentials, identity, secret,
                                                 GNUTLS_PSK_KEY_RAW);
    }
    return code == GNUTLS_E_SUCCESS
               ? 0
               : err_set(err, -EPROTO, "TLS cannot be set up: %s", gnutls_strerror(code));
}

int tls_client_key_load(const char *path, const char *identity, struct tls_client_key **ret_key,
                        struct err *err)
{
    char text[KEY_FILE_MAX];
    size_t size = 0;
    gnutls_datum_t secret = {NULL, 0};
    int result = read_key_file(path, text, &size, err);
    if (result != 0) {
        return result;
    }
    while (size > 0 &&
           (text[size - 1] == '\n' || text[size - 1] == '\r' || text[size - 1] == ' ')) {
        size--;
    }
    result = decode_secret(text, size, &secret);
    gnutls_memset(text, 0, sizeof(text));
    if (result != 0) {
        return err_set(err, result,
                       "key file '%s' holds no key: one line of %d to %d bytes in hex or base64",
                       path, KEY_SIZE_MIN, KEY_SIZE_MAX);
    }
    struct tls_client_key *key = mem_alloc(1, sizeof(*key));
    result = set_credentials(key, identity, &secret, err);
    gnutls_memset(secret.data, 0, secret.size);
    gnutls_free(secret.data);
    if (result != 0) {
        (void)tls_client_key_free(key);
        return result;
    }
    *ret_key = key;
    return 0;
}

struct tls_client_key *tls_client_key_free(struct tls_client_key *key)
{
    if (key == NULL) {
        return NULL;
    }
    if (key->credentials != NULL) {
        gnutls_psk_free_client_credentials(key->credentials);
    }
    if (key->priority != NULL) {
        gnutls_priority_deinit(key->priority);
    }
    return mem_free(key);
}

/* ---- one session --------------------------------------------------------------------------------- */

static ssize_t pull(gnutls_transport_ptr_t pointer, void *target, size_t size)
{
    struct tls_client *tls = pointer;
    if (tls->input.size == 0) {
        gnutls_transport_set_errno(tls->session, EAGAIN);
        return -1;
    }
    const size_t count = size < tls->input.size ? size : tls->input.size;
    memcpy(target, tls->input.data, count);
    buf_consume(&tls->input, count);
    return (ssize_t)count;
}

/* Without this one GnuTLS would poll a descriptor that it does not have. */
static int pull_timeout(gnutls_transport_ptr_t pointer, unsigned int timeout_ms)
{
    const struct tls_client *tls = pointer;
    (void)timeout_ms; /* never waits */
    return tls->input.size > 0 ? 1 : 0;
}

static ssize_t push(gnutls_transport_ptr_t pointer, const void *data, size_t size)
{
    struct tls_client *tls = pointer;
    if (buf_put(&tls->output, data, size) != 0) {
        gnutls_transport_set_errno(tls->session, ENOBUFS);
        return -1;
    }
    return (ssize_t)size;
}

int tls_client_create(struct tls_client_key *key, struct tls_client **ret_tls, struct err *err)
{
    struct tls_client *tls = mem_alloc(1, sizeof(*tls));
    buf_init(&tls->input, INPUT_MAX);
    buf_init(&tls->output, OUTPUT_MAX);
    int code = gnutls_init(&tls->session,
                           GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS);
    if (code == GNUTLS_E_SUCCESS) {
        code = gnutls_priority_set(tls->session, key->priority);
    }
    if (code == GNUTLS_E_SUCCESS) {
        code = gnutls_credentials_set(tls->session, GNUTLS_CRD_PSK, key->credentials);
    }
    if (code != GNUTLS_E_SUCCESS) {
        (void)tls_client_free(tls);
        return err_set(err, -EPROTO, "TLS session: %s", gnutls_strerror(code));
    }
    gnutls_transport_set_ptr(tls->session, tls);
    gnutls_transport_set_pull_function(tls->session, pull);
    gnutls_transport_set_pull_timeout_function(tls->session, pull_timeout);
    gnutls_transport_set_push_function(tls->session, push);
    gnutls_handshake_set_timeout(tls->session, 0); /* the core has the deadline */
    *ret_tls = tls;
    return 0;
}

struct tls_client *tls_client_free(struct tls_client *tls)
{
    if (tls == NULL) {
        return NULL;
    }
    if (tls->session != NULL) {
        gnutls_deinit(tls->session);
    }
    buf_done(&tls->input);
    buf_done(&tls->output);
    return mem_free(tls);
}

/* A wrong key shows as a binder or a MAC that does not fit, at either end. */
static int failure(const struct tls_client *tls, int code, struct err *err)
{
    switch (code) {
    case GNUTLS_E_FATAL_ALERT_RECEIVED:
        return err_set(err, -EACCES, "the controller refused the session: %s",
                       gnutls_alert_get_name(gnutls_alert_get(tls->session)));
    case GNUTLS_E_RECEIVED_ILLEGAL_PARAMETER:
    case GNUTLS_E_DECRYPTION_FAILED:
    case GNUTLS_E_INSUFFICIENT_CREDENTIALS:
        return err_set(err, -EACCES, "the controller has another key: %s", gnutls_strerror(code));
    case GNUTLS_E_UNEXPECTED_PACKET_LENGTH:
    case GNUTLS_E_UNEXPECTED_PACKET:
    case GNUTLS_E_UNSUPPORTED_VERSION_PACKET:
    case GNUTLS_E_RECORD_OVERFLOW:
        return err_set(err, -EBADMSG, "the other side speaks no TLS 1.3: %s",
                       gnutls_strerror(code));
    default:
        return err_set(err, -EPROTO, "TLS: %s", gnutls_strerror(code));
    }
}

int tls_client_feed(struct tls_client *tls, const void *data, size_t size, struct err *err)
{
    if (size > 0 && buf_put(&tls->input, data, size) != 0) {
        return err_set(err, -EMSGSIZE, "more than %d encrypted bytes wait", INPUT_MAX);
    }
    if (tls->ready) {
        return 0;
    }
    int code = gnutls_handshake(tls->session);
    while (code == GNUTLS_E_INTERRUPTED || code == GNUTLS_E_WARNING_ALERT_RECEIVED) {
        code = gnutls_handshake(tls->session);
    }
    if (code == GNUTLS_E_AGAIN) {
        return 0;
    }
    if (code != GNUTLS_E_SUCCESS) {
        (void)gnutls_alert_send_appropriate(tls->session, code); /* it ends either way */
        return failure(tls, code, err);
    }
    tls->ready = true;
    return 0;
}

bool tls_client_ready(const struct tls_client *tls)
{
    return tls->ready;
}

int tls_client_read(struct tls_client *tls, void *target, size_t size, struct err *err)
{
    if (!tls->ready) {
        return -EAGAIN;
    }
    ssize_t count = gnutls_record_recv(tls->session, target, size);
    while (count == GNUTLS_E_INTERRUPTED || count == GNUTLS_E_WARNING_ALERT_RECEIVED) {
        count = gnutls_record_recv(tls->session, target, size);
    }
    if (count == GNUTLS_E_AGAIN) {
        return -EAGAIN;
    }
    return count >= 0 ? (int)count : failure(tls, (int)count, err);
}

int tls_client_write(struct tls_client *tls, const void *data, size_t size, struct err *err)
{
    const uint8_t *from = data;
    if (!tls->ready) {
        return err_set(err, -EAGAIN, "the TLS handshake is not over");
    }
    while (size > 0) {
        const ssize_t count = gnutls_record_send(tls->session, from, size);
        if (count < 0) {
            return failure(tls, (int)count, err);
        }
        from += count;
        size -= (size_t)count;
    }
    return 0;
}

struct buf *tls_client_output(struct tls_client *tls)
{
    return &tls->output;
}
