#include "runtime/text/Generation.h"

#include "runtime/base/Json.h"
#include "runtime/gguf/Files.h"
#include "runtime/text/GenerationKeys.h"
#include "runtime/text/gguf/Text.h"

#include <algorithm>
#include <filesystem>

namespace cria {

static bool isNeutral(const nlohmann::json &value, const std::string &neutral) {
  bool isNothing =
      value.is_null() || value == false ||
      ((value.is_structured() || value.is_string()) && value.empty());
  return isNothing || neutral == "any" ||
         (!neutral.empty() && value == nlohmann::json::parse(neutral));
}

static const GenerationKey *findKey(const std::string &name) {
  for (const GenerationKey &key : GenerationKeys())
    if (key.name == name)
      return &key;
  return nullptr;
}

static void readKey(const JsonCursor &value, const std::string &name,
                    const std::vector<std::string> &allowed,
                    Generation &generation) {
  const GenerationKey *key = findKey(name);
  bool isAllowed =
      std::find(allowed.begin(), allowed.end(), name) != allowed.end();
  // null has a meaning only for top_k.
  if (!isAllowed && key && key->read &&
      (!value.raw().is_null() || name == "top_k"))
    return key->read(value, generation);
  if (!isAllowed && !key && !value.raw().is_null())
    return value.fail(concat({"is an unknown key; an unknown key is never "
                              "ignored, but --allow-unknown=",
                              printable(name), " lets it pass"}),
                      CRIA_UNIMPLEMENTED);
  if (!isAllowed && key && key->neutral == std::string("id")) {
    // Nothing reads the id, so it may be out of range.
    if (!value.raw().is_null() && wholeNumber(value.raw()).value_or(-1) == -1)
      readId(value, generation);
  } else if (!isAllowed && key && !isNeutral(value.raw(), key->neutral)) {
    return refuse(value, *key->neutral ? key->neutral : "none");
  }
  generation.irrelevant.push_back(name);
}

Result<Generation> Generation::parse(const nlohmann::json &document,
                                     const std::string &name,
                                     const std::vector<std::string> &allowed) {
  Status status;
  Generation generation;
  JsonCursor root(document, name, status);
  if (!document.is_object()) {
    root.expected("an object");
    return status;
  }
  for (const auto &[key, value] : document.items())
    readKey(root[key], key, allowed, generation);
  if (!status.ok())
    return status;
  return generation;
}

Status Generation::complete(const nlohmann::json &config,
                            const std::string &name) {
  Status status;
  if (!config.is_object())
    return status;
  JsonCursor root(config, name, status);
  if (auto value = root.find("bos_token_id"); value && !bos)
    findKey("bos_token_id")->read(*value, *this);
  if (auto value = root.find("eos_token_id"); value && eos.empty())
    findKey("eos_token_id")->read(*value, *this);
  return status;
}

Result<Generation> Generation::load(const std::string &folder,
                                    const std::vector<std::string> &allowed) {
  Generation generation;
  if (gguf::isGguf(folder)) {
    Result<gguf::TextIds> ids = gguf::readTextIds(folder);
    if (!ids.ok())
      return ids.status();
    generation.bos = ids->bos;
    generation.eos = ids->eos;
    return generation;
  }
  std::string path = folder + "/generation_config.json";
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    Result<JsonDocument> document = readJson(path);
    if (!document.ok())
      return document.status();
    Result<Generation> parsed = parse(document->root(), path, allowed);
    if (!parsed.ok())
      return parsed.status();
    generation = *parsed;
  }
  path = folder + "/config.json";
  if (std::filesystem::exists(path, ignored)) {
    Result<JsonDocument> config = readJson(path);
    if (!config.ok())
      return config.status();
    if (Status status = generation.complete(config->root(), path); !status.ok())
      return status;
  }
  return generation;
}

static Status checkId(const char *name, int64_t id, int64_t vocabSize) {
  if (id < vocabSize)
    return Status();
  return Status(CRIA_INVALID_ARGUMENT,
                std::string(name) + " " + std::to_string(id) +
                    ", expected less than the model's vocab_size " +
                    std::to_string(vocabSize));
}

Status Generation::fits(int64_t vocabSize) const {
  Status status = checkId("bos_token_id is", bos.value_or(0), vocabSize);
  for (int64_t id : eos)
    if (status.ok())
      status = checkId("eos_token_id has", id, vocabSize);
  return status;
}

SamplerOptions Generation::defaults() const {
  SamplerOptions result = options;
  if (!sample)
    result.temperature = 0;
  return result;
}

bool Generation::ends(int64_t id) const {
  return std::find(eos.begin(), eos.end(), id) != eos.end();
}

} // namespace cria
