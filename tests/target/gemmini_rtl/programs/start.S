    .section .text.init
    .globl _start
_start:
    li   t0, 0x1e000        # mstatus: FS and XS dirty
    csrs mstatus, t0
    la   sp, stack_end
    call main
    la   t1, tohost
    li   t0, 1
    fence
    sd   t0, 0(t1)
halt: j  halt
    .section .tohost, "aw", @progbits
    .balign 64
    .globl tohost
tohost: .dword 0, 0
    .balign 64
    .globl results          # [0] cycles [1] instructions [2] output hash
results: .fill 32, 8, 0
    .section .bss
    .balign 4096
    .fill 16384, 1, 0
stack_end:
    .fill 64, 1, 0
    .section .pool, "a", @nobits   # its contents are loaded beside the program
    .balign 4096
    .globl pool_A, pool_B, pool_D
pool_A: .fill 0x100000
pool_B: .fill 0x40000
pool_D: .fill 0x10000
