#include "runtime/cuda/CodeCache.h"

#include "runtime/Abi.h"
#include "runtime/File.h"
#include "runtime/OutputFile.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <vector>

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
  auto variable = [](const char *name) -> std::string {
    const char *value = getenv(name);
    return value ? value : "";
  };
  if (std::string chosen = variable("CRIA_CACHE_DIR"); !chosen.empty())
    return chosen;
  if (std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/cria";
  std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/cria";
}

CodeCache::CodeCache(uint64_t capacity)
    : folder(cacheFolder()), capacity(capacity) {}

std::string CodeCache::path(const CodeKey &key) const {
  return folder + "/" + key.text() + ".cubin";
}

std::optional<std::string> CodeCache::find(const CodeKey &key) const {
  if (folder.empty())
    return std::nullopt;
  Result<std::string> file = readFile(path(key), mostBytes);
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
  utimensat(AT_FDCWD, path(key).c_str(), nullptr, 0); // used now
  return code;
}

void CodeCache::store(const CodeKey &key, std::string_view code) const {
  std::error_code error;
  if (folder.empty() || code.empty() || code.size() > capacity)
    return;
  fs::create_directories(fs::path(folder).parent_path(), error);
  // Whoever writes here chooses code that runs: the user alone.
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return;
  OutputFile file(path(key));
  Header header = {};
  memcpy(header.magic, magic, sizeof(magic));
  header.key = key;
  header.size = code.size();
  header.checksum = criaFnv1a64(CRIA_FNV_OFFSET, code.data(), code.size());
  file.write(&header, sizeof(header));
  file.write(code.data(), code.size());
  if (file.commit())
    prune();
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
