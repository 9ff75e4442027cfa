#include "runtime/weights/cache/WeightCache.h"

#include "runtime/Abi.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/Json.h"
#include "runtime/base/files/OutputFile.h"
#include "runtime/base/files/OwnFolder.h"
#include "runtime/base/threads/Cores.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <sys/stat.h>

namespace cria {

namespace fs = std::filesystem;

// Changes whenever the layout or the result of quantizing changes.
static constexpr char magic[8] = {'C', 'R', 'I', 'A', 'W', 'G', 'T', '2'};
static constexpr uint64_t pageBytes = 4096;
static constexpr uint64_t alignment = 64;
/// The elements of a weight that share a checksum.
static constexpr uint64_t pieceElements = 1 << 20;
static_assert(pieceElements % mostBlockElements == 0);

namespace {

/// The header of a file.
struct CacheHeader {
  char magic[8];
  uint64_t fileBytes;
  uint64_t identityBytes;
  uint64_t checksum; // of the identity and the fields above
};

/// Elements [begin, end) of a weight.
struct Piece {
  const WeightSpec *weight;
  uint64_t begin, end;
  uint64_t offset; // in the file

  uint64_t bytes() const { return bytesOf(weight->type, end - begin); }
};

/// Finds or makes one file.
class Maker {
public:
  Maker(const std::string &folder, const Checkpoint &checkpoint,
        std::vector<const BoundWeight *> weights, const Progress &progress);

  Result<File> run(std::vector<std::string> &warnings);
  /// Where the blocks of a slot's weight begin in the file.
  uint64_t offset(uint64_t slot) const { return offsets.at(slot); }

private:
  std::string describe() const;
  CacheHeader header() const;
  std::vector<Piece> pieces() const;
  Status check(const File &file) const;
  Result<File> find(const OwnFolder &folder) const;
  Status make(const std::string &path) const;
  Status writeWeight(OutputFile &file, const BoundWeight &bound, uint64_t &done,
                     std::vector<uint64_t> &sums) const;

  const Checkpoint &checkpoint;
  const std::vector<const BoundWeight *> weights;
  const Progress &progress;
  const std::string folder;
  std::string identity, name;
  std::map<uint64_t, uint64_t> offsets; // by slot
  uint64_t sumsBegin = 0, fileBytes = 0;
};

} // namespace

static uint64_t roundUp(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

static uint64_t hash(const std::string &text, uint64_t start) {
  return criaFnv1a64(start, text.data(), text.size());
}

/// The checksum of all of `sums` but the last, which it is.
static uint64_t sumOf(const std::vector<uint64_t> &sums) {
  return criaFnv1a64(CRIA_FNV_OFFSET, sums.data(),
                     (sums.size() - 1) * sizeof(uint64_t));
}

/// Appends the checksums of the pieces of `bytes`.
static void addSums(const std::vector<std::byte> &bytes, uint64_t pieceBytes,
                    std::vector<uint64_t> &sums) {
  size_t before = sums.size();
  uint64_t pieces = (bytes.size() + pieceBytes - 1) / pieceBytes;
  sums.resize(before + pieces);
  onAllCores(static_cast<int64_t>(pieces), [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      uint64_t begin = static_cast<uint64_t>(i) * pieceBytes;
      sums[before + static_cast<size_t>(i)] = checksum(
          bytes.data() + begin, std::min(pieceBytes, bytes.size() - begin));
    }
  });
}

Maker::Maker(const std::string &folder, const Checkpoint &checkpoint,
             std::vector<const BoundWeight *> all, const Progress &progress)
    : checkpoint(checkpoint), weights(std::move(all)), progress(progress),
      folder(folder), identity(describe()) {
  char text[64];
  snprintf(text, sizeof(text), "%016llx%016llx.weights",
           static_cast<unsigned long long>(hash(identity, CRIA_FNV_OFFSET)),
           static_cast<unsigned long long>(
               hash(identity, ~CRIA_FNV_OFFSET * (identity.size() | 1))));
  name = text;
  fileBytes = roundUp(sizeof(CacheHeader) + identity.size(), pageBytes);
  for (const BoundWeight *bound : weights) {
    offsets[bound->slot] = fileBytes;
    fileBytes += roundUp(bound->weight->bytes(), alignment);
  }
  sumsBegin = fileBytes;
  fileBytes += (pieces().size() + 1) * sizeof(uint64_t);
}

/// All pieces, in the order of the file.
std::vector<Piece> Maker::pieces() const {
  std::vector<Piece> all;
  for (const BoundWeight *bound : weights) {
    const WeightSpec &weight = *bound->weight;
    uint64_t offset = offsets.at(bound->slot);
    for (uint64_t begin = 0; begin < weight.elements(); begin += pieceElements)
      all.push_back({&weight, begin,
                     std::min(begin + pieceElements, weight.elements()),
                     offset + bytesOf(weight.type, begin)});
  }
  return all;
}

static std::string timeText(const timespec &time) {
  return concat({time.tv_sec, ".", time.tv_nsec});
}

/// A text that tells a file from others without reading its tensors.
static std::string describeFile(const TensorFile &file) {
  struct stat info = {};
  fstat(file.file.descriptor(), &info);
  uint64_t sum = CRIA_FNV_OFFSET;
  for (const TensorEntry &tensor : file.tensors)
    sum = hash(concat({tensor.name, " ", tensor.typeName, " ",
                       shapeText(tensor.shape), " ", tensor.begin, "\n"}),
               sum);
  std::error_code error;
  fs::path full = fs::canonical(file.file.path(), error);
  return concat({quote(error ? file.file.path() : full.string()), " ",
                 file.file.size(), " ", timeText(info.st_mtim), " ",
                 timeText(info.st_ctim), " ", sum, "\n"});
}

std::string Maker::describe() const {
  std::string text;
  for (const TensorFile &file : checkpoint.files())
    text += describeFile(file);
  uint64_t choices = 0; // between shards that have the same tensors
  for (const auto &[name, place] : checkpoint.tensors())
    choices +=
        criaFnv1a64(CRIA_FNV_OFFSET + place.file, name.data(), name.size());
  text += concat({choices, "\n"});
  for (const BoundWeight *bound : weights)
    text +=
        concat({quote(bound->tensors[0]->tensor->name), " ",
                bound->weight->rows.first, " ", bound->weight->columns.first,
                " ", shapeText(bound->weight->shape), " ",
                dtypeName(bound->weight->type), " ", bound->reading, "\n"});
  return text;
}

CacheHeader Maker::header() const {
  CacheHeader header = {};
  memcpy(header.magic, magic, sizeof(magic));
  header.fileBytes = fileBytes;
  header.identityBytes = identity.size();
  uint64_t sum =
      criaFnv1a64(CRIA_FNV_OFFSET, &header, offsetof(CacheHeader, checksum));
  header.checksum = hash(identity, sum);
  return header;
}

/// Reads the blocks and compares their checksums, on all cores.
Status Maker::check(const File &file) const {
  std::vector<Piece> all = pieces();
  std::vector<uint64_t> sums(all.size() + 1);
  Status status =
      file.read(sumsBegin, sums.data(), sums.size() * sizeof(uint64_t));
  if (!status.ok())
    return status;
  auto damaged = [&](const std::string &what) {
    return Status(CRIA_DATA_LOSS, {file.path(), ": ", what, " damaged"});
  };
  if (sums.back() != sumOf(sums))
    return damaged("its checksums are");
  return tryOnAllCores(
      static_cast<int64_t>(all.size()), [&](int64_t from, int64_t to) {
        std::vector<std::byte> bytes;
        for (size_t i = from; i < static_cast<size_t>(to); ++i) {
          bytes.resize(all[i].bytes());
          Status read = file.read(all[i].offset, bytes.data(), bytes.size());
          if (!read.ok())
            return read;
          if (checksum(bytes.data(), bytes.size()) != sums[i])
            return damaged(quote(all[i].weight->pattern) + " is");
        }
        return Status();
      });
}

/// Opens the file if it is the one that would be made. NOT_FOUND if there is
/// none, else an error that says what is wrong with the file.
Result<File> Maker::find(const OwnFolder &own) const {
  Result<File> file = own.file(name);
  if (!file.ok())
    return file;
  auto refuse = [&](const char *why) {
    return Status(CRIA_DATA_LOSS, {file->path(), ": ", why});
  };
  CacheHeader found = {}, expected = header();
  if (file->size() < sizeof(found))
    return refuse("is not a file of weights");
  if (Status status = file->read(0, &found, sizeof(found)); !status.ok())
    return status;
  if (memcmp(found.magic, magic, sizeof(magic)) != 0)
    return refuse("is not a file of weights of this version");
  if (file->size() != fileBytes)
    return refuse("is cut, or of other weights");
  if (memcmp(&found, &expected, sizeof(found)) != 0)
    return refuse("is damaged, or of other weights");
  std::string text(identity.size(), '\0');
  if (Status status = file->read(sizeof(found), text.data(), text.size());
      !status.ok())
    return status;
  if (text != identity)
    return refuse("is damaged, or of other weights");
  if (Status status = check(*file); !status.ok())
    return status;
  return file;
}

/// Quantizes elements [begin, end) of a weight on all cores.
static Status quantize(const BoundWeight &bound, std::byte *to, uint64_t begin,
                       uint64_t end) {
  uint64_t units = (end - begin + mostBlockElements - 1) / mostBlockElements;
  auto read = [&](int64_t from, int64_t last) {
    uint64_t first = begin + static_cast<uint64_t>(from) * mostBlockElements;
    uint64_t stop = begin + static_cast<uint64_t>(last) * mostBlockElements;
    return bound.write(to + bytesOf(bound.weight->type, first - begin), first,
                       std::min(stop, end));
  };
  return tryOnAllCores(static_cast<int64_t>(units), read);
}

/// Appends the blocks of one weight, a stretch at a time.
Status Maker::writeWeight(OutputFile &file, const BoundWeight &bound,
                          uint64_t &done, std::vector<uint64_t> &sums) const {
  static constexpr uint64_t most = 64 * pieceElements;
  const WeightSpec &weight = *bound.weight;
  std::vector<std::byte> stretch;
  for (uint64_t begin = 0, end; begin < weight.elements(); begin = end) {
    end = std::min(begin + most, weight.elements());
    stretch.resize(bytesOf(weight.type, end - begin));
    Status status = quantize(bound, stretch.data(), begin, end);
    if (!status.ok())
      return status;
    if (!file.write(stretch.data(), stretch.size()))
      return statusOf(file);
    addSums(stretch, bytesOf(weight.type, pieceElements), sums);
    done += stretch.size();
    if (progress)
      progress(std::min(done, fileBytes), fileBytes);
  }
  uint64_t rest = roundUp(weight.bytes(), alignment) - weight.bytes();
  done += rest;
  char zeros[alignment] = {};
  file.write(zeros, rest);
  return statusOf(file);
}

Status Maker::make(const std::string &path) const {
  OutputFile file(path, OutputFile::Named::ByProgram);
  CacheHeader fields = header();
  std::string front(reinterpret_cast<const char *>(&fields), sizeof(fields));
  front += identity;
  front.resize(roundUp(front.size(), pageBytes));
  file.write(front.data(), front.size());
  uint64_t done = front.size();
  std::vector<uint64_t> sums;
  for (const BoundWeight *bound : weights)
    if (Status status = writeWeight(file, *bound, done, sums); !status.ok())
      return status;
  sums.push_back(0);
  sums.back() = sumOf(sums);
  file.write(sums.data(), sums.size() * sizeof(uint64_t));
  file.commit();
  return statusOf(file);
}

Result<File> Maker::run(std::vector<std::string> &warnings) {
  // The user may name the folder by a link.
  std::error_code ignored;
  std::string real = fs::weakly_canonical(folder, ignored);
  Result<OwnFolder> own =
      OwnFolder::open(real.empty() ? folder : real, /*make=*/true);
  if (!own.ok())
    return own.status();
  Result<File> file = find(*own);
  if (!file.ok()) {
    if (file.status().code() != CRIA_NOT_FOUND)
      warnings.push_back(file.status().message() + "; a new file replaces it");
    if (Status status = make(own->path(name)); !status.ok())
      return status;
    file = find(*own);
  }
  return file;
}

std::unique_ptr<const File> keepQuantized(const std::string &folder,
                                          const Checkpoint &checkpoint,
                                          bool changed, Binding &binding,
                                          const Progress &progress) {
  std::vector<const BoundWeight *> weights;
  for (const BoundWeight &bound : binding.weights)
    if (!bound.inPlace() && isBlocked(bound.weight->type))
      weights.push_back(&bound);
  if (folder.empty() || weights.empty())
    return nullptr;
  if (changed) {
    binding.warnings.push_back("the cache of weights is not used: adapters are "
                               "merged into them");
    return nullptr;
  }
  Maker maker(folder, checkpoint, weights, progress);
  Result<File> made = maker.run(binding.warnings);
  if (!made.ok()) {
    binding.warnings.push_back("the cache of weights is not used: " +
                               made.status().message());
    return nullptr;
  }
  auto file = std::make_unique<const File>(std::move(*made));
  for (BoundWeight &bound : binding.weights)
    if (!bound.inPlace() && isBlocked(bound.weight->type))
      bound.elements =
          stored(*file, maker.offset(bound.slot), bound.weight->type);
  return file;
}

} // namespace cria
