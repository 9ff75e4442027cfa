/// The values of the manifest: attributes in IR, JSON in artifacts.
///
///   JSON                   IR
///   {"a": 1}               DictionaryAttr {a = 1 : i64}
///   [1, 2]                 ArrayAttr      [1, 2]
///   1                      IntegerAttr    1 : i64, above its range 1 : ui64
///   1.5                    FloatAttr      1.500000e+00 : f64
///   "a", true, null        StringAttr, BoolAttr, UnitAttr
///
/// MLIR has no empty names. So the name of a field that has only zero bytes, or
/// none, has one more zero byte in IR.
#pragma once

#include "mlir/IR/Builders.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace cria {

/// A number, a boolean, a text, an attribute, or a range of these.
template <typename T>
mlir::Attribute toAttribute(mlir::Builder b, const T &value) {
  if constexpr (std::is_convertible_v<const T &, mlir::Attribute>) {
    return value;
  } else if constexpr (std::is_same_v<T, bool>) {
    return b.getBoolAttr(value);
  } else if constexpr (std::is_integral_v<T>) {
    return b.getI64IntegerAttr(static_cast<int64_t>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    return b.getF64FloatAttr(value);
  } else if constexpr (std::is_convertible_v<const T &, llvm::StringRef>) {
    return b.getStringAttr(llvm::StringRef(value));
  } else {
    llvm::SmallVector<mlir::Attribute> elements;
    for (const auto &element : value)
      elements.push_back(toAttribute(b, element));
    return b.getArrayAttr(elements);
  }
}

/// The fields of an object that is being made or changed.
class Fields {
public:
  /// The fields of an object, or none. Without a context, none can be set.
  explicit Fields(mlir::MLIRContext *context = nullptr,
                  mlir::DictionaryAttr object = {})
      : context(context), fields(object) {}

  template <typename T> Fields &set(llvm::StringRef name, const T &value) {
    fields.set(name, toAttribute(mlir::Builder(context), value));
    return *this;
  }
  void erase(llvm::StringRef name) { fields.erase(name); }
  mlir::MLIRContext *getContext() const { return context; }

  /// The value of a field, or null.
  mlir::Attribute get(llvm::StringRef name) const { return fields.get(name); }
  /// The value of a field, or null if it is not of this type.
  template <typename T> T getAs(llvm::StringRef name) const {
    return llvm::dyn_cast_or_null<T>(get(name));
  }
  /// The fields of a field; none if it is not an object.
  Fields fieldsOf(llvm::StringRef name) const {
    return Fields(context, getAs<mlir::DictionaryAttr>(name));
  }

  mlir::DictionaryAttr object() const { return fields.getDictionary(context); }
  operator mlir::DictionaryAttr() const { return object(); }

private:
  mlir::MLIRContext *context;
  mlir::NamedAttrList fields;
};

/// A whole number, or nothing; the attribute may be null. As in JSON, 32.0 is
/// one.
std::optional<int64_t> asInteger(mlir::Attribute value);

/// A field of an object that may be null; nothing if it is not there or not of
/// this type.
std::optional<int64_t> getInteger(mlir::DictionaryAttr object,
                                  llvm::StringRef name);
std::optional<llvm::StringRef> getText(mlir::DictionaryAttr object,
                                       llvm::StringRef name);

/// A JSON document, such as a config.json, as an attribute. Recurses.
mlir::Attribute fromJson(mlir::MLIRContext *context,
                         const nlohmann::json &value);

/// An attribute as JSON, which refers to the attribute's texts. An error, such
/// as "expected a JSON value at 'model.chunk', got affine_map<() -> ()>", if
/// the attribute has no JSON form. Recurses.
llvm::Expected<llvm::json::Value> toJson(mlir::Attribute value);

} // namespace cria
