#include "lowering/artifact/Link.h"

#include "runtime/Abi.h"

#include "lld/Common/Driver.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/raw_ostream.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

namespace {
/// Two file descriptors that lld opens by path: a file in memory for its input,
/// and the end of a pipe for its output, since lld replaces regular files.
struct Descriptors {
  int object = -1, pipe[2] = {-1, -1};

  bool open() {
    object = memfd_create("cria.o", MFD_CLOEXEC);
    return object >= 0 && ::pipe2(pipe, O_CLOEXEC) == 0;
  }
  void close(int &fd) {
    if (fd >= 0)
      ::close(fd);
    fd = -1;
  }
  ~Descriptors() {
    for (int *fd : {&object, &pipe[0], &pipe[1]})
      close(*fd);
  }
};
} // namespace

static std::string path(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

static bool writeAll(int fd, llvm::ArrayRef<char> bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    bytes = bytes.drop_front(count);
  }
  return true;
}

static void readAll(int fd, llvm::SmallVectorImpl<char> &bytes) {
  char buffer[1 << 16];
  while (true) {
    ssize_t count = ::read(fd, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return;
    bytes.append(buffer, buffer + count);
  }
}

llvm::Expected<llvm::SmallVector<char, 0>>
cria::linkSharedObject(llvm::ArrayRef<char> object) {
  Descriptors files;
  if (!files.open() || !writeAll(files.object, object)) {
    std::error_code code = llvm::errnoAsErrorCode();
    return llvm::createStringError(code, "cannot keep the object in memory: " +
                                             code.message());
  }
  std::string from = path(files.object), to = path(files.pipe[1]), messages;
  llvm::raw_string_ostream log(messages);
  const char *args[] = {"ld.lld",
                        "-shared",
                        "-o",
                        to.c_str(),
                        from.c_str(),
                        "--threads=1",
                        "-z",
                        "now",
                        "-z",
                        "noexecstack",
                        "--hash-style=gnu",
                        "--build-id=sha1", // by which perf finds symbols
                        "--soname=" CRIA_SONAME};
  llvm::SmallVector<char, 0> bytes;
  std::thread reader([&] { readAll(files.pipe[0], bytes); });
  lld::Result result =
      lld::lldMain(args, log, log, {{lld::Gnu, &lld::elf::link}});
  files.close(files.pipe[1]);
  reader.join();
  if (result.retCode != 0)
    return llvm::createStringError("linking failed: " + messages);
  return bytes;
}
