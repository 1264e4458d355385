/* Bytes of what a plug-in's process answers, for a library that wants to answer in its place. */
#ifndef ZP_REPLY_SIZE_H
#define ZP_REPLY_SIZE_H
#define ZP_REPLY_BYTES 656
#endif
