/* version.h: the version that every program prints and every hello carries. */
#ifndef KEEPSTEP_BASE_VERSION_H
#define KEEPSTEP_BASE_VERSION_H

#define KEEPSTEP_VERSION "0.1.0"

#endif
