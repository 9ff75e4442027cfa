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
/// File descriptors that lld opens by path: a file in memory for each input,
/// and the end of a pipe for the output. The output cannot be a file in memory
/// because lld replaces regular files.
struct Descriptors {
  std::vector<int> objects;
  int pipe[2] = {-1, -1};

  bool open(llvm::ArrayRef<llvm::SmallVector<char, 0>> contents);
  static void close(int &fd) {
    if (fd >= 0)
      ::close(fd);
    fd = -1;
  }
  ~Descriptors() {
    for (int &fd : objects)
      close(fd);
    close(pipe[0]);
    close(pipe[1]);
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

bool Descriptors::open(llvm::ArrayRef<llvm::SmallVector<char, 0>> contents) {
  for (const llvm::SmallVector<char, 0> &bytes : contents) {
    objects.push_back(memfd_create("cria.o", MFD_CLOEXEC));
    if (objects.back() < 0 || !writeAll(objects.back(), bytes))
      return false;
  }
  return ::pipe2(pipe, O_CLOEXEC) == 0;
}

static llvm::Expected<llvm::SmallVector<char, 0>>
link(llvm::ArrayRef<llvm::SmallVector<char, 0>> objects,
     llvm::ArrayRef<const char *> options) {
  Descriptors files;
  if (!files.open(objects)) {
    std::error_code code = llvm::errnoAsErrorCode();
    return llvm::createStringError(code, "cannot keep the object in memory: " +
                                             code.message());
  }
  std::vector<std::string> paths = {path(files.pipe[1])};
  for (int object : files.objects)
    paths.push_back(path(object));
  std::vector<const char *> args = {"ld.lld", "--threads=1", "-o"};
  for (const std::string &each : paths)
    args.push_back(each.c_str());
  args.insert(args.end(), options.begin(), options.end());
  std::string messages;
  llvm::raw_string_ostream log(messages);
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

llvm::Expected<llvm::SmallVector<char, 0>>
cria::linkSharedObject(llvm::ArrayRef<llvm::SmallVector<char, 0>> objects) {
  return link(objects,
              {"-shared", "-z", "now", "-z", "noexecstack", "--hash-style=gnu",
               "--icf=all",       // merges equal code, as of k_proj and v_proj
               "--build-id=sha1", // perf finds symbols by the build ID
               "--soname=" CRIA_SONAME});
}

llvm::Expected<llvm::SmallVector<char, 0>>
cria::linkRelocatable(llvm::ArrayRef<llvm::SmallVector<char, 0>> objects) {
  return link(objects, {"--relocatable"});
}
