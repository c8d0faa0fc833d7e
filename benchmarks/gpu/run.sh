#!/bin/bash
# Smoke test, correctness and comparison on a GPU machine that has Python 3.12, CUDA 13, nvcc and no
# network. TVM, xgboost and tilewright come in a few files made elsewhere by benchmarks/gpu/pack.py;
# numpy, scipy, ml_dtypes and typing_extensions do not, and have to be there (needs.py checks).
# With torch, cuBLAS and cuDNN are timed beside the best kernels.
#
#   run.sh PART OUT [SECONDS] [ARGUMENTS OF compare.py...]
#
# PART is one file of the pack, such as site.tar.xz.1of2: the machine keeps it, and the call that
# brings the last one goes on. OUT receives smoke.json, correctness.json, measurements/ (a line for
# each candidate), runs.jsonl, table.txt, table.json and log.txt. SECONDS (540 by default) bounds the
# whole call; what OUT holds already is not repeated, so calling again with the same OUT goes on. All
# arms of a workload and seed take turns, a batch each, and once all are through, maybe some calls
# later, their best kernels are timed again side by side: the table is of those times. With MOCK=1
# nothing is measured: the comparison runs on made-up times, says so, and needs no GPU. SITE is where
# the pack is unpacked, PYTHON the interpreter.
set -u -o pipefail

if [ $# -lt 2 ]; then sed -n '2,16p' "$0"; exit 2; fi
part=$1 seconds=${3:-540}
mkdir -p "$2"
out=$(realpath "$2")
shift $(($# < 3 ? $# : 3))
site=${SITE:-/tmp/tilewright-site} python=${PYTHON:-python3}
exec > >(tee -a "$out/log.txt") 2>&1
# At least one second: to timeout, 0 means for ever.
left() { local n=$((seconds - SECONDS)); echo $((n > 0 ? n : 1)); }
SECONDS=0

if [ ! -e "$site/.complete" ]; then
  case "$part" in
    *.[0-9]of[0-9] | *.[0-9]of[0-9][0-9] | *.[0-9][0-9]of[0-9][0-9]) ;;
    *) echo "$part is no part of a pack: expected a name like site.tar.xz.1of2"; exit 2 ;;
  esac
  mkdir -p "$site.parts" "$site"
  cp "$part" "$site.parts/" || exit 1
  count=${part##*of}
  found=$(find "$site.parts" -name "*of$count" | wc -l)
  if [ "$found" -lt "$count" ]; then echo "kept part $found of $count: bring the next"; exit 0; fi
  for n in $(seq "$count"); do cat "$site.parts/"*".${n}of$count"; done |
    "$python" -c 'import sys, tarfile
tarfile.open(fileobj=sys.stdin.buffer, mode="r|xz").extractall(sys.argv[1], **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))' "$site" ||
    { echo "cannot unpack the parts"; exit 1; }
  touch "$site/.complete"
  echo "unpacked after $SECONDS s"
fi

# TVM's CUDA runtime wants libcudart.so.13 and libcuda.so.1.
folders=$("$python" - <<'PYTHON'
import glob, sysconfig
patterns = [
    sysconfig.get_path("purelib") + "/nvidia/*/lib/libcudart.so.13",
    "/usr/local/cuda*/lib64/libcudart.so.13",
    "/usr/local/cuda*/targets/*/lib/libcudart.so.13",
    "/usr/local/nvidia/lib*/libcuda.so.1",
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
]
print(":".join(found[0].rpartition("/")[0] for p in patterns if (found := sorted(glob.glob(p)))))
PYTHON
)
export LD_LIBRARY_PATH="$folders${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}"
export PATH="$PATH:/usr/local/cuda/bin"
# nvcc is there for certain; TVM's default compiler needs one more Python package.
export TVM_CUDA_COMPILE_MODE=${TVM_CUDA_COMPILE_MODE:-nvcc}
cd "$site/gpu" || exit 1
"$python" needs.py || exit 1

if [ -n "${MOCK:-}" ]; then
  limit=$(left)
  timeout "$limit" "$python" compare.py "$out" --mock --target nvidia/h200 \
    --seconds "$((limit - 20))" "$@"
  exit
fi
if [ ! -e "$out/smoke.json" ]; then
  timeout 120 "$python" device_check.py smoke "$out" || { echo "smoke test failed"; exit 1; }
fi
if [ ! -e "$out/correctness.json" ]; then
  # A wrong kernel is a result to keep; the comparison tells its failures apart.
  timeout 200 "$python" device_check.py correctness "$out" --seconds 120
fi
echo "comparison begins after $SECONDS s"
limit=$(left)
timeout "$limit" "$python" compare.py "$out" --seconds "$((limit - 60))" "$@"
