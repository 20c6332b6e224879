/* controller_config.h: the controller's own file, /etc/keepstep/controller.yaml, and its defaults.
 *
 * One table of keys says everything: names, types, limits, defaults, one line of explanation.
 * Without a file the defaults apply. Every problem of a file is reported at once. */
#ifndef KEEPSTEP_IO_CONTROLLER_CONFIG_H
#define KEEPSTEP_IO_CONTROLLER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "controller/core/core.h"
#include "proto/base/config.h"
#include "proto/base/err.h"
#include "proto/base/log.h"

enum { CONTROLLER_PATH_SIZE = 512, CONTROLLER_ADDRESS_SIZE = 128 };

struct controller_config {
    char listen_agents[CONTROLLER_ADDRESS_SIZE];
    char listen_rest[CONTROLLER_ADDRESS_SIZE]; /* "" = no TCP */
    char listen_socket[CONTROLLER_PATH_SIZE];  /* "" = none */
    char database[CONTROLLER_PATH_SIZE];
    char key_file[CONTROLLER_PATH_SIZE];      /* "" = no TLS on the agents' port */
    char token_file[CONTROLLER_PATH_SIZE];    /* "" = no writes over TCP */
    char cluster_id[CLUSTER_ID_SIZE];         /* "" = the database's own, or a new one */
    char socket_group[64];                    /* whose members need no token on the socket */
    char fence_program[CONTROLLER_PATH_SIZE]; /* "" = none, as of the next */
    char repair_programs[repair_hook_count][CONTROLLER_PATH_SIZE]; /* by enum repair_hook_word */
    bool insecure;
    bool log_json; /* else as log_init() decides */
    enum log_level log_level;
    struct core_config core;
    struct core_limits limits;
};

/* The table, for `config show`, man pages and samples. */
const struct config_key *controller_config_keys(size_t *ret_count);

/* Fills in what the file says over the defaults. path NULL: the defaults alone. -EINVAL: report has
 * every problem; other errors (the file cannot be read) have their text in err only. */
MUST_CHECK int controller_config_load(const char *path, struct controller_config *ret_config,
                                      struct config_report *report, struct err *err);
/* Rules between keys that flags may have changed since: an agents' address that others can reach
 * needs a key or --insecure. -EINVAL with what to do. */
MUST_CHECK int controller_config_check(const struct controller_config *config, struct err *err);

#endif
