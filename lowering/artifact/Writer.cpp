#include "lowering/artifact/Writer.h"

#include "runtime/Abi.h"

#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using llvm::Error;

Error cria::appendFooter(llvm::SmallVectorImpl<char> &bytes) {
  llvm::StringRef text(bytes.data(), bytes.size());
  auto file = llvm::object::ELF64LEFile::create(text);
  if (!file)
    return file.takeError();
  auto sections = file->sections();
  if (!sections)
    return sections.takeError();
  CriaFooter footer = {};
  std::memcpy(footer.magic, CRIA_FOOTER_MAGIC, sizeof footer.magic);
  footer.format_version = CRIA_FORMAT_VERSION;
  footer.footer_size = sizeof footer;
  for (const auto &section : *sections) {
    auto name = file->getSectionName(section);
    if (!name)
      return name.takeError();
    if (*name == ".cria.manifest") {
      footer.manifest_offset = section.sh_offset;
      footer.manifest_size = section.sh_size;
    }
  }
  footer.file_size = bytes.size() + sizeof footer;
  const char *raw = reinterpret_cast<const char *>(&footer);
  uint64_t hash = criaFnv1a64(CRIA_FNV_OFFSET, bytes.data(), bytes.size());
  footer.checksum = criaFnv1a64(hash, raw, offsetof(CriaFooter, checksum));
  bytes.append(raw, raw + sizeof footer);
  return Error::success();
}

static Error lastError(llvm::StringRef path) {
  std::error_code code = llvm::errnoAsErrorCode();
  return llvm::createStringError(code, path + ": " + code.message());
}

/// Writes and syncs all of it.
static bool writeAll(int fd, llvm::ArrayRef<char> bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return false;
    bytes = bytes.drop_front(written);
  }
  return ::fsync(fd) == 0;
}

/// An open file that has `name` only once it is whole.
static int createAside(llvm::StringRef folder, std::string &name) {
  int fd = ::open(folder.str().c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (fd >= 0)
    return fd;
  llvm::SmallString<128> path;
  llvm::sys::path::append(path, folder, ".cria-%%%%%%%%");
  if (llvm::sys::fs::createUniqueFile(path, fd, path, llvm::sys::fs::OF_None,
                                      0666))
    return -1;
  name = path.str().str();
  llvm::sys::RemoveFileOnSignal(name);
  return fd;
}

/// Names an unnamed file.
static bool giveName(int fd, llvm::StringRef folder, std::string &name) {
  llvm::SmallString<128> path;
  llvm::sys::path::append(path, folder, ".cria-" + std::to_string(::getpid()));
  name = path.str().str();
  std::string self = "/proc/self/fd/" + std::to_string(fd);
  ::unlink(name.c_str());
  return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(),
                  AT_SYMLINK_FOLLOW) == 0;
}

Error cria::writeAtomically(llvm::StringRef path, llvm::ArrayRef<char> bytes) {
  llvm::StringRef folder = llvm::sys::path::parent_path(path);
  if (folder.empty())
    folder = ".";
  std::string aside;
  int fd = createAside(folder, aside);
  if (fd < 0)
    return lastError(path);
  bool done = writeAll(fd, bytes) &&
              (!aside.empty() || giveName(fd, folder, aside)) &&
              ::rename(aside.c_str(), path.str().c_str()) == 0;
  Error error = done ? Error::success() : lastError(path);
  ::close(fd);
  if (!done && !aside.empty())
    ::unlink(aside.c_str());
  if (!aside.empty())
    llvm::sys::DontRemoveFileOnSignal(aside);
  return error;
}
