#include "runtime/base/SealedMemory.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <memory>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U // since Linux 6.3
#endif

namespace cria {

static constexpr uint64_t blockBytes = 1 << 16;

SealedMemory::SealedMemory(SealedMemory &&other) noexcept {
  *this = std::move(other);
}

SealedMemory &SealedMemory::operator=(SealedMemory &&other) noexcept {
  std::swap(name, other.name);
  std::swap(descriptor, other.descriptor);
  std::swap(data, other.data);
  std::swap(size, other.size);
  return *this;
}

SealedMemory::~SealedMemory() {
  if (data)
    munmap(data, size);
  if (descriptor >= 0)
    ::close(descriptor);
}

Result<SealedMemory> SealedMemory::copy(const File &file) {
  Result<SealedMemory> memory = create(file.path(), file.size());
  if (!memory.ok())
    return memory;
  auto block = std::make_unique<char[]>(blockBytes);
  Status status;
  for (uint64_t done = 0; status.ok() && done < file.size();) {
    uint64_t count = std::min(blockBytes, file.size() - done);
    status = file.read(done, block.get(), count);
    if (status.ok())
      status = memory->append(block.get(), count);
    done += count;
  }
  if (status.ok())
    status = memory->seal();
  if (!status.ok())
    return status;
  return memory;
}

Result<SealedMemory> SealedMemory::copy(std::string_view bytes,
                                        const std::string &name) {
  Result<SealedMemory> memory = create(name, bytes.size());
  if (!memory.ok())
    return memory;
  Status status = memory->append(bytes.data(), bytes.size());
  if (status.ok())
    status = memory->seal();
  if (!status.ok())
    return status;
  return memory;
}

/// Empty memory that can grow to `size` bytes.
Result<SealedMemory> SealedMemory::create(const std::string &name,
                                          uint64_t size) {
  // The system counts a memfd as a file, and a file that grows beyond this
  // limit ends the process.
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size)
    return Status(CRIA_RESOURCE_EXHAUSTED,
                  {name, ": has ", size,
                   " bytes to copy, the limit on file sizes (ulimit -f) is ",
                   limit.rlim_cur});
  constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int fd = memfd_create("cria", flags | MFD_EXEC);
  if (fd < 0 && errno == EINVAL) // an older kernel; its memfds are executable
    fd = memfd_create("cria", flags);
  if (fd < 0 && errno == EACCES)
    return errnoStatus(name,
                       "cannot make memory for code; set the sysctl "
                       "vm.memfd_noexec to 0 or 1",
                       errno);
  if (fd < 0)
    return errnoStatus(name, "cannot make memory for code (memfd_create)",
                       errno);
  SealedMemory memory;
  memory.descriptor = fd; // closed by `memory` if copying the name throws
  memory.name = name;
  return memory;
}

Status SealedMemory::append(const void *from, uint64_t count) {
  auto *bytes = static_cast<const char *>(from);
  while (count > 0) {
    ssize_t written = ::write(descriptor, bytes, count);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return errnoStatus(name, "cannot be copied to memory", errno);
    bytes += written;
    count -= static_cast<uint64_t>(written);
    size += static_cast<uint64_t>(written);
  }
  return Status();
}

Status SealedMemory::seal() {
  if (fcntl(descriptor, F_ADD_SEALS,
            F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return errnoStatus(name, "its copy in memory cannot be sealed", errno);
  if (size == 0)
    return Status();
  // Private: older kernels treat every shared mapping as one that may be
  // written.
  void *mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (mapped == MAP_FAILED)
    return errnoStatus(name, "its copy in memory cannot be mapped", errno);
  data = mapped;
  return Status();
}

/// The folder of this process in /proc. The number from getpid() would be
/// another process's if /proc belongs to another PID namespace.
static std::string folderInProc() {
  char name[32];
  ssize_t length = readlink("/proc/self", name, sizeof(name));
  if (length <= 0)
    return "";
  return "/proc/" + std::string(name, static_cast<size_t>(length));
}

Result<std::string> SealedMemory::pathForLoader() const {
  void *code =
      mmap(nullptr, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, descriptor, 0);
  if (code == MAP_FAILED)
    return errnoStatus(name,
                       "this system runs no code from memory (memfd); allow it "
                       "to this program",
                       errno);
  munmap(code, size);
  std::string folder = folderInProc();
  std::string path = concat({folder, "/fd/", descriptor});
  struct stat wanted, found;
  if (folder.empty() || fstat(descriptor, &wanted) != 0 ||
      stat(path.c_str(), &found) != 0 || wanted.st_dev != found.st_dev ||
      wanted.st_ino != found.st_ino)
    return Status(CRIA_FAILED_PRECONDITION,
                  name + ": cannot be loaded without /proc; mount it: mount -t "
                         "proc proc /proc");
  return path;
}

} // namespace cria
