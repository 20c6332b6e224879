/* options.h: how this agent was asked to run: its file, then its flags, which win. */
#ifndef KEEPSTEP_AGENT_OPTIONS_H
#define KEEPSTEP_AGENT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/agent_core.h"
#include "agent/probe/probe.h"
#include "proto/base/err.h"
#include "proto/base/message.h"

enum { OPTIONS_HOST_SIZE = 256, READERS_MAX = 8, VALIDATE_PROGRAMS_MAX = 8 };

struct agent_options {
    char node[NAME_SIZE];
    char controller_host[OPTIONS_HOST_SIZE]; /* name or numeric address */
    uint16_t controller_port;
    char state_dir[PATH_SIZE]; /* on a disk that outlives a reboot */
    char run_dir[PATH_SIZE];   /* on tmpfs */
    char shim[PATH_SIZE];      /* keepstep-ranks */
    char key_file[PATH_SIZE];  /* "" = no TLS */
    char cgroup[PATH_SIZE];    /* parent of the ranks' cgroups; "" = the agent's own; "none" */
    char catalog[PATH_SIZE];   /* the site's own rows; "" = none */
    char peer_address[ADDRESS_SIZE];
    uint16_t peer_port; /* 0: any */
    char address[ADDRESS_SIZE];
    struct labels labels;
    uint32_t leaf_count;
    char leaves[PORTS_MAX][NAME_SIZE];
    uint32_t gpus;
    bool insecure;
    uint64_t fence_after_ms;
    uint32_t peer_count;
    struct known_peer peers[AGENT_PEERS_MAX];
    char readers[READERS_MAX][NAME_SIZE + PATH_SIZE]; /* NAME=/PROGRAM; "" = no more */
    char probes[PROBE_LIST_SIZE]; /* those that run: "all", "none" or names by comma; "" = all */
    struct probe_config probe;
    char validate_programs[VALIDATE_PROGRAMS_MAX][PATH_SIZE]; /* in this order; "" = no more */
    bool crash_before; /* tests: die by SIGKILL at a record of this process, counted from 1 */
    uint64_t crash_at; /* 0: never */
    bool debug;        /* log_level debug, and the core checks itself after each step */
};

enum options_result { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_VERSION };

/* Reads --config's file and the flags, fills in defaults, resolves the node's name and address.
 * -EINVAL with a text of one or more lines in `problems` (given size) for people. */
MUST_CHECK int agent_options_parse(int argc, char **argv, struct agent_options *ret_options,
                                   enum options_result *ret_result, char *problems, size_t size);

/* The same for a tool that talks to no controller: nothing has to be given. */
MUST_CHECK int agent_options_parse_tool(int argc, char **argv, struct agent_options *ret_options,
                                        enum options_result *ret_result, char *problems,
                                        size_t size);
/* "--flag": the next word is its value. */
bool agent_options_takes_value(const char *flag);

/* Writes the usage text. */
void agent_options_help(char *target, size_t size);

/* The site's program that reads checkpoints under this name; NULL = there is none. */
const char *agent_options_reader(const struct agent_options *options, const char *name);

/* An address that only this machine reaches. */
bool agent_options_is_loopback(const char *host);

#endif
