#include "runtime/base/files/File.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cria {

static cria_status codeOfErrno(int code) {
  switch (code) {
  case ENOENT:
  case ENOTDIR:
    return CRIA_NOT_FOUND;
  case EACCES:
  case EPERM:
    return CRIA_PERMISSION_DENIED;
  case ENOMEM:
  case EMFILE:
  case ENFILE:
    return CRIA_RESOURCE_EXHAUSTED;
  case EIO:
    return CRIA_DATA_LOSS;
  default:
    return CRIA_INVALID_ARGUMENT;
  }
}

Status errnoStatus(const std::string &path, const std::string &what, int code) {
  char buffer[128];
  // The GNU variant returns the text, which may lie outside of the buffer.
  const char *text = strerror_r(code, buffer, sizeof(buffer));
  return Status(codeOfErrno(code), {path, ": ", what, ": ", text});
}

Status statusOf(const OutputFile &file) {
  const OutputError &error = file.error();
  return file.failed() ? errnoStatus(error.name, error.what, error.code)
                       : Status();
}

File::File(int fd, uint64_t bytes, std::string name)
    : fd(fd), bytes(bytes), name(std::move(name)) {}

File::File(File &&other) noexcept
    : fd(std::exchange(other.fd, -1)), bytes(other.bytes),
      name(std::move(other.name)) {}

File &File::operator=(File &&other) noexcept {
  std::swap(fd, other.fd);
  std::swap(bytes, other.bytes);
  std::swap(name, other.name);
  return *this;
}

File::~File() {
  if (fd >= 0)
    ::close(fd);
}

// With O_NONBLOCK, opening a FIFO returns at once. Regular files ignore the
// flag.
static constexpr int openFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

Result<File> File::open(const std::string &path) {
  int fd = ::open(path.c_str(), openFlags);
  if (fd < 0)
    return errnoStatus(path, "cannot open", errno);
  return checked(fd, path);
}

Result<File> File::openIn(int folder, const std::string &name,
                          const std::string &path) {
  int fd = openat(folder, name.c_str(), openFlags | O_NOFOLLOW);
  if (fd < 0 && errno == ELOOP)
    return Status(CRIA_PERMISSION_DENIED, path + ": is a symbolic link");
  if (fd < 0)
    return errnoStatus(path, "cannot open", errno);
  return checked(fd, path);
}

Result<File> File::of(int descriptor) {
  std::string name = "file descriptor " + std::to_string(descriptor);
  int fd = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (fd < 0)
    return errnoStatus(name, "cannot open", errno);
  return checked(fd, name);
}

/// Takes ownership of `fd`, which must be a regular file.
Result<File> File::checked(int fd, const std::string &path) {
  File file(fd, 0, path);
  struct stat info;
  if (fstat(fd, &info) != 0)
    return errnoStatus(path, "cannot stat", errno);
  if (S_ISDIR(info.st_mode))
    return Status(CRIA_INVALID_ARGUMENT,
                  path + ": is a folder, expected a file");
  if (!S_ISREG(info.st_mode))
    return Status(CRIA_INVALID_ARGUMENT, path + ": is not a regular file");
  file.bytes = static_cast<uint64_t>(info.st_size);
  return file;
}

Status File::read(uint64_t offset, void *data, uint64_t size) const {
  char *to = static_cast<char *>(data);
  while (size > 0) {
    ssize_t got = pread(fd, to, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return errnoStatus(name, "cannot read", errno);
    if (got == 0)
      return Status(CRIA_DATA_LOSS, {name, ": ends at byte ", offset,
                                     ", expected ", size, " more"});
    to += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<uint64_t>(got);
  }
  return Status();
}

Result<std::string> readFile(const std::string &path, uint64_t limit) {
  Result<File> file = File::open(path);
  if (!file.ok())
    return file.status();
  if (file->size() > limit)
    return Status(CRIA_INVALID_ARGUMENT, {path, ": has ", file->size(),
                                          " bytes, expected at most ", limit});
  std::string text(file->size(), '\0');
  Status status = file->read(0, text.data(), text.size());
  if (!status.ok())
    return status;
  return text;
}

} // namespace cria
