#include "runtime/Lora.h"

#include "runtime/Binding.h"
#include "runtime/Elements.h"
#include "runtime/Floats.h"
#include "runtime/Json.h"
#include "runtime/LoraConfig.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace cria {

static constexpr char prefix[] = "base_model.model.";
static const std::string suffixA = ".lora_A.weight", suffixB = ".lora_B.weight";

Result<LoraSource> parseLora(const std::string &text) {
  LoraSource source;
  size_t equals = text.rfind('=');
  source.folder = text.substr(0, equals);
  if (equals != std::string::npos) {
    Result<JsonDocument> scale = parseJson(text.substr(equals + 1), "scale");
    if (!scale.ok() || !scale->root().is_number())
      return Status(CRIA_INVALID_ARGUMENT,
                    quote(text) + " is not DIR or DIR=SCALE, a number");
    source.scale = scale->root().get<double>();
  }
  if (source.folder.empty())
    return Status(CRIA_INVALID_ARGUMENT, quote(text) + " names no folder");
  return source;
}

static bool endsWith(const std::string &name, const std::string &suffix) {
  return name.size() >= suffix.size() &&
         name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
}

/// Whether `name` is `prefix` MODULE `suffix`. If so, sets `module`.
static bool takeModule(const std::string &name, const std::string &suffix,
                       std::string &module) {
  size_t front = sizeof(prefix) - 1;
  if (name.size() <= front + suffix.size() ||
      name.compare(0, front, prefix) != 0 || !endsWith(name, suffix))
    return false;
  module = name.substr(front, name.size() - front - suffix.size());
  return true;
}

/// Opens adapters one by one and finds the weight of each pair.
class Loras::Opener {
public:
  Opener(Loras &loras, const Manifest &manifest);

  Status add(const LoraSource &source);
  Status checkRoom() const;

private:
  /// The pairs of one adapter, by module.
  using Modules = std::map<std::string, Pair>;

  Status collect(const std::string &path, Modules &modules);
  Status place(const LoraConfig &config, const std::string &module, Pair &pair,
               uint64_t &budget);
  void expectShape(const TensorEntry &tensor, const Shape &shape);

  Loras &loras;
  // By name.
  std::unordered_map<std::string, const WeightSpec *> weights, rooms;
  std::vector<std::string> problems;
};

Loras::Opener::Opener(Loras &loras, const Manifest &manifest) : loras(loras) {
  for (const WeightSpec &weight : manifest.weights)
    for (uint64_t i = 0; i < weight.tensors() && !weight.tied; ++i)
      (weight.adapter ? rooms : weights).emplace(weight.name(i), &weight);
}

/// Sorts the tensors of the adapter's file into pairs.
Status Loras::Opener::collect(const std::string &path, Modules &modules) {
  Result<TensorFile> opened = openSafetensors(path);
  if (!opened.ok())
    return opened.status();
  loras.files.push_back(std::move(*opened));
  for (const TensorEntry &tensor : loras.files.back().tensors) {
    std::string module;
    bool isA = takeModule(tensor.name, suffixA, module);
    if (!isA && !takeModule(tensor.name, suffixB, module))
      return Status(CRIA_UNIMPLEMENTED,
                    {path, ": tensor ", quote(tensor.name),
                     " is not supported: expected ", prefix,
                     "MODULE.lora_A.weight or .lora_B.weight"});
    Pair &pair = modules[module];
    pair.file = loras.files.size() - 1;
    (isA ? pair.a : pair.b) = &tensor;
  }
  if (modules.empty())
    return Status(CRIA_INVALID_ARGUMENT, path + ": has no tensors");
  return Status();
}

void Loras::Opener::expectShape(const TensorEntry &tensor, const Shape &shape) {
  if (tensor.shape != shape)
    problems.push_back(
        concat({quote(tensor.name), " is ", shapeText(tensor.shape),
                ", expected ", shapeText(shape)}));
  else if (!tensor.type || *tensor.type == DType::F8_E4M3)
    problems.push_back(concat({quote(tensor.name), " is ", tensor.typeName,
                               ", expected a float type"}));
}

/// Checks a pair against the weight that it changes, and makes room for it.
Status Loras::Opener::place(const LoraConfig &config, const std::string &module,
                            Pair &pair, uint64_t &budget) {
  std::string name = module + ".weight";
  auto weight = weights.find(name);
  if (!pair.a || !pair.b) {
    problems.push_back(
        concat({"'", prefix, module, pair.a ? ".lora_B" : ".lora_A",
                ".weight' is missing"}));
    return Status();
  }
  Shape shape;
  if (weight != weights.end())
    shape = weight->second->sourceShape();
  if (shape.size() != 2) {
    problems.push_back(concat(
        {quote(pair.a->name), " is for ", quote(name),
         shape.empty()
             ? ", which the model does not have"
             : concat({", which is ", shapeText(shape), ", no matrix"})}));
    return Status();
  }
  Result<LoraScale> scale = config.at(module, budget);
  if (!scale.ok())
    return scale.status();
  expectShape(*pair.a, {scale->rank, shape[1]});
  expectShape(*pair.b, {shape[0], scale->rank});
  pair.rank = scale->rank;
  pair.scale *= scale->factor;
  LoraUpdate &update =
      loras.updates.try_emplace(name, shape[0], shape[1]).first->second;
  pair.update = &update;
  pair.firstRank = update.rank();
  update.widen(pair.rank);
  return Status();
}

Status Loras::Opener::add(const LoraSource &source) {
  if (!std::isfinite(source.scale))
    return Status(CRIA_INVALID_ARGUMENT,
                  source.folder + ": scale is not a finite number");
  auto config = LoraConfig::load(source.folder + "/adapter_config.json");
  if (!config.ok())
    return config.status();
  std::string path = source.folder + "/adapter_model.safetensors";
  Modules modules;
  Status status = collect(path, modules);
  // All modules' patterns share one budget, which lasts some tenths of a
  // second.
  uint64_t budget = 1u << 25;
  for (auto &[module, pair] : modules) {
    if (!status.ok())
      return status;
    pair.scale = source.scale;
    status = place(*config, module, pair, budget);
    loras.pairs.push_back(pair);
  }
  return status.ok() ? unfit(path, problems) : status;
}

/// Checks that the compiled code has room for the adapters that are kept apart.
Status Loras::Opener::checkRoom() const {
  for (const auto &[name, update] : loras.updates) {
    std::string module = name.substr(0, name.rfind('.'));
    auto room = rooms.find(module + suffixA);
    bool known = room != rooms.end();
    uint64_t rank = known ? room->second->shape[0] : 0;
    if (update.rank() <= rank)
      continue;
    std::string what =
        concat({"adapters of ", quote(module), " have rank ", update.rank(),
                ", the artifact keeps ", rank, " apart there"});
    if (known || rooms.empty())
      what += ": compile it with --lora-rank=" + std::to_string(update.rank());
    return Status(CRIA_FAILED_PRECONDITION, what);
  }
  return Status();
}

Result<Loras> Loras::open(const WeightSource &source,
                          const Manifest &manifest) {
  Loras loras;
  loras.unmerged = source.loraUnmerged;
  Opener opener(loras, manifest);
  loras.files.reserve(source.loras.size());
  for (const LoraSource &each : source.loras)
    if (Status status = opener.add(each); !status.ok())
      return status;
  if (Status status = opener.checkRoom(); loras.unmerged && !status.ok())
    return status;
  return loras;
}

Result<Loras> Loras::openKept(const std::vector<LoraSource> &sources,
                              const Manifest &manifest) {
  WeightSource source;
  source.loras = sources;
  source.loraUnmerged = true;
  Result<Loras> loras = open(source, manifest);
  if (!loras.ok())
    return loras;
  if (Status status = loras->read(); !status.ok())
    return status;
  return loras;
}

Status Loras::readPair(const Pair &pair) const {
  const File &file = files[pair.file].file;
  Result<std::vector<float>> a = readFloats(file, *pair.a);
  if (!a.ok())
    return a.status();
  std::copy(a->begin(), a->end(), &pair.update->ofA(pair.firstRank, 0));
  Result<std::vector<float>> b = readFloats(file, *pair.b);
  if (!b.ok())
    return b.status();
  for (uint64_t i = 0; i < b->size(); ++i)
    pair.update->ofB(i / pair.rank, pair.firstRank + i % pair.rank) =
        static_cast<float>(static_cast<double>((*b)[i]) * pair.scale);
  return Status();
}

Status Loras::read() {
  for (auto &[name, update] : updates)
    update.allocate();
  for (const Pair &pair : pairs)
    if (Status status = readPair(pair); !status.ok())
      return status;
  return Status();
}

const LoraUpdate *Loras::find(const std::string &name) const {
  auto found = updates.find(name);
  return unmerged || found == updates.end() ? nullptr : &found->second;
}

const LoraUpdate *Loras::kept(const WeightSpec &weight, uint64_t index) const {
  std::string name = weight.name(index);
  size_t length = name.size() - std::min(name.size(), suffixA.size());
  auto found = updates.find(name.substr(0, length) + ".weight");
  return unmerged && found != updates.end() ? &found->second : nullptr;
}

void fillAdapter(const WeightSpec &weight, const LoraUpdate *update,
                 std::byte *to, uint64_t begin, uint64_t end) {
  bool isA = endsWith(weight.pattern, suffixA);
  uint64_t columns = weight.shape[1];
  for (uint64_t e = begin; e < end; ++e, to += bytesOf(weight.type, 1)) {
    uint64_t row = weight.firstRow + e / columns,
             column = weight.firstColumn + e % columns;
    float value = 0;
    if (update && (isA ? row : column) < update->rank())
      value = isA ? update->ofA(row, column) : update->ofB(row, column);
    convertElements(reinterpret_cast<const std::byte *>(&value), DType::F32, to,
                    weight.type, 1);
  }
}

} // namespace cria
