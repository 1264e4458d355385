/* Bytes of what a plug-in's process answers, for a library that wants to answer in its place. */
#ifndef ZP_REPLY_SIZE_H
#define ZP_REPLY_SIZE_H
#define ZP_REPLY_BYTES 656
#define ZP_HELLO_BYTES 3924
#define ZP_HELLO_NAME 800 /* where its name begins, and its operations, after their number */
#define ZP_HELLO_OPERATIONS 852
#endif
