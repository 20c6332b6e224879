/* head.c: the head of a request: is it well formed, and who sent it. libmicrohttpd lets pass what
 * two readers of one stream may read differently (both length headers, a folded line, a name with a
 * blank); here it is refused, and the connection closed after the answer. */
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "controller/api/internal.h"
#include "proto/base/text.h"

enum { GROUPS_MAX = 1024, NSS_SIZE = 16384 };

/* ---- form ------------------------------------------------------------------------------------ */

/* Headers that must not come twice: two readers might each take another one. */
static const char *const single[] = {
    "Host",          "Authorization",    "Content-Length", "Transfer-Encoding",
    "Content-Type",  "Content-Encoding", "If-Match",       "If-None-Match",
    "Last-Event-ID", "Content-Range",    "Expect",
};

struct head_walk {
    bool bad;
    uint32_t counts[sizeof single / sizeof single[0]];
};

static bool is_token(const char *name, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bool letter = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
                      (name[i] >= '0' && name[i] <= '9');
        if (!letter && (name[i] == '\0' || strchr("!#$%&'*+-.^_`|~", name[i]) == NULL)) {
            return false;
        }
    }
    return size > 0;
}

static enum MHD_Result head_cb(void *context, enum MHD_ValueKind kind, const char *name,
                               size_t name_size, const char *value, size_t value_size)
{
    (void)kind;
    struct head_walk *walk = context;
    walk->bad = walk->bad || !is_token(name, name_size); /* a folded line arrives as such a name */
    for (size_t i = 0; i < value_size; i++) {
        unsigned char byte = (unsigned char)value[i];
        walk->bad = walk->bad || (byte < 0x20 && byte != '\t') || byte == 0x7f;
    }
    for (size_t i = 0; i < sizeof single / sizeof single[0]; i++) {
        walk->counts[i] += strcasecmp(name, single[i]) == 0 ? 1 : 0;
        walk->bad = walk->bad || walk->counts[i] > 1;
    }
    return MHD_YES;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

bool head_is_bad(struct MHD_Connection *connection, const char *version)
{
    struct head_walk walk = {0};
    (void)MHD_get_connection_values_n(connection, MHD_HEADER_KIND, head_cb, &walk);
    const char *encoding = header(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    bool bad_encoding =
        encoding != NULL &&
        (strcasecmp(encoding, "chunked") != 0 || !text_equal(version, MHD_HTTP_VERSION_1_1) ||
         header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH) != NULL);
    return walk.bad || bad_encoding;
}

uint64_t head_content_length(struct MHD_Connection *connection)
{
    uint64_t length = 0;
    const char *text = header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (text != NULL && text_to_u64(text, UINT64_MAX, &length) < 0) {
        return UINT64_MAX;
    }
    return length;
}

bool head_expects_continue(struct MHD_Connection *connection)
{
    return header(connection, MHD_HTTP_HEADER_EXPECT) != NULL;
}

/* ---- credentials ----------------------------------------------------------------------------- */

/* The peer's groups as the kernel noted them when it connected. */
static bool in_group(int fd, uint32_t gid)
{
    gid_t groups[GROUPS_MAX];
    socklen_t size = sizeof groups;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) != 0) {
        return false;
    }
    for (size_t i = 0; i < size / sizeof groups[0]; i++) {
        if (groups[i] == gid) {
            return true;
        }
    }
    return false;
}

static void name_of_user(uid_t uid, char *target, size_t size)
{
    char buffer[NSS_SIZE];
    struct passwd entry;
    struct passwd *found = NULL;
    target[0] = '\0';
    if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) == 0 && found != NULL &&
        !text_copy(target, size, found->pw_name)) {
        target[0] = '\0';
    }
}

static void socket_role(struct http_request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const struct api *api = request->api;
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (info == NULL || getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
        return;
    }
    bool trusted = peer.uid == 0 || peer.uid == geteuid() ||
                   (api->has_group &&
                    (peer.gid == api->socket_gid || in_group(info->connect_fd, api->socket_gid)));
    request->role = trusted ? ROLE_OPERATOR : ROLE_VIEWER;
    text_format(request->actor, sizeof request->actor, "uid %u", (unsigned)peer.uid);
    if (trusted && text_equal(request->method, MHD_HTTP_METHOD_POST)) {
        name_of_user(peer.uid, request->user, sizeof request->user);
    }
}

static void token_role(struct http_request *request, bool loopback)
{
    const char *value = header(request->connection, MHD_HTTP_HEADER_AUTHORIZATION);
    const char *name = "";
    text_copy(request->actor, sizeof request->actor, "anonymous");
    if (value == NULL) {
        request->role = loopback ? ROLE_VIEWER : ROLE_NONE;
        return;
    }
    request->role = strncasecmp(value, "Bearer ", 7) == 0
                        ? tokens_role(request->api->tokens, value + 7, &name)
                        : ROLE_NONE;
    if (request->role != ROLE_NONE) {
        text_copy(request->actor, sizeof request->actor, name);
    }
    if (request->role == ROLE_SUBMITTER) {
        text_copy(request->user, sizeof request->user, name);
    }
}

void head_credentials(struct http_request *request, const struct daemon *daemon)
{
    request->role = ROLE_NONE;
    if (daemon->unix_socket) {
        socket_role(request);
    } else {
        token_role(request, daemon->loopback);
    }
}
