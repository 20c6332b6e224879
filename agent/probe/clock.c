/* clock.c: how far this machine's clock may be off. Keepstep itself orders nothing by it, but logs,
 * certificates and collectives of ranks do. A clock that nobody keeps says nothing about its error,
 * which is no error. */
#include <errno.h>
#include <string.h>
#include <sys/timex.h>

#include "agent/probe/sources.h"
#include "proto/base/text.h"

enum { WARN_US = 100000, BAD_US = 1000000 };

void clock_judge(const struct clock_reading *reading, struct finding *ret_finding)
{
    const int64_t offset = reading->offset_us < 0 ? -reading->offset_us : reading->offset_us;
    const int64_t off = offset > reading->error_us ? offset : reading->error_us;
    if (!reading->synchronised) {
        probe_finding(ret_finding, VERDICT_NOT_RUN, "clock",
                      "nobody keeps this machine's clock, so nobody knows how far it is off");
        probe_blame(ret_finding, LABEL_SOFTWARE, ADVICE_WATCH, ROLE_NOISE, READING_NONE);
        return;
    }
    const enum finding_verdict verdict = off > BAD_US    ? VERDICT_FAIL
                                         : off > WARN_US ? VERDICT_WARN
                                                         : VERDICT_OK;
    probe_finding(ret_finding, verdict, "clock", "the clock is off by up to %lld ms",
                  (long long)(off / 1000));
    if (verdict != VERDICT_OK) {
        probe_blame(ret_finding, LABEL_SOFTWARE, ADVICE_WATCH, ROLE_SYMPTOM,
                    verdict == VERDICT_FAIL ? "clock-off-far" : "clock-off");
        ret_finding->code = off / 1000 < INT32_MAX ? (int32_t)(off / 1000) : INT32_MAX;
    }
}

static void look(struct probe_run *run)
{
    struct timex kernel = {0};
    struct finding finding;
    const int state = adjtimex(&kernel); /* asks: nothing is to be set */
    if (state < 0) {
        probe_nothing(run, "adjtimex: %s", strerror(errno));
        return;
    }
    const bool nano = (kernel.status & STA_NANO) != 0;
    const struct clock_reading reading = {.synchronised = state != TIME_ERROR &&
                                                          (kernel.status & STA_UNSYNC) == 0,
                                          .offset_us = nano ? kernel.offset / 1000 : kernel.offset,
                                          .error_us = kernel.esterror};
    clock_judge(&reading, &finding);
    probe_state(run, &finding);
}

const struct probe probe_clock = {.name = "clock",
                                  .what = "how far the clock is off",
                                  .period_ms = 60000,
                                  .deadline_ms = 5000,
                                  .stuck_label = LABEL_SOFTWARE,
                                  .stuck_advice = ADVICE_WATCH,
                                  .stuck_role = ROLE_SYMPTOM,
                                  .look = look};
