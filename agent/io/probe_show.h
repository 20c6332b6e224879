/* probe_show.h: `keepstep-agent probe [NAME…] [-o table|json] [--FLAG …]`: each probe once, for people.
 *
 * Runs beside an agent or without one, with the agent's own flags or file; tells nobody. The exit
 * status is that of a check for Nagios: 0 well or nothing to look at, 1 a warning, 2 a failure,
 * 3 it could not be asked so. */
#ifndef KEEPSTEP_AGENT_PROBE_SHOW_H
#define KEEPSTEP_AGENT_PROBE_SHOW_H

#define PROBE_SHOW_WORD "probe"

/* argv[1] is PROBE_SHOW_WORD. */
int probe_show_main(int argc, char **argv);

#endif
