/* goodput_quantiles.h: distributions as integer tables, so that a run has no floating point.
 *
 * 1,024 equally likely entries each, in 1/65536; drawn by a uniform index. The generator beside it
 * wrote them; its means are those of the distributions, tails included. */
#ifndef KEEPSTEP_SIM_GOODPUT_QUANTILES_H
#define KEEPSTEP_SIM_GOODPUT_QUANTILES_H

#include <stdint.h>

enum { GOODPUT_QUANTILES = 1024, GOODPUT_ONE = 65536 };

extern const uint32_t goodput_exponential[GOODPUT_QUANTILES];
extern const uint32_t goodput_weibull_07[GOODPUT_QUANTILES];
extern const uint32_t goodput_lemon[GOODPUT_QUANTILES];
extern const uint32_t goodput_repair_hardware[GOODPUT_QUANTILES];
extern const uint32_t goodput_repair_network[GOODPUT_QUANTILES];
extern const uint32_t goodput_repair_facility[GOODPUT_QUANTILES];

#endif
