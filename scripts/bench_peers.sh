#!/usr/bin/env bash
# Times Cria beside llama.cpp, PyTorch and OpenVINO.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$root/build/peers peers=cria,llama.cpp,pytorch,openvino bin=$root/build/bin llama='' config=''
usage() {
  cat <<'TEXT'
usage: scripts/bench_peers.sh [--peers=NAME,...] [--folder=DIR] [--bin=DIR]
                              [--llama-bin=DIR] [--types=NAME,...]
                              [--prompts=N,...] [--depths=N,...] [--seconds=N]
                              [--threads=N] [--out=FILE] [--config=FILE]
Times Llama-3.2-1B's shape, random weights, on the CPU, and prints a table:
prompts, decoding behind some positions, and 1, 4 and 8 texts at once. For a
quiet machine with 24 GiB of memory and 24 of disk.

The peers come from packages, once: PyTorch, transformers and OpenVINO as wheels,
llama.cpp is built from the source in llama-cpp-python's (5 to 10 minutes on two
cores). Then programs take turns, each in a process of its own for each type of
weights, until 18 minutes are over; figures are medians of the rounds.

--peers=NAME,...  some of cria, llama.cpp, pytorch, openvino
--folder=DIR      for what is installed and for models (default: build/peers)
--bin=DIR         of cria-compile and cria-bench (default: build/bin)
--llama-bin=DIR   of a llama-bench and llama-batched-bench that are there
--types=NAME,...  some of bf16, f32, f16, q8_0, q4_0 (default: all)
--prompts=N,...   tokens of prompts (default: 16,512,2048)
--depths=N,...    positions before the tokens that are decoded (default: 0,2048)
--seconds=N       no round begins after so many (default: 1080)
--threads=N       default: one a core
--out=FILE        the table, and each figure in FILE.jsonl (default: in the folder)
--config=FILE     another model, such as those of scripts/bench_peers/shapes: one text at
                  a time, in bf16, f32 or f16. transformers draws the weights.
TEXT
}
options=()
for option; do
  case $option in
  -h | --help) usage && exit ;;
  --version) exec "$root/scripts/version.sh" bench_peers.sh ;;
  --peers=*) peers=${option#*=} ;;
  --folder=*) folder=${option#*=} ;;
  --bin=*) bin=${option#*=} ;;
  --llama-bin=*) llama=${option#*=} ;;
  --config=*) config=${option#*=} options+=("$option") ;;
  --types=* | --prompts=* | --depths=* | --seconds=* | --threads=* | --out=*) options+=("$option") ;;
  *) echo "bench_peers.sh: error: unknown option $option; see --help" >&2 && exit 2 ;;
  esac
done
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

has() { [[ ,$peers, == *,$1,* ]]; }
# venv NAME PACKAGE...: a virtual environment with the packages.
venv() {
  local to=$folder/$1
  shift
  [[ ! -e $to/ready ]] || return 0
  python3 -m venv "$to"
  "$to/bin/pip" install -q "$@"
  touch "$to/ready"
}
venv tools gguf numpy
! { has pytorch || [[ -n $config ]]; } || venv pytorch torch transformers gguf numpy
! has openvino || venv openvino openvino openvino-genai optimum-intel nncf torch numpy
source=$folder/source/vendor/llama.cpp
if has llama.cpp && [[ ( -z $llama || -n $config ) && ! -e $source ]]; then
  rm -rf "$folder/source" && mkdir "$folder/source"
  "$folder/tools/bin/pip" download -q --no-deps --no-binary :all: \
    -d "$folder/source" llama-cpp-python
  tar xzf "$folder"/source/llama_cpp_python-*.tar.gz -C "$folder/source" --strip-components=1
fi
if has llama.cpp && [[ -z $llama ]]; then
  llama=$folder/llama.cpp/bin
  if [[ ! -x $llama/llama-batched-bench ]]; then
    cmake -S "$source" -B "$folder/llama.cpp" -G Ninja \
      -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_OPENSSL=OFF >/dev/null
    cmake --build "$folder/llama.cpp" --target llama-bench llama-batched-bench >/dev/null
  fi
fi
exec "$folder/tools/bin/python" "$root/scripts/bench_peers/bench.py" \
  "--folder=$folder" "--peers=$peers" "--bin=$bin" "--llama-bin=$llama" \
  "--llama-source=$source" "${options[@]}"
