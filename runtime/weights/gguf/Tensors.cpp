#include "runtime/weights/gguf/Tensors.h"

#include "runtime/base/Json.h"
#include "runtime/gguf/Files.h"
#include "runtime/gguf/Names.h"
#include "runtime/weights/Checkpoint.h"
#include "runtime/weights/gguf/Order.h"

#include <algorithm>

namespace cria::gguf {

/// The type of ggml as a type of weights; nothing if weights cannot have it.
static std::optional<DType> dtypeOf(const TensorType &type) {
  static constexpr struct {
    char name[7];
    DType type;
  } types[] = {{"F32", DType::F32},       {"F16", DType::F16},
               {"BF16", DType::BF16},     {"F64", DType::F64},
               {"Q8_0", DType::Q8_0},     {"Q4_0", DType::Q4_0},
               {"Q4_1", DType::Q4_1},     {"Q5_0", DType::Q5_0},
               {"Q5_1", DType::Q5_1},     {"Q4_K", DType::Q4_K},
               {"Q5_K", DType::Q5_K},     {"Q6_K", DType::Q6_K},
               {"Q2_K", DType::Q2_K},     {"Q3_K", DType::Q3_K},
               {"IQ4_NL", DType::IQ4_NL}, {"IQ4_XS", DType::IQ4_XS},
               {"MXFP4", DType::MXFP4}};
  for (const auto &known : types)
    if (std::string_view(known.name) == type.name)
      return known.type;
  return std::nullopt;
}

/// Whether `name` is the weight or the bias of the module `module` of a layer.
static bool isOf(const std::string &name, const std::string &module) {
  return name.find(concat({".", module, "."})) != name.npos;
}

/// The key with the number of heads of queries, or of keys and values.
static std::string headsKey(const Header &header,
                            const Architecture &architecture, bool ofKeys) {
  std::string key = concat({architecture.name, ".attention.head_count"});
  return ofKeys && header.find(key + "_kv") ? key + "_kv" : key;
}

/// The number that the key has; 0 if it has none.
static uint64_t headsOf(const Header &header, const Architecture &architecture,
                        bool ofKeys) {
  const Value *value = header.find(headsKey(header, architecture, ofKeys));
  auto counts = value ? value->integers() : std::nullopt;
  int64_t heads = 0; // 0 for layers without attention
  for (int64_t count : counts.value_or(std::vector<int64_t>()))
    heads = std::max(heads, count);
  return static_cast<uint64_t>(heads);
}

static Status wrongHeads(const Header &header, const Architecture &architecture,
                         bool ofKeys, const TensorInfo &tensor) {
  std::string key = headsKey(header, architecture, ofKeys);
  const Value *value = header.find(key);
  return Status(CRIA_INVALID_ARGUMENT,
                {"'", key, "' is ", value ? value->shown() : "missing",
                 ", expected heads that evenly divide the ", tensor.shape[0],
                 " rows of ", quote(tensor.name)});
}

/// Makes of `tensor`, whose rows are all queries, then all keys, then all
/// values, the tensor of queries (`i` is 0), of keys (1) or of values (2).
/// False if the heads do not divide its rows.
static bool takePart(const Header &header, const Architecture &architecture,
                     size_t i, TensorInfo &tensor) {
  uint64_t queries = headsOf(header, architecture, /*ofKeys=*/false),
           keys = headsOf(header, architecture, /*ofKeys=*/true),
           rows = tensor.shape[0], all = queries + 2 * keys;
  if (!queries || queries > rows || keys > rows || rows % all)
    return false;
  uint64_t before = i ? queries + (i - 1) * keys : 0, own = i ? keys : queries,
           bytes = (tensor.end - tensor.begin) / all;
  size_t kinds = tensor.name.rfind("qkv");
  tensor.name.replace(kinds, 3, 1, tensor.name[kinds + i]);
  tensor.shape[0] = rows / all * own;
  tensor.begin += bytes * before;
  tensor.end = tensor.begin + bytes * own;
  return true;
}

/// Sets how the file has the heads of values in turns; no groups if it does not
/// have them so. False if the tensor does not have the heads.
static bool findTurns(const Header &header, const Architecture &architecture,
                      const TensorInfo &tensor, Turns &turns) {
  bool follows = isOf(tensor.name, "attn_qkv") ||
                 isOf(tensor.name, "ssm_conv1d"), // queries and keys
      isWhole = isOf(tensor.name, "attn_gate"),
       isColumn = isOf(tensor.name, "ssm_out"),
       isOne = isOf(tensor.name, "ssm_alpha") ||
               isOf(tensor.name, "ssm_beta") || isOf(tensor.name, "ssm_dt") ||
               endsWith(tensor.name, ".ssm_a");
  if (!architecture.valuesInTurns || !(follows || isWhole || isColumn || isOne))
    return true;
  auto size = [&](const char *key) -> uint64_t {
    const Value *value = header.find(concat({architecture.name, ".ssm.", key}));
    int64_t got = value ? value->integer().value_or(0) : 0;
    return got > 0 && got <= 1 << 24 ? static_cast<uint64_t>(got) : 0;
  };
  uint64_t elements = tensor.elements();
  // The product; elements + 1 if it is more than the elements.
  auto times = [&](uint64_t a, uint64_t b) {
    return a && b > elements / a ? elements + 1 : a * b;
  };
  uint64_t groups = size("group_count"), heads = size("time_step_rank"),
           columns = tensor.shape.size() > 1 ? tensor.shape[1] : 1,
           values = isOne || !heads ? 1 : size("inner_size") / heads;
  turns = {follows ? times(times(2 * groups, size("state_size")), columns) : 0,
           isColumn ? values : times(values, columns), groups,
           groups ? heads / groups : 0};
  uint64_t all = times(turns.size, heads);
  if (!all || !groups || heads % groups || turns.first > elements ||
      (isColumn && all != columns) || all > elements ||
      (elements - turns.first) % all)
    return false;
  if (heads == groups)
    turns.groups = 0;
  return true;
}

/// The shape in Hugging Face's checkpoints, where `name` is the tensor's name.
static std::vector<uint64_t> shapeOf(const TensorInfo &tensor,
                                     const std::string &name) {
  std::vector<uint64_t> shape = tensor.shape;
  bool isRow = isOf(tensor.name, "ffn_gate_inp_shexp") ||
               endsWith(name, ".moe_statics.e_score_correction_bias");
  if (shape.size() == 1 && isRow)
    shape.insert(shape.begin(), 1); // a matrix of one row
  if (shape.size() == 2 &&
      (endsWith(name, ".conv.weight") || endsWith(name, ".conv1d.weight")))
    shape.insert(shape.begin() + 1, 1); // a filter for each channel
  bool isFlat = isOf(tensor.name, "ssm_norm") ||
                endsWith(tensor.name, ".ssm_a") ||
                endsWith(tensor.name, ".ssm_d");
  if (shape.size() == 2 && isFlat)
    shape = {shape[0] * shape[1]}; // a number for each head, or rows of a norm
  return shape;
}

static Result<TensorEntry> entryOf(const Header &header,
                                   const Architecture &architecture,
                                   const TensorInfo &tensor) {
  static constexpr std::string_view norm = "norm.weight";
  TensorEntry entry;
  entry.name = checkpointName(architecture, tensor.name);
  if (entry.name.empty())
    entry.name = tensor.name;
  entry.typeName = tensor.type->name;
  entry.type = dtypeOf(*tensor.type);
  entry.shape = shapeOf(tensor, entry.name);
  entry.begin = tensor.begin;
  entry.end = tensor.end;
  if (architecture.normsPlusOne && endsWith(tensor.name, norm) &&
      !isOf(tensor.name, "ssm_norm"))
    entry.decorate = minusOne;
  bool isDecay = endsWith(tensor.name, ".ssm_a");
  if (isDecay)
    entry.decorate = logOfMinus;
  bool ofKeys = isOf(tensor.name, "attn_k"),
       areJoined = architecture.joinsHeads && isOf(tensor.name, "attn_qkv"),
       areInPairs =
           architecture.interleaved && (ofKeys || isOf(tensor.name, "attn_q"));
  uint64_t heads = areJoined || areInPairs
                       ? headsOf(header, architecture, ofKeys)
                       : 1,
           rows = tensor.shape[0] / (areJoined ? 3 : 1),
           columns = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
  if (heads == 0 || rows % heads != 0 || (areInPairs && rows / heads % 2 != 0))
    return wrongHeads(header, architecture, ofKeys, tensor);
  rows /= heads;
  if (areInPairs)
    entry.decorate = [rows, columns](ElementsPtr x) {
      return interleaved(std::move(x), rows, columns);
    };
  Turns turns{0, rows * columns, areJoined ? heads : 0, 3};
  if (!areJoined && !findTurns(header, architecture, tensor, turns))
    return Status(CRIA_INVALID_ARGUMENT,
                  {"'", architecture.name, ".ssm' has heads that ",
                   quote(tensor.name), " does not have"});
  if (turns.groups)
    entry.decorate = [turns, block = tensor.type->elements,
                      isDecay](ElementsPtr x) {
      x = inGroups(std::move(x), turns, block);
      return isDecay ? logOfMinus(std::move(x)) : std::move(x);
    };
  return entry;
}

Result<std::vector<TensorFile>> openTensors(const std::string &path) {
  Result<std::vector<OpenFile>> parts = openFiles(path);
  if (!parts.ok())
    return parts.status();
  const Header &header = parts->front().header;
  const Value *name = header.find("general.architecture");
  const Architecture *architecture =
      name ? findArchitecture(name->text().value_or("")) : nullptr;
  if (!architecture)
    return Status(CRIA_UNIMPLEMENTED, {path, ": 'general.architecture' is ",
                                       name ? name->shown() : "missing",
                                       ", expected ", architectureNames()});
  std::vector<TensorFile> files;
  for (OpenFile &part : *parts) {
    TensorFile file{std::move(part.file), {}};
    for (const TensorInfo &tensor : part.header.tensors()) {
      if (isLeftOut(header, *architecture, tensor.name))
        continue;
      size_t count = checkpointName(*architecture, tensor.name).find('*') !=
                             std::string::npos
                         ? 3
                         : 1;
      for (size_t i = 0; i < count; ++i) {
        TensorInfo own = tensor;
        Result<TensorEntry> entry =
            count > 1 && !takePart(header, *architecture, i, own)
                ? wrongHeads(header, *architecture, /*ofKeys=*/false, tensor)
                : entryOf(header, *architecture, own);
        if (!entry.ok())
          return Status(entry.status().code(),
                        {path, ": ", entry.status().message()});
        file.tensors.push_back(std::move(*entry));
      }
    }
    files.push_back(std::move(file));
  }
  return files;
}

} // namespace cria::gguf
