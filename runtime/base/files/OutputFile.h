/// The one way in which the compiler and the runtime write a file. Both compile
/// this file, so it includes only the C and C++ libraries.
#pragma once

#include <cstddef>
#include <string>

namespace cria {

/// Why a file cannot be written.
struct OutputError {
  std::string name;           // as the user gave it
  const char *what = nullptr; // "cannot write"; null if nothing failed
  int code = 0;               // an errno

  /// "model.cria: cannot write: No space left on device"
  std::string message() const;
};

/// A file that is written whole or not at all.
///
/// A regular file is written under no name, or under a random one, in the
/// folder where it will be, and takes its name in commit(). Until then an older
/// file stays as it was; a failure leaves nothing behind. The new file has the
/// mode and, where the system allows, the owner of the one that it replaces. A
/// file without write permission is not replaced. A symbolic link stays: the
/// file that it leads to is written.
///
/// These rules are for names that a user gave. A name that the program made, in
/// a folder of the user's or of its own, leads nowhere else: a link, FIFO or
/// device of that name is replaced like an older file, and nobody but the user
/// may write the new file.
///
/// "-" is standard output. A device, a FIFO, or a name of an open descriptor
/// such as /dev/stdout receives the bytes as they come.
///
/// The first error stays: later calls do nothing, and commit() fails.
///
///   OutputFile file(name);
///   file.write(bytes, size);
///   if (!file.commit())
///     return file.error().message();
class OutputFile {
public:
  enum class Named { ByUser, ByProgram };

  explicit OutputFile(const std::string &name, Named named = Named::ByUser);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  bool write(const void *data, size_t size);
  /// Syncs what was written and gives it its name. Call it once.
  bool commit();

  bool failed() const { return problem.what; }
  const OutputError &error() const { return problem; }

  /// The name that the bytes may have until commit() returns; empty if they go
  /// straight to a device or descriptor. A program that a signal may end must
  /// remove this file then.
  const std::string &temporary() const { return aside; }

private:
  OutputFile() = default;
  void open();
  void createAside(unsigned mode);
  bool takeName();
  bool fail(const char *what, int code);

  std::string path;  // where links lead
  std::string aside; // beside `path`
  int fd = -1;
  bool replaces = false; // there is a file at `path`
  bool isNamed = false;  // there is a file at `aside`
  OutputError problem;
};

} // namespace cria
