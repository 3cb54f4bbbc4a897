// Loads a library as a program would, and prints the bundles that the library registers. It takes
// the place of the HIP runtime.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct wrapper { uint32_t magic, version; const unsigned char *binary; void *unused; };

static uint64_t hash(const unsigned char *bytes, uint64_t size) {
    uint64_t value = 0xcbf29ce484222325;
    for (uint64_t at = 0; at < size; at++) value = (value ^ bytes[at]) * 0x100000001b3;
    return value;
}

static uint64_t number(const unsigned char *at, int size) {
    uint64_t value = 0;
    memcpy(&value, at, size);
    return value;
}

void **__hipRegisterFatBinary(const struct wrapper *wrapper) {
    static void *handle;
    const unsigned char *bundle = wrapper->binary;
    if (memcmp(bundle, "__CLANG_OFFLOAD_BUNDLE__", 24) == 0) {
        const unsigned char *at = bundle + 32;
        for (uint64_t left = number(bundle + 24, 8); left > 0; left--) {
            uint64_t offset = number(at, 8), size = number(at + 8, 8), length = number(at + 16, 8);
            if (size > 0)
                printf("%.*s %lu %016lx page %lu\n", (int)length, at + 24, size,
                       hash(bundle + offset, size), (uintptr_t)(bundle + offset) % 4096);
            at += 24 + length;
        }
    } else if (memcmp(bundle, "CCOB", 4) == 0) {
        printf("compressed %lu\n", number(bundle + 8, 8) > 0);
    } else {
        printf("no bundle\n");
    }
    return &handle;
}

void __hipUnregisterFatBinary(void *handle) {}
int atexit(void (*function)(void)) { return 0; }
void __hipRegisterFunction() {}
void __hipRegisterVar() {}
int __hipPushCallConfiguration() { return 0; }
int __hipPopCallConfiguration() { return 0; }
int hipLaunchKernel() { return 0; }

// Reads every byte of the library that should be readable.
static int read_all(struct dl_phdr_info *info, size_t size, void *name) {
    if (strcmp(info->dlpi_name, name) != 0) return 0;
    uint64_t bytes = 0, sum = 0;
    for (int number = 0; number < info->dlpi_phnum; number++) {
        const ElfW(Phdr) *one = &info->dlpi_phdr[number];
        if (one->p_type != PT_LOAD || !(one->p_flags & PF_R)) continue;
        const volatile unsigned char *start = (void *)(info->dlpi_addr + one->p_vaddr);
        for (uint64_t at = 0; at < one->p_memsz; at++) sum += start[at];
        bytes += one->p_memsz;
    }
    printf("readable %lu\n", bytes);
    return sum == 0;
}

int main(int count, char **arguments) {
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) return printf("%s\n", dlerror()), 1;
    if (dl_iterate_phdr(read_all, arguments[1])) return printf("nothing to read\n"), 2;
    int (*answer)(void) = dlsym(library, "answer");
    if (answer) printf("answer %d\n", answer());
    return 0;
}
