#include "test/emulator/Nvcc.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace cria::emulator {

bool hasNvcc() {
  static const bool found = std::system("nvcc --version >/dev/null 2>&1") == 0;
  return found;
}

std::string ptxOf(const std::string &name) {
  std::string source =
      CRIA_SOURCE_FOLDER "/test/emulator/kernels/" + name + ".cu";
  auto out = std::filesystem::temp_directory_path() /
             ("cria-" + std::to_string(getpid()) + "-" + name + ".ptx");
  std::string command = "nvcc -ptx -O3 -std=c++17 -arch=sm_80 -lineinfo -o " +
                        out.string() + " " + source;
  if (std::system(command.c_str()) != 0)
    return "nvcc failed";
  std::ostringstream text;
  text << std::ifstream(out).rdbuf();
  std::filesystem::remove(out);
  return text.str();
}

} // namespace cria::emulator
