#include "runtime/cuda/CodeCache.h"

#include "runtime/Abi.h"
#include "runtime/Environment.h"
#include "runtime/File.h"
#include "runtime/OutputFile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace cria::cuda {

namespace fs = std::filesystem;

static constexpr char magic[8] = {'C', 'R', 'I', 'A', 'J', 'I', 'T', '1'};
static constexpr uint64_t mostBytes = uint64_t(1) << 30;

namespace {

/// What a file begins with.
struct Header {
  char magic[8];
  CodeKey key;
  uint64_t size;
  uint64_t checksum; // of the code
};

/// A file descriptor that closes itself; -1 for none.
struct Descriptor {
  explicit Descriptor(int fd) : fd(fd) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() {
    if (fd >= 0)
      close(fd);
  }

  const int fd;
};

} // namespace

CodeKey CodeKey::of(std::string_view ptx, int chip, int driverVersion) {
  int32_t target[2] = {chip, driverVersion};
  auto hash = [&](uint64_t start) {
    uint64_t sum = criaFnv1a64(start, target, sizeof(target));
    return criaFnv1a64(sum, ptx.data(), ptx.size());
  };
  // Two sums from different starts, the second with the length in it.
  return {hash(CRIA_FNV_OFFSET), hash(~CRIA_FNV_OFFSET * (ptx.size() | 1))};
}

std::string CodeKey::text() const {
  char digits[33];
  snprintf(digits, sizeof(digits), "%016llx%016llx",
           static_cast<unsigned long long>(high),
           static_cast<unsigned long long>(low));
  return digits;
}

static std::string cacheFolder() {
  if (std::string chosen = environment("CRIA_CACHE_DIR"); !chosen.empty())
    return chosen;
  if (std::string cache = environment("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/cria";
  std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.cache/cria";
}

CodeCache::CodeCache(uint64_t capacity)
    : folder(cacheFolder()), capacity(capacity) {}

std::string CodeCache::path(const CodeKey &key) const {
  return concat({folder, "/", key.text(), ".cubin"});
}

/// NOT_FOUND where there is no such file; PERMISSION_DENIED where somebody else
/// may have written what is open as `fd`.
static Status checkOwner(const Descriptor &file, const std::string &path,
                         struct stat &info) {
  if (file.fd < 0 && errno == ELOOP)
    return Status(CRIA_PERMISSION_DENIED, path + ": is a symbolic link");
  if (file.fd < 0 && errno == ENOTDIR)
    return Status(CRIA_PERMISSION_DENIED,
                  path + ": is no folder, or a symbolic link to one");
  if (file.fd < 0 || fstat(file.fd, &info) != 0)
    return errnoStatus(path, "cannot open", errno);
  if (info.st_uid != geteuid())
    return Status(
        CRIA_PERMISSION_DENIED,
        {path, ": belongs to user ", info.st_uid, ", expected ", geteuid()});
  if (info.st_mode & (S_IWGRP | S_IWOTH))
    return Status(CRIA_PERMISSION_DENIED,
                  path + ": others than its owner may write to it");
  return Status();
}

static Descriptor openFolder(const std::string &folder) {
  return Descriptor(
      open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/// The file of `key`, all of it.
Result<std::string> CodeCache::read(const CodeKey &key) const {
  struct stat info;
  Descriptor at = openFolder(folder);
  Status status = checkOwner(at, folder, info);
  if (!status.ok())
    return status;
  // By the folder that was checked, whatever has its name by now.
  std::string name = fs::path(path(key)).filename();
  Descriptor file(openat(at.fd, name.c_str(),
                         O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  status = checkOwner(file, path(key), info);
  if (!status.ok())
    return status;
  if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) > mostBytes)
    return Status(CRIA_INVALID_ARGUMENT, path(key) + ": is not a file of code");
  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t got = 0;
  while (got < text.size()) {
    ssize_t count = ::read(file.fd, text.data() + got, text.size() - got);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return Status(CRIA_DATA_LOSS, path(key) + ": cannot be read");
    got += static_cast<size_t>(count);
  }
  futimens(file.fd, nullptr); // used now
  return text;
}

std::optional<std::string>
CodeCache::find(const CodeKey &key, std::vector<std::string> &warnings) const {
  if (folder.empty())
    return std::nullopt;
  Result<std::string> file = read(key);
  if (!file.ok() && file.status().code() == CRIA_PERMISSION_DENIED)
    warnings.push_back("the cache of compiled code is not used: " +
                       file.status().message());
  Header header;
  if (!file.ok() || file->size() < sizeof(header))
    return std::nullopt;
  memcpy(&header, file->data(), sizeof(header));
  std::string code = file->substr(sizeof(header));
  if (memcmp(header.magic, magic, sizeof(magic)) != 0 ||
      memcmp(&header.key, &key, sizeof(key)) != 0 ||
      header.size != code.size() ||
      header.checksum != criaFnv1a64(CRIA_FNV_OFFSET, code.data(), code.size()))
    return std::nullopt;
  return code;
}

/// Makes a folder and those above it; for the user alone.
static void makeFolders(const fs::path &folder) {
  if (mkdir(folder.c_str(), 0700) == 0 || errno != ENOENT ||
      !folder.has_parent_path())
    return;
  makeFolders(folder.parent_path());
  mkdir(folder.c_str(), 0700);
}

void CodeCache::store(const CodeKey &key, std::string_view code) const {
  if (folder.empty() || code.empty() || code.size() > capacity)
    return;
  makeFolders(folder);
  struct stat info;
  if (!checkOwner(openFolder(folder), folder, info).ok())
    return;
  // What writes files follows a link; what reads this one does not.
  std::error_code error;
  if (fs::is_symlink(path(key), error))
    fs::remove(path(key), error);
  OutputFile file(path(key));
  Header header = {};
  memcpy(header.magic, magic, sizeof(magic));
  header.key = key;
  header.size = code.size();
  header.checksum = criaFnv1a64(CRIA_FNV_OFFSET, code.data(), code.size());
  file.write(&header, sizeof(header));
  file.write(code.data(), code.size());
  if (file.commit()) {
    chmod(path(key).c_str(), 0600); // whatever the umask
    prune();
  }
}

void CodeCache::prune() const {
  struct Entry {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() != ".cubin")
      continue;
    // Another process may have removed it: then there is nothing to count.
    uint64_t bytes = at->file_size(error);
    fs::file_time_type used = at->last_write_time(error);
    if (!error)
      entries.push_back({used, bytes, at->path()});
    total += error ? 0 : bytes;
    error.clear();
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry &a, const Entry &b) { return a.used < b.used; });
  for (const Entry &entry : entries) {
    if (total <= capacity)
      break;
    fs::remove(entry.path, error);
    total -= entry.bytes;
  }
}

} // namespace cria::cuda
