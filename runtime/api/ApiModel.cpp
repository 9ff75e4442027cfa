#include "runtime/api/Handles.h"

#include "runtime/base/Limits.h"
#include "runtime/ranks/JoinRanks.h"
#include "runtime/session/Devices.h"
#include "runtime/session/Preflight.h"

using namespace cria;

/// Gives `artifact` to the caller.
static Status
giveArtifact(const Result<std::shared_ptr<const Artifact>> &opened,
             cria_artifact **artifact) {
  if (opened.ok())
    *artifact = new cria_artifact{*opened};
  return opened.status();
}

cria_status cria_artifact_open(const char *path, cria_artifact **artifact,
                               cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{path, "path"}, {artifact, "artifact"}});
    if (!status.ok())
      return status;
    *artifact = nullptr;
    return giveArtifact(Artifact::open(path), artifact);
  });
}

cria_status cria_artifact_open_memory(const void *data, size_t size,
                                      cria_artifact **artifact,
                                      cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{data, "data"}, {artifact, "artifact"}});
    if (!status.ok())
      return status;
    *artifact = nullptr;
    return giveArtifact(
        Artifact::openMemory({static_cast<const char *>(data), size}),
        artifact);
  });
}

cria_status cria_artifact_open_fd(int descriptor, cria_artifact **artifact,
                                  cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(artifact, "artifact");
    if (!status.ok())
      return status;
    *artifact = nullptr;
    return giveArtifact(Artifact::openDescriptor(descriptor), artifact);
  });
}

void cria_artifact_free(cria_artifact **artifact) { freeHandle(artifact); }

cria_status cria_artifact_manifest(const cria_artifact *artifact,
                                   const char **json, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{artifact, "artifact"}, {json, "json"}});
    if (status.ok())
      *json = artifact->object->manifestText().c_str();
    return status;
  });
}

static cria_artifact_info infoOf(const Artifact &artifact) {
  const Manifest &manifest = artifact.manifest();
  cria_artifact_info info = {};
  info.vocab_size = manifest.vocabSize;
  info.max_seq = manifest.maxSeq;
  info.chunk = manifest.chunk;
  info.weight_bytes = manifest.weightBytes();
  info.cache_bytes = manifest.cacheBytes();
  info.arena_bytes = manifest.scratchBytes();
  info.file_bytes = artifact.fileBytes();
  info.hidden_size = manifest.hiddenSize;
  return info;
}

cria_status cria_artifact_get_info(const cria_artifact *artifact,
                                   cria_artifact_info *info,
                                   cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(artifact, "artifact");
    return status.ok() ? writeStruct(infoOf(*artifact->object), info, "info")
                       : status;
  });
}

cria_status cria_artifact_inspect(const char *path, char **json,
                                  cria_artifact_info *info, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{path, "path"}, {json, "json"}});
    if (status.ok() && info)
      status = checkStruct(info, "info");
    if (!status.ok())
      return status;
    *json = nullptr;
    auto artifact = Artifact::inspect(path);
    if (!artifact.ok())
      return artifact.status();
    const std::string &text = (*artifact)->manifestText();
    *json = static_cast<char *>(copyOut(text.c_str(), text.size() + 1));
    return info ? writeStruct(infoOf(**artifact), info, "info") : status;
  });
}

cria_status cria_model_check(const cria_artifact *artifact, const char *weights,
                             char **text, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(
        {{artifact, "artifact"}, {weights, "weights"}, {text, "report"}});
    if (!status.ok())
      return status;
    *text = nullptr;
    auto checkpoint = Checkpoint::open(weights);
    if (!checkpoint.ok())
      return checkpoint.status();
    const Artifact &object = *artifact->object;
    Manifest manifest = object.manifest().ofRank(0);
    Binding binding = matchWeights(manifest, *checkpoint);
    *text = strdup(preflightReport(object, binding, weights, manifest.maxSeq,
                                   availableMemory())
                       .c_str());
    if (!*text)
      throw std::bad_alloc();
    return binding.status(weights);
  });
}

/// Gives `model` to the caller, with its warnings as one text.
static Status giveModel(const Result<std::shared_ptr<const Model>> &model,
                        cria_model **handle) {
  if (!model.ok())
    return model.status();
  auto given = std::make_unique<cria_model>();
  given->object = *model;
  for (const std::string &line : (*model)->warnings())
    given->warnings += line + "\n";
  given->device = (*model)->device();
  *handle = given.release();
  return Status();
}

cria_status cria_model_bind(const cria_artifact *artifact, const char *weights,
                            cria_model **model, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(
        {{artifact, "artifact"}, {weights, "weights"}, {model, "model"}});
    if (!status.ok())
      return status;
    *model = nullptr;
    return giveModel(Model::bind(artifact->object, weights), model);
  });
}

cria_status cria_model_random(const cria_artifact *artifact, uint64_t seed,
                              cria_model **model, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{artifact, "artifact"}, {model, "model"}});
    if (!status.ok())
      return status;
    *model = nullptr;
    return giveModel(Model::random(artifact->object, seed), model);
  });
}

/// Reads a list of adapters. The `size` of the first element is the size of all
/// elements; it may differ from this library's size.
static Status readLoras(const cria_lora *list, size_t count,
                        std::vector<LoraSource> &loras) {
  if (count == 0)
    return Status();
  if (Status status = notNull(list, "loras"); !status.ok())
    return status;
  size_t step = list->size;
  auto *at = reinterpret_cast<const char *>(list);
  for (size_t i = 0; i < count; ++i, at += step) {
    auto *given = reinterpret_cast<const cria_lora *>(at);
    cria_lora lora;
    Status status = readStruct(given, "lora", lora);
    if (status.ok() && given->size != step)
      status = Status(CRIA_INVALID_ARGUMENT,
                      {"loras[", i, "].size is ", given->size,
                       ", expected that of loras[0], ", step});
    if (status.ok())
      status = notNull(lora.folder, "lora->folder");
    if (status.ok() && lora.scale == 0)
      status = Status(CRIA_INVALID_ARGUMENT,
                      std::string(lora.folder) +
                          ": lora->scale is 0, expected 1 for the adapter as "
                          "it was trained; leave out one that is to add "
                          "nothing");
    if (!status.ok())
      return status;
    loras.push_back({lora.folder, lora.scale});
  }
  return Status();
}

/// The weights that `options` ask for.
static Status readSource(const cria_model_options &options,
                         WeightSource &source) {
  source.seed = options.seed;
  source.loraUnmerged = options.lora_unmerged != 0;
  source.allowUnused = options.allow_unused != 0;
  if (options.weights)
    source.checkpoint = options.weights;
  if (options.weight_cache)
    source.cache = options.weight_cache;
  if (options.progress)
    source.progress = [call = options.progress, data = options.progress_data](
                          uint64_t done, uint64_t total) {
      call(data, done, total);
    };
  source.log = {options.log, options.log_data};
  return readLoras(options.loras, options.lora_count, source.loras);
}

/// INVALID_ARGUMENT unless `device` is a cria_device.
static Status checkDevice(int32_t device) {
  if (device >= CRIA_DEVICE_AUTO && device <= CRIA_DEVICE_EMULATED)
    return Status();
  return Status(CRIA_INVALID_ARGUMENT,
                {"device is ", device, ", no cria_device"});
}

/// The ranks that `options` name, if any, as the runtime has them.
static Status readRanks(const cria_model_options &options,
                        std::optional<CriaRanks> &ranks) {
  if (!options.ranks)
    return Status();
  cria_ranks given;
  Status status = readStruct(options.ranks, "ranks", given);
  if (status.ok())
    status = notNull(
        {{reinterpret_cast<void *>(given.sum), "ranks->sum"},
         {reinterpret_cast<void *>(given.max), "ranks->max"},
         {reinterpret_cast<void *>(given.broadcast), "ranks->broadcast"}});
  if (!status.ok())
    return status;
  if (given.rank < 0 || given.rank >= given.count || given.local < 0 ||
      given.local >= given.locals)
    return Status(CRIA_INVALID_ARGUMENT,
                  {"ranks: rank ", given.rank, " of ", given.count,
                   ", on its machine ", given.local, " of ", given.locals,
                   ", expected numbers from 0 below the counts"});
  ranks =
      CriaRanks{given.rank, given.count, given.local, given.locals,    nullptr,
                given.data, given.sum,   given.max,   given.broadcast, nullptr};
  return status;
}

cria_status cria_ranks_join(cria_ranks *ranks, cria_error *error) {
  return guarded(error, [&] {
    Status status = checkStruct(ranks, "ranks");
    if (!status.ok())
      return status;
    auto joined = joinRanks();
    if (!joined.ok())
      return joined.status();
    const CriaRanks &known = **joined;
    cria_ranks given = {0,           known.rank,   known.size,
                        known.local, known.locals, known.data,
                        known.sum,   known.max,    known.broadcast};
    return writeStruct(given, ranks, "ranks");
  });
}

cria_status cria_ranks_leave(cria_error *error) {
  return guarded(error, [&] {
    leaveRanks();
    return Status();
  });
}

/// The device that `options` ask for.
static Status readDevice(const cria_model_options &options,
                         DeviceOptions &device) {
  if (Status status = checkDevice(options.device); !status.ok())
    return status;
  device.kind = static_cast<DeviceKind>(options.device);
  if (options.device_count == 0)
    return Status();
  if (options.device_count > 1)
    return Status(CRIA_UNIMPLEMENTED,
                  {"device_count is ", options.device_count,
                   ", expected 0 or 1: a model is on one device"});
  if (device.kind == DeviceKind::Cpu)
    return Status(CRIA_INVALID_ARGUMENT,
                  "device_count is 1 for the CPU, which has no index");
  if (Status status = notNull(options.devices, "devices"); !status.ok())
    return status;
  device.index = *options.devices;
  return Status();
}

cria_status cria_model_load(const cria_artifact *artifact,
                            const cria_model_options *options,
                            cria_model **model, cria_error *error) {
  return guarded(error, [&] {
    cria_model_options asked;
    Status status =
        first({notNull(artifact, "artifact"),
               readStruct(options, "options", asked), notNull(model, "model")});
    if (!status.ok())
      return status;
    *model = nullptr;
    WeightSource source;
    DeviceOptions device;
    std::optional<CriaRanks> ranks;
    status = first({readDevice(asked, device), readRanks(asked, ranks)});
    if (ranks)
      device.ranks = &*ranks;
    if (status.ok())
      status = readSource(asked, source);
    if (!status.ok())
      return status;
    return giveModel(Model::load(artifact->object, source, device), model);
  });
}

void cria_model_free(cria_model **model) { freeHandle(model); }

cria_status cria_model_warnings(const cria_model *model, const char **text,
                                cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{model, "model"}, {text, "text"}});
    if (status.ok())
      *text = model->warnings.c_str();
    return status;
  });
}

cria_status cria_model_device(const cria_model *model, const char **text,
                              cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{model, "model"}, {text, "text"}});
    if (status.ok())
      *text = model->device.c_str();
    return status;
  });
}

cria_status cria_model_get_info(const cria_model *model, cria_model_info *info,
                                cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(model, "model");
    if (!status.ok())
      return status;
    cria_model_info known = {};
    known.mapped_bytes = model->object->mappedBytes();
    known.copied_bytes = model->object->copiedBytes();
    known.bind_seconds = model->object->bindSeconds();
    return writeStruct(known, info, "info");
  });
}

cria_status cria_lora_set_create(const cria_model *model,
                                 const cria_lora *loras, size_t count,
                                 cria_lora_set **set, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{model, "model"}, {set, "set"}});
    if (!status.ok())
      return status;
    *set = nullptr;
    std::vector<LoraSource> sources;
    status = readLoras(loras, count, sources);
    if (!status.ok())
      return status;
    auto loaded = LoraSet::load(model->object, sources);
    if (loaded.ok())
      *set = new cria_lora_set{*loaded};
    return loaded.status();
  });
}

void cria_lora_set_free(cria_lora_set **set) { freeHandle(set); }

cria_status cria_device_count(int32_t device, int32_t *count,
                              cria_error *error) {
  return guarded(error, [&] {
    Status status = first({notNull(count, "count"), checkDevice(device)});
    if (!status.ok())
      return status;
    *count = 0;
    Result<int> found = deviceCount(static_cast<DeviceKind>(device));
    if (found.ok())
      *count = *found;
    return found.status();
  });
}

cria_status cria_device_get_info(int32_t device, int32_t index,
                                 cria_device_info *info, cria_error *error) {
  return guarded(error, [&] {
    Status status = first({checkStruct(info, "info"), checkDevice(device)});
    if (!status.ok())
      return status;
    Result<DeviceInfo> found =
        deviceInfo(static_cast<DeviceKind>(device), index);
    if (!found.ok())
      return found.status();
    cria_device_info known = {};
    known.memory_bytes = found->memory;
    known.free_bytes = found->free;
    known.compute_capability = found->capability;
    found->name.copy(known.name, sizeof(known.name) - 1);
    return writeStruct(known, info, "info");
  });
}
