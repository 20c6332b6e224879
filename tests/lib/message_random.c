/* message_random.c: one small generator for each kind of value, one function for each message. */
#include "tests/lib/message_random.h"

#include <stdbool.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"

enum { WORLD_MAX = 1 << 20 };

const uint8_t message_kinds[] = {
#define X(number, upper, lower) MSG_##upper,
    MESSAGE_KINDS(X)
#undef X
};
const size_t message_kind_count = ARRAY_SIZE(message_kinds);

struct filler {
    struct prng *prng; /* NULL: everything as large as it may be */
    char *storage;
    size_t storage_size;
};

/* ---- values ---------------------------------------------------------------------------------- */

/* 0 … max: mostly small, often at a bound. */
static uint64_t number(struct filler *filler, uint64_t max)
{
    if (filler->prng == NULL) {
        return max;
    }
    switch (prng_below(filler->prng, 6)) {
    case 0:
        return 0;
    case 1:
        return max;
    case 2:
        return max == UINT64_MAX ? prng_next(filler->prng) : prng_below(filler->prng, max + 1);
    default:
        return prng_below(filler->prng, max < 1000 ? max + 1 : 1000);
    }
}

static uint64_t number_from(struct filler *filler, uint64_t min, uint64_t max)
{
    return min + number(filler, max - min);
}

static uint64_t count63(struct filler *filler)
{
    return number(filler, INT64_MAX);
}

static uint32_t any32(struct filler *filler)
{
    return (uint32_t)number(filler, UINT32_MAX);
}

static int32_t any_code(struct filler *filler)
{
    return filler->prng == NULL ? INT32_MIN
                                : (int32_t)((int64_t)number(filler, UINT32_MAX) + INT32_MIN);
}

static int32_t maybe_index(struct filler *filler, uint32_t count)
{
    return (int32_t)number(filler, count) - 1;
}

static bool flag(struct filler *filler)
{
    return filler->prng == NULL || prng_chance_ppm(filler->prng, 500000);
}

/* `length` characters of `alphabet`; the largest text takes the last character. */
static void letters(struct filler *filler, char *target, size_t length, const char *alphabet)
{
    size_t count = strlen(alphabet);
    for (size_t i = 0; i < length; i++) {
        target[i] =
            filler->prng == NULL ? alphabet[count - 1] : alphabet[prng_below(filler->prng, count)];
    }
    target[length] = '\0';
}

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGIT "0123456789"

static void name_of(struct filler *filler, char *target, size_t size)
{
    size_t length = (size_t)number_from(filler, 1, size - 1);
    letters(filler, target, length, "._-" UPPER LOWER DIGIT);
    if (!text_is_name(target, size)) {
        target[0] = 'n';
    }
}

static void maybe_name(struct filler *filler, char *target, size_t size)
{
    target[0] = '\0';
    if (flag(filler)) {
        name_of(filler, target, size);
    }
}

static void word_of(struct filler *filler, char *target, size_t size)
{
    letters(filler, target, (size_t)number_from(filler, 1, size - 1),
            "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~" UPPER LOWER DIGIT);
}

static void hex_of(struct filler *filler, char *target, size_t size)
{
    letters(filler, target, size - 1, DIGIT "abcdef");
}

static void maybe_hex(struct filler *filler, char *target, size_t size)
{
    target[0] = '\0';
    if (flag(filler)) {
        hex_of(filler, target, size);
    }
}

static void sentence(struct filler *filler, char *target, size_t size)
{
    static const char *const pieces[] = {"a", " ",        "\t",           "\n",
                                         "~", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    size_t length = (size_t)number(filler, size - 1);
    size_t used = 0;
    while (used < length) {
        const char *piece =
            filler->prng == NULL ? "x" : pieces[prng_below(filler->prng, ARRAY_SIZE(pieces))];
        if (used + strlen(piece) > length) {
            piece = "b";
        }
        memcpy(target + used, piece, strlen(piece));
        used += strlen(piece);
    }
    target[used] = '\0';
}

static void address_of(struct filler *filler, char *target, size_t size)
{
    static const char *const some[] = {"127.0.0.1", "10.254.3.77", "::1", "fe80::1%eth0",
                                       "2001:db8:ffff:ffff:ffff:ffff:255.255.255.255"};
    size_t index = (size_t)number(filler, ARRAY_SIZE(some) - 1);
    CHECK(text_copy(target, size, some[index]));
}

static void maybe_address(struct filler *filler, char *target, size_t size)
{
    target[0] = '\0';
    if (flag(filler)) {
        address_of(filler, target, size);
    }
}

static void line_of(struct filler *filler, char *target, size_t size)
{
    size_t length = (size_t)number_from(filler, 1, size - 1);
    letters(filler, target, length, "\\ /._-+" LOWER DIGIT);
    if (flag(filler) && length >= 2) {
        memcpy(target, "\xc3\xa9", 2);
    }
}

static void maybe_line(struct filler *filler, char *target, size_t size)
{
    target[0] = '\0';
    if (flag(filler)) {
        line_of(filler, target, size);
    }
}

/* The borrowed text of a message; NULL when it is empty. */
static const char *borrowed(struct filler *filler, uint32_t *ret_size)
{
    size_t max = filler->storage_size < MESSAGE_TEXT_MAX ? filler->storage_size : MESSAGE_TEXT_MAX;
    *ret_size = (uint32_t)number(filler, max);
    for (uint32_t i = 0; i < *ret_size; i++) {
        filler->storage[i] = (char)(' ' + i % 95);
    }
    return *ret_size > 0 ? filler->storage : NULL;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static void fill_rank(struct filler *filler, struct rank_report *rank)
{
    rank->state = (uint8_t)number(filler, RANK_UNSTARTED);
    rank->phase = (uint8_t)number(filler, PHASE_IDLE);
    rank->has_mailbox = flag(filler);
    rank->after_stop = flag(filler);
    rank->code = any_code(filler);
    rank->end_sequence = count63(filler);
    rank->step = count63(filler);
    rank->phase_age_ms = any32(filler);
    rank->step_ms = any32(filler);
    rank->compute_ms = any32(filler);
    rank->prints = flag(filler);
}

static void fill_report(struct filler *filler, struct attempt_report *report)
{
    report->job = any32(filler);
    report->attempt = any32(filler);
    report->foreign = flag(filler);
    report->shim_alive = flag(filler);
    report->empty = flag(filler);
    report->unclean = flag(filler);
    report->stop_seen = flag(filler);
    report->refused = flag(filler);
    report->rank_count = (uint32_t)number(filler, RANKS_PER_NODE_MAX);
    report->first_rank = (uint32_t)number(filler, WORLD_MAX - RANKS_PER_NODE_MAX);
    for (uint32_t i = 0; i < report->rank_count; i++) {
        fill_rank(filler, &report->ranks[i]);
    }
    sentence(filler, report->text, sizeof report->text);
    report->used_ms = count63(filler);
    report->reads_output = flag(filler);
}

static uint32_t fill_reports(struct filler *filler, struct attempt_report *reports)
{
    uint32_t count = (uint32_t)number(filler, ATTEMPTS_PER_NODE_MAX);
    for (uint32_t i = 0; i < count; i++) {
        fill_report(filler, &reports[i]);
    }
    return count;
}

static void fill_inventory(struct filler *filler, struct inventory *inventory)
{
    inventory->gpu_count = (uint32_t)number(filler, GPUS_MAX);
    for (uint32_t i = 0; i < inventory->gpu_count; i++) {
        word_of(filler, inventory->gpu_uuid[i], UUID_SIZE);
    }
    inventory->port_count = (uint32_t)number(filler, PORTS_MAX);
    for (uint32_t i = 0; i < inventory->port_count; i++) {
        maybe_name(filler, inventory->port_leaf[i], NAME_SIZE);
    }
    inventory->memory_bytes = count63(filler);
    inventory->cpu_count = any32(filler);
    sentence(filler, inventory->driver, sizeof inventory->driver);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void fill_hello(struct filler *filler, struct msg_hello *hello)
{
    maybe_hex(filler, hello->cluster_id, sizeof hello->cluster_id);
    name_of(filler, hello->node, sizeof hello->node);
    word_of(filler, hello->boot_id, sizeof hello->boot_id);
    hello->incarnation = count63(filler);
    hello->clean_boot = flag(filler);
    hello->term_seen = count63(filler);
    sentence(filler, hello->version, sizeof hello->version);
    hello->protocol = any32(filler);
    maybe_address(filler, hello->address, sizeof hello->address);
    hello->peer_port = (uint16_t)number(filler, UINT16_MAX);
    maybe_name(filler, hello->labels.rack, NAME_SIZE);
    maybe_name(filler, hello->labels.feed, NAME_SIZE);
    maybe_name(filler, hello->labels.pool, NAME_SIZE);
    maybe_name(filler, hello->labels.pod, NAME_SIZE);
    fill_inventory(filler, &hello->inventory);
    hello->attempt_count = fill_reports(filler, hello->attempts);
}

static void fill_beat(struct filler *filler, struct msg_beat *beat)
{
    beat->sequence = count63(filler);
    beat->sent_ms = count63(filler);
    beat->checks_ok = flag(filler);
    sentence(filler, beat->checks_text, sizeof beat->checks_text);
    beat->attempt_count = fill_reports(filler, beat->attempts);
}

static void fill_goodbye(struct filler *filler, struct msg_goodbye *goodbye)
{
    goodbye->kind = (uint8_t)number(filler, GOODBYE_GONE);
    sentence(filler, goodbye->text, sizeof goodbye->text);
}

static void fill_rank_ends(struct filler *filler, struct msg_rank_ends *ends)
{
    ends->sequence = count63(filler);
    fill_report(filler, &ends->report);
}

static void fill_fact(struct filler *filler, struct msg_fact *message)
{
    struct fact *fact = &message->fact;
    fact->source = (uint8_t)number(filler, FACT_LAUNCH);
    fact->severity = (uint8_t)number(filler, 3);
    fact->job = any32(filler);
    fact->attempt = any32(filler);
    fact->rank = maybe_index(filler, WORLD_MAX);
    fact->gpu = maybe_index(filler, GPUS_MAX);
    fact->port = maybe_index(filler, PORTS_MAX);
    fact->code = any_code(filler);
    fact->sequence = count63(filler);
    sentence(filler, fact->text, sizeof fact->text);
}

static void fill_peer_said(struct filler *filler, struct msg_peer_said *said)
{
    said->nonce = number(filler, UINT64_MAX);
    name_of(filler, said->target, sizeof said->target);
    said->answer = (uint8_t)number(filler, PEER_LEFT);
    said->incarnation = count63(filler);
    said->controller_up = flag(filler);
}

static void fill_checkpoint(struct filler *filler, struct msg_checkpoint *checkpoint)
{
    uint64_t kind = number(filler, CHECKPOINT_COMMIT);
    checkpoint->kind = kind == 0   ? CHECKPOINT_BEGIN
                       : kind == 1 ? CHECKPOINT_SHARD
                                   : CHECKPOINT_COMMIT;
    checkpoint->sequence = count63(filler);
    checkpoint->job = any32(filler);
    checkpoint->attempt = any32(filler);
    checkpoint->step = count63(filler);
    checkpoint->rank = (uint32_t)number(filler, WORLD_MAX - 1);
    checkpoint->shard_count = (uint32_t)number(filler, WORLD_MAX);
    checkpoint->parts = any32(filler);
    checkpoint->bytes = count63(filler);
    maybe_hex(filler, checkpoint->hash, sizeof checkpoint->hash);
    maybe_line(filler, checkpoint->directory, sizeof checkpoint->directory);
    checkpoint->stall_ms = any32(filler);
}

static void fill_exchange(struct filler *filler, struct msg_exchange *exchange)
{
    uint64_t kind = number(filler, EXCHANGE_VALUE);
    exchange->kind = kind == 0 ? EXCHANGE_PUT : kind == 1 ? EXCHANGE_GET : EXCHANGE_VALUE;
    exchange->job = any32(filler);
    exchange->attempt = any32(filler);
    exchange->rank = (uint32_t)number(filler, WORLD_MAX - 1);
    line_of(filler, exchange->key, sizeof exchange->key);
    if (exchange->kind != EXCHANGE_GET) {
        exchange->size = (uint32_t)number(filler, EXCHANGE_VALUE_MAX);
        for (uint32_t i = 0; i < exchange->size; i++) {
            exchange->value[i] = (uint8_t)number(filler, UINT8_MAX);
        }
    }
}

static void fill_check_result(struct filler *filler, struct msg_check_result *result)
{
    result->nonce = number(filler, UINT64_MAX);
    result->job = any32(filler);
    result->ok = flag(filler);
    result->port_free = flag(filler);
    sentence(filler, result->text, sizeof result->text);
}

static void fill_log_data(struct filler *filler, struct msg_log_data *data)
{
    data->nonce = number(filler, UINT64_MAX);
    data->last = flag(filler);
    data->error = -(int32_t)number(filler, 4095);
    data->text = borrowed(filler, &data->size);
}

static void fill_snapshot_data(struct filler *filler, struct msg_snapshot_data *data)
{
    data->nonce = number(filler, UINT64_MAX);
    data->job = any32(filler);
    data->attempt = any32(filler);
    data->round = any32(filler);
    data->text = borrowed(filler, &data->size);
}

static void fill_welcome(struct filler *filler, struct msg_welcome *welcome)
{
    welcome->result = (uint8_t)number(filler, HELLO_RETIRED);
    maybe_hex(filler, welcome->cluster_id, sizeof welcome->cluster_id);
    welcome->term = count63(filler);
    sentence(filler, welcome->text, sizeof welcome->text);
}

static void fill_ack(struct filler *filler, struct msg_ack *ack)
{
    ack->term = count63(filler);
    ack->beat_sequence = count63(filler);
    ack->fact_sequence = count63(filler);
    ack->ends_sequence = count63(filler);
}

/* A layout that multiplies out and ranks that lie in it. */
static void fill_layout(struct filler *filler, struct msg_desired *desired)
{
    static const char *const orders[] = {"dp-pp-cp-tp", "tp-pp-cp-dp", "cp-dp-tp-pp",
                                         "tp-cp-pp-dp"};
    desired->tensor = (uint16_t)number_from(filler, 1, 16);
    desired->context = (uint16_t)number_from(filler, 1, 4);
    desired->pipeline = (uint16_t)number_from(filler, 1, 64);
    desired->data = (uint16_t)number_from(filler, 1, 256);
    desired->world =
        (uint32_t)desired->tensor * desired->context * desired->pipeline * desired->data;
    uint32_t most = desired->world < RANKS_PER_NODE_MAX ? desired->world : RANKS_PER_NODE_MAX;
    desired->rank_count = (uint32_t)number_from(filler, 1, most);
    desired->first_rank = (uint32_t)number(filler, desired->world - desired->rank_count);
    desired->slot_count = (uint32_t)number_from(filler, 1, WORLD_MAX);
    desired->slot = (uint32_t)number(filler, desired->slot_count - 1);
    CHECK(text_copy(desired->order, sizeof desired->order,
                    orders[number(filler, ARRAY_SIZE(orders) - 1)]));
}

static void fill_desired(struct filler *filler, struct msg_desired *desired)
{
    hex_of(filler, desired->cluster_id, sizeof desired->cluster_id);
    desired->term = count63(filler);
    desired->sequence = count63(filler);
    desired->mode = filler->prng == NULL ? DESIRED_RUN : (uint8_t)number(filler, DESIRED_STOP);
    desired->job = any32(filler);
    name_of(filler, desired->job_name, sizeof desired->job_name);
    desired->attempt = any32(filler);
    desired->grace_ms = (uint32_t)number(filler, 24 * 3600 * 1000);
    desired->abort = flag(filler);
    desired->forget = flag(filler);
    fill_layout(filler, desired);
    address_of(filler, desired->master_address, sizeof desired->master_address);
    desired->master_port = (uint16_t)number_from(filler, 1, UINT16_MAX);
    desired->start = flag(filler);
    desired->restore_step = count63(filler);
    desired->restore_attempt = any32(filler);
    maybe_line(filler, desired->restore_directory, sizeof desired->restore_directory);
    desired->save_request = any32(filler);
    desired->stop_request = flag(filler);
    desired->spec_revision = any32(filler);
    desired->spec = borrowed(filler, &desired->spec_size);
}

static void fill_check(struct filler *filler, struct msg_check *check)
{
    check->nonce = number(filler, UINT64_MAX);
    check->job = any32(filler);
    check->attempt = any32(filler);
    check->port = (uint16_t)number(filler, UINT16_MAX);
    check->restore_step = count63(filler);
    check->restore_attempt = any32(filler);
    maybe_line(filler, check->restore_directory, sizeof check->restore_directory);
    check->spec = borrowed(filler, &check->spec_size);
}

static void fill_save_ask(struct filler *filler, struct msg_save_ask *ask)
{
    ask->nonce = number(filler, UINT64_MAX);
    ask->task = (uint8_t)number(filler, SAVE_REMOVE);
    ask->job = any32(filler);
    maybe_name(filler, ask->job_name, sizeof ask->job_name);
    ask->timeout_ms = (uint32_t)number(filler, 24 * 3600 * 1000);
    ask->step = count63(filler);
    ask->attempt = any32(filler);
    maybe_line(filler, ask->directory, sizeof ask->directory);
    maybe_hex(filler, ask->hash, sizeof ask->hash);
    ask->spec = borrowed(filler, &ask->spec_size);
}

static void fill_validate(struct filler *filler, struct msg_validate *validate)
{
    validate->nonce = number(filler, UINT64_MAX);
    validate->level = (uint8_t)number(filler, VALIDATE_FULL);
    validate->timeout_ms = (uint32_t)number(filler, 24 * 3600 * 1000);
}

static void fill_validated(struct filler *filler, struct msg_validated *validated)
{
    validated->nonce = number(filler, UINT64_MAX);
    validated->ok = flag(filler);
    sentence(filler, validated->text, sizeof validated->text);
}

static void fill_save_said(struct filler *filler, struct msg_save_said *said)
{
    said->nonce = number(filler, UINT64_MAX);
    said->job = any32(filler);
    said->word = (uint8_t)number(filler, SAVE_DONE);
    said->error = -(int32_t)number(filler, 4095);
    said->ok = flag(filler);
    said->step = count63(filler);
    said->attempt = any32(filler);
    said->parts = any32(filler);
    said->files = any32(filler);
    said->bytes = count63(filler);
    said->bytes_done = count63(filler);
    said->age_ms = count63(filler);
    said->took_ms = count63(filler);
    maybe_hex(filler, said->hash, sizeof said->hash);
    maybe_line(filler, said->directory, sizeof said->directory);
    sentence(filler, said->text, sizeof said->text);
}

static void fill_checkpoint_answer(struct filler *filler, struct msg_checkpoint_answer *answer)
{
    answer->sequence = count63(filler);
    answer->job = any32(filler);
    answer->attempt = any32(filler);
    answer->step = count63(filler);
    answer->rank = (uint32_t)number(filler, WORLD_MAX - 1);
    answer->kind = (uint8_t)number(filler, CHECKPOINT_COMMIT);
    answer->accepted = flag(filler);
    sentence(filler, answer->text, sizeof answer->text);
}

static void fill_peer_ask(struct filler *filler, struct msg_peer_ask *ask)
{
    ask->nonce = number(filler, UINT64_MAX);
    name_of(filler, ask->target, sizeof ask->target);
    address_of(filler, ask->address, sizeof ask->address);
    ask->port = (uint16_t)number_from(filler, 1, UINT16_MAX);
    ask->timeout_ms = (uint32_t)number_from(filler, 1, 60000);
}

static void fill_peers(struct filler *filler, struct msg_peers *peers)
{
    peers->peer_count = (uint32_t)number(filler, PEERS_KNOWN_MAX);
    for (uint32_t i = 0; i < peers->peer_count; i++) {
        name_of(filler, peers->peers[i].name, NAME_SIZE);
        address_of(filler, peers->peers[i].address, ADDRESS_SIZE);
        peers->peers[i].port = (uint16_t)number_from(filler, 1, UINT16_MAX);
    }
}

static void fill_log_read(struct filler *filler, struct msg_log_read *log_read)
{
    log_read->nonce = number(filler, UINT64_MAX);
    log_read->job = any32(filler);
    maybe_name(filler, log_read->job_name, sizeof log_read->job_name);
    log_read->attempt = any32(filler);
    log_read->rank = (uint32_t)number(filler, WORLD_MAX - 1);
    log_read->tail_bytes = number(filler, 1024 * 1024);
}

static void fill_snapshot_ask(struct filler *filler, struct msg_snapshot_ask *ask)
{
    ask->nonce = number(filler, UINT64_MAX);
    ask->job = any32(filler);
    ask->attempt = any32(filler);
    ask->round = any32(filler);
}

static void fill_communicator(struct filler *filler, struct communicator_report *report)
{
    line_of(filler, report->name, sizeof report->name);
    report->axis = (uint16_t)number(filler, AXIS_DATA);
    report->operation = (uint16_t)number(filler, OPERATION_BARRIER);
    report->peer = maybe_index(filler, WORLD_MAX);
    report->enqueued = count63(filler);
    report->completed = number(filler, report->enqueued);
}

static void fill_rank_detail(struct filler *filler, struct msg_rank_detail *detail)
{
    detail->job = any32(filler);
    detail->attempt = any32(filler);
    detail->rank = (uint32_t)number(filler, WORLD_MAX - 1);
    detail->has_coordinates = flag(filler);
    detail->coordinates =
        (struct rank_coordinates){any32(filler), any32(filler), any32(filler), any32(filler)};
    detail->step_count = (uint32_t)number(filler, STEPS_MAX);
    for (uint32_t i = 0; i < detail->step_count; i++) {
        detail->steps[i] = (struct step_report){number_from(filler, 1, INT64_MAX), any32(filler),
                                                any32(filler), any32(filler), any32(filler)};
    }
    detail->hash_count = (uint32_t)number(filler, HASHES_MAX);
    for (uint32_t i = 0; i < detail->hash_count; i++) {
        detail->hashes[i] =
            (struct hash_report){number_from(filler, 1, INT64_MAX), number(filler, UINT64_MAX)};
    }
    detail->communicator_count = (uint32_t)number(filler, COMMUNICATORS_MAX);
    for (uint32_t i = 0; i < detail->communicator_count; i++) {
        fill_communicator(filler, &detail->communicators[i]);
    }
}

static void fill_peer_question(struct filler *filler, struct msg_peer_question *question)
{
    question->nonce = number(filler, UINT64_MAX);
    name_of(filler, question->asker, sizeof question->asker);
}

static void fill_peer_reply(struct filler *filler, struct msg_peer_reply *reply)
{
    reply->nonce = number(filler, UINT64_MAX);
    name_of(filler, reply->node, sizeof reply->node);
    reply->incarnation = count63(filler);
    reply->controller_up = flag(filler);
}

static void fill(struct filler *filler, uint8_t kind, struct message *message)
{
    memset(message, 0, sizeof *message);
    message->kind = kind;
    switch (kind) {
#define X(number_, upper, lower)                                                                   \
    case MSG_##upper:                                                                              \
        fill_##lower(filler, &message->u.lower);                                                   \
        return;
        MESSAGE_KINDS(X)
#undef X
    }
    CHECK(false); /* the caller takes kinds from message_kinds */
}

void message_random(struct prng *prng, uint8_t kind, char *storage, size_t storage_size,
                    struct message *ret_message)
{
    struct filler filler = {prng, storage, storage_size};
    fill(&filler, kind, ret_message);
}

void message_largest(uint8_t kind, char *storage, size_t storage_size, struct message *ret_message)
{
    struct filler filler = {NULL, storage, storage_size};
    fill(&filler, kind, ret_message);
}
