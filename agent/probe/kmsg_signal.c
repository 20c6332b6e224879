/* kmsg_signal.c: the codes of the NVIDIA driver that end a node by themselves. */
#include "agent/probe/kmsg_signal.h"

#include <string.h>

#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

struct kmsg_signal {
    uint64_t looked;
};

struct kmsg_signal *kmsg_signal_create(const char *files, struct err *err)
{
    (void)files;
    (void)err;
    return mem_alloc(1, sizeof(struct kmsg_signal));
}

struct kmsg_signal *kmsg_signal_free(struct kmsg_signal *signal)
{
    return mem_free(signal);
}

static const struct {
    int32_t xid;
    uint8_t advice;
} fatal[] = {{48, ADVICE_EVICT_RESET},  {64, ADVICE_EVICT_RMA},    {79, ADVICE_EVICT_REBOOT},
             {95, ADVICE_EVICT_RESET},  {110, ADVICE_EVICT_RESET}, {119, ADVICE_EVICT_RESET},
             {120, ADVICE_EVICT_RESET}, {140, ADVICE_EVICT_RESET}, {143, ADVICE_EVICT_RESET}};

bool kmsg_signal_look(void *context, const char *message, size_t size, bool user,
                      struct finding *ret_finding)
{
    static const char mark[] = "NVRM: Xid (PCI:";
    struct kmsg_signal *signal = context;
    char line[TEXT_SIZE];
    (void)user;
    signal->looked++;
    (void)text_sentence(line, sizeof(line), "%.*s", (int)(size < 180 ? size : 180), message);
    const char *at = strstr(line, mark);
    const char *close = at != NULL ? strstr(at, "): ") : NULL;
    if (close == NULL) {
        return false;
    }
    char digits[8];
    uint64_t xid = 0;
    const size_t length = strcspn(close + 3, ", ");
    (void)text_copy(digits, length + 1 < sizeof(digits) ? length + 1 : sizeof(digits), close + 3);
    for (size_t i = 0; text_to_u64(digits, 999, &xid) == 0 && i < ARRAY_SIZE(fatal); i++) {
        if (fatal[i].xid == (int32_t)xid) {
            probe_finding(ret_finding, VERDICT_WARN, "", "%s", line);
            probe_blame(ret_finding, LABEL_HARDWARE, (enum signal_advice)fatal[i].advice, ROLE_ROOT,
                        "");
            ret_finding->source = FACT_LOG;
            ret_finding->code = (int32_t)xid;
            (void)text_format(ret_finding->signal, SIGNAL_NAME_SIZE, "xid-%d", fatal[i].xid);
            (void)text_format(ret_finding->subject, SIGNAL_SUBJECT_SIZE, "%.*s",
                              (int)(close - at) - (int)sizeof(mark) + 1, at + sizeof(mark) - 1);
            return true;
        }
    }
    return false;
}
