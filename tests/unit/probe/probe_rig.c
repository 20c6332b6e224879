/* probe_rig.c: see probe_rig.h. */
#include "tests/unit/probe/probe_rig.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/check.h"
#include "proto/base/text.h"

void probe_rig_open(struct probe_rig *rig, const struct probe *probe)
{
    memset(rig, 0, sizeof(*rig));
    (void)text_copy(rig->dir, sizeof(rig->dir), "/tmp/keepstep-probe-test.XXXXXX");
    CHECK(mkdtemp(rig->dir) != NULL);
    rig->probe = probe;
    probe_config_default(&rig->config);
    (void)text_format(rig->config.sys, PATH_SIZE, "%s/sys", rig->dir);
    (void)text_format(rig->config.proc, PATH_SIZE, "%s/proc", rig->dir);
    (void)text_format(rig->config.run, PATH_SIZE, "%s/run", rig->dir);
    rig->run.config = &rig->config;
    rig->run.now_ms = 1000000;
    buf_init(&rig->run.out, PROBE_OUTPUT_MAX);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

void probe_rig_close(struct probe_rig *rig)
{
    if (rig->probe->done != NULL) {
        rig->probe->done(&rig->run);
    }
    buf_done(&rig->run.out);
    (void)nftw(rig->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void probe_rig_file(struct probe_rig *rig, const char *text, const char *format, ...)
{
    char name[512];
    char path[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)text_format_list(name, sizeof(name), format, arguments);
    va_end(arguments);
    (void)text_format(path, sizeof(path), "%s/%s", rig->dir, name);
    for (char *at = path + strlen(rig->dir) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    const ssize_t put = write(fd, text, strlen(text));
    CHECK(put == (ssize_t)strlen(text));
    (void)close(fd);
}

void probe_rig_remove(struct probe_rig *rig, const char *format, ...)
{
    char name[512];
    char path[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)text_format_list(name, sizeof(name), format, arguments);
    va_end(arguments);
    (void)text_format(path, sizeof(path), "%s/%s", rig->dir, name);
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void take(struct probe_rig *rig, const char *line, size_t size)
{
    struct finding_line parsed;
    CHECK(finding_line_parse(line, size, &parsed) == 0);
    if (parsed.kind == LINE_STATE) {
        CHECK(rig->state_count < RIG_FINDINGS_MAX);
        rig->states[rig->state_count++] = parsed.finding;
    } else if (parsed.kind == LINE_EVENT) {
        CHECK(rig->event_count < RIG_FINDINGS_MAX);
        rig->events[rig->event_count++] = parsed.finding;
    }
}

void probe_rig_round(struct probe_rig *rig, uint64_t ms)
{
    rig->run.now_ms += ms;
    rig->run.why[0] = '\0';
    rig->run.readings = 0;
    rig->state_count = 0;
    rig->event_count = 0;
    rig->probe->look(&rig->run);
    rig->run.round++;
    const char *text = buf_text(&rig->run.out);
    while (*text != '\0') {
        const size_t size = strcspn(text, "\n");
        take(rig, text, size);
        text += size + 1;
    }
    buf_clear(&rig->run.out);
}

const struct finding *probe_rig_state(const struct probe_rig *rig, const char *key)
{
    for (uint32_t i = 0; i < rig->state_count; i++) {
        if (text_equal(rig->states[i].key, key)) {
            return &rig->states[i];
        }
    }
    return NULL;
}

const struct finding *probe_rig_need(const struct probe_rig *rig, const char *key)
{
    const struct finding *finding = probe_rig_state(rig, key);
    CHECK(finding != NULL);
    return finding;
}

void probe_rig_again(struct probe_rig *rig)
{
    if (rig->probe->done != NULL) {
        rig->probe->done(&rig->run);
    }
    rig->run.state = NULL;
    rig->run.round = 0;
}
