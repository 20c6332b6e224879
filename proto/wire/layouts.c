/* layouts.c: the fields of every message, once. Each table names a member that has the same name
 * in the plain struct (PLAIN) and in the protobuf-c struct (PROTO), and its bounds.
 *
 * Numbers of at most 2^63-1 fit a database's and a JSON reader's integers, hence COUNT_MAX. */
#include "proto/wire/layouts.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/keepstep.pb-c.h"
#include "proto/wire/wire.h"

#define COUNT_MAX ((uint64_t)INT64_MAX)
#define RANK_MAX  (WIRE_WORLD_MAX - 1)

/* ---- the words that the tables are written in ------------------------------------------------ */

#define MEMBER(type_, member)                                                                      \
    .name = #member, .type = (type_), .at = offsetof(PLAIN, member),                               \
    .proto_at = offsetof(PROTO, member), .proto_size = sizeof(((PROTO *)NULL)->member)
#define SIZE(member)        .size = sizeof(((PLAIN *)NULL)->member)
#define ELEMENT(member)     .size = sizeof(((PLAIN *)NULL)->member[0])
#define CAPACITY(member)    .max = sizeof(((PLAIN *)NULL)->member) / sizeof(((PLAIN *)NULL)->member[0])
#define COUNT(count_)       .count_at = offsetof(PLAIN, count_)
#define PROTO_COUNT(member) .proto_count_at = offsetof(PROTO, n_##member)

#define UINT(member, max_)                                                                         \
    {                                                                                              \
        MEMBER(FIELD_UINT, member), SIZE(member), .max = (max_)                                    \
    }
#define INT(member, min_, max_)                                                                    \
    {                                                                                              \
        MEMBER(FIELD_INT, member), SIZE(member), .min = (min_), .max = (max_)                      \
    }
#define BOOL(member)                                                                               \
    {                                                                                              \
        MEMBER(FIELD_BOOL, member), SIZE(member), .max = 1                                         \
    }
#define ENUM(member, last, fallback_)                                                              \
    {                                                                                              \
        MEMBER(FIELD_ENUM, member), SIZE(member), .max = (last), .fallback = (fallback_)           \
    }
#define STRING(member, rule_)                                                                      \
    {                                                                                              \
        MEMBER(FIELD_TEXT, member), SIZE(member), .rule = (rule_)                                  \
    }
#define STRINGS(member, count, rule_)                                                              \
    {                                                                                              \
        MEMBER(FIELD_TEXTS, member), ELEMENT(member), CAPACITY(member), COUNT(count),              \
            PROTO_COUNT(member), .rule = (rule_)                                                   \
    }
#define BYTES(member, count)                                                                       \
    {                                                                                              \
        MEMBER(FIELD_BYTES, member), SIZE(member), COUNT(count), CAPACITY(member)                  \
    }
#define BLOB(member, count, max_, rule_)                                                           \
    {                                                                                              \
        MEMBER(FIELD_BLOB, member), SIZE(member), COUNT(count), .max = (max_), .rule = (rule_)     \
    }
#define ONE(member, nested_)                                                                       \
    {                                                                                              \
        MEMBER(FIELD_MESSAGE, member), SIZE(member), .nested = &layout_##nested_                   \
    }
#define MANY(member, count, nested_)                                                               \
    {                                                                                              \
        MEMBER(FIELD_MESSAGES, member), ELEMENT(member), CAPACITY(member), COUNT(count),           \
            PROTO_COUNT(member), .nested = &layout_##nested_                                       \
    }

#define LAYOUT(name_, check_)                                                                      \
    {                                                                                              \
        .name = #name_, .size = sizeof(PLAIN), .descriptor = &keepstep__##name_##__descriptor,     \
        .fields = name_##_fields, .field_count = ARRAY_SIZE(name_##_fields), .check = (check_)     \
    }

/* ---- rules between fields -----------------------------------------------------------------------
 */

static int check_attempt_report(const void *plain, struct err *err)
{
    const struct attempt_report *report = plain;
    if (report->first_rank + report->rank_count > WIRE_WORLD_MAX) {
        return err_set(err, -EBADMSG, "ranks %u and %u on are beyond any world", report->first_rank,
                       report->rank_count);
    }
    return 0;
}

static int check_exchange(const void *plain, struct err *err)
{
    const struct msg_exchange *exchange = plain;
    if (exchange->kind == EXCHANGE_GET && exchange->size > 0) {
        return err_set(err, -EBADMSG, "a get with a value");
    }
    return 0;
}

static int check_communicator_report(const void *plain, struct err *err)
{
    const struct communicator_report *report = plain;
    if (report->completed > report->enqueued) {
        return err_set(err, -EBADMSG, "more operations complete than enqueued");
    }
    return 0;
}

static int check_step_report(const void *plain, struct err *err)
{
    const struct step_report *report = plain;
    return report->step > 0 ? 0 : err_set(err, -EBADMSG, "step 0");
}

static int check_hash_report(const void *plain, struct err *err)
{
    const struct hash_report *report = plain;
    return report->step > 0 ? 0 : err_set(err, -EBADMSG, "step 0");
}

static int check_peer_ask(const void *plain, struct err *err)
{
    const struct msg_peer_ask *ask = plain;
    if (ask->address[0] == '\0' || ask->port == 0 || ask->timeout_ms == 0) {
        return err_set(err, -EBADMSG, "an address, a port and a time-out are needed");
    }
    return 0;
}

static int check_known_peer(const void *plain, struct err *err)
{
    const struct known_peer *peer = plain;
    if (peer->address[0] == '\0' || peer->port == 0) {
        return err_set(err, -EBADMSG, "an address and a port are needed");
    }
    return 0;
}

/* "tp-cp-pp-dp" in any order, each once. */
static bool is_order(const char *order)
{
    static const char *const dimensions[] = {"tp", "cp", "pp", "dp"};
    unsigned seen = 0;
    for (size_t i = 0; i < ARRAY_SIZE(dimensions); i++) {
        for (size_t j = 0; j < ARRAY_SIZE(dimensions); j++) {
            if (strncmp(order, dimensions[j], 2) == 0) {
                seen |= 1u << j;
            }
        }
        if (seen == 0 || strnlen(order, 2) < 2) {
            return false;
        }
        order += 2;
        if (i + 1 < ARRAY_SIZE(dimensions) && *order++ != '-') {
            return false;
        }
    }
    return *order == '\0' && seen == (1u << ARRAY_SIZE(dimensions)) - 1;
}

/* What an agent would otherwise divide by, index with or dial. */
static int check_run(const struct msg_desired *desired, struct err *err)
{
    uint64_t world = (uint64_t)desired->tensor * desired->context * desired->pipeline *
                     desired->data; /* 4 x 16 bits */
    if (desired->rank_count == 0 || desired->first_rank + desired->rank_count > desired->world) {
        return err_set(err, -EBADMSG, "%u ranks from %u on are not in a world of %u",
                       desired->rank_count, desired->first_rank, desired->world);
    }
    if (world != desired->world) {
        return err_set(err, -EBADMSG, "a layout of %u x %u x %u x %u in a world of %u",
                       desired->tensor, desired->context, desired->pipeline, desired->data,
                       desired->world);
    }
    if (desired->slot >= desired->slot_count) {
        return err_set(err, -EBADMSG, "slot %u of %u", desired->slot, desired->slot_count);
    }
    if (!is_order(desired->order)) {
        return err_set(err, -EBADMSG, "order '%s'", desired->order);
    }
    if (desired->job_name[0] == '\0') {
        return err_set(err, -EBADMSG, "no job name");
    }
    if (desired->start && (desired->master_address[0] == '\0' || desired->master_port == 0)) {
        return err_set(err, -EBADMSG, "a start without a rendezvous");
    }
    return 0;
}

static int check_desired(const void *plain, struct err *err)
{
    const struct msg_desired *desired = plain;
    if (desired->cluster_id[0] == '\0') {
        return err_set(err, -EBADMSG, "no cluster id");
    }
    return desired->mode == DESIRED_RUN ? check_run(desired, err) : 0;
}

/* ---- shared parts -------------------------------------------------------------------------------
 */

#define PLAIN struct inventory
#define PROTO Keepstep__Inventory
static const struct field inventory_fields[] = {
    STRINGS(gpu_uuid, gpu_count, TEXT_WORD_OPT),
    STRINGS(port_leaf, port_count, TEXT_NAME_OPT),
    UINT(memory_bytes, COUNT_MAX),
    UINT(cpu_count, UINT32_MAX),
    STRING(driver, TEXT_SENTENCE),
};
static const struct layout layout_inventory = LAYOUT(inventory, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct labels
#define PROTO Keepstep__Labels
static const struct field labels_fields[] = {
    STRING(rack, TEXT_NAME_OPT),
    STRING(feed, TEXT_NAME_OPT),
    STRING(pool, TEXT_NAME_OPT),
    STRING(pod, TEXT_NAME_OPT),
};
static const struct layout layout_labels = LAYOUT(labels, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct rank_report
#define PROTO Keepstep__RankReport
static const struct field rank_report_fields[] = {
    ENUM(state, RANK_UNSTARTED, ENUM_REFUSE),
    ENUM(phase, PHASE_IDLE, PHASE_IDLE),
    BOOL(has_mailbox),
    BOOL(after_stop),
    INT(code, INT32_MIN, INT32_MAX),
    UINT(end_sequence, COUNT_MAX),
    UINT(step, COUNT_MAX),
    UINT(phase_age_ms, UINT32_MAX),
    UINT(step_ms, UINT32_MAX),
    UINT(compute_ms, UINT32_MAX),
    BOOL(prints),
};
static const struct layout layout_rank_report = LAYOUT(rank_report, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct attempt_report
#define PROTO Keepstep__AttemptReport
static const struct field attempt_report_fields[] = {
    UINT(job, UINT32_MAX),
    UINT(attempt, UINT32_MAX),
    BOOL(foreign),
    BOOL(shim_alive),
    BOOL(empty),
    BOOL(unclean),
    BOOL(stop_seen),
    BOOL(refused),
    UINT(first_rank, RANK_MAX),
    MANY(ranks, rank_count, rank_report),
    STRING(text, TEXT_SENTENCE),
    UINT(used_ms, COUNT_MAX),
    BOOL(reads_output),
};
static const struct layout layout_attempt_report = LAYOUT(attempt_report, check_attempt_report);
#undef PLAIN
#undef PROTO

/* ---- agent to controller ------------------------------------------------------------------------
 */

#define PLAIN struct msg_hello
#define PROTO Keepstep__Hello
static const struct field hello_fields[] = {
    STRING(cluster_id, TEXT_HEX_OPT),
    STRING(node, TEXT_NAME),
    STRING(boot_id, TEXT_WORD),
    UINT(incarnation, COUNT_MAX),
    BOOL(clean_boot),
    UINT(term_seen, COUNT_MAX),
    STRING(version, TEXT_SENTENCE),
    UINT(protocol, UINT32_MAX),
    STRING(address, TEXT_ADDRESS_OPT),
    UINT(peer_port, UINT16_MAX),
    ONE(labels, labels),
    ONE(inventory, inventory),
    MANY(attempts, attempt_count, attempt_report),
};
const struct layout layout_hello = LAYOUT(hello, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_beat
#define PROTO Keepstep__Beat
static const struct field beat_fields[] = {
    UINT(sequence, COUNT_MAX),
    UINT(sent_ms, COUNT_MAX),
    BOOL(checks_ok),
    STRING(checks_text, TEXT_SENTENCE),
    MANY(attempts, attempt_count, attempt_report),
};
const struct layout layout_beat = LAYOUT(beat, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_goodbye
#define PROTO Keepstep__Goodbye
static const struct field goodbye_fields[] = {
    ENUM(kind, GOODBYE_GONE, GOODBYE_RESTART),
    STRING(text, TEXT_SENTENCE),
};
const struct layout layout_goodbye = LAYOUT(goodbye, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_rank_ends
#define PROTO Keepstep__RankEnds
static const struct field rank_ends_fields[] = {
    UINT(sequence, COUNT_MAX),
    ONE(report, attempt_report),
};
const struct layout layout_rank_ends = LAYOUT(rank_ends, NULL);
#undef PLAIN
#undef PROTO

/* msg_fact is one struct fact; its node and receive_ms are the receiver's and do not travel. */
static_assert(offsetof(struct msg_fact, fact) == 0, "the fact is the message");
#define PLAIN struct fact
#define PROTO Keepstep__Fact
static const struct field fact_fields[] = {
    ENUM(source, FACT_LAUNCH, FACT_PROBE),
    UINT(severity, 3),
    UINT(job, UINT32_MAX),
    UINT(attempt, UINT32_MAX),
    INT(rank, -1, RANK_MAX),
    INT(gpu, -1, GPUS_MAX - 1),
    INT(port, -1, PORTS_MAX - 1),
    INT(code, INT32_MIN, INT32_MAX),
    UINT(sequence, COUNT_MAX),
    STRING(text, TEXT_SENTENCE),
    ENUM(label, LABEL_OPERATOR, LABEL_UNKNOWN),
    ENUM(advice, ADVICE_EVICT_RMA, ADVICE_NONE),
    ENUM(role, ROLE_ROOT, ROLE_NOISE),
    STRING(signal, TEXT_NAME_OPT),
    STRING(subject, TEXT_SENTENCE),
};
const struct layout layout_fact = LAYOUT(fact, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_peer_said
#define PROTO Keepstep__PeerSaid
static const struct field peer_said_fields[] = {
    UINT(nonce, UINT64_MAX),      STRING(target, TEXT_NAME), ENUM(answer, PEER_LEFT, ENUM_REFUSE),
    UINT(incarnation, COUNT_MAX), BOOL(controller_up),
};
const struct layout layout_peer_said = LAYOUT(peer_said, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_checkpoint
#define PROTO Keepstep__Checkpoint
static const struct field checkpoint_fields[] = {
    ENUM(kind, CHECKPOINT_COMMIT, ENUM_REFUSE),
    UINT(sequence, COUNT_MAX),
    UINT(job, UINT32_MAX),
    UINT(attempt, UINT32_MAX),
    UINT(step, COUNT_MAX),
    UINT(rank, RANK_MAX),
    UINT(shard_count, WIRE_WORLD_MAX),
    UINT(parts, UINT32_MAX),
    UINT(bytes, COUNT_MAX),
    STRING(hash, TEXT_HEX_OPT),
    STRING(directory, TEXT_LINE_OPT),
    UINT(stall_ms, UINT32_MAX),
};
const struct layout layout_checkpoint = LAYOUT(checkpoint, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_exchange
#define PROTO Keepstep__Exchange
static const struct field exchange_fields[] = {
    ENUM(kind, EXCHANGE_VALUE, ENUM_REFUSE),
    UINT(job, UINT32_MAX),
    UINT(attempt, UINT32_MAX),
    UINT(rank, RANK_MAX),
    STRING(key, TEXT_LINE),
    BYTES(value, size),
};
const struct layout layout_exchange = LAYOUT(exchange, check_exchange);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_check_result
#define PROTO Keepstep__CheckResult
static const struct field check_result_fields[] = {
    UINT(nonce, UINT64_MAX), UINT(job, UINT32_MAX),       BOOL(ok),
    BOOL(port_free),         STRING(text, TEXT_SENTENCE),
};
const struct layout layout_check_result = LAYOUT(check_result, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_validated
#define PROTO Keepstep__Validated
static const struct field validated_fields[] = {
    UINT(nonce, UINT64_MAX),
    BOOL(ok),
    STRING(text, TEXT_SENTENCE),
};
const struct layout layout_validated = LAYOUT(validated, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_save_said
#define PROTO Keepstep__SaveSaid
static const struct field save_said_fields[] = {
    UINT(nonce, UINT64_MAX),
    UINT(job, UINT32_MAX),
    ENUM(word, SAVE_DONE, ENUM_REFUSE),
    INT(error, -4095, 0),
    BOOL(ok),
    UINT(step, COUNT_MAX),
    UINT(attempt, UINT32_MAX),
    UINT(parts, UINT32_MAX),
    UINT(files, UINT32_MAX),
    UINT(bytes, COUNT_MAX),
    UINT(bytes_done, COUNT_MAX),
    UINT(age_ms, COUNT_MAX),
    UINT(took_ms, COUNT_MAX),
    STRING(hash, TEXT_HEX_OPT),
    STRING(directory, TEXT_LINE_OPT),
    STRING(text, TEXT_SENTENCE),
};
const struct layout layout_save_said = LAYOUT(save_said, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_log_data
#define PROTO Keepstep__LogData
static const struct field log_data_fields[] = {
    UINT(nonce, UINT64_MAX),
    BOOL(last),
    INT(error, -4095, 0),
    BLOB(text, size, LOG_CHUNK_MAX, BLOB_ANY),
};
const struct layout layout_log_data = LAYOUT(log_data, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_snapshot_data
#define PROTO Keepstep__SnapshotData
static const struct field snapshot_data_fields[] = {
    UINT(nonce, UINT64_MAX),
    UINT(job, UINT32_MAX),
    UINT(attempt, UINT32_MAX),
    UINT(round, UINT32_MAX),
    BLOB(text, size, SNAPSHOT_TEXT_MAX, BLOB_UTF8),
};
const struct layout layout_snapshot_data = LAYOUT(snapshot_data, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct communicator_report
#define PROTO Keepstep__CommunicatorReport
static const struct field communicator_report_fields[] = {
    STRING(name, TEXT_LINE),
    ENUM(axis, AXIS_DATA, AXIS_OTHER),
    ENUM(operation, OPERATION_BARRIER, OPERATION_OTHER),
    INT(peer, -1, RANK_MAX),
    UINT(enqueued, COUNT_MAX),
    UINT(completed, COUNT_MAX),
};
static const struct layout layout_communicator_report =
    LAYOUT(communicator_report, check_communicator_report);
#undef PLAIN
#undef PROTO

#define PLAIN struct step_report
#define PROTO Keepstep__StepReport
static const struct field step_report_fields[] = {
    UINT(step, COUNT_MAX),  UINT(total_us, UINT32_MAX),      UINT(compute_us, UINT32_MAX),
    UINT(loss, UINT32_MAX), UINT(gradient_norm, UINT32_MAX),
};
static const struct layout layout_step_report = LAYOUT(step_report, check_step_report);
#undef PLAIN
#undef PROTO

#define PLAIN struct hash_report
#define PROTO Keepstep__HashReport
static const struct field hash_report_fields[] = {
    UINT(step, COUNT_MAX),
    UINT(hash, UINT64_MAX),
};
static const struct layout layout_hash_report = LAYOUT(hash_report, check_hash_report);
#undef PLAIN
#undef PROTO

#define PLAIN struct rank_coordinates
#define PROTO Keepstep__RankCoordinates
static const struct field rank_coordinates_fields[] = {
    UINT(tensor, UINT32_MAX),
    UINT(context, UINT32_MAX),
    UINT(pipeline, UINT32_MAX),
    UINT(data, UINT32_MAX),
};
static const struct layout layout_rank_coordinates = LAYOUT(rank_coordinates, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_rank_detail
#define PROTO Keepstep__RankDetail
static const struct field rank_detail_fields[] = {
    UINT(job, UINT32_MAX),
    UINT(attempt, UINT32_MAX),
    UINT(rank, RANK_MAX),
    BOOL(has_coordinates),
    ONE(coordinates, rank_coordinates),
    MANY(steps, step_count, step_report),
    MANY(hashes, hash_count, hash_report),
    MANY(communicators, communicator_count, communicator_report),
};
const struct layout layout_rank_detail = LAYOUT(rank_detail, NULL);
#undef PLAIN
#undef PROTO

/* ---- controller to agent ------------------------------------------------------------------------
 */

#define PLAIN struct msg_welcome
#define PROTO Keepstep__Welcome
static const struct field welcome_fields[] = {
    ENUM(result, HELLO_RETIRED, HELLO_VERSION),
    STRING(cluster_id, TEXT_HEX_OPT),
    UINT(term, COUNT_MAX),
    STRING(text, TEXT_SENTENCE),
};
const struct layout layout_welcome = LAYOUT(welcome, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_ack
#define PROTO Keepstep__Ack
static const struct field ack_fields[] = {
    UINT(term, COUNT_MAX),
    UINT(beat_sequence, COUNT_MAX),
    UINT(fact_sequence, COUNT_MAX),
    UINT(ends_sequence, COUNT_MAX),
};
const struct layout layout_ack = LAYOUT(ack, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_desired
#define PROTO Keepstep__Desired
static const struct field desired_fields[] = {
    STRING(cluster_id, TEXT_HEX_OPT),
    UINT(term, COUNT_MAX),
    UINT(sequence, COUNT_MAX),
    ENUM(mode, DESIRED_STOP, DESIRED_NONE),
    UINT(job, UINT32_MAX),
    STRING(job_name, TEXT_NAME_OPT),
    UINT(attempt, UINT32_MAX),
    UINT(grace_ms, WIRE_GRACE_MS_MAX),
    BOOL(forget),
    UINT(slot, RANK_MAX),
    UINT(slot_count, WIRE_WORLD_MAX),
    UINT(first_rank, RANK_MAX),
    UINT(rank_count, RANKS_PER_NODE_MAX),
    UINT(world, WIRE_WORLD_MAX),
    UINT(tensor, UINT16_MAX),
    UINT(context, UINT16_MAX),
    UINT(pipeline, UINT16_MAX),
    UINT(data, UINT16_MAX),
    STRING(order, TEXT_WORD_OPT),
    STRING(master_address, TEXT_ADDRESS_OPT),
    UINT(master_port, UINT16_MAX),
    BOOL(start),
    UINT(restore_step, COUNT_MAX),
    UINT(restore_attempt, UINT32_MAX),
    UINT(save_request, UINT32_MAX),
    BOOL(stop_request),
    UINT(spec_revision, UINT32_MAX),
    BLOB(spec, spec_size, SPEC_TEXT_MAX, BLOB_UTF8),
    BOOL(abort),
    STRING(restore_directory, TEXT_LINE_OPT),
};
const struct layout layout_desired = LAYOUT(desired, check_desired);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_check
#define PROTO Keepstep__Check
static const struct field check_fields[] = {
    UINT(nonce, UINT64_MAX),
    UINT(job, UINT32_MAX),
    UINT(attempt, UINT32_MAX),
    UINT(port, UINT16_MAX),
    UINT(restore_step, COUNT_MAX),
    UINT(restore_attempt, UINT32_MAX),
    BLOB(spec, spec_size, SPEC_TEXT_MAX, BLOB_UTF8),
    STRING(restore_directory, TEXT_LINE_OPT),
};
const struct layout layout_check = LAYOUT(check, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_validate
#define PROTO Keepstep__Validate
static const struct field validate_fields[] = {
    UINT(nonce, UINT64_MAX),
    ENUM(level, VALIDATE_FULL, VALIDATE_FULL),
    UINT(timeout_ms, WIRE_GRACE_MS_MAX),
};
const struct layout layout_validate = LAYOUT(validate, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_save_ask
#define PROTO Keepstep__SaveAsk
static const struct field save_ask_fields[] = {
    UINT(nonce, UINT64_MAX),
    ENUM(task, SAVE_REMOVE, ENUM_REFUSE),
    UINT(job, UINT32_MAX),
    STRING(job_name, TEXT_NAME_OPT),
    UINT(timeout_ms, WIRE_GRACE_MS_MAX),
    UINT(step, COUNT_MAX),
    UINT(attempt, UINT32_MAX),
    STRING(directory, TEXT_LINE_OPT),
    STRING(hash, TEXT_HEX_OPT),
    BLOB(spec, spec_size, SPEC_TEXT_MAX, BLOB_UTF8),
};
const struct layout layout_save_ask = LAYOUT(save_ask, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_checkpoint_answer
#define PROTO Keepstep__CheckpointAnswer
static const struct field checkpoint_answer_fields[] = {
    UINT(sequence, COUNT_MAX),
    UINT(job, UINT32_MAX),
    UINT(attempt, UINT32_MAX),
    UINT(step, COUNT_MAX),
    UINT(rank, RANK_MAX),
    ENUM(kind, CHECKPOINT_COMMIT, ENUM_REFUSE),
    BOOL(accepted),
    STRING(text, TEXT_SENTENCE),
};
const struct layout layout_checkpoint_answer = LAYOUT(checkpoint_answer, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_peer_ask
#define PROTO Keepstep__PeerAsk
static const struct field peer_ask_fields[] = {
    UINT(nonce, UINT64_MAX),
    STRING(target, TEXT_NAME),
    STRING(address, TEXT_ADDRESS_OPT),
    UINT(port, UINT16_MAX),
    UINT(timeout_ms, WIRE_PEER_TIMEOUT_MS_MAX),
};
const struct layout layout_peer_ask = LAYOUT(peer_ask, check_peer_ask);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_log_read
#define PROTO Keepstep__LogRead
static const struct field log_read_fields[] = {
    UINT(nonce, UINT64_MAX),   UINT(job, UINT32_MAX), STRING(job_name, TEXT_NAME_OPT),
    UINT(attempt, UINT32_MAX), UINT(rank, RANK_MAX),  UINT(tail_bytes, WIRE_LOG_TAIL_MAX),
};
const struct layout layout_log_read = LAYOUT(log_read, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_snapshot_ask
#define PROTO Keepstep__SnapshotAsk
static const struct field snapshot_ask_fields[] = {
    UINT(nonce, UINT64_MAX),
    UINT(job, UINT32_MAX),
    UINT(attempt, UINT32_MAX),
    UINT(round, UINT32_MAX),
};
const struct layout layout_snapshot_ask = LAYOUT(snapshot_ask, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct known_peer
#define PROTO Keepstep__KnownPeer
static const struct field known_peer_fields[] = {
    STRING(name, TEXT_NAME),
    STRING(address, TEXT_ADDRESS_OPT),
    UINT(port, UINT16_MAX),
};
static const struct layout layout_known_peer = LAYOUT(known_peer, check_known_peer);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_peers
#define PROTO Keepstep__Peers
static const struct field peers_fields[] = {
    MANY(peers, peer_count, known_peer),
};
const struct layout layout_peers = LAYOUT(peers, NULL);
#undef PLAIN
#undef PROTO

/* ---- agent to agent
 * ------------------------------------------------------------------------------ */

#define PLAIN struct msg_peer_question
#define PROTO Keepstep__PeerQuestion
static const struct field peer_question_fields[] = {
    UINT(nonce, UINT64_MAX),
    STRING(asker, TEXT_NAME),
};
const struct layout layout_peer_question = LAYOUT(peer_question, NULL);
#undef PLAIN
#undef PROTO

#define PLAIN struct msg_peer_reply
#define PROTO Keepstep__PeerReply
static const struct field peer_reply_fields[] = {
    UINT(nonce, UINT64_MAX),
    STRING(node, TEXT_NAME),
    UINT(incarnation, COUNT_MAX),
    BOOL(controller_up),
};
const struct layout layout_peer_reply = LAYOUT(peer_reply, NULL);
#undef PLAIN
#undef PROTO
