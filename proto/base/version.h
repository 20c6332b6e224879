/* version.h: the version of this tree, shown by every program. Controller and agents may differ by
 * one minor version either way. */
#ifndef KEEPSTEP_BASE_VERSION_H
#define KEEPSTEP_BASE_VERSION_H

#define KEEPSTEP_VERSION "0.1.0"

#endif
