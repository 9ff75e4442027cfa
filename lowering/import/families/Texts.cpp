/// Families of texts: models that read ids, and texts of models that read
/// images.
#include "lowering/import/families/Families.h"

using namespace cria;

static constexpr NormKind kRoundsOnce = {.roundsOnce = true},
                          kUnitOffset = {.roundsOnce = true,
                                         .unitOffset = true};

static constexpr MlpModules kUngated = {.gate = ""};

static constexpr Biases kNoBiases = {Bias::Never, Bias::Never, Bias::Never};

/// Norms around attention and the MLP, and norms at their ends alone.
static constexpr LayerNorms kFourNorms = {"input_layernorm",
                                          "post_attention_layernorm",
                                          "pre_feedforward_layernorm",
                                          "post_feedforward_layernorm"},
                            kEndNorms = {"", "post_attention_layernorm", "",
                                         "post_feedforward_layernorm"};

/// What the families of GPT-2 call keys and modules.
static constexpr llvm::StringLiteral kGptNames =
    "activation_function=hidden_act layer_norm_epsilon=layer_norm_eps "
    "n_embd=hidden_size n_head=num_attention_heads n_inner=intermediate_size "
    "n_layer=num_hidden_layers n_positions=max_position_embeddings";
static constexpr llvm::StringLiteral kGptUsual =
    "hidden_size max_position_embeddings num_attention_heads num_hidden_layers";
static constexpr LayerNorms kGptNorms = {.attention = "ln_1", .mlp = "ln_2"};
static constexpr AttentionModules kGptAttention = {.query = "attn.q",
                                                   .key = "attn.k",
                                                   .value = "attn.v",
                                                   .out = "attn.c_proj",
                                                   .fused = "attn.c_attn"};
static constexpr MlpModules kGptMlp = {"", "mlp.c_fc", "mlp.c_proj"};

/// The experts of the Qwen family.
static constexpr ExpertModules kQwenExperts = {.router = "mlp.gate"};
static constexpr MlpModules kQwenShared = {"mlp.shared_expert.gate_proj",
                                           "mlp.shared_expert.up_proj",
                                           "mlp.shared_expert.down_proj"};

/// As DeepSeek V3's: scores are chosen with a correction, in groups.
static constexpr ExpertModules kCorrectedExperts = {
    .router = "mlp.gate",
    .score = ExpertModules::Sigmoid,
    .correction = "mlp.gate.e_score_correction_bias",
    .floor = 1e-20,
    .shared = {"mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj",
               "mlp.shared_experts.down_proj"}};

/// What Qwen 3.5 with and without experts have in common.
static constexpr llvm::StringLiteral kQwen35Keys =
    "attention_bias full_attention_interval hidden_act layer_types "
    "linear_conv_kernel_dim linear_key_head_dim linear_num_key_heads "
    "linear_num_value_heads linear_value_head_dim partial_rotary_factor "
    "rms_norm_eps";
static constexpr llvm::StringLiteral kQwen35Defaults =
    R"({"full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu",
        "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
        "linear_num_key_heads": 16, "linear_num_value_heads": 32,
        "linear_value_head_dim": 128, "max_position_embeddings": 32768,
        "num_key_value_heads": 4, "rms_norm_eps": 1e-6})";
static constexpr llvm::StringLiteral kQwen35Fixed =
    R"({"attn_output_gate": true, "mlp_only_layers": []})";
static constexpr llvm::StringLiteral kQwen35Ignored =
    "mamba_ssm_dtype mtp_num_hidden_layers mtp_use_dedicated_embeddings";

/// What LFM2 with and without experts have in common.
static constexpr LayerNorms kLfm2Norms = {.attention = "operator_norm",
                                          .mlp = "ffn_norm"};
static constexpr AttentionModules kLfm2Attention = {
    .out = "self_attn.out_proj",
    .queryNorm = "self_attn.q_layernorm",
    .keyNorm = "self_attn.k_layernorm"};
static constexpr MlpModules kLfm2Mlp = {"feed_forward.w1", "feed_forward.w3",
                                        "feed_forward.w2"};

static constexpr LatentModules kLatent = {.row =
                                              "self_attn.kv_a_proj_with_mqa"};

/// The MLP of Granite 4.
static constexpr MlpModules kGraniteMlp = {.gate = "shared_mlp.gate_proj",
                                           .up = "shared_mlp.up_proj",
                                           .down = "shared_mlp.output_linear",
                                           .fused = "shared_mlp.input_linear"};

/// What layers of Mamba may not be: steps have no limits, and only convolutions
/// have biases.
static constexpr llvm::StringLiteral kMambaFixed =
    R"({"mamba_proj_bias": false, "normalization_function": "rmsnorm",
        "time_step_limit": [0.0, {"__float__": "Infinity"}]})";

/// The keys of DeepSeek V3 and of models of its shape.
static constexpr llvm::StringLiteral kDeepSeekV3Keys =
    "attention_bias first_k_dense_replace hidden_act kv_lora_rank "
    "moe_intermediate_size n_group n_routed_experts n_shared_experts "
    "norm_topk_prob num_experts_per_tok q_lora_rank qk_head_dim "
    "qk_nope_head_dim qk_rope_head_dim rms_norm_eps rope_interleave "
    "routed_scaling_factor split_kv_b topk_group v_head_dim";
static constexpr llvm::StringLiteral kDeepSeekV3Defaults =
    R"({"first_k_dense_replace": 3, "hidden_act": "silu", "kv_lora_rank": 512,
        "max_position_embeddings": 4096, "moe_intermediate_size": 2048,
        "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1,
        "norm_topk_prob": true, "num_experts_per_tok": 8,
        "num_key_value_heads": 128, "q_lora_rank": 1536,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-6,
        "rope_interleave": true, "routed_scaling_factor": 2.5,
        "topk_group": 4, "v_head_dim": 128})";
static constexpr llvm::StringLiteral kDeepSeekV3Fixed =
    R"({"moe_layer_freq": 1, "scoring_func": "sigmoid",
        "topk_method": "noaux_tc"})";
/// The layers after the last, which predict more tokens, are not read.
static constexpr llvm::StringLiteral kDeepSeekV3Ignored =
    "auto_map aux_loss_alpha ep_size num_nextn_predict_layers seq_aux";

static constexpr Family kFamilies[] = {
    {.modelType = "arcee",
     .architecture = "ArceeForCausalLM",
     .models = "Arcee AFM 4.5B",
     .differs = "an MLP without a gate, with squared ReLU",
     .keys = "attention_bias hidden_act mlp_bias rms_norm_eps",
     .defaults = R"({"hidden_act": "relu2", "max_position_embeddings": 4096,
         "rms_norm_eps": 1e-5})",
     .mlp = kUngated},
    {.modelType = "cohere",
     .architecture = "CohereForCausalLM",
     .models = "Command R, Aya 23 and Expanse",
     .differs = "layer norms, an MLP beside attention, a factor of logits; "
                "rope of neighbours",
     .keys = "attention_bias hidden_act layer_norm_eps logit_scale",
     .defaults = R"({"hidden_act": "silu", "layer_norm_eps": 1e-5,
         "logit_scale": 0.0625, "max_position_embeddings": 8192,
         "tie_word_embeddings": true})",
     .fixed = R"({"use_qk_norm": false})",
     .norm = {.function = NormKind::Layer},
     .norms = {.mlp = ""},
     .isParallel = true,
     .biases = {Bias::Given, Bias::Given, Bias::Never},
     .rope = {.theta = 5e5, .isInterleaved = true}},
    {.modelType = "cohere2",
     .architecture = "Cohere2ForCausalLM",
     .models = "Command R7B and A",
     .differs = "as cohere, and a window in three of four layers, and no rope "
                "in the fourth",
     .keys = "attention_bias hidden_act layer_norm_eps layer_types logit_scale "
             "sliding_window sliding_window_pattern",
     .defaults = R"({"hidden_act": "silu", "layer_norm_eps": 1e-5,
         "logit_scale": 0.0625, "max_position_embeddings": 8192,
         "sliding_window": 4096, "sliding_window_pattern": 4,
         "tie_word_embeddings": true})",
     .fixed = R"({"order_of_interleaved_layers": "local_attn_first",
         "position_embedding_type": "rope_gptj", "rotary_pct": 1.0,
         "use_embedding_sharing": true, "use_gated_activation": true,
         "use_parallel_block": true})",
     .ignored = "_sliding_window_pattern layer_switch use_parallel_embedding",
     .norm = {.function = NormKind::Layer},
     .norms = {.mlp = ""},
     .isParallel = true,
     .biases = {Bias::Given, Bias::Given, Bias::Never},
     .window = WindowRule::Pattern,
     .windowPattern = 4,
     .rope = {.layers = RotatedLayers::Windowed, .isInterleaved = true}},
    {.modelType = "deepseek_v2",
     .architecture = "DeepseekV2ForCausalLM",
     .models = "DeepSeek V2, V2 Lite and Coder V2",
     .differs = "latent attention; mixtures of experts beside an MLP, but not "
                "in the first layers; experts may be chosen in groups",
     .keys =
         "attention_bias first_k_dense_replace hidden_act kv_lora_rank "
         "mlp_bias moe_intermediate_size n_group n_routed_experts "
         "n_shared_experts num_experts_per_tok q_lora_rank qk_head_dim "
         "qk_nope_head_dim qk_rope_head_dim rms_norm_eps "
         "routed_scaling_factor split_kv_b topk_group topk_method v_head_dim",
     .defaults = R"({"first_k_dense_replace": 0, "hidden_act": "silu",
         "kv_lora_rank": 512, "max_position_embeddings": 2048,
         "moe_intermediate_size": 1407, "n_routed_experts": 64,
         "n_shared_experts": 2, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
         "qk_rope_head_dim": 64, "rms_norm_eps": 1e-6,
         "routed_scaling_factor": 1.0, "topk_method": "greedy",
         "v_head_dim": 128})",
     .fixed = R"({"moe_layer_freq": 1, "norm_topk_prob": false,
         "scoring_func": "softmax"})",
     .ignored = "auto_map aux_loss_alpha ep_size seq_aux",
     .latent = kLatent,
     .experts = {.router = "mlp.gate",
                 .groupBest = 1,
                 .shared = {"mlp.shared_experts.gate_proj",
                            "mlp.shared_experts.up_proj",
                            "mlp.shared_experts.down_proj"}},
     .rope = {.isInterleaved = true}},
    {.modelType = "deepseek_v3",
     .architecture = "DeepseekV3ForCausalLM",
     .models = "DeepSeek V3, V3.1 and R1",
     .differs = "as deepseek_v2; scores are sigmoids, and chosen with a "
                "correction",
     .keys = kDeepSeekV3Keys,
     .defaults = kDeepSeekV3Defaults,
     .fixed = kDeepSeekV3Fixed,
     .ignored = kDeepSeekV3Ignored,
     .latent = kLatent,
     .experts = kCorrectedExperts,
     .biases = {Bias::Given, Bias::Given, Bias::Never}},
    {.modelType = "dots1",
     .architecture = "Dots1ForCausalLM",
     .models = "dots.llm1",
     .differs = "norms of each head's queries and keys; a window in the last "
                "layers; as glm4_moe, mixtures of experts",
     .keys = "attention_bias first_k_dense_replace hidden_act layer_types "
             "max_window_layers moe_intermediate_size n_group n_routed_experts "
             "n_shared_experts norm_topk_prob num_experts_per_tok "
             "rms_norm_eps routed_scaling_factor sliding_window topk_group",
     .defaults = R"({"first_k_dense_replace": 0, "hidden_act": "silu",
         "max_position_embeddings": 2048, "max_window_layers": 62,
         "moe_intermediate_size": 1408, "norm_topk_prob": false,
         "num_key_value_heads": 32, "rms_norm_eps": 1e-6,
         "routed_scaling_factor": 1.0, "sliding_window": 4096})",
     .fixed = R"({"moe_layer_freq": 1})",
     .ignored = "scoring_func",
     .headNorm = HeadNorm::EachHead,
     .experts = kCorrectedExperts,
     .biases = {Bias::Given, Bias::Given, Bias::Never},
     .window = WindowRule::FromLayer},
    {.modelType = "ernie4_5",
     .architecture = "Ernie4_5ForCausalLM",
     .models = "ERNIE 4.5 0.3B",
     .differs = "rope of neighbours",
     .keys = "hidden_act rms_norm_eps use_bias",
     .defaults = R"({"head_dim": 128, "hidden_act": "silu",
         "max_position_embeddings": 131072, "num_key_value_heads": 2,
         "rms_norm_eps": 1e-5, "tie_word_embeddings": true})",
     .ignored = "auto_map",
     .rope = {.theta = 5e5, .isInterleaved = true}},
    {.modelType = "ernie4_5_moe",
     .architecture = "Ernie4_5_MoeForCausalLM",
     .models = "ERNIE 4.5 21B-A3B and 300B-A47B",
     .differs = "as ernie4_5, and mixtures of experts beside an MLP in some of "
                "the layers; scores are chosen with a correction",
     .keys = "hidden_act moe_intermediate_size moe_k moe_layer_end_index "
             "moe_layer_interval moe_layer_start_index moe_norm_min "
             "moe_num_experts moe_num_shared_experts rms_norm_eps use_bias",
     .defaults = R"({"hidden_act": "silu", "max_position_embeddings": 131072,
         "moe_intermediate_size": 1536, "moe_k": 6, "moe_layer_interval": 1,
         "moe_layer_start_index": 1, "moe_norm_min": 1e-12,
         "moe_num_experts": 64, "moe_num_shared_experts": 2,
         "num_key_value_heads": 4, "rms_norm_eps": 1e-5,
         "tie_word_embeddings": true})",
     .fixed = R"({"moe_gate": "topk"})",
     .ignored = "auto_map moe_capacity moe_use_aux_free "
                "num_nextn_predict_layers",
     .experts = {.router = "mlp.gate",
                 .routerIsF32 = true,
                 .weights = ExpertModules::SumAtLeast,
                 .correction = "mlp.moe_statics.e_score_correction_bias",
                 .correctionIsRow = true,
                 .shared = {"mlp.shared_experts.gate_proj",
                            "mlp.shared_experts.up_proj",
                            "mlp.shared_experts.down_proj"}},
     .biases = {.head = Bias::Given},
     .rope = {.theta = 5e5, .isInterleaved = true}},
    {.modelType = "exaone4",
     .architecture = "Exaone4ForCausalLM",
     .models = "EXAONE 4",
     .differs = "norms after attention and MLP instead of before; norms of "
                "each head's queries and keys; a window in three of four "
                "layers, and no rope in the fourth",
     .keys = "hidden_act layer_types rms_norm_eps sliding_window "
             "sliding_window_pattern",
     .defaults = R"({"hidden_act": "silu", "max_position_embeddings": 2048,
         "num_key_value_heads": 32, "rms_norm_eps": 1e-5,
         "sliding_window": 4096, "sliding_window_pattern": 4})",
     .norms = kEndNorms,
     .headNorm = HeadNorm::EachHead,
     .biases = kNoBiases,
     .window = WindowRule::Pattern,
     .windowPattern = 4,
     .rope = {.layers = RotatedLayers::WindowedIfAny}},
    {.modelType = "falcon_h1",
     .architecture = "FalconH1ForCausalLM",
     .models = "Falcon-H1",
     .differs = "attention and Mamba 2 side by side; factors of what linears "
                "read and make",
     .keys = "attention_in_multiplier attention_out_multiplier "
             "embedding_multiplier hidden_act key_multiplier "
             "lm_head_multiplier mamba_conv_bias mamba_d_conv mamba_d_head "
             "mamba_d_ssm mamba_d_state mamba_expand mamba_n_groups "
             "mamba_n_heads mamba_norm_before_gate mamba_rms_norm mlp_bias "
             "mlp_multipliers rms_norm_eps scaled_weights ssm_in_multiplier "
             "ssm_multipliers ssm_out_multiplier",
     .defaults = R"({"attention_in_multiplier": 1.0,
         "attention_out_multiplier": 1.0, "hidden_act": "silu",
         "key_multiplier": 1.0, "lm_head_multiplier": 1.0,
         "mamba_conv_bias": true, "mamba_d_conv": 4, "mamba_d_head": "auto",
         "mamba_d_ssm": 1024, "mamba_d_state": 256, "mamba_expand": 2,
         "mamba_n_groups": 1, "mamba_n_heads": 128,
         "mamba_norm_before_gate": true, "mamba_rms_norm": false,
         "max_position_embeddings": 8192, "num_key_value_heads": 8,
         "rms_norm_eps": 1e-5, "ssm_in_multiplier": 1.0,
         "ssm_out_multiplier": 1.0})",
     .fixed = R"({"attention_bias": false, "mamba_proj_bias": false,
         "mamba_use_mlp": true, "projectors_bias": false,
         "time_step_limit": [0.0, {"__float__": "Infinity"}]})",
     .ignored = "mamba_chunk_size mlp_expansion_factor num_logits_to_keep "
                "time_step_floor time_step_max time_step_min",
     .norms = {.mlp = "pre_ff_layernorm"},
     .scaledLayers = "model.scaled_layers",
     .lastNorm = "model.final_layernorm",
     .mamba = {.in = "mamba.in_proj", .roundsOnce = true, .isBeside = true},
     .mlp = {"feed_forward.gate_proj", "feed_forward.up_proj",
             "feed_forward.down_proj"},
     .biases = {Bias::Never, Bias::Never, Bias::Given}},
    {.modelType = "gemma",
     .architecture = "GemmaForCausalLM",
     .models = "Gemma 1",
     .differs = "norms with 1 + weight, a tanh-GELU gate, embeddings times the "
                "root of their size",
     .keys = "attention_bias hidden_act rms_norm_eps",
     .defaults = R"({"head_dim": 256, "hidden_act": "gelu_pytorch_tanh",
         "max_position_embeddings": 8192, "num_key_value_heads": 16,
         "rms_norm_eps": 1e-6, "tie_word_embeddings": true})",
     .norm = kUnitOffset,
     .scalesEmbedding = true,
     .geluIsTanh = true},
    {.modelType = "gemma2",
     .architecture = "Gemma2ForCausalLM",
     .models = "Gemma 2",
     .differs = "norms before and after attention and MLP, soft caps of scores "
                "and logits, a window in every other layer",
     .keys = "attention_bias attn_logit_softcapping final_logit_softcapping "
             "hidden_activation layer_types query_pre_attn_scalar "
             "rms_norm_eps sliding_window",
     .defaults =
         R"({"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
         "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
         "max_position_embeddings": 8192, "num_key_value_heads": 4,
         "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-6,
         "sliding_window": 4096, "tie_word_embeddings": true})",
     .ignored = "sliding_window_size",
     .norm = kUnitOffset,
     .norms = kFourNorms,
     .window = WindowRule::Pattern,
     .windowPattern = 2,
     .scalesEmbedding = true},
    {.modelType = "gemma3_text",
     .architecture = "Gemma3ForCausalLM",
     .models = "Gemma 3 1B and 270M",
     .differs = "as gemma2, and norms of each head's queries and keys, a "
                "window in five of six layers, which have a rope of their own",
     .keys = "attention_bias final_logit_softcapping hidden_activation "
             "layer_types query_pre_attn_scalar rms_norm_eps "
             "rope_local_base_freq sliding_window sliding_window_pattern",
     .defaults = R"({"head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
         "hidden_size": 2304, "intermediate_size": 9216,
         "max_position_embeddings": 131072, "num_attention_heads": 8,
         "num_hidden_layers": 26, "num_key_value_heads": 4,
         "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-6,
         "sliding_window": 4096, "sliding_window_pattern": 6,
         "tie_word_embeddings": true, "vocab_size": 262208})",
     // transformers reads the cap of scores, and does not use it.
     .ignored = "_sliding_window_pattern attn_logit_softcapping",
     .norm = kUnitOffset,
     .norms = kFourNorms,
     .headNorm = HeadNorm::EachHead,
     .window = WindowRule::Pattern,
     .windowPattern = 6,
     .rope = {.theta = 1e6, .windowTheta = 1e4},
     .scalesEmbedding = true},
    {.modelType = "gemma4_text",
     .architecture = "Gemma4ForCausalLM",
     .models = "",
     .differs = "the text of gemma4: as gemma3_text, and norms of values; "
                "layers without a window have heads of another size, which may "
                "make values of keys; a factor of each layer's result; experts "
                "beside the MLP; embeddings of each layer; last layers that "
                "read the keys and values of others",
     .keys = "attention_bias attention_k_eq_v enable_moe_block "
             "final_logit_softcapping global_head_dim hidden_activation "
             "hidden_size_per_layer_input layer_types moe_intermediate_size "
             "num_experts num_global_key_value_heads num_kv_shared_layers "
             "per_layer_config rms_norm_eps sliding_window top_k_experts "
             "use_double_wide_mlp vocab_size_per_layer_input",
     .defaults = R"({"enable_moe_block": false, "global_head_dim": 512,
         "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
         "hidden_size": 2304, "hidden_size_per_layer_input": 256,
         "intermediate_size": 9216, "max_position_embeddings": 131072,
         "num_attention_heads": 8, "num_hidden_layers": 30,
         "num_key_value_heads": 4, "rms_norm_eps": 1e-6,
         "rope_parameters": {
           "full_attention": {"partial_rotary_factor": 0.25,
             "rope_theta": 1e6, "rope_type": "proportional"},
           "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"}},
         "sliding_window": 512, "tie_word_embeddings": true,
         "vocab_size": 262144, "vocab_size_per_layer_input": 262144})",
     // Only tokens of images see later ones.
     .fixed = R"({"use_bidirectional_attention": "vision"})",
     .norm = kRoundsOnce,
     .norms = kFourNorms,
     .layerFactor = "layer_scalar",
     .attention = {.normalizesValues = true},
     .headNorm = HeadNorm::EachHead,
     .experts = {.router = "router.proj",
                 .weights = ExpertModules::Sum,
                 .each = {"", "", "experts.down_proj", "experts.gate_up_proj"},
                 .norm = "pre_feedforward_layernorm_2",
                 .mlpEnd = "post_feedforward_layernorm_1",
                 .end = "post_feedforward_layernorm_2",
                 .routerNorm = "router.scale",
                 .factors = "router.per_expert_scale",
                 .areBare = true},
     .layerEmbeddings = {"model.embed_tokens_per_layer",
                         "model.per_layer_model_projection",
                         "model.per_layer_projection_norm",
                         "per_layer_input_gate", "per_layer_projection",
                         "post_per_layer_input_norm"},
     .dividesScores = false,
     .window = WindowRule::PatternAndLast,
     .windowPattern = 6,
     .rope = {.theta = 1e6, .windowTheta = 1e4, .isProportional = true},
     .scalesEmbedding = true},
    {.modelType = "glm",
     .architecture = "GlmForCausalLM",
     .models = "GLM-4 9B and GLM-Edge",
     .differs = "rope of neighbours on a part of each head; biases of queries, "
                "keys and values; gate and up in one tensor",
     .keys = "attention_bias hidden_act partial_rotary_factor rms_norm_eps",
     .defaults = R"({"attention_bias": true, "head_dim": 128,
         "hidden_act": "silu", "max_position_embeddings": 131072,
         "num_key_value_heads": 2, "rms_norm_eps": 1.5625e-07})",
     .mlp = {.fused = "mlp.gate_up_proj"},
     .biases = {Bias::Given, Bias::Never, Bias::Never},
     .rope = {.part = 0.5, .isInterleaved = true}},
    {.modelType = "glm4",
     .architecture = "Glm4ForCausalLM",
     .models = "GLM-4 0414 9B and 32B, GLM-Z1",
     .differs = "as glm, and norms of the results of attention and MLP",
     .keys = "attention_bias hidden_act partial_rotary_factor rms_norm_eps",
     .defaults = R"({"attention_bias": true, "head_dim": 128,
         "hidden_act": "silu", "max_position_embeddings": 131072,
         "num_key_value_heads": 2, "rms_norm_eps": 1.5625e-07})",
     .norms = {"input_layernorm", "post_self_attn_layernorm",
               "post_attention_layernorm", "post_mlp_layernorm"},
     .mlp = {.fused = "mlp.gate_up_proj"},
     .biases = {Bias::Given, Bias::Never, Bias::Never},
     .rope = {.part = 0.5, .isInterleaved = true}},
    {.modelType = "glm4_moe",
     .architecture = "Glm4MoeForCausalLM",
     .models = "GLM-4.5, 4.6 and 4.7, GLM-4.5 Air",
     .differs = "mixtures of experts beside an MLP, but not in the first "
                "layers; scores are sigmoids, and chosen with a correction, in "
                "groups; norms of each head's queries and keys; rope on a part "
                "of each head",
     .keys = "attention_bias first_k_dense_replace hidden_act "
             "moe_intermediate_size n_group n_routed_experts n_shared_experts "
             "norm_topk_prob num_experts_per_tok partial_rotary_factor "
             "rms_norm_eps routed_scaling_factor topk_group use_qk_norm",
     .defaults = R"({"first_k_dense_replace": 1, "hidden_act": "silu",
         "max_position_embeddings": 131072, "moe_intermediate_size": 1408,
         "n_routed_experts": 128, "n_shared_experts": 1,
         "norm_topk_prob": true, "num_experts_per_tok": 8,
         "num_key_value_heads": 8, "rms_norm_eps": 1e-5,
         "routed_scaling_factor": 1.0, "use_qk_norm": false})",
     .ignored = "num_nextn_predict_layers",
     .headNorm = HeadNorm::EachHead,
     .experts = kCorrectedExperts,
     .biases = {Bias::Given, Bias::Never, Bias::Never},
     .rope = {.part = 0.5}},
    {.modelType = "glm4_moe_lite",
     .architecture = "Glm4MoeLiteForCausalLM",
     .models = "GLM-4.7 Flash",
     .differs = "as deepseek_v3",
     .keys = "attention_bias first_k_dense_replace hidden_act kv_lora_rank "
             "mlp_layer_types moe_intermediate_size n_group n_routed_experts "
             "n_shared_experts norm_topk_prob num_experts_per_tok q_lora_rank "
             "qk_head_dim qk_nope_head_dim qk_rope_head_dim rms_norm_eps "
             "rope_interleave routed_scaling_factor topk_group v_head_dim",
     .defaults = R"({"first_k_dense_replace": 1, "hidden_act": "silu",
         "kv_lora_rank": 512, "max_position_embeddings": 202752,
         "moe_intermediate_size": 1536, "n_group": 1, "n_routed_experts": 64,
         "n_shared_experts": 1, "norm_topk_prob": true,
         "num_experts_per_tok": 4, "num_key_value_heads": 20,
         "q_lora_rank": 768, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64,
         "rms_norm_eps": 1e-5, "rope_interleave": true,
         "routed_scaling_factor": 1.8, "topk_group": 1, "v_head_dim": 256})",
     .fixed = R"({"moe_layer_freq": 1, "scoring_func": "sigmoid",
         "topk_method": "noaux_tc"})",
     .ignored = kDeepSeekV3Ignored,
     .latent = kLatent,
     .experts = kCorrectedExperts,
     .biases = {Bias::Given, Bias::Given, Bias::Never}},
    {.modelType = "gpt2",
     .architecture = "GPT2LMHeadModel",
     .models = "GPT-2, DistilGPT-2",
     .differs = "learned positions in place of rope; layer norms, an MLP "
                "without a gate, biases; linears are transposed, and queries, "
                "keys and values in one tensor",
     .keys = "hidden_act layer_norm_eps",
     .defaults = R"({"hidden_act": "gelu_new", "layer_norm_eps": 1e-5,
         "max_position_embeddings": 1024, "tie_word_embeddings": true})",
     .fixed = R"({"reorder_and_upcast_attn": false,
         "scale_attn_by_inverse_layer_idx": false,
         "scale_attn_weights": true})",
     .renamed = kGptNames,
     .usual = kGptUsual,
     .ignored = "head_dim n_ctx n_special num_key_value_heads "
                "predict_special_tokens rope_parameters rope_scaling "
                "rope_theta",
     .norm = kLayerNorm,
     .norms = kGptNorms,
     .embedding = "transformer.wte",
     .layers = "transformer.h",
     .lastNorm = "transformer.ln_f",
     .positions = {"transformer.wpe"},
     .attention = kGptAttention,
     .mlp = kGptMlp,
     .areTransposed = true,
     .mlpExpansion = 4,
     .biases = kBiases,
     .rope = {.layers = RotatedLayers::None}},
    {.modelType = "gpt_bigcode",
     .architecture = "GPTBigCodeForCausalLM",
     .models = "StarCoder 1, StarCoderBase",
     .differs = "as gpt2, but linears are not transposed; one KV head",
     .keys = "hidden_act layer_norm_eps",
     .defaults = R"({"hidden_act": "gelu_pytorch_tanh",
         "layer_norm_eps": 1e-5, "max_position_embeddings": 1024,
         "num_key_value_heads": 1, "tie_word_embeddings": true})",
     .fixed = R"({"multi_query": true, "num_key_value_heads": 1,
         "scale_attn_weights": true})",
     .renamed = kGptNames,
     .usual = kGptUsual,
     .ignored = "attention_softmax_in_fp32 head_dim inference_runner "
                "max_batch_size n_ctx pad_key_length pre_allocate_kv_cache "
                "rope_parameters rope_scaling rope_theta "
                "scale_attention_softmax_in_fp32 validate_runner_input",
     .norm = kLayerNorm,
     .norms = kGptNorms,
     .embedding = "transformer.wte",
     .layers = "transformer.h",
     .lastNorm = "transformer.ln_f",
     .positions = {"transformer.wpe"},
     .attention = kGptAttention,
     .mlp = kGptMlp,
     .mlpExpansion = 4,
     .biases = kBiases,
     .rope = {.layers = RotatedLayers::None}},
    {.modelType = "gpt_neox",
     .architecture = "GPTNeoXForCausalLM",
     .models = "Pythia, GPT-NeoX 20B",
     .differs = "layer norms, an MLP without a gate beside attention, biases; "
                "rope on a part of each head; query, key and value of each "
                "head in one tensor",
     .keys = "attention_bias hidden_act layer_norm_eps partial_rotary_factor",
     .defaults = R"({"attention_bias": true, "hidden_act": "gelu",
         "layer_norm_eps": 1e-5, "max_position_embeddings": 2048})",
     .fixed = R"({"use_parallel_residual": true})",
     .renamed = "rotary_emb_base=rope_theta rotary_pct=partial_rotary_factor",
     .ignored = "num_key_value_heads",
     .norm = kLayerNorm,
     .embedding = "gpt_neox.embed_in",
     .layers = "gpt_neox.layers",
     .lastNorm = "gpt_neox.final_layer_norm",
     .head = "embed_out",
     .attention = {.out = "attention.dense",
                   .fused = "attention.query_key_value",
                   .fusesHeads = true},
     .mlp = {"", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"},
     .isParallel = true,
     .biases = {Bias::Given, Bias::Given, Bias::Always},
     .rope = {.part = 0.25}},
    {.modelType = "gpt_oss",
     .architecture = "GptOssForCausalLM",
     .models = "gpt-oss 20B and 120B",
     .differs =
         "a sink for each head, biases of attention, a window in every "
         "other layer; mixtures of experts with biases and a limited "
         "gate, whose weights are the softmax of a token's chosen logits",
     .keys = "attention_bias layer_types num_experts_per_tok num_local_experts "
             "rms_norm_eps sliding_window swiglu_alpha swiglu_limit",
     .defaults = R"({"attention_bias": true, "head_dim": 64,
         "max_position_embeddings": 131072,
         "num_experts_per_tok": 4, "num_key_value_heads": 8,
         "num_local_experts": 128, "rms_norm_eps": 1e-5,
         "rope_parameters": {"beta_fast": 32.0, "beta_slow": 1.0,
           "factor": 32.0, "original_max_position_embeddings": 4096,
           "rope_type": "yarn", "truncate": false},
         "sliding_window": 128, "swiglu_alpha": 1.702, "swiglu_limit": 7.0})",
     .fixed = R"({"hidden_act": "silu"})",
     .ignored = "experts_per_token initial_context_length",
     .norm = kRoundsOnce,
     .attention = {.sinks = "self_attn.sinks"},
     .experts = {.router = "mlp.router",
                 .score = ExpertModules::Logits,
                 .weights = ExpertModules::SoftmaxOfChosen,
                 .each = {.down = "mlp.experts.down_proj",
                          .fused = "mlp.experts.gate_up_proj"},
                 .areTransposed = true},
     .biases = {Bias::Given, Bias::Given, Bias::Never},
     .window = WindowRule::Pattern,
     .windowPattern = 2,
     .rope = {.theta = 1.5e5}},
    {.modelType = "granite",
     .architecture = "GraniteForCausalLM",
     .models = "Granite 3",
     .differs = "factors of embeddings, attention scores, updates of the "
                "residual stream and logits",
     .keys = "attention_bias attention_multiplier embedding_multiplier "
             "hidden_act logits_scaling mlp_bias residual_multiplier "
             "rms_norm_eps",
     .defaults = R"({"attention_multiplier": 1.0, "hidden_act": "silu",
         "max_position_embeddings": 2048, "rms_norm_eps": 1e-6})"},
    {.modelType = "granitemoe",
     .architecture = "GraniteMoeForCausalLM",
     .models = "Granite 3 1B-A400M and 3B-A800M",
     .differs = "as granite, and mixtures of experts, whose weights are the "
                "softmax of a token's chosen logits; one tensor has all "
                "experts of a layer",
     .keys = "attention_bias attention_multiplier embedding_multiplier "
             "hidden_act logits_scaling num_experts_per_tok num_local_experts "
             "residual_multiplier rms_norm_eps",
     .defaults = R"({"attention_multiplier": 1.0, "hidden_act": "silu",
         "max_position_embeddings": 2048, "num_experts_per_tok": 2,
         "num_local_experts": 8, "rms_norm_eps": 1e-6})",
     .experts = {.router = "block_sparse_moe.router.layer",
                 .score = ExpertModules::Logits,
                 .weights = ExpertModules::SoftmaxOfChosen,
                 .each = {.down = "block_sparse_moe.output_linear",
                          .fused = "block_sparse_moe.input_linear"}},
     .biases = {Bias::Given, Bias::Given, Bias::Never}},
    {.modelType = "granitemoehybrid",
     .architecture = "GraniteMoeHybridForCausalLM",
     .models = "Granite 4 and 4 H",
     .differs =
         "as granite, and gate and up in one tensor; Mamba 2 in place of "
         "attention in the layers that layer_types names; the MLP may "
         "be beside mixtures of experts, as granitemoe has them",
     .keys = "attention_bias attention_multiplier embedding_multiplier "
             "hidden_act layer_types logits_scaling mamba_conv_bias "
             "mamba_d_conv mamba_d_head mamba_d_state mamba_expand "
             "mamba_n_groups mamba_n_heads num_experts_per_tok "
             "num_local_experts position_embedding_type residual_multiplier "
             "rms_norm_eps shared_intermediate_size",
     .defaults = R"({"attention_multiplier": 1.0, "hidden_act": "silu",
         "mamba_conv_bias": true, "mamba_d_conv": 4, "mamba_d_head": "auto",
         "mamba_d_state": 256, "mamba_expand": 2, "mamba_n_groups": 1,
         "mamba_n_heads": 128, "max_position_embeddings": 2048,
         "num_experts_per_tok": 2, "num_local_experts": 8,
         "rms_norm_eps": 1e-6, "shared_intermediate_size": 1024})",
     .fixed = kMambaFixed,
     .ignored = "init_method mamba_chunk_size output_router_logits "
                "router_aux_loss_coef time_step_floor time_step_max "
                "time_step_min",
     .mamba = {.in = "mamba.in_proj"},
     .mlp = kGraniteMlp,
     .experts = {.router = "block_sparse_moe.router.layer",
                 .score = ExpertModules::Logits,
                 .weights = ExpertModules::SoftmaxOfChosen,
                 .each = {.down = "block_sparse_moe.output_linear",
                          .fused = "block_sparse_moe.input_linear"},
                 .shared = kGraniteMlp},
     .biases = {Bias::Given, Bias::Given, Bias::Never},
     .needsLayerTypes = true},
    {.modelType = "helium",
     .architecture = "HeliumForCausalLM",
     .models = "Helium 1",
     .differs = "rope of neighbours",
     .keys = "attention_bias hidden_act mlp_bias rms_norm_eps",
     .defaults = R"({"head_dim": 128, "hidden_act": "silu",
         "max_position_embeddings": 4096, "num_key_value_heads": 20,
         "rms_norm_eps": 1e-8})",
     .norm = kRoundsOnce,
     .biases = {Bias::Given, Bias::Never, Bias::Given},
     .rope = {.theta = 1e5, .isInterleaved = true}},
    {.modelType = "hunyuan_v1_dense",
     .architecture = "HunYuanDenseV1ForCausalLM",
     .models = "Hunyuan 0.5B to 7B",
     .differs = "norms of each head's queries and keys after rope, whose base "
                "a fixed alpha stretches",
     .keys = "attention_bias hidden_act rms_norm_eps",
     .defaults = R"({"hidden_act": "silu", "max_position_embeddings": 2048,
         "rms_norm_eps": 1e-5})",
     .fixed = R"({"mlp_bias": false, "norm_type": "rms", "use_cla": false,
         "use_qk_norm": true, "use_rotary_pos_emb": true})",
     .ignored = "add_classification_head attention_head_dim cla_share_factor "
                "class_num dense_list im_end_id im_newline_id im_start_id "
                "mask_init_id org_vocab_size pad_id pool_type text_end_id "
                "text_start_id",
     .attention = {.queryNorm = "self_attn.query_layernorm",
                   .keyNorm = "self_attn.key_layernorm"},
     .headNorm = HeadNorm::EachHeadAfterRope,
     .biases = {Bias::Given, Bias::Given, Bias::Never},
     .rope = {.keys = "alpha beta_fast beta_slow mscale mscale_all_dim"}},
    {.modelType = "hunyuan_v1_moe",
     .architecture = "HunYuanMoEV1ForCausalLM",
     .models = "Hunyuan A13B",
     .differs = "as hunyuan_v1_dense, and mixtures of experts, whose weights "
                "sum to 1, beside an MLP",
     .keys = "attention_bias hidden_act moe_intermediate_size moe_topk "
             "num_experts num_shared_expert rms_norm_eps",
     .defaults = R"({"hidden_act": "silu", "max_position_embeddings": 2048,
         "moe_topk": 1, "num_experts": 1, "num_shared_expert": 1,
         "rms_norm_eps": 1e-5})",
     .fixed = R"({"group_limited_greedy": false, "mlp_bias": false,
         "moe_layer_num_skipped": 0, "n_group": false, "norm_topk_prob": true,
         "norm_type": "rms", "position_embedding_xdrope": false,
         "routed_scaling_factor": false, "topk_group": false, "use_cla": false,
         "use_mixed_mlp_moe": true, "use_mla": false, "use_qk_norm": true,
         "use_rotary_pos_emb": true})",
     .ignored = "add_classification_head anyres_pooling_size "
                "anyres_vit_max_image_size anyres_vit_two_views "
                "attention_head_dim auto_map cla_share_factor class_num "
                "dense_list im_end_id im_newline_id im_start_id image_token_id "
                "mask_init_id moe_drop_tokens "
                "moe_random_routing_dropped_token num_media_embeds pool_type "
                "skip_cls_token text_end_id text_start_id video_end_id "
                "video_start_id",
     .attention = {.queryNorm = "self_attn.query_layernorm",
                   .keyNorm = "self_attn.key_layernorm"},
     .headNorm = HeadNorm::EachHeadAfterRope,
     .experts = {.router = "mlp.gate.wg",
                 .weights = ExpertModules::Sum,
                 .shared = {"mlp.shared_mlp.gate_proj",
                            "mlp.shared_mlp.up_proj",
                            "mlp.shared_mlp.down_proj"}},
     .biases = {Bias::Given, Bias::Given, Bias::Never},
     .rope = {.keys = "alpha beta_fast beta_slow mscale mscale_all_dim"}},
    {.modelType = "internlm3",
     .architecture = "InternLM3ForCausalLM LlamaForCausalLM",
     .models = "InternLM 3",
     .differs = "",
     .keys = "attention_bias bias hidden_act mlp_bias qkv_bias rms_norm_eps",
     .defaults = R"({"head_dim": 128, "hidden_act": "silu",
         "max_position_embeddings": 32768, "num_key_value_heads": 2,
         "rms_norm_eps": 1e-5})",
     .ignored = "auto_map"},
    {.modelType = "jais2",
     .architecture = "Jais2ForCausalLM",
     .models = "Jais 2",
     .differs = "layer norms, an MLP without a gate, with squared ReLU, biases",
     .keys = "attention_bias hidden_act layer_norm_eps mlp_bias",
     .defaults = R"({"attention_bias": true, "hidden_act": "relu2",
         "layer_norm_eps": 1e-5, "max_position_embeddings": 8192,
         "mlp_bias": true})",
     .norm = kLayerNorm,
     .mlp = kUngated},
    {.modelType = "kimi_k2",
     .architecture = "DeepseekV3ForCausalLM",
     .models = "Kimi K2",
     .differs = "as deepseek_v3",
     .keys = kDeepSeekV3Keys,
     .defaults = kDeepSeekV3Defaults,
     .fixed = kDeepSeekV3Fixed,
     .ignored = kDeepSeekV3Ignored,
     .latent = kLatent,
     .experts = kCorrectedExperts,
     .biases = {Bias::Given, Bias::Given, Bias::Never}},
    {.modelType = "lfm2",
     .architecture = "Lfm2ForCausalLM",
     .models = "LFM2",
     .differs = "norms of each head, and short convolutions with a state in "
                "place of attention in the layers that layer_types names",
     .keys = "block_auto_adjust_ff_dim block_ffn_dim_multiplier "
             "block_multiple_of conv_L_cache conv_bias full_attn_idxs "
             "layer_types norm_eps",
     .defaults = R"({"block_auto_adjust_ff_dim": true, "conv_L_cache": 3,
       "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 256,
       "norm_eps": 1e-5, "intermediate_size": 12288, "num_key_value_heads": 8,
       "max_position_embeddings": 128000, "rope_theta": 1000000.0,
       "tie_word_embeddings": true})",
     .renamed = "block_ff_dim=intermediate_size "
                "tie_embedding=tie_word_embeddings",
     .usual = "intermediate_size tie_word_embeddings",
     .ignored = "block_dim block_mlp_init_scale block_norm_eps "
                "block_out_init_scale block_use_swiglu block_use_xavier_init "
                "conv_dim conv_dim_out conv_use_xavier_init num_heads theta "
                "use_pos_enc",
     .norms = kLfm2Norms,
     .lastNorm = "model.embedding_norm",
     .attention = kLfm2Attention,
     .conv = {.in = "conv.in_proj"},
     .headNorm = HeadNorm::EachHead,
     .mlp = kLfm2Mlp,
     .biases = kNoBiases},
    {.modelType = "lfm2_moe",
     .architecture = "Lfm2MoeForCausalLM",
     .models = "LFM2 8B-A1B and 24B-A2B",
     .differs = "as lfm2, and mixtures of experts, but not in the first "
                "layers; scores are sigmoids, and chosen with a correction",
     .keys = "conv_L_cache conv_bias layer_types moe_intermediate_size "
             "norm_eps norm_topk_prob num_dense_layers num_experts "
             "num_experts_per_tok routed_scaling_factor use_expert_bias",
     .defaults = R"({"conv_L_cache": 3, "intermediate_size": 7168,
         "max_position_embeddings": 128000, "moe_intermediate_size": 1792,
         "norm_eps": 1e-5, "norm_topk_prob": true, "num_dense_layers": 2,
         "num_experts": 32, "num_experts_per_tok": 4,
         "num_key_value_heads": 8, "rope_theta": 1000000.0,
         "tie_word_embeddings": true, "use_expert_bias": true})",
     .renamed = "tie_embedding=tie_word_embeddings",
     .usual = "tie_word_embeddings",
     .norms = kLfm2Norms,
     .lastNorm = "model.embedding_norm",
     .attention = kLfm2Attention,
     .conv = {.in = "conv.in_proj"},
     .headNorm = HeadNorm::EachHead,
     .mlp = kLfm2Mlp,
     .experts = {.router = "feed_forward.gate",
                 .score = ExpertModules::Sigmoid,
                 .correction = "feed_forward.expert_bias",
                 .floor = 1e-6,
                 .each = {"feed_forward.experts.{}.w1",
                          "feed_forward.experts.{}.w3",
                          "feed_forward.experts.{}.w2"}},
     .biases = kNoBiases,
     .needsLayerTypes = true},
    {.modelType = "llama",
     .architecture = "LlamaForCausalLM",
     .models = "Llama 1 to 3.3, TinyLlama, CodeLlama, Yi, SmolLM2, Falcon 3, "
               "DeepSeek's distilled Llamas",
     .differs = "",
     .keys = "attention_bias hidden_act mlp_bias rms_norm_eps",
     .defaults = R"({"hidden_act": "silu", "max_position_embeddings": 2048,
         "rms_norm_eps": 1e-6})"},
    {.modelType = "minicpm3",
     .architecture = "MiniCPM3ForCausalLM",
     .models = "MiniCPM 3",
     .differs = "latent attention; factors of embeddings, updates of the "
                "residual stream and logits",
     .keys = "attention_bias dim_model_base hidden_act kv_lora_rank mlp_bias "
             "q_lora_rank qk_head_dim qk_nope_head_dim qk_rope_head_dim "
             "rms_norm_eps scale_depth scale_emb v_head_dim",
     .defaults = R"({"dim_model_base": 256, "hidden_act": "silu",
         "kv_lora_rank": 256, "max_position_embeddings": 32768,
         "num_key_value_heads": 40, "q_lora_rank": 768,
         "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "rms_norm_eps": 1e-5,
         "scale_depth": 1.4, "scale_emb": 12, "tie_word_embeddings": true})",
     .ignored = "auto_map",
     .latent = kLatent},
    {.modelType = "minimax_m2",
     .architecture = "MiniMaxM2ForCausalLM",
     .models = "MiniMax M2 to M2.7",
     .differs = "norms of all queries together and of all keys together; rope "
                "on a part of each head; mixtures of experts, whose scores are "
                "sigmoids, and chosen with a correction",
     .keys = "attn_type_list hidden_act num_experts_per_tok num_local_experts "
             "partial_rotary_factor rms_norm_eps rotary_dim",
     .defaults = R"({"head_dim": 128, "hidden_act": "silu",
         "max_position_embeddings": 196608, "num_experts_per_tok": 8,
         "num_key_value_heads": 8, "num_local_experts": 256,
         "rms_norm_eps": 1e-6})",
     .fixed = R"({"layernorm_full_attention_beta": 1.0,
         "layernorm_linear_attention_beta": 1.0, "layernorm_mlp_beta": 1.0,
         "qk_norm_type": "per_layer", "scoring_func": "sigmoid",
         "shared_intermediate_size": 0, "use_qk_norm": true,
         "use_routing_bias": true})",
     .ignored = "auto_map mlp_intermediate_size mtp_transformer_layers "
                "num_mtp_modules shared_moe_mode use_mtp",
     .headNorm = HeadNorm::AllHeads,
     .experts = {.router = "block_sparse_moe.gate",
                 .score = ExpertModules::Sigmoid,
                 .weights = ExpertModules::Sum,
                 .correction = "block_sparse_moe.e_score_correction_bias",
                 .each = {"block_sparse_moe.experts.{}.w1",
                          "block_sparse_moe.experts.{}.w3",
                          "block_sparse_moe.experts.{}.w2"}},
     .biases = kNoBiases,
     .rope = {.theta = 5e6}},
    {.modelType = "ministral3",
     .architecture = "Ministral3ForCausalLM",
     .models = "",
     .differs = "the text of Ministral 3: YaRN; positions up to the original "
                "ones, beyond which queries "
                "have a factor",
     .keys = "hidden_act rms_norm_eps sliding_window",
     .defaults = R"({"head_dim": 128, "hidden_act": "silu",
         "max_position_embeddings": 262144, "num_key_value_heads": 8,
         "rms_norm_eps": 1e-5,
         "rope_parameters": {"beta_fast": 32.0, "beta_slow": 1.0,
           "factor": 16.0, "llama_4_scaling_beta": 0.1, "mscale": 1.0,
           "mscale_all_dim": 1.0, "original_max_position_embeddings": 16384,
           "rope_theta": 1000000.0, "type": "yarn"}})",
     .biases = kNoBiases,
     .window = WindowRule::Always,
     .rope = {.keys = "llama_4_scaling_beta max_position_embeddings"}},
    {.modelType = "mistral",
     .architecture = "MistralForCausalLM",
     .models = "Mistral 7B, Mistral Nemo, Mistral Small 3",
     .differs = "a sliding window",
     .keys = "hidden_act rms_norm_eps sliding_window",
     .defaults = R"({"hidden_act": "silu", "max_position_embeddings": 131072,
         "num_key_value_heads": 8, "rms_norm_eps": 1e-6,
         "sliding_window": 4096})",
     .biases = kNoBiases,
     .window = WindowRule::Always},
    {.modelType = "mixtral",
     .architecture = "MixtralForCausalLM",
     .models = "Mixtral 8x7B and 8x22B",
     .differs = "mixtures of experts, whose weights sum to 1",
     .keys = "hidden_act num_experts_per_tok num_local_experts rms_norm_eps "
             "sliding_window",
     .defaults = R"({"hidden_act": "silu", "max_position_embeddings": 131072,
         "num_experts_per_tok": 2, "num_key_value_heads": 8,
         "num_local_experts": 8, "rms_norm_eps": 1e-5})",
     .experts = {.router = "block_sparse_moe.gate",
                 .weights = ExpertModules::Sum,
                 .each = {"block_sparse_moe.experts.{}.w1",
                          "block_sparse_moe.experts.{}.w3",
                          "block_sparse_moe.experts.{}.w2"}},
     .biases = kNoBiases,
     .window = WindowRule::Always,
     .rope = {.theta = 1e6}},
    {.modelType = "nemotron",
     .architecture = "NemotronForCausalLM",
     .models = "Nemotron 4 and Minitron",
     .differs = "layer norms with 1 + weight, an MLP without a gate, with "
                "squared ReLU; rope on a part of each head",
     .keys =
         "attention_bias hidden_act mlp_bias norm_eps partial_rotary_factor",
     .defaults = R"({"hidden_act": "relu2", "max_position_embeddings": 4096,
         "norm_eps": 1e-5})",
     .norm = {.function = NormKind::Layer, .unitOffset = true, .hasBias = true},
     .mlp = kUngated,
     .rope = {.part = 0.5}},
    {.modelType = "nemotron_h",
     .architecture = "NemotronHForCausalLM",
     .models = "Nemotron-H, Nemotron Nano 2 and Nemotron 3 Nano",
     .differs = "a layer is Mamba 2, attention without rope, an MLP, or a "
                "mixture of experts, as layer_types or a pattern says; no MLP "
                "and no expert has a gate",
     .keys = "hidden_act hybrid_override_pattern layer_types mamba_conv_bias "
             "mamba_d_conv mamba_d_head mamba_d_state mamba_hidden_act "
             "mamba_n_groups mamba_n_heads mlp_bias moe_intermediate_size "
             "moe_shared_expert_intermediate_size n_group n_routed_experts "
             "norm_topk_prob num_experts_per_tok rms_norm_eps "
             "routed_scaling_factor topk_group",
     .defaults = R"({"head_dim": 128, "hidden_act": "relu2",
         "mamba_conv_bias": true, "mamba_d_conv": 4, "mamba_d_head": 64,
         "mamba_d_state": 128, "mamba_hidden_act": "silu",
         "mamba_n_groups": 8, "mamba_n_heads": 128,
         "max_position_embeddings": 4096, "moe_intermediate_size": 7688,
         "moe_shared_expert_intermediate_size": 7688, "n_group": 1,
         "n_routed_experts": 8, "norm_topk_prob": true,
         "num_experts_per_tok": 2, "num_key_value_heads": 8,
         "rms_norm_eps": 1e-5, "routed_scaling_factor": 1.0,
         "topk_group": 1})",
     .fixed = R"({"attention_bias": false, "attention_head_dim": 128,
         "mamba_proj_bias": false, "moe_latent_size": null,
         "residual_in_fp32": false, "tie_word_embeddings": false,
         "time_step_limit": [0.0, {"__float__": "Infinity"}],
         "use_bias": false})",
     .renamed = "conv_kernel=mamba_d_conv "
                "layer_norm_epsilon=rms_norm_eps "
                "layers_block_type=layer_types mamba_head_dim=mamba_d_head "
                "mamba_num_heads=mamba_n_heads mlp_hidden_act=hidden_act "
                "n_groups=mamba_n_groups ssm_state_size=mamba_d_state "
                "use_conv_bias=mamba_conv_bias",
     .usual = "layer_types mamba_conv_bias mamba_d_conv mamba_n_groups",
     .ignored = "auto_map chunk_size expand mamba_expand "
                "mamba_ssm_cache_dtype "
                "moe_shared_expert_overlap mtp_hybrid_override_pattern "
                "mtp_layers_block_type n_shared_experts norm_eps "
                "num_logits_to_keep num_nextn_predict_layers "
                "partial_rotary_factor rescale_prenorm_residual "
                "rope_parameters rope_scaling rope_theta time_step_floor "
                "time_step_max time_step_min time_step_rank use_mamba_kernels",
     .norm = kRoundsOnce,
     .norms = {.attention = "norm", .mlp = ""},
     .embedding = "backbone.embeddings",
     .layers = "backbone.layers",
     .lastNorm = "backbone.norm_f",
     .attention = {.query = "mixer.q_proj",
                   .key = "mixer.k_proj",
                   .value = "mixer.v_proj",
                   .out = "mixer.o_proj"},
     .mamba = {.in = "mixer.in_proj",
               .filter = "mixer.conv1d",
               .stepBias = "mixer.dt_bias",
               .logDecay = "mixer.A_log",
               .skip = "mixer.D",
               .norm = "mixer.norm",
               .out = "mixer.out_proj"},
     .hasOnePart = true,
     .mlp = {.gate = "", .up = "mixer.up_proj", .down = "mixer.down_proj"},
     .experts = {.router = "mixer.gate",
                 .score = ExpertModules::Sigmoid,
                 .correction = "mixer.gate.e_score_correction_bias",
                 .floor = 1e-20,
                 .each = {.gate = "",
                          .up = "mixer.experts.{}.up_proj",
                          .down = "mixer.experts.{}.down_proj"},
                 .shared = {.gate = "",
                            .up = "mixer.shared_experts.up_proj",
                            .down = "mixer.shared_experts.down_proj"}},
     .biases = {Bias::Never, Bias::Never, Bias::Given},
     .needsLayerTypes = true,
     .rope = {.layers = RotatedLayers::None}},
    {.modelType = "olmo",
     .architecture = "OlmoForCausalLM",
     .models = "OLMo 1",
     .differs = "layer norms without weights",
     .keys = "attention_bias hidden_act",
     .defaults = R"({"hidden_act": "silu", "max_position_embeddings": 2048})",
     .norm = {.function = NormKind::Layer, .hasWeight = false},
     .biases = {Bias::Given, Bias::Given, Bias::Never}},
    {.modelType = "olmo2",
     .architecture = "Olmo2ForCausalLM",
     .models = "OLMo 2",
     .differs = "norms after attention and MLP instead of before; norms of all "
                "queries together and of all keys together",
     .keys = "attention_bias hidden_act rms_norm_eps",
     .defaults = R"({"hidden_act": "silu", "max_position_embeddings": 2048,
         "rms_norm_eps": 1e-5})",
     .norm = kRoundsOnce,
     .norms = kEndNorms,
     .headNorm = HeadNorm::AllHeads},
    {.modelType = "olmo3",
     .architecture = "Olmo3ForCausalLM",
     .models = "OLMo 3",
     .differs = "as olmo2, and a window in three of four layers; rope is "
                "scaled in the fourth alone",
     .keys =
         "attention_bias hidden_act layer_types rms_norm_eps sliding_window",
     .defaults = R"({"hidden_act": "silu", "max_position_embeddings": 2048,
         "rms_norm_eps": 1e-5, "sliding_window": 4096})",
     .norm = kRoundsOnce,
     .norms = kEndNorms,
     .headNorm = HeadNorm::AllHeads,
     .biases = {Bias::Given, Bias::Given, Bias::Never},
     .window = WindowRule::Pattern,
     .windowPattern = 4,
     .rope = {.theta = 5e5, .windowTheta = 5e5}},
    {.modelType = "olmoe",
     .architecture = "OlmoeForCausalLM",
     .models = "OLMoE",
     .differs = "norms of all queries together and of all keys together; "
                "mixtures of experts",
     .keys = "attention_bias hidden_act norm_topk_prob num_experts "
             "num_experts_per_tok rms_norm_eps",
     .defaults = R"({"hidden_act": "silu", "max_position_embeddings": 4096,
         "norm_topk_prob": false, "num_experts": 64,
         "num_experts_per_tok": 8, "rms_norm_eps": 1e-5})",
     .headNorm = HeadNorm::AllHeads,
     .experts = kQwenExperts,
     .biases = {Bias::Given, Bias::Given, Bias::Never}},
    {.modelType = "opt",
     .architecture = "OPTForCausalLM",
     .models = "OPT 125M and 1.3B to 66B",
     .differs = "learned positions in place of rope; layer norms, an MLP "
                "without a gate, biases",
     .keys = "hidden_act word_embed_proj_dim",
     .defaults = R"({"hidden_act": "relu", "max_position_embeddings": 2048,
         "tie_word_embeddings": true})",
     .fixed = R"({"_remove_final_layer_norm": false,
         "do_layer_norm_before": true, "enable_bias": true,
         "layer_norm_elementwise_affine": true})",
     .renamed = "activation_function=hidden_act ffn_dim=intermediate_size",
     .ignored = "head_dim num_key_value_heads output_projection prefix "
                "rope_parameters rope_scaling rope_theta",
     .norm = kLayerNorm,
     .norms = {.attention = "self_attn_layer_norm", .mlp = "final_layer_norm"},
     .embedding = "model.decoder.embed_tokens",
     .layers = "model.decoder.layers",
     .lastNorm = "model.decoder.final_layer_norm",
     .positions = {"model.decoder.embed_positions", 2},
     .attention = {.out = "self_attn.out_proj"},
     .mlp = {"", "fc1", "fc2"},
     .biases = kBiases,
     .rope = {.layers = RotatedLayers::None}},
    {.modelType = "phi",
     .architecture = "PhiForCausalLM",
     .models = "Phi 1 to 2",
     .differs = "layer norms, an MLP without a gate beside attention, biases, "
                "also of the head; rope on a part of each head",
     .keys = "hidden_act layer_norm_eps partial_rotary_factor",
     .defaults = R"({"hidden_act": "gelu_new", "layer_norm_eps": 1e-5,
         "max_position_embeddings": 2048})",
     .fixed = R"({"qk_layernorm": false})",
     .norm = kLayerNorm,
     .norms = {.mlp = ""},
     .lastNorm = "model.final_layernorm",
     .attention = {.out = "self_attn.dense"},
     .mlp = {"", "mlp.fc1", "mlp.fc2"},
     .isParallel = true,
     .biases = {Bias::Always, Bias::Always, Bias::Always, Bias::Always},
     .rope = {.part = 0.5}},
    {.modelType = "phi3",
     .architecture = "Phi3ForCausalLM",
     .models = "Phi 3, Phi 4",
     .differs = "queries, keys and values in one tensor, gate and up in "
                "another, both used in place; rope on a part of each head; "
                "LongRoPE",
     .keys = "hidden_act partial_rotary_factor rms_norm_eps sliding_window",
     .defaults = R"({"hidden_act": "silu", "max_position_embeddings": 4096,
         "original_max_position_embeddings": 4096, "rms_norm_eps": 1e-5})",
     .fixed = R"({"full_attn_mod": 1, "interpolate_factor": 1,
         "lm_head_bias": false})",
     .ignored = "auto_map",
     .attention = {.fused = "self_attn.qkv_proj"},
     .mlp = {.fused = "mlp.gate_up_proj"},
     .biases = kNoBiases,
     .window = WindowRule::Always,
     .rope = {.isPhi3 = true}},
    {.modelType = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .models = "Qwen 2 and 2.5",
     .differs = "biases of queries, keys and values; a window in the last "
                "layers",
     .keys = "hidden_act layer_types max_window_layers rms_norm_eps "
             "sliding_window use_sliding_window",
     .defaults = R"({"hidden_act": "silu", "max_position_embeddings": 32768,
         "max_window_layers": 28, "num_key_value_heads": 32,
         "rms_norm_eps": 1e-6, "sliding_window": 4096})",
     .biases = {Bias::Always, Bias::Never, Bias::Never},
     .window = WindowRule::LastLayers},
    {.modelType = "qwen2_moe",
     .architecture = "Qwen2MoeForCausalLM",
     .models = "Qwen 1.5 A2.7B, Qwen 2 57B-A14B",
     .differs = "biases of queries, keys and values; mixtures of experts "
                "beside an MLP, which has a factor for each token; some layers "
                "may have none",
     .keys = "decoder_sparse_step hidden_act layer_types mlp_only_layers "
             "moe_intermediate_size norm_topk_prob num_experts "
             "num_experts_per_tok qkv_bias rms_norm_eps "
             "shared_expert_intermediate_size sliding_window",
     .defaults = R"({"decoder_sparse_step": 1, "hidden_act": "silu",
         "max_position_embeddings": 32768, "moe_intermediate_size": 1408,
         "norm_topk_prob": false, "num_experts": 60,
         "num_experts_per_tok": 4, "num_key_value_heads": 16,
         "qkv_bias": true, "rms_norm_eps": 1e-6,
         "shared_expert_intermediate_size": 5632})",
     .fixed = R"({"use_sliding_window": false})",
     .experts = {.router = "mlp.gate",
                 .shared = kQwenShared,
                 .sharedGate = "mlp.shared_expert_gate"},
     .biases = {Bias::Given, Bias::Never, Bias::Never},
     .window = WindowRule::LastLayers},
    {.modelType = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .models = "Qwen 3",
     .differs = "norms of each head's queries and keys; a window in the last "
                "layers",
     .keys = "attention_bias hidden_act layer_types max_window_layers "
             "rms_norm_eps sliding_window use_sliding_window",
     .defaults = R"({"head_dim": 128, "hidden_act": "silu",
         "max_position_embeddings": 32768, "max_window_layers": 28,
         "num_key_value_heads": 32, "rms_norm_eps": 1e-6,
         "sliding_window": 4096})",
     .headNorm = HeadNorm::EachHead,
     .window = WindowRule::LastLayers},
    {.modelType = "qwen3_5_moe_text",
     .architecture = "Qwen3_5MoeForCausalLM",
     .models = "",
     .differs = "as qwen3_5_text, and mixtures of experts beside an MLP, which "
                "has a factor for each token",
     .keys = "attention_bias full_attention_interval hidden_act layer_types "
             "linear_conv_kernel_dim linear_key_head_dim linear_num_key_heads "
             "linear_num_value_heads linear_value_head_dim "
             "moe_intermediate_size num_experts num_experts_per_tok "
             "partial_rotary_factor rms_norm_eps "
             "shared_expert_intermediate_size",
     .defaults = R"({"full_attention_interval": 4, "head_dim": 256,
         "hidden_act": "silu", "intermediate_size": 512,
         "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
         "linear_num_key_heads": 16, "linear_num_value_heads": 32,
         "linear_value_head_dim": 128, "max_position_embeddings": 32768,
         "moe_intermediate_size": 512, "num_experts": 256,
         "num_experts_per_tok": 8, "num_key_value_heads": 2,
         "rms_norm_eps": 1e-6, "shared_expert_intermediate_size": 512})",
     .fixed = kQwen35Fixed,
     .ignored = kQwen35Ignored,
     .norm = kUnitOffset,
     .attention = {.gatesHeads = true},
     .delta = {.in = "linear_attn.in_proj_qkv"},
     .headNorm = HeadNorm::EachHead,
     .experts = {.router = "mlp.gate",
                 .weights = ExpertModules::Sum,
                 .shared = kQwenShared,
                 .sharedGate = "mlp.shared_expert_gate"},
     .biases = {Bias::Given, Bias::Given, Bias::Never},
     .rope = {.part = 0.25, .keys = "mrope_interleaved mrope_section"}},
    {.modelType = "qwen3_5_text",
     .architecture = "Qwen3_5ForCausalLM",
     .models = "",
     .differs = "the text of qwen3_5: norms with 1 + weight, also of each "
                "head's queries and keys; a gate for each head; rope on a part "
                "of each head; in most layers, the gated delta rule in place "
                "of attention",
     .keys = kQwen35Keys,
     .defaults = kQwen35Defaults,
     .fixed = kQwen35Fixed,
     .ignored = kQwen35Ignored,
     .norm = kUnitOffset,
     .attention = {.gatesHeads = true},
     .delta = {.in = "linear_attn.in_proj_qkv"},
     .headNorm = HeadNorm::EachHead,
     .biases = {Bias::Given, Bias::Given, Bias::Never},
     .rope = {.part = 0.25, .keys = "mrope_interleaved mrope_section"}},
    {.modelType = "qwen3_moe",
     .architecture = "Qwen3MoeForCausalLM",
     .models = "Qwen 3 30B-A3B and 235B-A22B, Qwen 3 Coder",
     .differs = "as qwen3, and mixtures of experts; some layers may have none",
     .keys = "attention_bias decoder_sparse_step hidden_act mlp_only_layers "
             "moe_intermediate_size norm_topk_prob num_experts "
             "num_experts_per_tok num_local_experts rms_norm_eps "
             "sliding_window use_sliding_window",
     .defaults = R"({"decoder_sparse_step": 1, "hidden_act": "silu",
         "max_position_embeddings": 32768, "moe_intermediate_size": 768,
         "norm_topk_prob": false, "num_experts_per_tok": 8, "num_key_value_heads": 4,
         "rms_norm_eps": 1e-6, "sliding_window": 4096})",
     .headNorm = HeadNorm::EachHead,
     .experts = kQwenExperts,
     .biases = {Bias::Given, Bias::Given, Bias::Never},
     .window = WindowRule::LastLayers},
    {.modelType = "qwen3_next",
     .architecture = "Qwen3NextForCausalLM",
     .models = "Qwen 3 Next 80B-A3B",
     .differs = "as qwen3_5_moe_text; some layers may have no experts",
     .keys = "attention_bias decoder_sparse_step full_attention_interval "
             "hidden_act layer_types linear_conv_kernel_dim "
             "linear_key_head_dim linear_num_key_heads linear_num_value_heads "
             "linear_value_head_dim mlp_only_layers moe_intermediate_size "
             "norm_topk_prob num_experts num_experts_per_tok "
             "partial_rotary_factor rms_norm_eps "
             "shared_expert_intermediate_size split_qkvz",
     .defaults = R"({"decoder_sparse_step": 1, "full_attention_interval": 4,
         "head_dim": 256, "hidden_act": "silu", "intermediate_size": 5632,
         "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
         "linear_num_key_heads": 16, "linear_num_value_heads": 32,
         "linear_value_head_dim": 128, "max_position_embeddings": 32768,
         "moe_intermediate_size": 512, "norm_topk_prob": true,
         "num_experts": 512, "num_experts_per_tok": 10,
         "num_key_value_heads": 2, "rms_norm_eps": 1e-6,
         "shared_expert_intermediate_size": 512})",
     .fixed = R"({"use_sliding_window": false})",
     .norm = kUnitOffset,
     .attention = {.gatesHeads = true},
     .delta = {.in = "linear_attn.in_proj_qkvz",
               .fusesHeads = true,
               .rate = "linear_attn.in_proj_ba"},
     .headNorm = HeadNorm::EachHead,
     .experts = {.router = "mlp.gate",
                 .shared = kQwenShared,
                 .sharedGate = "mlp.shared_expert_gate"},
     .biases = {Bias::Given, Bias::Given, Bias::Never},
     .rope = {.part = 0.25}},
    {.modelType = "qwen3_vl_text",
     .architecture = "Qwen3VLForCausalLM",
     .models = "",
     .differs = "the text of qwen3_vl: norms of each head's queries and keys",
     .keys = "attention_bias hidden_act rms_norm_eps",
     .defaults = R"({"head_dim": 128, "hidden_act": "silu",
         "max_position_embeddings": 128000, "num_key_value_heads": 32,
         "rms_norm_eps": 1e-6})",
     .headNorm = HeadNorm::EachHead,
     .biases = {Bias::Given, Bias::Given, Bias::Never},
     .rope = {.theta = 5e5, .keys = "mrope_interleaved mrope_section"}},
    {.modelType = "seed_oss",
     .architecture = "SeedOssForCausalLM",
     .models = "Seed-OSS",
     .differs = "biases of queries, keys and values",
     .keys =
         "attention_bias attention_out_bias hidden_act mlp_bias rms_norm_eps",
     .defaults = R"({"attention_bias": true, "head_dim": 128,
         "hidden_act": "silu", "max_position_embeddings": 524288,
         "num_key_value_heads": 8, "rms_norm_eps": 1e-6})"},
    {.modelType = "smollm3",
     .architecture = "SmolLM3ForCausalLM",
     .models = "SmolLM3",
     .differs = "layers without rope",
     .keys = "attention_bias hidden_act layer_types mlp_bias "
             "no_rope_layer_interval no_rope_layers rms_norm_eps "
             "sliding_window use_sliding_window",
     .defaults = R"({"hidden_act": "silu", "max_position_embeddings": 32768,
         "no_rope_layer_interval": 4, "num_key_value_heads": 4,
         "rms_norm_eps": 1e-6, "tie_word_embeddings": true})",
     .window = WindowRule::WithoutRope,
     .rope = {.theta = 2e6}},
    {.modelType = "stablelm",
     .architecture = "StableLmForCausalLM",
     .models = "StableLM 3B, StableLM 2 1.6B",
     .differs = "layer norms; rope on a part of each head",
     .keys = "hidden_act layer_norm_eps partial_rotary_factor use_qkv_bias",
     .defaults = R"({"hidden_act": "silu", "layer_norm_eps": 1e-5,
         "max_position_embeddings": 4096, "num_key_value_heads": 32})",
     .fixed = R"({"qk_layernorm": false, "use_parallel_residual": false})",
     .norm = kLayerNorm,
     .biases = {Bias::Given, Bias::Never, Bias::Never},
     .rope = {.part = 0.25}},
    {.modelType = "starcoder2",
     .architecture = "Starcoder2ForCausalLM",
     .models = "StarCoder 2",
     .differs = "layer norms, an MLP without a gate, biases, a sliding window",
     .keys = "hidden_act norm_epsilon sliding_window use_bias",
     .defaults = R"({"hidden_act": "gelu_pytorch_tanh",
         "max_position_embeddings": 4096, "norm_epsilon": 1e-5,
         "num_key_value_heads": 2, "tie_word_embeddings": true,
         "use_bias": true})",
     .fixed = R"({"mlp_type": "default", "norm_type": "layer_norm",
         "scale_attn_weights": true})",
     .ignored =
         "activation_function attention_softmax_in_fp32 layer_norm_epsilon "
         "scale_attention_softmax_in_fp32",
     .norm = kLayerNorm,
     .mlp = kGptMlp,
     .window = WindowRule::Always},
};

llvm::ArrayRef<Family> cria::textFamilies() { return kFamilies; }
