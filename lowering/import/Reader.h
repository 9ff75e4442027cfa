/// Typed, range-checked access to the keys of one JSON object.
#pragma once

#include "lowering/support/Json.h"

#include <optional>

namespace cria {

/// Reads keys of an object. The first failure is kept and later ones are
/// dropped, so callers read all keys and check once at the end. A key that is
/// null counts as absent, as in transformers.
class ObjectReader {
public:
  /// `name` precedes the keys in messages: "rope_scaling." or "".
  /// Keys of the object `inner` are named after `innerName`, too.
  ObjectReader(const nlohmann::json &object, std::string name = "",
               const nlohmann::json *inner = nullptr,
               std::string innerName = "")
      : object(object), name(std::move(name)), inner(inner),
        innerName(std::move(innerName)) {}

  /// The value, or null if the key is absent.
  const nlohmann::json *find(llvm::StringRef key) const;

  /// An integer of [low, high], which may be written 32.0. Without a fallback
  /// the key is required.
  int64_t integer(llvm::StringRef key, int64_t low, int64_t high,
                  std::optional<int64_t> fallback = {});
  /// A positive number in the range of f32.
  double positive(llvm::StringRef key, std::optional<double> fallback = {});
  bool flag(llvm::StringRef key, bool fallback);
  std::string text(llvm::StringRef key, std::optional<std::string> fallback);

  /// Records a failure of one key: "'key': problem".
  void failKey(llvm::StringRef key, const llvm::Twine &problem);
  void fail(const llvm::Twine &problem);
  bool failed() const { return !problem.empty(); }
  llvm::Error takeError() const;

  /// The key with the names of the objects that hold it.
  std::string fullName(llvm::StringRef key) const;
  /// The same as messages name it, quoted.
  std::string quoted(llvm::StringRef key) const;

private:
  void expected(llvm::StringRef key, const llvm::Twine &what,
                const nlohmann::json &got);
  void missing(llvm::StringRef key);

  const nlohmann::json &object;
  std::string name;
  const nlohmann::json *inner;
  std::string innerName, problem;
};

/// `message` with other names of quoted keys: the pairs are a name and what
/// replaces it.
std::string renamed(std::string message,
                    llvm::ArrayRef<std::pair<std::string, std::string>> names);

} // namespace cria
