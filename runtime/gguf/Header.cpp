/// Nothing that a file says is trusted. Each length is compared with the rest
/// of the file, and with the limits of a header, before memory is allocated.
#include "runtime/gguf/Header.h"

#include "runtime/base/Json.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <tuple>

namespace cria::gguf {

static constexpr uint64_t maxHeaderBytes = 256u << 20, maxKeys = 1 << 16,
                          maxTensors = 1 << 16, maxElements = 8'000'000,
                          maxNameBytes = 256, maxAlignment = 1 << 16,
                          maxDimensions = 4;

/// All types that ggml has had, except those that it has removed.
static const TensorType tensorTypes[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},
    {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},      {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},
    {13, "Q5_K", 256, 176},   {14, "Q6_K", 256, 210},
    {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136},
    {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},
    {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
    {40, "NVFP4", 64, 36},
};

uint64_t TensorInfo::elements() const {
  uint64_t product = 1; // bounded by readHeader
  for (uint64_t size : shape)
    product *= size;
  return product;
}

const Value *Header::find(const std::string &key) const {
  auto found = values.find(key);
  return found == values.end() ? nullptr : &found->second;
}

/// The bytes of a scalar; 0 for strings, arrays and unknown types.
static uint64_t scalarBytes(ValueType type) {
  static constexpr uint64_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  auto number = static_cast<uint32_t>(type);
  return number < std::size(sizes) ? sizes[number] : 0;
}

/// Reads one header from its first byte to its last. After an error, all reads
/// return zeros.
class HeaderReader {
public:
  explicit HeaderReader(const File &file) : file(file) {}
  Result<Header> read();

private:
  /// Bytes of the header.
  struct Span {
    uint64_t begin = 0, size = 0;
  };
  /// A value before the header stops growing.
  struct Entry {
    std::string key;
    ValueType type, element;
    uint64_t count;
    Span payload;
  };

  void fail(std::string_view what, cria_status code = CRIA_INVALID_ARGUMENT) {
    if (status.ok())
      status = Status(code, {file.path(), ": ", what});
  }
  bool has(uint64_t size, std::string_view what);
  template <typename T> T number(std::string_view what);
  Span take(uint64_t size, std::string_view what);
  Span text(std::string_view what);
  std::string name(std::string_view what);
  void readFront();
  void readValue();
  void readArray(Entry &entry, std::string_view what);
  void readTensor();
  void readSize(TensorInfo &tensor, std::string_view what);
  void finishValues();
  void finishTensors();
  uint64_t alignment();

  const File &file;
  Status status;
  std::string bytes;
  uint64_t at = 0;
  uint64_t tensorCount = 0, keyCount = 0;
  std::vector<Entry> entries;
  std::set<std::string> names;
  Header header;
};

/// Reads `size` more bytes from the file. False if there are fewer.
bool HeaderReader::has(uint64_t size, std::string_view what) {
  static constexpr uint64_t step = 1 << 20, reserveFrom = 16 << 20;
  if (!status.ok())
    return false;
  if (size > file.size() - at)
    fail(concat({"ends within ", what, ": expected ", size, " bytes at byte ",
                 at, ", file has ", file.size() - at}),
         CRIA_DATA_LOSS);
  else if (size > maxHeaderBytes - at)
    fail(concat({what, " ends beyond byte ", maxHeaderBytes,
                 ", the most of a header"}));
  if (!status.ok() || at + size <= bytes.size())
    return status.ok();
  uint64_t had = bytes.size(), most = std::min(file.size(), maxHeaderBytes);
  // Memory that is not touched costs nothing, but a copy of a long header does.
  if (at + size > reserveFrom)
    bytes.reserve(most);
  bytes.resize(std::min(std::max({at + size, 2 * had, step}), most));
  status = file.read(had, bytes.data() + had, bytes.size() - had);
  return status.ok();
}

template <typename T> T HeaderReader::number(std::string_view what) {
  T value{};
  if (!has(sizeof(T), what))
    return value;
  memcpy(&value, bytes.data() + at, sizeof(T));
  at += sizeof(T);
  return value;
}

HeaderReader::Span HeaderReader::take(uint64_t size, std::string_view what) {
  if (!has(size, what))
    return {};
  Span span{at, size};
  at += size;
  return span;
}

/// A string, stored after its length.
HeaderReader::Span HeaderReader::text(std::string_view what) {
  auto length = number<uint64_t>(concat({"the length of ", what}));
  return take(length, what);
}

/// A name: a few printable bytes.
std::string HeaderReader::name(std::string_view what) {
  Span span = text(what);
  if (status.ok() && (span.size == 0 || span.size > maxNameBytes))
    fail(concat(
        {what, " has ", span.size, " bytes, expected 1 to ", maxNameBytes}));
  if (!status.ok())
    return "";
  std::string result = bytes.substr(span.begin, span.size);
  if (printable(result) != result)
    fail(concat({what, " is ", quote(result), ", expected printable UTF-8"}));
  return result;
}

void HeaderReader::readFront() {
  static constexpr uint64_t least = 24;
  if (file.size() < least)
    return fail(concat({"has ", file.size(), " bytes, too few for GGUF"}));
  Span magic = take(4, "the magic number");
  if (status.ok() && bytes.compare(magic.begin, 4, "GGUF") != 0)
    return fail("is not a GGUF file: begins with " + quote(bytes.substr(0, 4)));
  auto version = number<uint32_t>("the version");
  if (status.ok() &&
      (version == __builtin_bswap32(2) || version == __builtin_bswap32(3)))
    return fail("is big-endian, which is not supported", CRIA_UNIMPLEMENTED);
  if (status.ok() && version != 2 && version != 3)
    return fail(
        concat({"is of version ", version, " of GGUF, expected 2 or 3"}),
        CRIA_INCOMPATIBLE);
  tensorCount = number<uint64_t>("the number of tensors");
  keyCount = number<uint64_t>("the number of keys");
  if (tensorCount > maxTensors)
    fail(concat(
        {"has ", tensorCount, " tensors, expected at most ", maxTensors}));
  if (keyCount > maxKeys)
    fail(concat({"has ", keyCount, " keys, expected at most ", maxKeys}));
}

void HeaderReader::readArray(Entry &entry, std::string_view what) {
  entry.element = ValueType(number<uint32_t>(concat({"the type of ", what})));
  entry.count = number<uint64_t>(concat({"the length of ", what}));
  if (entry.count > maxElements)
    return fail(concat({what, " has ", entry.count,
                        " elements, expected at most ", maxElements}));
  if (entry.element == ValueType::String) {
    uint64_t begin = at;
    for (uint64_t i = 0; i < entry.count && status.ok(); ++i)
      text(what);
    entry.payload = {begin, at - begin};
    return;
  }
  uint64_t size = scalarBytes(entry.element);
  if (status.ok() && size == 0)
    fail(concat({what, " is an array of type ",
                 static_cast<uint32_t>(entry.element),
                 ", expected scalars or strings"}));
  entry.payload = take(size * entry.count, what);
}

void HeaderReader::readValue() {
  Entry entry;
  entry.key = name("a key");
  std::string what = quote(entry.key);
  if (status.ok() && !names.insert(entry.key).second)
    fail("duplicate key " + what);
  entry.type = entry.element =
      ValueType(number<uint32_t>(concat({"the type of ", what})));
  entry.count = 1;
  if (entry.type == ValueType::Array) {
    readArray(entry, what);
  } else if (entry.type == ValueType::String) {
    entry.payload = text(what);
  } else if (uint64_t size = scalarBytes(entry.type)) {
    entry.payload = take(size, what);
    bool isFlag = status.ok() && entry.type == ValueType::Bool;
    if (isFlag && static_cast<uint8_t>(bytes[entry.payload.begin]) > 1)
      fail(concat({what, " is a boolean of ",
                   static_cast<uint8_t>(bytes[entry.payload.begin]),
                   ", expected 0 or 1"}));
  } else {
    fail(concat({what, " has type ", static_cast<uint32_t>(entry.type),
                 ", expected 0 to 12"}));
  }
  entries.push_back(std::move(entry));
}

/// Reads the type and computes the tensor's bytes.
void HeaderReader::readSize(TensorInfo &tensor, std::string_view what) {
  auto type = number<uint32_t>(concat({"the type of ", what}));
  auto found =
      std::find_if(std::begin(tensorTypes), std::end(tensorTypes),
                   [&](const TensorType &t) { return t.number == type; });
  if (status.ok() && found == std::end(tensorTypes))
    fail(concat(
             {what, " is of type ", type, ", none of ggml that is known here"}),
         CRIA_UNIMPLEMENTED);
  if (!status.ok())
    return;
  tensor.type = &*found;
  uint64_t total = 1;
  for (uint64_t size : tensor.shape)
    if (size == 0 || __builtin_mul_overflow(total, size, &total))
      return fail(concat({what, " has a dimension of 0, or more elements than "
                                "64 bits count"}));
  if (tensor.shape.back() % found->elements != 0)
    return fail(concat({what, " has rows of ", tensor.shape.back(),
                        " elements, expected a multiple of ", found->elements,
                        " for ", found->name}));
  uint64_t blocks = total / found->elements;
  if (__builtin_mul_overflow(blocks, found->bytes, &tensor.end))
    fail(concat({what, " has more bytes than 64 bits count"}));
}

void HeaderReader::readTensor() {
  TensorInfo tensor;
  tensor.name = name("a tensor's name");
  std::string what = "tensor " + quote(tensor.name);
  if (status.ok() && !names.insert(tensor.name).second)
    fail("duplicate " + what);
  auto dimensions = number<uint32_t>("the dimensions of " + what);
  if (status.ok() && (dimensions == 0 || dimensions > maxDimensions))
    fail(concat({what, " has ", dimensions, " dimensions, expected 1 to ",
                 maxDimensions}));
  for (uint32_t i = 0; i < dimensions && status.ok(); ++i)
    tensor.shape.push_back(number<uint64_t>("the shape of " + what));
  std::reverse(tensor.shape.begin(), tensor.shape.end());
  readSize(tensor, what);
  tensor.begin = number<uint64_t>("the offset of " + what);
  if (status.ok() &&
      __builtin_add_overflow(tensor.begin, tensor.end, &tensor.end))
    fail(what + " ends beyond 2^64 bytes");
  header.infos.push_back(std::move(tensor));
}

/// Makes the values. They refer to the header's bytes, which move no more.
void HeaderReader::finishValues() {
  bytes.resize(at);
  header.bytes = std::make_shared<const std::string>(std::move(bytes));
  for (const Entry &entry : entries)
    header.values.emplace(
        entry.key, Value(entry.type, entry.element, entry.count,
                         std::string_view(*header.bytes)
                             .substr(entry.payload.begin, entry.payload.size)));
}

uint64_t HeaderReader::alignment() {
  const Value *value = header.find("general.alignment");
  if (!value)
    return 32;
  int64_t bytes = value->integer().value_or(0);
  if (bytes < 1 || bytes > static_cast<int64_t>(maxAlignment) ||
      (bytes & (bytes - 1)) != 0) {
    fail(concat({"'general.alignment' is ", value->shown(),
                 ", expected a power of two up to ", maxAlignment}));
    return 32;
  }
  return static_cast<uint64_t>(bytes);
}

/// Changes offsets that count from the aligned end of the header to count from
/// the start of the file.
void HeaderReader::finishTensors() {
  uint64_t unit = alignment(), data = (at + unit - 1) / unit * unit;
  std::vector<TensorInfo> &infos = header.infos;
  for (TensorInfo &tensor : infos) {
    std::string what = "tensor " + quote(tensor.name);
    if (tensor.begin % unit != 0)
      return fail(concat({what, " begins at ", tensor.begin,
                          ", expected a multiple of ", unit}));
    if (data > file.size() || tensor.end > file.size() - data)
      return fail(concat({what, " ends at byte ", tensor.end,
                          " of the tensors, file has ",
                          file.size() - std::min(data, file.size())}),
                  CRIA_DATA_LOSS);
    tensor.begin += data;
    tensor.end += data;
  }
  std::sort(infos.begin(), infos.end(),
            [](const TensorInfo &a, const TensorInfo &b) {
              return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
            });
  for (size_t i = 1; i < infos.size(); ++i)
    if (infos[i].begin < infos[i - 1].end)
      return fail(concat({"tensors ", quote(infos[i - 1].name), " and ",
                          quote(infos[i].name), " overlap"}));
}

Result<Header> HeaderReader::read() {
  readFront();
  for (uint64_t i = 0; i < keyCount && status.ok(); ++i)
    readValue();
  names.clear();
  for (uint64_t i = 0; i < tensorCount && status.ok(); ++i)
    readTensor();
  if (status.ok())
    finishValues();
  if (status.ok())
    finishTensors();
  if (!status.ok())
    return status;
  return std::move(header);
}

Result<Header> readHeader(const File &file) {
  return HeaderReader(file).read();
}

} // namespace cria::gguf
