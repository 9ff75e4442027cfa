/// Files that may come from anybody: opens only regular files, never blocks,
/// and has the reason in each error.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/base/files/OutputFile.h"

#include <cstdint>
#include <string>

namespace cria {

/// A regular file open for reading; closes itself.
class File {
public:
  /// Opens `path`. A folder, FIFO or device is refused without blocking.
  static Result<File> open(const std::string &path);

  /// Opens `name`, which is no symbolic link, in the folder that is open as
  /// `folder`; errors call it `path`.
  static Result<File> openIn(int folder, const std::string &name,
                             const std::string &path);

  /// The regular file that `descriptor` is open for, which stays open.
  static Result<File> of(int descriptor);

  File(File &&other) noexcept;
  File &operator=(File &&other) noexcept;
  ~File();

  /// Reads the bytes [offset, offset + size) into `data`.
  Status read(uint64_t offset, void *data, uint64_t size) const;

  uint64_t size() const { return bytes; }
  int descriptor() const { return fd; }
  const std::string &path() const { return name; }

private:
  File(int fd, uint64_t bytes, std::string name);
  static Result<File> checked(int fd, const std::string &name);

  int fd;
  uint64_t bytes;
  std::string name;
};

/// The whole file at `path`, which has at most `limit` bytes.
Result<std::string> readFile(const std::string &path, uint64_t limit);

/// "`path`: what: strerror(code)", with the status code that fits.
Status errnoStatus(const std::string &path, const std::string &what, int code);

/// The status of `file`: OK, or its error.
Status statusOf(const OutputFile &file);

} // namespace cria
