#include "lowering/artifact/Values.h"

#include "lowering/support/Json.h"

using namespace mlir;
using namespace cria;
namespace json = llvm::json;

std::optional<int64_t> cria::asInteger(Attribute value) {
  if (auto number = dyn_cast_or_null<IntegerAttr>(value))
    if (number.getType().isSignlessInteger(64))
      return number.getInt();
  if (auto number = dyn_cast_or_null<FloatAttr>(value))
    if (number.getType().isF64())
      return json::Value(number.getValueAsDouble()).getAsInteger();
  return std::nullopt;
}

std::optional<int64_t> cria::getInteger(DictionaryAttr object, StringRef name) {
  return asInteger(object ? object.get(name) : Attribute());
}

std::optional<StringRef> cria::getText(DictionaryAttr object, StringRef name) {
  auto text = object ? object.getAs<StringAttr>(name) : StringAttr();
  return text ? std::optional(text.getValue()) : std::nullopt;
}

static bool hasOnlyZeros(StringRef name) {
  return name.find_first_not_of('\0') == StringRef::npos;
}

Attribute cria::fromJson(MLIRContext *context, const nlohmann::json &value) {
  Builder b(context);
  switch (value.type()) {
  case nlohmann::json::value_t::boolean:
    return b.getBoolAttr(value.get<bool>());
  case nlohmann::json::value_t::number_integer:
    return b.getI64IntegerAttr(value.get<int64_t>());
  case nlohmann::json::value_t::number_unsigned: {
    auto number = value.get<uint64_t>();
    Type type = b.getIntegerType(64);
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      type = b.getIntegerType(64, /*isSigned=*/false);
    return IntegerAttr::get(type, llvm::APInt(64, number));
  }
  case nlohmann::json::value_t::number_float:
    return b.getF64FloatAttr(value.get<double>());
  case nlohmann::json::value_t::string:
    return b.getStringAttr(value.get_ref<const std::string &>());
  case nlohmann::json::value_t::array: {
    SmallVector<Attribute> elements;
    for (const nlohmann::json &element : value)
      elements.push_back(fromJson(context, element));
    return b.getArrayAttr(elements);
  }
  case nlohmann::json::value_t::object: {
    SmallVector<NamedAttribute> fields;
    for (const auto &[name, field] : value.items())
      fields.push_back(b.getNamedAttr(hasOnlyZeros(name) ? name + '\0' : name,
                                      fromJson(context, field)));
    return b.getDictionaryAttr(fields);
  }
  default: // null; a parsed document has no other type
    return b.getUnitAttr();
  }
}

/// `path` is where the value is: "model.chunk", "weights[3].name".
static llvm::Expected<json::Value> toJson(Attribute value, const Twine &path);

static llvm::Expected<json::Value> toJson(ArrayAttr elements,
                                          const Twine &path) {
  json::Array array;
  for (auto [i, element] : llvm::enumerate(elements)) {
    auto made = toJson(element, path + "[" + Twine(i) + "]");
    if (!made)
      return made.takeError();
    array.push_back(std::move(*made));
  }
  return array;
}

static llvm::Expected<json::Value> toJson(DictionaryAttr fields,
                                          const Twine &path) {
  json::Object object;
  for (NamedAttribute field : fields) {
    StringRef name = field.getName();
    if (!json::isUTF8(name))
      return llvm::createStringError("expected UTF-8 in the names of '" + path +
                                     "'");
    if (hasOnlyZeros(name))
      name = name.drop_back();
    bool isFirst = path.isTriviallyEmpty();
    auto made =
        toJson(field.getValue(), isFirst ? Twine(name) : path + "." + name);
    if (!made)
      return made.takeError();
    object[name] = std::move(*made);
  }
  return object;
}

static llvm::Expected<json::Value> toJson(Attribute value, const Twine &path) {
  if (isa<UnitAttr>(value))
    return nullptr;
  if (auto is = dyn_cast<BoolAttr>(value))
    return is.getValue();
  if (auto number = dyn_cast<IntegerAttr>(value)) {
    if (number.getType().isSignlessInteger(64))
      return number.getInt();
    if (number.getType().isUnsignedInteger(64))
      return number.getUInt();
  }
  if (auto number = dyn_cast<FloatAttr>(value))
    if (number.getType().isF64() && number.getValue().isFinite())
      return number.getValueAsDouble();
  if (auto text = dyn_cast<StringAttr>(value))
    if (json::isUTF8(text))
      return text.getValue();
  if (auto elements = dyn_cast<ArrayAttr>(value))
    return toJson(elements, path);
  if (auto fields = dyn_cast<DictionaryAttr>(value))
    return toJson(fields, path);
  std::string shown;
  llvm::raw_string_ostream(shown) << value;
  return llvm::createStringError("expected a JSON value at '" + path +
                                 "', got " + StringRef(shown).take_front(60));
}

llvm::Expected<json::Value> cria::toJson(Attribute value) {
  return ::toJson(value, "");
}
