#include "runtime/base/files/OutputFile.h"

#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace cria {

namespace fs = std::filesystem;

std::string OutputError::message() const {
  char buffer[128];
  // The GNU variant returns the text, which may lie outside of the buffer.
  const char *text = strerror_r(code, buffer, sizeof(buffer));
  return name + ": " + what + ": " + text;
}

/// The descriptor of this process that `path` names, or -1.
static int namedDescriptor(const std::string &path) {
  for (std::string folder : {"/proc/self/fd/", "/dev/fd/"}) {
    int number = -1;
    const char *end = path.data() + path.size();
    if (path.compare(0, folder.size(), folder) == 0 &&
        std::from_chars(path.data() + folder.size(), end, number).ptr == end)
      return number;
  }
  return path == "-" ? STDOUT_FILENO : -1;
}

/// Where the symbolic link `path` leads, or `path` itself. Stops at the name of
/// a descriptor: its own target may be no name at all ("pipe:[7]").
static std::string followLinks(std::string path) {
  std::error_code none;
  for (int links = 0; links < 40 && namedDescriptor(path) < 0; ++links) {
    fs::path target = fs::read_symlink(path, none);
    if (none)
      break;
    path = (fs::path(path).parent_path() / target).string();
  }
  return path;
}

static std::string randomName() {
  uint64_t bits = 0;
  while (getrandom(&bits, sizeof(bits), 0) < 0 && errno == EINTR)
    ;
  char name[32];
  snprintf(name, sizeof(name), ".cria-%016" PRIx64, bits);
  return name;
}

/// The path by which linkat() finds an open file that has no name.
static std::string selfPath(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

OutputFile::OutputFile(const std::string &name, Named named) : OutputFile() {
  if (named == Named::ByProgram) {
    problem.name = path = name;
    createAside(0644);
    return;
  }
  problem.name = name == "-" ? "standard output" : name;
  path = followLinks(name);
  open();
}

OutputFile::~OutputFile() {
  if (fd >= 0)
    close(fd);
  if (isNamed)
    unlink(aside.c_str());
}

bool OutputFile::fail(const char *what, int code) {
  if (!failed()) {
    problem.what = what;
    problem.code = code;
  }
  return false;
}

void OutputFile::open() {
  if (int number = namedDescriptor(path); number >= 0) {
    fd = fcntl(number, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
      fail("cannot open", errno);
    return;
  }
  struct stat old = {};
  replaces = stat(path.c_str(), &old) == 0;
  if (!replaces && errno != ENOENT)
    fail("cannot open", errno);
  else if (replaces && S_ISDIR(old.st_mode))
    fail("cannot write", EISDIR);
  else if (replaces && !S_ISREG(old.st_mode)) {
    fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
      fail("cannot open", errno);
  } else if (replaces && faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS))
    fail("cannot write", errno);
  else // a file that replaces another gets its mode before the first byte
    createAside(replaces ? 0600 : 0666);
  if (failed() || !replaces || aside.empty())
    return;
  // A process that may not give files away stays the owner.
  [[maybe_unused]] int kept = fchown(fd, old.st_uid, old.st_gid);
  if (fchmod(fd, old.st_mode & 0777) != 0)
    fail("cannot set the mode", errno);
}

/// Opens a new file in the folder of `path`. The file has no name if the file
/// system supports that and linkat() can name it later; else its name is
/// `aside`.
void OutputFile::createAside(unsigned mode) {
  std::string folder = fs::path(path).parent_path().string();
  if (folder.empty())
    folder = ".";
  aside = folder + "/" + randomName();
  fd = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
  if (fd >= 0 && access(selfPath(fd).c_str(), F_OK) != 0) // no /proc
    close(std::exchange(fd, -1));
  if (fd >= 0)
    return;
  fd = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  isNamed = fd >= 0;
  if (fd < 0)
    fail("cannot create", errno);
}

bool OutputFile::write(const void *data, size_t size) {
  const char *bytes = static_cast<const char *>(data);
  while (size > 0 && !failed()) {
    ssize_t written = ::write(fd, bytes, size);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return fail("cannot write", errno);
    bytes += written;
    size -= static_cast<size_t>(written);
  }
  return !failed();
}

/// Gives the written file the name `path`.
bool OutputFile::takeName() {
  std::string self = selfPath(fd);
  if (!isNamed && !replaces &&
      linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(),
             AT_SYMLINK_FOLLOW) == 0)
    return true;
  // linkat() replaces nothing, rename() does.
  if (!isNamed)
    isNamed = linkat(AT_FDCWD, self.c_str(), AT_FDCWD, aside.c_str(),
                     AT_SYMLINK_FOLLOW) == 0;
  if (!isNamed || rename(aside.c_str(), path.c_str()) != 0)
    return fail("cannot create", errno);
  isNamed = false;
  return true;
}

bool OutputFile::commit() {
  if (failed())
    return false;
  // Some file systems cannot sync.
  if (!aside.empty() && fsync(fd) != 0 && errno != EINVAL)
    return fail("cannot write", errno);
  if (!aside.empty() && !takeName())
    return false;
  if (close(std::exchange(fd, -1)) != 0)
    return fail("cannot write", errno);
  return true;
}

} // namespace cria
