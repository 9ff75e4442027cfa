#include "runtime/Binding.h"

#include "runtime/Floats.h"
#include "runtime/Json.h"

#include <algorithm>
#include <map>
#include <unordered_set>

namespace cria {

static constexpr size_t mostListed = 10;

/// The first ten of `items`, "; " between them, and how many more there are.
static std::string firstTen(const std::vector<std::string> &items) {
  std::string text;
  for (size_t i = 0; i < std::min(items.size(), mostListed); ++i)
    text += (i ? "; " : "") + items[i];
  if (items.size() > mostListed)
    text += "; and " + std::to_string(items.size() - mostListed) + " more";
  return text;
}

Status unfit(const std::string &file,
             const std::vector<std::string> &problems) {
  if (problems.empty())
    return Status();
  return Status(CRIA_FAILED_PRECONDITION,
                file + ": does not fit the artifact, " +
                    std::to_string(problems.size()) +
                    (problems.size() == 1 ? " tensor: " : " tensors: ") +
                    firstTen(problems));
}

Status Binding::status(const std::string &checkpoint) const {
  return unfit(checkpoint, problems);
}

/// Why `tensor` cannot be `weight`; empty where it can.
static std::string mismatch(const WeightSpec &weight,
                            const TensorEntry &tensor) {
  if (tensor.shape != weight.sourceShape())
    return quote(tensor.name) + " is " + shapeText(tensor.shape) +
           ", expected " + shapeText(weight.sourceShape());
  if (!tensor.type)
    return quote(tensor.name) + " is " + quote(tensor.typeName) +
           ", expected a float type";
  return "";
}

/// A tensor that no weight asks for. Some are known to carry no meaning.
static std::string describeExtra(const std::string &name) {
  static const std::string frequencies = "rotary_emb.inv_freq";
  if (name.size() >= frequencies.size() &&
      name.compare(name.size() - frequencies.size(), frequencies.size(),
                   frequencies) == 0)
    return "derived from the config";
  return "";
}

static void addExtras(const Checkpoint &checkpoint,
                      const std::unordered_set<std::string> &used,
                      Binding &binding) {
  std::map<std::string, std::vector<std::string>> byReason;
  for (const auto &[name, place] : checkpoint.tensors())
    if (used.count(name) == 0)
      byReason[describeExtra(name)].push_back(quote(name));
  for (auto &[reason, names] : byReason) {
    std::sort(names.begin(), names.end());
    binding.warnings.push_back(
        std::to_string(names.size()) +
        (names.size() == 1 ? " tensor is" : " tensors are") + " not used" +
        (reason.empty() ? "" : " (" + reason + ")") + ": " + firstTen(names));
  }
}

/// How many tensors are converted from one type to another.
using Conversions = std::map<std::pair<DType, DType>, uint64_t>;

static void addConversions(const Conversions &conversions, Binding &binding) {
  for (const auto &[types, count] : conversions)
    binding.warnings.push_back(
        std::to_string(count) + (count == 1 ? " tensor" : " tensors") +
        " converted from " + dtypeName(types.first) + " to " +
        dtypeName(types.second) +
        (isExact(types.first, types.second) ? ", exactly"
                                            : ", rounded to nearest even"));
}

/// Bytes that adapters are kept apart in.
static uint64_t adapterBytes(const Manifest &manifest) {
  uint64_t total = 0;
  for (const WeightSpec &weight : manifest.weights)
    total += weight.adapter ? weight.tensors() * weight.bytes() : 0;
  return total;
}

static Binding::Alias aliasOf(const Manifest &manifest,
                              const WeightSpec &weight) {
  return {weight.slot, manifest.weights[*weight.tied].slot};
}

std::vector<Binding::Alias> tiedSlots(const Manifest &manifest) {
  std::vector<Binding::Alias> aliases;
  for (const WeightSpec &weight : manifest.weights)
    if (weight.tied)
      aliases.push_back(aliasOf(manifest, weight));
  return aliases;
}

Binding matchWeights(const Manifest &manifest, const Checkpoint &checkpoint,
                     const Loras &loras) {
  Binding binding;
  binding.copiedBytes = adapterBytes(manifest);
  std::unordered_set<std::string> used;
  Conversions conversions;
  for (const WeightSpec &weight : manifest.weights)
    for (uint64_t i = 0; i < weight.tensors() && !weight.adapter; ++i) {
      std::string name = weight.name(i);
      const Checkpoint::Place *place = checkpoint.find(name);
      used.insert(name);
      if (weight.tied && !place) {
        binding.aliases.push_back(aliasOf(manifest, weight));
        continue;
      }
      std::string problem = place ? mismatch(weight, *place->tensor)
                                  : quote(name) + " is missing";
      if (!problem.empty()) {
        binding.problems.push_back(problem);
        continue;
      }
      DType type = *place->tensor->type;
      uint64_t begin =
          place->tensor->begin + weight.firstElement() * dtypeSize(type);
      const LoraUpdate *update = loras.find(name);
      bool aligned = begin % dtypeSize(weight.type) == 0;
      bool inPlace = type == weight.type && aligned && !update;
      (inPlace ? binding.mappedBytes : binding.copiedBytes) += weight.bytes();
      if (type != weight.type)
        ++conversions[{type, weight.type}];
      else if (!aligned)
        ++binding.unaligned;
      binding.sources.push_back(
          {&weight, place, weight.slot + i, inPlace, begin, update});
    }
  addConversions(conversions, binding);
  addExtras(checkpoint, used, binding);
  return binding;
}

/// Whether two ranges of the checkpoint's files hold the same bytes.
static Result<bool> sameBytes(const Checkpoint &checkpoint,
                              const Checkpoint::Place &a,
                              const Checkpoint::Place &b) {
  static constexpr uint64_t most = 1 << 20;
  uint64_t size = a.tensor->end - a.tensor->begin;
  std::vector<std::byte> blocks[2];
  for (uint64_t at = 0; at < size; at += most) {
    for (const Checkpoint::Place *place : {&a, &b}) {
      std::vector<std::byte> &block = blocks[place == &b];
      block.resize(std::min(most, size - at));
      const File &file = checkpoint.files()[place->file].file;
      Status status =
          file.read(place->tensor->begin + at, block.data(), block.size());
      if (!status.ok())
        return status;
    }
    if (blocks[0] != blocks[1])
      return false;
  }
  return true;
}

Status shareTied(const Manifest &manifest, const Checkpoint &checkpoint,
                 Binding &binding) {
  std::vector<Binding::Source> kept;
  for (const Binding::Source &source : binding.sources) {
    const WeightSpec &weight = *source.weight;
    if (!weight.tied) {
      kept.push_back(source);
      continue;
    }
    std::string other = manifest.weights[*weight.tied].name(0);
    const Checkpoint::Place *place = checkpoint.find(other);
    bool alike = place->tensor->type == source.place->tensor->type;
    Result<bool> same = alike ? sameBytes(checkpoint, *source.place, *place)
                              : Result<bool>(false);
    if (!same.ok())
      return same.status();
    if (*same) {
      binding.aliases.push_back(aliasOf(manifest, weight));
      (source.inPlace ? binding.mappedBytes : binding.copiedBytes) -=
          weight.bytes();
      continue;
    }
    binding.warnings.push_back(quote(weight.name(0)) + " differs from " +
                               quote(other) +
                               ", which the config ties it to, and is used");
    kept.push_back(source);
  }
  binding.sources = std::move(kept);
  return Status();
}

} // namespace cria
