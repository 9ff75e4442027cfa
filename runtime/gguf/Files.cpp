#include "runtime/gguf/Files.h"

#include <cstdio>

namespace cria::gguf {

static constexpr char suffix[] = ".gguf";
static constexpr int64_t maxParts = 4096;

bool isGguf(const std::string &path) {
  size_t size = sizeof(suffix) - 1;
  return path.size() >= size &&
         path.compare(path.size() - size, size, suffix) == 0;
}

/// "-00002-of-00003.gguf" for the second part of three.
static std::string partSuffix(int64_t number, int64_t count) {
  char text[64];
  snprintf(text, sizeof(text), "-%05lld-of-%05lld%s",
           static_cast<long long>(number + 1), static_cast<long long>(count),
           suffix);
  return text;
}

static Result<OpenFile> openPart(const std::string &path) {
  Result<File> file = File::open(path);
  if (!file.ok())
    return file.status();
  Result<Header> header = readHeader(*file);
  if (!header.ok())
    return header.status();
  return OpenFile{std::move(*file), std::move(*header)};
}

/// The whole number under `key` in a part, from 0 to `most`; `absent` if the
/// part does not have the key.
static Result<int64_t> number(const OpenFile &part, const std::string &key,
                              int64_t most, int64_t absent) {
  const Value *value = part.header.find(key);
  if (!value)
    return absent;
  std::optional<int64_t> whole = value->integer();
  if (whole && *whole >= 0 && *whole <= most)
    return *whole;
  return Status(CRIA_INVALID_ARGUMENT,
                {part.file.path(), ": '", key, "' is ", value->shown(),
                 ", expected 0 to ", most});
}

/// Checks that `part` says it is number `index` of `count`.
static Status checkPart(const OpenFile &part, int64_t index, int64_t count) {
  Result<int64_t> said = number(part, "split.count", maxParts, 0);
  Result<int64_t> place = number(part, "split.no", maxParts, -1);
  if (!said.ok() || !place.ok())
    return said.ok() ? place.status() : said.status();
  if (*said == count && *place == index)
    return Status();
  return Status(CRIA_INVALID_ARGUMENT,
                {part.file.path(), ": is part ", *place + 1, " of ", *said,
                 ", expected part ", index + 1, " of ", count});
}

/// Checks that the parts together have as many tensors as the first one says.
static Status checkTensors(const std::vector<OpenFile> &parts) {
  int64_t have = 0;
  for (const OpenFile &part : parts)
    have += static_cast<int64_t>(part.header.tensors().size());
  Result<int64_t> said =
      number(parts.front(), "split.tensors.count", INT64_MAX, have);
  if (!said.ok() || *said == have)
    return said.status();
  return Status(CRIA_INVALID_ARGUMENT,
                {parts.front().file.path(), ": 'split.tensors.count' is ",
                 *said, ", the parts have ", have});
}

/// Opens all parts of the set that `given` belongs to.
static Result<std::vector<OpenFile>> openSet(OpenFile given, int64_t count) {
  std::string path = given.file.path();
  Result<int64_t> index = number(given, "split.no", count - 1, 0);
  if (!index.ok())
    return index.status();
  std::string expected = partSuffix(*index, count);
  if (path.size() < expected.size() ||
      path.compare(path.size() - expected.size(), expected.size(), expected))
    return Status(CRIA_INVALID_ARGUMENT,
                  {path, ": is part ", *index + 1, " of ", count,
                   ", expected a name that ends in ", expected});
  std::string stem = path.substr(0, path.size() - expected.size());
  std::vector<OpenFile> parts;
  for (int64_t i = 0; i < count; ++i) {
    Result<OpenFile> part = i == *index ? Result<OpenFile>(std::move(given))
                                        : openPart(stem + partSuffix(i, count));
    if (!part.ok())
      return part.status();
    if (Status status = checkPart(*part, i, count); !status.ok())
      return status;
    parts.push_back(std::move(*part));
  }
  if (Status status = checkTensors(parts); !status.ok())
    return status;
  return parts;
}

Result<std::vector<OpenFile>> openFiles(const std::string &path) {
  Result<OpenFile> part = openPart(path);
  if (!part.ok())
    return part.status();
  Result<int64_t> count = number(*part, "split.count", maxParts, 1);
  if (!count.ok())
    return count.status();
  if (*count > 1)
    return openSet(std::move(*part), *count);
  std::vector<OpenFile> parts;
  parts.push_back(std::move(*part));
  return parts;
}

} // namespace cria::gguf
