#include "runtime/Api.h"

#include "runtime/Preflight.h"

#include <algorithm>
#include <cstring>

using namespace cria;

/// The first bytes of `text`, at most `most`, that end no UTF-8 character in
/// its middle.
static std::string_view cut(std::string_view text, size_t most) {
  if (text.size() <= most)
    return text;
  auto continues = [](char byte) { return (byte & 0xc0) == 0x80; };
  while (most > 0 && continues(text[most]))
    --most;
  return text.substr(0, most);
}

cria_status cria::report(cria_status code, std::string_view message,
                         cria_error *error) {
  if (!error)
    return code;
  size_t size = std::min(error->size, sizeof(*error));
  if (size >= offsetof(cria_error, message))
    error->status = code;
  if (size > offsetof(cria_error, message)) {
    size_t room =
        std::min(size - offsetof(cria_error, message), sizeof(error->message));
    message = cut(message, room - 1);
    memcpy(error->message, message.data(), message.size());
    error->message[message.size()] = '\0';
  }
  return code;
}

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

/// A larger `size` was never set.
static constexpr size_t maxStructBytes = 4096;

StructFit cria::structFit(const void *given, size_t size, size_t known,
                          size_t alignment) {
  // Compilers make no struct that is not a multiple of its alignment.
  if (size < sizeof(size_t) || size > maxStructBytes || size % alignment != 0)
    return StructFit::WrongSize;
  auto *bytes = static_cast<const char *>(given);
  bool isKnown =
      size <= known || std::all_of(bytes + known, bytes + size,
                                   [](char byte) { return byte == 0; });
  return isKnown ? StructFit::Good : StructFit::UnknownFields;
}

Status cria::checkStruct(const void *given, size_t size, size_t known,
                         size_t alignment, const char *what) {
  switch (structFit(given, size, known, alignment)) {
  case StructFit::Good:
    break;
  case StructFit::WrongSize:
    return Status(CRIA_INVALID_ARGUMENT,
                  std::string(what) + "->size is " + std::to_string(size) +
                      ", expected " + std::to_string(known) +
                      ": CRIA_INIT it first");
  case StructFit::UnknownFields:
    return Status(CRIA_INVALID_ARGUMENT,
                  std::string(what) + " has " + std::to_string(size) +
                      " bytes and sets some after the " +
                      std::to_string(known) + " that Cria " + cria_version() +
                      " knows: CRIA_INIT it first, or use a newer library");
  }
  return Status();
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
    Status status = first({notNull(path, "path"), notNull(json, "json")});
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

/// The adapters that `options` list. The elements have the size that the first
/// one says, which need not be this library's.
static Status readLoras(const cria_model_options &options,
                        std::vector<LoraSource> &loras) {
  if (options.lora_count == 0)
    return Status();
  if (Status status = notNull(options.loras, "loras"); !status.ok())
    return status;
  size_t step = options.loras->size;
  auto *at = reinterpret_cast<const char *>(options.loras);
  for (size_t i = 0; i < options.lora_count; ++i, at += step) {
    auto *given = reinterpret_cast<const cria_lora *>(at);
    cria_lora lora;
    Status status = readStruct(given, "lora", lora);
    if (status.ok() && given->size != step)
      status =
          Status(CRIA_INVALID_ARGUMENT,
                 "loras[" + std::to_string(i) + "].size is " +
                     std::to_string(given->size) +
                     ", expected that of loras[0], " + std::to_string(step));
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
  return readLoras(options, source.loras);
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
    if (asked.device < CRIA_DEVICE_AUTO || asked.device > CRIA_DEVICE_EMULATED)
      return Status(CRIA_INVALID_ARGUMENT, "device is " +
                                               std::to_string(asked.device) +
                                               ", no cria_device");
    WeightSource source;
    if (Status read = readSource(asked, source); !read.ok())
      return read;
    DeviceOptions device;
    device.kind = static_cast<DeviceKind>(asked.device);
    device.cache = asked.no_cache == 0;
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
