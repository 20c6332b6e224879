/* judge_rules.h: the rules of the judge's table, one function each, for judge.c alone.
 *
 * Each looks at the evidence and returns whether it decides; then it has filled the verdict. One
 * that does not decide leaves the verdict untouched. What each looks at and decides is said in the
 * table. */
#ifndef KEEPSTEP_CONTROLLER_CORE_JUDGE_RULES_H
#define KEEPSTEP_CONTROLLER_CORE_JUDGE_RULES_H

#include "controller/core/judge_evidence.h"
#include "controller/core/judge_signal.h"

typedef bool judge_rule(const struct evidence *evidence, struct judge_verdict *verdict);

/* judge_rules_program.c: what the program says of itself, and what only it can have done. */
judge_rule rule_final_code;
judge_rule rule_invalid_result;
judge_rule rule_launch_error;
judge_rule rule_operation_mismatch;
judge_rule rule_user_fault;
judge_rule rule_rerun;
judge_rule rule_same_value;
judge_rule rule_user_error;
judge_rule rule_restart_code;
judge_rule rule_load_failed;
judge_rule rule_same_step;
judge_rule rule_many_nodes;
judge_rule rule_same_error;

/* judge_rules_node.c: what one node did. */
judge_rule rule_driver_verdict;
judge_rule rule_fabric;
judge_rule rule_same_reading;
judge_rule rule_same_software;
judge_rule rule_fatal_signal;
judge_rule rule_node_lost;
judge_rule rule_device_repeat;
judge_rule rule_other_gpu;
judge_rule rule_launch_refused;
judge_rule rule_wait_root;
judge_rule rule_hash_minority;
judge_rule rule_clean_node;
judge_rule rule_symptom;
judge_rule rule_degraded_node;
judge_rule rule_same_node;
judge_rule rule_first_exit;
judge_rule rule_attempt_signal;
judge_rule rule_hang;
judge_rule rule_slow_node;

/* judge_rules_spread.c: what is around the nodes: power, network, storage, operators, ourselves. */
judge_rule rule_poison;
judge_rule rule_blind_monitor;
judge_rule rule_storage_many;
judge_rule rule_lost_together;
judge_rule rule_leaf;
judge_rule rule_port;
judge_rule rule_network;
judge_rule rule_peers;
judge_rule rule_storage;
judge_rule rule_stop_asked;
judge_rule rule_operator;
judge_rule rule_named_by_peers;
judge_rule rule_told_to_end;
judge_rule rule_clocks;
judge_rule rule_warning;

/* ---- what they share ---------------------------------------------------------------------- */

void decide(struct judge_verdict *verdict, uint8_t owner, uint8_t action, uint8_t lane,
            uint8_t confidence);
/* Two or more nodes are blamed, all with one and the same known label. */
bool shares_label(const struct judge_verdict *verdict, const struct judge_input *in,
                  uint32_t (*label_of)(const void *context, uint32_t node));
/* The job made a step after the fact was told: whatever it says, nothing is broken by it. */
bool steps_after(const struct evidence *evidence, const struct fact *first);
uint8_t judge_owner_of(uint8_t label); /* who is at fault by a label */
uint8_t lane_of(uint8_t advice);       /* the repair that an advice asks for */
uint32_t strength_of(uint8_t advice);  /* of evicting ones: the repair that takes more is more */
/* "code 1" or "signal 9"; 0 is an end that nobody saw. */
void say_code(int32_t code, char *text, size_t size);

#endif
