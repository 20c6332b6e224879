/* client.c: one exchange with the controller, over a Unix socket or a TCP address, with a bearer
 * token from a file. */
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "controller/cli/client.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { ANSWER_MAX = 256 << 20, CONNECT_TIMEOUT_S = 5, ANSWER_TIMEOUT_S = 60 };

/* ---- life ------------------------------------------------------------------------------------ */

static int read_token(struct client *client, const char *path, struct err *err)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return err_set(err, -errno, "token file %s: %s", path, strerror(errno));
    }
    bool got = fgets(client->token, sizeof client->token, file) != NULL;
    (void)fclose(file); /* only read */
    client->token[strcspn(client->token, " \t\r\n")] = '\0';
    return got && client->token[0] != '\0'
               ? 0
               : err_set(err, -EINVAL, "token file %s is empty; its first line is the token", path);
}

static int client_create_at(struct client *client, const char *server, struct err *err)
{
    bool fits;
    if (strncmp(server, "unix:", 5) == 0) {
        fits = text_copy(client->socket_path, sizeof client->socket_path, server + 5) &&
               text_copy(client->base, sizeof client->base, "http://localhost");
    } else if (strncmp(server, "http://", 7) == 0 || strncmp(server, "https://", 8) == 0) {
        fits = text_copy(client->base, sizeof client->base, server);
    } else {
        return err_set(err, -EINVAL, "--server %s: write unix:/path/api.sock or http://HOST:PORT",
                       server);
    }
    size_t size = strlen(client->base);
    if (size > 0 && client->base[size - 1] == '/') {
        client->base[size - 1] = '\0';
    }
    return fits ? 0
                : err_set(err, -EINVAL, "--server is longer than %d bytes", CLIENT_URL_SIZE - 1);
}

int client_create(struct cli *cli, struct err *err)
{
    struct client *client = mem_alloc(1, sizeof *client);
    int code = client_create_at(client, cli->server, err);
    if (code == 0 && cli->token_file != NULL && cli->token_file[0] != '\0') {
        code = read_token(client, cli->token_file, err);
    }
    if (code == 0 && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        code = err_set(err, -ENOMEM, "libcurl cannot be started");
    }
    client->curl = code == 0 ? curl_easy_init() : NULL;
    if (code == 0 && client->curl == NULL) {
        code = err_set(err, -ENOMEM, "libcurl cannot be started");
    }
    if (code < 0) {
        (void)client_free(client);
        return code;
    }
    cli->client = client;
    return 0;
}

struct client *client_free(struct client *client)
{
    if (client != NULL) {
        curl_easy_cleanup(client->curl);
    }
    return mem_free(client);
}

/* ---- one exchange ---------------------------------------------------------------------------- */

static size_t body_cb(char *data, size_t one, size_t count, void *context)
{
    return buf_put(context, data, one * count) < 0 ? 0 : one * count;
}

/* Steals nothing; a list that cannot grow is as good as no memory at all. */
static struct curl_slist *add(struct curl_slist *list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(list, line);
    mem_needed(longer);
    return longer;
}

struct curl_slist *client_headers(const struct cli *cli, const char *accept, const char *type)
{
    char line[CLIENT_TOKEN_SIZE + 64];
    struct curl_slist *list = NULL;
    text_format(line, sizeof line, "Accept: %s", accept);
    list = add(list, line);
    list = add(list, "Expect:"); /* bodies are small: no round trip before them */
    if (type != NULL) {
        text_format(line, sizeof line, "Content-Type: %s", type);
        list = add(list, line);
    }
    if (cli->client->token[0] != '\0') {
        text_format(line, sizeof line, "Authorization: Bearer %s", cli->client->token);
        list = add(list, line);
    }
    return list;
}

void client_set_up(const struct cli *cli, const char *url, struct curl_slist *list)
{
    const struct client *client = cli->client;
    curl_easy_reset(client->curl);
    (void)curl_easy_setopt(client->curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, list);
    (void)curl_easy_setopt(client->curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_TIMEOUT_S);
    (void)curl_easy_setopt(client->curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(client->curl, CURLOPT_NOPROXY, "*");
    (void)curl_easy_setopt(client->curl, CURLOPT_PATH_AS_IS, 1L); /* a job named ".." is no path */
    if (client->socket_path[0] != '\0') {
        (void)curl_easy_setopt(client->curl, CURLOPT_UNIX_SOCKET_PATH, client->socket_path);
    }
}

int client_unreachable(const struct cli *cli, const char *why)
{
    struct stat info;
    const char *path = cli->client->socket_path;
    if (cli->hush) {
        return EXIT_UNREACHABLE;
    }
    fprintf(stderr, "the controller at %s cannot be reached: %s\n", cli->server, why);
    if (path[0] != '\0' && stat(path, &info) != 0) {
        fprintf(stderr,
                "there is no %s; is keepstep-controller running? -s or KEEPSTEP_SERVER "
                "says where\n",
                path);
    }
    return EXIT_UNREACHABLE;
}

static void set_body(CURL *curl, const char *body, size_t size)
{
    if (body != NULL) {
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)size);
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    }
}

int client_send(struct cli *cli, const char *method, const char *path, const char *type,
                const char *body, size_t size, struct answer *ret_answer)
{
    CURL *curl = cli->client->curl;
    struct buf url;
    memset(ret_answer, 0, sizeof *ret_answer);
    buf_init(&url, CLI_PATH_MAX + CLIENT_URL_SIZE);
    buf_init(&ret_answer->body, ANSWER_MAX);
    if (buf_printf(&url, "%s%s", cli->client->base, path) < 0) {
        buf_done(&url);
        return say_usage("the arguments are too long");
    }
    struct curl_slist *list = client_headers(cli, "application/json", type);
    client_set_up(cli, buf_text(&url), list);
    set_body(curl, body, size);
    (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)ANSWER_TIMEOUT_S);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, body_cb);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, &ret_answer->body);
    CURLcode done = curl_easy_perform(curl);
    curl_slist_free_all(list);
    buf_done(&url);
    if (done != CURLE_OK) {
        answer_done(ret_answer);
        return client_unreachable(cli, curl_easy_strerror(done));
    }
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &ret_answer->status);
    const char *text = ret_answer->body.size > 0 ? (const char *)ret_answer->body.data : "";
    ret_answer->json = json_loadb(text, ret_answer->body.size, JSON_DECODE_ANY, NULL);
    return EXIT_DONE;
}

int client_get(struct cli *cli, const char *path, struct answer *ret_answer)
{
    int code = client_send(cli, "GET", path, NULL, NULL, 0, ret_answer);
    if (code == EXIT_DONE && ret_answer->status >= 300) {
        code = say_problem(ret_answer, NULL);
        answer_done(ret_answer);
    }
    return code;
}

void answer_done(struct answer *answer)
{
    json_decref(answer->json);
    answer->json = NULL;
    buf_done(&answer->body);
}

/* ---- paths ----------------------------------------------------------------------------------- */

void path_part(struct buf *path, const char *text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    for (const char *c = text; *c != '\0'; c++) {
        if (strchr(plain, *c) != NULL) {
            (void)!buf_put(path, c, 1); /* the sender looks at the overflow */
        } else {
            (void)!buf_printf(path, "%%%02X", (unsigned)(unsigned char)*c);
        }
    }
}

void path_add(struct buf *path, const char *name, const char *value)
{
    if (value == NULL || value[0] == '\0') {
        return;
    }
    bool first = strchr(buf_text(path), '?') == NULL;
    (void)!buf_printf(path, "%c%s=", first ? '?' : '&', name);
    path_part(path, value);
}

void path_start(struct buf *path, const char *prefix, const char *name, const char *suffix)
{
    buf_init(path, CLI_PATH_MAX);
    (void)!buf_printf(path, "%s", prefix);
    path_part(path, name);
    (void)!buf_printf(path, "%s", suffix);
}

int path_get(struct cli *cli, struct buf *path, struct answer *ret_answer)
{
    int code = path->overflow ? say_usage("the arguments are too long")
                              : client_get(cli, buf_text(path), ret_answer);
    buf_done(path);
    return code;
}
