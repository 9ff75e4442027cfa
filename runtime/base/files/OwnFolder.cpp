#include "runtime/base/files/OwnFolder.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace cria {

/// PERMISSION_DENIED where somebody else may have written what is open as `fd`.
static Status checkOwner(int fd, const std::string &path) {
  struct stat info;
  if (fstat(fd, &info) != 0)
    return errnoStatus(path, "cannot stat", errno);
  if (info.st_uid != geteuid())
    return Status(
        CRIA_PERMISSION_DENIED,
        {path, ": belongs to user ", info.st_uid, ", expected ", geteuid()});
  if (info.st_mode & (S_IWGRP | S_IWOTH))
    return Status(CRIA_PERMISSION_DENIED,
                  path + ": others than its owner may write to it");
  return Status();
}

static void makeFolders(const std::filesystem::path &folder) {
  if (mkdir(folder.c_str(), 0700) == 0 || errno != ENOENT ||
      !folder.has_parent_path())
    return;
  makeFolders(folder.parent_path());
  mkdir(folder.c_str(), 0700);
}

Result<OwnFolder> OwnFolder::open(const std::string &path, bool make) {
  if (make)
    makeFolders(path);
  int fd =
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
    return Status(CRIA_PERMISSION_DENIED,
                  path + ": is no folder, or a symbolic link to one");
  if (fd < 0)
    return errnoStatus(path, "cannot open", errno);
  OwnFolder own(fd, path);
  if (Status status = checkOwner(fd, path); !status.ok())
    return status;
  return own;
}

OwnFolder::OwnFolder(OwnFolder &&other) noexcept
    : fd(std::exchange(other.fd, -1)), folder(std::move(other.folder)) {}

OwnFolder::~OwnFolder() {
  if (fd >= 0)
    close(fd);
}

Result<File> OwnFolder::file(const std::string &name) const {
  Result<File> file = File::openIn(fd, name, path(name));
  if (!file.ok())
    return file;
  if (Status status = checkOwner(file->descriptor(), path(name)); !status.ok())
    return status;
  return file;
}

} // namespace cria
