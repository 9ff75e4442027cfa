#include "runtime/Api.h"

#include "runtime/Preflight.h"

#include <algorithm>
#include <cstring>

using namespace cria;

cria_status cria::report(const Status &status, cria_error *error) {
  if (error) {
    error->status = status.code();
    const std::string &text = status.message();
    size_t length = std::min(text.size(), sizeof(error->message) - 1);
    while (length < text.size() && length > 0 && (text[length] & 0xc0) == 0x80)
      --length; // the message stays UTF-8
    memcpy(error->message, text.data(), length);
    error->message[length] = '\0';
  }
  return status.code();
}

/// The first of `checks` that failed.
Status cria::first(std::initializer_list<Status> checks) {
  for (const Status &status : checks)
    if (!status.ok())
      return status;
  return Status();
}

Status cria::notNull(const void *pointer, const char *what) {
  if (pointer)
    return Status();
  return Status(CRIA_INVALID_ARGUMENT, std::string(what) + " is NULL");
}

Status cria::hasSize(size_t found, size_t expected, const char *what) {
  if (found == expected)
    return Status();
  return Status(CRIA_INVALID_ARGUMENT,
                std::string(what) + "->size is " + std::to_string(found) +
                    ", expected " + std::to_string(expected));
}

#define CRIA_TEXT_OF(token) #token
#define CRIA_TEXT(macro) CRIA_TEXT_OF(macro)

const char *cria_version(void) {
  return CRIA_TEXT(CRIA_VERSION_MAJOR) "." CRIA_TEXT(
      CRIA_VERSION_MINOR) "." CRIA_TEXT(CRIA_VERSION_PATCH);
}

const char *cria_status_name(cria_status status) {
  switch (status) {
  case CRIA_OK:
    return "OK";
  case CRIA_CANCELLED:
    return "CANCELLED";
  case CRIA_INVALID_ARGUMENT:
    return "INVALID_ARGUMENT";
  case CRIA_DEADLINE_EXCEEDED:
    return "DEADLINE_EXCEEDED";
  case CRIA_NOT_FOUND:
    return "NOT_FOUND";
  case CRIA_PERMISSION_DENIED:
    return "PERMISSION_DENIED";
  case CRIA_RESOURCE_EXHAUSTED:
    return "RESOURCE_EXHAUSTED";
  case CRIA_FAILED_PRECONDITION:
    return "FAILED_PRECONDITION";
  case CRIA_ABORTED:
    return "ABORTED";
  case CRIA_OUT_OF_RANGE:
    return "OUT_OF_RANGE";
  case CRIA_UNIMPLEMENTED:
    return "UNIMPLEMENTED";
  case CRIA_INTERNAL:
    return "INTERNAL";
  case CRIA_UNAVAILABLE:
    return "UNAVAILABLE";
  case CRIA_DATA_LOSS:
    return "DATA_LOSS";
  case CRIA_INCOMPATIBLE:
    return "INCOMPATIBLE";
  }
  return "UNKNOWN";
}

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
    Status status =
        first({notNull(path, "path"), notNull(artifact, "artifact")});
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
    Status status =
        first({notNull(data, "data"), notNull(artifact, "artifact")});
    if (!status.ok())
      return status;
    *artifact = nullptr;
    return giveArtifact(
        Artifact::openMemory({static_cast<const char *>(data), size}),
        artifact);
  });
}

void cria_artifact_free(cria_artifact **artifact) { freeHandle(artifact); }

cria_status cria_artifact_manifest(const cria_artifact *artifact,
                                   const char **json, cria_error *error) {
  return guarded(error, [&] {
    Status status =
        first({notNull(artifact, "artifact"), notNull(json, "json")});
    if (status.ok())
      *json = artifact->object->manifestText().c_str();
    return status;
  });
}

/// Says the sizes of `artifact`; `info` has its size.
static Status giveInfo(const Artifact &artifact, cria_artifact_info *info) {
  Status status = hasSize(info->size, sizeof(*info), "info");
  if (!status.ok())
    return status;
  const Manifest &manifest = artifact.manifest();
  info->vocab_size = manifest.vocabSize;
  info->max_seq = manifest.maxSeq;
  info->chunk = manifest.chunk;
  info->weight_bytes = manifest.weightBytes();
  info->cache_bytes = manifest.cacheBytes();
  info->arena_bytes = manifest.scratchBytes();
  info->file_bytes = artifact.fileBytes();
  return status;
}

cria_status cria_artifact_get_info(const cria_artifact *artifact,
                                   cria_artifact_info *info,
                                   cria_error *error) {
  return guarded(error, [&] {
    Status status =
        first({notNull(artifact, "artifact"), notNull(info, "info")});
    return status.ok() ? giveInfo(*artifact->object, info) : status;
  });
}

cria_status cria_artifact_inspect(const char *path, char **json,
                                  cria_artifact_info *info, cria_error *error) {
  return guarded(error, [&] {
    Status status = first({notNull(path, "path"), notNull(json, "json")});
    if (!status.ok())
      return status;
    *json = nullptr;
    auto artifact = Artifact::inspect(path);
    if (artifact.ok() && info)
      status = giveInfo(**artifact, info);
    if (!artifact.ok() || !status.ok())
      return artifact.ok() ? status : artifact.status();
    const std::string &text = (*artifact)->manifestText();
    *json = static_cast<char *>(copyOut(text.c_str(), text.size() + 1));
    return status;
  });
}

cria_status cria_model_check(const cria_artifact *artifact, const char *weights,
                             char **text, cria_error *error) {
  return guarded(error, [&] {
    Status status =
        first({notNull(artifact, "artifact"), notNull(weights, "weights"),
               notNull(text, "report")});
    if (!status.ok())
      return status;
    *text = nullptr;
    auto checkpoint = Checkpoint::open(weights);
    if (!checkpoint.ok())
      return checkpoint.status();
    const Artifact &object = *artifact->object;
    Binding binding = matchWeights(object.manifest(), *checkpoint);
    *text = strdup(
        preflightReport(object, binding, weights, object.manifest().maxSeq)
            .c_str());
    if (!*text)
      throw std::bad_alloc();
    return binding.status(weights);
  });
}

/// Gives `model` to the caller, its warnings as one text.
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
    Status status =
        first({notNull(artifact, "artifact"), notNull(weights, "weights"),
               notNull(model, "model")});
    if (!status.ok())
      return status;
    *model = nullptr;
    return giveModel(Model::bind(artifact->object, weights), model);
  });
}

cria_status cria_model_random(const cria_artifact *artifact, uint64_t seed,
                              cria_model **model, cria_error *error) {
  return guarded(error, [&] {
    Status status =
        first({notNull(artifact, "artifact"), notNull(model, "model")});
    if (!status.ok())
      return status;
    *model = nullptr;
    return giveModel(Model::random(artifact->object, seed), model);
  });
}

/// The weights that `options` ask for.
static Status readSource(const cria_model_options &options,
                         WeightSource &source) {
  source.seed = options.seed;
  source.loraUnmerged = options.lora_unmerged != 0;
  source.allowUnused = options.allow_unused != 0;
  if (options.weights)
    source.checkpoint = options.weights;
  if (options.lora_count)
    if (Status status = notNull(options.loras, "loras"); !status.ok())
      return status;
  for (size_t i = 0; i < options.lora_count; ++i) {
    const cria_lora &lora = options.loras[i];
    Status status = hasSize(lora.size, sizeof(lora), "lora");
    if (status.ok())
      status = notNull(lora.folder, "lora->folder");
    if (!status.ok())
      return status;
    source.loras.push_back({lora.folder, lora.scale});
  }
  return Status();
}

cria_status cria_model_load(const cria_artifact *artifact,
                            const cria_model_options *options,
                            cria_model **model, cria_error *error) {
  return guarded(error, [&] {
    Status status =
        first({notNull(artifact, "artifact"), notNull(options, "options"),
               notNull(model, "model")});
    if (status.ok())
      status = hasSize(options->size, sizeof(*options), "options");
    if (!status.ok())
      return status;
    *model = nullptr;
    if (options->device < CRIA_DEVICE_AUTO ||
        options->device > CRIA_DEVICE_EMULATED)
      return Status(CRIA_INVALID_ARGUMENT, "device is " +
                                               std::to_string(options->device) +
                                               ", no cria_device");
    WeightSource source;
    if (Status read = readSource(*options, source); !read.ok())
      return read;
    DeviceOptions device;
    device.kind = static_cast<DeviceKind>(options->device);
    device.cache = options->no_cache == 0;
    return giveModel(Model::load(artifact->object, source, device), model);
  });
}

void cria_model_free(cria_model **model) { freeHandle(model); }

cria_status cria_model_warnings(const cria_model *model, const char **text,
                                cria_error *error) {
  return guarded(error, [&] {
    Status status = first({notNull(model, "model"), notNull(text, "text")});
    if (status.ok())
      *text = model->warnings.c_str();
    return status;
  });
}

cria_status cria_model_device(const cria_model *model, const char **text,
                              cria_error *error) {
  return guarded(error, [&] {
    Status status = first({notNull(model, "model"), notNull(text, "text")});
    if (status.ok())
      *text = model->device.c_str();
    return status;
  });
}

cria_status cria_model_get_info(const cria_model *model, cria_model_info *info,
                                cria_error *error) {
  return guarded(error, [&] {
    Status status = first({notNull(model, "model"), notNull(info, "info")});
    if (status.ok())
      status = hasSize(info->size, sizeof(*info), "info");
    if (!status.ok())
      return status;
    info->mapped_bytes = model->object->mappedBytes();
    info->copied_bytes = model->object->copiedBytes();
    info->bind_seconds = model->object->bindSeconds();
    return status;
  });
}
