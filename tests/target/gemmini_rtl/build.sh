#!/bin/sh
# Builds every program and micro loop into elf/. The inputs (1.3 MB) are not part of the files:
# whoever runs them loads them at 0x80100000 (see inputs.py).
# Needs riscv64-unknown-elf-gcc 12.2.0 (Debian 12.2.0-14+deb12u1+11+b2): the cycle counts belong to
# its code, so a rebuild with another version is no fixture.
set -eu
cd "$(dirname "$0")/programs"
mkdir -p ../elf
build() {  # PROGRAM OPT OUTPUT [FLAG...]
  program=$1 opt=$2 out=../elf/$3
  shift 3
  riscv64-unknown-elf-gcc -"$opt" -std=gnu99 -march=rv64imafd -mabi=lp64d -mcmodel=medany \
    -ffast-math -fno-common -fno-tree-loop-distribute-patterns -ffreestanding -nostdlib \
    -nostartfiles -static -T link.ld -Wl,--no-warn-rwx-segments -Wl,--no-relax -Wl,-z,max-page-size=64 \
    -I. -I/usr/lib/picolibc/riscv64-unknown-elf/include -DPROGRAM="\"$program\"" "$@" \
    start.S harness.c -o "$out"
  riscv64-unknown-elf-strip --strip-unneeded --keep-symbol=tohost --keep-symbol=results "$out"
}
tail -n +2 ../rtl_cycles.csv | while IFS=, read -r name opt _; do
  build "$name.c" "$opt" "${name}_$opt.elf"
done
tail -n +2 ../micro/micro_cycles.csv | while IFS=, read -r case _; do
  build ../micro/micro.c O2 "micro_$case.elf" "-DM=$case"
done
