#!/bin/sh
# sbatch --nodes 4 slurm.sh: workers on the nodes of one Slurm job, one per core, for a scheduler that runs elsewhere with TLS.
# SCHEDULER is its address, CERTIFICATES the folder that certificates.sh made, on a file system that all nodes see.
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
set -eu
. "$CERTIFICATES/environment"
exec srun tilewright cluster worker "$SCHEDULER"
