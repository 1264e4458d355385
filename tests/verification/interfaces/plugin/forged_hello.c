/* A library that describes itself over the connection, with a name that is a path. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/verification/interfaces/plugin/reply_size.h"

__attribute__((constructor)) static void describe(void) {
  static char hello[ZP_HELLO_BYTES];
  strcpy(hello + ZP_HELLO_NAME, "../../evil\x1b[2J");
  hello[ZP_HELLO_OPERATIONS - 4] = 1;
  strcpy(hello + ZP_HELLO_OPERATIONS, "clip");
  send(3, hello, sizeof(hello), 0);
  for (;;) pause();
}
