/* tls.c: GnuTLS between two buffers.
 *
 * GnuTLS pulls encrypted bytes from `input` and pushes them to `output`; an empty input is EAGAIN
 * to it, so that it never waits. Only TLS 1.3 and only external pre-shared keys are offered, with
 * an ephemeral Diffie-Hellman exchange: a key that leaks later opens no recorded traffic. */
#include "controller/io/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

#define TLS_PRIORITY                                                                               \
    "NONE:+VERS-TLS1.3:+AEAD:+CIPHER-ALL:+GROUP-ALL:+SIGN-ALL:+ECDHE-PSK:+DHE-PSK:%NO_TICKETS"

enum { KEY_FILE_MAX = 512 };

struct tls_key {
    enum tls_side side;
    uint8_t secret[TLS_KEY_SIZE_MAX];
    unsigned int secret_size;
    gnutls_priority_t priority;
    gnutls_psk_server_credentials_t server;
    gnutls_psk_client_credentials_t client;
};

struct tls {
    struct tls_key *key;
    gnutls_session_t session;
    struct buf input;
    struct buf output;
    bool ready;
    char identity[TLS_IDENTITY_SIZE];
};

/* ---- the key file -------------------------------------------------------------------------- */

static int read_key_file(const char *path, char text[KEY_FILE_MAX], size_t *ret_size,
                         struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return err_set(err, -errno, "key file '%s': %s", path, strerror(errno));
    }
    struct stat status;
    int result = 0;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        result = err_set(err, -EINVAL, "key file '%s' is not a regular file", path);
    } else if (status.st_uid != geteuid() && status.st_uid != 0) {
        result = err_set(err, -EPERM, "key file '%s' belongs to user %u; it must be ours or root's",
                         path, (unsigned int)status.st_uid);
    } else if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        result = err_set(err, -EPERM, "key file '%s' can be read by others; run: chmod 600 %s",
                         path, path);
    } else {
        ssize_t size = read(fd, text, KEY_FILE_MAX);
        if (size < 0) {
            result = err_set(err, -errno, "key file '%s': %s", path, strerror(errno));
        } else if (size == KEY_FILE_MAX) {
            result = err_set(err, -EINVAL, "key file '%s' is too long for one key", path);
        } else {
            *ret_size = (size_t)size;
        }
    }
    (void)close(fd); /* read only: nothing to lose */
    return result;
}

/* Hex or base64 of one line into the key's secret. Hex is tried first: a hex key of 32 digits or
 * more would be valid base64 too, but nobody writes base64 with hex digits alone. */
static int decode_secret(struct tls_key *key, const char *text, size_t size)
{
    gnutls_datum_t source = {(unsigned char *)(uintptr_t)text, (unsigned int)size};
    gnutls_datum_t decoded = {NULL, 0};
    if (gnutls_hex_decode2(&source, &decoded) != GNUTLS_E_SUCCESS &&
        gnutls_base64_decode2(&source, &decoded) != GNUTLS_E_SUCCESS) {
        return -EINVAL;
    }
    int result = -EINVAL;
    if (decoded.size >= TLS_KEY_SIZE_MIN && decoded.size <= TLS_KEY_SIZE_MAX) {
        memcpy(key->secret, decoded.data, decoded.size);
        key->secret_size = decoded.size;
        result = 0;
    }
    gnutls_memset(decoded.data, 0, decoded.size);
    gnutls_free(decoded.data);
    return result;
}

static int load_secret(struct tls_key *key, const char *path, struct err *err)
{
    char text[KEY_FILE_MAX];
    size_t size = 0;
    int result = read_key_file(path, text, &size, err);
    if (result < 0) {
        return result;
    }
    while (size > 0 &&
           (text[size - 1] == '\n' || text[size - 1] == '\r' || text[size - 1] == ' ')) {
        size--;
    }
    result = decode_secret(key, text, size);
    gnutls_memset(text, 0, sizeof(text));
    if (result < 0) {
        return err_set(err, result,
                       "key file '%s' holds no key: one line of %d to %d bytes in hex or base64",
                       path, TLS_KEY_SIZE_MIN, TLS_KEY_SIZE_MAX);
    }
    return 0;
}

/* ---- credentials --------------------------------------------------------------------------- */

/* GnuTLS asks for the key of an identity. Every well-formed one has the cluster's key; what it may
 * say is checked against its hello. */
static int server_key_of(gnutls_session_t session, const char *username, gnutls_datum_t *ret_key)
{
    const struct tls *tls = gnutls_session_get_ptr(session);
    if (username == NULL || !text_is_name(username, TLS_IDENTITY_SIZE)) {
        return -1;
    }
    ret_key->data = gnutls_malloc(tls->key->secret_size);
    if (ret_key->data == NULL) {
        return -1;
    }
    memcpy(ret_key->data, tls->key->secret, tls->key->secret_size);
    ret_key->size = tls->key->secret_size;
    return 0;
}

static int make_credentials(struct tls_key *key, const char *identity, struct err *err)
{
    int code = gnutls_priority_init(&key->priority, TLS_PRIORITY, NULL);
    if (code == GNUTLS_E_SUCCESS && key->side == TLS_SERVER) {
        code = gnutls_psk_allocate_server_credentials(&key->server);
        if (code == GNUTLS_E_SUCCESS) {
            gnutls_psk_set_server_credentials_function(key->server, server_key_of);
        }
    } else if (code == GNUTLS_E_SUCCESS) {
        gnutls_datum_t secret = {key->secret, key->secret_size};
        code = gnutls_psk_allocate_client_credentials(&key->client);
        if (code == GNUTLS_E_SUCCESS) {
            code = gnutls_psk_set_client_credentials(key->client, identity, &secret,
                                                     GNUTLS_PSK_KEY_RAW);
        }
    }
    if (code != GNUTLS_E_SUCCESS) {
        return err_set(err, -EPROTO, "TLS cannot be set up: %s", gnutls_strerror(code));
    }
    return 0;
}

int tls_key_load(const char *path, enum tls_side side, const char *identity,
                 struct tls_key **ret_key, struct err *err)
{
    CHECK(side == TLS_SERVER || identity != NULL);
    struct tls_key *key = mem_alloc(1, sizeof(*key));
    key->side = side;
    int result = load_secret(key, path, err);
    if (result == 0) {
        result = make_credentials(key, identity, err);
    }
    if (result < 0) {
        (void)tls_key_free(key);
        return result;
    }
    *ret_key = key;
    return 0;
}

struct tls_key *tls_key_free(struct tls_key *key)
{
    if (key == NULL) {
        return NULL;
    }
    if (key->server != NULL) {
        gnutls_psk_free_server_credentials(key->server);
    }
    if (key->client != NULL) {
        gnutls_psk_free_client_credentials(key->client);
    }
    if (key->priority != NULL) {
        gnutls_priority_deinit(key->priority);
    }
    gnutls_memset(key->secret, 0, sizeof(key->secret));
    return mem_free(key);
}

/* ---- one session --------------------------------------------------------------------------- */

static ssize_t pull(gnutls_transport_ptr_t pointer, void *target, size_t size)
{
    struct tls *tls = pointer;
    if (tls->input.size == 0) {
        gnutls_transport_set_errno(tls->session, EAGAIN);
        return -1;
    }
    size_t count = size < tls->input.size ? size : tls->input.size;
    memcpy(target, tls->input.data, count);
    buf_consume(&tls->input, count);
    return (ssize_t)count;
}

/* With a pull function alone GnuTLS would poll the descriptor that it does not have. */
static int pull_timeout(gnutls_transport_ptr_t pointer, unsigned int timeout_ms)
{
    const struct tls *tls = pointer;
    (void)timeout_ms; /* never waits */
    return tls->input.size > 0 ? 1 : 0;
}

static ssize_t push(gnutls_transport_ptr_t pointer, const void *data, size_t size)
{
    struct tls *tls = pointer;
    if (buf_put(&tls->output, data, size) < 0) {
        gnutls_transport_set_errno(tls->session, ENOBUFS);
        return -1;
    }
    return (ssize_t)size;
}

int tls_create(struct tls_key *key, struct tls **ret_tls, struct err *err)
{
    struct tls *tls = mem_alloc(1, sizeof(*tls));
    tls->key = key;
    buf_init(&tls->input, TLS_INPUT_MAX);
    buf_init(&tls->output, TLS_OUTPUT_MAX);
    unsigned int side = key->side == TLS_SERVER ? GNUTLS_SERVER : GNUTLS_CLIENT;
    int code =
        gnutls_init(&tls->session, side | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS);
    if (code == GNUTLS_E_SUCCESS) {
        code = gnutls_priority_set(tls->session, key->priority);
    }
    if (code == GNUTLS_E_SUCCESS) {
        void *credentials = key->side == TLS_SERVER ? (void *)key->server : (void *)key->client;
        code = gnutls_credentials_set(tls->session, GNUTLS_CRD_PSK, credentials);
    }
    if (code != GNUTLS_E_SUCCESS) {
        (void)tls_free(tls);
        return err_set(err, -EPROTO, "TLS session: %s", gnutls_strerror(code));
    }
    gnutls_session_set_ptr(tls->session, tls);
    gnutls_transport_set_ptr(tls->session, tls);
    gnutls_transport_set_pull_function(tls->session, pull);
    gnutls_transport_set_pull_timeout_function(tls->session, pull_timeout);
    gnutls_transport_set_push_function(tls->session, push);
    gnutls_handshake_set_timeout(tls->session, 0); /* deadlines are the owner's */
    *ret_tls = tls;
    return 0;
}

struct tls *tls_free(struct tls *tls)
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

/* What a GnuTLS failure means to us. A wrong key shows as a binder or a MAC that does not fit. */
static int failure(int code, struct err *err)
{
    switch (code) {
    case GNUTLS_E_RECEIVED_ILLEGAL_PARAMETER:
    case GNUTLS_E_DECRYPTION_FAILED:
    case GNUTLS_E_INSUFFICIENT_CREDENTIALS:
    case GNUTLS_E_NO_COMMON_KEY_SHARE:
    case GNUTLS_E_KEYFILE_ERROR:
        return err_set(err, -EACCES, "wrong key, or none: %s", gnutls_strerror(code));
    case GNUTLS_E_UNEXPECTED_PACKET_LENGTH:
    case GNUTLS_E_UNEXPECTED_PACKET:
    case GNUTLS_E_UNSUPPORTED_VERSION_PACKET:
    case GNUTLS_E_RECORD_OVERFLOW:
        return err_set(err, -EBADMSG, "no TLS 1.3: %s", gnutls_strerror(code));
    default:
        return err_set(err, -EPROTO, "TLS: %s", gnutls_strerror(code));
    }
}

int tls_feed(struct tls *tls, const void *data, size_t size, struct err *err)
{
    if (buf_put(&tls->input, data, size) < 0) {
        return err_set(err, -EMSGSIZE, "more than %d encrypted bytes wait", TLS_INPUT_MAX);
    }
    return 0;
}

/* The identity that the handshake proved. A client knows only that the server has the key. */
static int take_identity(struct tls *tls, struct err *err)
{
    const char *identity = TLS_IDENTITY_ANY;
    if (tls->key->side == TLS_SERVER) {
        identity = gnutls_psk_server_get_username(tls->session);
    }
    if (identity == NULL || !text_copy(tls->identity, sizeof(tls->identity), identity)) {
        return err_set(err, -EACCES, "the peer gave no identity");
    }
    return 0;
}

int tls_advance(struct tls *tls, struct err *err)
{
    if (tls->ready) {
        return 0;
    }
    int code;
    do {
        code = gnutls_handshake(tls->session);
    } while (code == GNUTLS_E_INTERRUPTED || code == GNUTLS_E_WARNING_ALERT_RECEIVED);
    if (code == GNUTLS_E_AGAIN) {
        return 0;
    }
    if (code == GNUTLS_E_FATAL_ALERT_RECEIVED) {
        gnutls_alert_description_t alert = gnutls_alert_get(tls->session);
        int refused = alert == GNUTLS_A_DECRYPT_ERROR || alert == GNUTLS_A_ILLEGAL_PARAMETER ||
                      alert == GNUTLS_A_UNKNOWN_PSK_IDENTITY || alert == GNUTLS_A_HANDSHAKE_FAILURE;
        return err_set(err, refused ? -EACCES : -EPROTO, "the peer refused the session: %s",
                       gnutls_alert_get_name(alert));
    }
    if (code != GNUTLS_E_SUCCESS) {
        (void)gnutls_alert_send_appropriate(tls->session, code); /* the session ends anyway */
        return failure(code, err);
    }
    int result = take_identity(tls, err);
    tls->ready = result == 0;
    return result;
}

bool tls_ready(const struct tls *tls)
{
    return tls->ready;
}

const char *tls_identity(const struct tls *tls)
{
    return tls->identity;
}

int tls_read(struct tls *tls, void *target, size_t size, struct err *err)
{
    if (!tls->ready) {
        return -EAGAIN;
    }
    ssize_t count;
    do {
        count = gnutls_record_recv(tls->session, target, size);
    } while (count == GNUTLS_E_INTERRUPTED || count == GNUTLS_E_WARNING_ALERT_RECEIVED);
    if (count == GNUTLS_E_AGAIN) {
        return -EAGAIN;
    }
    return count >= 0 ? (int)count : failure((int)count, err);
}

int tls_write(struct tls *tls, const void *data, size_t size, struct err *err)
{
    if (!tls->ready) {
        return err_set(err, -EAGAIN, "the TLS handshake is not over");
    }
    const uint8_t *from = data;
    while (size > 0) {
        ssize_t count = gnutls_record_send(tls->session, from, size);
        if (count < 0) {
            return tls->output.overflow
                       ? err_set(err, -EMSGSIZE, "more than %d bytes wait", TLS_OUTPUT_MAX)
                       : failure((int)count, err);
        }
        from += count;
        size -= (size_t)count;
    }
    return 0;
}

struct buf *tls_output(struct tls *tls)
{
    return &tls->output;
}

void tls_bye(struct tls *tls)
{
    if (tls->ready) {
        (void)gnutls_bye(tls->session, GNUTLS_SHUT_WR); /* the connection ends either way */
    }
}
