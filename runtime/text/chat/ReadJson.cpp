/// Values from JSON.
#include "runtime/text/chat/Value.h"

#include "runtime/base/Json.h"

namespace cria::chat {

namespace {

/// Builds values as the parser goes through a document.
class Reader : public JsonSink {
public:
  explicit Reader(Budget &budget) : budget(budget) {}

  void scalar(nlohmann::json value, const std::string &spelling) override {
    place(convert(value, spelling));
  }
  void open(bool object) override {
    parents.emplace_back();
    parents.back().object = object;
  }
  void key(std::string name) override {
    Value key = Value::string(std::move(name), budget);
    parents.back().members.push_back({std::move(key), {}});
  }
  void close() override {
    Parent parent = std::move(parents.back());
    parents.pop_back();
    if (!parent.object)
      return place(Value::list(std::move(parent.elements), budget));
    Value twice;
    Value::Dict members(std::move(parent.members), budget, &twice);
    if (twice.is(Value::Type::String))
      status =
          Status(CRIA_INVALID_ARGUMENT, "duplicate key " + quote(twice.text()));
    place(Value::dict(std::move(members), budget));
  }

  Value root;

private:
  /// A list or an object that is not complete.
  struct Parent {
    bool object = false;
    Value::List elements;
    std::vector<Value::Dict::Member> members;
  };

  Value convert(const nlohmann::json &value, const std::string &spelling) {
    if (value.is_boolean())
      return Value::boolean(value.get<bool>());
    if (value.is_string())
      return Value::string(value.get<std::string>(), budget);
    if (value.is_number_unsigned())
      return Value::integer(value.get<uint64_t>());
    if (value.is_number_integer())
      return Value::integer(value.get<int64_t>());
    if (!value.is_number())
      return Value::none();
    bool tooLarge = false;
    if (auto integer = parseInteger(spelling, tooLarge))
      return Value::integer(*integer);
    if (tooLarge)
      budget.fail("the integer " + quote(spelling) +
                      " has more than 127 bits, which is not supported",
                  CRIA_UNIMPLEMENTED);
    return Value::real(value.get<double>());
  }

  void place(Value value) {
    if (!budget.spend(sizeof(Value::Dict::Member)) && status.ok())
      status = budget.error();
    if (parents.empty())
      root = std::move(value);
    else if (parents.back().object)
      parents.back().members.back().value = std::move(value);
    else
      parents.back().elements.push_back(std::move(value));
  }

  Budget &budget;
  std::vector<Parent> parents;
};

} // namespace

Result<Value> readValue(std::string_view json, const std::string &name,
                        Budget &budget) {
  Reader reader(budget);
  Status status = parseJson(json, name, {}, reader);
  return status.ok() ? Result<Value>(std::move(reader.root))
                     : Result<Value>(std::move(status));
}

} // namespace cria::chat
