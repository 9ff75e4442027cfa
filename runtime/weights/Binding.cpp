#include "runtime/weights/Binding.h"

#include "runtime/base/Json.h"
#include "runtime/weights/Floats.h"
#include "runtime/weights/packed/Packed.h"
#include "runtime/weights/random/RandomWeights.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace cria {

Status Binding::status(const std::string &checkpoint) const {
  if (!config.ok())
    return config;
  if (problems.empty() && !extraLayers.empty())
    return Status(CRIA_FAILED_PRECONDITION,
                  {checkpoint,
                   ": belongs to a model with more layers: the artifact "
                   "does not have ",
                   firstTen(extraLayers), "; --allow-unused passes over them"});
  return unfit(checkpoint, problems);
}

uint64_t Binding::bytes(bool inPlace) const {
  uint64_t total = 0;
  for (const BoundWeight &bound : weights)
    total += bound.inPlace().has_value() == inPlace ? bound.weight->bytes() : 0;
  return total;
}

/// Why `tensor` cannot be `weight`; empty if it can.
static std::string mismatch(const WeightSpec &weight,
                            const TensorEntry &tensor) {
  if (tensor.shape != weight.sourceShape())
    return concat({quote(tensor.name), " is ", shapeText(tensor.shape),
                   ", expected ", shapeText(weight.sourceShape())});
  if (!tensor.type)
    return concat({quote(tensor.name), " is ", quote(tensor.typeName),
                   ", expected a float type"});
  uint64_t block = blockOf(*tensor.type).elements;
  if (weight.columns.of && weight.shape[1] % block != 0)
    return concat({quote(tensor.name), " is ", quote(tensor.typeName),
                   ", in blocks of ", block, " columns; a rank's share of ",
                   weight.shape[1], " is no whole blocks"});
  return "";
}

/// Whether `name` is a tensor that some checkpoints have, and whose numbers the
/// config determines: RoPE's inverse frequencies, or the causal mask of GPT-2
/// and GPT-NeoX and the score of what it hides.
static bool isDerived(const std::string &name) {
  return endsWith(name, "rotary_emb.inv_freq") ||
         endsWith(name, ".attn.bias") || endsWith(name, ".masked_bias") ||
         endsWith(name, ".attention.bias");
}

namespace {

/// The numbers of an artifact's layers, by the text in front of the number in
/// the names of their tensors ("model.layers.").
class Layers {
public:
  explicit Layers(const Manifest &manifest);

  /// "model.layers.7" if `tensor` belongs to that layer and the artifact has
  /// layers of this prefix, but not layer 7; else "".
  std::string unknownLayer(const std::string &tensor) const;

private:
  std::map<std::string, std::set<std::string>> numbers; // by prefix
};

} // namespace

/// The layers after the last that predict more tokens at once (DeepSeek V3,
/// GLM-4.5), which nothing reads.
static uint64_t predictors(const Manifest &manifest) {
  const nlohmann::json &config = manifest.config.root();
  const char *key = "num_nextn_predict_layers";
  return config.is_object() && config.contains(key) &&
                 config[key].is_number_unsigned()
             ? std::min<uint64_t>(config[key].get<uint64_t>(), 16)
             : 0;
}

Layers::Layers(const Manifest &manifest) {
  uint64_t more = predictors(manifest);
  for (const WeightSpec &weight : manifest.weights) {
    std::string before = weight.pattern.substr(0, weight.pattern.find("{}"));
    std::vector<std::string> prefixes = otherNames(before);
    prefixes.push_back(before);
    for (uint64_t i = 0; i < weight.count + more && weight.isOfCheckpoint();
         ++i)
      for (const std::string &prefix : prefixes)
        numbers[prefix].insert(std::to_string(weight.first + i));
  }
}

std::string Layers::unknownLayer(const std::string &tensor) const {
  for (const auto &[before, known] : numbers) {
    if (tensor.compare(0, before.size(), before) != 0)
      continue;
    size_t end = std::min(tensor.find_first_not_of("0123456789", before.size()),
                          tensor.size());
    if (end > before.size() &&
        !known.count(tensor.substr(before.size(), end - before.size())))
      return tensor.substr(0, end);
  }
  return "";
}

/// "3 tensors are not used: 'a'; 'b'; 'c'"
static void warnUnused(std::vector<std::string> names, const char *why,
                       Binding &binding) {
  if (names.empty())
    return;
  std::sort(names.begin(), names.end());
  binding.warnings.push_back(
      concat({names.size(), names.size() == 1 ? " tensor is" : " tensors are",
              " not used", why, ": ", firstTen(names)}));
}

namespace {

/// The checkpoint's tensors that weights are made of.
class Used {
public:
  explicit Used(const Checkpoint &checkpoint) : checkpoint(checkpoint) {
    for (const TensorFile &file : checkpoint.files()) {
      firsts.push_back(flags.size());
      flags.resize(flags.size() + file.tensors.size());
    }
  }
  void add(const Checkpoint::Tensor &place) { flags[numberOf(place)] = true; }
  bool has(const Checkpoint::Tensor &place) const {
    return flags[numberOf(place)];
  }

private:
  size_t numberOf(const Checkpoint::Tensor &place) const {
    auto within = place.tensor - checkpoint.files()[place.file].tensors.data();
    return firsts[place.file] + static_cast<size_t>(within);
  }

  const Checkpoint &checkpoint;
  std::vector<size_t> firsts; // number of the first tensor of each file
  std::vector<bool> flags;
};

} // namespace

/// Warns about tensors that are not in `used` and lists layers that the
/// artifact does not have.
static void addExtras(const Manifest &manifest, const Checkpoint &checkpoint,
                      const Used &used, bool allowUnused, Binding &binding) {
  std::vector<std::string> names, derived, images;
  std::set<std::pair<size_t, std::string>> beyond; // layer 9 before layer 10
  Layers layers(manifest);
  for (const auto &[view, place] : checkpoint.tensors()) {
    if (used.has(place))
      continue;
    std::string name(view);
    std::string layer = allowUnused ? "" : layers.unknownLayer(name);
    if (isDerived(name))
      derived.push_back(quote(name));
    else if (isOfImages(name))
      images.push_back(quote(name));
    else if (layer.empty())
      names.push_back(quote(name));
    else
      beyond.emplace(layer.size(), quote(layer));
  }
  warnUnused(std::move(names), "", binding);
  warnUnused(std::move(derived), " (derived from the config)", binding);
  warnUnused(std::move(images), " (of images)", binding);
  for (const auto &[size, layer] : beyond)
    binding.extraLayers.push_back(layer);
}

/// The number of converted tensors, by source type, target type and the format
/// of packed tensors ("" if not packed).
using Conversions = std::map<std::tuple<DType, DType, std::string>, uint64_t>;

static void addConversions(const Conversions &conversions, Binding &binding) {
  for (const auto &[kind, count] : conversions) {
    const auto &[from, to, packed] = kind;
    bool isFp8 = to == DType::FP8 && packed == dtypeName(DType::F8_E4M3);
    std::string what = isFp8            ? " converted from "
                       : isBlocked(to)  ? " quantized from "
                       : packed.empty() ? " converted from "
                                        : " dequantized from ";
    std::string how = isBlocked(to) || !packed.empty() ? ""
                      : isExact(from, to)              ? ", exactly"
                                          : ", rounded to nearest even";
    binding.warnings.push_back(
        concat({count, count == 1 ? " tensor" : " tensors", what,
                packed.empty() ? dtypeName(from) : packed, " to ",
                dtypeName(to), how}));
  }
}

static Binding::Alias aliasOf(const Manifest &manifest,
                              const WeightSpec &weight) {
  return {weight.slot, manifest.origin(weight).slot};
}

/// Whether a tied weight has the elements of its origin, adapters included.
static bool isAlias(const Manifest &manifest, const WeightSpec &weight,
                    const Loras &loras) {
  return manifest.isShared(weight) && !loras.change(weight.name(0)) &&
         !loras.change(manifest.origin(weight).name(0));
}

namespace {

/// Finds the tensor of each weight.
class Matcher {
public:
  Matcher(const Manifest &manifest, const Checkpoint &checkpoint,
          const PackedConfig &config, const Loras &loras, Binding &binding)
      : manifest(manifest), checkpoint(checkpoint), config(config),
        loras(loras), binding(binding), used(checkpoint) {}

  void match(const WeightSpec &weight);

  /// The tensors of the checkpoint that weights are bound to.
  const Used &usedTensors() const { return used; }

  Conversions conversions;

private:
  bool isOther(const WeightSpec &weight, uint64_t index,
               WeightSpec &form) const;
  bool has(const WeightSpec &weight, const std::string &name) const;
  std::string nameOf(const WeightSpec &weight, uint64_t index) const;
  void match(const WeightSpec &weight, const WeightSpec &form, uint64_t index);
  void add(const WeightSpec &weight, const WeightSpec &form, uint64_t index,
           const std::string &tensor, const Checkpoint::Tensor *place);
  void addPlain(const WeightSpec &weight, const WeightSpec &form,
                uint64_t index, const Checkpoint::Tensor &place);
  void addPacked(const WeightSpec &weight, uint64_t index, PackedWeight packed);
  bool isBound(const WeightSpec &weight) const;

  const Manifest &manifest;
  const Checkpoint &checkpoint;
  const PackedConfig &config;
  const Loras &loras;
  Binding &binding;
  Used used;
};

} // namespace

bool Matcher::isBound(const WeightSpec &weight) const {
  return std::any_of(
      binding.weights.begin(), binding.weights.end(),
      [&](const BoundWeight &bound) { return bound.weight == &weight; });
}

/// Whether the checkpoint has `name`, plain or packed, for `weight`.
bool Matcher::has(const WeightSpec &weight, const std::string &name) const {
  std::string ignored;
  return checkpoint.find(name) ||
         findPacked(checkpoint, name, nullptr, weight.wholeShape(), config,
                    ignored);
}

/// Makes `form` say where checkpoints have the experts of a layer in one tensor
/// and gate's rows before up's: Qwen 3.5. False if `weight` is neither of these
/// nor down.
static bool joinExperts(const WeightSpec &weight, WeightSpec &form) {
  size_t expert = weight.pattern.rfind("{}.");
  std::string module = weight.pattern.substr(expert + 3);
  bool isDown = module == "down_proj.weight", isUp = module == "up_proj.weight";
  if (!isDown && !isUp && module != "gate_proj.weight")
    return false;
  uint64_t rows = weight.rows.of ? weight.rows.of : weight.shape[0];
  if (!isDown)
    form.rows = {weight.rows.first + (isUp ? rows : 0), 2 * rows};
  form.pattern = weight.pattern.substr(0, expert) +
                 (isDown ? "down_proj" : "gate_up_proj");
  return true;
}

/// Makes `form` say how else than as `weight` says a checkpoint has tensor
/// `index`; false if it does not have it so. In GGUF files one tensor has the
/// experts of a layer; its name keeps the `{}`. Two tensors have the halves of
/// another's rows; their names say which half. What is transposed elsewhere has
/// its rows.
bool Matcher::isOther(const WeightSpec &weight, uint64_t index,
                      WeightSpec &form) const {
  uint64_t half = weight.rows.of / 2, first = weight.rows.first;
  if (weight.experts && !weight.stacked) {
    form = weight;
    form.stacked = true;
    if (!checkpoint.find(form.name(index)) && !joinExperts(weight, form))
      return false;
  } else if (weight.transposed) {
    form.pattern = weight.pattern + "[rows]";
    form.transposed = false;
  } else if (half && weight.rows.of % 2 == 0 &&
             first % half + weight.shape[0] <= half) {
    form.pattern = weight.pattern + (first < half ? "[0/2]" : "[1/2]");
    form.rows = {first % half, half};
  } else {
    return false;
  }
  return checkpoint.find(form.name(index));
}

/// The name of tensor `index` of `weight`. Of weights that are tied, a
/// checkpoint may have one alone, which is then the tensor of both.
std::string Matcher::nameOf(const WeightSpec &weight, uint64_t index) const {
  std::string name = weight.name(index);
  if (has(weight, name))
    return name;
  if (weight.tied)
    return nameOf(manifest.origin(weight), 0);
  for (const WeightSpec &other : manifest.weights)
    if (other.tied && &manifest.origin(other) == &weight &&
        has(other, other.name(0)))
      return other.name(0);
  return name;
}

void Matcher::match(const WeightSpec &weight, const WeightSpec &form,
                    uint64_t index) {
  bool hasForm = &form != &weight;
  std::string tensor = hasForm ? form.name(index) : nameOf(weight, index);
  const Checkpoint::Tensor *place = checkpoint.find(tensor);
  if (place)
    used.add(*place);
  const WeightSpec &origin = manifest.origin(weight);
  bool sharesTensor = weight.tied && tensor == nameOf(origin, 0) &&
                      checkpoint.replacement(weight.name(0)) ==
                          checkpoint.replacement(origin.name(0));
  if (sharesTensor && isAlias(manifest, weight, loras))
    binding.aliases.push_back(aliasOf(manifest, weight));
  // If the origin is not bound, a problem already says why.
  else if (!sharesTensor || isBound(origin))
    add(weight, form, index, tensor, place);
}

/// Binds all tensors of `weight`. The experts of a layer have one form.
void Matcher::match(const WeightSpec &weight) {
  WeightSpec form = weight;
  bool hasForm = false;
  for (uint64_t i = 0; i < weight.tensors(); ++i) {
    if (i == 0 || weight.following(i - 1) == 1)
      hasForm = isOther(weight, i, form);
    match(weight, hasForm ? form : weight, i);
  }
}

/// `x`, the elements of tensor `index` of `weight`, with what adapters add, and
/// only the rows and columns that the weight has.
static ElementsPtr finished(ElementsPtr x, const WeightSpec &weight,
                            uint64_t index, const Loras &loras) {
  if (loras.changeAny())
    x = loras.merged(weight.name(index), std::move(x));
  return slice(std::move(x), weight, index);
}

/// `weight`, called `name`, if `checkpoint` has its rows in two tensors in
/// turns, which are called `name`[0%2] and `name`[1%2]. Nothing if it has
/// neither, or if they are wrong, as `problem` then says.
static std::optional<PackedWeight> findTurns(const Checkpoint &checkpoint,
                                             const std::string &name,
                                             const WeightSpec &weight,
                                             std::string &problem) {
  const Checkpoint::Tensor *even = checkpoint.find(name + "[0%2]"),
                           *odd = checkpoint.find(name + "[1%2]");
  Shape half = weight.wholeShape();
  if ((!even && !odd) || half.size() < 2)
    return std::nullopt;
  half[1] /= 2;
  auto fits = [&](const Checkpoint::Tensor *place) {
    return place && place->tensor->type && place->tensor->shape == half;
  };
  if (!fits(even) || !fits(odd)) {
    problem = concat({"expected two tensors in place of ", quote(name),
                      ", floats of ", shapeText(half), " each"});
    return std::nullopt;
  }
  uint64_t columns = half.size() > 2 ? half[2] : 1;
  return PackedWeight{
      turns(checkpoint.elements(*even), checkpoint.elements(*odd), columns),
      {even, odd},
      /*format=*/"",
      /*reading=*/"in turns",
      *even->tensor->type};
}

/// Binds tensor `index` of `weight` to what an adapter saved, or else to the
/// checkpoint's `tensor`, which has the weight in the form `form`, at `place`,
/// or is packed.
void Matcher::add(const WeightSpec &weight, const WeightSpec &form,
                  uint64_t index, const std::string &tensor,
                  const Checkpoint::Tensor *place) {
  std::string problem;
  const Checkpoint::Tensor *replacement =
      checkpoint.hasReplacements() ? checkpoint.replacement(weight.name(index))
                                   : nullptr;
  if (!replacement) {
    auto packed = findPacked(checkpoint, tensor, place, form.wholeShape(),
                             config, problem);
    if (!packed && !place && problem.empty())
      packed = findTurns(checkpoint, tensor, weight, problem);
    if (packed)
      return addPacked(weight, index, std::move(*packed));
  } else if (&form != &weight) {
    return add(weight, weight, index, tensor, place); // as Hugging Face has it
  } else {
    place = replacement;
  }
  if (problem.empty())
    problem =
        place ? mismatch(form, *place->tensor) : quote(tensor) + " is missing";
  if (problem.empty())
    return addPlain(weight, form, index, *place);
  if (form.place(index) == 0) // experts of one tensor have one problem
    binding.problems.push_back(problem);
}

void Matcher::addPlain(const WeightSpec &weight, const WeightSpec &form,
                       uint64_t index, const Checkpoint::Tensor &place) {
  DType type = *place.tensor->type;
  bool isCounted = form.place(index) == 0; // one of the experts of a tensor
  if (type != weight.type)
    conversions[{type, weight.type, ""}] += isCounted;
  else if (place.tensor->begin % alignmentOf(type) != 0)
    binding.unaligned += isCounted;
  binding.weights.push_back(
      {&weight,
       weight.slot + index,
       finished(transposed(checkpoint.elements(place), form), form, index,
                loras),
       {&place}});
}

void Matcher::addPacked(const WeightSpec &weight, uint64_t index,
                        PackedWeight packed) {
  for (const Checkpoint::Tensor *place : packed.tensors)
    used.add(*place);
  if (packed.type != weight.type || !packed.format.empty())
    conversions[{packed.type, weight.type, packed.format}] +=
        weight.place(index) == 0; // one of the experts of a tensor
  binding.weights.push_back(
      {&weight, weight.slot + index,
       finished(std::move(packed.elements), weight, index, loras),
       std::move(packed.tensors), std::move(packed.reading)});
}

std::vector<BoundWeight> adapterWeights(const Manifest &manifest,
                                        const Loras &loras) {
  std::vector<BoundWeight> bound;
  for (const WeightSpec &weight : manifest.weights)
    for (uint64_t i = 0; i < weight.tensors() && !weight.isOfCheckpoint(); ++i)
      bound.push_back(
          {&weight, weight.slot + i, slice(loras.kept(weight, i), weight, i)});
  return bound;
}

Binding matchWeights(const Manifest &manifest, const Checkpoint &checkpoint,
                     const Loras &loras, bool allowUnused) {
  Binding binding;
  binding.warnings = checkpoint.warnings();
  binding.weights = adapterWeights(manifest, loras);
  Result<PackedConfig> config =
      readPackedConfig(checkpoint, manifest.config.root());
  if (!config.ok()) {
    binding.config = config.status();
    return binding;
  }
  Matcher matcher(manifest, checkpoint, *config, loras, binding);
  for (const WeightSpec &weight : manifest.weights)
    if (weight.isOfCheckpoint())
      matcher.match(weight);
  addConversions(matcher.conversions, binding);
  addExtras(manifest, checkpoint, matcher.usedTensors(), allowUnused, binding);
  return binding;
}

/// What `weight` is bound to; null if it is not.
static const BoundWeight *find(const WeightSpec &weight,
                               const Binding &binding) {
  for (const BoundWeight &bound : binding.weights)
    if (bound.weight == &weight)
      return &bound;
  return nullptr;
}

/// Whether the tensors of two weights have the same bytes and are read alike.
static Result<bool> areEqual(const Checkpoint &checkpoint, const BoundWeight &a,
                             const BoundWeight &b) {
  if (a.tensors.size() != b.tensors.size() || a.reading != b.reading)
    return false;
  Result<bool> same = true;
  for (size_t i = 0; i < a.tensors.size() && same.ok() && *same; ++i)
    same = checkpoint.areEqual(*a.tensors[i], *b.tensors[i]);
  return same;
}

Status shareTied(const Manifest &manifest, const Checkpoint &checkpoint,
                 const Loras &loras, Binding &binding) {
  for (size_t i = 0; i < binding.weights.size();) {
    const BoundWeight &bound = binding.weights[i++];
    const WeightSpec &weight = *bound.weight;
    const BoundWeight *origin =
        weight.tied ? find(manifest.origin(weight), binding) : nullptr;
    if (!origin || bound.tensors == origin->tensors)
      continue;
    Result<bool> same = areEqual(checkpoint, bound, *origin);
    if (!same.ok())
      return same.status();
    if (*same && isAlias(manifest, weight, loras)) {
      binding.aliases.push_back(aliasOf(manifest, weight));
      binding.weights.erase(binding.weights.begin() +
                            static_cast<ptrdiff_t>(--i));
    } else if (!*same) {
      binding.warnings.push_back(
          concat({quote(weight.name(0)), " differs from ",
                  quote(manifest.origin(weight).name(0)),
                  ", which the config ties it to, and is used"}));
    }
  }
  return Status();
}

Status load(Binding &binding) {
  std::map<std::string, uint64_t> warnings;
  for (const BoundWeight &bound : binding.weights) {
    Result<std::string> warning = bound.elements->load();
    if (!warning.ok())
      return warning.status();
    if (!warning->empty())
      ++warnings[*warning];
  }
  for (const auto &[text, count] : warnings)
    binding.warnings.push_back(
        concat({count, count == 1 ? " weight" : " weights", ": ", text}));
  return Status();
}

/// The elements of tensor `index` of `weight` by `seed`. Those of a tied weight
/// are its origin's, in the origin's type, or in f32 if that has blocks.
static ElementsPtr drawn(const Manifest &manifest, const WeightSpec &weight,
                         uint64_t index, uint64_t seed) {
  const WeightSpec &origin = manifest.origin(weight);
  DType type = isBlocked(origin.type) ? DType::F32 : origin.type;
  return randomElements(type, origin.name(index), weight.shape, seed);
}

Binding drawWeights(const Manifest &manifest, uint64_t seed,
                    const Loras &loras) {
  Binding binding;
  binding.weights = adapterWeights(manifest, loras);
  for (const WeightSpec &weight : manifest.weights) {
    if (!weight.isOfCheckpoint())
      continue;
    if (isAlias(manifest, weight, loras)) {
      binding.aliases.push_back(aliasOf(manifest, weight));
      continue;
    }
    for (uint64_t i = 0; i < weight.tensors(); ++i)
      binding.weights.push_back(
          {&weight, weight.slot + i,
           finished(transposed(drawn(manifest, weight, i, seed), weight),
                    weight, i, loras)});
  }
  return binding;
}

} // namespace cria
