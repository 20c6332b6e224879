/* cluster.c: status, automation, admin, version: the controller itself. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "controller/cli/cli.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "proto/base/version.h"

enum { KEY_BYTES = 32 };

/* A JSON body (taken) to a path; prints the result's sentence. */
static int send_json(struct cli *cli, const char *method, const char *path, json_t *body)
{
    struct answer answer;
    size_t size = 0;
    char *text = change_body(body, &size);
    if (text == NULL) {
        return EXIT_USAGE;
    }
    struct change change = {
        .method = method, .path = path, .type = "application/json", .body = text, .size = size};
    int code = change_send(cli, &change, &answer);
    mem_free(text);
    if (code != EXIT_DONE) {
        return code;
    }
    if (!say_json(cli, &answer) && !cli->quiet) {
        printf("%s%s\n", member(answer.json, "result"),
               cli->dry_run ? "  (nothing was changed)" : "");
    }
    code = change_code(cli, &answer);
    answer_done(&answer);
    return code;
}

/* ---- status ---------------------------------------------------------------------------------- */

static void print_held(const json_t *object, const char *mode)
{
    const char *held = member(object, "held_text");
    printf("%s%s%s%s\n", mode, held[0] != '\0' ? ": " : "", held,
           truth(object, "breaker_open") ? "; breaker open: too many nodes fell silent at once"
                                         : "");
}

static void print_status(const json_t *cluster)
{
    const char *word;
    json_t *count;
    printf("controller %s, term %lld, revision %lld, %s\nautomation ", member(cluster, "version"),
           number(cluster, "term"), number(cluster, "revision"),
           truth(cluster, "ready") ? "ready" : member(cluster, "ready_text"));
    print_held(cluster, member(cluster, "automation"));
    printf("nodes\n");
    json_object_foreach(json_object_get(cluster, "nodes"), word, count)
    {
        printf("  %-10s %lld\n", word, (long long)json_integer_value(count));
    }
}

int verb_status(struct cli *cli)
{
    struct answer answer;
    int code = client_get(cli, "/v1/cluster", &answer);
    if (code != EXIT_DONE) {
        return code;
    }
    if (!say_json(cli, &answer)) {
        print_status(answer.json);
    }
    answer_done(&answer);
    return EXIT_DONE;
}

int verb_automation(struct cli *cli)
{
    struct answer answer;
    if (cli->count != 2) {
        return say_usage("keepstep automation status|pause|resume|observe|act");
    }
    if (!text_equal(cli->words[1], "status")) {
        return send_json(cli, "PUT", "/v1/automation",
                         json_pack("{s:s, s:s}", "mode", cli->words[1], "reason",
                                   cli->reason != NULL ? cli->reason : ""));
    }
    int code = client_get(cli, "/v1/automation", &answer);
    if (code != EXIT_DONE) {
        return code;
    }
    if (!say_json(cli, &answer)) {
        print_held(answer.json, member(answer.json, "mode"));
    }
    answer_done(&answer);
    return EXIT_DONE;
}

/* ---- admin ----------------------------------------------------------------------------------- */

static int write_key(const char *path, const char *text, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    errno = 0;
    bool whole = write(fd, text, size) == (ssize_t)size && fsync(fd) == 0;
    int code = whole ? 0 : errno != 0 ? -errno : -ENOSPC;
    if (close(fd) != 0 && code == 0) {
        code = -errno;
    }
    if (code < 0) {
        (void)unlink(path); /* half a key is none */
    }
    return code;
}

/* A new pre-shared key for the agents' port: 64 hex digits, closed to others, never overwritten. */
static int key_init(const char *path)
{
    unsigned char key[KEY_BYTES];
    char text[2 * KEY_BYTES + 2];
    if (getrandom(key, sizeof key, 0) != (ssize_t)sizeof key) {
        (void)say_usage("the system gives no random numbers: %s", strerror(errno));
        return EXIT_FAILED;
    }
    for (size_t i = 0; i < sizeof key; i++) {
        text_format(text + 2 * i, 3, "%02x", (unsigned)key[i]);
    }
    text[2 * KEY_BYTES] = '\n';
    int code = write_key(path, text, 2 * KEY_BYTES + 1);
    explicit_bzero(key, sizeof key);
    explicit_bzero(text, sizeof text);
    if (code < 0) {
        (void)say_usage("%s: %s", path, strerror(-code));
        return EXIT_FAILED;
    }
    printf("%s: a new key; copy it to every node, mode 0600, and name it there:\n"
           "keepstep-controller --key-file FILE, keepstep-agent --key FILE\n",
           path);
    return EXIT_DONE;
}

int verb_admin(struct cli *cli)
{
    if (cli->count == 4 && text_equal(cli->words[1], "key") && text_equal(cli->words[2], "init")) {
        return key_init(cli->words[3]);
    }
    bool adopt = cli->count == 2 && text_equal(cli->words[1], "adopt");
    bool stop = cli->count == 2 && text_equal(cli->words[1], "stop-foreign");
    if (!adopt && !stop) {
        return say_usage(
            "keepstep admin adopt|stop-foreign --reason \"why\", or admin key init FILE");
    }
    if (cli->reason == NULL || cli->reason[0] == '\0') {
        return say_usage("keepstep admin %s --reason \"why\": a reason is required", cli->words[1]);
    }
    return send_json(
        cli, "POST", "/v1/foreign",
        json_pack("{s:s, s:s}", "action", adopt ? "adopt" : "stop", "reason", cli->reason));
}

/* ---- version --------------------------------------------------------------------------------- */

int verb_version(struct cli *cli)
{
    struct answer answer;
    bool plain = cli->output != OUTPUT_JSON && cli->output != OUTPUT_JSONL;
    if (plain) {
        printf("keepstep %s\n", KEEPSTEP_VERSION);
    }
    int code = client_get(cli, "/v1/version", &answer);
    if (code != EXIT_DONE) {
        return plain ? EXIT_DONE : code; /* ours is known without a controller */
    }
    if (!say_json(cli, &answer)) {
        printf("controller %s, cluster %s\n", member(answer.json, "version"),
               member(answer.json, "cluster_id"));
    }
    answer_done(&answer);
    return EXIT_DONE;
}
