// What libstdc++, libgcc and our own code would take from a C library that is newer than the oldest
// one we run on. In portable files alone, where these are local symbols: nobody else sees them.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <link.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

// What is looked for, and where its result goes.
struct Search {
  uintptr_t address;
  dl_find_object* found;
};

// For dl_iterate_phdr: 0 goes on, 1 ends with a result, -1 without one.
int look(dl_phdr_info* object, size_t /*size*/, void* argument) {
  const auto& search = *static_cast<Search*>(argument);
  const ElfW(Phdr)* unwind_tables = nullptr;
  uintptr_t begin = UINTPTR_MAX;
  uintptr_t end = 0;
  bool holds = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    if (part.p_type == PT_LOAD) {
      const uintptr_t from = object->dlpi_addr + part.p_vaddr;
      begin = std::min(begin, from);
      end = std::max(end, from + part.p_memsz);
      holds = holds || (search.address >= from && search.address < from + part.p_memsz);
    } else if (part.p_type == PT_GNU_EH_FRAME) {
      unwind_tables = &part;
    }
  }
  if (!holds) {
    return 0;
  }
  if (unwind_tables == nullptr) {
    return -1;
  }
  search.found->dlfo_flags = 0;
  search.found->dlfo_map_start = reinterpret_cast<void*>(begin);
  search.found->dlfo_map_end = reinterpret_cast<void*>(end);
  search.found->dlfo_link_map = nullptr;
  search.found->dlfo_eh_frame = reinterpret_cast<void*>(object->dlpi_addr + unwind_tables->p_vaddr);
  return 1;
}

}  // namespace

extern "C" {

// glibc 2.32. Envoy has threads.
char __libc_single_threaded = 0;

// glibc 2.36. std::random_device asks for it.
uint32_t arc4random() {
  uint32_t value = 0;
  if (getrandom(&value, sizeof(value), 0) != sizeof(value)) {
    abort();
  }
  return value;
}

// glibc 2.32. Only a text that is made for the occasion is in the buffer: that of a number which is
// no error.
const char* strerrordesc_np(int error) noexcept {
  char made[64];
  const char* const text = strerror_r(error, made, sizeof(made));
  return text == made ? nullptr : text;
}

// glibc 2.35. Before Linux 5.11 it fails with ENOSYS, which its caller expects.
int epoll_pwait2(int fd, epoll_event* events, int size, const timespec* timeout,
                 const sigset_t* signals) {
  return static_cast<int>(syscall(SYS_epoll_pwait2, fd, events, size, timeout, signals, _NSIG / 8));
}

// glibc 2.35: the unwinder's way to the tables of the object that holds an address. This is the
// older way to them.
int _dl_find_object(void* address, dl_find_object* found) {
  Search search{reinterpret_cast<uintptr_t>(address), found};
  return dl_iterate_phdr(look, &search) == 1 ? 0 : -1;
}

}  // extern "C"
