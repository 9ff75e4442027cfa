#include "runtime/weights/lora/Lora.h"

#include "runtime/base/Json.h"
#include "runtime/weights/lora/LoraConfig.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

namespace cria {

static constexpr char prefix[] = "base_model.model.";
static const std::string suffixA = ".lora_A.weight",
                         belowSuffix = ".base_layer.weight";

namespace {

/// A kind of tensor that a pair has.
struct PairPart {
  const char *suffix;
  bool isA, ofEmbedding; // in terms of W + B A, where W is an embedding
};

} // namespace

static const PairPart pairParts[] = {{".lora_A.weight", true, false},
                                     {".lora_B.weight", false, false},
                                     {".lora_embedding_A", false, true},
                                     {".lora_embedding_B", true, true}};

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
  Status checkSaved(const LoraSource &source, const LoraConfig &config) const;
  bool takePart(const TensorEntry &tensor, const std::string &name,
                Modules &modules);
  bool takeSaved(const TensorEntry &tensor, std::string name);
  Status place(const LoraConfig &config, const std::string &module, Pair &pair,
               uint64_t &budget);
  void expectShape(const TensorEntry &tensor, Shape shape, bool transposed);

  Loras &loras;
  const Manifest &manifest;
  using Weights =
      std::unordered_map<std::string, const WeightSpec *>; // by name
  /// The weight called `name`, or by one of its other names.
  Weights::const_iterator findWeight(const std::string &name) const;

  Weights weights, rooms;
  std::vector<std::string> problems;
};

Loras::Opener::Opener(Loras &loras, const Manifest &manifest)
    : loras(loras), manifest(manifest) {
  for (const WeightSpec &weight : manifest.weights)
    for (uint64_t i = 0; i < weight.tensors(); ++i)
      (weight.adapter ? rooms : weights).emplace(weight.name(i), &weight);
}

Loras::Opener::Weights::const_iterator
Loras::Opener::findWeight(const std::string &name) const {
  auto found = weights.find(name);
  for (const std::string &other : otherNames(name))
    if (found == weights.end())
      found = weights.find(other);
  return found;
}

/// Adds a tensor to its pair, if `name` is that of a part of one.
bool Loras::Opener::takePart(const TensorEntry &tensor, const std::string &name,
                             Modules &modules) {
  for (const PairPart &part : pairParts) {
    if (!endsWith(name, part.suffix))
      continue;
    Pair &pair = modules[name.substr(0, name.size() - strlen(part.suffix))];
    pair.file = loras.files.size() - 1;
    pair.ofEmbedding |= part.ofEmbedding;
    (part.isA ? pair.a : pair.b) = &tensor;
    return true;
  }
  return false;
}

/// Notes a tensor that replaces a weight of the model, if it is one. What is
/// below the pair of a tied weight is below the weight that it is tied to, too.
bool Loras::Opener::takeSaved(const TensorEntry &tensor, std::string name) {
  bool isBelow = endsWith(name, belowSuffix);
  if (isBelow)
    name.replace(name.size() - belowSuffix.size(), belowSuffix.size(),
                 ".weight");
  auto weight = findWeight(name);
  if (weight == weights.end())
    return false;
  const WeightSpec *origin = &manifest.origin(*weight->second);
  expectShape(tensor, weight->second->sourceShape(), false);
  loras.saved.back().emplace(tensor.name, weight->first);
  for (const WeightSpec &other : manifest.weights)
    if (isBelow && &other != weight->second &&
        &manifest.origin(other) == origin &&
        (other.tied || weight->second->tied))
      loras.saved.back().emplace(tensor.name, other.name(0));
  return true;
}

/// Sorts the tensors of the adapter's file.
Status Loras::Opener::collect(const std::string &path, Modules &modules) {
  Result<TensorFile> opened = openSafetensors(path);
  if (!opened.ok())
    return opened.status();
  loras.files.push_back(std::move(*opened));
  loras.saved.emplace_back();
  for (const TensorEntry &tensor : loras.files.back().tensors) {
    bool known = tensor.name.compare(0, sizeof(prefix) - 1, prefix) == 0;
    std::string name = known ? tensor.name.substr(sizeof(prefix) - 1) : "";
    if (!known ||
        (!takePart(tensor, name, modules) && !takeSaved(tensor, name)))
      return Status(CRIA_UNIMPLEMENTED,
                    {path, ": tensor ", quote(tensor.name),
                     " is not supported: expected ", prefix,
                     "MODULE.lora_A.weight or .lora_B.weight, or a tensor of "
                     "the model"});
  }
  if (loras.files.back().tensors.empty())
    return Status(CRIA_INVALID_ARGUMENT, path + ": has no tensors");
  return Status();
}

void Loras::Opener::expectShape(const TensorEntry &tensor, Shape shape,
                                bool transposed) {
  if (transposed)
    std::swap(shape[0], shape[1]);
  if (tensor.shape != shape)
    problems.push_back(
        concat({quote(tensor.name), " is ", shapeText(tensor.shape),
                ", expected ", shapeText(shape)}));
  else if (!tensor.type || *tensor.type == DType::F8_E4M3)
    problems.push_back(concat({quote(tensor.name), " is ", tensor.typeName,
                               ", expected a float type"}));
}

/// The suffix of the part that `pair` lacks; null if it has both.
static const char *missingPart(bool hasA, bool hasB, bool ofEmbedding) {
  for (const PairPart &part : pairParts)
    if (part.ofEmbedding == ofEmbedding && !(part.isA ? hasA : hasB))
      return part.suffix;
  return nullptr;
}

/// Checks a pair against the weight that it changes, and makes room for it.
Status Loras::Opener::place(const LoraConfig &config, const std::string &module,
                            Pair &pair, uint64_t &budget) {
  std::string name = module + ".weight";
  auto weight = findWeight(name);
  if (const char *lacks = missingPart(pair.a, pair.b, pair.ofEmbedding)) {
    problems.push_back(concat({"'", prefix, module, lacks, "' is missing"}));
    return Status();
  }
  Shape shape;
  if (weight != weights.end())
    shape = weight->second->wholeShape();
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
  expectShape(*pair.a, {scale->rank, shape[1]}, pair.ofEmbedding);
  expectShape(*pair.b, {shape[0], scale->rank}, pair.ofEmbedding);
  pair.rank = scale->rank;
  pair.scale *= scale->factor;
  LoraUpdate &update =
      loras.updates.try_emplace(weight->first, shape[0], shape[1])
          .first->second;
  pair.update = &update;
  pair.firstRank = update.rank();
  update.widen(pair.rank);
  return Status();
}

/// Refuses whole tensors where they cannot be computed.
Status Loras::Opener::checkSaved(const LoraSource &source,
                                 const LoraConfig &config) const {
  const TensorFile &file = loras.files.back();
  const std::string &path = file.file.path();
  const auto &saved = loras.saved.back();
  for (const auto &[tensor, weight] : saved) {
    if (loras.unmerged)
      return Status(CRIA_UNIMPLEMENTED,
                    {path, ": tensor ", quote(tensor),
                     " replaces the model's and cannot be kept apart; merge "
                     "the adapter"});
    if (source.scale != 1 && !endsWith(tensor, belowSuffix))
      return Status(CRIA_UNIMPLEMENTED,
                    {path, ": tensor ", quote(tensor),
                     " replaces the model's, expected a scale of 1, got ",
                     source.scale});
  }
  for (const std::string &module : config.modulesToSave())
    if (std::none_of(saved.begin(), saved.end(), [&](const auto &each) {
          return endsWith(each.first.substr(0, each.first.rfind('.')), module);
        }))
      return Status(CRIA_FAILED_PRECONDITION,
                    {path, ": has no tensor of ", quote(module),
                     ", which 'modules_to_save' names"});
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
  if (status.ok())
    status = checkSaved(source, *config);
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
  if (source.loras.empty())
    return loras;
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
  LoraUpdate &update = *pair.update;
  Result<std::vector<float>> a = readFloats(file, *pair.a);
  if (!a.ok())
    return a.status();
  uint64_t rank = pair.rank, columns = update.columns(), rows = update.rows();
  for (uint64_t k = 0; k < rank; ++k)
    for (uint64_t j = 0; j < columns; ++j)
      update.ofA(pair.firstRank + k, j) =
          (*a)[pair.ofEmbedding ? j * rank + k : k * columns + j];
  Result<std::vector<float>> b = readFloats(file, *pair.b);
  if (!b.ok())
    return b.status();
  for (uint64_t i = 0; i < rows; ++i)
    for (uint64_t k = 0; k < rank; ++k)
      update.ofB(i, pair.firstRank + k) = static_cast<float>(
          static_cast<double>(
              (*b)[pair.ofEmbedding ? k * rows + i : i * rank + k]) *
          pair.scale);
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

Status Loras::replaceIn(Checkpoint &checkpoint) const {
  for (size_t i = 0; i < files.size(); ++i)
    if (Status status = checkpoint.replace(files[i].file.path(), saved[i]);
        !status.ok())
      return status;
  return Status();
}

bool Loras::haveSaved() const {
  return std::any_of(saved.begin(), saved.end(),
                     [](const auto &tensors) { return !tensors.empty(); });
}

/// The update to merge into the tensor `name`; null for none.
const LoraUpdate *Loras::find(const std::string &name) const {
  auto found = updates.find(name);
  return unmerged || found == updates.end() ? nullptr : &found->second;
}

bool Loras::change(const std::string &name) const { return find(name); }

bool Loras::changeAny() const { return !unmerged && !updates.empty(); }

ElementsPtr Loras::merged(const std::string &name, ElementsPtr x) const {
  const LoraUpdate *update = find(name);
  return update ? plus(std::move(x), *update) : std::move(x);
}

ElementsPtr Loras::kept(const WeightSpec &weight, uint64_t index) const {
  std::string name = weight.name(index);
  size_t length = name.size() - std::min(name.size(), suffixA.size());
  auto found = updates.find(name.substr(0, length) + ".weight");
  bool isThere = unmerged && found != updates.end();
  return matrixOf(isThere ? &found->second : nullptr,
                  endsWith(weight.pattern, suffixA), weight.sourceShape()[1]);
}

} // namespace cria
