/* probe_config.c: the configuration of the probes as words, from the agent to their processes. */
#include <errno.h>
#include <string.h>

#include "agent/probe/probe.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

enum field_type { FIELD_TEXT, FIELD_NUMBER, FIELD_BOOL };

struct field {
    const char *name;
    enum field_type type;
    size_t at;
    size_t size;
};

#define TEXT(name)                                                                                 \
    {                                                                                              \
#name, FIELD_TEXT, offsetof(struct probe_config, name),                                    \
            sizeof(((struct probe_config *)0)->name)                                               \
    }
#define NUMBER(name)                                                                               \
    {                                                                                              \
#name, FIELD_NUMBER, offsetof(struct probe_config, name), 0                                \
    }
#define BOOL(name)                                                                                 \
    {                                                                                              \
#name, FIELD_BOOL, offsetof(struct probe_config, name), 0                                  \
    }

static const struct field fields[] = {
    TEXT(sys),    TEXT(proc),          TEXT(run),       TEXT(kmsg),   TEXT(nvml),   TEXT(catalog),
    TEXT(mounts), TEXT(ports),         TEXT(programs),  TEXT(leaves), TEXT(cgroup), TEXT(cookie),
    NUMBER(gpus), NUMBER(port_down_s), BOOL(kmsg_user), BOOL(busy),
};

void probe_config_default(struct probe_config *ret_config)
{
    *ret_config = (struct probe_config){.port_down_s = 30};
    (void)text_copy(ret_config->sys, PATH_SIZE, "/sys");
    (void)text_copy(ret_config->proc, PATH_SIZE, "/proc");
    (void)text_copy(ret_config->run, PATH_SIZE, "/run");
    (void)text_copy(ret_config->kmsg, PATH_SIZE, "/dev/kmsg");
    (void)text_copy(ret_config->nvml, PATH_SIZE, "libnvidia-ml.so.1");
}

int probe_config_take(struct probe_config *config, const char *word)
{
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
        const struct field *field = &fields[i];
        const size_t length = strlen(field->name);
        char *at = (char *)config + field->at;
        uint64_t number = 0;
        if (strncmp(word, field->name, length) != 0 || word[length] != '=') {
            continue;
        }
        const char *value = word + length + 1;
        if (field->type == FIELD_TEXT) {
            return text_copy(at, field->size, value) ? 0 : -EINVAL;
        }
        if (text_to_u64(value, field->type == FIELD_BOOL ? 1 : UINT32_MAX, &number) != 0) {
            return -EINVAL;
        }
        if (field->type == FIELD_BOOL) {
            *(bool *)at = number == 1;
        } else {
            *(uint32_t *)(void *)at = (uint32_t)number;
        }
        return 0;
    }
    return -EINVAL;
}

int probe_config_words(const struct probe_config *config, probe_config_put *put, void *context)
{
    struct probe_config plain;
    int r = 0;
    probe_config_default(&plain);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(fields); i++) {
        const struct field *field = &fields[i];
        const char *at = (const char *)config + field->at;
        const char *usual = (const char *)&plain + field->at;
        char word[PROBE_LIST_SIZE + NAME_SIZE];
        bool same = false;
        if (field->type == FIELD_TEXT) {
            same = text_equal(at, usual);
            (void)text_format(word, sizeof(word), "%s=%s", field->name, at);
        } else if (field->type == FIELD_BOOL) {
            same = *(const bool *)at == *(const bool *)usual;
            (void)text_format(word, sizeof(word), "%s=%d", field->name, *(const bool *)at);
        } else {
            same = memcmp(at, usual, sizeof(uint32_t)) == 0;
            (void)text_format(word, sizeof(word), "%s=%u", field->name,
                              *(const uint32_t *)(const void *)at);
        }
        r = same ? 0 : put(context, word);
    }
    return r;
}
