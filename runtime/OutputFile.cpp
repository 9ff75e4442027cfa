#include "runtime/OutputFile.h"

#include "runtime/File.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace cria {

/// A device, pipe or socket is written as it is: it cannot be replaced.
static bool isSpecial(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) &&
         !S_ISDIR(info.st_mode);
}

Result<OutputFile> OutputFile::create(const std::string &name) {
  if (isSpecial(name)) {
    int fd = open(name.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0)
      return errnoStatus(name, "cannot open", errno);
    return OutputFile(name, "", fd);
  }
  std::error_code none; // a link stays, what it points to is replaced
  std::string path = std::filesystem::weakly_canonical(name, none).string();
  if (none)
    path = name;
  std::string partial = path + ".XXXXXX";
  int fd = mkostemp(partial.data(), O_CLOEXEC);
  if (fd < 0)
    return errnoStatus(name, "cannot create", errno);
  mode_t mask = umask(0); // mkostemp's file is for its owner only
  umask(mask);
  fchmod(fd, 0666 & ~mask);
  return OutputFile(path, std::move(partial), fd);
}

OutputFile::OutputFile(std::string path, std::string partial, int fd)
    : path(std::move(path)), partial(std::move(partial)), fd(fd) {}

OutputFile::OutputFile(OutputFile &&other) noexcept
    : path(std::move(other.path)), partial(std::move(other.partial)),
      fd(std::exchange(other.fd, -1)) {}

OutputFile::~OutputFile() {
  if (fd < 0)
    return;
  close(fd);
  if (!partial.empty())
    unlink(partial.c_str());
}

Status OutputFile::write(const void *data, size_t size) {
  const char *bytes = static_cast<const char *>(data);
  while (size > 0) {
    ssize_t written = ::write(fd, bytes, size);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return errnoStatus(path, "cannot write", errno);
    bytes += written;
    size -= static_cast<size_t>(written);
  }
  return Status();
}

Status OutputFile::commit() {
  if (partial.empty())
    return Status();
  if (fsync(fd) != 0 && errno != EINVAL && errno != EROFS)
    return errnoStatus(path, "cannot write", errno);
  if (rename(partial.c_str(), path.c_str()) != 0)
    return errnoStatus(path, "cannot rename to it", errno);
  close(std::exchange(fd, -1));
  return Status();
}

} // namespace cria
