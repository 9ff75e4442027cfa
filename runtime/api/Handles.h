/// What the handles of cria.h hold.
#pragma once

#include "runtime/base/Api.h"
#include "runtime/batch/Batch.h"
#include "runtime/device/Sampler.h"
#include "runtime/session/Model.h"
#include "runtime/session/Session.h"

struct cria_artifact {
  std::shared_ptr<const cria::Artifact> object;
};

struct cria_model {
  std::shared_ptr<const cria::Model> object;
  std::string warnings;
  std::string device;
};

struct cria_lora_set {
  std::shared_ptr<const cria::LoraSet> object;
};

struct cria_session {
  std::unique_ptr<cria::Session> object;
};

struct cria_sampler {
  std::shared_ptr<cria::Sampler> object; // shared with batches
};

struct cria_batch {
  std::unique_ptr<cria::Batch> object;
};
