/// The families of models as data: a family is a row of a table, not code. A
/// row says which modules a layer has, in which order, what they compute, how
/// checkpoints call them, and which keys of config.json the family reads.
/// Numbers come from the config, through the ledger. Only the reader of GGUF
/// files names families, too.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <utility>
#include <vector>

namespace cria {

/// What all norms of a family compute, and which tensors they have.
struct NormKind {
  /// Root mean squares, or means and variances.
  enum Function { RMS, Layer } function = RMS;
  /// Whether an RMS norm multiplies before it rounds. Layer norms always do.
  bool roundsOnce = false;
  /// Whether norms multiply with 1 + weight.
  bool unitOffset = false;
  bool hasWeight = true, hasBias = false;
};

/// The norms of a layer: names of modules, empty if there is no such norm. End
/// norms normalize results, the others inputs.
struct LayerNorms {
  llvm::StringLiteral attention = "input_layernorm", attentionEnd = "",
                      mlp = "post_attention_layernorm", mlpEnd = "";
};

/// The elements over which queries and keys are normalized.
enum class HeadNorm { None, EachHead, AllHeads, EachHeadAfterRope };

/// The modules of attention.
struct AttentionModules {
  llvm::StringLiteral query = "self_attn.q_proj", key = "self_attn.k_proj",
                      value = "self_attn.v_proj", out = "self_attn.o_proj";
  /// The module with the rows of query, key and value, one after the other;
  /// empty if each has its own.
  llvm::StringLiteral fused = "";
  /// Whether it has the rows of each head's query, key and value instead, one
  /// head after the other.
  bool fusesHeads = false;
  llvm::StringLiteral queryNorm = "self_attn.q_norm",
                      keyNorm = "self_attn.k_norm";
  /// Whether the query's module has the rows of each head's query and then of a
  /// gate, whose sigmoid is a factor of what the head computes.
  bool gatesHeads = false;
  /// The tensor with a sink for each query head; empty if there is none.
  llvm::StringLiteral sinks = "";
  /// Whether each head's values are normalized, without weights.
  bool normalizesValues = false;
};

/// The modules that only latent attention has; `query` and `out` are in
/// AttentionModules. A token has a row of latent numbers and one rotated key.
/// The keys and values of all heads are products of the latent numbers, so
/// only the row and the rotated key are cached.
struct LatentModules {
  /// Makes the latent numbers and the rotated key; empty if the family has
  /// other attention.
  llvm::StringLiteral row = "";
  /// The norm of the latent numbers.
  llvm::StringLiteral norm = "self_attn.kv_a_layernorm";
  /// For each head, the rows that make its key, and then the rows that make its
  /// value.
  llvm::StringLiteral heads = "self_attn.kv_b_proj";
  /// The two tensors that are in place of `heads` if split_kv_b is true, as in
  /// GGUF files. They have a matrix for each head; `keyHeads` has the rows of
  /// keys as columns.
  llvm::StringLiteral keyHeads = "self_attn.k_b_proj",
                      valueHeads = "self_attn.v_b_proj";
  /// If queries are products of latent numbers, too: what makes these, their
  /// norm, and what makes queries of them.
  llvm::StringLiteral queryRow = "self_attn.q_a_proj",
                      queryNorm = "self_attn.q_a_layernorm",
                      queryHeads = "self_attn.q_b_proj";
  /// The epsilon of the two norms.
  double eps = 1e-6;
};

/// The modules of a gated convolution over the tokens before, in layers that
/// have it in place of attention. Its linears have biases if its filters do.
struct ConvModules {
  /// The rows of the gate, of the factor of the result, and of what is
  /// convolved; empty if the family has no such layers.
  llvm::StringLiteral in = "";
  llvm::StringLiteral filter = "conv.conv", out = "conv.out_proj";
};

/// The modules of a gated delta rule, in layers that have it in place of
/// attention: see llama.delta_rule.
struct DeltaModules {
  /// The rows of queries, keys and values, which are convolved first; empty if
  /// the family has no such layers.
  llvm::StringLiteral in = "";
  /// Whether one tensor has the rows of several kinds, one head of keys after
  /// the other. `in` has for each: its query, its key, the values of the heads
  /// that share the key, and their gates. `rate` has for each: the rates of
  /// these heads, and their steps.
  bool fusesHeads = false;
  /// If `fusesHeads` and split_qkvz are true, as for GGUF files, two tensors
  /// are in place of `in`: this one has the rows of all queries, keys and
  /// values, and `gate` has the rows of the gates.
  llvm::StringLiteral splitIn = "linear_attn.in_proj_qkv";
  llvm::StringLiteral filter = "linear_attn.conv1d";
  /// Of each head: a gate for each number, the rate, and the step with the
  /// tensors of its bias and of the logarithm of its decay.
  llvm::StringLiteral gate = "linear_attn.in_proj_z",
                      rate = "linear_attn.in_proj_b",
                      step = "linear_attn.in_proj_a",
                      stepBias = "linear_attn.dt_bias",
                      logDecay = "linear_attn.A_log";
  /// The norm of each head, with its weight as it is.
  llvm::StringLiteral norm = "linear_attn.norm", out = "linear_attn.out_proj";
};

/// The modules of a layer of Mamba 2, in layers that have it in place of
/// attention or beside it: see llama.selective_scan.
struct MambaModules {
  /// The rows of a gate for each number; of values, keys and queries, which are
  /// convolved first; and of each head's step. Empty if the family has no such
  /// layers.
  llvm::StringLiteral in = "";
  llvm::StringLiteral filter = "mamba.conv1d";
  /// Of each head: the tensors of the step's bias, of the logarithm of the
  /// decay, and of the factor of what passes the state by.
  llvm::StringLiteral stepBias = "mamba.dt_bias", logDecay = "mamba.A_log",
                      skip = "mamba.D";
  /// The norm of what the gate made of the heads that have a key together,
  /// unless mamba_rms_norm or mamba_norm_before_gate says otherwise.
  llvm::StringLiteral norm = "mamba.norm", out = "mamba.out_proj";
  /// Whether the norm multiplies before it rounds.
  bool roundsOnce = false;
  /// Whether all layers have attention, too, and add what both compute.
  bool isBeside = false;
};

/// The modules of an MLP. An MLP whose `gate` is empty has no gate.
struct MlpModules {
  llvm::StringLiteral gate = "mlp.gate_proj", up = "mlp.up_proj",
                      down = "mlp.down_proj";
  /// The module with the rows of gate and up, one after the other; empty if
  /// each has its own.
  llvm::StringLiteral fused = "";
};

/// The modules of an MLP that is a mixture of experts. A token has the experts
/// with the best scores; the router computes the scores' logits.
struct ExpertModules {
  /// The router; empty if the family has no experts.
  llvm::StringLiteral router = "";
  /// Whether the router is in f32, whatever the model's type is.
  bool routerIsF32 = false;
  /// What a score is: see llama.route.
  enum Score { Softmax, Sigmoid, Logits } score = Softmax;
  /// The weights of what the chosen experts compute: their scores, divided by
  /// their sum if norm_topk_prob is true; always divided by their sum; by
  /// their sum, or moe_norm_min if that is more; or the softmax of their
  /// scores.
  enum Weights { Given, Sum, SumAtLeast, SoftmaxOfChosen } weights = Given;
  /// A tensor with a number for each expert, which is added to the score before
  /// experts are chosen; empty if there is none.
  llvm::StringLiteral correction = "";
  /// Whether the correction is a matrix of one row.
  bool correctionIsRow = false;
  /// Added to the sum of scores.
  double floor = 0;
  /// How many of its best scores are a group's score.
  int64_t groupBest = 2;
  /// The matrices. Each expert has its own tensors if names have a `{}`, which
  /// stands for the expert; else one tensor has the matrices of all experts.
  MlpModules each = {"mlp.experts.{}.gate_proj", "mlp.experts.{}.up_proj",
                     "mlp.experts.{}.down_proj"};
  /// Whether one tensor, which is called as the module is, has the matrices of
  /// all experts transposed, and another one their biases. Then the rows of
  /// gate and up are in turns, and the router has a bias, too.
  bool areTransposed = false;
  /// An MLP beside the experts, which all tokens have; `up` is empty if there
  /// is none.
  MlpModules shared = {"", "", ""};
  /// A linear with one row. The sigmoid of its result is the factor of what the
  /// MLP beside the experts computes. Empty if there is no factor.
  llvm::StringLiteral sharedGate = "";
  /// If a layer has both the MLP of layers without experts and experts: the
  /// norm of what the experts read, and the norms of what the MLP and the
  /// experts computed, which are then added. Empty if it has only experts.
  llvm::StringLiteral norm = "", mlpEnd = "", end = "";
  /// The tensor of a norm of what the router reads, whose logits are then
  /// divided by the root of the hidden size; empty if there is none.
  llvm::StringLiteral routerNorm = "";
  /// A tensor with a factor of each expert's weight; empty if there is none.
  llvm::StringLiteral factors = "";
  /// Whether a tensor of all experts is called as the module is.
  bool areBare = false;
};

/// The modules of embeddings that each layer has for itself. The first three
/// are the model's: a table with a row of numbers for all layers, a linear that
/// makes such a row of the embedding, and a norm of what it makes for a layer.
/// The others are a layer's: a linear of the hidden states, which gates the
/// layer's numbers; a linear back to hidden states, and a norm of what is added
/// to these.
struct LayerEmbeddings {
  llvm::StringLiteral table = "", projection = "", norm = ""; // empty: none
  llvm::StringLiteral gate = "", out = "", end = "";
};

/// Whether linears have a bias: if a key of the config says so, or whatever it
/// says.
enum class Bias { Given, Never, Always };

struct Biases {
  Bias queryKeyValue = Bias::Given, out = Bias::Given, mlp = Bias::Given,
       head = Bias::Never;
};

/// Which layers see only a window of the keys before them, if sliding_window is
/// a number.
enum class WindowRule {
  None,
  /// All layers.
  Always,
  /// The layers from max_window_layers on, or all if the family does not read
  /// that key, if use_sliding_window is true.
  LastLayers,
  /// The layers from max_window_layers on.
  FromLayer,
  /// All layers, except each n-th: see Family::windowPattern.
  Pattern,
  /// As Pattern, and the last layer has no window.
  PatternAndLast,
  /// The layers without rope, if use_sliding_window is true.
  WithoutRope,
};

/// Which layers rotate queries and keys, unless no_rope_layers says it.
enum class RotatedLayers {
  All,
  /// The layers with a window.
  Windowed,
  /// The layers with a window; all layers if sliding_window is null.
  WindowedIfAny,
  /// No layer: the model knows positions by a table of rows.
  None,
};

struct RopeRule {
  double theta = 10000.0;
  /// The base in layers with a window, if these have a rope of their own; 0 if
  /// all layers have the same rope.
  double windowTheta = 0;
  /// The part of a head that is rotated, if the config does not say it.
  double part = 1;
  RotatedLayers layers = RotatedLayers::All;
  /// Whether pairs of elements are neighbours instead of half a head apart,
  /// unless rope_interleave says it.
  bool isInterleaved = false;
  /// Whether the type proportional is known.
  bool isProportional = false;
  /// Keys in rope_parameters that other families do not have.
  llvm::StringLiteral keys = "";
  /// Whether rope scalings have Phi 3's names, and a text that grows beyond the
  /// original positions is computed again.
  bool isPhi3 = false;
};

/// A table with a row for each position, which is added to the embedding.
struct LearnedPositions {
  llvm::StringLiteral module = ""; // empty if there is no table
  /// The row of the first position.
  int64_t first = 0;
};

/// What a vision tower has in front of its layers. A tower reads the patches of
/// an image; a patch is a row of numbers, by channel, row and column. The names
/// of tensors are whole.
struct VisionModules {
  /// The convolution that makes a row of each patch; empty if the family reads
  /// ids.
  llvm::StringLiteral patches = "";
  bool hasBias = true;
  /// Tensors that are rows: for each position, for the class of the image, and
  /// registers; empty if there are none.
  llvm::StringLiteral positions = "", classRow = "", registers = "";
  /// Whether these tensors have a dimension of 1 in front.
  bool areStacked = false;
  /// Whether the class has a position, the one in front of the patches'.
  bool placesClass = true;
  /// A norm of what the layers read; empty if there is none.
  llvm::StringLiteral norm = "";
};

/// What makes rows in place of a text's embeddings from what towers say of an
/// image: linears, with the function of an MLP between two.
struct ProjectorModules {
  /// The linears; empty if the family has no projector.
  llvm::StringLiteral linears[3] = {"", "", ""};
  /// The width of the first of three linears, by that of its input.
  int64_t widening = 1;
  /// An RMS norm of the input, with 1 + weight; empty if there is none.
  llvm::StringLiteral norm = "";
  /// Whether the one linear is a tensor with columns in place of rows.
  bool isTransposed = false;
};

/// A part of a model of several parts, beside its text: a vision tower, a
/// projector, or a tower and the projector that reads its rows as they are.
struct ImagePart {
  /// The argument of --part; empty if there is no such part.
  llvm::StringLiteral name = "";
  /// The object of the config with the tower's keys.
  llvm::StringLiteral config = "";
  /// Or, if there is no such object, the tower's place in timm_model_ids,
  /// image_sizes and timm_override_act_layers.
  int64_t place = 0;
  bool hasTower = true, hasProjector = false;
  /// The layer whose results the tower returns, counted from the end; 0: those
  /// of the last norm, unless vision_feature_layer says it.
  int64_t layer = 0;
};

struct Family {
  llvm::StringLiteral modelType;
  /// The model with a head, as configs call it; several names are separated by
  /// spaces.
  llvm::StringLiteral architecture;
  /// The models' names, and what differs from Llama, for the documentation.
  llvm::StringLiteral models, differs;
  /// The keys of config.json that the family reads beside those that all
  /// families read, separated by spaces.
  llvm::StringLiteral keys;
  /// Values of absent keys, as JSON: transformers' defaults.
  llvm::StringLiteral defaults = "{}";
  /// Keys that may only have one value, because the row says what they would
  /// say, or because nothing else is supported: the values, as JSON.
  llvm::StringLiteral fixed = "{}";
  /// Keys that the family calls otherwise than most do: "n_embd=hidden_size",
  /// separated by spaces. The other members of the row have the usual names.
  llvm::StringLiteral renamed = "";
  /// Usual names of such keys that transformers reads, too, separated by
  /// spaces.
  llvm::StringLiteral usual = "";
  /// Keys whose values have no effect on this family, separated by spaces.
  llvm::StringLiteral ignored = "";
  /// For a model of several parts: the family of its text, if the object
  /// text_config does not say it. The row then describes the keys around
  /// text_config, and no layers.
  llvm::StringLiteral text = "";
  /// Values of absent keys of this family's text_config, as JSON.
  llvm::StringLiteral textDefaults = "{}";
  /// Whether the rows of an image see one another in the text, not only the
  /// rows before them.
  bool seesAhead = false;
  ImagePart parts[3] = {};
  ProjectorModules projector = {};
  VisionModules vision = {};
  NormKind norm = {};
  LayerNorms norms = {};
  llvm::StringLiteral embedding = "model.embed_tokens", layers = "model.layers";
  /// What layers are called if scaled_weights is true, as for GGUF files, whose
  /// weights hold the factors of what linears read and make.
  llvm::StringLiteral scaledLayers = "";
  /// Tensors with a factor for each column of what attention and the MLP add to
  /// the residual stream; empty if there are none.
  llvm::StringLiteral attentionFactor = "", mlpFactor = "";
  /// A tensor with one factor of the hidden states after a layer; empty if
  /// there is none.
  llvm::StringLiteral layerFactor = "";
  /// The norm after the layers; empty if there is none.
  llvm::StringLiteral lastNorm = "model.norm";
  llvm::StringLiteral head = "lm_head";
  LearnedPositions positions = {};
  AttentionModules attention = {};
  LatentModules latent = {};
  ConvModules conv = {};
  DeltaModules delta = {};
  MambaModules mamba = {};
  /// Whether a layer is attention, what has a state, or an MLP, and not an MLP
  /// after one of the others. All have the norm LayerNorms::attention.
  bool hasOnePart = false;
  /// If the family reads use_qk_norm, only where that is true.
  HeadNorm headNorm = HeadNorm::None;
  /// The MLP of layers without experts.
  MlpModules mlp = {};
  ExpertModules experts = {};
  LayerEmbeddings layerEmbeddings = {};
  /// Whether attention scores are divided by a root: that of the head size,
  /// unless query_pre_attn_scalar says it.
  bool dividesScores = true;
  /// Whether checkpoints have the matrices of linears transposed, except the
  /// head's.
  bool areTransposed = false;
  /// The width of an MLP in hidden sizes, if the config does not say it; 0 if
  /// it must.
  int64_t mlpExpansion = 0;
  /// Whether the MLP reads the same hidden states as attention, and not their
  /// sum with attention's result. If it has no norm of its own, it reads what
  /// attention's norm made of them.
  bool isParallel = false;
  Biases biases = {};
  WindowRule window = WindowRule::None;
  /// For WindowRule::Pattern: each n-th layer has no window, unless
  /// sliding_window_pattern says it.
  int64_t windowPattern = 0;
  /// Whether layer_types has no default that is supported.
  bool needsLayerTypes = false;
  RopeRule rope = {};
  /// Whether embeddings are multiplied by the root of the hidden size, rounded
  /// to the storage type.
  bool scalesEmbedding = false;
  /// Whether the activation that configs call gelu is its tanh approximation.
  bool geluIsTanh = false;

  /// What layer_types calls layers that have a state in place of attention;
  /// empty if there are none.
  llvm::StringRef stateType() const {
    bool isLinear = !delta.in.empty() || !mamba.in.empty();
    return isLinear ? "linear_attention" : conv.in.empty() ? "" : "conv";
  }
  bool readsImages() const { return !vision.patches.empty(); }
  bool reads(llvm::StringRef key) const;
  bool ignores(llvm::StringRef key) const;
  bool readsUsual(llvm::StringRef key) const;
  /// The pairs of `renamed`: the family's own name of a key, and the usual one.
  std::vector<std::pair<std::string, std::string>> ownNames() const;
};

/// All families, by model_type.
llvm::ArrayRef<Family> families();

/// The family of a model_type in a table, or null.
const Family *findFamily(llvm::StringRef modelType,
                         llvm::ArrayRef<Family> table = families());

} // namespace cria
