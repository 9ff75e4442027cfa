"""mutants.py BIN SCRATCH [wgmma|attention|bulk|decode]: bugs planted in Cria's kernels are
found. Without a word, in the kernels of all GPUs; else in products or attention by
warpgroups, in weights that come by bulk copies, or in decode attention on tensor cores.

The PTX of a small model is changed in its artifact, one instruction for each mutant. The
checks of the emulated driver must name the mutant's kernel. If a mutant only computes
something else, the prompt's logits must differ. The unchanged kernels pass, in every
order of threads that is tried.
"""

import concurrent.futures
import json
import re
import sys

import numpy as np

import frames
from harness import Tools, check, execute, some
from weights import fnv1a64

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 104,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 101,
    "max_position_embeddings": 128,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": True,
}
IDS = "5,100,7,3,3,12,90"
SEEDS = [0, 1, 2]

NORM, PRODUCT, TILES = "head_prefill_input", "head_decode", "head_prefill_few"
KEYS, PROMPT, DECODE = (
    "layers_attn_qkv_prefill_few",
    "layers_attn_prefill",
    "layers_attn_decode",
)

# (what, kernel, pattern, replacement, which match). Missing fences between
# blocks are planted in test/emulator/PlantedKernels.cpp.
FOUND = [
    ("no barrier before the sum of a row", NORM, r"bar\.sync\s+0;", "", 0),
    ("no barrier in the norm of a gemv", PRODUCT, r"bar\.sync\s+0;", "", 0),
    ("no barrier before the gemv", PRODUCT, r"bar\.sync\s+0;", "", 1),
    ("no barrier behind keys", PROMPT, r"bar\.sync\s+0;", "", 0),
    ("no barrier before the warps' merge", DECODE, r"bar\.sync\s+0;", "", 0),
    ("no barrier behind arriving", DECODE, r"bar\.sync\s+0;", "", 2),
    ("no barrier behind copies", TILES, r"bar\.sync\s+0;", "", 0),
    ("a barrier for some", NORM, r"bar\.sync\s+0;", "@%p1 bar.sync 0;", 0),
    ("no wait for copies", TILES, r"cp\.async\.wait_group\s+2;", "", 0),
    ("a wait for too few", TILES, r"(wait_group\s+)2;", r"\g<1>3;", 0),
    ("a copy not committed", TILES, r"cp\.async\.commit_group;", "", 0),
    ("a copy 8 bytes aside", KEYS, r"(cp\.async\S+ +\[%rd?\d+)\]", r"\1+8]", 0),
    ("a source 8 bytes aside", KEYS, r"(cp\.async.*, \[%rd?\d+)\]", r"\1+8]", 0),
    ("rows of a matrix aside", TILES, r"(ldmatrix.*\[%rd?\d+)\]", r"\1+8]", 0),
    ("a matrix beyond the tile", TILES, r"(ldmatrix.*\[%rd?\d+)\]", r"\1+49152]", 0),
    ("no wait for weights", PRODUCT, r"cp\.async\.wait_group\s+\d+;", "", 0),
    ("weights 8 bytes aside", PRODUCT, r"(cp\.async.*, \[%rd?\d+)\]", r"\1+8]", 0),
    ("inputs 8 bytes aside", PRODUCT, r"(ld\.shared\.v4.*\[%rd?\d+)\]", r"\1+8]", -1),
    ("rows 4 bytes aside", "embed_decode", r"(v4\.b32.*\[%rd?\d+)\]", r"\1+4]", 0),
    ("an id 3 bytes on", "embed_prefill", r"(\.b32\s+%r\d+, \[%rd?\d+)\]", r"\1+3]", 0),
    ("rows of twice the size", "embed_prefill", r"(, )128;", r"\g<1>256;", 0),
    ("threads beyond a row", "embed_prefill", r"@%p1 bra.*;", "", 0),
    ("columns beyond the logits", TILES, r"(setp\.gt\.\w+.*), 100;", r"\1, 127;", 0),
    ("tokens beyond the logits", TILES, r"setp\.ge\.s32.*;", "setp.ne.b32 %p1, 0, 0;", 0),
    ("logits one row down", PRODUCT, r"(st\.global\.b32\s+\[%rd\d+)\]", r"\1+256]", 0),
    ("threads beyond a head", DECODE, r"setp\.gt\.u32(.*), 31;", r"setp.gt.u32\1, 4095;", 0),
    ("states beyond shared memory", DECODE, r"(ld\.shared\S+\s+\S+ \[%rd?\d+)\]", r"\1+4096]", 0),
    ("a mask without half a warp", NORM, r"16, 31, -1;", "16, 31, 0xffff;", 0),
    ("a mask of one lane", PRODUCT, r"8, 31, -1;", "8, 31, 1;", 0),
    ("a shuffle for some", PRODUCT, r"(shfl\.sync.*, 31, -1;)", r"@%p1 \1", 0),
    ("a counter that is no number", DECODE, r"(atom\.\S+\s+%r\d+, \[%rd?\d+)\]", r"\1+2]", 0),
]
DIFFERENT = [
    ("half a warp's sum", NORM, r"(shfl.*, )16(, 31)", r"\g<1>0\2", 0),
    ("a sum with itself", PROMPT, r"(shfl.*, )1(, 31)", r"\g<1>0\2", -1),
    ("another product", TILES, r"mma\.sync[^{]*\{\s*(%r\d+)[^;]*;", r"mov.b32 \1, 0;", 0),
    ("others' columns", "layers_mlp_gate_up_prefill_few", r"(ldmatrix.*\+)4096\]", r"\g<1>6144]", 0),
    ("weights for inputs", KEYS, r"(ld\.param.*param_)0\]", r"\g<1>1]", 0),
    ("a key too many", PROMPT, r"setp\.lt(\.s32[^;]*;[^;]*selp\.f32)", r"setp.le\1", 0),
    ("no mask", PROMPT, r"setp\.lt(\.s32[^;]*;[^;]*@%p)", r"setp.ge\1", 0),
]
# The same with weights in blocks, whose rows are long enough to be copied ahead.
BLOCKS = CONFIG | {"hidden_size": 256, "intermediate_size": 256}
FOUND_IN_BLOCKS = [
    ("no wait for blocks", PRODUCT, r"cp\.async\.wait_group\s+\d+;", "", -1),
    ("no barrier of the warp", PRODUCT, r"bar\.warp\.sync\s+-1;", "", -1),
    ("no barrier behind the input", PRODUCT, r"bar\.sync\s+0;", "", -1),
    ("no wait for tiles of blocks", "head_prefill", r"cp\.async\.wait_group\s+0;", "", 0),
    ("no barrier behind blocks", "head_prefill", r"bar\.sync\s+0;", "", 0),
]
# The same with four experts; each token has two.
EXPERTS = CONFIG | {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "num_hidden_layers": 1,
    "num_local_experts": 4,
}
GATES_OF_EXPERTS = "layers_block_sparse_moe_experts_w1_w3_decode"
GROUPS = "layers_block_sparse_moe_experts_w1_w3_prefill_groups"
NUMBER = r"(mad\.lo\.s32\s+%r\d+, )%r\d+(, 104,)"
FOUND_IN_EXPERTS = [
    ("the expert behind the last", GATES_OF_EXPERTS, NUMBER, r"\g<1>4\2", 0),
    ("the last of twice as many", GATES_OF_EXPERTS, NUMBER, r"\g<1>7\2", 0),
    ("a choice of no expert", GROUPS, r"ld\.global\.b32(\s+%r\d+), \[%rd\d+\];", r"mov.b32\1, 4;", 0),
]
# The same with a query head for each KV head, whose keys no tensor core multiplies.
SINGLE = CONFIG | {"num_key_value_heads": 4}
FOUND_IN_SCAN = [
    ("no wait for keys", DECODE, r"cp\.async\.wait_group\s+1;", "", 0),
    ("a wait for too few keys", DECODE, r"(wait_group\s+)1;", r"\g<1>2;", 0),
]
# Decode attention on tensor cores. There are so many heads that keys are not split, and a
# warp has two tiles of keys. The last id of the prompt is decoded.
TURNS = CONFIG | {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 1056,
    "num_key_value_heads": 528,
    "head_dim": 16,
}
TURNS_IDS = ",".join(str(i * i % 101) for i in range(90))
ASIDE = r"(ldmatrix.*\[%rd?\d+)\]"
FOUND_IN_TURNS = [
    ("no wait for keys", DECODE, r"cp\.async\.wait_group\s+1;", "", 0),
    ("no wait for values", DECODE, r"cp\.async\.wait_group\s+1;", "", 1),
    ("a wait for too few keys", DECODE, r"(wait_group\s+)1;", r"\g<1>2;", 0),
    ("no barrier behind keys", DECODE, r"bar\.warp\.sync\s+-1;", "", 0),
    ("keys over those that are read", DECODE, r"bar\.warp\.sync\s+-1;", "", 1),
    ("no barrier behind values", DECODE, r"bar\.warp\.sync\s+-1;", "", 2),
    ("values over those that are read", DECODE, r"bar\.warp\.sync\s+-1;", "", 3),
    ("keys not committed", DECODE, r"cp\.async\.commit_group;", "", 1),
    ("rows of keys aside", DECODE, ASIDE, r"\1+8]", 0),
    ("values beyond the tile", DECODE, ASIDE, r"\1+49152]", 1),
    ("no barrier before the merge", DECODE, r"bar\.sync\s+0;", "", 0),
]
DIFFERENT_IN_TURNS = [
    ("a key too many", DECODE, r"setp\.gt(\.s32\s+%p\d+, %r\d+, 8;)", r"setp.ge\1", 0),
    ("another head's factor", DECODE, r"(shfl\.sync\.idx\.b32\s+%r\d+, %r\d+, )%r\d+", r"\g<1>16", 0),
    ("a maximum of some keys", DECODE, r"(shfl.*, )2(, 31)", r"\g<1>0\2", 0),
    ("another product of values", DECODE, r"mma\.sync[^{]*\{\s*(%r\d+)[^;]*;", r"mov.b32 \1, 0;", -1),
    ("values not transposed", DECODE, r"\.trans(\.shared)", r"\1", 0),
]
# The same for sm_90, where a kernel begins before the one before it has ended.
OVERLAP_IDS = ",".join(str(i * i % 101) for i in range(20))
QKV, GATES = "layers_attn_qkv_decode_bulk", "layers_mlp_gate_up_decode_bulk"
HEAD = "head_decode_bulk"
WAIT = r"griddepcontrol\.wait;"
LAST_GIVEN = r"min\.s32(\s+%r\d+, %r\d+), %r\d+;"
FOUND_IN_OVERLAP = [
    ("no wait for the launch before", HEAD, WAIT, "", 0),
    ("no wait for queries", DECODE, WAIT, "", 0),
    ("the new key copied early", DECODE, LAST_GIVEN, r"mov.b32\1;", 1),
    ("a given key left out", DECODE, r"cp\.async\.cg[^;]*;", "", 0),
    ("the new key left out", DECODE, r"cp\.async\.cg[^;]*;", "", 2),
    ("the new value left out", DECODE, r"cp\.async\.cg[^;]*;", "", 3),
    ("a wait behind the input", HEAD, WAIT + r"([\s\S]*?ld\.global[^;]*;)", r"\1 griddepcontrol.wait;", 0),
    ("a wait behind the position", QKV, WAIT + r"([\s\S]*?ld\.global[^;]*;)", r"\1 griddepcontrol.wait;", 0),
    ("a wait behind the result", GATES, WAIT + r"([\s\S]*?st\.global[^;]*;)", r"\1 griddepcontrol.wait;", 0),
    ("an input copied early", HEAD, r"(ld\.param\S+\s+%rd\d+, \[\w+_param_)0\]", r"\g<1>1]", 0),
    ("a wait of some blocks", GATES, WAIT, "{.reg .pred %q; .reg .b32 %c; mov.u32 %c, %ctaid.x; setp.eq.u32 %q, %c, 0; @%q griddepcontrol.wait;}", 0),
]
FOUND_IN_SCAN_OVERLAP = [
    ("the new key copied early", DECODE, LAST_GIVEN, r"mov.b32\1;", 1),
    ("no wait for queries", DECODE, WAIT, "", 0),
]


# Warpgroups' products in prompts of many rows: k is split in two, and each half goes
# round the ring.
WGMMA = CONFIG | {
    "hidden_size": 704,
    "intermediate_size": 512,
    "num_hidden_layers": 1,
    "num_attention_heads": 11,
    "num_key_value_heads": 1,
    "max_position_embeddings": 256,
}
WGMMA_IDS = ",".join(str(i * i % 101) for i in range(130))
GATE, DOWN, QKV = (f"layers_{name}_prefill_wgmma" for name in ("mlp_gate_up", "mlp_down", "attn_qkv"))
WAIT, INIT = r"bra\.uni\s+LAB_WAIT;", r"mbarrier\.init\S+\s+(\[[^\]]*\]), %r\d+;"
FOUND_WGMMA = [
    ("no wait for a full stage", GATE, WAIT, "", -1),
    ("no wait for a free stage", GATE, WAIT, "", 1),
    ("a full stage's other phase", GATE, r"(P1, \[%r\d+\], )%r\d+", r"\g<1>1", -1),
    ("a free stage's other phase", GATE, r"(P1, \[%r\d+\], )%r\d+", r"\g<1>1", 1),
    ("no fence of barriers", GATE, r"fence\.mbarrier_init\S+;", "", 0),
    ("no barrier behind their init", GATE, r"barrier\.cluster\.arrive.aligned;([\s\S]*?)barrier\.cluster\.wait.aligned;", r"\1", 0),
    ("one block's warpgroups free a stage", GATE, INIT, r"mbarrier.init.shared.b64 \1, 2;", 1),
    ("five free a stage", GATE, INIT, r"mbarrier.init.shared.b64 \1, 5;", 1),
    ("a stage freed in the own block alone", GATE, r"mapa\S+\s+(%rd\d+), (%rd\d+), %r\d+;", r"mov.b64 \1, \2;", 0),
    ("a stage freed in the first block alone", GATE, r"(mapa\S+\s+%rd\d+, %rd\d+), %r\d+;", r"\1, 0;", 0),
    ("a block beyond the cluster", GATE, r"(mapa\S+\s+%rd\d+, %rd\d+), %r\d+;", r"\1, 2;", 0),
    ("weights for the first block alone", GATE, r"(multicast::cluster[^;]*, )%rs\d+;", r"\g<1>1;", 0),
    ("weights for no block", GATE, r"(multicast::cluster[^;]*, )%rs\d+;", r"\g<1>0;", 0),
    ("weights for three blocks", GATE, r"(multicast::cluster[^;]*, )%rs\d+;", r"\g<1>7;", 0),
    ("no wait for the other block's end", GATE, r"barrier\.cluster\.wait.aligned;", "", -1),
    ("an arrival at the end left out", GATE, r"barrier\.cluster\.arrive.aligned;", "", -1),
    ("no barrier at the end", GATE, r"(cluster\.wait.aligned;[\s\S]*?)barrier\.cluster\.arrive.aligned;([\s\S]*?)barrier\.cluster\.wait.aligned;", r"\1\2", 0),
    ("two fill a stage", GATE, INIT, r"mbarrier.init.shared.b64 \1, 2;", 0),
    ("no stage is freed", GATE, r"mbarrier\.arrive\.shared::cluster\S+\s+[^;]*;", "", 0),
    ("bytes too few", GATE, r"(expect_tx\S+\s+%rd\d+, \[[^\]]*\], )%r\d+", r"\g<1>512", 0),
    ("a copy left out", GATE, r"cp\.async\.bulk[^;]*;", "", 0),
    ("a box aside", GATE, r"(tensor\.5d\S+ \[%rd\d+)\]", r"\1+16]", 0),
    ("no fence of sums", GATE, r"wgmma\.fence[^;]*;", "", 0),
    ("products not committed", GATE, r"wgmma\.commit_group[^;]*;", "", -1),
    ("no wait for a stage's products", GATE, r"wgmma\.wait_group\S+\s+1;", "", -1),
    ("a wait for too few products", GATE, r"(wgmma\.wait_group\S+\s+)1;", r"\g<1>2;", -1),
    ("no wait for sums", GATE, r"wgmma\.wait_group\S+\s+0;", "", 0),
    ("registers that none left", GATE, r"(setmaxnreg\.inc\S+\s+)232;", r"\g<1>240;", 0),
    ("no barrier behind arriving", DOWN, r"bar\.sync\s+1, 256;", "", 1),
    ("a barrier of all", DOWN, r"(bar\.sync\s+1), 256;", r"\1, 384;", 0),
]
DIFFERENT_WGMMA = [
    ("no swizzle", GATE, r"4611686293305294848", "274877906944", 0),
    ("a weight for another", GATE, r"(param_)1;", r"\g<1>2;", 0),
    ("another layout of weights", QKV, r"4611686293305294848", "4611686430744248320", -1),
]

# Blocks that have a second tile, of four steps as the ring has stages.
PERSISTENT = CONFIG | {
    "hidden_size": 256,
    "intermediate_size": 4352,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "max_position_embeddings": 256,
}
FOUND_PERSISTENT = [
    ("a tile's last stage not freed", GATE, r"mbarrier\.arrive\.shared::cluster\S+\s+[^;]*;", "", -1),
]
DIFFERENT_PERSISTENT = [
    ("every second tile left out", GATE, r"(add\.s32\s+(%r\d+), \2, )66;", r"\g<1>132;", -1),
]

# Attention by warpgroups. Its last rows go round the ring.
ATTENTION = CONFIG | {
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 128,
    "max_position_embeddings": 320,
}
ATTENTION_IDS = ",".join(str(i * i % 101) for i in range(300))
ROWS, FIRST = "layers_attn_prefill_wgmma", r"(P1, \[%r\d+\], )0"
FOUND_ATTENTION = [
    ("the queries' other phase", ROWS, FIRST, r"\g<1>1", 0),
    ("no wait for the first keys", ROWS, WAIT, "", 1),
    ("the first values' other phase", ROWS, FIRST, r"\g<1>1", 2),
    ("no wait for values", ROWS, WAIT, "", 3),
    ("no wait for keys", ROWS, WAIT, "", 4),
    ("no wait for free keys", ROWS, WAIT, "", 5),
    ("free values' other phase", ROWS, r"(P1, \[%r\d+\], )%r\d+", r"\g<1>1", -1),
    ("one warpgroup frees values", ROWS, INIT, r"mbarrier.init.shared.b64 \1, 1;", 3),
    ("three free values", ROWS, INIT, r"mbarrier.init.shared.b64 \1, 3;", 3),
    ("no keys are freed", ROWS, r"mbarrier\.arrive\.shared\S+\s+[^;]*;", "", 0),
    ("no values are freed", ROWS, r"mbarrier\.arrive\.shared\S+\s+[^;]*;", "", 2),
    ("bytes too few of queries", ROWS, r"(expect_tx\S+\s+%rd\d+, \[[^\]]*\], )%r\d+", r"\g<1>512", 0),
    ("a half of keys left out", ROWS, r"cp\.async\.bulk[^;]*;", "", 3),
    ("no fence of the first products", ROWS, r"wgmma\.fence[^;]*;", "", 0),
    ("no fence of sums", ROWS, r"wgmma\.fence[^;]*;", "", 1),
    ("no fence of the last sums", ROWS, r"wgmma\.fence[^;]*;", "", 2),
    ("scores not committed", ROWS, r"wgmma\.commit_group[^;]*;", "", 1),
    ("no wait for scores", ROWS, r"wgmma\.wait_group\S+\s+1;", "", 0),
    ("no wait for the first scores", ROWS, r"wgmma\.wait_group\S+\s+0;", "", 0),
    ("a wait for too few sums", ROWS, r"(wgmma\.wait_group\S+\s+)0;", r"\g<1>1;", 1),
    ("no wait for the last sums", ROWS, r"wgmma\.wait_group\S+\s+0;", "", -1),
    ("no fence behind clearing", ROWS, r"fence\.proxy\.async[^;]*;", "", 0),
    ("no barrier behind clearing", ROWS, r"bar\.sync\s+1, 256;", "", 0),
    ("a barrier of all", ROWS, r"(bar\.sync\s+1), 256;", r"\1, 384;", 0),
    ("registers that none left", ROWS, r"(setmaxnreg\.inc\S+\s+)232;", r"\g<1>240;", 0),
]
DIFFERENT_ATTENTION = [
    ("values not transposed", ROWS, r"p, 1, 1, 1;", "p, 1, 1, 0;", 0),
    ("columns elsewhere", ROWS, r"4611686293372403712", "4611686293338849280", 0),
    ("scores of the turn before", ROWS, r"setp\.ne\.b32 p, 0, 0;", "setp.ne.b32 p, 1, 0;", 1),
    ("keys for values", ROWS, r"(param_)1;", r"\g<1>2;", 0),
    ("a key too many", ROWS, r"setp\.lt(\.s32[^;]*;[^;]*selp\.f32)", r"setp.le\1", -1),
    ("a maximum of two lanes", ROWS, r"(shfl.*, )2(, 31)", r"\g<1>0\2", 2),
    ("half a sum", ROWS, r"(shfl.*, )1(, 31)", r"\g<1>0\2", -1),
    ("outputs not rescaled", ROWS, r"mul\S+(\s+%r\d+, )%r\d+, (%r\d+);", r"mov.b32\1\2;", 20),
]

# Weights of decode by bulk copies: rows that go round the ring twice, and end within a
# stage. The last id of the prompt is decoded. The prompt's `down` is split in a cluster.
BULK = CONFIG | {"intermediate_size": 4352, "num_hidden_layers": 1}
STREAM, STAGED = "layers_mlp_down_decode_bulk", "layers_attn_out_decode_bulk"
SPLITS = "layers_mlp_down_prefill_few_cluster"
EXPECT = r"(expect_tx\S+\s+%rd\d+, \[[^\]]*\], )%r\d+"
FOUND_BULK = [
    ("no wait for sums of the cluster", SPLITS, r"barrier\.cluster\.arrive.aligned;([\s\S]*?)barrier\.cluster\.wait.aligned;", r"\1", 0),
    ("sums of the cluster not ordered", SPLITS, r"barrier\.cluster\.arrive.aligned;", "barrier.cluster.arrive.relaxed.aligned;", 0),
    ("no wait for weights", STREAM, WAIT, "", 0),
    ("no wait for the next round", STREAM, WAIT, "", -1),
    ("no wait for a row's end", STAGED, WAIT, "", -1),
    ("weights' other phase", STREAM, r"(P1, \[%r\d+\], )%r\d+", r"\g<1>1", 0),
    ("always the first phase", STREAM, r"(P1, \[%r\d+\], )%r\d+", r"\g<1>0", -1),
    ("no fence of barriers", STREAM, r"fence\.mbarrier_init\S+;", "", 0),
    ("a barrier that nothing begins", STREAM, r"mbarrier\.init\S+\s+[^;]*;", "", 1),
    ("two announce a stage", STREAM, r"(mbarrier\.init\S+\s+\[[^\]]*\]), %r\d+;", r"\1, 2;", 0),
    ("no barrier behind their init", STREAM, r"bar\.warp\.sync\s+-1;", "", 0),
    ("weights over those that are read", STREAM, r"bar\.warp\.sync\s+-1;", "", 1),
    ("the last over those that are read", STREAM, r"bar\.warp\.sync\s+-1;", "", -1),
    ("nothing announced", STREAM, r"mbarrier\.arrive\.expect_tx[^;]*;", "", 0),
    ("bytes too few", STREAM, EXPECT, r"\g<1>512", 0),
    ("bytes too many", STREAM, EXPECT, r"\g<1>2048", 0),
    ("a copy left out", STREAM, r"cp\.async\.bulk[^;]*;", "", 0),
    ("a copy of the next round left out", STREAM, r"cp\.async\.bulk[^;]*;", "", -1),
    ("a copy in the next stage", STREAM, r"(cp\.async\.bulk\S+ \[%rd\d+)\]", r"\1+1024]", 0),
    ("a copy 8 bytes aside", STREAM, r"(cp\.async\.bulk\S+ \[%rd\d+)\]", r"\1+8]", 0),
    ("a source 8 bytes aside", STREAM, r"(cp\.async\.bulk\S+ \[[^\]]*\], \[%rd\d+)\]", r"\1+8]", 0),
    ("all lanes copy", STREAM, r"elect\.sync\s+%r\d+\|(%p\d+), -1;", r"setp.eq.b32 \1, 0, 0;", 0),
    ("a round too many", STREAM, r"and\.pred(\s+%p\d+, %p\d+), %p\d+;", r"mov.pred\1;", 0),
    ("no wait for the launch before", STREAM, r"griddepcontrol\.wait;", "", -1),
]
DIFFERENT_BULK = [
    ("a source aside", STREAM, r"(cp\.async\.bulk\S+ \[[^\]]*\], \[%rd\d+)\]", r"\1+16]", 0),
    ("weights aside", STREAM, r"(ld\.shared\.v4.*\[%rd?\d+)\]", r"\1+16]", 0),
]

HOPPER = {
    "wgmma": [
        (WGMMA, WGMMA_IDS, FOUND_WGMMA, DIFFERENT_WGMMA),
        (PERSISTENT, WGMMA_IDS, FOUND_PERSISTENT, DIFFERENT_PERSISTENT),
    ],
    "attention": [(ATTENTION, ATTENTION_IDS, FOUND_ATTENTION, DIFFERENT_ATTENTION)],
}


def mutated(ptx, kernel, pattern, replacement, which):
    """The PTX with one change and the same length, without line tables. The lines of other
    kernels keep their numbers, so that the emulator need not compile these again."""
    begin = ptx.index(f".entry {kernel}(")
    end = ptx.index("\n\n}\n", begin)
    body = ptx[begin:end]
    matches = list(re.finditer(pattern, body))
    check(matches, f"{kernel} has no {pattern}")
    at = matches[which]
    text = body[: at.start()] + at.expand(replacement) + body[at.end() :]
    text = re.sub(r"^\s*\.loc.*$", "", text, flags=re.MULTILINE)
    check(len(text) <= len(body), f"{kernel}: a change without room")
    return ptx[:begin] + text + " " * (len(body) - len(text)) + ptx[end:]


class Planter:
    def __init__(self, tools, model, *flags, ids=IDS, device="sm_80", tokens=1):
        self.tools, self.ids, self.device, self.tokens = tools, ids, device, tokens
        config = tools.scratch / "config.json"
        config.write_text(json.dumps(model))
        if not any(flag.startswith("--chip=") for flag in flags):
            flags = (f"--chip={device}", *flags)  # texts of several chips share lines
        # Lines of PTX are room for changes.
        lines = ("-g", f"--dump-phases={tools.scratch / 'phases'}")
        artifact = tools.compile(config, "--target=cuda", *lines, *flags).read_bytes()
        begin, end = frames.frame_in(artifact)
        self.head, self.size, self.tail = artifact[:begin], end - begin, artifact[end:-8]
        self.ptx = frames.unpack(artifact[begin:end]).decode()

    def run(self, name, ptx, seed=0):
        """(run, logits or None) of a changed artifact."""
        path = self.tools.scratch / f"{name.replace(' ', '-')}.cria"
        image = self.head + frames.pack(ptx.encode(), self.size) + self.tail
        path.write_bytes(image + fnv1a64(image).to_bytes(8, "little"))
        logits = path.with_suffix(".npy")
        command = ["env", f"CRIA_EMULATOR_SEED={seed}"]
        command += [f"CRIA_EMULATOR_DEVICE={self.device}"]
        command += ["CRIA_EMULATOR_THREADS=1"]
        flags = ["--device=emulated", "--random-weights=1", f"--ids={self.ids}"]
        flags += [f"--max-tokens={self.tokens}", "--temperature=0", f"--logits={logits}"]
        done = execute(command + self.tools.run_command(path, *flags))
        path.unlink()
        return done, np.load(logits) if done.status == 0 else None

    def plant(self, mutant):
        """The result of a mutant with the first seed that finds it, or else the last."""
        what, *change = mutant
        ptx = mutated(self.ptx, *change)
        for seed in SEEDS:
            done, logits = self.run(what, ptx, seed)
            if done.status:
                break
        return done, logits


def check_right(planter):
    for seed in SEEDS:
        done, logits = planter.run("right", planter.ptx, seed)
        check("cria-emulator" not in done.ok().errors, done)
    return logits


def check_planted(planter, found, different=()):
    right, mutants = check_right(planter), some([*found, *different], 16)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(planter.plant, mutants))
    missed = []
    for mutant, (done, logits) in zip(mutants, results):
        what, kernel = mutant[:2]
        # At its launch, or when it is loaded.
        named = re.search(rf"cria-emulator: error: .*kernel '{kernel}'", done.errors)
        named = named is not None
        if mutant in different:
            named |= logits is not None and not np.abs(logits - right).max() <= 1e-4
        if not named:
            missed.append(f"{what} ({kernel}): {done.errors[:300]}")
    check(not missed, "not found:\n" + "\n".join(missed))


def main():
    tools = Tools(*sys.argv[1:3])
    if sys.argv[3:] == ["decode"]:
        planter = Planter(tools, TURNS, "--chunk=89", ids=TURNS_IDS)
        return check_planted(planter, FOUND_IN_TURNS, DIFFERENT_IN_TURNS)
    if sys.argv[3:] == ["bulk"]:
        flags = ["--chip=sm_90a", "--chunk=6"]
        planter = Planter(tools, BULK, *flags, device="sm_90")
        return check_planted(planter, FOUND_BULK, DIFFERENT_BULK)
    if sys.argv[3:]:
        for model, ids, *mutants in HOPPER[sys.argv[3]]:
            flags = ["--chip=sm_90a", f"--chunk={model['max_position_embeddings']}"]
            planter = Planter(tools, model, *flags, ids=ids, device="sm_90")
            check_planted(planter, *mutants)
        return
    check_planted(Planter(tools, CONFIG, tokens=2), FOUND, DIFFERENT)
    check_planted(Planter(tools, SINGLE, tokens=2), FOUND_IN_SCAN)
    check_planted(Planter(tools, BLOCKS, "--quantize=q8_0", tokens=2), FOUND_IN_BLOCKS)
    check_planted(Planter(tools, EXPERTS, tokens=2), FOUND_IN_EXPERTS)
    flags = {"ids": OVERLAP_IDS, "device": "sm_90", "tokens": 3}
    for model, found in (CONFIG, FOUND_IN_OVERLAP), (SINGLE, FOUND_IN_SCAN_OVERLAP):
        check_planted(Planter(tools, model, "--chip=sm_90", **flags), found)


main()
