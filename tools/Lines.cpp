#include "tools/Lines.h"

#include "runtime/base/files/File.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace cria {

static constexpr size_t maxBytes = 64u << 20;

Result<Lines> Lines::open(const std::string &path) {
  if (path == "-")
    return Lines(STDIN_FILENO, "standard input");
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0)
    return errnoStatus(path, "cannot open", errno);
  return Lines(fd, path);
}

Lines::Lines(Lines &&other) noexcept
    : fd(std::exchange(other.fd, -1)), name(std::move(other.name)),
      buffer(std::move(other.buffer)), at(other.at), number(other.number) {}

Lines::~Lines() {
  if (fd > STDIN_FILENO)
    close(fd);
}

Status Lines::tooLong(const std::string &what) const {
  return Status(CRIA_INVALID_ARGUMENT, name + ": " + what + " than " +
                                           std::to_string(maxBytes) + " bytes");
}

/// Puts more bytes into the empty buffer. False at the end of the file.
Result<bool> Lines::fill() {
  buffer.resize(64 << 10);
  at = 0;
  ssize_t got;
  do
    got = read(fd, buffer.data(), buffer.size());
  while (got < 0 && errno == EINTR);
  buffer.resize(got > 0 ? static_cast<size_t>(got) : 0);
  if (got < 0)
    return errnoStatus(name, "cannot read", errno);
  return got > 0;
}

Result<bool> Lines::next(std::string &line) {
  line.clear();
  for (++number;;) {
    if (at == buffer.size()) {
      Result<bool> more = fill();
      if (!more.ok())
        return more;
      if (!*more)
        return !line.empty();
    }
    size_t end = std::min(buffer.find('\n', at), buffer.size());
    if (line.size() + (end - at) > maxBytes)
      return tooLong("line " + std::to_string(number) + " is longer");
    line.append(buffer, at, end - at);
    bool complete = end < buffer.size();
    at = end + complete;
    if (complete)
      return true;
  }
}

Result<std::string> Lines::rest() {
  std::string text;
  for (;;) {
    if (text.size() + (buffer.size() - at) > maxBytes)
      return tooLong("has more");
    text.append(buffer, at);
    Result<bool> more = fill();
    if (!more.ok())
      return more.status();
    if (!*more)
      return text;
  }
}

} // namespace cria
