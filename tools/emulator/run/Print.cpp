// printf and malloc of the device.
#include "tools/emulator/run/Print.h"

#include "tools/emulator/run/Block.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace cria::emulator {
namespace {

/// Formats as printf does. The arguments follow one another in memory, each
/// aligned to its size: 8 bytes for floats, pointers and long integers, 4 for
/// others.
class Printer {
public:
  Printer(Thread &thread, uint64_t arguments, int line)
      : thread(thread), arguments(arguments), line(line) {}

  /// Returns the number of arguments.
  int print(const std::string &format) {
    for (size_t at = 0; at < format.size();) {
      size_t end = std::min(format.find('%', at), format.size());
      text.append(format, at, end - at);
      at = end;
      if (at < format.size())
        at = conversion(format, at);
    }
    thread.block->print(text);
    return count;
  }

private:
  template <typename T> T next() {
    arguments = (arguments + sizeof(T) - 1) & ~uint64_t(sizeof(T) - 1);
    T value = {};
    if (thread.block->mayRead(thread, arguments, sizeof(T), line,
                              "argument of printf"))
      std::memcpy(&value, reinterpret_cast<void *>(arguments), sizeof(T));
    arguments += sizeof(T);
    ++count;
    return value;
  }

  /// One `%...`, from `at` on; returns where it ends. What is no conversion is
  /// printed as it stands.
  size_t conversion(const std::string &format, size_t at) {
    constexpr char kFlags[] = "-+ #0", kLengths[] = "hljztLq";
    std::string spec = "%";
    size_t end = at + 1;
    auto take = [&](const char *of) {
      while (end < format.size() && std::strchr(of, format[end]))
        spec += format[end++];
    };
    auto number = [&] {
      if (end < format.size() && format[end] == '*') {
        spec += std::to_string(next<int32_t>());
        ++end;
      }
      take("0123456789");
    };
    take(kFlags);
    number();
    if (end < format.size() && format[end] == '.') {
      spec += format[end++];
      number();
    }
    size_t lengthAt = end;
    while (end < format.size() && std::strchr(kLengths, format[end]))
      ++end;
    std::string length = format.substr(lengthAt, end - lengthAt);
    if (end == format.size()) {
      text.append(format, at, end - at);
      return end;
    }
    convert(spec, length, format[end]);
    return end + 1;
  }

  void convert(const std::string &spec, const std::string &length, char type) {
    bool isLong = length.find_first_of("ljztq") != std::string::npos;
    switch (type) {
    case 'd':
    case 'i':
      return isLong ? add(spec + "ll" + type, next<long long>())
                    : add(spec + length + type, next<int>());
    case 'o':
    case 'u':
    case 'x':
    case 'X':
      return isLong ? add(spec + "ll" + type, next<unsigned long long>())
                    : add(spec + length + type, next<unsigned>());
    case 'c':
      return add(spec + type, next<int>());
    case 'p':
      return add(spec + type, next<void *>());
    case 's': {
      auto address = next<uint64_t>();
      std::string argument =
          address ? thread.block->textAt(thread, address, line, "%s of printf")
                  : "(null)";
      return add(spec + type, argument.c_str());
    }
    case 'a':
    case 'A':
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      return add(spec + type, next<double>());
    case '%':
      text += '%';
      return;
    default:
      text += spec + length + type;
    }
  }

  template <typename T> void add(const std::string &spec, T value) {
    int size = std::snprintf(nullptr, 0, spec.c_str(), value);
    if (size <= 0)
      return;
    size_t begin = text.size();
    text.resize(begin + size_t(size) + 1);
    std::snprintf(&text[begin], size_t(size) + 1, spec.c_str(), value);
    text.resize(begin + size_t(size));
  }

  Thread &thread;
  uint64_t arguments;
  int line;
  int count = 0;
  std::string text;
};

} // namespace

std::string Block::textAt(Thread &thread, uint64_t address, int line,
                          const char *what) {
  std::string text;
  for (; mayRead(thread, address, 1, line, what); ++address) {
    char next = *reinterpret_cast<char *>(address);
    if (!next)
      break;
    text += next;
  }
  return text;
}

} // namespace cria::emulator

using namespace cria::emulator;

uint32_t emulatorPrint(Thread *thread, uint64_t format, uint64_t arguments,
                       int line) {
  if (!format)
    return uint32_t(-1);
  Printer printer(*thread, arguments, line);
  return uint32_t(printer.print(
      thread->block->textAt(*thread, format, line, "format of printf")));
}

uint64_t emulatorAllocate(Thread *thread, uint64_t bytes) {
  return thread->block->launch().memory->allocateOnHeap(bytes);
}

void emulatorFree(Thread *thread, uint64_t address, int line) {
  thread->block->freeOnHeap(*thread, address, line);
}
