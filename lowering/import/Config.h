/// The config.json of a model as data. Every key is honoured, known to be
/// irrelevant, or refused.
#pragma once

#include "lowering/import/Family.h"
#include "lowering/support/Json.h"

#include "llvm/Support/Error.h"
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cria {

/// The part of a model that every model has.
inline constexpr llvm::StringLiteral kTextPart = "text";

/// The types in which weights are stored and activations are computed.
enum class DType { F32, F16, BF16 };

/// The function of an MLP's gate.
enum class GateFunction {
  Silu,
  GeluTanh,
  Gelu,
  Relu,
  Relu2,
  Sigmoid,
  QuickGelu
};

/// How inverse frequencies are computed from the base: see Rope.h.
struct RopeConfig {
  enum class Kind {
    Default,
    Linear,
    Dynamic,
    Yarn,
    LongRope,
    Llama3,
    Proportional
  };
  Kind kind = Kind::Default;
  double theta = 10000.0;
  /// Elements of a head that are rotated.
  int64_t dims = 0;
  /// For proportional: the first of the frequencies that are 0.
  int64_t zerosFrom = 0;
  double factor = 1.0;
  /// The positions that the model was first trained for; for dynamic, all of
  /// the model's positions.
  int64_t originalPositions = 0;
  /// For llama3: frequencies with a wavelength above originalPositions /
  /// lowFreqFactor are divided by `factor`. Frequencies with one below
  /// originalPositions / highFreqFactor are kept. The others are a blend of
  /// both.
  double lowFreqFactor = 1.0, highFreqFactor = 4.0;
  /// For yarn: the numbers of turns between which frequencies are blended.
  double betaFast = 32, betaSlow = 1;
  bool truncate = true;
  /// For longrope: the divisor of each frequency, for texts of at most
  /// originalPositions tokens and for longer ones.
  std::vector<double> shortFactors, longFactors;
  /// The factor of cosines and sines.
  double scale = 1.0;
};

/// The properties that differ between the layers of one model.
struct LayerKind {
  bool rotates = true;
  /// The number of keys that a token sees, including its own; 0 means all.
  int64_t window = 0;
  /// The rope of the layer: an index into ModelConfig::ropes.
  size_t rope = 0;
  /// Whether the MLP is a mixture of experts.
  bool hasExperts = false;
  /// Whether there is attention, and what has a state in its place or beside
  /// it: see ConvModules, DeltaModules and MambaModules.
  bool attends = true, hasState = false;
  /// Whether there is an MLP.
  bool hasMlp = true;
  /// Whether the layer has no keys and values of its own. It then reads what an
  /// earlier layer has: the last one with keys and values, among the layers
  /// with a window if this one has a window, else among the others.
  bool sharesKv = false;

  bool operator==(const LayerKind &other) const {
    return rotates == other.rotates && window == other.window &&
           rope == other.rope && hasExperts == other.hasExperts &&
           attends == other.attends && hasState == other.hasState &&
           hasMlp == other.hasMlp && sharesKv == other.sharesKv;
  }
};

/// The KV heads of a layer, and the size of a head.
struct HeadSizes {
  int64_t kvHeads = 0, headDim = 0;

  bool operator==(const HeadSizes &other) const {
    return kvHeads == other.kvHeads && headDim == other.headDim;
  }
};

/// The fate of one key.
struct LedgerRow {
  std::string key;
  /// The value as JSON.
  std::string value;
  /// "honoured", "default" (honoured, but not in the file), "irrelevant" or
  /// "allowed" (unknown, and the user allowed it).
  std::string fate;
  /// What the key sets, or why it is irrelevant.
  std::string note;
};

/// The shape and arithmetic of one model. Sizes are within bounds whose
/// products do not overflow; `heads` is a multiple of `kvHeads`, `headDim` is
/// even.
struct ModelConfig {
  const Family *family = nullptr;
  int64_t vocabSize = 0;
  int64_t hiddenSize = 0;
  int64_t intermediateSize = 0; // of the MLP
  /// The experts of a layer, and those that a token chooses; 0 if the family
  /// has none.
  int64_t experts = 0, chosenExperts = 0;
  /// The width of an expert, and of the MLP beside the experts.
  int64_t expertSize = 0, sharedSize = 0;
  /// The groups of experts, and those that a token chooses its experts from.
  int64_t expertGroups = 1, keptGroups = 1;
  /// Whether the weights of a token's experts are divided by their sum, and
  /// their factor.
  bool normalizesExperts = false;
  /// Whether experts are chosen with the family's correction, if it has one.
  bool correctsScores = true;
  double expertScale = 1;
  /// The least sum by which ExpertModules::SumAtLeast divides.
  double leastScores = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kvHeads = 0;
  /// The size of a head; in latent attention, the part that is rotated.
  int64_t headDim = 0;
  /// The heads of layers that see all keys, if their sizes differ from the
  /// other layers'; else 0.
  HeadSizes fullHeads;
  /// Whether in these layers values are made of keys as they are before their
  /// norm.
  bool keysAreValues = false;
  /// How many of the last layers read the keys and values of earlier ones
  /// (LayerKind::sharesKv), and whether their MLPs are twice as wide.
  int64_t kvSharedLayers = 0;
  bool widensShared = false;
  /// The size of a layer's own embedding of each id, and the rows of the table;
  /// 0: layers have none.
  int64_t perLayerInputSize = 0, perLayerVocab = 0;
  /// For latent attention: the latent numbers of a token, and of its query (0
  /// if queries are made otherwise), the part of a query or key that is not
  /// rotated, and the size of a value.
  int64_t latentSize = 0, queryLatentSize = 0, plainDim = 0, valueDim = 0;
  /// Whether two tensors make keys and values of latent numbers.
  bool splitsLatentHeads = false;
  /// For convolutions: the tokens that a filter reads, its own included.
  int64_t filterSize = 0;
  /// For the delta rule and Mamba: heads, heads of keys, and sizes of a key and
  /// a value.
  int64_t deltaHeads = 0, deltaKeyHeads = 0, deltaKeyDim = 0, deltaValueDim = 0;
  /// Whether gates of the delta rule have a tensor of their own, although
  /// `fusesHeads` is true.
  bool splitsDeltaGates = false;
  /// Whether the weights hold the factors of what linears read and make.
  bool scalesWeights = false;
  int64_t maxPositions = 0; // max_position_embeddings
  /// If not 0, the positions beyond which the model computes what is not
  /// supported.
  int64_t mostPositions = 0;
  double normEps = 1e-5;
  bool normalizesHeads = true; // as the family does
  /// Of a vision tower: the pixels of a side of an image and of a patch, the
  /// channels of a pixel, and the registers.
  int64_t imageSize = 0, patchSize = 0, channels = 0, registers = 0;
  /// The layers of a tower that are computed, and whether the last norm is.
  int64_t usedLayers = 0;
  bool normalizesLast = true;
  /// What follows the tower, or is all of the model; null if nothing does. The
  /// sizes of its input and its result.
  const ProjectorModules *projector = nullptr;
  int64_t projectorIn = 0, projectorOut = 0;
  GateFunction projectorGate = GateFunction::Gelu;
  bool projectorBias = true;
  /// One rope, or two: of layers that see all keys, and of layers with a
  /// window.
  std::vector<RopeConfig> ropes;
  bool interleavesRope = false; // see RopeRule
  std::vector<LayerKind> kinds; // of each layer
  GateFunction gate = GateFunction::Silu;
  /// The function of what Mamba or a delta rule convolved.
  GateFunction convFunction = GateFunction::Silu;
  /// Whether a norm follows Mamba's scan, and whether it is in front of the
  /// gate.
  bool normalizesScan = true, normalizesFirst = false;
  /// Factors of what Mamba's first linear makes: gates, values, keys, queries
  /// and steps.
  std::array<double, 5> mambaFactors = {1, 1, 1, 1, 1};
  /// Factors of what Mamba, attention and an MLP compute, and of its gate.
  double mambaScale = 1, attentionOutScale = 1, mlpScale = 1, gateScale = 1;
  /// The limit and the alpha of a gate that has them: see llama.swiglu.
  double gateLimit = 0, gateAlpha = 1;
  /// Factors of embeddings, attention scores, updates of the residual stream
  /// and logits.
  double embeddingScale = 1, attentionScale = 1, residualScale = 1,
         logitScale = 1;
  /// The factor of the logits of routers.
  double routerScale = 1;
  /// Soft caps of attention scores and logits; 0: none.
  double attentionSoftcap = 0, logitSoftcap = 0;
  bool tied = false;      // the head is the embedding
  bool seesAhead = false; // see Family
  /// Which linears have biases: of queries, keys and values; of attention's
  /// result; of MLPs; the head; of convolutions.
  bool queryKeyValueBias = false, outBias = false, mlpBias = false,
       headBias = false, convBias = false;
  DType dtype = DType::F32;
  /// The block formats of a GGUF file, as --quantize takes them.
  std::string quantize;
  /// The whole config as compact JSON, keys sorted.
  std::string json;
  std::vector<LedgerRow> ledger;     // by key
  std::vector<std::string> warnings; // lines for the user

  /// Whether a layer has the sizes `fullHeads`.
  bool hasFullHeads(const LayerKind &kind) const {
    return fullHeads.headDim && !kind.window;
  }
  HeadSizes headsOf(const LayerKind &kind) const {
    return hasFullHeads(kind) ? fullHeads : HeadSizes{kvHeads, headDim};
  }
  /// Whether the model reads rows of numbers in place of ids.
  bool takesRows() const { return family->readsImages() || projector; }
};

/// Reads the text of a config.json. Unknown keys are refused, except those in
/// `allowed`. The model belongs to a family of `table`. Of a model of several
/// parts, reads the text, or the part with the name `part` (ImagePart). Errors
/// are one line, such as "'hidden_size' is missing".
llvm::Expected<ModelConfig>
parseConfig(llvm::StringRef text, llvm::ArrayRef<std::string> allowed = {},
            llvm::ArrayRef<Family> table = families(),
            llvm::StringRef part = kTextPart);

/// The config with the family's own names of keys in place of the usual ones.
nlohmann::json inOwnNames(const Family &family, nlohmann::json config);

/// Reads a config.json of at most 4 MiB, or the metadata of a GGUF file (see
/// Gguf.h); errors start with the path.
llvm::Expected<ModelConfig> readConfig(llvm::StringRef path,
                                       llvm::ArrayRef<std::string> allowed = {},
                                       llvm::StringRef part = kTextPart);

} // namespace cria
