#include "runtime/weights/Safetensors.h"

#include "runtime/Abi.h"
#include "runtime/base/Json.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <unordered_set>

namespace cria {

static constexpr uint64_t maxHeaderBytes = 100'000'000, maxNameBytes = 512;

namespace {

/// An element type of the format.
struct ElementType {
  const char *name;
  uint64_t bits;
  std::optional<DType> type;
};

} // namespace

static const ElementType elementTypes[] = {
    {"F32", 32, DType::F32},        {"F16", 16, DType::F16},
    {"BF16", 16, DType::BF16},      {"F64", 64, DType::F64},
    {"BOOL", 8, std::nullopt},      {"U8", 8, std::nullopt},
    {"I8", 8, std::nullopt},        {"U16", 16, std::nullopt},
    {"I16", 16, std::nullopt},      {"U32", 32, std::nullopt},
    {"I32", 32, std::nullopt},      {"U64", 64, std::nullopt},
    {"I64", 64, std::nullopt},      {"C64", 64, std::nullopt},
    {"F8_E4M3", 8, DType::F8_E4M3}, {"F8_E5M2", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt},   {"F4", 4, std::nullopt},
    {"F6_E2M3", 6, std::nullopt},   {"F6_E3M2", 6, std::nullopt},
};

namespace {

/// The header's text, and where the data begins.
struct Header {
  std::string text; // without the padding
  uint64_t end;
};

} // namespace

static Result<Header> readHeader(const File &file) {
  auto fail = [&](cria_status code, std::string_view what) {
    return Status(code, {file.path(), ": ", what});
  };
  if (file.size() < 8)
    return fail(
        CRIA_INVALID_ARGUMENT,
        concat({"has ", file.size(), " bytes, too few for safetensors"}));
  uint8_t prefix[8];
  Status status = file.read(0, prefix, sizeof(prefix));
  if (!status.ok())
    return status;
  if (memcmp(prefix, "version ", sizeof(prefix)) == 0)
    return fail(CRIA_INVALID_ARGUMENT,
                "is a Git LFS pointer, not the file itself: 'git lfs pull' "
                "brings it");
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | prefix[i];
  if (length == 0 || length > maxHeaderBytes)
    return fail(CRIA_INVALID_ARGUMENT,
                concat({"header length is ", length, ", expected 1 to ",
                        maxHeaderBytes}));
  if (length > file.size() - 8)
    return fail(CRIA_DATA_LOSS, concat({"expected a header of ", length,
                                        " bytes, file has ", file.size() - 8}));
  std::string text(length, '\0');
  status = file.read(8, text.data(), length);
  if (!status.ok())
    return status;
  text.erase(text.find_last_not_of(' ') + 1);
  if (text.empty() || text.front() != '{' || text.back() != '}')
    return fail(CRIA_INVALID_ARGUMENT,
                "header is no JSON object followed by spaces alone");
  return Header{std::move(text), 8 + length};
}

static TensorEntry readEntry(const std::string &name, const JsonCursor &at) {
  TensorEntry tensor;
  tensor.name = name;
  tensor.typeName = at["dtype"].string();
  tensor.shape = at["shape"].sizes(8, 0, INT64_MAX);
  JsonCursor place = at["data_offsets"];
  std::vector<uint64_t> offsets = place.sizes(2, 0, INT64_MAX);
  if (offsets.size() != 2) {
    place.expected("two offsets");
    return tensor;
  }
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  auto type = std::find_if(
      std::begin(elementTypes), std::end(elementTypes),
      [&](const ElementType &known) { return tensor.typeName == known.name; });
  if (type == std::end(elementTypes)) {
    at["dtype"].fail(concat({"is ", quote(tensor.typeName),
                             ", no type of safetensors known here"}),
                     CRIA_UNIMPLEMENTED);
    return tensor;
  }
  tensor.type = type->type;
  std::optional<uint64_t> bytes = packedBytes(tensor.shape, type->bits);
  if (tensor.end < tensor.begin)
    at["data_offsets"].fail("end before they begin");
  else if (!bytes)
    at["shape"].fail(
        concat({"is ", shapeText(tensor.shape), ", which overflows"}));
  else if (*bytes != tensor.end - tensor.begin)
    at["data_offsets"].fail(concat({"span ", tensor.end - tensor.begin,
                                    " bytes, but ", shapeText(tensor.shape),
                                    " of ", tensor.typeName, " has ", *bytes}));
  return tensor;
}

namespace {

/// Makes the tensors of a header one by one, in memory for one.
class EntryReader : public JsonSink {
public:
  explicit EntryReader(const std::string &path) : path(path) {}

  void scalar(nlohmann::json value, const std::string &spelling) override {
    if (value.is_number_float()) // 4.0 is no offset
      value = spelling;
    if (depth == 1)
      finish(std::move(value));
    else if (depth == 2)
      add(std::move(value));
    else if (depth == 3 && isKept && tensor.root()[member].is_array())
      tensor.root()[member].push_back(std::move(value));
  }
  void open(bool object) override {
    auto none = object ? nlohmann::json::object() : nlohmann::json::array();
    if (depth == 1 && !object)
      finish(std::move(none));
    else if (depth == 1)
      tensor = JsonDocument(std::move(none));
    else if (depth >= 2)
      scalar(std::move(none), "");
    ++depth;
  }
  void close() override {
    if (--depth == 1 && !isMetadata)
      finish(std::move(tensor.root()));
  }
  void key(std::string name) override;

  std::vector<TensorEntry> tensors;
  Status failure; // names the file

private:
  void add(nlohmann::json value);
  void finish(nlohmann::json value);

  const std::string &path;
  int depth = 0;
  std::string name, member;
  bool isMetadata = false, isKept = false;
  JsonDocument tensor;
  /// Hashes of the header's keys, and of those of the metadata. A file that is
  /// made to have two alike is refused.
  std::unordered_set<uint64_t> seen;
};

} // namespace

void EntryReader::key(std::string key) {
  static constexpr std::string_view kept[] = {"dtype", "shape", "data_offsets"};
  uint64_t start = depth == 1 ? CRIA_FNV_OFFSET : ~CRIA_FNV_OFFSET;
  bool isNew = true;
  if (depth == 1 || (depth == 2 && isMetadata))
    isNew = seen.insert(criaFnv1a64(start, key.data(), key.size())).second;
  else if (depth == 2)
    isNew = !tensor.root().contains(key);
  if (!isNew)
    status = Status(CRIA_INVALID_ARGUMENT, "duplicate key " + quote(key));
  if (depth == 1 && key.size() > maxNameBytes)
    status =
        Status(CRIA_INVALID_ARGUMENT,
               {"the name of a tensor has ", key.size(),
                " bytes, expected at most ", maxNameBytes, ": ", quote(key)});
  if (depth == 1) {
    isMetadata = key == "__metadata__";
    name = std::move(key);
  } else if (depth == 2) {
    isKept = std::find(std::begin(kept), std::end(kept), key) != std::end(kept);
    member = std::move(key);
  }
}

/// A member of a tensor or of the metadata.
void EntryReader::add(nlohmann::json value) {
  if (isMetadata && !value.is_string()) {
    tensor.root()[member] = std::move(value);
    finish(std::move(tensor.root()));
  } else if (isKept && !isMetadata)
    tensor.root()[member] = std::move(value);
}

/// Reads the value of the header's key `name`.
void EntryReader::finish(nlohmann::json value) {
  if (!failure.ok())
    return;
  JsonDocument held(std::move(value));
  JsonCursor at(held.root(), path, failure, name);
  if (!isMetadata)
    tensors.push_back(readEntry(name, at));
  else if (!at.raw().is_object())
    at.expected("an object");
  else
    at[member].string();
  status = failure;
}

/// Reads every tensor of the header. Offsets still count from the header's end.
static Result<std::vector<TensorEntry>> readEntries(const std::string &text,
                                                    const std::string &path) {
  JsonLimits limits;
  limits.bytes = maxHeaderBytes;
  EntryReader reader(path);
  Status status = parseJson(text, path, limits, reader);
  if (!reader.failure.ok())
    return reader.failure;
  if (!status.ok())
    return status;
  return std::move(reader.tensors);
}

/// Sorts the tensors and checks that they fill [0, `size`) without a gap.
static Status checkLayout(std::vector<TensorEntry> &tensors, uint64_t size,
                          const std::string &path) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorEntry &a, const TensorEntry &b) {
              return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
            });
  uint64_t end = 0;
  const TensorEntry *before = nullptr;
  for (const TensorEntry &tensor : tensors) {
    if (tensor.begin != end)
      return Status(CRIA_INVALID_ARGUMENT,
                    {path, ": tensor ", quote(tensor.name), " begins at ",
                     tensor.begin, ", expected ", end, ", the end of ",
                     before ? quote(before->name) : "the header"});
    end = tensor.end;
    before = &tensor;
  }
  if (end > size)
    return Status(CRIA_DATA_LOSS, {path, ": expected ", end,
                                   " bytes of tensors, file has ", size});
  if (end < size)
    return Status(
        CRIA_INVALID_ARGUMENT,
        {path, ": expected ", end, " bytes of tensors, file has ", size});
  return Status();
}

Result<TensorFile> openSafetensors(const std::string &path) {
  Result<File> file = File::open(path);
  if (!file.ok())
    return file.status();
  Result<Header> header = readHeader(*file);
  if (!header.ok())
    return header.status();
  Result<std::vector<TensorEntry>> tensors = readEntries(header->text, path);
  if (!tensors.ok())
    return tensors.status();
  uint64_t data = header->end;
  Status status = checkLayout(*tensors, file->size() - data, path);
  if (!status.ok())
    return status;
  for (TensorEntry &tensor : *tensors) {
    tensor.begin += data;
    tensor.end += data;
  }
  return TensorFile{std::move(*file), std::move(*tensors)};
}

} // namespace cria
