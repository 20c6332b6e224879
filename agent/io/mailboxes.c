/* mailboxes.c: one object for each attempt with the mailboxes of its ranks. */
#include "agent/io/mailboxes.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/io/driver.h"
#include "agent/io/folders.h"
#include "agent/rank/mailbox.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { PEER_MAX = 1 << 20 }; /* ranks of a job at most */

struct box {
    struct group *group;
    uint32_t local_rank;
    int fd;     /* -1: none */
    void *wake; /* the futex's name, NULL: none */
    bool watching;
    bool rang;
    uv_fs_event_t watch;
    struct mailbox_view view;
    struct mailbox_view told;                /* what the core knows */
    struct agent_detail detail;              /* same, of what is beside progress */
    uint64_t request_count;                  /* view.request_count at the last look, and the */
    uint64_t exchange_count;                 /* same of exchanges: what is new is behind them */
    uint64_t request_seen[MAILBOX_REQUESTS]; /* numbers handed in, by slot */
    uint64_t put_seen[MAILBOX_PUTS];
    uint64_t get_seen[MAILBOX_GETS];
};

struct group {
    struct group *next;
    struct agent_mailboxes *mailboxes;
    uint32_t job;
    uint32_t attempt;
    uint32_t first_rank;
    uint32_t rank_count;
    bool ended;
    bool gone;
    int handles;      /* watches still open */
    uint64_t full_ms; /* of the last look for requests */
    struct box boxes[RANKS_PER_NODE_MAX];
};

struct agent_mailboxes {
    struct agent_io *io;
    struct group *first;
    uv_timer_t timer; /* once a second */
    uv_timer_t ring;  /* soon after a bell */
    bool ringing;
    bool closed;
};

/* ---- handing in ------------------------------------------------------------------------------------ */

static void tell(struct box *box, struct agent_event *event)
{
    event->job = box->group->job;
    event->attempt = box->group->attempt;
    driver_step(box->group->mailboxes->io->driver, event);
}

static bool says_the_same(const struct mailbox_view *a, const struct mailbox_view *b)
{
    return a->valid == b->valid && a->phase == b->phase && a->step == b->step &&
           a->changed_ms == b->changed_ms && a->step_ms == b->step_ms &&
           a->compute_ms == b->compute_ms && a->pid == b->pid;
}

/* False when what is in the view is not of this moment. */
static bool read_status(struct box *box)
{
    if (mailbox_read(box->fd, agent_io_now_ms(), &box->view) != 0 || !box->view.valid) {
        return false;
    }
    const bool fresh = !box->view.torn;
    if (box->view.pid == 0 || says_the_same(&box->view, &box->told)) {
        return fresh; /* pid 0: the library has not attached yet */
    }
    box->told = box->view;
    const struct agent_mailbox_view view = {.local_rank = box->local_rank,
                                            .valid = true,
                                            .phase = box->view.phase,
                                            .step = box->view.step,
                                            .changed_ms = box->view.changed_ms,
                                            .step_ms = box->view.step_ms,
                                            .compute_ms = box->view.compute_ms};
    struct agent_event event = {.kind = AGENT_EVENT_MAILBOX, .mailbox = &view};
    tell(box, &event);
    return fresh;
}

/* ---- what a rank says beside its progress --------------------------------------------------------- */

static_assert((int)MAILBOX_STEPS == (int)STEPS_MAX && (int)MAILBOX_HASHES == (int)HASHES_MAX &&
                  (int)MAILBOX_COMMUNICATORS == (int)COMMUNICATORS_MAX &&
                  (int)MAILBOX_COMMUNICATOR_NAME_SIZE == (int)COMMUNICATOR_NAME_SIZE,
              "a message holds all of a mailbox");
static_assert((int)MAILBOX_AXIS_DATA == (int)AXIS_DATA &&
                  (int)MAILBOX_OPERATION_BARRIER == (int)OPERATION_BARRIER,
              "one numbering");

/* Those that have their bounds: what a rank claims is no reason to lose the session. */
static void fill_steps(const struct mailbox_view *view, struct msg_rank_detail *detail)
{
    for (uint32_t i = 0; i < view->steps_held; i++) {
        const struct mailbox_step *step = &view->steps[i];
        if (step->step > 0 && step->step <= MAILBOX_STEP_MAX) {
            detail->steps[detail->step_count++] =
                (struct step_report){.step = step->step,
                                     .total_us = step->total_us,
                                     .compute_us = step->compute_us,
                                     .loss = step->loss,
                                     .gradient_norm = step->gradient_norm};
        }
    }
    for (uint32_t i = 0; i < view->hashes_held; i++) {
        detail->hashes[detail->hash_count++] =
            (struct hash_report){.step = view->hashes[i].step, .hash = view->hashes[i].hash};
    }
}

static void fill_communicators(const struct mailbox_view *view, struct msg_rank_detail *detail)
{
    for (uint32_t i = 0; i < view->communicator_count; i++) {
        const struct mailbox_communicator *from = &view->communicators[i];
        struct communicator_report *to = &detail->communicators[detail->communicator_count++];
        (void)text_copy(to->name, sizeof(to->name), from->name); /* of one size */
        to->axis = (uint16_t)from->axis;
        to->operation = (uint16_t)from->operation;
        to->peer = from->peer < PEER_MAX ? from->peer : -1;
        to->enqueued = from->enqueued;
        to->completed = from->completed;
    }
}

/* Tells the core what is new; `anyway` also when nothing is. */
static void tell_detail(struct box *box, bool anyway)
{
    const struct mailbox_view *view = &box->view;
    struct agent_detail now;
    memset(&now, 0, sizeof(now)); /* holes too: it is compared as bytes */
    now.local_rank = box->local_rank;
    now.detail.has_coordinates = view->has_coordinates;
    now.detail.coordinates =
        (struct rank_coordinates){view->coordinates.tensor, view->coordinates.context,
                                  view->coordinates.pipeline, view->coordinates.data};
    fill_steps(view, &now.detail);
    fill_communicators(view, &now.detail);
    const bool empty = !view->has_coordinates && now.detail.step_count == 0 &&
                       now.detail.hash_count == 0 && now.detail.communicator_count == 0;
    if (!view->valid || empty || (!anyway && memcmp(&now, &box->detail, sizeof(now)) == 0)) {
        return;
    }
    box->detail = now;
    struct agent_event event = {.kind = AGENT_EVENT_DETAIL, .detail = &box->detail};
    tell(box, &event);
}

/* ---- what a rank asks ------------------------------------------------------------------------------ */

static void tell_mail(struct box *box, struct agent_mail *mail)
{
    struct agent_event event = {.kind = AGENT_EVENT_MAIL, .mail = mail};
    mail->local_rank = box->local_rank;
    tell(box, &event);
}

static void fill_checkpoint(const struct mailbox_request *request, struct msg_checkpoint *target)
{
    memset(target, 0, sizeof(*target));
    target->kind = request->kind == MAILBOX_BEGIN   ? CHECKPOINT_BEGIN
                   : request->kind == MAILBOX_SHARD ? CHECKPOINT_SHARD
                                                    : CHECKPOINT_COMMIT;
    target->step = request->step;
    target->shard_count = request->shard_count;
    target->parts = request->parts;
    target->bytes = request->bytes;
    target->stall_ms = request->stall_ms;
    (void)text_copy(target->hash, sizeof(target->hash), request->hash);
    (void)text_copy(target->directory, sizeof(target->directory), request->path);
}

static void take_request(struct box *box, const struct mailbox_request *request)
{
    uint64_t *seen = &box->request_seen[request->number % MAILBOX_REQUESTS];
    if (*seen == request->number || request->attempt != box->group->attempt) {
        return;
    }
    *seen = request->number;
    struct agent_mail mail = {.kind = AGENT_MAIL_CHECKPOINT, .id = request->number};
    fill_checkpoint(request, &mail.u.checkpoint);
    tell_mail(box, &mail);
}

static void read_requests(struct box *box)
{
    struct mailbox_request request;
    uint32_t cursor = 0;
    while (!box->group->gone && mailbox_next_request(box->fd, &cursor, &request) == 1) {
        take_request(box, &request);
    }
}

/* Those after `from`, up to `to`: no more than the ring holds. */
static void read_new_requests(struct box *box, uint64_t from, uint64_t to)
{
    struct mailbox_request request;
    for (uint64_t number = from + 1; number <= to && !box->group->gone; number++) {
        if (mailbox_request_at(box->fd, number, &request) == 1) {
            take_request(box, &request);
        }
    }
}

static void fill_exchange(struct agent_mail *mail, bool put, uint64_t number, const char *key)
{
    mail->kind = AGENT_MAIL_EXCHANGE;
    mail->id = number;
    memset(&mail->u.exchange, 0, sizeof(mail->u.exchange));
    mail->u.exchange.kind = put ? EXCHANGE_PUT : EXCHANGE_GET;
    (void)text_copy(mail->u.exchange.key, sizeof(mail->u.exchange.key), key);
}

static void read_puts(struct box *box)
{
    struct mailbox_put put;
    uint32_t cursor = 0;
    while (!box->group->gone && mailbox_next_put(box->fd, &cursor, &put) == 1) {
        uint64_t *seen = &box->put_seen[(cursor - 1) % MAILBOX_PUTS];
        if (*seen == put.number || put.attempt != box->group->attempt) {
            continue;
        }
        *seen = put.number;
        struct agent_mail mail;
        fill_exchange(&mail, true, put.number, put.key);
        mail.u.exchange.size = put.size;
        memcpy(mail.u.exchange.value, put.value, put.size);
        tell_mail(box, &mail);
    }
}

static void read_gets(struct box *box)
{
    struct mailbox_get get;
    uint32_t cursor = 0;
    while (!box->group->gone && mailbox_next_get(box->fd, &cursor, &get) == 1) {
        uint64_t *seen = &box->get_seen[(cursor - 1) % MAILBOX_GETS];
        if (*seen == get.number || get.attempt != box->group->attempt) {
            continue;
        }
        *seen = get.number;
        struct agent_mail mail;
        fill_exchange(&mail, false, get.number, get.key);
        tell_mail(box, &mail);
    }
}

/* Looks at all of a mailbox, or (not full) at what its counts say is new: the tables are long, and
 * every answer of ours rings as well. */
static void read_all(struct box *box, bool full)
{
    if (box->fd < 0) {
        return;
    }
    const bool asked = full;
    box->rang = false;
    full = !read_status(box) || full;
    const uint64_t known = box->request_count;
    box->request_count = box->view.request_count;
    if (full || box->exchange_count != box->view.exchange_count) {
        box->exchange_count = box->view.exchange_count;
        read_puts(box); /* before the gets that they may answer */
        read_gets(box);
    }
    if (full || box->request_count - known > MAILBOX_REQUESTS) {
        read_requests(box);
    } else {
        read_new_requests(box, known, box->request_count);
    }
    if (asked && !box->group->gone) {
        tell_detail(box, true);
    }
}

/* ---- bells and timers --------------------------------------------------------------------------------- */

static void ring_cb(uv_timer_t *timer)
{
    struct agent_mailboxes *mailboxes = timer->data;
    mailboxes->ringing = false;
    for (struct group *group = mailboxes->first; group != NULL; group = group->next) {
        for (uint32_t i = 0; i < group->rank_count && !group->gone; i++) {
            if (group->boxes[i].rang) {
                read_all(&group->boxes[i], false);
            }
        }
    }
}

static void watch_cb(uv_fs_event_t *watch, const char *name, int events, int status)
{
    struct box *box = watch->data;
    struct agent_mailboxes *mailboxes = box->group->mailboxes;
    (void)name;
    (void)events;
    (void)status; /* whatever it was, a look is right */
    box->rang = true;
    if (!mailboxes->ringing && !mailboxes->closed) {
        mailboxes->ringing = true;
        const int r = uv_timer_start(&mailboxes->ring, ring_cb, MAILBOXES_RING_MS, 0);
        CHECK(r == 0);
    }
}

static void timer_cb(uv_timer_t *timer)
{
    struct agent_mailboxes *mailboxes = timer->data;
    const uint64_t now = agent_io_now_ms();
    for (struct group *group = mailboxes->first; group != NULL; group = group->next) {
        const bool full = now >= group->full_ms + MAILBOXES_FULL_MS;
        group->full_ms = full ? now : group->full_ms;
        for (uint32_t i = 0; i < group->rank_count && !group->gone && !group->ended; i++) {
            struct box *box = &group->boxes[i];
            if (full) {
                read_all(box, true);
            } else if (box->fd >= 0) {
                (void)read_status(box); /* when torn: what it said before stands */
                tell_detail(box, false);
            }
        }
    }
}

/* ---- opening and closing -------------------------------------------------------------------------------- */

static struct group *find(const struct agent_mailboxes *mailboxes, uint32_t job, uint32_t attempt)
{
    for (struct group *group = mailboxes->first; group != NULL; group = group->next) {
        if (!group->gone && group->job == job && group->attempt == attempt) {
            return group;
        }
    }
    return NULL;
}

static void open_box(struct group *group, uint32_t local_rank)
{
    const struct agent_io *io = group->mailboxes->io;
    struct box *box = &group->boxes[local_rank];
    char dir[FOLDER_PATH_SIZE];
    char name[NAME_SIZE];
    char path[FOLDER_PATH_SIZE + NAME_SIZE];
    box->group = group;
    box->local_rank = local_rank;
    box->fd = -1;
    folder_mail_path(io->options->run_dir, dir);
    (void)text_format(name, sizeof(name), "job-%u.attempt-%u.rank-%u", group->job, group->attempt,
                      group->first_rank + local_rank);
    (void)text_format(path, sizeof(path), "%s/%s", dir, name);
    const int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* tmpfs, ours */
    if (dir_fd < 0) {
        return;
    }
    if (mailbox_open(dir_fd, name, &box->fd) != 0) {
        box->fd = -1;
    }
    (void)close(dir_fd); /* opened for reading */
    if (box->fd < 0) {
        return;
    }
    if (mailbox_map_wake(box->fd, &box->wake) != 0) {
        box->wake = NULL; /* the rank then finds answers at its next look */
    }
    if (uv_fs_event_init(io->loop, &box->watch) == 0) {
        box->watch.data = box;
        box->watching = true;
        group->handles++;
        /* without a watch requests are found by the full look */
        (void)uv_fs_event_start(&box->watch, watch_cb, path, 0);
    }
}

void mailboxes_open(struct agent_mailboxes *mailboxes, uint32_t job, uint32_t attempt,
                    uint32_t first_rank, uint32_t rank_count)
{
    if (mailboxes->closed || rank_count == 0 || rank_count > RANKS_PER_NODE_MAX ||
        find(mailboxes, job, attempt) != NULL) {
        return;
    }
    struct group *group = mem_alloc(1, sizeof(*group));
    group->mailboxes = mailboxes;
    group->job = job;
    group->attempt = attempt;
    group->first_rank = first_rank;
    group->rank_count = rank_count;
    group->full_ms = agent_io_now_ms();
    group->next = mailboxes->first;
    mailboxes->first = group;
    for (uint32_t i = 0; i < rank_count; i++) {
        open_box(group, i);
    }
    for (uint32_t i = 0; i < rank_count && !group->gone; i++) {
        read_all(&group->boxes[i], true);
    }
}

void mailboxes_look(struct agent_mailboxes *mailboxes, uint32_t job, uint32_t attempt)
{
    struct group *group = find(mailboxes, job, attempt);
    if (group == NULL || group->ended) {
        return;
    }
    for (uint32_t i = 0; i < group->rank_count && !group->gone; i++) {
        read_all(&group->boxes[i], true);
    }
}

void mailboxes_ended(struct agent_mailboxes *mailboxes, uint32_t job, uint32_t attempt)
{
    struct group *group = find(mailboxes, job, attempt);
    if (group != NULL) {
        mailboxes_look(mailboxes, job, attempt);
        group->ended = true;
    }
}

static void unlink_group(struct group *group)
{
    struct group **at = &group->mailboxes->first;
    while (*at != group) {
        at = &(*at)->next;
    }
    *at = group->next;
    mem_free(group);
}

static void watch_closed_cb(uv_handle_t *handle)
{
    struct box *box = handle->data;
    box->group->handles--;
    if (box->group->handles == 0) {
        unlink_group(box->group);
    }
}

/* The object itself goes in a later turn, since one of its own reads may be under way. */
static void free_later_cb(void *context)
{
    struct group *group = context;
    group->handles--;
    if (group->handles == 0) {
        unlink_group(group);
    }
}

static void drop(struct group *group)
{
    group->gone = true;
    group->handles++;
    for (uint32_t i = 0; i < group->rank_count; i++) {
        struct box *box = &group->boxes[i];
        if (box->wake != NULL) {
            mailbox_unmap_wake(box->wake);
            box->wake = NULL;
        }
        if (box->fd >= 0) {
            (void)close(box->fd); /* every answer was a write of its own */
            box->fd = -1;
        }
        if (box->watching) {
            uv_close((uv_handle_t *)&box->watch, watch_closed_cb);
        }
    }
}

void mailboxes_forget(struct agent_mailboxes *mailboxes, uint32_t job, uint32_t attempt)
{
    struct group *group = find(mailboxes, job, attempt);
    if (group != NULL) {
        drop(group);
        driver_defer(mailboxes->io->driver, free_later_cb, group);
    }
}

/* ---- answers ------------------------------------------------------------------------------------------------ */

static void wake(struct box *box)
{
    if (box->wake != NULL) {
        (void)mailbox_wake(box->fd, box->wake); /* the rank also looks by itself */
    }
}

void mailboxes_answer(struct agent_mailboxes *mailboxes, uint32_t job, uint32_t attempt,
                      const struct agent_mail_answer *answer)
{
    struct group *group = find(mailboxes, job, attempt);
    if (group == NULL || answer->local_rank >= group->rank_count ||
        group->boxes[answer->local_rank].fd < 0) {
        return;
    }
    struct box *box = &group->boxes[answer->local_rank];
    /* A mailbox that cannot be written any more belongs to a rank that broke it, or is gone. */
    if (answer->kind == AGENT_MAIL_CHECKPOINT) {
        (void)mailbox_answer_write(box->fd, answer->id, answer->status, answer->text);
    } else {
        (void)mailbox_value_write(box->fd, answer->id, answer->status, answer->value, answer->size);
    }
    wake(box);
}

void mailboxes_request(struct agent_mailboxes *mailboxes, uint32_t job, uint32_t attempt,
                       const struct agent_mail_request *request)
{
    struct group *group = find(mailboxes, job, attempt);
    if (group != NULL && group->boxes[0].fd >= 0) {
        struct box *box = &group->boxes[0];
        (void)mailbox_flags_write(box->fd, request->save_request, request->stop_request);
        wake(box);
    }
}

void mailboxes_abort(struct agent_mailboxes *mailboxes, uint32_t job, uint32_t attempt)
{
    struct group *group = find(mailboxes, job, attempt);
    for (uint32_t i = 0; group != NULL && i < group->rank_count; i++) {
        struct box *box = &group->boxes[i];
        if (box->fd >= 0) {
            (void)mailbox_abort_write(box->fd, attempt + 1); /* else the KILL ends it */
            wake(box);
        }
    }
}

static int describe_communicators(const struct mailbox_view *view, struct buf *out)
{
    int r = buf_printf(out, "\"communicators\":[");
    for (uint32_t i = 0; r == 0 && i < view->communicator_count; i++) {
        const struct mailbox_communicator *one = &view->communicators[i];
        /* a name has nothing in it that JSON would have to escape */
        r = buf_printf(out,
                       "%s{\"name\":\"%s\",\"axis\":\"%s\",\"enqueued\":%llu,\"completed\":%llu,"
                       "\"operation\":\"%s\",\"peer\":%d}",
                       i == 0 ? "" : ",", one->name, communicator_axis_word(one->axis),
                       (unsigned long long)one->enqueued, (unsigned long long)one->completed,
                       collective_operation_word(one->operation), one->peer);
    }
    return r == 0 ? buf_printf(out, "]") : r;
}

void mailboxes_describe(struct agent_mailboxes *mailboxes, uint32_t job, uint32_t attempt,
                        struct buf *out)
{
    const struct group *group = find(mailboxes, job, attempt);
    const uint64_t now = agent_io_now_ms();
    bool first = true;
    int r = buf_printf(out, "{\"ranks\":[");
    for (uint32_t i = 0; group != NULL && i < group->rank_count; i++) {
        struct mailbox_view view = {0};
        const struct box *box = &group->boxes[i];
        if (r != 0 || box->fd < 0 || mailbox_read(box->fd, now, &view) != 0 || !view.valid) {
            continue;
        }
        r = buf_printf(out,
                       "%s{\"rank\":%u,\"phase\":%u,\"step\":%llu,\"step_begun\":%llu,"
                       "\"age_ms\":%llu,\"torn\":%s,",
                       first ? "" : ",", group->first_rank + i, view.phase,
                       (unsigned long long)view.step, (unsigned long long)view.step_begun,
                       (unsigned long long)(now - view.changed_ms), view.torn ? "true" : "false");
        r = r == 0 ? describe_communicators(&view, out) : r;
        r = r == 0 ? buf_printf(out, "}") : r;
        first = false;
    }
    r = r == 0 ? buf_printf(out, "]}") : r;
    if (r != 0) {
        buf_clear(out); /* too long: nothing is better than a part */
    }
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

struct agent_mailboxes *mailboxes_create(struct agent_io *io)
{
    struct agent_mailboxes *mailboxes = mem_alloc(1, sizeof(*mailboxes));
    mailboxes->io = io;
    int r = uv_timer_init(io->loop, &mailboxes->timer);
    CHECK(r == 0);
    r = uv_timer_init(io->loop, &mailboxes->ring);
    CHECK(r == 0);
    mailboxes->timer.data = mailboxes;
    mailboxes->ring.data = mailboxes;
    r = uv_timer_start(&mailboxes->timer, timer_cb, MAILBOXES_READ_MS, MAILBOXES_READ_MS);
    CHECK(r == 0);
    return mailboxes;
}

void mailboxes_close(struct agent_mailboxes *mailboxes)
{
    mailboxes->closed = true;
    uv_close((uv_handle_t *)&mailboxes->timer, NULL);
    uv_close((uv_handle_t *)&mailboxes->ring, NULL);
    for (struct group *group = mailboxes->first; group != NULL; group = group->next) {
        if (!group->gone) {
            drop(group);
        }
    }
}

struct agent_mailboxes *mailboxes_free(struct agent_mailboxes *mailboxes)
{
    while (mailboxes != NULL && mailboxes->first != NULL) {
        struct group *group = mailboxes->first;
        mailboxes->first = group->next;
        mem_free(group);
    }
    return mem_free(mailboxes);
}
