/* fake_controller.c: poll, frames, and a struct of the newest of everything. */
#include "tests/unit/agent_io/fake_controller.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "proto/wire/wire.h"

uint64_t fake_now_ms(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void fake_open(struct fake_controller *fake)
{
    memset(fake, 0, sizeof(*fake));
    fake->fd = -1;
    fake->term = 1;
    fake->ack = true;
    (void)text_copy(fake->cluster_id, sizeof(fake->cluster_id), "0123456789abcdef0123456789abcdef");
    fake->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fake->listen_fd >= 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    CHECK(bind(fake->listen_fd, (const struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(listen(fake->listen_fd, 16) == 0);
    CHECK(getsockname(fake->listen_fd, (struct sockaddr *)&address, &size) == 0);
    fake->port = ntohs(address.sin_port);
    frame_reader_init(&fake->reader, FRAME_FROM_AGENT);
}

void fake_hang_up(struct fake_controller *fake)
{
    if (fake->fd >= 0) {
        (void)close(fake->fd);
        fake->fd = -1;
        fake->welcomed = false;
        frame_reader_done(&fake->reader);
        frame_reader_init(&fake->reader, FRAME_FROM_AGENT);
    }
}

void fake_close(struct fake_controller *fake)
{
    fake_hang_up(fake);
    frame_reader_done(&fake->reader);
    (void)close(fake->listen_fd);
}

static void send_now(struct fake_controller *fake, const struct message *message)
{
    struct buf frame;
    struct err err = {0};
    buf_init(&frame, FRAME_SIZE_MAX);
    CHECK(wire_encode(message, &frame, &err) == 0);
    size_t sent = 0;
    while (fake->fd >= 0 && sent < frame.size) {
        const ssize_t r = send(fake->fd, frame.data + sent, frame.size - sent, MSG_NOSIGNAL);
        if (r <= 0) {
            fake_hang_up(fake);
            break;
        }
        sent += (size_t)r;
    }
    buf_done(&frame);
}

void fake_send(struct fake_controller *fake, const struct message *message)
{
    if (fake->welcomed) {
        send_now(fake, message);
    }
}

static void send_desired(struct fake_controller *fake, struct msg_desired *desired)
{
    struct message *message = mem_alloc(1, sizeof(*message));
    message->kind = MSG_DESIRED;
    message->u.desired = *desired;
    fake_send(fake, message);
    mem_free(message);
}

void fake_desire(struct fake_controller *fake, const struct msg_desired *desired)
{
    uint32_t at = 0;
    while (at < fake->desired_count && fake->desired[at].job != desired->job) {
        at++;
    }
    CHECK(at < FAKE_DESIRED_MAX);
    fake->desired_count = at == fake->desired_count ? at + 1 : fake->desired_count;
    fake->desired[at] = *desired;
    fake->desired[at].term = fake->term;
    fake->desired[at].sequence = ++fake->sequence;
    (void)text_copy(fake->desired[at].cluster_id, CLUSTER_ID_SIZE, fake->cluster_id);
    send_desired(fake, &fake->desired[at]);
}

static void welcome(struct fake_controller *fake)
{
    struct message *message = mem_alloc(1, sizeof(*message));
    message->kind = MSG_WELCOME;
    message->u.welcome.result = HELLO_WELCOME;
    message->u.welcome.term = fake->term;
    (void)text_copy(message->u.welcome.cluster_id, CLUSTER_ID_SIZE, fake->cluster_id);
    fake->welcomed = true;
    fake->sessions++;
    send_now(fake, message);
    mem_free(message);
    for (uint32_t i = 0; i < fake->desired_count; i++) {
        send_desired(fake, &fake->desired[i]);
    }
}

static void acknowledge(struct fake_controller *fake, uint64_t ends, uint64_t facts)
{
    struct message *message = mem_alloc(1, sizeof(*message));
    message->kind = MSG_ACK;
    message->u.ack = (struct msg_ack){.term = fake->term,
                                      .beat_sequence = fake->beat.sequence,
                                      .ends_sequence = ends,
                                      .fact_sequence = facts};
    fake_send(fake, message);
    mem_free(message);
}

static void take_save(struct fake_controller *fake, const struct msg_save_said *said)
{
    if (said->word == SAVE_DONE) {
        fake->has_save_done = true;
        fake->save_done = *said;
    } else if (said->word == SAVE_PROGRESS) {
        fake->save_progress++;
    } else if (fake->save_count < FAKE_SAVES_MAX) {
        fake->saves[fake->save_count++] = *said;
    }
}

static void take_log(struct fake_controller *fake, const struct msg_log_data *data)
{
    fake->has_log = data->last;
    fake->log_error = data->error;
    const size_t used = strlen(fake->log);
    const size_t room = sizeof(fake->log) - 1 - used;
    const size_t size = data->size < room ? data->size : room;
    memcpy(fake->log + used, data->text, size);
    fake->log[used + size] = '\0';
}

static void take_fact(struct fake_controller *fake, const struct fact *fact)
{
    fake->facts_heard++;
    bool known = false;
    for (uint32_t i = 0; i < fake->fact_count; i++) {
        known = known || fake->facts[i].sequence == fact->sequence;
    }
    if (!known && fake->fact_count < FAKE_FACTS_MAX) {
        fake->facts[fake->fact_count++] = *fact;
    }
    if (fake->ack) {
        acknowledge(fake, 0, fact->sequence);
    }
}

const struct fact *fake_fact(const struct fake_controller *fake, const char *signal)
{
    for (uint32_t i = fake->fact_count; i > 0; i--) {
        if (strcmp(fake->facts[i - 1].signal, signal) == 0) {
            return &fake->facts[i - 1];
        }
    }
    return NULL;
}

static void take_beat(struct fake_controller *fake, const struct msg_beat *beat)
{
    const uint64_t now = fake_now_ms();
    const uint64_t gap = fake->beat_ms > 0 ? now - fake->beat_ms : 0;
    fake->beat_gap_ms = gap > fake->beat_gap_ms ? gap : fake->beat_gap_ms;
    fake->beat_ms = now;
    fake->beat = *beat;
    fake->beats++;
    acknowledge(fake, 0, 0);
}

static void take_message(struct fake_controller *fake, const struct message *message)
{
    switch (message->kind) {
    case MSG_HELLO:
        fake->hello = message->u.hello;
        memset(&fake->beat, 0, sizeof(fake->beat));
        welcome(fake);
        break;
    case MSG_BEAT:
        take_beat(fake, &message->u.beat);
        break;
    case MSG_FACT:
        take_fact(fake, &message->u.fact.fact);
        break;
    case MSG_GOODBYE:
        fake->goodbye = message->u.goodbye;
        fake->has_goodbye = true;
        break;
    case MSG_RANK_ENDS:
        fake->ends++;
        if (fake->ack) {
            acknowledge(fake, message->u.rank_ends.sequence, 0);
        }
        break;
    case MSG_CHECK_RESULT:
        fake->check = message->u.check_result;
        fake->has_check = true;
        break;
    case MSG_VALIDATED:
        fake->validated = message->u.validated;
        fake->validations++;
        break;
    case MSG_PEER_SAID:
        fake->said = message->u.peer_said;
        fake->has_said = true;
        break;
    case MSG_CHECKPOINT:
        fake->checkpoint = message->u.checkpoint;
        fake->checkpoints++;
        break;
    case MSG_EXCHANGE:
        fake->exchange = message->u.exchange;
        fake->exchanges++;
        break;
    case MSG_LOG_DATA:
        take_log(fake, &message->u.log_data);
        break;
    case MSG_SAVE_SAID:
        take_save(fake, &message->u.save_said);
        break;
    default:
        break;
    }
}

static void take_bytes(struct fake_controller *fake)
{
    uint8_t bytes[16384];
    const ssize_t got = recv(fake->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got <= 0) {
        if (got == 0 || errno != EAGAIN) {
            fake_hang_up(fake);
        }
        return;
    }
    const uint8_t *data = bytes;
    size_t size = (size_t)got;
    struct frame frame;
    struct err err = {0};
    while (fake->fd >= 0 && frame_reader_take(&fake->reader, &data, &size, &frame, &err) == 1) {
        struct message *message = mem_alloc(1, sizeof(*message));
        CHECK(wire_decode(frame.kind, frame.body, frame.size, message, &err) == 0);
        take_message(fake, message);
        message_done(message);
        mem_free(message);
    }
}

static void turn(struct fake_controller *fake, int timeout_ms)
{
    struct pollfd polls[2] = {{.fd = fake->listen_fd, .events = POLLIN},
                              {.fd = fake->fd, .events = POLLIN}};
    (void)poll(polls, 2, timeout_ms); /* an interruption is a short turn */
    if ((polls[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && fake->fd >= 0) {
        take_bytes(fake);
    }
    if ((polls[0].revents & POLLIN) != 0) {
        fake_hang_up(fake);
        fake->fd = accept4(fake->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        fake->connects++;
    }
}

bool fake_wait(struct fake_controller *fake, fake_wanted *wanted, void *context, uint64_t ms)
{
    const uint64_t end = fake_now_ms() + ms;
    for (;;) {
        if (wanted != NULL && wanted(fake, context)) {
            return true;
        }
        const uint64_t now = fake_now_ms();
        if (now >= end) {
            return false;
        }
        const uint64_t left = end - now;
        turn(fake, left < 50 ? (int)left : 50);
    }
}

const struct attempt_report *fake_report(const struct fake_controller *fake, uint32_t job,
                                         uint32_t attempt)
{
    const struct attempt_report *reports =
        fake->beat.sequence > 0 ? fake->beat.attempts : fake->hello.attempts;
    const uint32_t count =
        fake->beat.sequence > 0 ? fake->beat.attempt_count : fake->hello.attempt_count;
    for (uint32_t i = 0; i < count; i++) {
        if (reports[i].job == job && reports[i].attempt == attempt) {
            return &reports[i];
        }
    }
    return NULL;
}
