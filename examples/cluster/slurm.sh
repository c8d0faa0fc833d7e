#!/bin/sh
# sbatch --nodes 4 slurm.sh: starts one worker per core on the nodes of a Slurm job, for a scheduler elsewhere, with TLS.
# SCHEDULER is the scheduler's address, CERTIFICATES the folder created by certificates.sh, on a file system shared by all nodes.
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
set -eu
. "$CERTIFICATES/environment"
exec srun tilewright cluster worker "$SCHEDULER"
