// Functions whose null stream is the thread's own: they mark the call and
// continue in the function of the usual name. They are assembly, because a jump
// passes on arguments of any kind.
#include "tools/emulator/driver/Driver.h"

#define FUNCTION(name, exported, since)
#define PER_THREAD(exported, suffix)                                           \
  __asm__(".pushsection .text\n"                                               \
          ".globl " #exported #suffix "\n"                                     \
          ".type " #exported #suffix ", @function\n" #exported #suffix ":\n"   \
          "movq criaPerThreadStream@gottpoff(%rip), %rax\n"                    \
          "movb $1, %fs:(%rax)\n"                                              \
          "jmp " #exported "@PLT\n"                                            \
          ".size " #exported #suffix ", . - " #exported #suffix "\n"           \
          ".popsection\n");
#include "tools/emulator/driver/Functions.def"
