/* A table of fake NCCL functions for devices of the fake driver: they say in a log for each
 * device what they were asked, move nothing, and making, splitting and finalizing communicators
 * waits for all ranks, as the real ones do. */
#ifndef GXC_TESTS_UNIT_SHARED_FAKE_NCCL_H
#define GXC_TESTS_UNIT_SHARED_FAKE_NCCL_H

#include "runtime/library/library.h"

enum { FAKE_RANKS = 4 };

extern const NcclApi fake_nccl;

extern int fake_nccl_version;                /* 22707 */
extern char fake_nccl_log[FAKE_RANKS][2048]; /* by device */
extern int fake_nccl_groups[FAKE_RANKS];     /* that were ended, by device */
extern int fake_nccl_failing;                /* all-reduces fail on this device; -1 */
extern int fake_nccl_broken;        /* communicators of this rank are broken; -1 */
extern void (*fake_on_abort)(void); /* called before each abort; NULL: nothing */
extern bool fake_nccl_talks;        /* of a communicator: its rank, as its last error */
extern int fake_comms;       /* that are open, memory and registrations that are held */
extern int fake_nccl_lonely; /* that were closed before all ranks had finalized them */
extern int fake_nccl_apart;  /* that were open when one of another family was aborted */

#endif
