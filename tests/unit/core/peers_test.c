/* peers_test.c: whom an agent is told to ask when it is cut off. */
#include "tests/lib/test.h"

#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

static uint32_t index_of(const struct rig *rig, const char *name)
{
    for (uint32_t i = 0; i < rig->node_count; i++) {
        if (text_equal(rig->nodes[i].name, name)) {
            return i;
        }
    }
    fail_msg("a peer that does not exist: %s", name);
    return 0;
}

/* Other nodes, each once, and those of other racks before those of its own. */
static void check_list(const struct rig *rig, const struct rig_node *node, uint32_t count)
{
    assert_int_equal(node->peers.peer_count, count);
    bool own_rack = false;
    for (uint32_t i = 0; i < count; i++) {
        const struct known_peer *peer = &node->peers.peers[i];
        const struct rig_node *other = &rig->nodes[index_of(rig, peer->name)];
        const bool same = text_equal(other->rack, node->rack);
        assert_ptr_not_equal(other, node);
        assert_true(peer->port != 0 && peer->address[0] != '\0');
        assert_true(same || !own_rack);
        own_rack = own_rack || same;
        for (uint32_t k = 0; k < i; k++) {
            assert_string_not_equal(node->peers.peers[k].name, peer->name);
        }
    }
}

static void test_all_of_a_small_cluster(void **state)
{
    (void)state;
    struct rig *rig = rig_create(6, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", 2);
    const uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 10000));
    check_list(rig, &rig->nodes[rig_node_of(rig, job, 0)], 5); /* also the one that came first */
    check_list(rig, &rig->nodes[rig_node_of(rig, job, 1)], 5);
    rig_free(rig);
}

static void test_a_large_cluster_is_spread_over(void **state)
{
    (void)state;
    struct rig *rig = rig_create(64, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", 32);
    const uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 10000));
    for (uint32_t slot = 0; slot < 32; slot++) {
        const struct rig_node *node = &rig->nodes[rig_node_of(rig, job, slot)];
        check_list(rig, node, PEERS_KNOWN_MAX);
        for (uint32_t i = 0; i < PEERS_KNOWN_MAX; i++) {
            const struct rig_node *peer = &rig->nodes[index_of(rig, node->peers.peers[i].name)];
            assert_string_not_equal(peer->rack, node->rack);
            for (uint32_t k = 0; k < i; k++) {
                const uint32_t other = index_of(rig, node->peers.peers[k].name);
                assert_string_not_equal(peer->rack, rig->nodes[other].rack);
            }
        }
    }
    rig_free(rig);
}

/* The first agent that is back after a restart of the controller hears what it heard before, and
 * hears it once in a session. */
static void test_a_restart_forgets_nobody(void **state)
{
    (void)state;
    struct rig *rig = rig_create(6, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", 2);
    const uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 10000));
    const uint32_t first = rig_node_of(rig, job, 0);
    rig_restart(rig, 500);
    rig->nodes[first].peers = (struct msg_peers){0};
    const uint32_t heard = rig->nodes[first].peers_heard;
    rig_connect(rig, first);
    check_list(rig, &rig->nodes[first], 5);
    for (uint32_t i = 0; i < rig->node_count; i++) {
        if (i != first) {
            rig_connect(rig, i);
        }
    }
    rig_run(rig, 30000);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    assert_int_equal(rig->nodes[first].peers_heard, heard + 1);
    rig_free(rig);
}

static void test_who_is_lost_is_not_named(void **state)
{
    (void)state;
    struct rig *rig = rig_create(6, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", 2);
    const uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 10000));
    const uint32_t lost = rig_node_of(rig, job, 1);
    rig_kill_node(rig, lost, RIG_PEER_NOTHING);
    rig_run(rig, 15000);
    assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
    const struct rig_node *node = &rig->nodes[rig_node_of(rig, job, 1)];
    check_list(rig, node, 4);
    for (uint32_t i = 0; i < node->peers.peer_count; i++) {
        assert_string_not_equal(node->peers.peers[i].name, rig->nodes[lost].name);
    }
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_of_a_small_cluster),
        cmocka_unit_test(test_a_large_cluster_is_spread_over),
        cmocka_unit_test(test_a_restart_forgets_nobody),
        cmocka_unit_test(test_who_is_lost_is_not_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
