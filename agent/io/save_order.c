/* save_order.c: see save_order.h. Every line leaves at once: whoever reads them has a deadline. */
#include "agent/io/save_order.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "agent/io/save_check.h"
#include "agent/io/save_list.h"
#include "agent/io/save_manifest.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

enum { PROGRESS_MS = 500, NICE = 10 };

static const struct {
    const char *word;
    uint32_t bit;
} part_words[] = {
    {"weights", PART_WEIGHTS},
    {"optimizer", PART_OPTIMIZER},
    {"scheduler", PART_SCHEDULER},
    {"data", PART_DATA},
    {"rng", PART_RNG},
};

/* json is taken. */
static void say(json_t *json)
{
    (void)json_dumpf(json, stdout, JSON_COMPACT); /* nobody reads any more: the exit says it */
    (void)fputc('\n', stdout);
    (void)fflush(stdout);
    json_decref(json);
}

static int complain(int code, const struct err *err)
{
    (void)printf("%s\n", err->text);
    (void)fflush(stdout); /* the exit status says the rest */
    return code < 0 && code > -128 ? -code : EIO;
}

static void say_found(void *context, const struct save_found *found)
{
    (void)context;
    json_t *one = json_pack("{s:I, s:I, s:b, s:s, s:s, s:s}", "step", (json_int_t)found->step,
                            "attempt", (json_int_t)found->attempt, "complete", found->complete,
                            "path", found->directory, "hash", found->hash, "note", found->note);
    if (one == NULL) {
        return; /* no memory; what is printed is UTF-8 (save_list.h) */
    }
    json_t *parts = json_array();
    for (size_t i = 0; i < ARRAY_SIZE(part_words); i++) {
        if ((found->parts & part_words[i].bit) != 0) {
            (void)json_array_append_new(parts, json_string(part_words[i].word));
        }
    }
    (void)json_object_set_new(one, "parts", parts);
    (void)json_object_set_new(one, "files", json_integer(found->tally.files));
    (void)json_object_set_new(one, "bytes", json_integer((json_int_t)found->tally.bytes));
    (void)json_object_set_new(one, "first_ms", json_integer((json_int_t)found->tally.first_ms));
    (void)json_object_set_new(one, "last_ms", json_integer((json_int_t)found->tally.last_ms));
    say(one);
}

static void say_end(bool ok, uint32_t seen, const char *note)
{
    say(json_pack("{s:b, s:i, s:s}", "ok", ok, "seen", (int)seen, "note", note));
}

static int list(const struct save_order *order)
{
    const bool marker = text_equal(order->text, "marker");
    const struct save_query query = {.format = order->text,
                                     .directory = order->path,
                                     .job = marker ? "" : order->text2,
                                     .marker = marker ? order->text2 : NULL,
                                     .model_parts = order->number};
    uint32_t total = 0;
    struct err err = {0};
    const int r = save_list(&query, say_found, NULL, &total, &err);
    if (r != 0) {
        return complain(r, &err);
    }
    say_end(true, total, "");
    return 0;
}

static uint64_t now_ms(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void say_progress(void *context, uint64_t done, uint64_t total)
{
    uint64_t *said_ms = context;
    const uint64_t now = now_ms();
    if (now - *said_ms >= PROGRESS_MS) {
        *said_ms = now;
        say(json_pack("{s:I, s:I}", "done", (json_int_t)done, "total", (json_int_t)total));
    }
}

static int verify(const struct save_target *target)
{
    struct err err = {0};
    bool whole = false;
    uint64_t said_ms = now_ms();
    (void)setpriority(PRIO_PROCESS, 0, NICE); /* ranks may run here: they come first */
    const int r = save_verify(target, say_progress, &said_ms, &whole, &err);
    if (r != 0) {
        return complain(r, &err);
    }
    say_end(whole, 1, whole ? "" : err.text);
    return 0;
}

static int remove_one(const struct save_target *target)
{
    struct err err = {0};
    const int r = save_remove(target, &err);
    if (r != 0) {
        return complain(r, &err);
    }
    say_end(true, 1, "");
    return 0;
}

bool save_order_known(const struct save_order *order)
{
    return text_equal(order->verb, "list") || text_equal(order->verb, "verify") ||
           text_equal(order->verb, "remove");
}

int save_order_run(const struct save_order *order)
{
    const struct save_target target = {.directory = order->path,
                                       .job = order->text2,
                                       .hash = order->text,
                                       .step = order->number,
                                       .attempt = order->number2};
    if (text_equal(order->verb, "list")) {
        return list(order);
    }
    return text_equal(order->verb, "verify") ? verify(&target) : remove_one(&target);
}
