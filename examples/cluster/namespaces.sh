#!/bin/sh
# namespaces.sh COMMAND...: runs a cluster of two simulated machines (network namespaces) with TLS on one Linux machine, as root.
# COMMAND runs on the machine of the scheduler, whose address is in SCHEDULER. The cluster ends when COMMAND ends. Example:
#   namespaces.sh sh -c 'tilewright optimize gemmini:gemm-64x64x64 --budget "24 evaluations" --executor dask://$SCHEDULER'
set -eu
[ $# -gt 0 ] || { echo "usage: namespaces.sh COMMAND...: a cluster lives as long as its command" >&2; exit 2; }
folder=$(mktemp -d)
here=$(dirname "$0")
processes=
finish() {
  for process in $processes; do kill "$process" 2>/dev/null || true; done
  for process in $processes; do wait "$process" 2>/dev/null || true; done
  for n in 1 2; do ip netns del "tilewright$n" 2>/dev/null || true; done
  ip link del tilewright0 2>/dev/null || true
  rm -rf "$folder"
}
trap finish EXIT INT TERM
sh "$here/certificates.sh" "$folder" >/dev/null
. "$folder/environment"
export DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="30 s"
ip link add tilewright0 type bridge
ip addr add 10.77.0.1/24 dev tilewright0
ip link set tilewright0 up
for n in 1 2; do
  ip netns add "tilewright$n"
  ip link add "tw-out$n" type veth peer name "tw-in$n"
  ip link set "tw-out$n" master tilewright0 up
  ip link set "tw-in$n" netns "tilewright$n"
  ip -n "tilewright$n" addr add "10.77.0.1$n/24" dev "tw-in$n"
  ip -n "tilewright$n" link set "tw-in$n" up
  ip -n "tilewright$n" link set lo up
done
export SCHEDULER=10.77.0.1:8786
tilewright cluster scheduler --host 10.77.0.1 >"$folder/scheduler.log" 2>&1 &
processes="$processes $!"
for n in 1 2; do
  ip netns exec "tilewright$n" tilewright cluster worker "$SCHEDULER" --jobs 1 &
  processes="$processes $!"
done
"$@"
