/* A library whose constructor writes the file that ZP_CONSTRUCTED names: evidence that it was loaded. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void write_file(void) {
  const char* name = getenv("ZP_CONSTRUCTED");
  FILE* file = name != NULL ? fopen(name, "w") : NULL;
  if (file != NULL) fclose(file);
}
