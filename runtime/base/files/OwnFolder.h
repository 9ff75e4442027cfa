/// A folder of files that the program names, writes and reads again: a cache.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/base/files/File.h"

#include <string>

namespace cria {

/// Whoever can write into such a folder chooses what is read from it. So the
/// folder and its files must belong to the effective user, nobody else may
/// write to them, and they are no symbolic links; otherwise they are
/// PERMISSION_DENIED. A file is found in the folder that was checked, whatever
/// has the folder's name by then. Write files by
/// OutputFile::Named::ByProgram.
class OwnFolder {
public:
  /// Opens `path`. With `make`, a folder that is missing is made, for the user
  /// alone, and so are the folders above it.
  static Result<OwnFolder> open(const std::string &path, bool make);
  OwnFolder(OwnFolder &&other) noexcept;
  OwnFolder &operator=(OwnFolder &&) = delete;
  ~OwnFolder();

  std::string path(const std::string &name) const {
    return folder + "/" + name;
  }
  Result<File> file(const std::string &name) const;

private:
  OwnFolder(int fd, std::string folder) : fd(fd), folder(std::move(folder)) {}

  int fd;
  std::string folder;
};

} // namespace cria
