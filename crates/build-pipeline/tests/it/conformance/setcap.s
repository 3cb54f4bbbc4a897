# Gives /cap the capability to bind low ports: setxattr(2), then exit(2) with the error, 0 for none.
# The value is a `vfs_cap_data` of <linux/capability.h>.

        .globl  _start
_start: mov     $188, %eax
        lea     path(%rip), %rdi
        lea     name(%rip), %rsi
        lea     value(%rip), %rdx
        mov     $20, %r10d
        xor     %r8d, %r8d
        syscall
        neg     %eax
        mov     %eax, %edi
        mov     $60, %eax
        syscall

path:   .asciz  "/cap"
name:   .asciz  "security.capability"
# VFS_CAP_REVISION_2 with VFS_CAP_FLAGS_EFFECTIVE; CAP_NET_BIND_SERVICE is permitted.
value:  .long   0x02000001, 1 << 10, 0, 0, 0
