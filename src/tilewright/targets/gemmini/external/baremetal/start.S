# Entry of a bare-metal program: one hart, floating point and the accelerator switched on, any trap
# ends the program with status 1.
    .section .text.init
    .globl _start
_start:
    csrr t0, mhartid
    bnez t0, park
    la   t0, trap
    csrw mtvec, t0
    li   t0, 0x1e000        # mstatus: FS and XS dirty
    csrs mstatus, t0
    la   sp, stack_end
    call MAIN
    li   t0, 1              # tohost = 1: end with status 0
    j    finish
    .balign 4
trap:
    li   t0, 3              # tohost = 3: end with status 1
finish:
    la   t1, tohost
    fence
    sd   t0, 0(t1)
park:
    j    park

    .section .tohost, "aw", @progbits
    .balign 64
    .globl tohost, fromhost
tohost: .dword 0
    .balign 64
fromhost: .dword 0

    .section .stack, "aw", @nobits
    .balign 4096
    .fill 65536, 1, 0
stack_end:
    .fill 64, 1, 0
