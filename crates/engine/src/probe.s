# The probe of probe.rs. To build it:
# as probe.s -o probe.o && objcopy -O binary -j .text probe.o probe.bin
.intel_syntax noprefix
.globl _start
_start:
 lea rdi,[rip+ns]
 lea rsi,[rsp-256]
 mov edx,128
 mov eax,89
 syscall
 test eax,eax
 js fail
 mov byte ptr [rsi+rax],10
 lea edx,[rax+1]
 mov edi,1
 mov eax,1
 syscall
 lea rdi,[rip+dev]
 xor esi,esi
 mov eax,2
 syscall
 test eax,eax
 js fail
 mov r12d,eax
again:
 mov edi,r12d
 lea rsi,[rsp-4224]
 mov edx,4096
 xor eax,eax
 syscall
 test eax,eax
 jle done
 mov edx,eax
 mov edi,1
 mov eax,1
 syscall
 jmp again
done:
 xor edi,edi
 jmp end
fail:
 mov edi,1
end:
 mov eax,60
 syscall
ns: .asciz "/proc/self/ns/net"
dev: .asciz "/proc/self/net/dev"
