/// The header of a GGUF file, versions 2 and 3: metadata and tensor infos, read
/// and checked whole; the tensors are not read.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/base/files/File.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cria::gguf {

/// The types of metadata, by the format's numbers.
enum class ValueType : uint32_t {
  U8,
  I8,
  U16,
  I16,
  U32,
  I32,
  F32,
  Bool,
  String,
  Array,
  U64,
  I64,
  F64
};

/// A value of the metadata. Refers to its header. A getter of another type than
/// the value's returns nothing.
class Value {
public:
  Value(ValueType type, ValueType element, uint64_t count,
        std::string_view payload)
      : type(type), element(element), count(count), payload(payload) {}

  /// From any type of integers; nothing if it does not fit int64_t.
  std::optional<int64_t> integer() const;
  /// From a float or an integer. An F32 becomes the shortest decimal number
  /// that rounds to it: 1e-05, and not 9.99999974737875e-06.
  std::optional<double> number() const;
  std::optional<bool> boolean() const;
  std::optional<std::string_view> text() const;

  bool isArray() const { return type == ValueType::Array; }
  /// Elements of an array; 1 of anything else.
  uint64_t size() const { return count; }
  /// All elements of an array; one of anything else.
  std::optional<std::vector<int64_t>> integers() const;
  std::optional<std::vector<double>> numbers() const;
  std::optional<std::vector<std::string_view>> texts() const;
  std::optional<std::vector<bool>> flags() const;

  /// As JSON for people, a long one cut: "llama", [32000 strings].
  std::string shown() const;

private:
  Value at(uint64_t index) const;

  ValueType type, element; // `element` is `type` except for arrays
  uint64_t count;
  std::string_view payload; // without the lengths of a string and an array
};

/// A tensor type of ggml.
struct TensorType {
  uint32_t number;
  char name[8];             // ggml's: "Q4_K"
  uint32_t elements, bytes; // of a block

  bool isFloat() const { return elements == 1 && name[0] != 'I'; }
};

/// A tensor as a header describes it.
struct TensorInfo {
  std::string name;
  const TensorType *type = nullptr;
  std::vector<uint64_t> shape; // the slowest dimension first, as in PyTorch
  uint64_t begin = 0, end = 0; // from the start of the file

  uint64_t elements() const;
};

/// What a header says; see readHeader.
class Header {
public:
  /// The value of `key`, or null.
  const Value *find(const std::string &key) const;
  const std::map<std::string, Value> &metadata() const { return values; }
  const std::vector<TensorInfo> &tensors() const { return infos; }

private:
  friend class HeaderReader;

  std::shared_ptr<const std::string> bytes; // what the values refer to
  std::map<std::string, Value> values;
  std::vector<TensorInfo> infos; // in the order of their offsets
};

/// Reads the header of `file` and checks it: sizes, names, alignment, and that
/// tensors lie in the file and apart from one another. Takes memory in
/// proportion to the header alone.
Result<Header> readHeader(const File &file);

} // namespace cria::gguf
